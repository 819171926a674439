//! The things that ways lead to: operations, questions, splits and merges.

use super::palette::{INK, NEUTRAL, PAPER, Palette, SOFT_INK, Tint};
use super::piece::{Anchor, DETAIL, Edge, Face, Mark, NAME, Piece, pair_width};
use super::shape::RunKind;

/// The height of a box with two lines.
const HEIGHT: f64 = 46.0;
/// The height of a box with one line.
const LOW: f64 = 28.0;
/// The room to the left and the right of a text.
const SIDE: f64 = 13.0;
/// How far the ends of a question and the sides of a split lean.
const SLANT: f64 = 12.0;

/// A sequential operation and its thread.
pub(super) fn run(palette: &Palette, name: &str, place: &str, kind: RunKind) -> Piece {
    let how = match kind {
        RunKind::Waiting => "",
        RunKind::Asynchronous => "asynchronous",
        RunKind::Inline => "inline",
    };
    let detail = match (place, how) {
        ("", how) => how.to_owned(),
        (place, "") => place.to_owned(),
        (place, how) => format!("{place}, {how}"),
    };
    let tint = palette.tint(place);
    let edge = if kind == RunKind::Asynchronous { Edge::Dashed } else { Edge::Plain };
    let radius = if kind == RunKind::Inline { HEIGHT / 2.0 } else { 8.0 };
    let side = if kind == RunKind::Inline { SIDE + 4.0 } else { SIDE };
    let width = widest(&[(NAME, name), (DETAIL, &detail)]) + 2.0 * side;
    let mut piece = sized(width, HEIGHT);
    piece.marks.push(frame(0.0, width, HEIGHT, radius, tint, edge));
    two_lines(&mut piece, name, &detail, tint);
    piece
}

/// An operation used as a step of another: a double frame.
pub(super) fn call(operation: &str) -> Piece {
    const GAP: f64 = 3.5;
    const DETAIL_TEXT: &str = "operation";
    let width = widest(&[(NAME, operation), (DETAIL, DETAIL_TEXT)]) + 2.0 * (SIDE + GAP);
    let height = HEIGHT + 2.0 * GAP;
    let mut piece = sized(width, height);
    piece.marks.push(frame(0.0, width, height, 8.0, Tint { fill: PAPER, ..NEUTRAL }, Edge::Plain));
    let (inner, low) = (width - 2.0 * GAP, height - 2.0 * GAP);
    piece.marks.push(frame(GAP, inner, low, 5.0, NEUTRAL, Edge::Plain));
    two_lines(&mut piece, operation, DETAIL_TEXT, NEUTRAL);
    piece
}

/// A question asked of a token: the two ends of its box are points.
pub(super) fn question(keyword: &str, asked: &str) -> Piece {
    let faces = [NAME, DETAIL];
    let width = pair_width(faces, [keyword, asked]) + 2.0 * (SLANT + 5.0);
    let mut piece = sized(width, LOW + 4.0);
    let half = piece.up;
    piece.marks.push(Mark::Polygon {
        corners: vec![
            (0.0, 0.0),
            (SLANT, -half),
            (width - SLANT, -half),
            (width, 0.0),
            (width - SLANT, half),
            (SLANT, half),
        ],
        tint: NEUTRAL,
    });
    piece.write_pair((width / 2.0, 4.5), Anchor::Middle, faces, [keyword, asked]);
    piece
}

/// Where tokens part.
pub(super) fn split(palette: &Palette, name: &str, place: &str, window: &str) -> Piece {
    let mut piece = trapezoid(palette, name, place, window, false);
    if !window.is_empty() {
        let at = (piece.width / 2.0, piece.down + 14.0);
        piece.write(at, Anchor::Middle, DETAIL, SOFT_INK, window);
    }
    piece
}

/// Where tokens come together.
pub(super) fn merge(palette: &Palette, name: &str, place: &str) -> Piece {
    trapezoid(palette, name, place, "", true)
}

/// A split or merge function of one of several branches.
pub(super) fn function(palette: &Palette, name: &str, place: &str) -> Piece {
    let face = Face { bold: false, size: 12.0, ..NAME };
    let tint = palette.tint(place);
    let width = face.width(name) + 2.0 * (SIDE - 1.0);
    let mut piece = sized(width, LOW - 2.0);
    let height = 2.0 * piece.up;
    piece.marks.push(frame(0.0, width, height, height / 2.0, tint, Edge::Plain));
    piece.write((width / 2.0, 4.2), Anchor::Middle, face, INK, name);
    piece
}

/// A box whose left or right side is shorter than the other.
fn trapezoid(palette: &Palette, name: &str, place: &str, below: &str, narrows: bool) -> Piece {
    let tint = palette.tint(place);
    let texts = widest(&[(NAME, name), (DETAIL, place), (DETAIL, below)]);
    let width = texts + 2.0 * SIDE;
    let mut piece = sized(width, HEIGHT + 4.0);
    let long = piece.up;
    let short = long - 7.0;
    let (left, right) = if narrows { (long, short) } else { (short, long) };
    piece.marks.push(Mark::Polygon {
        corners: vec![(0.0, -left), (width, -right), (width, right), (0.0, left)],
        tint,
    });
    two_lines(&mut piece, name, place, tint);
    piece
}

/// A name in the middle, and what explains it beneath.
fn two_lines(piece: &mut Piece, name: &str, detail: &str, tint: Tint) {
    let x = piece.width / 2.0;
    if detail.is_empty() {
        piece.write((x, 4.5), Anchor::Middle, NAME, INK, name);
    } else {
        piece.write((x, -3.0), Anchor::Middle, NAME, INK, name);
        piece.write((x, 13.5), Anchor::Middle, DETAIL, tint.text, detail);
    }
}

fn sized(width: f64, height: f64) -> Piece {
    Piece { width, up: height / 2.0, down: height / 2.0, ..Piece::default() }
}

fn frame(x: f64, width: f64, height: f64, radius: f64, tint: Tint, edge: Edge) -> Mark {
    Mark::Box { x, y: -height / 2.0, width, height, radius, tint, edge }
}

fn widest(texts: &[(Face, &str)]) -> f64 {
    texts.iter().map(|(face, text)| face.width(text)).fold(20.0, f64::max)
}

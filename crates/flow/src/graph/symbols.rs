//! The symbols of a picture: operations, conditions, splits and merges.

use super::palette::{INK, NEUTRAL, PAPER, Palette, SOFT_INK, Tint};
use super::part::{Anchor, Border, DETAIL, Face, GraphMark, NAME, PicturePart, pair_width};
use super::shape::RunKind;

/// The height of a box with two lines.
const HEIGHT: f64 = 46.0;
/// The height of a box with one line.
const LOW: f64 = 28.0;
/// The space to the left and the right of a text.
const SIDE: f64 = 13.0;
/// The slant of the ends of a condition and the sides of a split.
const SLANT: f64 = 12.0;

/// Draws a sequential operation and its thread.
pub(super) fn run(palette: &Palette, name: &str, thread: &str, kind: RunKind) -> PicturePart {
    let how = match kind {
        RunKind::Synchronous => "",
        RunKind::Asynchronous => "asynchronous",
        RunKind::Inline => "inline",
    };
    let detail = match (thread, how) {
        ("", how) => how.to_owned(),
        (thread, "") => thread.to_owned(),
        (thread, how) => format!("{thread}, {how}"),
    };
    let tint = palette.tint(thread);
    let border = if kind == RunKind::Asynchronous { Border::Dashed } else { Border::Plain };
    let radius = if kind == RunKind::Inline { HEIGHT / 2.0 } else { 8.0 };
    let side = if kind == RunKind::Inline { SIDE + 4.0 } else { SIDE };
    let width = widest(&[(NAME, name), (DETAIL, &detail)]) + 2.0 * side;
    let mut part = sized(width, HEIGHT);
    part.marks.push(frame(0.0, width, HEIGHT, radius, tint, border));
    two_lines(&mut part, name, &detail, tint);
    part
}

/// Draws an operation used as a step: a double frame.
pub(super) fn call(operation: &str) -> PicturePart {
    const GAP: f64 = 3.5;
    const DETAIL_TEXT: &str = "operation";
    let width = widest(&[(NAME, operation), (DETAIL, DETAIL_TEXT)]) + 2.0 * (SIDE + GAP);
    let height = HEIGHT + 2.0 * GAP;
    let mut part = sized(width, height);
    part.marks.push(frame(0.0, width, height, 8.0, Tint { fill: PAPER, ..NEUTRAL }, Border::Plain));
    let (inner, low) = (width - 2.0 * GAP, height - 2.0 * GAP);
    part.marks.push(frame(GAP, inner, low, 5.0, NEUTRAL, Border::Plain));
    two_lines(&mut part, operation, DETAIL_TEXT, NEUTRAL);
    part
}

/// Draws a condition or a range: a hexagon.
pub(super) fn condition(keyword: &str, text: &str) -> PicturePart {
    let faces = [NAME, DETAIL];
    let width = pair_width(faces, [keyword, text]) + 2.0 * (SLANT + 5.0);
    let mut part = sized(width, LOW + 4.0);
    let half = part.up;
    part.marks.push(GraphMark::Polygon {
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
    part.write_pair((width / 2.0, 4.5), Anchor::Middle, faces, [keyword, text]);
    part
}

/// Draws a split.
pub(super) fn split(palette: &Palette, name: &str, thread: &str, window: &str) -> PicturePart {
    let mut part = trapezoid(palette, name, thread, window, false);
    if !window.is_empty() {
        let at = (part.width / 2.0, part.down + 14.0);
        part.write(at, Anchor::Middle, DETAIL, SOFT_INK, window);
    }
    part
}

/// Draws a merge.
pub(super) fn merge(palette: &Palette, name: &str, thread: &str) -> PicturePart {
    trapezoid(palette, name, thread, "", true)
}

/// Draws the split or merge function of one of several branches.
pub(super) fn function(palette: &Palette, name: &str, thread: &str) -> PicturePart {
    let face = Face { bold: false, size: 12.0, ..NAME };
    let tint = palette.tint(thread);
    let width = face.width(name) + 2.0 * (SIDE - 1.0);
    let mut part = sized(width, LOW - 2.0);
    let height = 2.0 * part.up;
    part.marks.push(frame(0.0, width, height, height / 2.0, tint, Border::Plain));
    part.write((width / 2.0, 4.2), Anchor::Middle, face, INK, name);
    part
}

/// Draws a box whose left or right side is shorter than the other.
fn trapezoid(
    palette: &Palette,
    name: &str,
    thread: &str,
    below: &str,
    narrows: bool,
) -> PicturePart {
    let tint = palette.tint(thread);
    let texts = widest(&[(NAME, name), (DETAIL, thread), (DETAIL, below)]);
    let width = texts + 2.0 * SIDE;
    let mut part = sized(width, HEIGHT + 4.0);
    let long = part.up;
    let short = long - 7.0;
    let (left, right) = if narrows { (long, short) } else { (short, long) };
    part.marks.push(GraphMark::Polygon {
        corners: vec![(0.0, -left), (width, -right), (width, right), (0.0, left)],
        tint,
    });
    two_lines(&mut part, name, thread, tint);
    part
}

/// Writes a name, and a detail beneath.
fn two_lines(part: &mut PicturePart, name: &str, detail: &str, tint: Tint) {
    let x = part.width / 2.0;
    if detail.is_empty() {
        part.write((x, 4.5), Anchor::Middle, NAME, INK, name);
    } else {
        part.write((x, -3.0), Anchor::Middle, NAME, INK, name);
        part.write((x, 13.5), Anchor::Middle, DETAIL, tint.text, detail);
    }
}

fn sized(width: f64, height: f64) -> PicturePart {
    PicturePart { width, up: height / 2.0, down: height / 2.0, ..PicturePart::default() }
}

fn frame(x: f64, width: f64, height: f64, radius: f64, tint: Tint, border: Border) -> GraphMark {
    GraphMark::Box { x, y: -height / 2.0, width, height, radius, tint, border }
}

fn widest(texts: &[(Face, &str)]) -> f64 {
    texts.iter().map(|(face, text)| face.width(text)).fold(20.0, f64::max)
}

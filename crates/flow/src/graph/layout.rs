//! Where everything goes.
//!
//! Each construct is laid out from the parts within it, which are laid out before: a sequence from
//! left to right, branches one above the other, what is repeated under the way back, what may be
//! left out above the way that leaves it out.

use super::chain::Chain;
use super::names::short_name;
use super::node;
use super::palette::{HAIRLINE, NEUTRAL, Palette, SOFT_INK, Tint};
use super::piece::{Anchor, DOT, Edge, Mark, NOTE, Piece};
use super::shape::{Branch, Shape, SplitKind};

/// The distance between parts that lie one above the other.
const ROW_GAP: f64 = 16.0;
/// The height of the strip in which a way runs above or below a part.
const STRIP: f64 = 20.0;
/// The distance between a frame and what it holds.
const PAD: f64 = 14.0;
/// The room in which ways swing from a split to its branches.
const FAN: f64 = 38.0;

/// What a frame around a split looks like.
const FRAME: Tint = Tint { fill: "#fbfbfc", line: HAIRLINE, ..NEUTRAL };

/// Lays out the parts of one picture.
pub(super) struct Layout<'p> {
    pub(super) palette: &'p Palette,
}

impl Layout<'_> {
    /// The ways and parts that a token of type `input` takes through a shape.
    pub(super) fn chain(&self, shape: &Shape, input: &str) -> Chain {
        let mut steps = Vec::new();
        flatten(shape, &mut steps);
        let mut token = short_name(input);
        let mut chain = Chain::new(&token);
        for step in steps {
            let part = self.part(step, &token);
            token = output(step, &token);
            chain.push(part, &token);
        }
        chain
    }

    fn part(&self, shape: &Shape, input: &str) -> Piece {
        match shape {
            // A sequence has been taken apart by the caller.
            Shape::Sequence(_) => Piece::default(),
            Shape::Run { name, place, kind, .. } => node::run(self.palette, name, place, *kind),
            Shape::Call { operation, .. } => node::call(operation),
            Shape::If { condition, then, otherwise } => {
                self.choice(condition, then, otherwise.as_deref(), input)
            }
            Shape::While { condition, body } => {
                self.repetition(node::question("while", condition), ["yes", "no"], body, input)
            }
            Shape::For { range, body } => {
                self.repetition(node::question("for", range), ["each", "done"], body, input)
            }
            Shape::Split { kind, place, window, branches, merge_place, .. } => {
                let inside = match branches.as_slice() {
                    [branch] => self.one_branch(branch, place, window, merge_place),
                    branches => self.many_branches(branches, place, window, merge_place),
                };
                framed(inside, &caption(*kind))
            }
        }
    }

    fn choice(
        &self,
        condition: &str,
        then: &Shape,
        otherwise: Option<&Shape>,
        input: &str,
    ) -> Piece {
        let question = node::question("if", condition);
        let (middle, right, foot) = (question.width / 2.0, question.width, question.down);
        let mut then = self.chain(then, input);
        then.note = "yes".into();
        then.open_end();
        let mut other = otherwise.map(|shape| self.chain(shape, input));
        if let Some(other) = &mut other {
            other.note = "no".into();
            other.open_end();
        }
        let width = other.as_ref().map_or(0.0, Chain::width).max(then.width());
        let mut piece = Piece::default();
        piece.put(0.0, 0.0, question);
        piece.put(right, 0.0, then.build(width));
        let join = right + width + DOT;
        let y = match other {
            None => {
                let y = piece.down + STRIP;
                let no = (middle + 10.0, y - 6.0);
                piece.write(no, Anchor::Start, NOTE, SOFT_INK, "no");
                let corners = vec![(middle, foot), (middle, y), (join, y), (join, DOT)];
                piece.marks.push(Mark::Way { corners, arrow: false });
                y
            }
            Some(other) => {
                let other = other.build(width);
                let y = piece.down + ROW_GAP + other.up;
                let corners = vec![(middle, foot), (middle, y), (right + 1.0, y)];
                piece.marks.push(Mark::Way { corners, arrow: false });
                piece.put(right, y, other);
                let corners = vec![(right + width - 1.0, y), (join, y), (join, DOT)];
                piece.marks.push(Mark::Way { corners, arrow: false });
                y
            }
        };
        piece.down = piece.down.max(y);
        piece.marks.push(Mark::Dot { x: join, y: 0.0, hollow: false });
        piece.width = join + DOT;
        piece
    }

    fn repetition(
        &self,
        question: Piece,
        [again, over]: [&str; 2],
        body: &Shape,
        input: &str,
    ) -> Piece {
        const BEFORE: f64 = 24.0;
        let mut piece = Piece::default();
        let left = 2.0 * DOT + BEFORE;
        let (middle, foot) = (left + question.width / 2.0, question.down);
        let right = left + question.width;
        let corners = vec![(DOT, 0.0), (left, 0.0)];
        piece.marks.push(Mark::Way { corners, arrow: true });
        piece.put(left, 0.0, question);
        let mut body = self.chain(body, input);
        body.note = again.into();
        body.open_end();
        let width = body.width();
        piece.put(right, 0.0, body.build(width));

        // Back above the body, to the point before the question.
        let turn = right + width;
        let above = -(piece.up + STRIP * 0.7);
        let corners =
            vec![(turn - 1.0, 0.0), (turn + 10.0, 0.0), (turn + 10.0, above), (DOT, above)];
        let corners = [corners, vec![(DOT, -DOT)]].concat();
        piece.marks.push(Mark::Way { corners, arrow: true });
        piece.marks.push(Mark::Dot { x: DOT, y: 0.0, hollow: false });

        // On below the body.
        let below = piece.down + STRIP;
        let exit = turn + 10.0 + STRIP;
        piece.write((middle + 10.0, below - 6.0), Anchor::Start, NOTE, SOFT_INK, over);
        let corners =
            vec![(middle, foot), (middle, below), (exit, below), (exit, 0.0), (exit + 12.0, 0.0)];
        piece.marks.push(Mark::Way { corners, arrow: false });
        piece.up = piece.up.max(-above);
        piece.down = piece.down.max(below);
        piece.width = exit + 11.0;
        piece
    }

    fn one_branch(&self, branch: &Branch, place: &str, window: &str, merge_place: &str) -> Piece {
        let split = node::split(self.palette, &branch.split, place, &window_text(window));
        let merge = node::merge(self.palette, &branch.merge, merge_place);
        let body = self.chain(&branch.body, &branch.input);
        let (left, width, right) = (split.width, body.width(), merge.width);
        let mut piece = Piece { width: left + width + right, ..Piece::default() };
        piece.put(0.0, 0.0, split);
        piece.put(left, 0.0, body.build(width));
        piece.put(left + width, 0.0, merge);
        piece
    }

    fn many_branches(
        &self,
        branches: &[Branch],
        place: &str,
        window: &str,
        merge_place: &str,
    ) -> Piece {
        let split = node::split(self.palette, "split", place, &window_text(window));
        let merge = node::merge(self.palette, "merge", merge_place);
        let rows: Vec<(Piece, Chain, Piece)> = branches
            .iter()
            .map(|branch| {
                let first = node::function(self.palette, &branch.split, place);
                let last = node::function(self.palette, &branch.merge, merge_place);
                (first, self.chain(&branch.body, &branch.input), last)
            })
            .collect();
        let row_width =
            |(first, body, last): &(Piece, Chain, Piece)| first.width + body.width() + last.width;
        let width = rows.iter().map(row_width).fold(0.0, f64::max);
        let rows: Vec<Piece> = rows.into_iter().map(|row| one_row(row, width)).collect();

        // The middle of the rows' ways is the way of the whole.
        let mut heights = Vec::with_capacity(rows.len());
        let mut y = 0.0;
        let mut below: f64 = 0.0;
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                y += below + ROW_GAP + row.up;
            }
            below = row.down;
            heights.push(y);
        }
        let middle = y / 2.0;
        let (begin, end) = (split.width, split.width + FAN + width);
        let mut piece = Piece { width: end + FAN + merge.width, ..Piece::default() };
        piece.put(0.0, 0.0, split);
        piece.put(end + FAN, 0.0, merge);
        for (row, height) in rows.into_iter().zip(heights) {
            let y = height - middle;
            // Ways leave the split and reach the merge side by side, not all at one point.
            let side = (y * 0.15).clamp(-16.0, 16.0);
            let (from, to) = ((begin, side), (begin + FAN, y));
            piece.marks.push(Mark::Swing { from, to, arrow: true });
            let (from, to) = ((end, y), (end + FAN, side));
            piece.marks.push(Mark::Swing { from, to, arrow: true });
            piece.put(begin + FAN, y, row);
        }
        piece
    }
}

/// A branch between its split function and its merge function.
fn one_row((first, body, last): (Piece, Chain, Piece), width: f64) -> Piece {
    let (begin, end) = (first.width, width - last.width);
    let mut row = Piece { width, ..Piece::default() };
    row.put(0.0, 0.0, first);
    row.put(begin, 0.0, body.build(end - begin));
    row.put(end, 0.0, last);
    row
}

/// A part within a frame that says what it is.
fn framed(inside: Piece, caption: &str) -> Piece {
    let caption_height = NOTE.size + 8.0;
    let needed = NOTE.width(caption) + 10.0;
    let spread = (needed - inside.width).max(0.0) / 2.0;
    let lead = PAD + spread;
    let (up, down) = (inside.up + caption_height, inside.down + PAD * 0.8);
    let width = inside.width + 2.0 * lead;
    let mut piece = Piece { width, up, down, lead, trail: lead, ..Piece::default() };
    piece.marks.push(Mark::Box {
        x: 0.0,
        y: -up,
        width,
        height: up + down,
        radius: 10.0,
        tint: FRAME,
        edge: Edge::Thin,
    });
    piece.put(lead, 0.0, inside);
    let at = (PAD * 0.7, NOTE.size + 4.0 - up);
    piece.write(at, Anchor::Start, NOTE, SOFT_INK, caption);
    piece
}

fn window_text(window: &str) -> String {
    if window.is_empty() { String::new() } else { format!("window: {window}") }
}

/// What a split is called.
pub(super) fn caption(kind: SplitKind) -> String {
    match kind {
        SplitKind::Parallel => "parallel".to_owned(),
        SplitKind::While => "parallel while".to_owned(),
        SplitKind::Indexed { indices: 0 | 1 } => "indexed parallel".to_owned(),
        SplitKind::Indexed { indices } => format!("indexed parallel, {indices} indices"),
    }
}

/// The steps of a shape, sequences within sequences taken apart.
pub(super) fn flatten<'s>(shape: &'s Shape, steps: &mut Vec<&'s Shape>) {
    match shape {
        Shape::Sequence(parts) => parts.iter().for_each(|part| flatten(part, steps)),
        _ => steps.push(shape),
    }
}

/// The short name of the type that a shape makes of `input`.
pub(super) fn output(shape: &Shape, input: &str) -> String {
    match shape {
        Shape::Sequence(parts) => {
            parts.iter().fold(input.to_owned(), |token, part| output(part, &token))
        }
        Shape::Run { output, .. } | Shape::Call { output, .. } | Shape::Split { output, .. } => {
            short_name(output)
        }
        Shape::If { then, .. } => output(then, input),
        // What is repeated takes its own output again.
        Shape::While { .. } | Shape::For { .. } => input.to_owned(),
    }
}

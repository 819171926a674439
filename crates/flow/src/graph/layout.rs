//! The layout of a picture.
//!
//! The layout of a construct is built from the layouts of the parts within it: a sequence from left
//! to right, branches one above the other, a repeated part under the line back, a conditional part
//! above the line that bypasses it.

use super::names::short_name;
use super::palette::{HAIRLINE, NEUTRAL, Palette, SOFT_INK, Tint};
use super::part::{Anchor, Border, DOT, GraphMark, NOTE, PicturePart};
use super::sequence::SequenceLayout;
use super::shape::{Branch, GraphShape, SplitKind};
use super::symbols;

/// The vertical distance between parts.
const ROW_GAP: f64 = 16.0;
/// The height of the strip for a line above or below a part.
const STRIP: f64 = 20.0;
/// The distance between a frame and its content.
const PAD: f64 = 14.0;
/// The width of the curves between a split and its branches.
const FAN: f64 = 38.0;

/// The colours of the frame around a split.
const FRAME: Tint = Tint { fill: "#fbfbfc", line: HAIRLINE, ..NEUTRAL };

/// Lays out the parts of one picture.
pub(super) struct PictureLayout<'p> {
    pub(super) palette: &'p Palette,
}

impl PictureLayout<'_> {
    /// Lays out a shape as a sequence; `input` is the type of the token that enters.
    pub(super) fn sequence(&self, shape: &GraphShape, input: &str) -> SequenceLayout {
        let mut steps = Vec::new();
        flatten(shape, &mut steps);
        let mut token = short_name(input);
        let mut sequence = SequenceLayout::new(&token);
        for step in steps {
            let part = self.part(step, &token);
            token = output(step, &token);
            sequence.push(part, &token);
        }
        sequence
    }

    fn part(&self, shape: &GraphShape, input: &str) -> PicturePart {
        match shape {
            // The caller has flattened sequences.
            GraphShape::Sequence(_) => PicturePart::default(),
            GraphShape::Run { name, thread, kind, .. } => {
                symbols::run(self.palette, name, thread, *kind)
            }
            GraphShape::Call { operation, .. } => symbols::call(operation),
            GraphShape::If { condition, then, otherwise } => {
                self.choice(condition, then, otherwise.as_deref(), input)
            }
            GraphShape::While { condition, body } => {
                self.repetition(symbols::condition("while", condition), ["yes", "no"], body, input)
            }
            GraphShape::For { range, body } => {
                self.repetition(symbols::condition("for", range), ["each", "done"], body, input)
            }
            GraphShape::Split { kind, thread, window, branches, merge_thread, .. } => {
                let inside = match branches.as_slice() {
                    [branch] => self.one_branch(branch, thread, window, merge_thread),
                    branches => self.many_branches(branches, thread, window, merge_thread),
                };
                framed(inside, &caption(*kind))
            }
        }
    }

    fn choice(
        &self,
        condition: &str,
        then: &GraphShape,
        otherwise: Option<&GraphShape>,
        input: &str,
    ) -> PicturePart {
        let condition_part = symbols::condition("if", condition);
        let (middle, right, foot) =
            (condition_part.width / 2.0, condition_part.width, condition_part.down);
        let mut then = self.sequence(then, input);
        then.note = "yes".into();
        then.open_end();
        let mut other = otherwise.map(|shape| self.sequence(shape, input));
        if let Some(other) = &mut other {
            other.note = "no".into();
            other.open_end();
        }
        let width = other.as_ref().map_or(0.0, SequenceLayout::width).max(then.width());
        let mut part = PicturePart::default();
        part.put(0.0, 0.0, condition_part);
        part.put(right, 0.0, then.build(width));
        let join = right + width + DOT;
        let y = match other {
            None => {
                let y = part.down + STRIP;
                let no = (middle + 10.0, y - 6.0);
                part.write(no, Anchor::Start, NOTE, SOFT_INK, "no");
                let corners = vec![(middle, foot), (middle, y), (join, y), (join, DOT)];
                part.marks.push(GraphMark::Line { corners, arrow: false });
                y
            }
            Some(other) => {
                let other = other.build(width);
                let y = part.down + ROW_GAP + other.up;
                let corners = vec![(middle, foot), (middle, y), (right + 1.0, y)];
                part.marks.push(GraphMark::Line { corners, arrow: false });
                part.put(right, y, other);
                let corners = vec![(right + width - 1.0, y), (join, y), (join, DOT)];
                part.marks.push(GraphMark::Line { corners, arrow: false });
                y
            }
        };
        part.down = part.down.max(y);
        part.marks.push(GraphMark::Dot { x: join, y: 0.0, hollow: false });
        part.width = join + DOT;
        part
    }

    fn repetition(
        &self,
        condition_part: PicturePart,
        [again, over]: [&str; 2],
        body: &GraphShape,
        input: &str,
    ) -> PicturePart {
        const BEFORE: f64 = 24.0;
        let mut part = PicturePart::default();
        let left = 2.0 * DOT + BEFORE;
        let (middle, foot) = (left + condition_part.width / 2.0, condition_part.down);
        let right = left + condition_part.width;
        let corners = vec![(DOT, 0.0), (left, 0.0)];
        part.marks.push(GraphMark::Line { corners, arrow: true });
        part.put(left, 0.0, condition_part);
        let mut body = self.sequence(body, input);
        body.note = again.into();
        body.open_end();
        let width = body.width();
        part.put(right, 0.0, body.build(width));

        // The line back, above the body, to the point before the condition.
        let turn = right + width;
        let above = -(part.up + STRIP * 0.7);
        let corners =
            vec![(turn - 1.0, 0.0), (turn + 10.0, 0.0), (turn + 10.0, above), (DOT, above)];
        let corners = [corners, vec![(DOT, -DOT)]].concat();
        part.marks.push(GraphMark::Line { corners, arrow: true });
        part.marks.push(GraphMark::Dot { x: DOT, y: 0.0, hollow: false });

        // The line onwards, below the body.
        let below = part.down + STRIP;
        let exit = turn + 10.0 + STRIP;
        part.write((middle + 10.0, below - 6.0), Anchor::Start, NOTE, SOFT_INK, over);
        let corners =
            vec![(middle, foot), (middle, below), (exit, below), (exit, 0.0), (exit + 12.0, 0.0)];
        part.marks.push(GraphMark::Line { corners, arrow: false });
        part.up = part.up.max(-above);
        part.down = part.down.max(below);
        part.width = exit + 11.0;
        part
    }

    fn one_branch(
        &self,
        branch: &Branch,
        thread: &str,
        window: &str,
        merge_thread: &str,
    ) -> PicturePart {
        let split = symbols::split(self.palette, &branch.split, thread, &window_text(window));
        let merge = symbols::merge(self.palette, &branch.merge, merge_thread);
        let body = self.sequence(&branch.body, &branch.input);
        let (left, width, right) = (split.width, body.width(), merge.width);
        let mut part = PicturePart { width: left + width + right, ..PicturePart::default() };
        part.put(0.0, 0.0, split);
        part.put(left, 0.0, body.build(width));
        part.put(left + width, 0.0, merge);
        part
    }

    fn many_branches(
        &self,
        branches: &[Branch],
        thread: &str,
        window: &str,
        merge_thread: &str,
    ) -> PicturePart {
        let split = symbols::split(self.palette, "split", thread, &window_text(window));
        let merge = symbols::merge(self.palette, "merge", merge_thread);
        let rows: Vec<(PicturePart, SequenceLayout, PicturePart)> = branches
            .iter()
            .map(|branch| {
                let first = symbols::function(self.palette, &branch.split, thread);
                let last = symbols::function(self.palette, &branch.merge, merge_thread);
                (first, self.sequence(&branch.body, &branch.input), last)
            })
            .collect();
        let row_width = |(first, body, last): &(PicturePart, SequenceLayout, PicturePart)| {
            first.width + body.width() + last.width
        };
        let width = rows.iter().map(row_width).fold(0.0, f64::max);
        let rows: Vec<PicturePart> = rows.into_iter().map(|row| one_row(row, width)).collect();

        // The line of the whole is in the middle of the lines of the rows.
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
        let mut part = PicturePart { width: end + FAN + merge.width, ..PicturePart::default() };
        part.put(0.0, 0.0, split);
        part.put(end + FAN, 0.0, merge);
        for (row, height) in rows.into_iter().zip(heights) {
            let y = height - middle;
            // Lines leave the split and reach the merge side by side, not all at one point.
            let side = (y * 0.15).clamp(-16.0, 16.0);
            let (from, to) = ((begin, side), (begin + FAN, y));
            part.marks.push(GraphMark::Curve { from, to, arrow: true });
            let (from, to) = ((end, y), (end + FAN, side));
            part.marks.push(GraphMark::Curve { from, to, arrow: true });
            part.put(begin + FAN, y, row);
        }
        part
    }
}

/// Lays out a branch between its split function and its merge function.
fn one_row(
    (first, body, last): (PicturePart, SequenceLayout, PicturePart),
    width: f64,
) -> PicturePart {
    let (begin, end) = (first.width, width - last.width);
    let mut row = PicturePart { width, ..PicturePart::default() };
    row.put(0.0, 0.0, first);
    row.put(begin, 0.0, body.build(end - begin));
    row.put(end, 0.0, last);
    row
}

/// Puts a part into a frame with a caption.
fn framed(inside: PicturePart, caption: &str) -> PicturePart {
    let caption_height = NOTE.size + 8.0;
    let needed = NOTE.width(caption) + 10.0;
    let spread = (needed - inside.width).max(0.0) / 2.0;
    let lead = PAD + spread;
    let (up, down) = (inside.up + caption_height, inside.down + PAD * 0.8);
    let width = inside.width + 2.0 * lead;
    let mut part = PicturePart { width, up, down, lead, trail: lead, ..PicturePart::default() };
    part.marks.push(GraphMark::Box {
        x: 0.0,
        y: -up,
        width,
        height: up + down,
        radius: 10.0,
        tint: FRAME,
        border: Border::Thin,
    });
    part.put(lead, 0.0, inside);
    let at = (PAD * 0.7, NOTE.size + 4.0 - up);
    part.write(at, Anchor::Start, NOTE, SOFT_INK, caption);
    part
}

fn window_text(window: &str) -> String {
    if window.is_empty() { String::new() } else { format!("window: {window}") }
}

/// Returns the caption of a split.
pub(super) fn caption(kind: SplitKind) -> String {
    match kind {
        SplitKind::Parallel => "parallel".to_owned(),
        SplitKind::While => "parallel while".to_owned(),
        SplitKind::Indexed { indices: 0 | 1 } => "indexed parallel".to_owned(),
        SplitKind::Indexed { indices } => format!("indexed parallel, {indices} indices"),
    }
}

/// Collects the steps of a shape, with nested sequences flattened.
pub(super) fn flatten<'s>(shape: &'s GraphShape, steps: &mut Vec<&'s GraphShape>) {
    match shape {
        GraphShape::Sequence(parts) => parts.iter().for_each(|part| flatten(part, steps)),
        _ => steps.push(shape),
    }
}

/// Returns the short name of the type that a shape makes from `input`.
pub(super) fn output(shape: &GraphShape, input: &str) -> String {
    match shape {
        GraphShape::Sequence(parts) => {
            parts.iter().fold(input.to_owned(), |token, part| output(part, &token))
        }
        GraphShape::Run { output, .. }
        | GraphShape::Call { output, .. }
        | GraphShape::Split { output, .. } => short_name(output),
        GraphShape::If { then, .. } => output(then, input),
        // A repeated part takes its own output as input.
        GraphShape::While { .. } | GraphShape::For { .. } => input.to_owned(),
    }
}

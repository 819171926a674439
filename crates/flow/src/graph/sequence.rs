//! The layout of a sequence: parts from left to right, and the labelled lines between them.

use super::palette::{LINE_COLOUR, SOFT_INK};
use super::part::{Anchor, DETAIL, GraphMark, NOTE, PicturePart};

/// The shortest line.
const SHORTEST: f64 = 34.0;
/// The space beside the label of a line; it includes the head of the arrow.
const BESIDE: f64 = 22.0;

/// Parts in a row, with a line before the first, between any two, and after the last.
#[derive(Debug, Default)]
pub(super) struct SequenceLayout {
    parts: Vec<PicturePart>,
    /// The token type on each line: one more than parts.
    tokens: Vec<String>,
    /// The text under the first line.
    pub(super) note: String,
    /// Whether the last line ends with an arrow, not in another line.
    arrow: bool,
}

impl SequenceLayout {
    /// Creates a line without parts.
    pub(super) fn new(token: &str) -> SequenceLayout {
        SequenceLayout { tokens: vec![token.to_owned()], arrow: true, ..SequenceLayout::default() }
    }

    /// Adds a part and the line after it.
    pub(super) fn push(&mut self, part: PicturePart, token: &str) {
        self.parts.push(part);
        self.tokens.push(token.to_owned());
    }

    /// Omits the arrow and the label of the last line, because a labelled line continues it.
    pub(super) fn open_end(&mut self) {
        self.arrow = false;
        if let (Some(token), false) = (self.tokens.last_mut(), self.parts.is_empty()) {
            token.clear();
        }
    }

    /// Returns the least width.
    pub(super) fn width(&self) -> f64 {
        let parts: f64 = self.parts.iter().map(|part| part.width).sum();
        let lines: f64 = (0..self.tokens.len()).map(|number| self.line_length(number)).sum();
        parts + lines
    }

    /// Builds one part of the given width, which must not be below the least width.
    pub(super) fn build(self, width: f64) -> PicturePart {
        let lines = self.tokens.len();
        let extra = (width - self.width()).max(0.0) / lines as f64;
        let lengths: Vec<f64> = (0..lines).map(|number| self.line_length(number) + extra).collect();
        let mut row = PicturePart::default();
        let mut x = 0.0;
        let mut trail = 0.0;
        let mut parts = self.parts.into_iter();
        // Draw the lines over the frames that they enter.
        let mut drawn = Vec::with_capacity(lines);
        for (number, (token, length)) in self.tokens.iter().zip(lengths).enumerate() {
            let part = parts.next();
            let lead = part.as_ref().map_or(0.0, |part| part.lead);
            let arrow = part.is_some() || self.arrow;
            let corners = vec![(x - trail, 0.0), (x + length + lead, 0.0)];
            drawn.push(GraphMark::Line { corners, arrow });
            // Centre the label on the line without the head of the arrow.
            let middle = x + (length - if arrow { 6.0 } else { 0.0 }) / 2.0;
            row.write((middle, -6.0), Anchor::Middle, DETAIL, LINE_COLOUR, token);
            if number == 0 {
                row.write((middle, 13.0), Anchor::Middle, NOTE, SOFT_INK, &self.note);
            }
            x += length;
            if let Some(part) = part {
                trail = part.trail;
                let width = part.width;
                row.put(x, 0.0, part);
                x += width;
            }
        }
        row.marks.extend(drawn);
        row.width = x;
        row
    }

    /// Returns the least length of a line.
    fn line_length(&self, number: usize) -> f64 {
        let note = if number == 0 && !self.note.is_empty() { NOTE.width(&self.note) } else { 0.0 };
        let shortest = if self.tokens[number].is_empty() { SHORTEST * 0.6 } else { SHORTEST };
        shortest.max(DETAIL.width(&self.tokens[number]).max(note) + BESIDE)
    }
}

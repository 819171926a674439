//! Parts one after the other, and the ways between them with the tokens that take them.

use super::palette::{SOFT_INK, WAY};
use super::piece::{Anchor, DETAIL, Mark, NOTE, Piece};

/// The shortest way.
const SHORTEST: f64 = 34.0;
/// The room beside the text of a way; the arrow's head takes some of it.
const BESIDE: f64 = 22.0;

/// Parts in a row. There is a way before the first, between any two, and after the last.
#[derive(Debug, Default)]
pub(super) struct Chain {
    parts: Vec<Piece>,
    /// What travels on each way: one more than parts.
    tokens: Vec<String>,
    /// What is written under the first way.
    pub(super) note: String,
    /// Whether the last way leads to a thing, not just into another way.
    arrow: bool,
}

impl Chain {
    /// A way without parts on it.
    pub(super) fn new(token: &str) -> Chain {
        Chain { tokens: vec![token.to_owned()], arrow: true, ..Chain::default() }
    }

    /// Adds a part and the way after it.
    pub(super) fn push(&mut self, part: Piece, token: &str) {
        self.parts.push(part);
        self.tokens.push(token.to_owned());
    }

    /// Leaves out what travels on the last way, where the way goes on as one that says it.
    pub(super) fn open_end(&mut self) {
        self.arrow = false;
        if let (Some(token), false) = (self.tokens.last_mut(), self.parts.is_empty()) {
            token.clear();
        }
    }

    /// The least width.
    pub(super) fn width(&self) -> f64 {
        let parts: f64 = self.parts.iter().map(|part| part.width).sum();
        let ways: f64 = (0..self.tokens.len()).map(|number| self.way(number)).sum();
        parts + ways
    }

    /// The chain as a part of the given width, which is not below the least one.
    pub(super) fn build(self, width: f64) -> Piece {
        let ways = self.tokens.len();
        let extra = (width - self.width()).max(0.0) / ways as f64;
        let lengths: Vec<f64> = (0..ways).map(|number| self.way(number) + extra).collect();
        let mut piece = Piece::default();
        let mut x = 0.0;
        let mut trail = 0.0;
        let mut parts = self.parts.into_iter();
        // Ways are drawn over the frames that they enter.
        let mut drawn = Vec::with_capacity(ways);
        for (number, (token, length)) in self.tokens.iter().zip(lengths).enumerate() {
            let part = parts.next();
            let lead = part.as_ref().map_or(0.0, |part| part.lead);
            let arrow = part.is_some() || self.arrow;
            let corners = vec![(x - trail, 0.0), (x + length + lead, 0.0)];
            drawn.push(Mark::Way { corners, arrow });
            // The head of the arrow is at the right end, so the middle is a bit to the left.
            let middle = x + (length - if arrow { 6.0 } else { 0.0 }) / 2.0;
            piece.write((middle, -6.0), Anchor::Middle, DETAIL, WAY, token);
            if number == 0 {
                piece.write((middle, 13.0), Anchor::Middle, NOTE, SOFT_INK, &self.note);
            }
            x += length;
            if let Some(part) = part {
                trail = part.trail;
                let width = part.width;
                piece.put(x, 0.0, part);
                x += width;
            }
        }
        piece.marks.extend(drawn);
        piece.width = x;
        piece
    }

    /// The least length of a way.
    fn way(&self, number: usize) -> f64 {
        let note = if number == 0 && !self.note.is_empty() { NOTE.width(&self.note) } else { 0.0 };
        let shortest = if self.tokens[number].is_empty() { SHORTEST * 0.6 } else { SHORTEST };
        shortest.max(DETAIL.width(&self.tokens[number]).max(note) + BESIDE)
    }
}

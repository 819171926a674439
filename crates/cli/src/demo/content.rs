//! The content of the demo's file: every piece differs, and is cheap to generate and compare, so
//! that the figures measure the cluster and not the check.
//!
//! A piece is a cut from one block of random bytes; its number determines where the cut begins.

use std::ops::Range;

/// Bytes of a piece.
pub const PIECE_BYTES: u64 = 1 << 20;

/// Number of places at which a cut may begin.
const STARTS: usize = 1 << 20;

/// The content of the file.
#[derive(Debug)]
pub struct DemoContent {
    size_bytes: u64,
    random: Vec<u8>,
}

impl DemoContent {
    /// Generates the content for a seed.
    pub fn new(seed: u64, size_bytes: u64) -> Self {
        let piece = usize::try_from(PIECE_BYTES).expect("a piece fits into memory");
        let mut random = vec![0; STARTS + piece];
        fastrand::Rng::with_seed(seed).fill(&mut random);
        Self { size_bytes, random }
    }

    /// Returns the bytes of the file.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the number of pieces; the last one may be shorter.
    pub fn pieces(&self) -> u64 {
        self.size_bytes.div_ceil(PIECE_BYTES)
    }

    /// Returns the byte range of a piece.
    pub fn range(&self, piece: u64) -> Range<u64> {
        let start = piece * PIECE_BYTES;
        start..(start + PIECE_BYTES).min(self.size_bytes)
    }

    /// Returns the bytes of a piece.
    pub fn piece(&self, piece: u64) -> &[u8] {
        let range = self.range(piece);
        let len = usize::try_from(range.end - range.start).expect("a piece fits into memory");
        self.cut(piece, len)
    }

    /// Returns `len` bytes for a number; at most those of a piece.
    pub fn cut(&self, number: u64, len: usize) -> &[u8] {
        let start = fastrand::Rng::with_seed(number).usize(..STARTS);
        &self.random[start..start + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_file_and_differ() {
        let content = DemoContent::new(1, (2 << 20) + 5);
        assert_eq!(content.pieces(), 3);
        assert_eq!(content.range(2), 2 << 20..(2 << 20) + 5);
        assert_eq!(content.piece(2).len(), 5);
        assert_ne!(content.piece(0), content.piece(1));
        assert_eq!(content.piece(0), DemoContent::new(1, 2 << 20).piece(0));
        assert_ne!(content.piece(0), DemoContent::new(2, 2 << 20).piece(0));
    }
}

//! The content of files: the same on both sides, and different from piece to piece, so that a check
//! finds a piece at the wrong offset. Taking a piece costs nothing.

use anyhow::{Result, ensure};
use bytes::Bytes;

/// The number of different pieces; then they repeat.
const DIFFERENT: usize = 61;
/// The distance between the beginnings of two pieces in the shared memory.
const STEP_BYTES: usize = 64;

/// The bytes of a file that consists of pieces of one size.
#[derive(Clone, Debug)]
pub struct Content {
    memory: Bytes,
    piece_bytes: usize,
}

impl Content {
    /// The content of pieces of this size.
    pub fn new(piece_bytes: usize) -> Self {
        let mut memory = vec![0; piece_bytes + DIFFERENT * STEP_BYTES];
        fastrand::Rng::with_seed(3).fill(&mut memory);
        Self { memory: memory.into(), piece_bytes }
    }

    /// The bytes of one piece.
    pub fn piece(&self, number: u64) -> &[u8] {
        let start = remainder(number, DIFFERENT) * STEP_BYTES;
        &self.memory[start..start + self.piece_bytes]
    }

    /// The same bytes, to be sent without a copy.
    pub fn shared_piece(&self, number: u64) -> Bytes {
        self.memory.slice_ref(self.piece(number))
    }

    /// Fills memory with the bytes from an offset on.
    pub fn fill(&self, mut offset: u64, mut memory: &mut [u8]) {
        let piece_bytes = self.piece_bytes as u64;
        while !memory.is_empty() {
            let piece = &self.piece(offset / piece_bytes)[remainder(offset, self.piece_bytes)..];
            let (now, later) = memory.split_at_mut(piece.len().min(memory.len()));
            now.copy_from_slice(&piece[..now.len()]);
            offset += now.len() as u64;
            memory = later;
        }
    }

    /// Checks the bytes of a piece.
    pub fn check(&self, number: u64, bytes: &[u8]) -> Result<()> {
        ensure!(bytes == self.piece(number), "piece {number} has wrong bytes");
        Ok(())
    }
}

/// The remainder of a division, which fits into memory.
#[expect(clippy::cast_possible_truncation, reason = "it is below a `usize`")]
fn remainder(number: u64, divisor: usize) -> usize {
    (number % divisor as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_gives_the_pieces() {
        let content = Content::new(1000);
        let mut memory = vec![0; 2500];
        content.fill(62_500, &mut memory);
        assert_eq!(&memory[..500], &content.piece(62)[500..]);
        content.check(63, &memory[500..1500]).unwrap();
        content.check(64, &memory[1500..]).unwrap();
        assert!(content.check(65, &memory[1500..]).is_err());
    }
}

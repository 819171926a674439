//! Calls and texts as words.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::last_call::RecordedCall;
use super::words::{TEXT_WORDS, rank_call, round};
use crate::modes::call::{Call, digest};
use crate::modes::mode::Mode;
use crate::modes::position::{Seek, Transfer};

impl CoordinationTable<'_> {
    pub(super) fn call_in(&self, number: u64, rank: u32) -> Call {
        let at = self.rank_call(number, rank);
        decode(
            self.word(at + rank_call::KIND).load(Ordering::Relaxed),
            self.word(at + rank_call::FLAGS).load(Ordering::Relaxed),
            self.number(at + rank_call::VALUE),
        )
    }

    /// Returns the call of a rank in a round for display. An open has its text only if it is still
    /// the last call of the rank.
    pub(super) fn described_call(&self, number: u64, rank: u32) -> Call {
        let call = self.call_in(number, rank);
        let Call::Open(_) = &call else { return call };
        let at = self.rank_call(number, rank);
        match self.last_call(rank) {
            Some(RecordedCall { call: Call::Open(what), value, .. })
                if value == self.number(at + rank_call::VALUE) =>
            {
                Call::Open(what)
            }
            _ => Call::Open(String::new()),
        }
    }

    pub(super) fn put_round_text(&self, at: usize, text: &str) {
        self.put_text(at + round::TEXT_BYTES, at + round::TEXT, text);
    }

    pub(super) fn round_text(&self, at: usize) -> String {
        self.text(at + round::TEXT_BYTES, at + round::TEXT)
    }

    /// Stores a text, cut to `TEXT_WORDS` words, and its length.
    pub(super) fn put_text(&self, len_at: usize, at: usize, text: &str) {
        let bytes = text.as_bytes();
        let mut len = bytes.len().min(4 * TEXT_WORDS);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        for (index, four) in bytes[..len].chunks(4).enumerate() {
            let mut word = [0; 4];
            word[..four.len()].copy_from_slice(four);
            let target = self.word(at + index);
            target.store(u32::from_le_bytes(word), Ordering::Relaxed);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 256")]
        self.word(len_at).store(len as u32, Ordering::Relaxed);
    }

    pub(super) fn text(&self, len_at: usize, at: usize) -> String {
        let len = self.word(len_at).load(Ordering::Relaxed) as usize;
        let words = (0..TEXT_WORDS)
            .flat_map(|index| self.word(at + index).load(Ordering::Relaxed).to_le_bytes());
        String::from_utf8_lossy(&words.take(len).collect::<Vec<u8>>()).into_owned()
    }
}

/// The kind of [`Call::Failed`].
pub(super) const FAILED: u32 = 9;

pub(super) fn encode(call: &Call) -> (u32, u32, u64) {
    match call {
        Call::Transfer(Transfer { is_write, len, is_append }) => {
            (1, u32::from(*is_write) | u32::from(*is_append) << 1, *len)
        }
        Call::Seek(Seek::Start(offset)) => (2, 0, *offset),
        Call::Seek(Seek::Current(distance)) => (3, 0, distance.cast_unsigned()),
        Call::Seek(Seek::End(distance)) => (4, 0, distance.cast_unsigned()),
        Call::SetMode(mode) => (5, mode.number().into(), 0),
        Call::Close => (6, 0, 0),
        Call::Barrier => (7, 0, 0),
        Call::Open(what) => (8, 0, digest(what.as_bytes())),
        Call::Failed(_) => (FAILED, 0, 0),
    }
}

pub(super) fn decode(kind: u32, flags: u32, value: u64) -> Call {
    match kind {
        1 => Call::Transfer(Transfer {
            is_write: flags & 1 != 0,
            len: value,
            is_append: flags & 2 != 0,
        }),
        2 => Call::Seek(Seek::Start(value)),
        3 => Call::Seek(Seek::Current(value.cast_signed())),
        4 => Call::Seek(Seek::End(value.cast_signed())),
        5 => {
            let mode = u8::try_from(flags).ok().and_then(Mode::from_number);
            Call::SetMode(mode.unwrap_or_default())
        }
        6 => Call::Close,
        // The words hold only a hash of the text, to compare calls.
        8 => Call::Open(format!("{value:016x}")),
        // The reason is in the text of the round, or of the last call.
        FAILED => Call::Failed(Box::default()),
        _ => Call::Barrier,
    }
}

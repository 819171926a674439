//! The last call of each rank, for `pario why`: an access in shared memory or through a descriptor
//! leaves no other trace at the node.

use std::sync::atomic::{Ordering, fence};

use super::CoordinationTable;
use super::encoding::{decode, encode};
use super::words::{TEXT_WORDS, member};
use crate::modes::call::Call;

/// Attempts to read a record that a rank changes at the same time; then it is returned as it is.
const READ_ATTEMPTS: u32 = 16;

/// The last call of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// The call.
    pub call: Call,
    /// The path of the file, if this is not the table of that file.
    pub path: Option<String>,
    /// When, by the clock of the machine.
    pub at_ms: u64,
    /// The hash by which calls are compared.
    pub(super) value: u64,
}

impl CoordinationTable<'_> {
    /// Records the call of a rank for display. `path` is the path of the file, or empty if this is
    /// the table of that file. Needs no lock: a rank writes its own record only.
    pub fn record_call(&self, rank: u32, call: &Call, path: &str, now_ms: u64) {
        let at = self.member(rank);
        let (kind, flags, value) = encode(call);
        let version = self.word(at + member::LAST_VERSION);
        version.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.word(at + member::LAST_KIND).store(kind, Ordering::Relaxed);
        self.word(at + member::LAST_FLAGS).store(flags, Ordering::Relaxed);
        self.put(at + member::LAST_VALUE, value);
        self.put(at + member::LAST_MS, now_ms);
        let text: &str = match call {
            Call::Open(text) => text,
            Call::Failed(text) => text,
            _ => path,
        };
        if !text.is_empty() || self.word(at + member::LAST_TEXT_BYTES).load(Ordering::Relaxed) != 0
        {
            self.put_text(at + member::LAST_TEXT_BYTES, at + member::LAST_TEXT, text);
        }
        version.fetch_add(1, Ordering::Release);
    }

    /// Returns the last call of a rank; it may be torn if the rank keeps changing it.
    pub fn last_call(&self, rank: u32) -> Option<RecordedCall> {
        let version = self.word(self.member(rank) + member::LAST_VERSION);
        for attempt in 0.. {
            let before = version.load(Ordering::Acquire);
            let noted = self.recorded(rank);
            fence(Ordering::Acquire);
            let is_whole = before.is_multiple_of(2) && version.load(Ordering::Relaxed) == before;
            if is_whole || attempt == READ_ATTEMPTS {
                return noted;
            }
        }
        None
    }

    fn recorded(&self, rank: u32) -> Option<RecordedCall> {
        let at = self.member(rank);
        let kind = self.word(at + member::LAST_KIND).load(Ordering::Relaxed);
        if kind == 0 {
            return None;
        }
        let flags = self.word(at + member::LAST_FLAGS).load(Ordering::Relaxed);
        let value = self.number(at + member::LAST_VALUE);
        let mut text = self.text(at + member::LAST_TEXT_BYTES, at + member::LAST_TEXT);
        let (call, path) = match decode(kind, flags, value) {
            Call::Open(_) => {
                if text.len() + 3 >= 4 * TEXT_WORDS {
                    text.push_str(" ...");
                }
                (Call::Open(text), None)
            }
            Call::Failed(_) => (Call::Failed(text.into()), None),
            call => (call, Some(text).filter(|text| !text.is_empty())),
        };
        Some(RecordedCall { call, path, at_ms: self.number(at + member::LAST_MS), value })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;
    use crate::modes::mode::Mode;
    use crate::modes::position::{Seek, Transfer};

    #[test]
    fn the_last_call_of_each_rank_is_shown() {
        let words = words(3);
        let table = CoordinationTable::new(&words, 3, Mode::Async, None).unwrap();
        assert_eq!(table.last_call(1), None);
        let shown = |rank| table.last_call(rank).map(|last| (last.call, last.path, last.at_ms));
        let open = Call::Open("/a for reading in mode M_ASYNC".to_owned());
        table.record_call(1, &open, "", 7);
        assert_eq!(shown(1), Some((open, None, 7)));
        let read = Call::Transfer(Transfer::read(65_536));
        table.record_call(1, &read, "", 8);
        assert_eq!(shown(1), Some((read, None, 8)), "the earlier text is gone");
        let seek = Call::Seek(Seek::End(-3));
        table.record_call(2, &seek, "", 9);
        table.record_call(1, &Call::Close, "/a", 10);
        assert_eq!(shown(1), Some((Call::Close, Some("/a".to_owned()), 10)));
        assert_eq!(shown(2), Some((seek, None, 9)));
        assert_eq!(shown(0), None);
        let long = Call::Open("/ü".repeat(200));
        table.record_call(0, &long, "", 11);
        let Some((Call::Open(text), ..)) = shown(0) else { panic!("it was recorded") };
        assert!(text.starts_with("/ü/ü") && text.ends_with(" ...") && text.len() < 300, "{text}");
    }

    #[test]
    fn a_record_that_is_never_finished_is_shown_as_it_is() {
        let words = words(1);
        let table = CoordinationTable::new(&words, 1, Mode::Async, None).unwrap();
        table.record_call(0, &Call::Barrier, "", 7);
        table.word(table.member(0) + member::LAST_VERSION).fetch_add(1, Ordering::Relaxed);
        assert_eq!(table.last_call(0).map(|last| last.call), Some(Call::Barrier));
    }
}

//! What each rank has called last, for people: accesses in shared memory and by descriptors leave no
//! other trace at the node.

use std::sync::atomic::{Ordering, fence};

use super::CoordinationTable;
use super::encoding::{decode, encode};
use super::words::{TEXT_WORDS, member};
use crate::modes::call::Call;

/// Looks at a note that is changed each time before it is told as it is.
const LOOKS: u32 = 16;

/// What a rank has called last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// What.
    pub call: Call,
    /// The path of the file that it was about, where the table does not say it.
    pub path: Option<String>,
    /// When, by the clock of the machine.
    pub at_ms: u64,
    /// The number by which equal calls are known.
    pub(super) value: u64,
}

impl CoordinationTable<'_> {
    /// Notes what a rank calls, for people. `path` is that of the file if the table is not the
    /// file's, and empty otherwise. Needs no lock: a rank writes its own note only.
    pub fn record_call(&self, rank: u32, call: &Call, path: &str, now_ms: u64) {
        let at = self.member(rank);
        let (kind, flags, value) = encode(call);
        let turn = self.word(at + member::LAST_TURN);
        turn.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.word(at + member::LAST_KIND).store(kind, Ordering::Relaxed);
        self.word(at + member::LAST_FLAGS).store(flags, Ordering::Relaxed);
        self.put(at + member::LAST_VALUE, value);
        self.put(at + member::LAST_MS, now_ms);
        let text = if let Call::Open(what) = call { what } else { path };
        if !text.is_empty() || self.word(at + member::LAST_TEXT_BYTES).load(Ordering::Relaxed) != 0
        {
            self.put_text(at + member::LAST_TEXT_BYTES, at + member::LAST_TEXT, text);
        }
        turn.fetch_add(1, Ordering::Release);
    }

    /// What a rank has called last, as far as can be seen while it changes.
    pub fn last_call(&self, rank: u32) -> Option<RecordedCall> {
        let turn = self.word(self.member(rank) + member::LAST_TURN);
        for look in 0.. {
            let before = turn.load(Ordering::Acquire);
            let noted = self.recorded(rank);
            fence(Ordering::Acquire);
            let is_whole = before.is_multiple_of(2) && turn.load(Ordering::Relaxed) == before;
            if is_whole || look == LOOKS {
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
    fn the_last_call_of_each_rank_is_told() {
        let words = words(3);
        let table = CoordinationTable::new(&words, 3, Mode::Async, None).unwrap();
        assert_eq!(table.last_call(1), None);
        let told = |rank| table.last_call(rank).map(|last| (last.call, last.path, last.at_ms));
        let open = Call::Open("/a for reading in mode M_ASYNC".to_owned());
        table.record_call(1, &open, "", 7);
        assert_eq!(told(1), Some((open, None, 7)));
        let read = Call::Transfer(Transfer::read(65_536));
        table.record_call(1, &read, "", 8);
        assert_eq!(told(1), Some((read, None, 8)), "nothing is left of the text before");
        let seek = Call::Seek(Seek::End(-3));
        table.record_call(2, &seek, "", 9);
        table.record_call(1, &Call::Close, "/a", 10);
        assert_eq!(told(1), Some((Call::Close, Some("/a".to_owned()), 10)));
        assert_eq!(told(2), Some((seek, None, 9)));
        assert_eq!(told(0), None);
        let long = Call::Open("/ü".repeat(200));
        table.record_call(0, &long, "", 11);
        let Some((Call::Open(text), ..)) = told(0) else { panic!("it was noted") };
        assert!(text.starts_with("/ü/ü") && text.ends_with(" ...") && text.len() < 300, "{text}");
    }

    #[test]
    fn a_note_that_is_never_finished_is_told_as_it_is() {
        let words = words(1);
        let table = CoordinationTable::new(&words, 1, Mode::Async, None).unwrap();
        table.record_call(0, &Call::Barrier, "", 7);
        table.word(table.member(0) + member::LAST_TURN).fetch_add(1, Ordering::Relaxed);
        assert_eq!(table.last_call(0).map(|last| last.call), Some(Call::Barrier));
    }
}

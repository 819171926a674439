//! The pointer and the started requests of each rank, for `pario status`: in modes with private
//! pointers only the processes know them.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::words::{REQUEST_SLOTS, member, request};

const FREE: u32 = 0;
const CHANGING: u32 = 1;
const SHOWN: u32 = 2;

/// A request that a rank has started and not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRequest {
    /// Its id in the process.
    pub id: u64,
    /// Whether it writes.
    pub is_write: bool,
    /// Its length in bytes.
    pub len: u64,
    /// When it was started, by the clock of the machine.
    pub at_ms: u64,
}

impl CoordinationTable<'_> {
    /// Requests of a rank that a table can show; further ones stay unseen.
    pub const REQUESTS_SHOWN: usize = REQUEST_SLOTS;

    /// Shows the private pointer of a rank; `None` in a mode with a shared one. A rank writes its own
    /// pointer only, one thread at a time.
    pub fn show_pointer(&self, rank: u32, pointer: Option<u64>) {
        let shown = pointer.map_or(0, |pointer| pointer.saturating_add(1));
        self.put(self.member(rank) + member::POINTER, shown);
    }

    /// Returns the private pointer of a rank, if it has shown one. A pointer that moves now may
    /// be torn at a multiple of 4 GiB.
    pub fn shown_pointer(&self, rank: u32) -> Option<u64> {
        self.number(self.member(rank) + member::POINTER).checked_sub(1)
    }

    /// Shows a started request of a rank, if a slot is free. Threads of the rank may do so at the same
    /// time.
    pub fn show_request(&self, rank: u32, shown: RecordedRequest) {
        for slot in self.request_slots(rank) {
            let state = self.word(slot + request::STATE);
            let claimed =
                state.compare_exchange(FREE, CHANGING, Ordering::Relaxed, Ordering::Relaxed);
            if claimed.is_ok() {
                self.put(slot + request::ID, shown.id);
                self.put(slot + request::LEN, shown.len);
                self.put(slot + request::AT_MS, shown.at_ms);
                self.word(slot + request::IS_WRITE).store(shown.is_write.into(), Ordering::Relaxed);
                state.store(SHOWN, Ordering::Release);
                return;
            }
        }
    }

    /// Shows a request of a rank no longer. The table may have become that of another file, which
    /// shows other ids.
    pub fn hide_request(&self, rank: u32, id: u64) {
        let is_shown = |slot: &usize| {
            self.word(slot + request::STATE).load(Ordering::Acquire) == SHOWN
                && self.number(slot + request::ID) == id
        };
        if let Some(slot) = self.request_slots(rank).find(is_shown) {
            self.word(slot + request::STATE).store(FREE, Ordering::Release);
        }
    }

    /// Returns the started requests that a rank shows, by id.
    pub fn shown_requests(&self, rank: u32) -> Vec<RecordedRequest> {
        let shown = self.request_slots(rank).filter_map(|slot| {
            let state = self.word(slot + request::STATE);
            (state.load(Ordering::Acquire) == SHOWN).then(|| RecordedRequest {
                id: self.number(slot + request::ID),
                is_write: self.word(slot + request::IS_WRITE).load(Ordering::Relaxed) != 0,
                len: self.number(slot + request::LEN),
                at_ms: self.number(slot + request::AT_MS),
            })
        });
        let mut shown: Vec<_> = shown.collect();
        shown.sort_unstable_by_key(|request| request.id);
        shown
    }

    fn request_slots(&self, rank: u32) -> impl Iterator<Item = usize> + use<> {
        let first = self.member(rank) + member::REQUESTS;
        (0..REQUEST_SLOTS).map(move |slot| first + slot * request::WORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;
    use crate::modes::mode::Mode;

    #[test]
    fn pointers_and_requests_of_a_rank_are_shown_until_it_hides_them() {
        let words = words(2);
        let table = CoordinationTable::new(&words, 2, Mode::Async, None).unwrap();
        assert_eq!((table.shown_pointer(1), table.shown_requests(1)), (None, Vec::new()));
        table.show_pointer(1, Some(0));
        assert_eq!(table.shown_pointer(1), Some(0));
        table.show_pointer(1, Some(5 << 32));
        assert_eq!((table.shown_pointer(1), table.shown_pointer(0)), (Some(5 << 32), None));
        table.show_pointer(1, None);
        assert_eq!(table.shown_pointer(1), None);
        let request = |id| RecordedRequest { id, is_write: id == 1, len: 9 << 33, at_ms: 7 };
        for id in 0..=CoordinationTable::REQUESTS_SHOWN as u64 {
            table.show_request(1, request(id));
        }
        let shown: Vec<u64> = table.shown_requests(1).iter().map(|shown| shown.id).collect();
        assert!(shown.into_iter().eq(0..CoordinationTable::REQUESTS_SHOWN as u64), "one too many");
        (2..30).for_each(|id| table.hide_request(1, id));
        assert_eq!(table.shown_requests(1), [request(0), request(1)]);
        assert_eq!(table.shown_requests(0), []);
    }
}

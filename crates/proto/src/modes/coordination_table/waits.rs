//! Who waits for whom at a table, for `pario why`.

use std::sync::atomic::Ordering;

use super::CoordinationTable;
use super::words::{head, kind, round};
use crate::modes::call::Call;
use crate::modes::waiting::{BytesWait, WaitCause};

/// Ranks that wait at a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableWait {
    /// The number of an undecided round, or of a claim of bytes.
    pub number: u64,
    /// The ranks that wait, and their calls.
    pub arrived: Vec<(u32, Call)>,
    /// The ranks that they wait for.
    pub missing: Vec<u32>,
    /// When the first of them called, by the clock of the machine.
    pub since_ms: u64,
    /// The cause of the wait.
    pub cause: WaitCause,
}

impl CoordinationTable<'_> {
    /// Returns the ranks that wait: in rounds, oldest first, for bytes, and for the size of the
    /// file. The table may change at the same time. `now_ms` is the clock of the machine.
    pub fn waits(&self, now_ms: u64) -> Vec<TableWait> {
        let first = self.number(head::FIRST);
        let numbers =
            first.saturating_sub(Self::ROUND_SLOTS)..first.saturating_add(Self::ROUND_SLOTS);
        let started = numbers.filter(|number| self.has_slot_for(*number));
        let mut waits: Vec<_> = started.filter_map(|number| self.round_wait(number)).collect();
        let bytes_waits = BytesWait::among(&self.claims(), now_ms);
        waits.extend(bytes_waits.into_iter().map(|(claim, wait)| TableWait {
            number: claim.number,
            arrived: vec![(claim.rank, claim.bytes.call())],
            missing: wait.ranks(),
            since_ms: claim.since_ms,
            cause: WaitCause::Bytes(wait),
        }));
        let is_listed = waits.iter().any(|wait| wait.cause == WaitCause::Size);
        let measured = self.measuring_call().filter(|_| !is_listed);
        waits.extend(measured.map(|(rank, call, since_ms)| TableWait {
            number: 0,
            arrived: vec![(rank, call)],
            missing: vec![rank],
            since_ms,
            cause: WaitCause::Size,
        }));
        waits
    }

    fn round_wait(&self, number: u64) -> Option<TableWait> {
        let at = self.round(number);
        let load = |word: usize| self.word(at + word).load(Ordering::Acquire);
        let is_performed = load(round::IS_DECIDED) != 0;
        if is_performed && (load(round::KIND) != kind::ONCE || load(round::PERFORMED) != 0) {
            return None;
        }
        let last = load(round::LAST);
        let kind = |rank| self.word(self.rank_call(number, rank)).load(Ordering::Relaxed);
        let waits = |rank: &u32| if is_performed { *rank != last } else { kind(*rank) != 0 };
        let (arrived, mut missing): (Vec<u32>, Vec<u32>) = (0..self.size).partition(waits);
        let arrived: Vec<(u32, Call)> =
            arrived.into_iter().map(|rank| (rank, self.described_call(number, rank))).collect();
        let mut since_ms = self.number(at + round::SINCE_MS);
        let cause = match is_performed {
            _ if missing.is_empty() => {
                // All ranks have called, and the last one is deciding the round.
                let (rank, _, measuring_since_ms) = self.measuring_call()?;
                missing.push(rank);
                since_ms = measuring_since_ms;
                WaitCause::Size
            }
            true => WaitCause::Performance,
            false => WaitCause::Absence,
        };
        let has_begun = !arrived.is_empty();
        has_begun.then_some(TableWait { number, arrived, missing, since_ms, cause })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::super::words::member;
    use super::*;
    use crate::modes::mode::Mode;
    use crate::modes::position::Transfer;
    use crate::modes::waiting::{BytesUse, BytesUser};

    /// Any content of the words can be displayed without a panic.
    #[test]
    fn arbitrary_words_are_displayed() {
        let words = words(3);
        let table = CoordinationTable::new(&words, 3, Mode::Log, None).unwrap();
        for word in &words[head::MODE..] {
            word.store(u32::MAX, Ordering::Relaxed);
        }
        let _ = (table.waits(20), table.mode(), table.offset(), table.outcome(1, 7));
        table.put(head::FIRST, 3);
        table.put(table.round(3), 3);
        table.word(table.round(3) + round::IS_DECIDED).store(0, Ordering::Relaxed);
        table.word(table.rank_call(3, 1)).store(0, Ordering::Relaxed);
        let waits = table.waits(20);
        assert_eq!((waits.len(), &waits[0].missing[..]), (1, &[1][..]));
        for rank in 0..3 {
            table.put(table.member(rank) + member::FROM, 0);
        }
        assert_eq!(table.waits(20).len(), 3, "a round, and two claims behind a third");
        for (index, word) in words[head::MODE..].iter().enumerate() {
            word.store(u32::try_from(index).unwrap().wrapping_mul(0x9e37_79b9), Ordering::Relaxed);
        }
        let _ = table.waits(20);
        table.mark_lost(7);
    }

    #[test]
    fn an_open_is_displayed() {
        let words = words(3);
        let table = CoordinationTable::new(&words, 3, Mode::Unix, None).unwrap();
        let open = |what: &str| Call::Open(what.to_owned());
        table.add_call(1, 0, &open("/a for reading"), 7).unwrap();
        table.add_call(2, 0, &open("/b for reading"), 8).unwrap();
        let [wait] = &table.waits(20)[..] else { panic!("one round has started") };
        assert_eq!(wait.arrived[0], (1, open("/a for reading")));
        assert_eq!(wait.arrived[1], (2, open("/b for reading")), "each with its own call");
        // Another thread of the rank has made another call since.
        table.record_call(2, &open("/c for reading"), "", 9);
        let [wait] = &table.waits(20)[..] else { panic!("one round has started") };
        assert_eq!(wait.arrived[1].1.to_string(), "open");
    }

    #[test]
    fn a_wait_for_bytes_is_displayed() {
        let words = words(3);
        let table = CoordinationTable::new(&words, 3, Mode::Unix, None).unwrap();
        table.claim_range(2, BytesUse::new(0, 100, true), 5);
        table.claim_range(1, BytesUse::new(200, 100, true), 6);
        assert_eq!(table.waits(20), [], "no claims conflict");
        table.claim_range(0, BytesUse::new(90, 20, false), 7);
        let wanted = BytesUse::new(90, 20, false);
        let bytes = BytesUse::new(0, 100, true);
        let before = vec![BytesUser { rank: 2, bytes, has_them: true, for_ms: 15 }];
        let wait = TableWait {
            number: 3,
            arrived: vec![(0, Call::Transfer(Transfer::read(20)))],
            missing: vec![2],
            since_ms: 7,
            cause: WaitCause::Bytes(BytesWait { wanted, before, more: 0 }),
        };
        assert_eq!(table.waits(20), [wait]);
        table.release_range(2);
        assert_eq!(table.waits(20), []);
    }

    #[test]
    fn a_wait_for_the_size_is_displayed() {
        let words = words(2);
        let table = CoordinationTable::new(&words, 2, Mode::Sync, None).unwrap();
        let read = Call::Transfer(Transfer::read(20));
        let wait = |number, arrived| TableWait {
            number,
            arrived,
            missing: vec![1],
            since_ms: 9,
            cause: WaitCause::Size,
        };
        table.measure_for((1, &read), 9, || {
            assert_eq!(table.waits(20), [wait(0, vec![(1, read.clone())])]);
        });
        assert_eq!(table.waits(20), []);
        for rank in 0..2 {
            table.add_call(rank, 0, &read, 7).unwrap();
        }
        table.decide_round(|| {
            table.measure_for((1, &read), 9, || {
                let both = vec![(0, read.clone()), (1, read.clone())];
                assert_eq!(table.waits(20), [wait(0, both)]);
                Ok(0)
            })
        });
        assert_eq!(table.waits(20), []);
    }
}

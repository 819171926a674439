//! How a table stands, for people.

use std::sync::atomic::Ordering;

use super::Table;
use super::words::{head, kind, round};
use crate::modes::call::Call;

/// How a table stands, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The number of a round that is not decided.
    pub number: u64,
    /// Who has called what.
    pub arrived: Vec<(u32, Call)>,
    /// Who has not.
    pub missing: Vec<u32>,
    /// Since when the first of them waits, by the clock of the machine.
    pub since_ms: u64,
    /// Whether all have called, and the one that is missing does it for all.
    pub is_performed: bool,
}

impl Table<'_> {
    /// Who waits for whom, oldest first, as far as can be seen while it changes.
    pub fn standings(&self) -> Vec<Standing> {
        let first = self.number(head::FIRST);
        let numbers = first.saturating_sub(Self::DEPTH)..first.saturating_add(Self::DEPTH);
        let begun = numbers.filter(|number| self.has_room_for(*number));
        begun.filter_map(|number| self.standing(number)).collect()
    }

    fn standing(&self, number: u64) -> Option<Standing> {
        let at = self.round(number);
        let load = |word: usize| self.word(at + word).load(Ordering::Acquire);
        let is_performed = load(round::IS_DECIDED) != 0;
        if is_performed && (load(round::KIND) != kind::ONCE || load(round::PERFORMED) != 0) {
            return None;
        }
        let last = load(round::LAST);
        let kind = |rank| self.word(self.called(number, rank)).load(Ordering::Relaxed);
        let waits = |rank: &u32| if is_performed { *rank != last } else { kind(*rank) != 0 };
        let (arrived, missing): (Vec<u32>, Vec<u32>) = (0..self.size).partition(waits);
        let arrived: Vec<(u32, Call)> =
            arrived.into_iter().map(|rank| (rank, self.call_told(number, rank))).collect();
        let since_ms = self.number(at + round::SINCE_MS);
        let is_begun = !arrived.is_empty() && !missing.is_empty();
        is_begun.then_some(Standing { number, arrived, missing, since_ms, is_performed })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;
    use crate::modes::mode::Mode;

    /// Whatever is in the words, looking at them for people does not fail.
    #[test]
    fn nonsense_in_the_words_harms_nobody() {
        let words = words(3);
        let table = Table::new(&words, 3, Mode::Log, None).unwrap();
        for word in &words[head::MODE..] {
            word.store(u32::MAX, Ordering::Relaxed);
        }
        let _ = (table.standings(), table.mode(), table.offset(), table.outcome(1, 7));
        table.put(head::FIRST, 3);
        table.put(table.round(3), 3);
        table.word(table.round(3) + round::IS_DECIDED).store(0, Ordering::Relaxed);
        table.word(table.called(3, 1)).store(0, Ordering::Relaxed);
        let standings = table.standings();
        assert_eq!((standings.len(), &standings[0].missing[..]), (1, &[1][..]));
        table.lose(7);
    }

    #[test]
    fn what_is_opened_is_told() {
        let words = words(3);
        let table = Table::new(&words, 3, Mode::Unix, None).unwrap();
        let open = |what: &str| Call::Open(what.to_owned());
        table.arrive(1, 0, &open("/a for reading"), 7).unwrap();
        table.arrive(2, 0, &open("/b for reading"), 8).unwrap();
        let [standing] = &table.standings()[..] else { panic!("one round has begun") };
        assert_eq!(standing.arrived[0], (1, open("/a for reading")));
        let (rank, other) = &standing.arrived[1];
        assert!(*rank == 2 && matches!(other, Call::Open(what) if what.len() == 16), "{other:?}");
    }
}

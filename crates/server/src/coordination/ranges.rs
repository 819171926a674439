//! Who may touch which bytes of a file, where accesses that overlap must not mix.
//!
//! Invariant: whoever wants bytes has them when nobody who came before it wants any of them, or all
//! of those only read. So nobody is overtaken, and nobody waits for one who waits for it.

use std::collections::VecDeque;

use pario_proto::{BytesWait, BytesWish, WaitCause};

use super::gathering::Wait;

/// Those who have bytes of a file, and those who want some. `T` is by whom an answer goes back.
#[derive(Debug)]
pub struct Ranges<T> {
    line: VecDeque<InLine<T>>,
}

#[derive(Debug)]
struct InLine<T> {
    wish: BytesWish,
    /// Taken when it was told that it has them.
    ticket: Option<T>,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self { line: VecDeque::new() }
    }
}

impl<T> Ranges<T> {
    /// A rank wants bytes, to write them or only to read; what it had before it needs no more. It
    /// numbers its wishes.
    pub fn want(&mut self, wish: BytesWish, ticket: T) {
        self.leave(wish.rank);
        self.line.push_back(InLine { wish, ticket: Some(ticket) });
    }

    /// A rank needs no more what it has wanted under a number.
    pub fn give_back(&mut self, rank: u32, number: u64) {
        self.line.retain(|InLine { wish, .. }| (wish.rank, wish.number) != (rank, number));
    }

    /// A rank needs no bytes any more, and wants none.
    pub fn leave(&mut self, rank: u32) {
        self.line.retain(|InLine { wish, .. }| wish.rank != rank);
    }

    /// Nobody needs bytes any more, or wants some; those who waited.
    pub fn clear(&mut self) -> Vec<T> {
        self.line.drain(..).filter_map(|in_line| in_line.ticket).collect()
    }

    /// The next one that has its bytes and was not told.
    pub fn grant(&mut self) -> Option<T> {
        let is_free = |index: usize| {
            let InLine { wish, ticket } = &self.line[index];
            let clashes = |before: &InLine<T>| before.wish.bytes.clashes(&wish.bytes);
            ticket.is_some() && !self.line.range(..index).any(clashes)
        };
        let index = (0..self.line.len()).find(|index| is_free(*index))?;
        self.line[index].ticket.take()
    }

    /// Who waits for whom.
    pub fn waits(&self, now_ms: u64) -> Vec<Wait> {
        let line: Vec<BytesWish> = self.line.iter().map(|in_line| in_line.wish).collect();
        let waits = BytesWait::among(&line, now_ms).into_iter();
        let wait = |(wish, wait): (BytesWish, BytesWait)| Wait {
            number: wish.number,
            arrived: vec![(wish.rank, wish.bytes.call())],
            missing: wait.ranks(),
            since_ms: wish.since_ms,
            cause: WaitCause::Bytes(wait),
        };
        waits.map(wait).collect()
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::BytesUse;

    use super::*;

    fn wish((rank, number): (u32, u64), (from, len): (u64, u64), is_write: bool) -> BytesWish {
        let bytes = BytesUse::new(from, len, is_write);
        BytesWish { rank, number, bytes, since_ms: 100 * u64::from(rank) }
    }

    fn told(ranges: &mut Ranges<u32>) -> Vec<u32> {
        std::iter::from_fn(|| ranges.grant()).collect()
    }

    #[test]
    fn who_overlaps_waits_for_those_before_it() {
        let mut ranges = Ranges::default();
        ranges.want(wish((0, 0), (0, 10), false), 0);
        ranges.want(wish((1, 0), (5, 10), false), 1);
        ranges.want(wish((2, 0), (8, 4), true), 2);
        ranges.want(wish((3, 0), (11, 1), false), 3);
        ranges.want(wish((4, 0), (15, 5), true), 4);
        assert_eq!(
            told(&mut ranges),
            [0, 1, 4],
            "the reader behind the writer does not overtake it"
        );
        let waits = ranges.waits(1_000);
        let waits = waits.iter().map(|wait| (wait.arrived[0].0, &wait.missing[..], wait.since_ms));
        assert!(waits.eq([(2, &[0, 1][..], 200), (3, &[2][..], 300)]));
        ranges.leave(0);
        assert!(told(&mut ranges).is_empty());
        ranges.leave(1);
        assert_eq!(told(&mut ranges), [2]);
        ranges.leave(2);
        assert_eq!(told(&mut ranges), [3]);
        ranges.want(wish((3, 1), (0, 100), true), 3);
        ranges.give_back(3, 0);
        ranges.leave(4);
        assert_eq!(told(&mut ranges), [3], "what it gives back late is not what it has now");
        ranges.give_back(3, 1);
        ranges.want(wish((0, 0), (0, 0), true), 0);
        ranges.want(wish((1, 0), (u64::MAX - 1, 9), true), 1);
        assert_eq!(told(&mut ranges), [0, 1]);
    }
}

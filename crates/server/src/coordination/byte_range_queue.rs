//! Who may touch which bytes of a file, where accesses that overlap must not mix.
//!
//! Invariant: whoever wants bytes has them when nobody who came before it wants any of them, or all
//! of those only read. So nobody is overtaken, and nobody waits for one who waits for it.

use std::collections::VecDeque;

use pario_proto::{BytesClaim, BytesWait, WaitCause};

use super::round_collector::RankWait;

/// Those who have bytes of a file, and those who want some. `T` is by whom an answer goes back.
#[derive(Debug)]
pub struct ByteRangeQueue<T> {
    queue: VecDeque<QueuedClaim<T>>,
}

#[derive(Debug)]
struct QueuedClaim<T> {
    claim: BytesClaim,
    /// Taken when it was told that it has them.
    ticket: Option<T>,
}

impl<T> Default for ByteRangeQueue<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new() }
    }
}

impl<T> ByteRangeQueue<T> {
    /// A rank wants bytes, to write them or only to read; what it had before it needs no more. It
    /// numbers its wishes.
    pub fn add(&mut self, claim: BytesClaim, ticket: T) {
        self.remove_rank(claim.rank);
        self.queue.push_back(QueuedClaim { claim, ticket: Some(ticket) });
    }

    /// A rank needs no more what it has wanted under a number.
    pub fn release(&mut self, rank: u32, number: u64) {
        self.queue.retain(|QueuedClaim { claim, .. }| (claim.rank, claim.number) != (rank, number));
    }

    /// A rank needs no bytes any more, and wants none.
    pub fn remove_rank(&mut self, rank: u32) {
        self.queue.retain(|QueuedClaim { claim, .. }| claim.rank != rank);
    }

    /// Nobody needs bytes any more, or wants some; those who waited.
    pub fn clear(&mut self) -> Vec<T> {
        self.queue.drain(..).filter_map(|queued| queued.ticket).collect()
    }

    /// The next one that has its bytes and was not told.
    pub fn next_granted(&mut self) -> Option<T> {
        let is_free = |index: usize| {
            let QueuedClaim { claim, ticket } = &self.queue[index];
            let clashes = |before: &QueuedClaim<T>| before.claim.bytes.clashes(&claim.bytes);
            ticket.is_some() && !self.queue.range(..index).any(clashes)
        };
        let index = (0..self.queue.len()).find(|index| is_free(*index))?;
        self.queue[index].ticket.take()
    }

    /// Who waits for whom.
    pub fn waits(&self, now_ms: u64) -> Vec<RankWait> {
        let queue: Vec<BytesClaim> = self.queue.iter().map(|queued| queued.claim).collect();
        let waits = BytesWait::among(&queue, now_ms).into_iter();
        let wait = |(claim, wait): (BytesClaim, BytesWait)| RankWait {
            number: claim.number,
            arrived: vec![(claim.rank, claim.bytes.call())],
            missing: wait.ranks(),
            since_ms: claim.since_ms,
            cause: WaitCause::Bytes(wait),
        };
        waits.map(wait).collect()
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::BytesUse;

    use super::*;

    fn claim((rank, number): (u32, u64), (from, len): (u64, u64), is_write: bool) -> BytesClaim {
        let bytes = BytesUse::new(from, len, is_write);
        BytesClaim { rank, number, bytes, since_ms: 100 * u64::from(rank) }
    }

    fn told(ranges: &mut ByteRangeQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| ranges.next_granted()).collect()
    }

    #[test]
    fn who_overlaps_waits_for_those_before_it() {
        let mut ranges = ByteRangeQueue::default();
        ranges.add(claim((0, 0), (0, 10), false), 0);
        ranges.add(claim((1, 0), (5, 10), false), 1);
        ranges.add(claim((2, 0), (8, 4), true), 2);
        ranges.add(claim((3, 0), (11, 1), false), 3);
        ranges.add(claim((4, 0), (15, 5), true), 4);
        assert_eq!(
            told(&mut ranges),
            [0, 1, 4],
            "the reader behind the writer does not overtake it"
        );
        let waits = ranges.waits(1_000);
        let waits = waits.iter().map(|wait| (wait.arrived[0].0, &wait.missing[..], wait.since_ms));
        assert!(waits.eq([(2, &[0, 1][..], 200), (3, &[2][..], 300)]));
        ranges.remove_rank(0);
        assert!(told(&mut ranges).is_empty());
        ranges.remove_rank(1);
        assert_eq!(told(&mut ranges), [2]);
        ranges.remove_rank(2);
        assert_eq!(told(&mut ranges), [3]);
        ranges.add(claim((3, 1), (0, 100), true), 3);
        ranges.release(3, 0);
        ranges.remove_rank(4);
        assert_eq!(told(&mut ranges), [3], "what it gives back late is not what it has now");
        ranges.release(3, 1);
        ranges.add(claim((0, 0), (0, 0), true), 0);
        ranges.add(claim((1, 0), (u64::MAX - 1, 9), true), 1);
        assert_eq!(told(&mut ranges), [0, 1]);
    }
}

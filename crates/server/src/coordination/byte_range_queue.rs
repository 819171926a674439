//! Claims of byte ranges of a shared file, so that overlapping accesses do not mix.
//!
//! Invariant: a claim is granted when no earlier claim conflicts with it. So no claim overtakes
//! another, and no two claims wait for each other.

use std::collections::VecDeque;

use pario_proto::{BytesClaim, BytesWait, WaitCause};

use super::round_collector::RankWait;

/// The claims of byte ranges of a file, oldest first. `T` identifies the caller that a reply goes
/// to.
#[derive(Debug)]
pub struct ByteRangeQueue<T> {
    queue: VecDeque<QueuedClaim<T>>,
}

#[derive(Debug)]
struct QueuedClaim<T> {
    claim: BytesClaim,
    /// `None` once the claim is granted and its caller has a reply.
    ticket: Option<T>,
}

impl<T> Default for ByteRangeQueue<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new() }
    }
}

impl<T> ByteRangeQueue<T> {
    /// Adds a claim of a rank, beside its earlier ones. A rank numbers its claims.
    pub fn add(&mut self, claim: BytesClaim, ticket: T) {
        self.queue.push_back(QueuedClaim { claim, ticket: Some(ticket) });
    }

    /// Adds a claim whose bytes its rank uses already: all claims that wait come after it.
    pub fn add_granted(&mut self, claim: BytesClaim) {
        self.queue.push_front(QueuedClaim { claim, ticket: None });
    }

    /// The number of claims of a rank.
    pub fn count_of(&self, rank: u32) -> usize {
        self.queue.iter().filter(|queued| queued.claim.rank == rank).count()
    }

    /// Removes the claim of a rank with this number.
    pub fn release(&mut self, rank: u32, number: u64) {
        self.queue.retain(|QueuedClaim { claim, .. }| (claim.rank, claim.number) != (rank, number));
    }

    /// Removes the claims of a rank.
    pub fn remove_rank(&mut self, rank: u32) {
        drop(self.take_rank(rank));
    }

    /// Removes the claims of a rank. Returns the callers that still waited.
    pub fn take_rank(&mut self, rank: u32) -> Vec<T> {
        let queue = std::mem::take(&mut self.queue).into_iter();
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            queue.partition(|queued| queued.claim.rank == rank);
        self.queue = others;
        own.into_iter().filter_map(|queued| queued.ticket).collect()
    }

    /// Removes all claims. Returns the callers that still waited.
    pub fn clear(&mut self) -> Vec<T> {
        self.queue.drain(..).filter_map(|queued| queued.ticket).collect()
    }

    /// Grants the next claim that conflicts with no earlier one, and returns its caller.
    pub fn next_granted(&mut self) -> Option<T> {
        let is_free = |index: usize| {
            let QueuedClaim { claim, ticket } = &self.queue[index];
            let clashes = |before: &QueuedClaim<T>| before.claim.bytes.clashes(&claim.bytes);
            ticket.is_some() && !self.queue.range(..index).any(clashes)
        };
        let index = (0..self.queue.len()).find(|index| is_free(*index))?;
        self.queue[index].ticket.take()
    }

    /// The claims that wait, and the ranks that they wait for.
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

    fn granted(ranges: &mut ByteRangeQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| ranges.next_granted()).collect()
    }

    #[test]
    fn a_claim_waits_for_earlier_claims_that_conflict() {
        let mut ranges = ByteRangeQueue::default();
        ranges.add(claim((0, 0), (0, 10), false), 0);
        ranges.add(claim((1, 0), (5, 10), false), 1);
        ranges.add(claim((2, 0), (8, 4), true), 2);
        ranges.add(claim((3, 0), (11, 1), false), 3);
        ranges.add(claim((4, 0), (15, 5), true), 4);
        assert_eq!(granted(&mut ranges), [0, 1, 4], "a reader does not overtake an earlier writer");
        let waits = ranges.waits(1_000);
        let waits = waits.iter().map(|wait| (wait.arrived[0].0, &wait.missing[..], wait.since_ms));
        assert!(waits.eq([(2, &[0, 1][..], 200), (3, &[2][..], 300)]));
        ranges.remove_rank(0);
        assert!(granted(&mut ranges).is_empty());
        ranges.remove_rank(1);
        assert_eq!(granted(&mut ranges), [2]);
        ranges.remove_rank(2);
        assert_eq!(granted(&mut ranges), [3]);
        ranges.add(claim((3, 1), (0, 100), true), 3);
        ranges.remove_rank(4);
        assert!(granted(&mut ranges).is_empty(), "the earlier claim of the same rank conflicts");
        ranges.release(3, 0);
        assert_eq!(granted(&mut ranges), [3]);
        ranges.release(3, 1);
        ranges.add(claim((0, 0), (0, 0), true), 0);
        ranges.add(claim((1, 0), (u64::MAX - 1, 9), true), 1);
        assert_eq!(granted(&mut ranges), [0, 1]);
    }

    #[test]
    fn a_rank_may_have_several_claims_and_one_that_is_under_way_comes_first() {
        let mut ranges = ByteRangeQueue::default();
        ranges.add(claim((0, 0), (0, 10), true), 0);
        ranges.add_granted(claim((1, 0), (5, 10), true));
        assert!(granted(&mut ranges).is_empty());
        ranges.add(claim((0, 1), (20, 5), true), 1);
        assert_eq!((granted(&mut ranges), ranges.count_of(0)), (vec![1], 2));
        ranges.release(1, 0);
        assert_eq!(granted(&mut ranges), [0]);
    }
}

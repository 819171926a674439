//! The round collector: it collects the collective calls of all ranks, and says when a round is
//! complete, or why it fails.
//!
//! Invariants: each rank numbers its calls from 0; the calls of one number are a *round*. Rounds
//! complete in the order of their numbers, each once, when all ranks have called. After a rank has
//! left, no further round completes: calls that wait fail at once, and so do later calls.

use std::collections::{BTreeMap, HashMap, VecDeque};

use pario_proto::{Call, CollectiveError, MISSING_SHOWN, ROUNDS_LIMIT, ROUNDS_SHOWN, WaitCause};

/// The ranks of a job, and their collective calls. `T` identifies the caller that a reply goes to.
///
/// Its memory grows with the ranks that have joined and their calls, never with the size or the
/// numbers that a request claims.
#[derive(Debug)]
pub struct RoundCollector<T> {
    size: u32,
    /// The ranks that have joined or left.
    ranks: HashMap<u32, RankState>,
    /// The number of ranks that have left.
    left: u32,
    /// Set by a reset: every rank has left for this reason.
    all_left: Option<Departure>,
    /// The rounds in which a rank has called, by their numbers.
    rounds: BTreeMap<u64, Round<T>>,
    /// The number of the first round that is not decided.
    first_undecided: u64,
    /// The error of the first rank that left.
    ended_by: Option<CollectiveError>,
    /// Calls that failed with it, and have no reply yet.
    failed: VecDeque<(u32, Call, T)>,
}

/// The state of a rank that has joined once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RankState {
    Joined,
    Left(Departure),
}

/// Why a rank has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Its process is lost.
    Gone,
    /// It has closed the file.
    Closed,
    /// A user has reset the job or the file.
    Reset,
}

/// A round in which at least one rank has called.
#[derive(Debug)]
struct Round<T> {
    calls: BTreeMap<u32, (Call, T)>,
    since_ms: u64,
    /// The rank that called last.
    last: u32,
}

/// The result of a round.
#[derive(Debug)]
pub enum RoundResult<T> {
    /// All ranks have called.
    Complete(CompleteRound<T>),
    /// The round cannot complete: the call of this rank fails.
    Failed(u32, Call, T, CollectiveError),
}

/// A round in which all ranks have called.
#[derive(Debug)]
pub struct CompleteRound<T> {
    /// Its number.
    pub number: u64,
    /// The calls, in the order of ranks.
    pub calls: Vec<(Call, T)>,
    /// The rank that called last.
    pub last: u32,
}

/// Ranks that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankWait {
    /// The number of the round, or of a claim of bytes.
    pub number: u64,
    /// The ranks that wait, and their calls.
    pub arrived: Vec<(u32, Call)>,
    /// The ranks that they wait for: the first [`MISSING_SHOWN`] of them.
    pub missing: Vec<u32>,
    /// When the first of them called.
    pub since_ms: u64,
    /// Why they wait.
    pub cause: WaitCause,
}

impl<T> RoundCollector<T> {
    /// A collector for `size` ranks.
    pub fn new(size: u32) -> Self {
        Self {
            size,
            ranks: HashMap::new(),
            left: 0,
            all_left: None,
            rounds: BTreeMap::new(),
            first_undecided: 0,
            ended_by: None,
            failed: VecDeque::new(),
        }
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Lets a rank join.
    pub fn join(&mut self, rank: u32) -> Result<(), CollectiveError> {
        if rank >= self.size {
            return Err(CollectiveError::NoSuchRank { rank, size: self.size });
        }
        match self.state_of(rank) {
            None => {
                self.ranks.insert(rank, RankState::Joined);
                Ok(())
            }
            Some(RankState::Joined) => Err(CollectiveError::RankTaken { rank }),
            Some(RankState::Left(departure)) => Err(departure.error(rank)),
        }
    }

    /// Whether a rank has joined and not left.
    pub fn is_here(&self, rank: u32) -> bool {
        self.state_of(rank) == Some(RankState::Joined)
    }

    /// Whether all ranks have left.
    pub fn is_over(&self) -> bool {
        self.all_left.is_some() || self.left == self.size
    }

    /// Adds the call of a rank. If it is refused, returns the caller with the reason.
    pub fn add_call(
        &mut self,
        rank: u32,
        number: u64,
        call: Call,
        ticket: T,
        now_ms: u64,
    ) -> Result<(), (T, CollectiveError)> {
        let first = self.first_undecided;
        if !self.is_here(rank) {
            return Err((ticket, self.absence_error(rank)));
        }
        if let Some(error) = self.ended_by.clone() {
            return Err((ticket, error));
        }
        let is_in_window = |ahead: u64| ahead < ROUNDS_LIMIT;
        if !number.checked_sub(first).is_some_and(is_in_window) {
            return Err((ticket, CollectiveError::OutOfTurn { number, first }));
        }
        let empty = || Round { calls: BTreeMap::new(), since_ms: now_ms, last: rank };
        let round = self.rounds.entry(number).or_insert_with(empty);
        if round.calls.contains_key(&rank) {
            return Err((ticket, CollectiveError::OutOfTurn { number, first }));
        }
        round.calls.insert(rank, (call, ticket));
        round.last = rank;
        Ok(())
    }

    /// Lets a rank leave. Rounds in which all ranks have called stay complete.
    pub fn leave(&mut self, rank: u32, departure: Departure) {
        if rank >= self.size || matches!(self.state_of(rank), Some(RankState::Left(_))) {
            return;
        }
        self.ranks.insert(rank, RankState::Left(departure));
        self.left += 1;
        self.fail_incomplete(departure.error(rank));
    }

    /// Lets every rank leave, also those that have not joined.
    pub fn leave_all(&mut self, departure: Departure) {
        self.all_left = Some(departure);
        self.fail_incomplete(departure.error(0));
    }

    /// Fails the rounds that cannot complete any more.
    fn fail_incomplete(&mut self, error: CollectiveError) {
        self.ended_by.get_or_insert(error);
        let size = self.size;
        let mut complete = BTreeMap::new();
        let mut next = self.first_undecided;
        for (number, round) in std::mem::take(&mut self.rounds) {
            if number == next && round.is_complete(size) {
                next += 1;
                complete.insert(number, round);
                continue;
            }
            let called = round.calls.into_iter();
            self.failed.extend(called.map(|(rank, (call, ticket))| (rank, call, ticket)));
        }
        self.rounds = complete;
    }

    /// Returns the next result: a complete round, or a call that fails.
    pub fn next_result(&mut self) -> Option<RoundResult<T>> {
        let size = self.size;
        let number = self.first_undecided;
        if self.rounds.get(&number).is_some_and(|round| round.is_complete(size)) {
            let round = self.rounds.remove(&number)?;
            self.first_undecided += 1;
            let (calls, last) = (round.calls.into_values().collect(), round.last);
            return Some(RoundResult::Complete(CompleteRound { number, calls, last }));
        }
        let (rank, call, ticket) = self.failed.pop_front()?;
        Some(RoundResult::Failed(rank, call, ticket, self.ended_by.clone()?))
    }

    /// The rounds that wait, oldest first: the first [`ROUNDS_SHOWN`], so that the reply does not
    /// grow with what one client claims.
    pub fn waits(&self) -> Vec<RankWait> {
        let wait = |(number, round): (&u64, &Round<T>)| {
            let arrived = round.calls.iter().map(|(rank, (call, _))| (*rank, call.clone()));
            let missing = (0..self.size).filter(|rank| !round.calls.contains_key(rank));
            RankWait {
                number: *number,
                arrived: arrived.take(MISSING_SHOWN).collect(),
                missing: missing.take(MISSING_SHOWN).collect(),
                since_ms: round.since_ms,
                cause: WaitCause::Absence,
            }
        };
        self.rounds.iter().take(ROUNDS_SHOWN).map(wait).collect()
    }

    fn state_of(&self, rank: u32) -> Option<RankState> {
        let all_left = self.all_left.map(RankState::Left);
        let own = self.ranks.get(&rank).copied();
        if matches!(own, Some(RankState::Left(_))) { own } else { all_left.or(own) }
    }

    fn absence_error(&self, rank: u32) -> CollectiveError {
        match self.state_of(rank) {
            Some(RankState::Left(departure)) => departure.error(rank),
            _ => CollectiveError::NoSuchRank { rank, size: self.size() },
        }
    }
}

impl<T> Round<T> {
    fn is_complete(&self, size: u32) -> bool {
        self.calls.len() == size as usize
    }
}

impl Departure {
    /// The error that the other ranks get.
    pub fn error(self, rank: u32) -> CollectiveError {
        match self {
            Departure::Gone => CollectiveError::Gone { rank },
            Departure::Closed => CollectiveError::Closed { rank },
            Departure::Reset => CollectiveError::Reset,
        }
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::JOB_SIZE_LIMIT;

    use super::*;

    fn joined(size: u32) -> RoundCollector<u32> {
        let mut rounds = RoundCollector::new(size);
        for rank in 0..size {
            rounds.join(rank).unwrap();
        }
        rounds
    }

    fn complete(rounds: &mut RoundCollector<u32>) -> CompleteRound<u32> {
        match rounds.next_result() {
            Some(RoundResult::Complete(round)) => round,
            other => panic!("the round is not complete: {other:?}"),
        }
    }

    #[test]
    fn a_round_is_complete_when_all_have_called_and_earlier_rounds_are() {
        let mut rounds = joined(2);
        rounds.add_call(0, 1, Call::Close, 10, 0).unwrap();
        rounds.add_call(1, 1, Call::Close, 11, 0).unwrap();
        assert!(rounds.next_result().is_none(), "round 0 comes first");
        rounds.add_call(0, 0, Call::Barrier, 0, 0).unwrap();
        assert!(rounds.next_result().is_none());
        assert_eq!(
            rounds.add_call(0, 0, Call::Barrier, 7, 0),
            Err((7, CollectiveError::OutOfTurn { number: 0, first: 0 }))
        );
        rounds.add_call(1, 0, Call::Barrier, 1, 0).unwrap();
        let first = complete(&mut rounds);
        assert_eq!((first.number, first.last), (0, 1));
        assert_eq!(first.calls, [(Call::Barrier, 0), (Call::Barrier, 1)]);
        assert_eq!(complete(&mut rounds).number, 1);
        assert!(rounds.next_result().is_none());
        assert_eq!(
            rounds.add_call(0, 1, Call::Close, 7, 0),
            Err((7, CollectiveError::OutOfTurn { number: 1, first: 2 }))
        );
    }

    #[test]
    fn calls_that_wait_for_a_lost_rank_fail() {
        let mut rounds = joined(3);
        rounds.add_call(0, 0, Call::Barrier, 0, 5).unwrap();
        rounds.add_call(2, 0, Call::Barrier, 2, 6).unwrap();
        rounds.add_call(1, 1, Call::Barrier, 1, 7).unwrap();
        let waits = rounds.waits();
        assert_eq!((waits[0].missing.as_slice(), waits[0].since_ms), (&[1][..], 5));
        assert_eq!((waits[1].missing.as_slice(), waits[1].since_ms), (&[0, 2][..], 7));
        assert!(rounds.next_result().is_none());
        rounds.leave(1, Departure::Gone);
        let mut failed = Vec::new();
        while let Some(RoundResult::Failed(rank, _, ticket, error)) = rounds.next_result() {
            assert_eq!((ticket, error), (rank, CollectiveError::Gone { rank: 1 }));
            failed.push(rank);
        }
        assert_eq!(failed, [0, 2, 1]);
        assert!(rounds.waits().is_empty());
        // A later call fails at once.
        let refused = rounds.add_call(0, 1, Call::Barrier, 0, 8);
        assert_eq!(refused, Err((0, CollectiveError::Gone { rank: 1 })));
        rounds.leave(0, Departure::Closed);
        let refused = rounds.add_call(2, 1, Call::Barrier, 2, 8);
        assert_eq!(refused, Err((2, CollectiveError::Gone { rank: 1 })), "the first loss counts");
        assert_eq!(rounds.join(1), Err(CollectiveError::Gone { rank: 1 }));
    }

    #[test]
    fn one_call_of_a_huge_job_costs_one_call() {
        let mut rounds: RoundCollector<u32> = RoundCollector::new(JOB_SIZE_LIMIT);
        let rank = JOB_SIZE_LIMIT - 1;
        rounds.join(rank).unwrap();
        rounds.add_call(rank, ROUNDS_LIMIT - 1, Call::Barrier, 7, 0).unwrap();
        assert_eq!((rounds.ranks.len(), rounds.rounds.len()), (1, 1));
        let waits = rounds.waits();
        assert_eq!(waits[0].arrived, [(rank, Call::Barrier)]);
        assert_eq!(waits[0].missing.len(), MISSING_SHOWN);
        for number in 0..ROUNDS_LIMIT - 1 {
            rounds.add_call(rank, number, Call::Barrier, 7, 0).unwrap();
        }
        assert_eq!(rounds.waits().len(), ROUNDS_SHOWN, "a reply has a limit");
        rounds.leave_all(Departure::Reset);
        assert!(rounds.is_over());
        assert_eq!(rounds.ranks.len(), 1);
        let failed = std::iter::from_fn(|| rounds.next_result()).count();
        assert_eq!(failed as u64, ROUNDS_LIMIT);
        assert_eq!(rounds.join(0), Err(CollectiveError::Reset));
    }

    #[test]
    fn a_rank_joins_once() {
        let mut rounds: RoundCollector<()> = RoundCollector::new(2);
        rounds.join(1).unwrap();
        assert_eq!(rounds.join(1), Err(CollectiveError::RankTaken { rank: 1 }));
        assert_eq!(rounds.join(2), Err(CollectiveError::NoSuchRank { rank: 2, size: 2 }));
        let refused = rounds.add_call(0, 0, Call::Barrier, (), 0).unwrap_err().1;
        assert_eq!(refused, CollectiveError::NoSuchRank { rank: 0, size: 2 });
        let refused = rounds.add_call(1, ROUNDS_LIMIT, Call::Barrier, (), 0).unwrap_err().1;
        assert_eq!(refused, CollectiveError::OutOfTurn { number: ROUNDS_LIMIT, first: 0 });
        assert!(!rounds.is_over());
        rounds.leave(0, Departure::Gone);
        rounds.leave(1, Departure::Closed);
        assert!(rounds.is_over());
    }
}

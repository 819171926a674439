//! The table at which the ranks of a job sit: it collects the calls in which all of them meet.
//!
//! Invariants: each rank numbers its calls from 0; the calls of one number are a *round*. Rounds are
//! decided in the order of their numbers, each once, when all ranks have called. When a rank has
//! left, nobody meets any more: whoever waits is told at once, and so is whoever comes later.

use std::collections::{BTreeMap, HashMap, VecDeque};

use pario_proto::{Call, MISSING_SHOWN, ROUNDS_LIMIT, ROUNDS_SHOWN, Trouble, WaitCause};

/// The ranks of a group, and what they have called so far. `T` is by whom an answer goes back.
///
/// Its memory grows with the ranks that have come and the calls that they have made, never with the
/// size or the numbers that a request claims.
#[derive(Debug)]
pub struct Gathering<T> {
    size: u32,
    /// The ranks that have come, or left.
    seats: HashMap<u32, Seat>,
    /// How many of them have left.
    left: u32,
    /// Set by a reset: every rank has left in this way.
    all_left: Option<Fate>,
    /// The rounds in which a rank has called, by their numbers.
    rounds: BTreeMap<u64, Round<T>>,
    /// The number of the first round that is not decided.
    first: u64,
    /// Who was the first to leave.
    broken: Option<Trouble>,
    /// Those who waited then, and are to be told.
    failed: VecDeque<(u32, Call, T)>,
}

/// Where a rank is that has come once; the others are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Taken,
    Left(Fate),
}

/// How a rank has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its process is gone.
    Gone,
    /// It has closed the file.
    Closed,
    /// Somebody has ended the meetings of all.
    Reset,
}

/// A round in which at least one rank has called.
#[derive(Debug)]
struct Round<T> {
    calls: BTreeMap<u32, (Call, T)>,
    since_ms: u64,
    /// The rank that came last.
    last: u32,
}

/// What became of a round.
#[derive(Debug)]
pub enum Decided<T> {
    /// All have called.
    Met(Met<T>),
    /// One never will: this rank, which has called this, is to be told.
    Failed(u32, Call, T, Trouble),
}

/// A round in which all have called.
#[derive(Debug)]
pub struct Met<T> {
    /// Its number.
    pub number: u64,
    /// The calls, in the order of ranks.
    pub calls: Vec<(Call, T)>,
    /// The rank that came last.
    pub last: u32,
}

/// Who waits for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The number of the round, or of a wish for bytes.
    pub number: u64,
    /// Who has called what.
    pub arrived: Vec<(u32, Call)>,
    /// For whom they wait: the first [`MISSING_SHOWN`] of them.
    pub missing: Vec<u32>,
    /// Since when the first of them waits.
    pub since_ms: u64,
    /// Why they wait.
    pub cause: WaitCause,
}

impl<T> Gathering<T> {
    /// A table for so many ranks.
    pub fn new(size: u32) -> Self {
        Self {
            size,
            seats: HashMap::new(),
            left: 0,
            all_left: None,
            rounds: BTreeMap::new(),
            first: 0,
            broken: None,
            failed: VecDeque::new(),
        }
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// A rank sits down.
    pub fn enter(&mut self, rank: u32) -> Result<(), Trouble> {
        if rank >= self.size {
            return Err(Trouble::NoSuchRank { rank, size: self.size });
        }
        match self.seat(rank) {
            None => {
                self.seats.insert(rank, Seat::Taken);
                Ok(())
            }
            Some(Seat::Taken) => Err(Trouble::RankTaken { rank }),
            Some(Seat::Left(fate)) => Err(fate.of(rank)),
        }
    }

    /// Whether a rank sits at the table.
    pub fn is_here(&self, rank: u32) -> bool {
        self.seat(rank) == Some(Seat::Taken)
    }

    /// Whether all have left.
    pub fn is_over(&self) -> bool {
        self.all_left.is_some() || self.left == self.size
    }

    /// A rank calls. If the call cannot count, it comes back with the reason.
    pub fn call(
        &mut self,
        rank: u32,
        number: u64,
        call: Call,
        ticket: T,
        now_ms: u64,
    ) -> Result<(), (T, Trouble)> {
        let first = self.first;
        if !self.is_here(rank) {
            return Err((ticket, self.absence(rank)));
        }
        if let Some(trouble) = self.broken.clone() {
            return Err((ticket, trouble));
        }
        let is_near = |ahead: u64| ahead < ROUNDS_LIMIT;
        if !number.checked_sub(first).is_some_and(is_near) {
            return Err((ticket, Trouble::OutOfTurn { number, first }));
        }
        let empty = || Round { calls: BTreeMap::new(), since_ms: now_ms, last: rank };
        let round = self.rounds.entry(number).or_insert_with(empty);
        if round.calls.contains_key(&rank) {
            return Err((ticket, Trouble::OutOfTurn { number, first }));
        }
        round.calls.insert(rank, (call, ticket));
        round.last = rank;
        Ok(())
    }

    /// A rank leaves: nobody waits for it any more. Rounds in which all have called stay as they
    /// are.
    pub fn leave(&mut self, rank: u32, fate: Fate) {
        if rank >= self.size || matches!(self.seat(rank), Some(Seat::Left(_))) {
            return;
        }
        self.seats.insert(rank, Seat::Left(fate));
        self.left += 1;
        self.fail_all(fate.of(rank));
    }

    /// Every rank leaves, also those that have not come.
    pub fn leave_all(&mut self, fate: Fate) {
        self.all_left = Some(fate);
        self.fail_all(fate.of(0));
    }

    /// Fails the rounds that will never be complete.
    fn fail_all(&mut self, trouble: Trouble) {
        self.broken.get_or_insert(trouble);
        let size = self.size;
        let mut complete = BTreeMap::new();
        let mut next = self.first;
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

    /// The next thing that is decided: all have called in a round, or somebody is told that one
    /// never will.
    pub fn decide(&mut self) -> Option<Decided<T>> {
        let size = self.size;
        let number = self.first;
        if self.rounds.get(&number).is_some_and(|round| round.is_complete(size)) {
            let round = self.rounds.remove(&number)?;
            self.first += 1;
            let (calls, last) = (round.calls.into_values().collect(), round.last);
            return Some(Decided::Met(Met { number, calls, last }));
        }
        let (rank, call, ticket) = self.failed.pop_front()?;
        Some(Decided::Failed(rank, call, ticket, self.broken.clone()?))
    }

    /// Who waits for whom, oldest first: the first [`ROUNDS_SHOWN`] rounds, so that the answer does
    /// not grow with what one client claims.
    pub fn waits(&self) -> Vec<Wait> {
        let wait = |(number, round): (&u64, &Round<T>)| {
            let arrived = round.calls.iter().map(|(rank, (call, _))| (*rank, call.clone()));
            let missing = (0..self.size).filter(|rank| !round.calls.contains_key(rank));
            Wait {
                number: *number,
                arrived: arrived.take(MISSING_SHOWN).collect(),
                missing: missing.take(MISSING_SHOWN).collect(),
                since_ms: round.since_ms,
                cause: WaitCause::Absence,
            }
        };
        self.rounds.iter().take(ROUNDS_SHOWN).map(wait).collect()
    }

    fn seat(&self, rank: u32) -> Option<Seat> {
        let all_left = self.all_left.map(Seat::Left);
        let own = self.seats.get(&rank).copied();
        if matches!(own, Some(Seat::Left(_))) { own } else { all_left.or(own) }
    }

    fn absence(&self, rank: u32) -> Trouble {
        match self.seat(rank) {
            Some(Seat::Left(fate)) => fate.of(rank),
            _ => Trouble::NoSuchRank { rank, size: self.size() },
        }
    }
}

impl<T> Round<T> {
    fn is_complete(&self, size: u32) -> bool {
        self.calls.len() == size as usize
    }
}

impl Fate {
    /// What the others are told.
    pub fn of(self, rank: u32) -> Trouble {
        match self {
            Fate::Gone => Trouble::Gone { rank },
            Fate::Closed => Trouble::Closed { rank },
            Fate::Reset => Trouble::Reset,
        }
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::GROUP_LIMIT;

    use super::*;

    fn table(size: u32) -> Gathering<u32> {
        let mut table = Gathering::new(size);
        for rank in 0..size {
            table.enter(rank).unwrap();
        }
        table
    }

    fn met(table: &mut Gathering<u32>) -> Met<u32> {
        match table.decide() {
            Some(Decided::Met(met)) => met,
            other => panic!("all have called: {other:?}"),
        }
    }

    #[test]
    fn a_round_is_decided_when_all_have_called_and_in_its_turn() {
        let mut table = table(2);
        table.call(0, 1, Call::Close, 10, 0).unwrap();
        table.call(1, 1, Call::Close, 11, 0).unwrap();
        assert!(table.decide().is_none(), "round 0 comes first");
        table.call(0, 0, Call::Barrier, 0, 0).unwrap();
        assert!(table.decide().is_none());
        assert_eq!(
            table.call(0, 0, Call::Barrier, 7, 0),
            Err((7, Trouble::OutOfTurn { number: 0, first: 0 }))
        );
        table.call(1, 0, Call::Barrier, 1, 0).unwrap();
        let first = met(&mut table);
        assert_eq!((first.number, first.last), (0, 1));
        assert_eq!(first.calls, [(Call::Barrier, 0), (Call::Barrier, 1)]);
        assert_eq!(met(&mut table).number, 1);
        assert!(table.decide().is_none());
        assert_eq!(
            table.call(0, 1, Call::Close, 7, 0),
            Err((7, Trouble::OutOfTurn { number: 1, first: 2 }))
        );
    }

    #[test]
    fn who_waits_for_one_that_is_gone_is_told() {
        let mut table = table(3);
        table.call(0, 0, Call::Barrier, 0, 5).unwrap();
        table.call(2, 0, Call::Barrier, 2, 6).unwrap();
        table.call(1, 1, Call::Barrier, 1, 7).unwrap();
        let waits = table.waits();
        assert_eq!((waits[0].missing.as_slice(), waits[0].since_ms), (&[1][..], 5));
        assert_eq!((waits[1].missing.as_slice(), waits[1].since_ms), (&[0, 2][..], 7));
        assert!(table.decide().is_none());
        table.leave(1, Fate::Gone);
        let mut told = Vec::new();
        while let Some(Decided::Failed(rank, _, ticket, trouble)) = table.decide() {
            assert_eq!((ticket, trouble), (rank, Trouble::Gone { rank: 1 }));
            told.push(rank);
        }
        assert_eq!(told, [0, 2, 1]);
        assert!(table.waits().is_empty());
        // Who comes later is told at once.
        let refused = table.call(0, 1, Call::Barrier, 0, 8);
        assert_eq!(refused, Err((0, Trouble::Gone { rank: 1 })));
        table.leave(0, Fate::Closed);
        let refused = table.call(2, 1, Call::Barrier, 2, 8);
        assert_eq!(refused, Err((2, Trouble::Gone { rank: 1 })), "it was the first");
        assert_eq!(table.enter(1), Err(Trouble::Gone { rank: 1 }));
    }

    #[test]
    fn one_call_of_a_huge_group_costs_one_call() {
        let mut table: Gathering<u32> = Gathering::new(GROUP_LIMIT);
        let rank = GROUP_LIMIT - 1;
        table.enter(rank).unwrap();
        table.call(rank, ROUNDS_LIMIT - 1, Call::Barrier, 7, 0).unwrap();
        assert_eq!((table.seats.len(), table.rounds.len()), (1, 1));
        let waits = table.waits();
        assert_eq!(waits[0].arrived, [(rank, Call::Barrier)]);
        assert_eq!(waits[0].missing.len(), MISSING_SHOWN);
        for number in 0..ROUNDS_LIMIT - 1 {
            table.call(rank, number, Call::Barrier, 7, 0).unwrap();
        }
        assert_eq!(table.waits().len(), ROUNDS_SHOWN, "an answer has a limit");
        table.leave_all(Fate::Reset);
        assert!(table.is_over());
        assert_eq!(table.seats.len(), 1);
        let told = std::iter::from_fn(|| table.decide()).count();
        assert_eq!(told as u64, ROUNDS_LIMIT);
        assert_eq!(table.enter(0), Err(Trouble::Reset));
    }

    #[test]
    fn seats_are_taken_once() {
        let mut table: Gathering<()> = Gathering::new(2);
        table.enter(1).unwrap();
        assert_eq!(table.enter(1), Err(Trouble::RankTaken { rank: 1 }));
        assert_eq!(table.enter(2), Err(Trouble::NoSuchRank { rank: 2, size: 2 }));
        let refused = table.call(0, 0, Call::Barrier, (), 0).unwrap_err().1;
        assert_eq!(refused, Trouble::NoSuchRank { rank: 0, size: 2 });
        let refused = table.call(1, ROUNDS_LIMIT, Call::Barrier, (), 0).unwrap_err().1;
        assert_eq!(refused, Trouble::OutOfTurn { number: ROUNDS_LIMIT, first: 0 });
        assert!(!table.is_over());
        table.leave(0, Fate::Gone);
        table.leave(1, Fate::Closed);
        assert!(table.is_over());
    }
}

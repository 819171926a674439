//! The table at which the ranks of a job sit: it collects the calls in which all of them meet.
//!
//! Invariants: each rank numbers its calls from 0; the calls of one number are a *round*. Rounds are
//! decided in the order of their numbers, each once, when all ranks have called. When a rank has
//! left, nobody meets any more: whoever waits is told at once, and so is whoever comes later.

use std::collections::VecDeque;

use pario_proto::{Call, Trouble, WaitCause};

/// So many rounds may be begun and not decided: so many calls can a rank have under way.
pub const ROUNDS_LIMIT: u64 = 4096;

/// The ranks of a group, and what they have called so far. `T` is by whom an answer goes back.
#[derive(Debug)]
pub struct Gathering<T> {
    seats: Vec<Seat>,
    rounds: VecDeque<Round<T>>,
    /// The number of the first of them.
    first: u64,
    /// Who was the first to leave.
    broken: Option<Trouble>,
    /// Those who waited then, and are to be told.
    failed: VecDeque<(u32, Call, T)>,
}

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    Expected,
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

#[derive(Debug)]
struct Round<T> {
    calls: Vec<Option<(Call, T)>>,
    missing: usize,
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
    /// For whom they wait.
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
            seats: (0..size).map(|_| Seat::Expected).collect(),
            rounds: VecDeque::new(),
            first: 0,
            broken: None,
            failed: VecDeque::new(),
        }
    }

    /// How many ranks there are.
    #[expect(clippy::cast_possible_truncation, reason = "it was made from a u32")]
    pub fn size(&self) -> u32 {
        self.seats.len() as u32
    }

    /// A rank sits down.
    pub fn enter(&mut self, rank: u32) -> Result<(), Trouble> {
        let size = self.size();
        match self.seats.get_mut(rank as usize) {
            None => Err(Trouble::NoSuchRank { rank, size }),
            Some(seat @ Seat::Expected) => {
                *seat = Seat::Taken;
                Ok(())
            }
            Some(Seat::Taken) => Err(Trouble::RankTaken { rank }),
            Some(Seat::Left(fate)) => Err(fate.of(rank)),
        }
    }

    /// Whether a rank sits at the table.
    pub fn is_here(&self, rank: u32) -> bool {
        self.seats.get(rank as usize) == Some(&Seat::Taken)
    }

    /// Whether all have left.
    pub fn is_over(&self) -> bool {
        self.seats.iter().all(|seat| matches!(seat, Seat::Left(_)))
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
        let (first, size) = (self.first, self.seats.len());
        if !self.is_here(rank) {
            return Err((ticket, self.absence(rank)));
        }
        if let Some(trouble) = self.broken.clone() {
            return Err((ticket, trouble));
        }
        let Some(ahead) = number.checked_sub(first).filter(|ahead| *ahead < ROUNDS_LIMIT) else {
            return Err((ticket, Trouble::OutOfTurn { number, first }));
        };
        while self.rounds.len() as u64 <= ahead {
            self.rounds.push_back(Round {
                calls: (0..size).map(|_| None).collect(),
                missing: size,
                since_ms: now_ms,
                last: rank,
            });
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is below a small limit")]
        let round = &mut self.rounds[ahead as usize];
        let place = &mut round.calls[rank as usize];
        if place.is_some() {
            return Err((ticket, Trouble::OutOfTurn { number, first }));
        }
        *place = Some((call, ticket));
        round.missing -= 1;
        round.last = rank;
        Ok(())
    }

    /// A rank leaves: nobody waits for it any more. Rounds in which all have called stay as they
    /// are.
    pub fn leave(&mut self, rank: u32, fate: Fate) {
        match self.seats.get_mut(rank as usize) {
            Some(seat) if !matches!(seat, Seat::Left(_)) => *seat = Seat::Left(fate),
            _ => return,
        }
        self.broken.get_or_insert(fate.of(rank));
        let met = self.rounds.iter().take_while(|round| round.missing == 0).count();
        for round in self.rounds.drain(met..) {
            let called = (0..).zip(round.calls);
            let called = called.filter_map(|(rank, called)| {
                let (call, ticket) = called?;
                Some((rank, call, ticket))
            });
            self.failed.extend(called);
        }
    }

    /// The next thing that is decided: all have called in a round, or somebody is told that one
    /// never will.
    pub fn decide(&mut self) -> Option<Decided<T>> {
        if self.rounds.front().is_some_and(|round| round.missing == 0) {
            let round = self.rounds.pop_front()?;
            let (number, last) = (self.first, round.last);
            self.first += 1;
            let calls = round.calls.into_iter().flatten().collect();
            return Some(Decided::Met(Met { number, calls, last }));
        }
        let (rank, call, ticket) = self.failed.pop_front()?;
        Some(Decided::Failed(rank, call, ticket, self.broken.clone()?))
    }

    /// Who waits for whom, oldest first.
    pub fn waits(&self) -> Vec<Wait> {
        let wait = |(number, round): (u64, &Round<T>)| {
            let ranks = || (0..).zip(&round.calls);
            let arrived = ranks().filter_map(|(rank, call)| Some((rank, call.as_ref()?.0.clone())));
            let missing = ranks().filter_map(|(rank, call)| call.is_none().then_some(rank));
            Wait {
                number,
                arrived: arrived.collect(),
                missing: missing.collect(),
                since_ms: round.since_ms,
                cause: WaitCause::Absence,
            }
        };
        let begun = (self.first..).zip(&self.rounds);
        begun.filter(|(_, round)| round.missing < round.calls.len()).map(wait).collect()
    }

    fn absence(&self, rank: u32) -> Trouble {
        match self.seats.get(rank as usize) {
            Some(Seat::Left(fate)) => fate.of(rank),
            _ => Trouble::NoSuchRank { rank, size: self.size() },
        }
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

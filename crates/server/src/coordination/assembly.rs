//! A file that the ranks of a job have open together.
//!
//! Invariants: accesses get their places in the order in which they are decided; the position moves
//! with the place, not with the bytes. A call that fails leaves position and mode as they were. While
//! the size of the file is being found out, everything that comes waits in line.

use std::collections::{HashMap, VecDeque};

use pario_proto::{
    Call, Disagreement, Mode, Order, Outcome, Placement, Pointer, Position, Seek, Step, Transfer,
    Trouble,
};

use super::gathering::{Decided, Fate, Gathering, Met, Wait};

/// A file that the ranks of a job have open together. `T` is by whom an answer goes back.
#[derive(Debug)]
pub struct Assembly<T> {
    mode: Mode,
    position: Position,
    /// Whether anybody has ever looked how long the file is.
    is_measured: bool,
    gathering: Gathering<T>,
    /// What has been decided and waits for its place, or for what is before it.
    line: VecDeque<Work<T>>,
    /// Whether the size of the file is being found out, for the first in line.
    is_measuring: bool,
    /// Rounds that one rank does for all, by their numbers.
    performing: HashMap<u64, Performance<T>>,
    is_over: bool,
    /// When somebody last made a call in which all meet.
    met_ms: u64,
}

#[derive(Debug)]
enum Work<T> {
    /// One rank's access.
    One(Transfer, T),
    /// One rank's seek.
    Seek(Seek, T),
    /// One rank asks where the pointer is.
    Tell(T),
    /// All have called.
    Round(Met<T>),
}

#[derive(Debug)]
struct Performance<T> {
    rank: u32,
    placement: Placement,
    others: Vec<T>,
    transfer: Transfer,
    since_ms: u64,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<T> {
    /// An answer goes out.
    Answer(T, Result<Outcome, Trouble>),
    /// The size of the file is to be found out, and told by [`Assembly::measured`].
    Measure,
    /// Nobody has the file open any more.
    End,
}

/// What came of an access that one rank did for all: how many bytes, or why not.
pub type Performed = Result<u64, String>;

impl<T> Assembly<T> {
    /// A file that was opened by a group of a given size, and has so many bytes, if that is known.
    pub fn new(size: u32, mode: Mode, len: Option<u64>) -> Self {
        Self {
            mode,
            position: Position { offset: 0, end: len.unwrap_or(0) },
            is_measured: len.is_some(),
            gathering: Gathering::new(size),
            line: VecDeque::new(),
            is_measuring: false,
            performing: HashMap::new(),
            is_over: false,
            met_ms: 0,
        }
    }

    /// Who waits for whom.
    pub fn waits(&self) -> Vec<Wait> {
        let performed = self.performing.iter().map(|(number, performance)| {
            let Performance { rank, transfer, since_ms, .. } = performance;
            let others = (0..self.gathering.size()).filter(|other| other != rank);
            Wait {
                number: *number,
                arrived: others.map(|other| (other, Call::Transfer(*transfer))).collect(),
                missing: vec![*rank],
                since_ms: *since_ms,
                is_performed: true,
            }
        });
        performed.chain(self.gathering.waits()).collect()
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Where the shared pointer is, in modes that have one.
    pub fn position(&self) -> Option<u64> {
        (self.mode.axes().pointer == Pointer::Shared).then_some(self.position.offset)
    }

    /// A rank has it open.
    pub fn enter(&mut self, rank: u32) -> Result<(), Trouble> {
        self.gathering.enter(rank)
    }

    /// A rank makes a call in which all meet.
    pub fn meet(
        &mut self,
        rank: u32,
        number: u64,
        call: Call,
        ticket: T,
        now_ms: u64,
        act: &mut impl FnMut(Action<T>),
    ) {
        self.met_ms = now_ms;
        let is_close = call == Call::Close;
        match self.gathering.call(rank, number, call, ticket, now_ms) {
            Ok(()) => self.advance(act),
            Err((ticket, trouble)) => {
                self.fail_one(rank, is_close, ticket, trouble, act);
                self.advance(act);
            }
        }
    }

    /// A rank wants to read or write where the shared pointer is, and waits for nobody.
    pub fn transfer(
        &mut self,
        rank: u32,
        transfer: Transfer,
        ticket: T,
        act: &mut impl FnMut(Action<T>),
    ) {
        let is_allowed = self.mode.axes().order == Order::FirstCome || transfer.is_append;
        if let Err(trouble) = self.check(rank, is_allowed, || Call::Transfer(transfer)) {
            return act(Action::Answer(ticket, Err(trouble)));
        }
        self.line.push_back(Work::One(transfer, ticket));
        self.advance(act);
    }

    /// A rank moves the shared pointer, and waits for nobody.
    pub fn seek(&mut self, rank: u32, seek: Seek, ticket: T, act: &mut impl FnMut(Action<T>)) {
        let is_allowed = !self.mode.meets_in(Step::Seek);
        if let Err(trouble) = self.check(rank, is_allowed, || Call::Seek(seek)) {
            return act(Action::Answer(ticket, Err(trouble)));
        }
        self.line.push_back(Work::Seek(seek, ticket));
        self.advance(act);
    }

    /// A rank asks where the shared pointer is, after all that was decided before.
    pub fn tell(&mut self, rank: u32, ticket: T, act: &mut impl FnMut(Action<T>)) {
        if let Err(trouble) = self.check(rank, true, || Call::Barrier) {
            return act(Action::Answer(ticket, Err(trouble)));
        }
        self.line.push_back(Work::Tell(ticket));
        self.advance(act);
    }

    /// A rank closes it, and waits for nobody.
    pub fn close(&mut self, rank: u32, ticket: T, act: &mut impl FnMut(Action<T>)) {
        let is_allowed = !self.mode.meets_in(Step::Close);
        if let Err(trouble) = self.check(rank, is_allowed, || Call::Close) {
            return act(Action::Answer(ticket, Err(trouble)));
        }
        self.gathering.leave(rank, Fate::Closed);
        act(Action::Answer(ticket, Ok(Outcome::Done)));
        self.advance(act);
        if self.gathering.is_over() {
            self.end(act);
        }
    }

    /// A rank leaves without a word to the others: its process is gone, or has put the file away.
    pub fn leave(&mut self, rank: u32, fate: Fate, act: &mut impl FnMut(Action<T>)) {
        self.gathering.leave(rank, fate);
        let lost: Vec<u64> = self
            .performing
            .iter()
            .filter_map(|(number, performance)| (performance.rank == rank).then_some(*number))
            .collect();
        for number in lost {
            for ticket in self.performing.remove(&number).into_iter().flat_map(|p| p.others) {
                act(Action::Answer(ticket, Err(fate.of(rank))));
            }
        }
        self.advance(act);
        if self.gathering.is_over() {
            self.end(act);
        }
    }

    /// Ends everything: whoever waits is told, and nobody has the file open any more.
    pub fn reset(&mut self, act: &mut impl FnMut(Action<T>)) {
        for work in std::mem::take(&mut self.line) {
            fail(work, &Trouble::Reset, act);
        }
        for (_, performance) in std::mem::take(&mut self.performing) {
            for ticket in performance.others {
                act(Action::Answer(ticket, Err(Trouble::Reset)));
            }
        }
        for rank in 0..self.gathering.size() {
            self.gathering.leave(rank, Fate::Reset);
        }
        self.advance(act);
        self.end(act);
    }

    /// A rank has done for all what it was asked to.
    pub fn performed(
        &mut self,
        rank: u32,
        number: u64,
        done: &Performed,
        act: &mut impl FnMut(Action<T>),
    ) {
        if self.performing.get(&number).is_none_or(|performance| performance.rank != rank) {
            return;
        }
        let Some(Performance { placement, others, .. }) = self.performing.remove(&number) else {
            return;
        };
        for ticket in others {
            let outcome = match done {
                Ok(len) => {
                    let placement = Placement { len: (*len).min(placement.len), ..placement };
                    Ok(Outcome::Performed { number, placement })
                }
                Err(why) => Err(Trouble::NotPerformed { rank, why: why.clone() }),
            };
            act(Action::Answer(ticket, outcome));
        }
    }

    /// The size of the file has been found out, or could not be.
    pub fn measured(&mut self, len: Result<u64, String>, act: &mut impl FnMut(Action<T>)) {
        if !std::mem::take(&mut self.is_measuring) {
            return;
        }
        let Some(first) = self.line.pop_front() else { return };
        match len {
            Ok(len) => {
                self.is_measured = true;
                self.position.measured(len);
                self.decide(first, act);
            }
            Err(why) => fail(first, &Trouble::NotMeasured { why }, act),
        }
        self.advance(act);
    }

    fn check(
        &self,
        rank: u32,
        is_allowed: bool,
        call: impl FnOnce() -> Call,
    ) -> Result<(), Trouble> {
        if !self.gathering.is_here(rank) {
            return Err(Trouble::NoSuchRank { rank, size: self.gathering.size() });
        }
        if is_allowed { Ok(()) } else { Err(Trouble::WrongMode { call: call() }) }
    }

    /// A rank is told that another one has left. If it was closing the file, it has closed it all
    /// the same: there is nobody to agree with.
    fn fail_one(
        &mut self,
        rank: u32,
        is_close: bool,
        ticket: T,
        trouble: Trouble,
        act: &mut impl FnMut(Action<T>),
    ) {
        let is_alone = matches!(trouble, Trouble::Gone { .. } | Trouble::Closed { .. });
        act(Action::Answer(ticket, Err(trouble)));
        if is_close && is_alone {
            self.gathering.leave(rank, Fate::Closed);
            if self.gathering.is_over() {
                self.end(act);
            }
        }
    }

    /// Decides what can be decided.
    fn advance(&mut self, act: &mut impl FnMut(Action<T>)) {
        loop {
            while let Some(decided) = self.gathering.decide() {
                match decided {
                    Decided::Met(met) => self.line.push_back(Work::Round(met)),
                    Decided::Failed(rank, call, ticket, trouble) => {
                        self.fail_one(rank, call == Call::Close, ticket, trouble, act);
                    }
                }
            }
            if self.is_measuring {
                return;
            }
            let Some(first) = self.line.pop_front() else { return };
            if self.is_unsure_of(&first) {
                self.line.push_front(first);
                self.is_measuring = true;
                return act(Action::Measure);
            }
            self.decide(first, act);
        }
    }

    /// Whether the size of the file must be looked at first.
    fn is_unsure_of(&self, work: &Work<T>) -> bool {
        let is_blind = |transfer: &Transfer| transfer.is_append && !self.is_measured;
        match work {
            Work::One(transfer, _) => is_blind(transfer) || self.position.is_unsure_of(*transfer),
            Work::Seek(seek, _) => matches!(seek, Seek::End(_)),
            Work::Tell(_) => false,
            Work::Round(met) => {
                let mut position = self.position;
                let is_once = self.mode.axes().order == Order::AllTheSame;
                let calls = if is_once { &met.calls[..1] } else { &met.calls[..] };
                calls.iter().any(|(call, _)| match call {
                    Call::Transfer(transfer) => {
                        let is_unsure = is_blind(transfer) || position.is_unsure_of(*transfer);
                        // Those before it in the order of ranks move the pointer.
                        let _ = position.place(*transfer);
                        is_unsure
                    }
                    Call::Seek(seek) => matches!(seek, Seek::End(_)),
                    _ => false,
                })
            }
        }
    }

    fn decide(&mut self, work: Work<T>, act: &mut impl FnMut(Action<T>)) {
        match work {
            Work::One(transfer, ticket) => {
                let placed = self.position.place(transfer);
                act(Action::Answer(ticket, placed.map(Outcome::Placed).map_err(Trouble::from)));
            }
            Work::Seek(seek, ticket) => {
                let target = self.position.target(seek);
                if let Ok(offset) = target {
                    self.position.offset = offset;
                }
                act(Action::Answer(ticket, target.map(Outcome::At).map_err(Trouble::from)));
            }
            Work::Tell(ticket) => {
                act(Action::Answer(ticket, Ok(Outcome::At(self.position.offset))));
            }
            Work::Round(met) => self.decide_round(met, act),
        }
    }

    fn decide_round(&mut self, met: Met<T>, act: &mut impl FnMut(Action<T>)) {
        if let Err(trouble) = self.agree(&met) {
            return fail(Work::Round(met), &trouble, act);
        }
        let Met { number, calls, last } = met;
        match calls.first().map(|(call, _)| call.clone()) {
            Some(Call::Transfer(transfer)) if self.mode.axes().order == Order::AllTheSame => {
                self.perform(number, transfer, calls, last, act);
            }
            Some(Call::Transfer(_)) => self.place_by_rank(calls, act),
            Some(Call::Seek(seek)) => {
                // All lead to the same place, and inside of the file: they agree.
                if let Ok(offset) = self.position.target(seek) {
                    self.position.offset = offset;
                }
                answer_all(calls, &Outcome::At(self.position.offset), act);
            }
            Some(Call::SetMode(mode)) => {
                self.mode = mode;
                answer_all(calls, &Outcome::At(self.position.offset), act);
            }
            Some(Call::Close) => {
                answer_all(calls, &Outcome::Done, act);
                self.end(act);
            }
            Some(Call::Barrier | Call::Open(_)) | None => answer_all(calls, &Outcome::Done, act),
        }
    }

    /// Whether all ranks have called what fits together, and what they may call now.
    fn agree(&self, met: &Met<T>) -> Result<(), Trouble> {
        let Some((first, _)) = met.calls.first() else { return Ok(()) };
        let is_same = |call: &Call| match (first, call) {
            (Call::Seek(one), Call::Seek(other)) => {
                self.position.target(*one) == self.position.target(*other)
            }
            (one, other) => one.fits(other, self.mode),
        };
        if !met.calls.iter().all(|(call, _)| is_same(call)) {
            let calls = met.calls.iter().map(|(call, _)| call.clone()).collect();
            return Err(Trouble::Disagreement(Disagreement { calls }));
        }
        let is_allowed = match first {
            Call::Transfer(_) => self.mode.meets_in(Step::Transfer),
            Call::Seek(_) => self.mode.meets_in(Step::Seek),
            Call::Close => self.mode.meets_in(Step::Close),
            Call::SetMode(_) | Call::Barrier => true,
            Call::Open(_) => false,
        };
        if !is_allowed {
            return Err(Trouble::WrongMode { call: first.clone() });
        }
        match first {
            Call::Seek(seek) => Ok(self.position.target(*seek).map(|_| ())?),
            _ => Ok(()),
        }
    }

    fn place_by_rank(&mut self, calls: Vec<(Call, T)>, act: &mut impl FnMut(Action<T>)) {
        let mut position = self.position;
        let mut placed = Vec::with_capacity(calls.len());
        for (call, _) in &calls {
            if let Call::Transfer(transfer) = call {
                placed.push(position.place(*transfer));
            }
        }
        let failed = placed.iter().find_map(|placed| placed.as_ref().err().copied());
        if failed.is_none() {
            self.position = position;
        }
        for ((_, ticket), placed) in calls.into_iter().zip(placed) {
            let outcome = failed.map_or(placed, Err).map(Outcome::Placed).map_err(Trouble::from);
            act(Action::Answer(ticket, outcome));
        }
    }

    /// The rank that came last does it: the others are asleep.
    fn perform(
        &mut self,
        number: u64,
        transfer: Transfer,
        calls: Vec<(Call, T)>,
        rank: u32,
        act: &mut impl FnMut(Action<T>),
    ) {
        let placement = match self.position.place(transfer) {
            Ok(placement) => placement,
            Err(error) => {
                for (_, ticket) in calls {
                    act(Action::Answer(ticket, Err(error.into())));
                }
                return;
            }
        };
        let mut others = Vec::with_capacity(calls.len() - 1);
        for (caller, (_, ticket)) in (0..).zip(calls) {
            if caller == rank {
                act(Action::Answer(ticket, Ok(Outcome::Perform { number, placement })));
            } else {
                others.push(ticket);
            }
        }
        // It may have called and gone.
        if self.gathering.is_here(rank) {
            self.performing.insert(
                number,
                Performance { rank, placement, others, transfer, since_ms: self.met_ms },
            );
        } else {
            for ticket in others {
                act(Action::Answer(ticket, Err(Trouble::Gone { rank })));
            }
        }
    }

    fn end(&mut self, act: &mut impl FnMut(Action<T>)) {
        if !std::mem::replace(&mut self.is_over, true) {
            act(Action::End);
        }
    }
}

fn answer_all<T>(calls: Vec<(Call, T)>, outcome: &Outcome, act: &mut impl FnMut(Action<T>)) {
    for (_, ticket) in calls {
        act(Action::Answer(ticket, Ok(outcome.clone())));
    }
}

fn fail<T>(work: Work<T>, trouble: &Trouble, act: &mut impl FnMut(Action<T>)) {
    match work {
        Work::One(_, ticket) | Work::Seek(_, ticket) | Work::Tell(ticket) => {
            act(Action::Answer(ticket, Err(trouble.clone())));
        }
        Work::Round(met) => {
            for (_, ticket) in met.calls {
                act(Action::Answer(ticket, Err(trouble.clone())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that ranks 0 to 2 have open, of unknown length.
    fn open(mode: Mode) -> Assembly<u32> {
        let mut file = Assembly::new(3, mode, None);
        for rank in 0..3 {
            file.enter(rank).unwrap();
        }
        file
    }

    fn reset(file: &mut Assembly<u32>) -> Vec<Action<u32>> {
        let mut actions = Vec::new();
        file.reset(&mut |action| actions.push(action));
        actions
    }

    #[test]
    fn who_waits_for_one_that_does_it_for_all_is_seen_and_told_of_a_reset() {
        let mut file = open(Mode::Global);
        let call = Call::Transfer(Transfer::write(10));
        let mut actions = Vec::new();
        for (rank, now_ms) in [(0, 100), (2, 200), (1, 300)] {
            file.meet(rank, 0, call.clone(), rank, now_ms, &mut |action| actions.push(action));
        }
        assert!(matches!(actions[..], [Action::Answer(1, Ok(Outcome::Perform { .. }))]));
        let wait = Wait {
            number: 0,
            arrived: vec![(0, call.clone()), (2, call)],
            missing: vec![1],
            since_ms: 300,
            is_performed: true,
        };
        assert_eq!(file.waits(), [wait]);
        let told = |rank| Action::Answer(rank, Err(Trouble::Reset));
        assert_eq!(reset(&mut file), [told(0), told(2), Action::End]);
        assert!(file.waits().is_empty());
    }

    #[test]
    fn who_waits_in_line_or_for_others_is_told_of_a_reset() {
        let mut file = open(Mode::Log);
        let mut actions = Vec::new();
        file.transfer(0, Transfer::read(10), 0, &mut |action| actions.push(action));
        assert_eq!(actions, [Action::Measure], "its end is not known");
        file.meet(2, 0, Call::Close, 2, 0, &mut |action| actions.push(action));
        let told = |rank| Action::Answer(rank, Err(Trouble::Reset));
        assert_eq!(reset(&mut file), [told(0), told(2), Action::End]);
        // What comes back later concerns nobody.
        file.measured(Ok(7), &mut |action| panic!("{action:?}"));
    }
}

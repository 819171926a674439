//! A file that the ranks of a job have open together.
//!
//! Invariants: accesses get their places in the order in which they are decided; the position moves
//! with the place, not with the bytes. A call that fails leaves position and mode as they were. While
//! the size of the file is being found out, everything that comes waits in line.

use std::collections::{HashMap, VecDeque};

use pario_proto::{
    BytesWish, Call, Course, Decision, MISSING_SHOWN, Mode, Outcome, Placement, Seek, Transfer,
    Trouble, WaitCause,
};

use super::gathering::{Decided, Fate, Gathering, Met, Wait};
use super::ranges::Ranges;

/// A file that the ranks of a job have open together. `T` is by whom an answer goes back.
#[derive(Debug)]
pub struct Assembly<T> {
    course: Course,
    gathering: Gathering<T>,
    /// What has been decided and waits for its place, or for what is before it.
    line: VecDeque<InLine<T>>,
    /// Whether the size of the file is being found out, for the first in line.
    is_measuring: bool,
    /// Rounds that one rank does for all, by their numbers.
    performing: HashMap<u64, Performance<T>>,
    ranges: Ranges<T>,
    is_over: bool,
    /// When somebody last made a call in which all meet.
    met_ms: u64,
}

#[derive(Debug)]
struct InLine<T> {
    work: Work<T>,
    since_ms: u64,
}

#[derive(Debug)]
enum Work<T> {
    /// One rank's access.
    One(u32, Transfer, T),
    /// One rank's seek.
    Seek(u32, Seek, T),
    /// One rank asks where the pointer is.
    Tell(u32, T),
    /// All have called.
    Round(Met<T>),
}

#[derive(Debug)]
struct Performance<T> {
    rank: u32,
    placement: Placement,
    others: Vec<T>,
    call: Option<Call>,
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
            course: Course::new(mode, len),
            gathering: Gathering::new(size),
            line: VecDeque::new(),
            is_measuring: false,
            performing: HashMap::new(),
            ranges: Ranges::default(),
            is_over: false,
            met_ms: 0,
        }
    }

    /// Who waits for whom.
    pub fn waits(&self, now_ms: u64) -> Vec<Wait> {
        let performed = self.performing.iter().map(|(number, performance)| {
            let Performance { rank, call, since_ms, .. } = performance;
            let others = (0..self.gathering.size()).filter(|other| other != rank);
            let others = others.take(MISSING_SHOWN);
            Wait {
                number: *number,
                arrived: others.filter_map(|other| Some((other, call.clone()?))).collect(),
                missing: vec![*rank],
                since_ms: *since_ms,
                cause: WaitCause::Performance,
            }
        });
        let met = performed.chain(self.gathering.waits());
        met.chain(self.ranges.waits(now_ms)).chain(self.wait_for_size()).collect()
    }

    /// Those who are in line while the size of the file is being found out.
    fn wait_for_size(&self) -> Option<Wait> {
        let first = self.line.front().filter(|_| self.is_measuring)?;
        let mut arrived: Vec<_> =
            self.line.iter().flat_map(|in_line| in_line.work.calls()).collect();
        // What a rank has called first is told.
        arrived.sort_by_key(|(rank, _)| *rank);
        arrived.dedup_by_key(|(rank, _)| *rank);
        Some(Wait {
            number: 0,
            arrived,
            missing: Vec::new(),
            since_ms: first.since_ms,
            cause: WaitCause::Size,
        })
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.course.mode
    }

    /// Where the shared pointer is, in modes that have one.
    pub fn position(&self) -> Option<u64> {
        self.course.shared_offset()
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
        now_ms: u64,
        act: &mut impl FnMut(Action<T>),
    ) {
        if let Err(trouble) = self.check(rank) {
            return act(Action::Answer(ticket, Err(trouble)));
        }
        self.queue(Work::One(rank, transfer, ticket), now_ms, act);
    }

    /// A rank moves the shared pointer, and waits for nobody.
    pub fn seek(
        &mut self,
        rank: u32,
        seek: Seek,
        ticket: T,
        now_ms: u64,
        act: &mut impl FnMut(Action<T>),
    ) {
        if let Err(trouble) = self.check(rank) {
            return act(Action::Answer(ticket, Err(trouble)));
        }
        self.queue(Work::Seek(rank, seek, ticket), now_ms, act);
    }

    /// A rank asks where the shared pointer is, after all that was decided before.
    pub fn tell(&mut self, rank: u32, ticket: T, now_ms: u64, act: &mut impl FnMut(Action<T>)) {
        if let Err(trouble) = self.check(rank) {
            return act(Action::Answer(ticket, Err(trouble)));
        }
        self.queue(Work::Tell(rank, ticket), now_ms, act);
    }

    fn queue(&mut self, work: Work<T>, since_ms: u64, act: &mut impl FnMut(Action<T>)) {
        self.line.push_back(InLine { work, since_ms });
        self.advance(act);
    }

    /// A rank wants bytes for itself, or wants to read them while nobody writes them.
    pub fn lock(&mut self, wish: BytesWish, ticket: T, act: &mut impl FnMut(Action<T>)) {
        if let Err(trouble) = self.check(wish.rank) {
            return act(Action::Answer(ticket, Err(trouble)));
        }
        self.ranges.want(wish, ticket);
        self.give_ranges(act);
    }

    /// A rank needs its bytes no more.
    pub fn unlock(&mut self, rank: u32, number: u64, act: &mut impl FnMut(Action<T>)) {
        self.ranges.give_back(rank, number);
        self.give_ranges(act);
    }

    fn give_ranges(&mut self, act: &mut impl FnMut(Action<T>)) {
        while let Some(ticket) = self.ranges.grant() {
            act(Action::Answer(ticket, Ok(Outcome::Done)));
        }
    }

    /// A rank closes it, and waits for nobody.
    pub fn close(&mut self, rank: u32, ticket: T, act: &mut impl FnMut(Action<T>)) {
        if let Err(trouble) = self.check(rank).and_then(|()| self.course.close()) {
            return act(Action::Answer(ticket, Err(trouble)));
        }
        self.gathering.leave(rank, Fate::Closed);
        self.ranges.leave(rank);
        act(Action::Answer(ticket, Ok(Outcome::Done)));
        self.give_ranges(act);
        self.advance(act);
        if self.gathering.is_over() {
            self.end(act);
        }
    }

    /// A rank leaves without a word to the others: its process is gone, or has put the file away.
    pub fn leave(&mut self, rank: u32, fate: Fate, act: &mut impl FnMut(Action<T>)) {
        self.gathering.leave(rank, fate);
        self.ranges.leave(rank);
        self.give_ranges(act);
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
        for InLine { work, .. } in std::mem::take(&mut self.line) {
            fail(work, Trouble::Reset, act);
        }
        for (_, performance) in std::mem::take(&mut self.performing) {
            answer_all(performance.others, &Err(Trouble::Reset), act);
        }
        answer_all(self.ranges.clear(), &Err(Trouble::Reset), act);
        self.gathering.leave_all(Fate::Reset);
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
                self.course.measured(len);
                self.decide(first.work, act);
            }
            Err(why) => fail(first.work, Trouble::NotMeasured { why }, act),
        }
        self.advance(act);
    }

    fn check(&self, rank: u32) -> Result<(), Trouble> {
        if self.gathering.is_here(rank) {
            Ok(())
        } else {
            Err(Trouble::NoSuchRank { rank, size: self.gathering.size() })
        }
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
                    Decided::Met(met) => {
                        let (work, since_ms) = (Work::Round(met), self.met_ms);
                        self.line.push_back(InLine { work, since_ms });
                    }
                    Decided::Failed(rank, call, ticket, trouble) => {
                        self.fail_one(rank, call == Call::Close, ticket, trouble, act);
                    }
                }
            }
            if self.is_measuring {
                return;
            }
            let Some(first) = self.line.pop_front() else { return };
            if self.is_unsure_of(&first.work) {
                self.line.push_front(first);
                self.is_measuring = true;
                return act(Action::Measure);
            }
            self.decide(first.work, act);
        }
    }

    /// Whether the size of the file must be looked at first.
    fn is_unsure_of(&self, work: &Work<T>) -> bool {
        match work {
            Work::One(_, transfer, _) => self.course.is_unsure_of(*transfer),
            Work::Seek(_, seek, _) => Course::is_unsure_of_seek(*seek),
            Work::Tell(..) => false,
            Work::Round(met) => {
                self.course.is_unsure_of_round(met.calls.iter().map(|(call, _)| call))
            }
        }
    }

    fn decide(&mut self, work: Work<T>, act: &mut impl FnMut(Action<T>)) {
        match work {
            Work::One(_, transfer, ticket) => {
                let placed = self.course.transfer(transfer).map(Outcome::Placed);
                act(Action::Answer(ticket, placed));
            }
            Work::Seek(_, seek, ticket) => {
                act(Action::Answer(ticket, self.course.seek(seek).map(Outcome::At)));
            }
            Work::Tell(_, ticket) => {
                act(Action::Answer(ticket, Ok(Outcome::At(self.course.position.offset))));
            }
            Work::Round(met) => self.decide_round(met, act),
        }
    }

    fn decide_round(&mut self, met: Met<T>, act: &mut impl FnMut(Action<T>)) {
        let Met { number, calls, last } = met;
        let (calls, tickets): (Vec<Call>, Vec<T>) = calls.into_iter().unzip();
        match self.course.round(&calls) {
            Ok(Decision::Once(placement)) => {
                self.perform((number, &calls), placement, tickets, last, act);
            }
            Ok(Decision::Places(places)) => {
                for (ticket, placement) in tickets.into_iter().zip(places) {
                    act(Action::Answer(ticket, Ok(Outcome::Placed(placement))));
                }
            }
            Ok(Decision::At(offset)) => answer_all(tickets, &Ok(Outcome::At(offset)), act),
            Ok(Decision::Done) => answer_all(tickets, &Ok(Outcome::Done), act),
            Ok(Decision::Closed) => {
                answer_all(tickets, &Ok(Outcome::Done), act);
                self.end(act);
            }
            Err(trouble) => answer_all(tickets, &Err(trouble), act),
        }
    }

    /// The rank that came last does it: the others are asleep.
    fn perform(
        &mut self,
        (number, calls): (u64, &[Call]),
        placement: Placement,
        tickets: Vec<T>,
        rank: u32,
        act: &mut impl FnMut(Action<T>),
    ) {
        let mut others = Vec::with_capacity(tickets.len());
        for (caller, ticket) in (0..).zip(tickets) {
            if caller == rank {
                act(Action::Answer(ticket, Ok(Outcome::Perform { number, placement })));
            } else {
                others.push(ticket);
            }
        }
        // It may have called and gone.
        if self.gathering.is_here(rank) {
            let (call, since_ms) = (calls.first().cloned(), self.met_ms);
            let performance = Performance { rank, placement, others, call, since_ms };
            self.performing.insert(number, performance);
        } else {
            answer_all(others, &Err(Trouble::Gone { rank }), act);
        }
    }

    fn end(&mut self, act: &mut impl FnMut(Action<T>)) {
        if !std::mem::replace(&mut self.is_over, true) {
            act(Action::End);
        }
    }
}

impl<T> Work<T> {
    /// Who has called what.
    fn calls(&self) -> Vec<(u32, Call)> {
        match self {
            Work::One(rank, transfer, _) => vec![(*rank, Call::Transfer(*transfer))],
            Work::Seek(rank, seek, _) => vec![(*rank, Call::Seek(*seek))],
            Work::Tell(rank, _) => vec![(*rank, Call::Seek(Seek::Current(0)))],
            Work::Round(met) => (0..).zip(met.calls.iter().map(|(call, _)| call.clone())).collect(),
        }
    }
}

fn answer_all<T>(
    tickets: Vec<T>,
    outcome: &Result<Outcome, Trouble>,
    act: &mut impl FnMut(Action<T>),
) {
    for ticket in tickets {
        act(Action::Answer(ticket, outcome.clone()));
    }
}

fn fail<T>(work: Work<T>, trouble: Trouble, act: &mut impl FnMut(Action<T>)) {
    let tickets = match work {
        Work::One(.., ticket) | Work::Seek(.., ticket) | Work::Tell(_, ticket) => vec![ticket],
        Work::Round(met) => met.calls.into_iter().map(|(_, ticket)| ticket).collect(),
    };
    answer_all(tickets, &Err(trouble), act);
}

#[cfg(test)]
mod tests {
    use pario_proto::{BytesUse, BytesUser, BytesWait};

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
            cause: WaitCause::Performance,
        };
        assert_eq!(file.waits(400), [wait]);
        let told = |rank| Action::Answer(rank, Err(Trouble::Reset));
        assert_eq!(reset(&mut file), [told(0), told(2), Action::End]);
        assert!(file.waits(400).is_empty());
    }

    #[test]
    fn who_waits_in_line_or_for_others_is_told_of_a_reset() {
        let mut file = open(Mode::Log);
        let mut actions = Vec::new();
        file.transfer(0, Transfer::read(10), 0, 0, &mut |action| actions.push(action));
        assert_eq!(actions, [Action::Measure], "its end is not known");
        file.meet(2, 0, Call::Close, 2, 0, &mut |action| actions.push(action));
        let told = |rank| Action::Answer(rank, Err(Trouble::Reset));
        assert_eq!(reset(&mut file), [told(0), told(2), Action::End]);
        // What comes back later concerns nobody.
        file.measured(Ok(7), &mut |action| panic!("{action:?}"));
    }

    #[test]
    fn who_waits_for_bytes_is_seen_until_they_are_given_back() {
        let mut file = open(Mode::Unix);
        let mut actions = Vec::new();
        let wish = |rank, number, since_ms| {
            let bytes = BytesUse::new(u64::from(rank), 10, true);
            BytesWish { rank, number, bytes, since_ms }
        };
        file.lock(wish(2, 7, 100), 2, &mut |action| actions.push(action));
        assert!(file.waits(200).is_empty(), "it has what it wants");
        file.lock(wish(0, 3, 150), 0, &mut |action| actions.push(action));
        assert_eq!(actions, [Action::Answer(2, Ok(Outcome::Done))]);
        let user = BytesUser { rank: 2, bytes: wish(2, 7, 0).bytes, has_them: true, for_ms: 100 };
        let wanted = wish(0, 3, 0).bytes;
        let wait = Wait {
            number: 3,
            arrived: vec![(0, Call::Transfer(Transfer::write(10)))],
            missing: vec![2],
            since_ms: 150,
            cause: WaitCause::Bytes(BytesWait { wanted, before: vec![user], more: 0 }),
        };
        assert_eq!(file.waits(200), [wait]);
        file.unlock(2, 7, &mut |action| actions.push(action));
        assert_eq!(actions[1..], [Action::Answer(0, Ok(Outcome::Done))]);
        assert!(file.waits(200).is_empty());
        file.lock(wish(1, 1, 200), 1, &mut |action| panic!("{action:?}"));
        assert_eq!(reset(&mut file), [Action::Answer(1, Err(Trouble::Reset)), Action::End]);
        assert!(file.waits(300).is_empty());
    }

    #[test]
    fn who_waits_for_the_size_is_seen_until_it_is_known() {
        let mut file = open(Mode::Log);
        let mut actions = Vec::new();
        file.transfer(2, Transfer::read(10), 20, 100, &mut |action| actions.push(action));
        file.tell(0, 0, 110, &mut |action| actions.push(action));
        file.transfer(2, Transfer::write(5), 21, 120, &mut |action| actions.push(action));
        assert_eq!(actions, [Action::Measure]);
        let wait = Wait {
            number: 0,
            arrived: vec![
                (0, Call::Seek(Seek::Current(0))),
                (2, Call::Transfer(Transfer::read(10))),
            ],
            missing: Vec::new(),
            since_ms: 100,
            cause: WaitCause::Size,
        };
        assert_eq!(file.waits(200), [wait]);
        file.measured(Ok(30), &mut |action| actions.push(action));
        assert_eq!(actions.len(), 4, "{actions:?}");
        assert!(file.waits(200).is_empty());
    }
}

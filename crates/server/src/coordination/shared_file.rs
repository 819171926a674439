//! A file that the ranks of a job have open together.
//!
//! Invariants: accesses get their places in the order in which they are decided; the position moves
//! with the place, not with the bytes. A call that fails leaves position and mode as they were. While
//! the size of the file is being found out, everything that comes waits in queue.

use std::collections::{HashMap, VecDeque};

use pario_proto::{
    AccessRange, BytesClaim, Call, CallOutcome, CollectiveError, Course, MISSING_SHOWN, Mode,
    RoundDecision, Seek, Transfer, WaitCause,
};

use super::byte_range_queue::ByteRangeQueue;
use super::round_collector::{CompleteRound, Departure, RankWait, RoundCollector, RoundResult};

/// A file that the ranks of a job have open together. `T` is by whom an answer goes back.
#[derive(Debug)]
pub struct SharedFileCoordinator<T> {
    course: Course,
    rounds: RoundCollector<T>,
    /// What has been decided and waits for its place, or for what is before it.
    queue: VecDeque<Queued<T>>,
    /// Whether the size of the file is being found out, for the first in queue.
    is_measuring: bool,
    /// Rounds that one rank does for all, by their numbers.
    performing: HashMap<u64, Performing<T>>,
    ranges: ByteRangeQueue<T>,
    is_over: bool,
    /// When somebody last made a call in which all meet.
    last_collective_ms: u64,
}

#[derive(Debug)]
struct Queued<T> {
    call: QueuedCall<T>,
    since_ms: u64,
}

#[derive(Debug)]
enum QueuedCall<T> {
    /// One rank's access.
    Transfer(u32, Transfer, T),
    /// One rank's seek.
    Seek(u32, Seek, T),
    /// One rank asks where the pointer is.
    Tell(u32, T),
    /// All have called.
    Round(CompleteRound<T>),
}

#[derive(Debug)]
struct Performing<T> {
    rank: u32,
    placement: AccessRange,
    others: Vec<T>,
    call: Option<Call>,
    since_ms: u64,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum CoordinatorAction<T> {
    /// An answer goes out.
    Answer(T, Result<CallOutcome, CollectiveError>),
    /// The size of the file is to be found out, and told by [`SharedFileCoordinator::measured`].
    Measure,
    /// Nobody has the file open any more.
    End,
}

/// What came of an access that one rank did for all: how many bytes, or why not.
pub type PerformResult = Result<u64, String>;

impl<T> SharedFileCoordinator<T> {
    /// A file that was opened by a group of a given size, and has so many bytes, if that is known.
    pub fn new(size: u32, mode: Mode, len: Option<u64>) -> Self {
        Self {
            course: Course::new(mode, len),
            rounds: RoundCollector::new(size),
            queue: VecDeque::new(),
            is_measuring: false,
            performing: HashMap::new(),
            ranges: ByteRangeQueue::default(),
            is_over: false,
            last_collective_ms: 0,
        }
    }

    /// Who waits for whom.
    pub fn waits(&self, now_ms: u64) -> Vec<RankWait> {
        let performed = self.performing.iter().map(|(number, performing)| {
            let Performing { rank, call, since_ms, .. } = performing;
            let others = (0..self.rounds.size()).filter(|other| other != rank);
            let others = others.take(MISSING_SHOWN);
            RankWait {
                number: *number,
                arrived: others.filter_map(|other| Some((other, call.clone()?))).collect(),
                missing: vec![*rank],
                since_ms: *since_ms,
                cause: WaitCause::Performance,
            }
        });
        let round = performed.chain(self.rounds.waits());
        round.chain(self.ranges.waits(now_ms)).chain(self.wait_for_size()).collect()
    }

    /// Those who are in queue while the size of the file is being found out.
    fn wait_for_size(&self) -> Option<RankWait> {
        let first = self.queue.front().filter(|_| self.is_measuring)?;
        let mut arrived: Vec<_> =
            self.queue.iter().flat_map(|queued| queued.call.calls()).collect();
        // What a rank has called first is told.
        arrived.sort_by_key(|(rank, _)| *rank);
        arrived.dedup_by_key(|(rank, _)| *rank);
        Some(RankWait {
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
    pub fn join(&mut self, rank: u32) -> Result<(), CollectiveError> {
        self.rounds.join(rank)
    }

    /// A rank makes a call in which all meet.
    pub fn collective_call(
        &mut self,
        rank: u32,
        number: u64,
        call: Call,
        ticket: T,
        now_ms: u64,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        self.last_collective_ms = now_ms;
        let is_close = call == Call::Close;
        match self.rounds.add_call(rank, number, call, ticket, now_ms) {
            Ok(()) => self.advance(act),
            Err((ticket, error)) => {
                self.fail_one(rank, is_close, ticket, error, act);
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
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        if let Err(error) = self.check(rank) {
            return act(CoordinatorAction::Answer(ticket, Err(error)));
        }
        self.enqueue(QueuedCall::Transfer(rank, transfer, ticket), now_ms, act);
    }

    /// A rank moves the shared pointer, and waits for nobody.
    pub fn seek(
        &mut self,
        rank: u32,
        seek: Seek,
        ticket: T,
        now_ms: u64,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        if let Err(error) = self.check(rank) {
            return act(CoordinatorAction::Answer(ticket, Err(error)));
        }
        self.enqueue(QueuedCall::Seek(rank, seek, ticket), now_ms, act);
    }

    /// A rank asks where the shared pointer is, after all that was decided before.
    pub fn tell(
        &mut self,
        rank: u32,
        ticket: T,
        now_ms: u64,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        if let Err(error) = self.check(rank) {
            return act(CoordinatorAction::Answer(ticket, Err(error)));
        }
        self.enqueue(QueuedCall::Tell(rank, ticket), now_ms, act);
    }

    fn enqueue(
        &mut self,
        call: QueuedCall<T>,
        since_ms: u64,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        self.queue.push_back(Queued { call, since_ms });
        self.advance(act);
    }

    /// A rank wants bytes for itself, or wants to read them while nobody writes them.
    pub fn lock(
        &mut self,
        claim: BytesClaim,
        ticket: T,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        if let Err(error) = self.check(claim.rank) {
            return act(CoordinatorAction::Answer(ticket, Err(error)));
        }
        self.ranges.add(claim, ticket);
        self.grant_ranges(act);
    }

    /// A rank needs its bytes no more.
    pub fn unlock(&mut self, rank: u32, number: u64, act: &mut impl FnMut(CoordinatorAction<T>)) {
        self.ranges.release(rank, number);
        self.grant_ranges(act);
    }

    fn grant_ranges(&mut self, act: &mut impl FnMut(CoordinatorAction<T>)) {
        while let Some(ticket) = self.ranges.next_granted() {
            act(CoordinatorAction::Answer(ticket, Ok(CallOutcome::Done)));
        }
    }

    /// A rank closes it, and waits for nobody.
    pub fn close(&mut self, rank: u32, ticket: T, act: &mut impl FnMut(CoordinatorAction<T>)) {
        if let Err(error) = self.check(rank).and_then(|()| self.course.check_close()) {
            return act(CoordinatorAction::Answer(ticket, Err(error)));
        }
        self.rounds.leave(rank, Departure::Closed);
        self.ranges.remove_rank(rank);
        act(CoordinatorAction::Answer(ticket, Ok(CallOutcome::Done)));
        self.grant_ranges(act);
        self.advance(act);
        if self.rounds.is_over() {
            self.end(act);
        }
    }

    /// A rank leaves without a word to the others: its process is gone, or has put the file away.
    pub fn leave(
        &mut self,
        rank: u32,
        departure: Departure,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        self.rounds.leave(rank, departure);
        self.ranges.remove_rank(rank);
        self.grant_ranges(act);
        let lost: Vec<u64> = self
            .performing
            .iter()
            .filter_map(|(number, performing)| (performing.rank == rank).then_some(*number))
            .collect();
        for number in lost {
            for ticket in self.performing.remove(&number).into_iter().flat_map(|p| p.others) {
                act(CoordinatorAction::Answer(ticket, Err(departure.error(rank))));
            }
        }
        self.advance(act);
        if self.rounds.is_over() {
            self.end(act);
        }
    }

    /// Ends everything: whoever waits is told, and nobody has the file open any more.
    pub fn reset(&mut self, act: &mut impl FnMut(CoordinatorAction<T>)) {
        for Queued { call, .. } in std::mem::take(&mut self.queue) {
            fail(call, CollectiveError::Reset, act);
        }
        for (_, performing) in std::mem::take(&mut self.performing) {
            answer_all(performing.others, &Err(CollectiveError::Reset), act);
        }
        answer_all(self.ranges.clear(), &Err(CollectiveError::Reset), act);
        self.rounds.leave_all(Departure::Reset);
        self.advance(act);
        self.end(act);
    }

    /// A rank has done for all what it was asked to.
    pub fn performed(
        &mut self,
        rank: u32,
        number: u64,
        done: &PerformResult,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        if self.performing.get(&number).is_none_or(|performing| performing.rank != rank) {
            return;
        }
        let Some(Performing { placement, others, .. }) = self.performing.remove(&number) else {
            return;
        };
        for ticket in others {
            let outcome = match done {
                Ok(len) => {
                    let placement = AccessRange { len: (*len).min(placement.len), ..placement };
                    Ok(CallOutcome::Performed { number, placement })
                }
                Err(why) => Err(CollectiveError::NotPerformed { rank, why: why.clone() }),
            };
            act(CoordinatorAction::Answer(ticket, outcome));
        }
    }

    /// The size of the file has been found out, or could not be.
    pub fn measured(
        &mut self,
        len: Result<u64, String>,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        if !std::mem::take(&mut self.is_measuring) {
            return;
        }
        let Some(first) = self.queue.pop_front() else { return };
        match len {
            Ok(len) => {
                self.course.measured(len);
                self.decide(first.call, act);
            }
            Err(why) => fail(first.call, CollectiveError::NotMeasured { why }, act),
        }
        self.advance(act);
    }

    fn check(&self, rank: u32) -> Result<(), CollectiveError> {
        if self.rounds.is_here(rank) {
            Ok(())
        } else {
            Err(CollectiveError::NoSuchRank { rank, size: self.rounds.size() })
        }
    }

    /// A rank is told that another one has left. If it was closing the file, it has closed it all
    /// the same: there is nobody to agree with.
    fn fail_one(
        &mut self,
        rank: u32,
        is_close: bool,
        ticket: T,
        error: CollectiveError,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        let is_alone =
            matches!(error, CollectiveError::Gone { .. } | CollectiveError::Closed { .. });
        act(CoordinatorAction::Answer(ticket, Err(error)));
        if is_close && is_alone {
            self.rounds.leave(rank, Departure::Closed);
            if self.rounds.is_over() {
                self.end(act);
            }
        }
    }

    /// Decides what can be decided.
    fn advance(&mut self, act: &mut impl FnMut(CoordinatorAction<T>)) {
        loop {
            while let Some(decided) = self.rounds.next_result() {
                match decided {
                    RoundResult::Complete(round) => {
                        let (call, since_ms) = (QueuedCall::Round(round), self.last_collective_ms);
                        self.queue.push_back(Queued { call, since_ms });
                    }
                    RoundResult::Failed(rank, call, ticket, error) => {
                        self.fail_one(rank, call == Call::Close, ticket, error, act);
                    }
                }
            }
            if self.is_measuring {
                return;
            }
            let Some(first) = self.queue.pop_front() else { return };
            if self.needs_size_for(&first.call) {
                self.queue.push_front(first);
                self.is_measuring = true;
                return act(CoordinatorAction::Measure);
            }
            self.decide(first.call, act);
        }
    }

    /// Whether the size of the file must be looked at first.
    fn needs_size_for(&self, call: &QueuedCall<T>) -> bool {
        match call {
            QueuedCall::Transfer(_, transfer, _) => self.course.needs_size_for(*transfer),
            QueuedCall::Seek(_, seek, _) => Course::seek_needs_size(*seek),
            QueuedCall::Tell(..) => false,
            QueuedCall::Round(round) => {
                self.course.round_needs_size(round.calls.iter().map(|(call, _)| call))
            }
        }
    }

    fn decide(&mut self, call: QueuedCall<T>, act: &mut impl FnMut(CoordinatorAction<T>)) {
        match call {
            QueuedCall::Transfer(_, transfer, ticket) => {
                let placed = self.course.transfer(transfer).map(CallOutcome::Placed);
                act(CoordinatorAction::Answer(ticket, placed));
            }
            QueuedCall::Seek(_, seek, ticket) => {
                act(CoordinatorAction::Answer(ticket, self.course.seek(seek).map(CallOutcome::At)));
            }
            QueuedCall::Tell(_, ticket) => {
                act(CoordinatorAction::Answer(
                    ticket,
                    Ok(CallOutcome::At(self.course.position.offset)),
                ));
            }
            QueuedCall::Round(round) => self.decide_round(round, act),
        }
    }

    fn decide_round(
        &mut self,
        round: CompleteRound<T>,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        let CompleteRound { number, calls, last } = round;
        let (calls, tickets): (Vec<Call>, Vec<T>) = calls.into_iter().unzip();
        match self.course.decide(&calls) {
            Ok(RoundDecision::Once(placement)) => {
                self.perform((number, &calls), placement, tickets, last, act);
            }
            Ok(RoundDecision::Places(places)) => {
                for (ticket, placement) in tickets.into_iter().zip(places) {
                    act(CoordinatorAction::Answer(ticket, Ok(CallOutcome::Placed(placement))));
                }
            }
            Ok(RoundDecision::At(offset)) => answer_all(tickets, &Ok(CallOutcome::At(offset)), act),
            Ok(RoundDecision::Done) => answer_all(tickets, &Ok(CallOutcome::Done), act),
            Ok(RoundDecision::Closed) => {
                answer_all(tickets, &Ok(CallOutcome::Done), act);
                self.end(act);
            }
            Err(error) => answer_all(tickets, &Err(error), act),
        }
    }

    /// The rank that came last does it: the others are asleep.
    fn perform(
        &mut self,
        (number, calls): (u64, &[Call]),
        placement: AccessRange,
        tickets: Vec<T>,
        rank: u32,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        let mut others = Vec::with_capacity(tickets.len());
        for (caller, ticket) in (0..).zip(tickets) {
            if caller == rank {
                act(CoordinatorAction::Answer(
                    ticket,
                    Ok(CallOutcome::Perform { number, placement }),
                ));
            } else {
                others.push(ticket);
            }
        }
        // It may have called and gone.
        if self.rounds.is_here(rank) {
            let (call, since_ms) = (calls.first().cloned(), self.last_collective_ms);
            let performing = Performing { rank, placement, others, call, since_ms };
            self.performing.insert(number, performing);
        } else {
            answer_all(others, &Err(CollectiveError::Gone { rank }), act);
        }
    }

    fn end(&mut self, act: &mut impl FnMut(CoordinatorAction<T>)) {
        if !std::mem::replace(&mut self.is_over, true) {
            act(CoordinatorAction::End);
        }
    }
}

impl<T> QueuedCall<T> {
    /// Who has called what.
    fn calls(&self) -> Vec<(u32, Call)> {
        match self {
            QueuedCall::Transfer(rank, transfer, _) => vec![(*rank, Call::Transfer(*transfer))],
            QueuedCall::Seek(rank, seek, _) => vec![(*rank, Call::Seek(*seek))],
            QueuedCall::Tell(rank, _) => vec![(*rank, Call::Seek(Seek::Current(0)))],
            QueuedCall::Round(round) => {
                (0..).zip(round.calls.iter().map(|(call, _)| call.clone())).collect()
            }
        }
    }
}

fn answer_all<T>(
    tickets: Vec<T>,
    outcome: &Result<CallOutcome, CollectiveError>,
    act: &mut impl FnMut(CoordinatorAction<T>),
) {
    for ticket in tickets {
        act(CoordinatorAction::Answer(ticket, outcome.clone()));
    }
}

fn fail<T>(
    call: QueuedCall<T>,
    error: CollectiveError,
    act: &mut impl FnMut(CoordinatorAction<T>),
) {
    let tickets = match call {
        QueuedCall::Transfer(.., ticket)
        | QueuedCall::Seek(.., ticket)
        | QueuedCall::Tell(_, ticket) => vec![ticket],
        QueuedCall::Round(round) => round.calls.into_iter().map(|(_, ticket)| ticket).collect(),
    };
    answer_all(tickets, &Err(error), act);
}

#[cfg(test)]
mod tests {
    use pario_proto::{BytesUse, BytesUser, BytesWait};

    use super::*;

    /// A file that ranks 0 to 2 have open, of unknown length.
    fn open(mode: Mode) -> SharedFileCoordinator<u32> {
        let mut file = SharedFileCoordinator::new(3, mode, None);
        for rank in 0..3 {
            file.join(rank).unwrap();
        }
        file
    }

    fn reset(file: &mut SharedFileCoordinator<u32>) -> Vec<CoordinatorAction<u32>> {
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
            file.collective_call(rank, 0, call.clone(), rank, now_ms, &mut |action| {
                actions.push(action)
            });
        }
        assert!(matches!(
            actions[..],
            [CoordinatorAction::Answer(1, Ok(CallOutcome::Perform { .. }))]
        ));
        let wait = RankWait {
            number: 0,
            arrived: vec![(0, call.clone()), (2, call)],
            missing: vec![1],
            since_ms: 300,
            cause: WaitCause::Performance,
        };
        assert_eq!(file.waits(400), [wait]);
        let told = |rank| CoordinatorAction::Answer(rank, Err(CollectiveError::Reset));
        assert_eq!(reset(&mut file), [told(0), told(2), CoordinatorAction::End]);
        assert!(file.waits(400).is_empty());
    }

    #[test]
    fn who_waits_in_line_or_for_others_is_told_of_a_reset() {
        let mut file = open(Mode::Log);
        let mut actions = Vec::new();
        file.transfer(0, Transfer::read(10), 0, 0, &mut |action| actions.push(action));
        assert_eq!(actions, [CoordinatorAction::Measure], "its end is not known");
        file.collective_call(2, 0, Call::Close, 2, 0, &mut |action| actions.push(action));
        let told = |rank| CoordinatorAction::Answer(rank, Err(CollectiveError::Reset));
        assert_eq!(reset(&mut file), [told(0), told(2), CoordinatorAction::End]);
        // What comes back later concerns nobody.
        file.measured(Ok(7), &mut |action| panic!("{action:?}"));
    }

    #[test]
    fn who_waits_for_bytes_is_seen_until_they_are_given_back() {
        let mut file = open(Mode::Unix);
        let mut actions = Vec::new();
        let claim = |rank, number, since_ms| {
            let bytes = BytesUse::new(u64::from(rank), 10, true);
            BytesClaim { rank, number, bytes, since_ms }
        };
        file.lock(claim(2, 7, 100), 2, &mut |action| actions.push(action));
        assert!(file.waits(200).is_empty(), "it has what it wants");
        file.lock(claim(0, 3, 150), 0, &mut |action| actions.push(action));
        assert_eq!(actions, [CoordinatorAction::Answer(2, Ok(CallOutcome::Done))]);
        let user = BytesUser { rank: 2, bytes: claim(2, 7, 0).bytes, has_them: true, for_ms: 100 };
        let wanted = claim(0, 3, 0).bytes;
        let wait = RankWait {
            number: 3,
            arrived: vec![(0, Call::Transfer(Transfer::write(10)))],
            missing: vec![2],
            since_ms: 150,
            cause: WaitCause::Bytes(BytesWait { wanted, before: vec![user], more: 0 }),
        };
        assert_eq!(file.waits(200), [wait]);
        file.unlock(2, 7, &mut |action| actions.push(action));
        assert_eq!(actions[1..], [CoordinatorAction::Answer(0, Ok(CallOutcome::Done))]);
        assert!(file.waits(200).is_empty());
        file.lock(claim(1, 1, 200), 1, &mut |action| panic!("{action:?}"));
        assert_eq!(
            reset(&mut file),
            [CoordinatorAction::Answer(1, Err(CollectiveError::Reset)), CoordinatorAction::End]
        );
        assert!(file.waits(300).is_empty());
    }

    #[test]
    fn who_waits_for_the_size_is_seen_until_it_is_known() {
        let mut file = open(Mode::Log);
        let mut actions = Vec::new();
        file.transfer(2, Transfer::read(10), 20, 100, &mut |action| actions.push(action));
        file.tell(0, 0, 110, &mut |action| actions.push(action));
        file.transfer(2, Transfer::write(5), 21, 120, &mut |action| actions.push(action));
        assert_eq!(actions, [CoordinatorAction::Measure]);
        let wait = RankWait {
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

//! The coordinator of a shared file: a file that the ranks of a job have open together.
//!
//! Invariants: accesses are placed in the order in which they are decided; the position moves with
//! the range, not with the bytes. A call that fails leaves position and mode as they were.
//! While the size of the file is being measured, all calls wait in the queue.

use std::collections::{HashMap, VecDeque};

use pario_proto::{
    AccessRange, BytesClaim, Call, CallOutcome, CollectiveError, Course, MISSING_SHOWN, Mode,
    OPENER_CLAIMS_LIMIT, RoundDecision, Seek, Transfer, WaitCause,
};

use super::byte_range_queue::ByteRangeQueue;
use super::round_collector::{CompleteRound, Departure, RankWait, RoundCollector, RoundResult};

/// The state of a shared file. `T` identifies the caller that a reply goes to.
#[derive(Debug)]
pub struct SharedFileCoordinator<T> {
    course: Course,
    rounds: RoundCollector<T>,
    /// Complete rounds and calls of single ranks that are not decided yet.
    queue: VecDeque<Queued<T>>,
    /// Whether the size of the file is being measured, for the first in the queue.
    is_measuring: bool,
    /// Accesses that one rank performs for all, by the number of the round.
    performing: HashMap<u64, Performing<T>>,
    ranges: ByteRangeQueue<T>,
    is_over: bool,
    /// The time of the last collective call.
    last_collective_ms: u64,
}

#[derive(Debug)]
struct Queued<T> {
    call: QueuedCall<T>,
    since_ms: u64,
}

#[derive(Debug)]
enum QueuedCall<T> {
    /// An access of one rank.
    Transfer(u32, Transfer, T),
    /// A seek of one rank.
    Seek(u32, Seek, T),
    /// A query of one rank for the pointer.
    Tell(u32, T),
    /// A complete round.
    Round(CompleteRound<T>),
}

#[derive(Debug)]
struct Performing<T> {
    rank: u32,
    range: AccessRange,
    others: Vec<T>,
    call: Option<Call>,
    since_ms: u64,
}

/// An action for the owner of the coordinator.
#[derive(Debug, PartialEq, Eq)]
pub enum CoordinatorAction<T> {
    /// Send a reply.
    Answer(T, Result<CallOutcome, CollectiveError>),
    /// Measure the file, and call [`SharedFileCoordinator::measured`].
    Measure,
    /// No rank has the file open any more.
    End,
}

/// The result of an access that one rank performed for all: the number of bytes, or why it failed.
pub type PerformResult = Result<u64, String>;

impl<T> SharedFileCoordinator<T> {
    /// A file that a job of `size` ranks has opened; `len` is its length, if that is known.
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

    /// The ranks that wait.
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

    /// The calls in the queue while the size of the file is being measured.
    fn wait_for_size(&self) -> Option<RankWait> {
        let first = self.queue.front().filter(|_| self.is_measuring)?;
        let mut arrived: Vec<_> =
            self.queue.iter().flat_map(|queued| queued.call.calls()).collect();
        // Only the first call of a rank is shown.
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

    /// The shared pointer, in modes that have one.
    pub fn position(&self) -> Option<u64> {
        self.course.shared_offset()
    }

    /// The end of the file, if it is known.
    pub fn known_end(&self) -> Option<u64> {
        self.course.known_end()
    }

    /// Lets a rank join.
    pub fn join(&mut self, rank: u32) -> Result<(), CollectiveError> {
        self.rounds.join(rank)
    }

    /// Handles a collective call of a rank.
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

    /// Handles an access of one rank at the shared pointer.
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

    /// Handles a seek of one rank.
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

    /// Handles a query for the shared pointer; the reply follows all calls that were made before.
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

    /// Handles a claim of bytes. A rank may have several, with different numbers.
    pub fn lock(
        &mut self,
        claim: BytesClaim,
        ticket: T,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        if let Err(error) = self.check(claim.rank) {
            return act(CoordinatorAction::Answer(ticket, Err(error)));
        }
        if self.ranges.count_of(claim.rank) >= OPENER_CLAIMS_LIMIT {
            let why = format!("it has {OPENER_CLAIMS_LIMIT} atomic accesses to the file under way");
            let error = CollectiveError::RankFailed { rank: claim.rank, why: why.into() };
            return act(CoordinatorAction::Answer(ticket, Err(error)));
        }
        self.ranges.add(claim, ticket);
        self.grant_ranges(act);
    }

    /// Releases claimed bytes.
    pub fn unlock(&mut self, rank: u32, number: u64, act: &mut impl FnMut(CoordinatorAction<T>)) {
        self.ranges.release(rank, number);
        self.grant_ranges(act);
    }

    fn grant_ranges(&mut self, act: &mut impl FnMut(CoordinatorAction<T>)) {
        while let Some(ticket) = self.ranges.next_granted() {
            act(CoordinatorAction::Answer(ticket, Ok(CallOutcome::Done)));
        }
    }

    /// Handles a close of one rank, without the others.
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

    /// Lets a rank leave: its process is lost, or has dropped the file.
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

    /// Ends everything: all waiting calls fail, and no rank has the file open any more.
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

    /// Handles the report of a rank that has performed an access for all.
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
        let Some(Performing { range, others, .. }) = self.performing.remove(&number) else {
            return;
        };
        for ticket in others {
            let outcome = match done {
                Ok(len) => {
                    let range = AccessRange { len: (*len).min(range.len), ..range };
                    Ok(CallOutcome::Performed { number, range })
                }
                Err(why) => Err(CollectiveError::NotPerformed { rank, why: why.clone() }),
            };
            act(CoordinatorAction::Answer(ticket, outcome));
        }
    }

    /// Handles the measured size of the file, or why it could not be measured.
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

    /// Fails the call of a rank. If the call was a close and another rank has left, the file is
    /// closed for this rank nevertheless: there is no other rank to agree with.
    fn fail_one(
        &mut self,
        rank: u32,
        is_close: bool,
        ticket: T,
        error: CollectiveError,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        let is_last =
            matches!(error, CollectiveError::Gone { .. } | CollectiveError::Closed { .. });
        act(CoordinatorAction::Answer(ticket, Err(error)));
        if is_close && is_last {
            self.rounds.leave(rank, Departure::Closed);
            if self.rounds.is_over() {
                self.end(act);
            }
        }
    }

    /// Decides all calls that can be decided.
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

    /// Whether the size of the file must be measured before a call is decided.
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
            Ok(RoundDecision::Once(range)) => {
                self.perform((number, &calls), range, tickets, last, act);
            }
            Ok(RoundDecision::Ranges(ranges)) => {
                for (ticket, range) in tickets.into_iter().zip(ranges) {
                    act(CoordinatorAction::Answer(ticket, Ok(CallOutcome::Placed(range))));
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

    /// Lets the rank that called last perform the access: the others are asleep.
    fn perform(
        &mut self,
        (number, calls): (u64, &[Call]),
        range: AccessRange,
        tickets: Vec<T>,
        rank: u32,
        act: &mut impl FnMut(CoordinatorAction<T>),
    ) {
        let mut others = Vec::with_capacity(tickets.len());
        for (caller, ticket) in (0..).zip(tickets) {
            if caller == rank {
                act(CoordinatorAction::Answer(ticket, Ok(CallOutcome::Perform { number, range })));
            } else {
                others.push(ticket);
            }
        }
        // The rank may have called and left.
        if self.rounds.is_here(rank) {
            let (call, since_ms) = (calls.first().cloned(), self.last_collective_ms);
            let performing = Performing { rank, range, others, call, since_ms };
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
    /// The ranks that wait, and their calls.
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

    /// A file of unknown length that ranks 0 to 2 have open.
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
    fn a_wait_for_the_performing_rank_is_shown_and_ends_with_a_reset() {
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
        let failed = |rank| CoordinatorAction::Answer(rank, Err(CollectiveError::Reset));
        assert_eq!(reset(&mut file), [failed(0), failed(2), CoordinatorAction::End]);
        assert!(file.waits(400).is_empty());
    }

    #[test]
    fn queued_calls_and_rounds_end_with_a_reset() {
        let mut file = open(Mode::Log);
        let mut actions = Vec::new();
        file.transfer(0, Transfer::read(10), 0, 0, &mut |action| actions.push(action));
        assert_eq!(actions, [CoordinatorAction::Measure], "the end of the file is not known");
        file.collective_call(2, 0, Call::Close, 2, 0, &mut |action| actions.push(action));
        let failed = |rank| CoordinatorAction::Answer(rank, Err(CollectiveError::Reset));
        assert_eq!(reset(&mut file), [failed(0), failed(2), CoordinatorAction::End]);
        // A late measurement changes nothing.
        file.measured(Ok(7), &mut |action| panic!("{action:?}"));
    }

    #[test]
    fn a_wait_for_bytes_is_shown_until_they_are_released() {
        let mut file = open(Mode::Unix);
        let mut actions = Vec::new();
        let claim = |rank, number, since_ms| {
            let bytes = BytesUse::new(u64::from(rank), 10, true);
            BytesClaim { rank, number, bytes, since_ms }
        };
        file.lock(claim(2, 7, 100), 2, &mut |action| actions.push(action));
        assert!(file.waits(200).is_empty(), "the claim is granted");
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
    fn a_wait_for_the_size_is_shown_until_it_is_known() {
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

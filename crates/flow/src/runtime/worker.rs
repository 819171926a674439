//! A thread of a program: it takes tokens out of its queue and runs the steps that are its.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pario_net::{InputPort, RecvError};

use super::board::Board;
use super::clock::now_ns;
use super::ids::{CallId, NumberMap, Position, SplitId, ThreadNumber};
use super::merges::MergeState;
use super::message::{Debt, Envelope, Journey, Message, Payload, Plain, Route};
use super::recorder::Record;
use super::shared::Shared;
use super::splits::SplitState;
use super::stack::{FrameKind, Stack};
use super::successor::RawSuccessor;
use crate::error::CallError;
use crate::schedule::{Context, Step};
use crate::token::Parcel;
use crate::trace::SpanKind;
use crate::window::Trip;

pub(crate) struct Worker {
    pub(super) me: ThreadNumber,
    /// Its number in its pool.
    index: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) board: Arc<Board>,
    port: InputPort<Message>,
    state: Box<dyn Any>,
    /// Splits under way by number. One whose tokens are being split off is out of here meanwhile.
    pub(super) splits: NumberMap<u64, Box<SplitState>>,
    pub(super) next_split: u64,
    /// What automatic windows were at the end of the last split at each step.
    pub(super) learnt: NumberMap<Position, usize>,
    pub(super) merges: NumberMap<SplitId, MergeState>,
    /// Splits that are being continued, further up in this thread.
    pub(super) continuing: Vec<u64>,
    /// Tokens of these that were merged here meanwhile.
    pub(super) told: Vec<(u64, Trip)>,
    /// The last look at the clock.
    pub(super) time_ns: u64,
    /// Until then the thread was busy with the message before this one.
    busy_until_ns: u64,
    /// How long the token under way waited for this thread.
    waited_ns: u64,
    /// Where the thread is, for the case that it panics.
    pub(super) doing: Option<(CallId, Position)>,
    /// Set by an asynchronous step: the debt of the token is its successor's now.
    debt: Option<Debt>,
}

/// A token in the hands of a thread.
pub(crate) struct Moving {
    pub(crate) call: CallId,
    pub(crate) oldest: u64,
    pub(crate) position: Position,
    pub(crate) stack: Stack,
    pub(crate) journey: Journey,
    pub(crate) parcel: Parcel,
}

impl Moving {
    pub(crate) fn route(&self) -> Route {
        Route { call: self.call, oldest: self.oldest, position: self.position, trip: self.journey }
    }

    fn into_envelope(self, shared: &Shared, now_ns: u64) -> Envelope {
        let codec = shared.node(self.position).input;
        Envelope {
            route: self.route(),
            stack: self.stack,
            debt: None,
            queued_ns: now_ns,
            payload: Payload::Here(self.parcel, codec),
        }
    }
}

impl Worker {
    pub(crate) fn new(
        me: ThreadNumber,
        index: usize,
        shared: Arc<Shared>,
        board: Arc<Board>,
        port: InputPort<Message>,
        state: Box<dyn Any>,
    ) -> Self {
        Self {
            me,
            index,
            shared,
            board,
            port,
            state,
            splits: NumberMap::default(),
            next_split: 0,
            learnt: NumberMap::default(),
            merges: NumberMap::default(),
            continuing: Vec::new(),
            told: Vec::new(),
            time_ns: now_ns(),
            busy_until_ns: 0,
            waited_ns: 0,
            doing: None,
            debt: None,
        }
    }

    /// Deals with messages until the program stops.
    pub(crate) fn run(mut self) {
        let shared = &self.shared.clone();
        loop {
            // A message that is there already is begun with when the one before it was done.
            let message = match self.port.try_recv() {
                Err(RecvError::Empty { .. }) => {
                    let message = self.port.recv();
                    self.time_ns = now_ns();
                    message
                }
                message => message,
            };
            match message {
                Ok(Message::Plain(Plain::Stop)) | Err(RecvError::Closed { .. }) => return,
                Ok(message) => self.handle(shared, message),
                Err(RecvError::Lost { peer, .. }) => tell_steward(shared, &peer),
                Err(error) => tracing::warn!(thread = %self.board.name, "{error}"),
            }
        }
    }

    fn handle(&mut self, shared: &Shared, message: Message) {
        let began = self.time_ns;
        let result = catch_unwind(AssertUnwindSafe(|| self.take(shared, message)));
        if let Err(panic) = result
            && let Some((call, position)) = self.doing
        {
            let error = CallError::Panicked {
                operation: shared.operation_name(position),
                step: shared.node(position).name.clone(),
                thread: self.board.name.clone(),
                message: panic_message(&*panic),
            };
            // They were in the hands of what panicked, and are of the same call.
            self.continuing.drain(..).for_each(|number| self.board.close_split(number));
            self.give_up(shared, call, error);
        }
        self.doing = None;
        self.continuing.clear();
        self.told.clear();
        self.time_ns = now_ns();
        self.busy_until_ns = self.time_ns;
        if let Some(debt) = self.debt.take() {
            shared.settle(debt, self.me);
        }
        self.board.idle(self.time_ns.saturating_sub(began));
    }

    fn take(&mut self, shared: &Shared, message: Message) {
        match message {
            Message::Token(envelope) => self.take_token(shared, envelope),
            Message::Begin(begin, payload) => self.begin_merge_elsewhere(shared, begin, payload),
            Message::Plain(Plain::Merged { split, trips }) => {
                self.tokens_merged(shared, split, &trips)
            }
            Message::Plain(Plain::Resume { split }) => self.continue_split(shared, split),
            Message::Plain(Plain::End { split, total }) => self.end_merge(shared, split, total),
            Message::Plain(Plain::Abort { call }) => self.forget_ended(shared, call),
            Message::Plain(_) | Message::Result(..) => {
                tracing::warn!(thread = %self.board.name, "a message for a steward came to a thread");
            }
        }
    }

    fn take_token(&mut self, shared: &Shared, envelope: Envelope) {
        let Envelope { route, stack, debt, queued_ns, payload } = envelope;
        self.debt = debt;
        let origin = route.call.origin;
        shared.ended.note_oldest(origin, route.oldest);
        if shared.ended.contains(origin, route.call.number) {
            return;
        }
        let mut journey = route.trip;
        self.waited_ns = self.busy_until_ns.saturating_sub(queued_ns);
        journey.hop(self.waited_ns);
        self.doing = Some((route.call, route.position));
        match payload.open(shared.node(route.position).input) {
            Ok(parcel) => self.advance(
                shared,
                Moving {
                    call: route.call,
                    oldest: route.oldest,
                    position: route.position,
                    stack,
                    journey,
                    parcel,
                },
            ),
            Err(error) => {
                let error = CallError::Transfer {
                    operation: shared.operation_name(route.position),
                    from: "another process".into(),
                    to: self.board.name.clone(),
                    message: error.to_string(),
                };
                self.give_up(shared, route.call, error);
            }
        }
    }

    /// Takes a token through the schedule until it leaves this thread.
    pub(super) fn advance(&mut self, shared: &Shared, mut moving: Moving) {
        loop {
            let position = moving.position;
            self.doing = Some((moving.call, position));
            match &shared.node(position).step {
                Step::Run(function) => {
                    let context = Context::new(
                        &self.board.name,
                        self.index,
                        moving.call.number,
                        &moving.stack,
                    );
                    let began = self.time_ns;
                    self.board.begin(position, began);
                    let result = function(&mut *self.state, moving.parcel, &context);
                    self.time_ns = now_ns();
                    self.board.end(position, began, self.time_ns);
                    self.record(position, SpanKind::Run, moving.call, &moving.stack, began);
                    match result {
                        Ok(parcel) => moving.parcel = parcel,
                        Err(message) => {
                            return self.step_failed(shared, moving.call, position, message);
                        }
                    }
                    moving.position = position.next();
                }
                Step::Hop(site) => {
                    let target =
                        shared.resolve(site, &moving.parcel, || moving.stack.indices(), position);
                    moving.position = position.next();
                    let call = moving.call;
                    let sent = match target {
                        Ok(Some(thread)) if thread == self.me => continue,
                        Ok(Some(thread)) => shared.send(
                            thread,
                            call,
                            Message::Token(moving.into_envelope(shared, self.time_ns)),
                        ),
                        Ok(None) => shared
                            .send_to_any(site.slot, moving.into_envelope(shared, self.time_ns)),
                        Err(error) => Err(error),
                    };
                    if let Err(error) = sent {
                        self.give_up(shared, call, error);
                    }
                    return;
                }
                Step::Start(function) => {
                    let successor = RawSuccessor::new(
                        self.shared.clone(),
                        self.board.clone(),
                        self.me,
                        moving.route(),
                        moving.stack.clone(),
                        self.debt.take(),
                    );
                    let began = self.time_ns;
                    self.board.begin(position, began);
                    function(&mut *self.state, moving.parcel, successor);
                    self.time_ns = now_ns();
                    self.record(position, SpanKind::Run, moving.call, &moving.stack, began);
                    return;
                }
                Step::Map(function) => {
                    moving.parcel = function(moving.parcel);
                    moving.position = position.next();
                }
                Step::Branch { test, otherwise } => {
                    moving.position = if test(&moving.parcel) {
                        position.next()
                    } else {
                        position.at(*otherwise)
                    };
                }
                Step::Jump(to) => moving.position = position.at(*to),
                Step::ForEnter { range, after } => {
                    let range = range(&moving.parcel);
                    if range.is_empty() {
                        moving.position = position.at(*after);
                    } else {
                        let frame = FrameKind::For { index: range.start, end: range.end };
                        moving.stack = moving.stack.push(frame);
                        moving.position = position.next();
                    }
                }
                Step::ForNext { body } => {
                    let frame = moving.stack.top().expect("a counted loop has a frame");
                    let FrameKind::For { index, end } = frame.kind else {
                        unreachable!("the innermost frame is the loop's")
                    };
                    let outer = frame.outer.clone();
                    if index + 1 < end {
                        moving.stack = outer.push(FrameKind::For { index: index + 1, end });
                        moving.position = position.at(*body);
                    } else {
                        moving.stack = outer;
                        moving.position = position.next();
                    }
                }
                Step::Split(split) => return self.begin_split(shared, split, moving),
                Step::Merge(merge) => {
                    let frame = moving.stack.split().expect("a merge is inside its split");
                    let at = frame.merge_at;
                    if at == self.me {
                        match self.merge(shared, merge, moving) {
                            Some(output) => moving = output,
                            None => return,
                        }
                    } else {
                        let call = moving.call;
                        let envelope = moving.into_envelope(shared, self.time_ns);
                        if let Err(error) = shared.send(at, call, Message::Token(envelope)) {
                            self.give_up(shared, call, error);
                        }
                        return;
                    }
                }
                Step::Call(operation) => {
                    moving.stack = moving.stack.push(FrameKind::Call { back: position.next() });
                    moving.position = Position::new(*operation, 0);
                }
                Step::Return => match moving.stack.top() {
                    Some(frame) => {
                        let FrameKind::Call { back } = frame.kind else {
                            unreachable!("an operation that returns was called")
                        };
                        let outer = frame.outer.clone();
                        moving.position = back;
                        moving.stack = outer;
                    }
                    None => return shared.finish(moving.call, position, moving.parcel),
                },
            }
        }
    }

    pub(super) fn record(
        &self,
        position: Position,
        kind: SpanKind,
        call: CallId,
        stack: &Stack,
        began_ns: u64,
    ) {
        if let Some(recorder) = &self.board.recorder {
            recorder.add(Record {
                position,
                kind,
                call: call.number,
                token: stack.split().map_or(0, |split| split.number + 1),
                begin_ns: began_ns,
                end_ns: self.time_ns,
                waited_ns: self.waited_ns,
            });
        }
    }

    /// Whether other messages wait for this thread.
    pub(super) fn has_more(&self) -> bool {
        self.port.depth() > 0
    }

    pub(super) fn give_up(&mut self, shared: &Shared, call: CallId, error: CallError) {
        shared.fail(call, error);
        self.forget_ended(shared, call);
    }

    fn step_failed(&mut self, shared: &Shared, call: CallId, position: Position, message: String) {
        let error = CallError::Failed {
            operation: shared.operation_name(position),
            step: shared.node(position).name.clone(),
            thread: self.board.name.clone(),
            message,
        };
        self.give_up(shared, call, error);
    }

    /// Forgets what belongs to calls that have ended.
    fn forget_ended(&mut self, shared: &Shared, call: CallId) {
        let ended = &shared.ended;
        let board = &self.board;
        let is_over = |other: CallId| other == call || ended.contains(other.origin, other.number);
        self.splits.retain(|number, split| {
            let stays = !is_over(split.call);
            if !stays {
                board.close_split(*number);
            }
            stays
        });
        self.merges.retain(|_, merge| !is_over(merge.call));
    }
}

/// The steward may have no link to the process that is gone, and must hear of it all the same.
fn tell_steward(shared: &Shared, peer: &str) {
    if let Some(space) = shared.space_named(peer) {
        let nobody = CallId { origin: shared.me, number: u64::MAX };
        // A steward that has ended needs to know nothing more.
        let _ = shared.tell(shared.me, nobody, Message::Plain(Plain::Gone { space }));
    }
}

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

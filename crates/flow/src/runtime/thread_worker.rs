//! A thread of a program: receives tokens and runs the steps of their schedules.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pario_net::clock::monotonic_ns;
use pario_net::{InputPort, RecvError};

use super::activity::ThreadActivity;
use super::attached::QueuedShare;
use super::construct_stack::{ConstructKind, ConstructStack};
use super::continuation::ErasedContinuation;
use super::ids::{CallId, MergeId, NumberMap, StepPosition, ThreadNumber};
use super::merges::MergeState;
use super::message::{
    ControlMessage, Envelope, FlowMessage, HopWaits, Payload, ThreadClaim, TokenRoute,
};
use super::process_runtime::ProcessRuntime;
use super::span_recorder::SpanRecord;
use super::splits::SplitState;
use crate::error::CallError;
use crate::schedule::{StepAction, StepContext};
use crate::token::ErasedToken;
use crate::trace::SpanKind;
use crate::window::TripReport;

pub(crate) struct ThreadWorker {
    pub(super) me: ThreadNumber,
    /// The number of the thread in its pool.
    index: usize,
    pub(super) runtime: Arc<ProcessRuntime>,
    pub(super) activity: Arc<ThreadActivity>,
    port: InputPort<FlowMessage>,
    state: Box<dyn Any>,
    /// Splits under way by number, without those in `active_splits`.
    pub(super) splits: NumberMap<u64, Box<SplitState>>,
    pub(super) next_split: u64,
    /// The automatic window at the end of the last split, for each split step.
    pub(super) learned_windows: NumberMap<StepPosition, usize>,
    pub(super) merges: NumberMap<MergeId, MergeState>,
    /// Splits that a caller further up the call stack is continuing.
    pub(super) active_splits: Vec<u64>,
    /// Tokens of active splits that this thread has merged in the same call.
    pub(super) merged_inline: Vec<(u64, TripReport)>,
    /// The last clock reading.
    pub(super) time_ns: u64,
    /// When the thread finished the previous message.
    busy_until_ns: u64,
    /// How long the current token waited for this thread.
    waited_ns: u64,
    /// The current call and step, for the report of a panic.
    pub(super) doing: Option<(CallId, StepPosition)>,
    /// The claim of the current token; an asynchronous step passes it to its continuation.
    claim: Option<ThreadClaim>,
    /// The share of the current message in the limit of the attached process that sent it.
    pub(super) share: Option<QueuedShare>,
}

/// The token that a thread takes through its schedule.
pub(crate) struct CurrentToken {
    pub(crate) call: CallId,
    pub(crate) oldest: u64,
    pub(crate) position: StepPosition,
    pub(crate) stack: ConstructStack,
    pub(crate) hop_waits: HopWaits,
    pub(crate) token: ErasedToken,
}

impl CurrentToken {
    pub(crate) fn route(&self) -> TokenRoute {
        TokenRoute {
            call: self.call,
            oldest: self.oldest,
            position: self.position,
            hop_waits: self.hop_waits,
        }
    }

    fn into_envelope(self, runtime: &ProcessRuntime, now_ns: u64) -> Envelope {
        let token_type = runtime.step(self.position).input;
        Envelope {
            route: self.route(),
            stack: self.stack,
            claim: None,
            queued_ns: now_ns,
            payload: Payload::Local(self.token, token_type),
        }
    }
}

impl ThreadWorker {
    pub(crate) fn new(
        me: ThreadNumber,
        index: usize,
        runtime: Arc<ProcessRuntime>,
        activity: Arc<ThreadActivity>,
        port: InputPort<FlowMessage>,
        state: Box<dyn Any>,
    ) -> Self {
        Self {
            me,
            index,
            runtime,
            activity,
            port,
            state,
            splits: NumberMap::default(),
            next_split: 0,
            learned_windows: NumberMap::default(),
            merges: NumberMap::default(),
            active_splits: Vec::new(),
            merged_inline: Vec::new(),
            time_ns: monotonic_ns(),
            busy_until_ns: 0,
            waited_ns: 0,
            doing: None,
            claim: None,
            share: None,
        }
    }

    /// Handles messages until the program stops.
    pub(crate) fn run(mut self) {
        let runtime = &self.runtime.clone();
        loop {
            // A queued message begins when the previous one ends: no clock reading is needed.
            let message = match self.port.try_recv() {
                Err(RecvError::Empty { .. }) => {
                    let message = self.port.recv();
                    self.time_ns = monotonic_ns();
                    message
                }
                message => message,
            };
            match message {
                Ok(FlowMessage::Control(ControlMessage::Stop)) | Err(RecvError::Closed { .. }) => {
                    return;
                }
                Ok(message) => self.handle(runtime, message),
                Err(RecvError::Lost { peer, .. }) => report_lost_process(runtime, &peer),
                Err(error) => tracing::warn!(thread = %self.activity.name, "{error}"),
            }
        }
    }

    fn handle(&mut self, runtime: &ProcessRuntime, message: FlowMessage) {
        let began = self.time_ns;
        let result = catch_unwind(AssertUnwindSafe(|| self.dispatch(runtime, message)));
        if let Err(panic) = result
            && let Some((call, position)) = self.doing
        {
            let error = CallError::Panicked {
                operation: runtime.operation_name(position),
                step: runtime.step(position).name.clone(),
                thread: self.activity.name.clone(),
                message: pario_net::panic_text(&*panic).to_owned(),
            };
            // The active splits belong to the call that panicked.
            self.active_splits.drain(..).for_each(|number| self.activity.close_split(number));
            self.fail_call(runtime, call, error);
        }
        self.doing = None;
        self.active_splits.clear();
        self.merged_inline.clear();
        self.share = None;
        self.time_ns = monotonic_ns();
        self.busy_until_ns = self.time_ns;
        if let Some(claim) = self.claim.take() {
            runtime.release_thread(claim, self.me);
        }
        self.activity.idle(self.time_ns.saturating_sub(began));
    }

    fn dispatch(&mut self, runtime: &ProcessRuntime, message: FlowMessage) {
        match message {
            FlowMessage::Token(envelope) => self.receive_token(runtime, envelope),
            FlowMessage::MergeBegin(begin, payload) => {
                self.begin_remote_merge(runtime, begin, payload)
            }
            FlowMessage::Control(ControlMessage::Merged { call, split, trips }) => {
                self.tokens_merged(runtime, call, split, &trips)
            }
            FlowMessage::Control(ControlMessage::Resume { split }) => {
                self.continue_split(runtime, split)
            }
            FlowMessage::Control(ControlMessage::End { call, split, total }) => {
                self.end_merge(runtime, MergeId { call, split }, total)
            }
            FlowMessage::Control(ControlMessage::Abort { call }) => {
                self.drop_ended_calls(runtime, call)
            }
            FlowMessage::Control(_) | FlowMessage::Result(..) | FlowMessage::Routed(..) => {
                tracing::warn!(thread = %self.activity.name, "the thread received a message for a coordinator");
            }
        }
    }

    fn receive_token(&mut self, runtime: &ProcessRuntime, envelope: Envelope) {
        let Envelope { route, stack, claim, queued_ns, mut payload } = envelope;
        self.claim = claim;
        self.share = payload.take_share();
        let origin = route.call.origin;
        runtime.ended.note_oldest(origin, route.oldest);
        if runtime.ended.contains(origin, route.call.number) {
            return;
        }
        let mut hop_waits = route.hop_waits;
        self.waited_ns = self.busy_until_ns.saturating_sub(queued_ns);
        hop_waits.hop(self.waited_ns);
        self.doing = Some((route.call, route.position));
        match payload.decode(runtime.step(route.position).input) {
            Ok(token) => self.advance(
                runtime,
                CurrentToken {
                    call: route.call,
                    oldest: route.oldest,
                    position: route.position,
                    stack,
                    hop_waits,
                    token,
                },
            ),
            Err(error) => {
                let error = CallError::Transfer {
                    operation: runtime.operation_name(route.position),
                    from: "another process".into(),
                    to: self.activity.name.clone(),
                    message: error.to_string(),
                };
                self.fail_call(runtime, route.call, error);
            }
        }
    }

    /// Takes a token through its schedule until the token leaves this thread.
    pub(super) fn advance(&mut self, runtime: &ProcessRuntime, mut current: CurrentToken) {
        loop {
            let position = current.position;
            self.doing = Some((current.call, position));
            match &runtime.step(position).action {
                StepAction::Run(function) => {
                    let context = StepContext::new(&self.activity.name, self.index, &current.stack);
                    let began = self.time_ns;
                    self.activity.begin(position, began);
                    let result = function(&mut *self.state, current.token, &context);
                    self.time_ns = monotonic_ns();
                    self.activity.end(position, began, self.time_ns);
                    self.record(position, SpanKind::Run, current.call, &current.stack, began);
                    match result {
                        Ok(token) => current.token = token,
                        Err(message) => {
                            return self.step_failed(runtime, current.call, position, message);
                        }
                    }
                    current.position = position.next();
                }
                StepAction::Hop(selection) => {
                    let target = runtime.resolve(
                        selection,
                        &current.token,
                        || current.stack.indices(),
                        position,
                    );
                    current.position = position.next();
                    let call = current.call;
                    let sent = match target {
                        Ok(Some(thread)) if thread == self.me => continue,
                        Ok(Some(thread)) => runtime.send(
                            thread,
                            call,
                            FlowMessage::Token(current.into_envelope(runtime, self.time_ns)),
                        ),
                        Ok(None) => runtime.send_to_any(
                            selection.slot,
                            current.into_envelope(runtime, self.time_ns),
                        ),
                        Err(error) => Err(error),
                    };
                    if let Err(error) = sent {
                        self.fail_call(runtime, call, error);
                    }
                    return;
                }
                StepAction::RunAsync(function) => {
                    let successor = ErasedContinuation::new(
                        self.runtime.clone(),
                        self.activity.clone(),
                        self.me,
                        current.route(),
                        current.stack.clone(),
                        self.claim.take(),
                    );
                    let began = self.time_ns;
                    self.activity.begin(position, began);
                    function(&mut *self.state, current.token, successor);
                    self.time_ns = monotonic_ns();
                    self.record(position, SpanKind::Run, current.call, &current.stack, began);
                    return;
                }
                StepAction::Map(function) => {
                    current.token = function(current.token);
                    current.position = position.next();
                }
                StepAction::Branch { test, otherwise } => {
                    current.position = if test(&current.token) {
                        position.next()
                    } else {
                        position.at(*otherwise)
                    };
                }
                StepAction::Jump(to) => current.position = position.at(*to),
                StepAction::ForEnter { range, after } => {
                    let range = range(&current.token);
                    if range.is_empty() {
                        current.position = position.at(*after);
                    } else {
                        let frame = ConstructKind::For { index: range.start, end: range.end };
                        current.stack = current.stack.push(frame);
                        current.position = position.next();
                    }
                }
                StepAction::ForNext { body } => {
                    let frame = current.stack.top().expect("a counted loop has a frame");
                    let ConstructKind::For { index, end } = frame.kind else {
                        unreachable!("the innermost frame belongs to the loop")
                    };
                    let outer = frame.outer.clone();
                    if index + 1 < end {
                        current.stack = outer.push(ConstructKind::For { index: index + 1, end });
                        current.position = position.at(*body);
                    } else {
                        current.stack = outer;
                        current.position = position.next();
                    }
                }
                StepAction::Split(split) => return self.begin_split(runtime, split, current),
                StepAction::Merge(merge) => {
                    let frame = current.stack.split().expect("a merge is inside its split");
                    let at = frame.merge_at;
                    if at == self.me {
                        match self.merge(runtime, merge, current) {
                            Some(output) => current = output,
                            None => return,
                        }
                    } else {
                        let call = current.call;
                        let envelope = current.into_envelope(runtime, self.time_ns);
                        if let Err(error) = runtime.send(at, call, FlowMessage::Token(envelope)) {
                            self.fail_call(runtime, call, error);
                        }
                        return;
                    }
                }
                StepAction::Call(operation) => {
                    let frame = ConstructKind::Call { back: position.next(), from: Some(self.me) };
                    current.stack = current.stack.push(frame);
                    current.position = StepPosition::new(*operation, 0);
                }
                StepAction::Return => match current.stack.top() {
                    Some(frame) => {
                        let ConstructKind::Call { back, .. } = frame.kind else {
                            unreachable!("the frame of a returning operation is a call")
                        };
                        let outer = frame.outer.clone();
                        if !runtime.has_operation(back) {
                            return self.return_to_caller(runtime, current);
                        }
                        current.position = back;
                        current.stack = outer;
                    }
                    None => return runtime.finish(current.call, position, current.token),
                },
            }
        }
    }

    /// Returns a token to an operation that only the calling process has. The coordinator there
    /// continues it.
    fn return_to_caller(&mut self, runtime: &ProcessRuntime, current: CurrentToken) {
        let call = current.call;
        let token = FlowMessage::Token(current.into_envelope(runtime, self.time_ns));
        if let Err(error) = runtime.send_to_coordinator(call.origin, call, token) {
            self.fail_call(runtime, call, error);
        }
    }

    pub(super) fn record(
        &self,
        position: StepPosition,
        kind: SpanKind,
        call: CallId,
        stack: &ConstructStack,
        began_ns: u64,
    ) {
        if let Some(recorder) = &self.activity.recorder {
            recorder.add(SpanRecord {
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

    /// Returns whether messages wait for this thread.
    pub(super) fn has_more(&self) -> bool {
        self.port.depth() > 0
    }

    pub(super) fn fail_call(&mut self, runtime: &ProcessRuntime, call: CallId, error: CallError) {
        runtime.fail(call, error);
        self.drop_ended_calls(runtime, call);
    }

    fn step_failed(
        &mut self,
        runtime: &ProcessRuntime,
        call: CallId,
        position: StepPosition,
        message: String,
    ) {
        let error = CallError::Failed {
            operation: runtime.operation_name(position),
            step: runtime.step(position).name.clone(),
            thread: self.activity.name.clone(),
            message,
        };
        self.fail_call(runtime, call, error);
    }

    /// Drops the splits and merges of ended calls.
    fn drop_ended_calls(&mut self, runtime: &ProcessRuntime, call: CallId) {
        let ended = &runtime.ended;
        let activity = &self.activity;
        let is_over = |other: CallId| other == call || ended.contains(other.origin, other.number);
        self.splits.retain(|number, split| {
            let stays = !is_over(split.call);
            if !stays {
                activity.close_split(*number);
            }
            stays
        });
        self.merges.retain(|_, merge| !is_over(merge.call));
    }
}

/// Reports a lost process to the coordinator, which may have no link to that process.
fn report_lost_process(runtime: &ProcessRuntime, peer: &str) {
    if let Some(process) = runtime.process_named(peer) {
        let no_call = CallId::none(runtime.me);
        // Sending fails only if the coordinator has ended.
        let _ = runtime.send_to_coordinator(
            runtime.me,
            no_call,
            FlowMessage::Control(ControlMessage::ProcessLost { process }),
        );
    }
}

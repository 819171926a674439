//! The runtime of a process, which all its threads share: the schedules, the ports of all threads
//! and coordinators, the calls, and the lost processes.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use pario_net::{OutputPort, SendError, Space};
use parking_lot::Mutex;

use super::activity::ThreadActivity;
use super::attached::{AttachedProcesses, GuestMessage};
use super::calls::{CallTable, EndedCalls};
use super::construct_stack::ConstructStack;
use super::coordinator::FIRST;
use super::ids::{CallId, ProcessNumber, StepPosition, ThreadNumber};
use super::message::{ControlMessage, Envelope, FlowMessage, Payload, RouteTo, ThreadClaim};
use super::pool_balancer::PoolBalancer;
use super::snapshot::{ProcessStatus, StepStatus};
use crate::error::CallError;
use crate::schedule::{Schedule, ScheduleStep, StepAction};
use crate::thread_selector::{PoolChoice, ThreadSelection};
use crate::token::ErasedToken;
use crate::trace::Trace;

/// Timeout for opening a port of another process. All ports exist before the program begins.
const PORT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct ProcessRuntime {
    pub(crate) program: String,
    pub(crate) operations: Vec<Arc<Schedule>>,
    pub(crate) slots: Vec<PlacedSlot>,
    pub(crate) threads: Vec<PlacedThread>,
    pub(crate) processes: Vec<PlacedProcess>,
    pub(crate) me: ProcessNumber,
    /// The name of this process.
    pub(crate) process_name: String,
    /// The port of the coordinator of this process.
    coordinator: OutputPort<FlowMessage>,
    pub(crate) space: Space,
    /// In an attached process, the way to the resident program.
    pub(crate) entrance: Option<OutputPort<GuestMessage>>,
    /// In the first process of a resident program, the processes that are attached to it.
    pub(crate) attached: AttachedProcesses,
    pub(crate) calls: CallTable,
    pub(crate) ended: EndedCalls,
    /// The balancer of each slot.
    balancers: Vec<Arc<PoolBalancer>>,
    /// The balancers of the caller pools of attached processes.
    caller_balancers: Mutex<HashMap<(ProcessNumber, usize), Arc<PoolBalancer>>>,
    /// The calls that have sent tokens to each other process.
    involved: Mutex<HashMap<ProcessNumber, BTreeSet<(u32, u64)>>>,
    lost: Mutex<BTreeSet<ProcessNumber>>,
}

pub(crate) struct PlacedSlot {
    pub(crate) name: String,
    pub(crate) first: u32,
    pub(crate) size: usize,
    pub(crate) is_pool: bool,
    /// Whether each calling process has the threads of this slot for itself.
    pub(crate) is_caller: bool,
}

pub(crate) struct PlacedThread {
    pub(crate) name: String,
    /// The process of the thread; for a caller thread, that of this process' own calls.
    pub(crate) process: ProcessNumber,
    /// Whether each calling process has this thread for itself.
    pub(crate) is_caller: bool,
    pub(crate) port: OnceLock<OutputPort<FlowMessage>>,
    /// Set for threads of this process.
    pub(crate) activity: Option<Arc<ThreadActivity>>,
}

pub(crate) struct PlacedProcess {
    pub(crate) name: String,
    pub(crate) port: OnceLock<OutputPort<FlowMessage>>,
}

impl ProcessRuntime {
    #[expect(clippy::too_many_arguments, reason = "one caller")]
    pub(crate) fn new(
        program: String,
        operations: Vec<Arc<Schedule>>,
        slots: Vec<PlacedSlot>,
        threads: Vec<PlacedThread>,
        processes: Vec<PlacedProcess>,
        me: ProcessNumber,
        process_name: String,
        coordinator: OutputPort<FlowMessage>,
        space: Space,
        entrance: Option<OutputPort<GuestMessage>>,
        max_calls: usize,
    ) -> Self {
        let balancers = slots
            .iter()
            .map(|slot| {
                let threads = (0..slot.size).map(|index| {
                    let number = slot.thread(index);
                    let is_local = threads[number.0 as usize].process == me;
                    (number, if is_local { 1 } else { 2 })
                });
                Arc::new(PoolBalancer::new(threads))
            })
            .collect();
        Self {
            program,
            operations,
            slots,
            threads,
            processes,
            me,
            process_name,
            coordinator,
            space,
            entrance,
            attached: AttachedProcesses::default(),
            calls: CallTable::new(max_calls),
            ended: EndedCalls::default(),
            balancers,
            caller_balancers: Mutex::default(),
            involved: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    pub(crate) fn step(&self, position: StepPosition) -> &ScheduleStep {
        &self.operations[position.operation as usize].steps[position.step as usize]
    }

    /// Whether this process has the operation of a position; an attached process may have others.
    pub(crate) fn has_operation(&self, position: StepPosition) -> bool {
        (position.operation as usize) < self.operations.len()
    }

    pub(crate) fn operation_name(&self, position: StepPosition) -> String {
        self.operations[position.operation as usize].name.clone()
    }

    pub(crate) fn thread_name(&self, thread: ThreadNumber) -> &str {
        self.threads
            .get(thread.0 as usize)
            .map_or("a thread of the calling process", |thread| &thread.name)
    }

    /// Returns the process of a thread for the tokens of a call.
    fn process_of(&self, thread: ThreadNumber, call: CallId) -> ProcessNumber {
        match self.threads.get(thread.0 as usize) {
            Some(thread) if !thread.is_caller => thread.process,
            _ => call.origin,
        }
    }

    /// Sends a message to a thread of this process.
    pub(crate) fn send_here(
        &self,
        to: ThreadNumber,
        call: CallId,
        message: FlowMessage,
    ) -> Result<(), CallError> {
        let port = self.threads.get(to.0 as usize).and_then(|thread| thread.port.get());
        let Some(port) = port.filter(|port| port.is_local()) else {
            return Err(CallError::Transfer {
                operation: self.call_name(call),
                from: self.process_name.clone(),
                to: self.thread_name(to).to_owned(),
                message: format!("process {} has no such thread", self.process_name),
            });
        };
        port.send(message).map_err(|error| self.send_error(error, port.name(), self.me, call))
    }

    /// Sends a message by way of the first process, to or from an attached process.
    fn send_routed(
        &self,
        to: RouteTo,
        call: CallId,
        message: FlowMessage,
    ) -> Result<(), CallError> {
        if let Some(entrance) = &self.entrance {
            let routed = GuestMessage::new(FlowMessage::Routed(to, Box::new(message)));
            return entrance.send(routed).map_err(|error| match error {
                SendError::Lost { .. } | SendError::Closed { .. } => {
                    CallError::ProgramLost { program: self.program.clone() }
                }
                error => CallError::Transfer {
                    operation: self.call_name(call),
                    from: self.process_name.clone(),
                    to: format!("program {}", self.program),
                    message: error.to_string(),
                },
            });
        }
        if self.me == FIRST {
            return match self.attached.send(to, message) {
                Ok(()) => Ok(()),
                Err(Some(error)) => Err(CallError::Transfer {
                    operation: self.call_name(call),
                    from: self.process_name.clone(),
                    to: "an attached process".to_owned(),
                    message: error,
                }),
                Err(None) => Err(self.process_lost_error(to.process, call)),
            };
        }
        self.send_to_coordinator(FIRST, call, FlowMessage::Routed(to, Box::new(message)))
    }

    /// Returns the selected thread for a token; `None` for any thread of the pool. Fails if the
    /// pool has no thread of that number.
    pub(crate) fn resolve(
        &self,
        selection: &ThreadSelection,
        token: &ErasedToken,
        indices: impl FnOnce() -> Vec<u64>,
        position: StepPosition,
    ) -> Result<Option<ThreadNumber>, CallError> {
        let slot = &self.slots[selection.slot];
        let index = match &selection.choice {
            PoolChoice::Index(index) => *index,
            PoolChoice::Computed(choose) => choose(token, &indices()),
            PoolChoice::Any => return Ok(None),
        };
        if index >= slot.size {
            return Err(CallError::NoSuchThread {
                operation: self.operation_name(position),
                step: self.step(position).name.clone(),
                pool: slot.name.clone(),
                index,
                size: slot.size,
            });
        }
        Ok(Some(slot.thread(index)))
    }

    /// Like [`resolve`](Self::resolve), on a thread that is none of the program: a function that
    /// panics fails the call.
    pub(crate) fn resolve_caught(
        &self,
        selection: &ThreadSelection,
        token: &ErasedToken,
        stack: &ConstructStack,
        position: StepPosition,
    ) -> Result<Option<ThreadNumber>, CallError> {
        let resolve = || self.resolve(selection, token, || stack.indices(), position);
        catch_unwind(AssertUnwindSafe(resolve)).unwrap_or_else(|panic| {
            Err(CallError::Panicked {
                operation: self.operation_name(position),
                step: self.step(position).name.clone(),
                thread: thread::current().name().unwrap_or("without a name").to_owned(),
                message: pario_net::panic_text(&*panic).to_owned(),
            })
        })
    }

    /// Sends a message to a thread of any process.
    pub(crate) fn send(
        &self,
        to: ThreadNumber,
        call: CallId,
        message: FlowMessage,
    ) -> Result<(), CallError> {
        let process = self.process_of(to, call);
        if process == self.me {
            return self.send_here(to, call, message);
        }
        if self.entrance.is_some() || process.is_attached() {
            return self.send_routed(RouteTo { process, thread: Some(to) }, call, message);
        }
        let thread = &self.threads[to.0 as usize];
        self.involve(process, call);
        let port = match thread.port.get() {
            Some(port) => port,
            None => self.open_port(&thread.port, &thread.name, thread.process, call)?,
        };
        port.send(message)
            .map_err(|error| self.send_error(error, &thread.name, thread.process, call))
    }

    /// Sends a message to the coordinator of a process.
    pub(crate) fn send_to_coordinator(
        &self,
        to: ProcessNumber,
        call: CallId,
        message: FlowMessage,
    ) -> Result<(), CallError> {
        if to == self.me {
            return self
                .coordinator
                .send(message)
                .map_err(|error| self.send_error(error, &self.process_name, to, call));
        }
        if self.entrance.is_some() || to.is_attached() {
            return self.send_routed(RouteTo { process: to, thread: None }, call, message);
        }
        let process = &self.processes[to.0 as usize];
        let port = match process.port.get() {
            Some(port) => port,
            None => self.open_port(&process.port, &coordinator_name(&process.name), to, call)?,
        };
        port.send(message).map_err(|error| self.send_error(error, &process.name, to, call))?;
        port.flush();
        Ok(())
    }

    fn open_port<'a>(
        &self,
        cell: &'a OnceLock<OutputPort<FlowMessage>>,
        name: &str,
        process: ProcessNumber,
        call: CallId,
    ) -> Result<&'a OutputPort<FlowMessage>, CallError> {
        if self.is_lost(process) {
            return Err(self.process_lost_error(process, call));
        }
        let port = self
            .space
            .output::<FlowMessage>(&port_name(&self.program, name), PORT_TIMEOUT)
            .map_err(|error| CallError::Transfer {
                operation: self.call_name(call),
                from: self.process_name.clone(),
                to: name.to_owned(),
                message: error.to_string(),
            })?;
        Ok(cell.get_or_init(|| port))
    }

    fn send_error(
        &self,
        error: SendError<FlowMessage>,
        name: &str,
        process: ProcessNumber,
        call: CallId,
    ) -> CallError {
        match error {
            SendError::Lost { .. } => self.process_lost_error(process, call),
            error => CallError::Transfer {
                operation: self.call_name(call),
                from: self.process_name.clone(),
                to: name.to_owned(),
                message: error.to_string(),
            },
        }
    }

    /// Sends a token to a free thread of a pool, or keeps it until a thread is free.
    pub(crate) fn send_to_any(&self, slot: usize, mut envelope: Envelope) -> Result<(), CallError> {
        envelope.claim = Some(ThreadClaim {
            claimed_by: self.me,
            slot: u32::try_from(slot).expect("a program has fewer pools"),
        });
        let origin = envelope.route.call.origin;
        let assigned = match self.balancer(origin, slot) {
            Some(balancer) => balancer.assign(envelope),
            // The attached process has left.
            None => return Ok(()),
        };
        match assigned {
            Some((thread, envelope)) => {
                let call = envelope.route.call;
                self.send(thread, call, FlowMessage::Token(envelope))
            }
            None => Ok(()),
        }
    }

    /// Returns the balancer of a pool for the calls of a process. An attached process has caller
    /// pools of its own; none if it has left.
    fn balancer(&self, origin: ProcessNumber, slot: usize) -> Option<Arc<PoolBalancer>> {
        if !origin.is_attached() || origin == self.me || !self.slots[slot].is_caller {
            return Some(self.balancers[slot].clone());
        }
        let mut balancers = self.caller_balancers.lock();
        // Under the lock, so that no balancer is added after those of the process were removed.
        if self.ended.has_left(origin) {
            return None;
        }
        let slots = &self.slots[slot];
        let balancer = balancers.entry((origin, slot)).or_insert_with(|| {
            let threads = (0..slots.size).map(|index| (slots.thread(index), 2));
            Arc::new(PoolBalancer::new(threads))
        });
        Some(balancer.clone())
    }

    /// Releases a thread of this process that has finished a token of
    /// [`send_to_any`](Self::send_to_any).
    pub(crate) fn release_thread(&self, claim: ThreadClaim, thread: ThreadNumber) {
        self.release_thread_of(self.me, claim, thread);
    }

    /// Releases a thread of any process, and sends it the next waiting token.
    pub(crate) fn release_thread_of(
        &self,
        process: ProcessNumber,
        claim: ThreadClaim,
        thread: ThreadNumber,
    ) {
        if claim.claimed_by != self.me {
            let released = FlowMessage::Control(ControlMessage::ThreadFree {
                process,
                slot: claim.slot,
                thread,
            });
            let no_call = CallId::none(self.me);
            // A lost process needs no release.
            let _ = self.send_to_coordinator(claim.claimed_by, no_call, released);
            return;
        }
        let balancer = self.balancer(process, claim.slot as usize);
        if let Some(envelope) = balancer.and_then(|balancer| balancer.thread_done(thread)) {
            let call = envelope.route.call;
            if let Err(error) = self.send(thread, call, FlowMessage::Token(envelope)) {
                self.fail(call, error);
            }
        }
    }

    /// Ends a call with its result.
    pub(crate) fn finish(&self, call: CallId, position: StepPosition, token: ErasedToken) {
        if call.origin == self.me {
            self.calls.end(call.number, Ok(token));
            return;
        }
        let token_type = self.step(position).input;
        let result = FlowMessage::Result(call, Payload::Local(token, token_type));
        if self.send_to_coordinator(call.origin, call, result).is_err() {
            self.abort_here(call);
        }
    }

    /// Fails a call: in the process that made it, and in all processes that may have its tokens.
    pub(crate) fn fail(&self, call: CallId, error: CallError) {
        if call.origin != self.me {
            self.abort_here(call);
            let failed = FlowMessage::Control(ControlMessage::Failed { call, error });
            // If the calling process is lost, no process needs the error.
            let _ = self.send_to_coordinator(call.origin, call, failed);
            return;
        }
        if self.calls.operation(call.number).is_none() {
            return;
        }
        self.abort_here(call);
        for process in 0..self.processes.len() {
            let process =
                ProcessNumber(u32::try_from(process).expect("a program has fewer processes"));
            if process != self.me && !self.is_lost(process) {
                let _ = self.send_to_coordinator(
                    process,
                    call,
                    FlowMessage::Control(ControlMessage::Abort { call }),
                );
            }
        }
        self.calls.end(call.number, Err(error));
    }

    /// Drops the tokens of a call in this process.
    pub(crate) fn abort_here(&self, call: CallId) {
        self.ended.abort(call.origin, call.number);
        self.purge();
        for thread in self.own_threads() {
            let abort = FlowMessage::Control(ControlMessage::Abort { call });
            let _ = self.send_here(thread, call, abort);
        }
    }

    /// Returns the threads of this process.
    pub(crate) fn own_threads(&self) -> impl Iterator<Item = ThreadNumber> {
        let threads = (0u32..).map(ThreadNumber).zip(&self.threads);
        threads.filter(|(_, thread)| thread.process == self.me).map(|(number, _)| number)
    }

    fn purge(&self) {
        let keep = |envelope: &Envelope| {
            let call = envelope.route.call;
            !self.ended.contains(call.origin, call.number)
        };
        self.balancers.iter().for_each(|balancer| balancer.retain(keep));
        let callers: Vec<_> = self.caller_balancers.lock().values().cloned().collect();
        callers.iter().for_each(|balancer| balancer.retain(keep));
    }

    /// Drops everything that an attached process has here: its calls, their tokens, splits and
    /// merges, and the balancers of its pools.
    pub(crate) fn forget_attached(&self, process: ProcessNumber) {
        self.ended.mark_lost(process);
        self.caller_balancers.lock().retain(|(origin, _), _| *origin != process);
        self.abort_here(CallId::none(process));
    }

    /// Marks another process as lost and fails the calls that it took part in. Returns `false` if
    /// it was already marked.
    pub(crate) fn mark_lost(&self, process: ProcessNumber) -> bool {
        if process.is_attached() {
            self.forget_attached(process);
            return true;
        }
        if !self.lost.lock().insert(process) {
            return false;
        }
        self.ended.mark_lost(process);
        self.purge();
        let involved = self.involved.lock().remove(&process).unwrap_or_default();
        for (origin, number) in involved {
            let call = CallId { origin: ProcessNumber(origin), number };
            let is_open = call.origin != self.me || self.calls.operation(number).is_some();
            if call.origin != process && is_open {
                self.fail(call, self.process_lost_error(process, call));
            }
        }
        let is_lost = |thread: ThreadNumber| self.threads[thread.0 as usize].process == process;
        for balancer in &self.balancers {
            for envelope in balancer.exclude(is_lost) {
                let call = envelope.route.call;
                self.fail(call, self.process_lost_error(process, call));
            }
        }
        let call = CallId::none(process);
        self.abort_here(call);
        true
    }

    pub(crate) fn is_lost(&self, process: ProcessNumber) -> bool {
        self.lost.lock().contains(&process)
    }

    pub(crate) fn lost_names(&self) -> Vec<String> {
        let lost = self.lost.lock();
        lost.iter().map(|process| self.processes[process.0 as usize].name.clone()).collect()
    }

    /// Returns the process of a name.
    pub(crate) fn process_named(&self, name: &str) -> Option<ProcessNumber> {
        let position = self.processes.iter().position(|process| process.name == name)?;
        u32::try_from(position).ok().map(ProcessNumber)
    }

    /// Notes that a call has sent a message to another process.
    fn involve(&self, process: ProcessNumber, call: CallId) {
        let mut involved = self.involved.lock();
        let calls = involved.entry(process).or_default();
        let is_new = calls.insert((call.origin.0, call.number));
        // Remove ended calls now and then.
        if is_new && calls.len().is_multiple_of(1024) {
            let oldest = self.calls.oldest();
            calls.retain(|(origin, number)| {
                if *origin == self.me.0 {
                    *number >= oldest
                } else {
                    !self.ended.contains(ProcessNumber(*origin), *number)
                }
            });
        }
    }

    fn process_lost_error(&self, process: ProcessNumber, call: CallId) -> CallError {
        CallError::ProcessLost {
            operation: self.call_name(call),
            process: match self.processes.get(process.0 as usize) {
                Some(process) => process.name.clone(),
                None => "that called".to_owned(),
            },
        }
    }

    /// Returns the operation of a call, or the number of a call of another process.
    fn call_name(&self, call: CallId) -> String {
        let operation = (call.origin == self.me).then(|| self.calls.operation(call.number));
        match operation.flatten() {
            Some(operation) => self.operations[operation].name.clone(),
            None => format!("of call {}", call.number),
        }
    }

    /// Returns the number of messages that the threads of this process have handled.
    pub(crate) fn messages_handled(&self) -> u64 {
        self.threads
            .iter()
            .filter_map(|thread| thread.activity.as_ref())
            .map(|activity| activity.messages_handled())
            .sum()
    }

    pub(crate) fn status(&self) -> ProcessStatus {
        let mut steps = Vec::new();
        for operation in &self.operations {
            for step in &operation.steps {
                let window = match &step.action {
                    StepAction::Split(split) => Some(split.window.to_string()),
                    _ => None,
                };
                steps.push(StepStatus {
                    operation: operation.name.clone(),
                    step: step.name.clone(),
                    tokens_in: 0,
                    tokens_out: 0,
                    busy_share: 0.0,
                    peak: 0,
                    window,
                });
            }
        }
        let process = &self.process_name;
        let counters = self.space.counters();
        let mut threads = Vec::new();
        for thread in &self.threads {
            if let Some(activity) = &thread.activity {
                let name = port_name(&self.program, &thread.name);
                let port = counters.ports.iter().find(|port| port.name == name);
                let depth = port.map_or(0, |port| port.depth);
                threads.push(activity.status(depth, &self.operations, process));
                activity.add_to(&mut steps);
            }
        }
        let unassigned = self.slots.iter().zip(&self.balancers);
        let unassigned = unassigned
            .filter(|(slot, _)| slot.is_pool)
            .map(|(slot, balancer)| (slot.name.clone(), balancer.waiting()))
            .collect();
        ProcessStatus { steps, threads, unassigned }
    }

    /// Returns the recorded spans of the threads of this process.
    pub(crate) fn trace(&self) -> Trace {
        let process = &self.process_name;
        let boards = self.threads.iter().filter_map(|thread| thread.activity.as_ref());
        let traces = boards.filter_map(|activity| {
            let recorder = activity.recorder.as_ref()?;
            Some(recorder.trace(process, &activity.name, &self.operations))
        });
        Trace::merge(traces.collect())
    }
}

impl PlacedSlot {
    pub(crate) fn thread(&self, index: usize) -> ThreadNumber {
        ThreadNumber(self.first + u32::try_from(index).expect("a pool has fewer threads"))
    }

    /// Whether a thread is one of this slot.
    pub(crate) fn contains(&self, thread: ThreadNumber) -> bool {
        thread.0.checked_sub(self.first).is_some_and(|index| (index as usize) < self.size)
    }
}

/// Returns the name of the port of a thread or a coordinator.
pub(crate) fn port_name(program: &str, owner: &str) -> String {
    format!("{program}/{owner}")
}

/// Returns the name of a coordinator as the owner of a port.
pub(crate) fn coordinator_name(process: &str) -> String {
    format!("coordinator of {process}")
}

//! Attaching: this process joins a resident program.
//!
//! The program that this process has built is translated into the numbers of the resident program.
//! Operations and threads of both keep the numbers that they have there; those that only this
//! process has come after them. Caller threads, and threads that only this process has, run here.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use pario_net::{
    Address, ConnectError, Credit, InputPort, OutputPort, PortOptions, Space, SpaceError,
};

use super::attach_messages::{AttachReply, AttachRequest, ENTRANCE, ResidentOperation};
use super::attached::GuestMessage;
use super::construct_stack::{ConstructKind, ConstructStack};
use super::coordinator::{FIRST, ProcessCoordinator, ReportRequests};
use super::entrance::entrance_path;
use super::ids::{CallId, StepPosition, ThreadNumber};
use super::launch::{ThreadStart, open_port, start_threads, thread_error};
use super::locality::LocalityCheck;
use super::message::{ControlMessage, Envelope, FlowMessage, Payload, RouteTo, TokenRoute};
use super::process_runtime::{
    PlacedProcess, PlacedSlot, PlacedThread, ProcessRuntime, coordinator_name,
};
use super::running_program::RunningProgram;
use crate::attaching::ResidentAddress;
use crate::error::{AttachError, CallError};
use crate::graph::{GraphShape, OperationGraph};
use crate::program::{Program, SlotDeclaration};
use crate::schedule::{Schedule, StepAction};
use crate::token::{ErasedToken, TokenType};

/// How long a resident program may take to answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

impl Program {
    /// Attaches this process to a resident program of the same name, which another process has
    /// launched after [`allow_attach`](Self::allow_attach).
    ///
    /// This process declares the threads and operations that it shares with the resident program,
    /// best by the same code. It may leave operations out, and it may add threads and operations of
    /// its own. Threads of the resident program run there; [caller
    /// threads](Self::caller_thread) and threads of its own run in this process. An operation of
    /// its own may use operations of the resident program as steps. Fails if an operation of the
    /// same name differs.
    ///
    /// Dropping the running program leaves. If the resident program is lost, calls fail.
    pub fn attach(self, to: &ResidentAddress) -> Result<RunningProgram, AttachError> {
        let (connection, reply) = Connection::open(&self, to)?;
        let mut translation = Translation::new(&self, &reply)?;
        let max_calls = self.max_calls;
        let numbers = translation.operations.clone();
        let operations = translation.translate_operations(self.operations, &reply)?;
        let process_name = format!("attached process {}", std::process::id());
        let local = Space::alone(&process_name);
        let placed = translation.place(&self.name, self.slots, &reply, &operations, &local)?;
        let (slots, threads, starts) = placed;
        let process = |name: &String| PlacedProcess { name: name.clone(), port: OnceLock::new() };
        let processes: Vec<PlacedProcess> = reply.processes.iter().map(process).collect();
        LocalityCheck {
            operations: &operations,
            slots: &slots,
            threads: &threads,
            processes: &processes,
            caller: reply.process,
        }
        .run()?;
        let Connection { space, port, entrance } = connection;
        let runtime = Arc::new(ProcessRuntime::new(
            self.name,
            operations,
            slots,
            threads,
            processes,
            reply.process,
            process_name,
            port.output(),
            local,
            Some(entrance),
            max_calls,
        ));
        let workers = start_threads(&runtime, starts)?;
        let report_requests = Arc::new(ReportRequests::default());
        let coordinator = ProcessCoordinator::new(runtime.clone(), port, report_requests.clone());
        let coordinator = thread::Builder::new()
            .name("coordinator".into())
            .spawn(move || coordinator.run())
            .map_err(|error| thread_error("coordinator", &error.to_string()))?;
        Ok(RunningProgram {
            runtime,
            report_requests,
            coordinator: Some(coordinator),
            workers,
            children: Vec::new(),
            entrance: None,
            attachment: Some((space, numbers)),
            trace_to: None,
        })
    }
}

/// The connection to a resident program.
struct Connection {
    space: Space,
    /// The port of this process' coordinator, to which the resident program sends.
    port: InputPort<FlowMessage>,
    entrance: OutputPort<GuestMessage>,
}

impl Connection {
    /// Connects, and asks to attach.
    fn open(program: &Program, to: &ResidentAddress) -> Result<(Self, AttachReply), AttachError> {
        let name = || program.name.clone();
        let (address, key, place) = match to {
            ResidentAddress::ThisMachine => {
                let path = entrance_path(&program.name).map_err(|error| AttachError::NotFound {
                    program: name(),
                    place: "the runtime directory of this user".to_owned(),
                    message: error.to_string(),
                })?;
                let place = format!("unix={}", path.display());
                (Address::unix(path), None, place)
            }
            ResidentAddress::Tcp(address, key) => {
                (Address::tcp(*address), Some(key.clone()), format!("tcp={address}"))
            }
        };
        let refused = |message: String| AttachError::Refused {
            program: name(),
            place: place.clone(),
            message,
        };
        // The names of spaces that join one directory differ.
        static ATTACHMENTS: AtomicU64 = AtomicU64::new(0);
        let number = ATTACHMENTS.fetch_add(1, Ordering::Relaxed);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let own = format!("{number} of process {} on {host}", std::process::id());
        let own: String = own.chars().take(60).collect();
        let mut builder = Space::builder(&own).listen_nowhere().join(&address);
        if let Some(key) = key {
            builder = builder.key(key);
        }
        let space = builder.build().map_err(|error| match error {
            SpaceError::Join { error: ConnectError::Unreachable { error, .. }, .. } => {
                AttachError::NotFound {
                    program: name(),
                    place: place.clone(),
                    message: error.to_string(),
                }
            }
            SpaceError::Join { error, .. } => refused(error.to_string()),
            error => refused(error.to_string()),
        })?;
        let options = PortOptions { credit_bytes: Credit::Unlimited };
        let port = space
            .input_with::<FlowMessage>(&coordinator_name(&own), options)
            .map_err(|error| refused(error.to_string()))?;
        let entrance = space
            .output::<GuestMessage>(ENTRANCE, REPLY_TIMEOUT)
            .map_err(|error| refused(error.to_string()))?;
        let lost = || refused("it closed the connection".to_owned());
        let reply_channel = port.open_reply_channel(&entrance).ok_or_else(lost)?;
        let fingerprints = program.operation_fingerprints();
        let names = program.operations.iter().map(|operation| operation.name.clone());
        let request = AttachRequest {
            program: name(),
            operations: names.zip(fingerprints).collect(),
            slots: program.slots.iter().map(|slot| slot.name.clone()).collect(),
        };
        let attach = FlowMessage::Control(ControlMessage::Attach { reply_channel, request });
        entrance.send(GuestMessage::new(attach)).map_err(|error| refused(error.to_string()))?;
        entrance.flush();
        let deadline = Instant::now() + REPLY_TIMEOUT;
        let reply = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match port.recv_timeout(left) {
                Ok(FlowMessage::Control(ControlMessage::Attached(reply))) => {
                    break reply.map_err(refused)?;
                }
                Ok(_) => {}
                Err(error) => return Err(refused(error.to_string())),
            }
        };
        Ok((Self { space, port, entrance }, reply))
    }
}

/// The numbers of a program of this process in the resident program.
struct Translation {
    /// The number of each operation.
    operations: Vec<usize>,
    /// The number of each slot.
    slots: Vec<usize>,
    /// The slots whose threads run in this process.
    own_slots: HashSet<usize>,
    /// The names of the slots.
    slot_names: Vec<String>,
    program: String,
}

/// The slots and threads of both programs, and the threads to start here.
type PlacedHere = (Vec<PlacedSlot>, Vec<PlacedThread>, Vec<ThreadStart>);

impl Translation {
    fn new(program: &Program, reply: &AttachReply) -> Result<Self, AttachError> {
        let mut own_operations = reply.operation_count as usize..;
        let mut operations = Vec::new();
        for (operation, known) in program.operations.iter().zip(&reply.operations) {
            operations.push(match known {
                ResidentOperation::Same(number) => *number as usize,
                ResidentOperation::Unknown => own_operations.next().unwrap_or(usize::MAX),
                ResidentOperation::Differs => {
                    return Err(AttachError::OtherOperation {
                        operation: operation.name.clone(),
                        program: program.name.clone(),
                    });
                }
            });
        }
        let mut next_slots = reply.slot_count as usize..;
        let (mut slots, mut own_slots) = (Vec::new(), HashSet::new());
        for (slot, known) in program.slots.iter().zip(&reply.slots) {
            let number = match known {
                Some(known) => {
                    let there = kind(known.is_pool, known.is_caller);
                    let here = kind(slot.pool.is_some(), slot.is_caller);
                    let is_caller_size = slot.pool.unwrap_or(1) == known.processes.len();
                    if here != there || (slot.is_caller && !is_caller_size) {
                        return Err(AttachError::OtherThread {
                            thread: slot.name.clone(),
                            here,
                            there,
                            program: program.name.clone(),
                        });
                    }
                    known.number as usize
                }
                None => next_slots.next().unwrap_or(usize::MAX),
            };
            if slot.is_caller || known.is_none() {
                own_slots.insert(number);
            }
            slots.push(number);
        }
        let slot_names = program.slots.iter().map(|slot| slot.name.clone()).collect();
        Ok(Self { operations, slots, own_slots, slot_names, program: program.name.clone() })
    }

    /// Returns the operations under their numbers in the resident program. An operation that this
    /// process does not have has no steps.
    fn translate_operations(
        &mut self,
        operations: Vec<Arc<Schedule>>,
        reply: &AttachReply,
    ) -> Result<Vec<Arc<Schedule>>, AttachError> {
        let count = self.operations.iter().map(|number| number + 1).max().unwrap_or(0);
        let count = count.max(reply.operation_count as usize);
        let mut translated: Vec<Arc<Schedule>> =
            (0..count).map(|_| Arc::new(unknown_operation())).collect();
        for (operation, number) in operations.into_iter().zip(self.operations.clone()) {
            let Some(mut operation) = Arc::into_inner(operation) else {
                unreachable!("a program that is not launched has its schedules alone")
            };
            if number >= reply.operation_count as usize {
                self.check_own(&operation)?;
            }
            for step in &mut operation.steps {
                match &mut step.action {
                    StepAction::Hop(selection) => selection.slot = self.slots[selection.slot],
                    StepAction::Split(split) => {
                        split.merge_selection.slot = self.slots[split.merge_selection.slot];
                    }
                    StepAction::Call(inner) => *inner = self.operations[*inner],
                    _ => {}
                }
            }
            translated[number] = Arc::new(operation);
        }
        Ok(translated)
    }

    /// Checks that this process can run all steps of an operation that only it has.
    fn check_own(&self, operation: &Schedule) -> Result<(), AttachError> {
        for step in &operation.steps {
            let slot = match &step.action {
                StepAction::Hop(selection) => selection.slot,
                StepAction::Split(split) => split.merge_selection.slot,
                _ => continue,
            };
            if !self.own_slots.contains(&self.slots[slot]) {
                return Err(AttachError::NotOwnThread {
                    operation: operation.name.clone(),
                    step: step.name.clone(),
                    thread: self.slot_names[slot].clone(),
                    program: self.program.clone(),
                });
            }
        }
        // Until the first hop, no thread of this process has the token.
        let mut steps = operation.steps.iter();
        let first = steps.find(|step| !matches!(step.action, StepAction::Call(_)));
        match first {
            Some(step) if !matches!(step.action, StepAction::Hop(_) | StepAction::Return) => {
                Err(AttachError::ThreadNotNamed {
                    operation: operation.name.clone(),
                    step: step.name.clone(),
                    program: self.program.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Makes the slots and threads under their numbers in the resident program.
    fn place(
        &self,
        program: &str,
        declared: Vec<SlotDeclaration>,
        reply: &AttachReply,
        operations: &[Arc<Schedule>],
        space: &Space,
    ) -> Result<PlacedHere, AttachError> {
        let slot_count = self.slots.iter().map(|number| number + 1).max().unwrap_or(0);
        let slot_count = slot_count.max(reply.slot_count as usize);
        let mut slots: Vec<PlacedSlot> = (0..slot_count).map(|_| unknown_slot()).collect();
        let mut threads: Vec<PlacedThread> =
            (0..reply.thread_count).map(|_| unknown_thread(program)).collect();
        let mut starts = Vec::new();
        for ((slot, number), known) in declared.into_iter().zip(&self.slots).zip(&reply.slots) {
            let is_own = self.own_slots.contains(number);
            let size = match known {
                Some(known) => known.processes.len(),
                None => slot.pool.unwrap_or(1),
            };
            let first = known.as_ref().map_or(threads.len(), |known| known.first as usize);
            for index in 0..size {
                let name = match slot.pool {
                    Some(_) => format!("{}[{index}]", slot.name),
                    None => slot.name.clone(),
                };
                let home = known.as_ref().map_or(FIRST, |known| known.processes[index]);
                let mut thread = PlacedThread {
                    name: name.clone(),
                    process: if is_own { reply.process } else { home },
                    is_caller: slot.is_caller,
                    port: OnceLock::new(),
                    activity: None,
                };
                let number = first + index;
                if is_own {
                    let port = open_port(space, program, &name)?;
                    let number = ThreadNumber(u32::try_from(number).unwrap_or(u32::MAX));
                    let make = slot.make.clone();
                    let at = (number, index);
                    starts.push(ThreadStart::new(&mut thread, at, make, port, operations, None));
                }
                match threads.get_mut(number) {
                    Some(known) => *known = thread,
                    None => threads.push(thread),
                }
            }
            slots[*number] = PlacedSlot {
                name: slot.name,
                first: u32::try_from(first).unwrap_or(u32::MAX),
                size,
                is_pool: slot.pool.is_some(),
                is_caller: slot.is_caller,
            };
        }
        Ok((slots, threads, starts))
    }
}

fn kind(is_pool: bool, is_caller: bool) -> &'static str {
    match (is_pool, is_caller) {
        (false, false) => "a thread",
        (true, false) => "a pool",
        (false, true) => "a caller thread",
        (true, true) => "a caller pool of this size",
    }
}

/// An operation of the resident program that this process does not have.
fn unknown_operation() -> Schedule {
    let name = "an operation of the resident program".to_owned();
    let (input, output) = (String::new(), String::new());
    let body = GraphShape::Sequence(Vec::new());
    let graph = OperationGraph { name: name.clone(), input, output, body };
    Schedule { name, steps: Vec::new(), output: TokenType::of::<()>(), graph }
}

fn unknown_slot() -> PlacedSlot {
    let name = "a thread of the resident program".to_owned();
    PlacedSlot { name, first: 0, size: 0, is_pool: false, is_caller: false }
}

fn unknown_thread(program: &str) -> PlacedThread {
    PlacedThread {
        name: format!("a thread of program {program}"),
        process: FIRST,
        is_caller: false,
        port: OnceLock::new(),
        activity: None,
    }
}

impl ProcessRuntime {
    /// Passes a routed message on: to a thread of this process, or to an attached process.
    pub(crate) fn pass_on(&self, to: RouteTo, message: FlowMessage) {
        let call = message.call().unwrap_or(CallId::none(to.process));
        let sent = match to.thread {
            Some(thread) if to.process == self.me => self.send_here(thread, call, message),
            Some(thread) => self.send(thread, call, message),
            None => self.send_to_coordinator(to.process, call, message),
        };
        if let Err(error) = sent {
            self.fail(call, error);
        }
    }

    /// Ends all calls of this attached process, because the resident program is lost.
    pub(crate) fn lose_program(&self) {
        if self.entrance.is_some() {
            self.calls.stop(&CallError::ProgramLost { program: self.program.clone() });
            self.forget_attached(self.me);
        }
    }

    /// Continues a token that returns from an operation of the resident program into an operation
    /// that only this process has: at the next hop or merge, or on the thread that had the token.
    pub(crate) fn continue_token(&self, envelope: Envelope) {
        let call = envelope.route.call;
        if self.ended.contains(call.origin, call.number) {
            return;
        }
        if let Err(error) = self.continue_on_thread(envelope) {
            self.fail(call, error);
        }
    }

    fn continue_on_thread(&self, envelope: Envelope) -> Result<(), CallError> {
        let Envelope { mut route, mut stack, payload, .. } = envelope;
        let call = route.call;
        let token = payload.decode(self.step(route.position).input).map_err(|error| {
            CallError::Transfer {
                operation: self.operation_name(route.position),
                from: format!("program {}", self.program),
                to: self.process_name.clone(),
                message: error.to_string(),
            }
        })?;
        let mut had_token = None;
        loop {
            match &self.step(route.position).action {
                StepAction::Return => {
                    let Some(frame) = stack.top() else {
                        self.finish(call, route.position, token);
                        return Ok(());
                    };
                    let ConstructKind::Call { back, from } = frame.kind else {
                        unreachable!("the frame of a returning operation is a call")
                    };
                    had_token = from;
                    route.position = back;
                    stack = frame.outer.clone();
                }
                StepAction::Call(inner) => {
                    let back = route.position.next();
                    stack = stack.push(ConstructKind::Call { back, from: had_token });
                    route.position = StepPosition::new(*inner, 0);
                }
                StepAction::Hop(selection) => {
                    let at = route.position;
                    let target = self.resolve_caught(selection, &token, &stack, at)?;
                    route.position = at.next();
                    let envelope = self.wrap(route, stack, token);
                    return match target {
                        Some(thread) => self.send(thread, call, FlowMessage::Token(envelope)),
                        None => self.send_to_any(selection.slot, envelope),
                    };
                }
                StepAction::Merge(_) => {
                    let merge_at = stack.split().map(|split| split.merge_at);
                    let thread = merge_at.expect("a merge is inside its split");
                    let envelope = self.wrap(route, stack, token);
                    return self.send(thread, call, FlowMessage::Token(envelope));
                }
                _ => {
                    let thread = had_token.expect("the attaching process has checked this");
                    let envelope = self.wrap(route, stack, token);
                    return self.send(thread, call, FlowMessage::Token(envelope));
                }
            }
        }
    }

    fn wrap(&self, route: TokenRoute, stack: ConstructStack, token: ErasedToken) -> Envelope {
        let token_type = self.step(route.position).input;
        Envelope::now(route, stack, Payload::Local(token, token_type))
    }
}

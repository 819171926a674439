//! The entrance of a resident program: the thread that receives from attached processes.
//!
//! Attached processes reach the program only here, in an address space of its own. The entrance
//! knows which process sent a message, checks it, and passes it on to a thread or a coordinator.
//! Messages to an attached process leave from the thread that sends them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::{
    Credit, InputPort, PortOptions, PrivateListener, RecvError, ReplyRoute, Space, SpaceError,
    SpaceId, User,
};

use super::attach_messages::{
    AttachReply, AttachRequest, ENTRANCE, ResidentOperation, ResidentSlot,
};
use super::attached::{AttachedProcess, GuestMessage};
use super::coordinator::FIRST;
use super::guest_check::GuestCheck;
use super::ids::{CallId, ProcessNumber};
use super::message::{ControlMessage, FlowMessage, Payload, RouteTo};
use super::process_runtime::ProcessRuntime;
use crate::attaching::AttachOptions;
use crate::error::{CallError, LaunchError};

/// Bytes of each attached process that may wait at the entrance.
const CREDIT_BYTES: usize = 16 << 20;
/// Interval at which refusals are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Refusals that are logged one by one in an interval.
const LOGGED_AT_ONCE: usize = 8;
/// How long a start waits to learn which process has the name of the program.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The address space of an entrance, before the program runs.
pub(crate) struct OpenEntrance {
    pub(crate) space: Space,
    port: InputPort<GuestMessage>,
    options: AttachOptions,
}

/// Returns the path of the socket at which a resident program of this user listens.
pub(crate) fn entrance_path(program: &str) -> std::io::Result<std::path::PathBuf> {
    PrivateListener::rendezvous_path("flow", &format!("resident\0{program}"))
}

impl OpenEntrance {
    /// Listens. Fails if another process of this user runs a program of this name.
    pub(crate) fn open(program: &str, options: AttachOptions) -> Result<Self, LaunchError> {
        let failed =
            |message: String| LaunchError::Entrance { program: program.to_owned(), message };
        let path = entrance_path(program).map_err(|error| failed(error.to_string()))?;
        let mut builder = Space::builder("entrance").listen_unix(&path).host();
        if let Some((address, key)) = &options.tcp {
            builder = builder.listen_tcp(*address).key(key.clone());
        }
        let space = builder.build().map_err(|error| match &error {
            SpaceError::Listen { error: system, .. }
                if system.kind() == std::io::ErrorKind::AddrInUse
                    && pario_net::connect_unix(&path, Instant::now()).is_ok() =>
            {
                LaunchError::NameInUse {
                    program: program.to_owned(),
                    process: std::process::id(),
                    other: listening_process(&path),
                    path: path.display().to_string(),
                }
            }
            _ => failed(error.to_string()),
        })?;
        let credit = PortOptions { credit_bytes: Credit::Bytes(CREDIT_BYTES) };
        let port = space.input_with(ENTRANCE, credit).map_err(|error| failed(error.to_string()))?;
        Ok(Self { space, port, options })
    }

    /// Makes the entrance of a program.
    pub(crate) fn serve(self, runtime: Arc<ProcessRuntime>, fingerprints: Vec<u64>) -> Entrance {
        Entrance {
            runtime,
            space: self.space,
            port: self.port,
            limit: self.options.limit,
            fingerprints,
            guests: HashMap::new(),
            next: ProcessNumber::FIRST_ATTACHED.0,
            logged: Duration::ZERO,
            log_at: Instant::now(),
        }
    }
}

/// Describes the process that listens on a socket.
fn listening_process(path: &std::path::Path) -> String {
    let stream = pario_net::connect_unix(path, Instant::now() + PROBE_TIMEOUT);
    match stream.and_then(User::of_peer) {
        Ok(User { pid, .. }) if pid != 0 => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}

pub(crate) struct Entrance {
    runtime: Arc<ProcessRuntime>,
    space: Space,
    port: InputPort<GuestMessage>,
    /// The limit of attached processes.
    limit: usize,
    /// The fingerprint of each operation.
    fingerprints: Vec<u64>,
    guests: HashMap<SpaceId, ProcessNumber>,
    /// The number of the next process that attaches.
    next: u32,
    /// The time of the last refusal that was logged, since the space was made.
    logged: Duration,
    log_at: Instant,
}

impl Entrance {
    /// Serves until the space is closed.
    pub(crate) fn run(mut self) {
        loop {
            match self.port.recv_with_reply_route(LOG_INTERVAL) {
                Ok((message, route)) => self.handle(message, &route),
                Err(RecvError::Lost { space, .. }) => self.remove(space),
                Err(RecvError::Closed { .. }) => {
                    self.log_refusals();
                    return;
                }
                Err(_) => {}
            }
            if self.log_at.elapsed() >= LOG_INTERVAL {
                self.log_refusals();
            }
        }
    }

    fn handle(&mut self, message: GuestMessage, route: &ReplyRoute) {
        let space = route.sender().space;
        let message = match message.0 {
            Ok(message) => message,
            Err(reason) => return route.cut_off(&format!("it sent no message: {reason}")),
        };
        match (self.guests.get(&space).copied(), message) {
            (None, FlowMessage::Control(ControlMessage::Attach { reply_channel, request })) => {
                self.attach(route, reply_channel, &request);
            }
            (None, _) => route.cut_off("it sent a message before it was attached"),
            (Some(sender), FlowMessage::Routed(to, message)) => {
                match (GuestCheck { runtime: &self.runtime, sender }).check(to, &message) {
                    Ok(()) => self.pass_on(sender, to, *message),
                    Err(reason) => route.cut_off(&reason),
                }
            }
            (Some(_), _) => route.cut_off("it sent a message that no attached process sends"),
        }
    }

    /// Attaches a process, or tells it why not.
    fn attach(&mut self, route: &ReplyRoute, reply_channel: u32, request: &AttachRequest) {
        let Some(port) = route.output::<FlowMessage>(reply_channel) else { return };
        let reply = self.admit(request);
        let sender = route.sender();
        let name = match &sender.user {
            Some(user) => format!("process {}", user.pid),
            None => format!("{:?}", sender.name),
        };
        let program = &self.runtime.program;
        match &reply {
            Ok(reply) => {
                tracing::debug!(program, "{name} has attached");
                self.guests.insert(sender.space, reply.process);
                self.runtime.attached.add(reply.process, AttachedProcess::new(name, port.clone()));
            }
            Err(reason) => tracing::warn!(program, "{name} may not attach: {reason}"),
        }
        // A process that is lost now is removed when its loss arrives.
        let _ = port.send(FlowMessage::Control(ControlMessage::Attached(reply)));
        port.flush();
    }

    /// Returns the numbers that a process needs, or the reason why it cannot attach.
    fn admit(&mut self, request: &AttachRequest) -> Result<AttachReply, String> {
        let runtime = &self.runtime;
        if request.program != runtime.program {
            return Err(format!("this is program {:?}", runtime.program));
        }
        if self.guests.len() >= self.limit {
            let limit = self.limit;
            return Err(format!("{limit} processes are attached, and that is the limit"));
        }
        let process = ProcessNumber(self.next);
        self.next = self.next.checked_add(1).ok_or("all numbers of processes are used")?;
        let operation = |(name, fingerprint): &(String, u64)| {
            let number = runtime.operations.iter().position(|known| known.name == *name);
            match number {
                None => ResidentOperation::Unknown,
                Some(number) if self.fingerprints[number] == *fingerprint => {
                    ResidentOperation::Same(count(number))
                }
                Some(_) => ResidentOperation::Differs,
            }
        };
        let slot = |name: &String| {
            let number = runtime.slots.iter().position(|slot| slot.name == *name)?;
            let slot = &runtime.slots[number];
            let threads = (0..slot.size).map(|index| slot.thread(index));
            let home =
                |thread: super::ids::ThreadNumber| runtime.threads[thread.0 as usize].process;
            Some(ResidentSlot {
                number: count(number),
                first: slot.first,
                is_pool: slot.is_pool,
                is_caller: slot.is_caller,
                processes: threads.map(home).collect(),
            })
        };
        Ok(AttachReply {
            process,
            processes: runtime.processes.iter().map(|process| process.name.clone()).collect(),
            operations: request.operations.iter().map(operation).collect(),
            operation_count: count(runtime.operations.len()),
            slots: request.slots.iter().map(slot).collect(),
            slot_count: count(runtime.slots.len()),
            thread_count: count(runtime.threads.len()),
        })
    }

    /// Passes a checked message on. If too much of the process waits, its call fails.
    fn pass_on(&self, sender: ProcessNumber, to: RouteTo, mut message: FlowMessage) {
        let runtime = &self.runtime;
        let call = message.call().unwrap_or(CallId::none(sender));
        if let FlowMessage::Token(super::message::Envelope { payload, .. })
        | FlowMessage::MergeBegin(_, payload) = &mut message
            && let Some(process) = runtime.attached.get(sender)
        {
            let share = process.queue(payload.received_bytes());
            match (share, payload) {
                (Ok(share), Payload::Received { queued, .. }) => *queued = Some(share),
                (Ok(_), Payload::Local(..)) => {}
                (Err(reason), _) => {
                    let error = CallError::Transfer {
                        operation: format!("call {}", call.number),
                        from: process.name.clone(),
                        to: format!("program {}", runtime.program),
                        message: reason,
                    };
                    return runtime.fail(call, error);
                }
            }
        }
        let sent = match to.thread {
            Some(thread) => runtime.send(thread, call, message),
            None => runtime.send_to_coordinator(to.process, call, message),
        };
        if let Err(error) = sent {
            runtime.fail(call, error);
        }
    }

    /// Removes a process with everything that it has in the program.
    fn remove(&mut self, space: SpaceId) {
        let Some(number) = self.guests.remove(&space) else { return };
        let runtime = &self.runtime;
        if let Some(process) = runtime.attached.remove(number) {
            tracing::debug!(program = runtime.program, "{} has left or was lost", process.name);
        }
        // The coordinator ends its calls, and tells the other processes.
        let lost = FlowMessage::Control(ControlMessage::ProcessLost { process: number });
        // Sending fails only if the program ends.
        let _ = runtime.send_to_coordinator(FIRST, CallId::none(FIRST), lost);
    }

    /// Logs the connections that were refused or cut off since the last time.
    fn log_refusals(&mut self) {
        self.log_at = Instant::now();
        let mut refusals = self.space.refusals();
        refusals.retain(|refusal| refusal.at > self.logged);
        let Some(last) = refusals.last() else { return };
        self.logged = last.at;
        let program = &self.runtime.program;
        for refusal in refusals.iter().take(LOGGED_AT_ONCE) {
            tracing::warn!(program, "refused {}: {}", refusal.peer, refusal.reason);
        }
        if let Some(more @ 1..) = refusals.len().checked_sub(LOGGED_AT_ONCE) {
            tracing::warn!(program, "refused {more} more connections in the same second");
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).expect("a program has fewer parts")
}

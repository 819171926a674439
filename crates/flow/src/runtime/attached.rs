//! The attached processes of a resident program, as its first process sees them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pario_net::{DecodeError, EncodeError, Incoming, Outgoing, OutputPort, SendError};
use parking_lot::RwLock;

use super::ids::ProcessNumber;
use super::message::{FlowMessage, RouteTo};

/// Bytes that may wait for an attached process that does not read.
const BACKLOG_LIMIT_BYTES: usize = 64 << 20;
/// Bytes of one attached process that may wait for the threads of the program.
const QUEUED_LIMIT_BYTES: u64 = 256 << 20;
/// What a queued message costs besides the bytes of its token.
const MESSAGE_COST_BYTES: u64 = 512;

/// The attached processes, by number.
#[derive(Default)]
pub(crate) struct AttachedProcesses {
    table: RwLock<HashMap<ProcessNumber, Arc<AttachedProcess>>>,
}

/// An attached process.
pub(crate) struct AttachedProcess {
    /// The name in messages, such as `process 4711`.
    pub(crate) name: String,
    pub(crate) port: OutputPort<FlowMessage>,
    queued_bytes: Arc<AtomicU64>,
}

/// The share of a message in the limit of its process, until a thread has handled the message, or
/// has ended the merge that keeps it.
pub(crate) struct QueuedShare {
    queued_bytes: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for QueuedShare {
    fn drop(&mut self) {
        self.queued_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl AttachedProcess {
    pub(crate) fn new(name: String, port: OutputPort<FlowMessage>) -> Self {
        Self { name, port, queued_bytes: Arc::default() }
    }

    /// Returns the share of a message; fails with the reason if too much waits already.
    pub(crate) fn queue(&self, token_bytes: u64) -> Result<QueuedShare, String> {
        let bytes = token_bytes + MESSAGE_COST_BYTES;
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let share = QueuedShare { queued_bytes: self.queued_bytes.clone(), bytes };
        if before > QUEUED_LIMIT_BYTES {
            return Err(format!(
                "more than {} MiB of this process wait for the threads of the program; \
                 start fewer calls at once",
                QUEUED_LIMIT_BYTES >> 20
            ));
        }
        Ok(share)
    }
}

impl AttachedProcesses {
    pub(crate) fn add(&self, number: ProcessNumber, process: AttachedProcess) {
        self.table.write().insert(number, Arc::new(process));
    }

    pub(crate) fn remove(&self, number: ProcessNumber) -> Option<Arc<AttachedProcess>> {
        self.table.write().remove(&number)
    }

    pub(crate) fn get(&self, number: ProcessNumber) -> Option<Arc<AttachedProcess>> {
        self.table.read().get(&number).cloned()
    }

    /// Returns the names of the attached processes in the order in which they came.
    pub(crate) fn names(&self) -> Vec<String> {
        let table = self.table.read();
        let mut processes: Vec<_> = table.iter().collect();
        processes.sort_by_key(|(number, _)| **number);
        processes.into_iter().map(|(_, process)| process.name.clone()).collect()
    }

    /// Sends a message to an attached process; never waits. The error is a reason, or none if the
    /// process is lost. A process that does not read what waits for it is cut off.
    pub(crate) fn send(&self, to: RouteTo, message: FlowMessage) -> Result<(), Option<String>> {
        let process = self.get(to.process).ok_or(None)?;
        let waiting = process.port.queued_bytes();
        if waiting > BACKLOG_LIMIT_BYTES {
            process.port.cut_off(&format!("it does not read: {waiting} bytes wait for it"));
            return Err(None);
        }
        let is_for_coordinator = to.thread.is_none();
        let message = match to.thread {
            Some(_) => FlowMessage::Routed(to, Box::new(message)),
            None => message,
        };
        process.port.send(message).map_err(|error| match error {
            SendError::Lost { .. } | SendError::Closed { .. } => None,
            error => Some(error.to_string()),
        })?;
        if is_for_coordinator {
            process.port.flush();
        }
        Ok(())
    }
}

/// A message of a process that attaches or is attached; an error if its bytes are none. Decoding
/// never fails, so that the receiver learns which process sent it.
pub(crate) struct GuestMessage(pub(crate) Result<FlowMessage, String>);

impl GuestMessage {
    pub(crate) fn new(message: FlowMessage) -> Self {
        Self(Ok(message))
    }
}

impl pario_net::Token for GuestMessage {
    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        self.0.map_err(EncodeError::Other)?.encode(out)
    }

    fn decode(incoming: Incoming<'_>) -> Result<Self, DecodeError> {
        Ok(Self(FlowMessage::decode(incoming).map_err(|error| error.to_string())))
    }
}

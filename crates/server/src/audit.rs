//! The audit log of a node: refusals, administration, and changes of rights, one JSON object per
//! line, in `audit.log` of the data directory.
//!
//! Invariants:
//! - Request handling never waits for the log: events pass through a bounded queue to one thread,
//!   and the next line counts the events that found the queue full.
//! - The log has two files of at most [`FILE_LIMIT_BYTES`] each.
//! - A flood of refusals writes one line per second for each user and reason, with their number.

mod log_file;
mod rate_limiter;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pario_net::Refusal;
use pario_proto::{Failure, FilePath, FileRecord};
use parking_lot::Mutex;
use serde::Serialize;

pub use log_file::FILE_LIMIT_BYTES;

use log_file::LogFile;
use rate_limiter::RateLimiter;

use crate::namespace::WallClock;

/// The most events in the queue.
const QUEUE_LIMIT: usize = 1024;
/// The interval at which the thread looks at delayed events.
const TICK: Duration = Duration::from_secs(1);
/// The longest text of a field, in characters.
const TEXT_LIMIT: usize = 300;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditKind {
    /// The node has refused a connection or a request.
    Refused,
    /// An act of administration: stop, reset, check, join.
    Administration,
    /// A change of owner, group or mode.
    Rights,
}

/// An event for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The kind.
    pub kind: AuditKind,
    /// The reason; events of a user with the same reason are counted together.
    pub reason: &'static str,
    /// The user, if known.
    pub uid: Option<u32>,
    /// The name of the client.
    pub client: String,
    /// The file or the action.
    pub object: String,
    /// The outcome.
    pub outcome: String,
}

/// The audit log of a node.
#[derive(Debug, Default)]
pub struct AuditLog {
    queue: Option<SyncSender<WriterMessage>>,
    /// Events that found the queue full.
    lost: Arc<AtomicU64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

enum WriterMessage {
    Event(AuditEvent),
    End,
}

/// A line of the log.
#[derive(Serialize)]
struct AuditLine<'a> {
    time: String,
    node: &'a str,
    kind: AuditKind,
    user: Option<u32>,
    client: &'a str,
    object: &'a str,
    outcome: &'a str,
    /// The number of such events since the last line of their kind.
    count: u64,
    /// The number of lost events since the last line.
    #[serde(skip_serializing_if = "is_zero")]
    lost: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl AuditLog {
    /// Opens the log of a node in its data directory, and starts the writer thread. The lines carry the
    /// time of `clock`.
    pub fn open(data: &Path, node: &str, clock: WallClock) -> io::Result<Self> {
        let file = LogFile::open(&data.join("audit.log"), FILE_LIMIT_BYTES)?;
        let (queue, events) = sync_channel(QUEUE_LIMIT);
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = AuditWriter { node: node.to_owned(), file, lost: lost.clone(), clock };
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || writer.run(&events))?;
        Ok(Self { queue: Some(queue), lost, writer: Mutex::new(Some(thread)) })
    }

    /// Returns a log that drops all events.
    pub fn off() -> Self {
        Self::default()
    }

    /// Queues an event, or counts it as lost; never waits.
    pub fn note(&self, event: AuditEvent) {
        let Some(queue) = &self.queue else { return };
        if queue.try_send(WriterMessage::Event(event)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records a failure that is a refusal; ignores others.
    pub fn note_failure(&self, uid: Option<u32>, client: &str, failure: &Failure) {
        if self.queue.is_none() {
            return;
        }
        let (reason, object) = match failure {
            Failure::Denied { path, .. } => ("permission", path.to_string()),
            Failure::ModuleDenied { operation, .. } => {
                ("permission", format!("operation {operation}"))
            }
            Failure::NotAdministrator { action, .. } => ("administrator", action.clone()),
            Failure::BadGrant { file, .. } => ("bad grant", format!("file {file}")),
            Failure::Revoked { file } => ("revoked", format!("file {file}")),
            Failure::Version { .. } => ("version", String::new()),
            Failure::Refused { .. } => ("refused", String::new()),
            _ => return,
        };
        self.note(AuditEvent {
            kind: AuditKind::Refused,
            reason,
            uid,
            client: client.to_owned(),
            object,
            outcome: failure.to_string(),
        });
    }

    /// Records an act of administration with its outcome.
    pub fn note_administration<T>(
        &self,
        (uid, client): (u32, &str),
        object: String,
        result: &Result<T, Failure>,
    ) {
        let outcome = match result {
            Ok(_) => "done".to_owned(),
            Err(Failure::NotAdministrator { .. } | Failure::Refused { .. }) => return,
            Err(failure) => failure.to_string(),
        };
        let (kind, client) = (AuditKind::Administration, client.to_owned());
        let uid = Some(uid);
        self.note(AuditEvent { kind, reason: "administration", uid, client, object, outcome });
    }

    /// Records a change of owner, group or mode.
    pub fn note_rights(
        &self,
        (uid, client): (u32, &str),
        path: &FilePath,
        before: &FileRecord,
        after: &FileRecord,
    ) {
        let shown = |record: &FileRecord| {
            let FileRecord { uid, gid, mode, .. } = record;
            let sticky = if mode & 0o1000 == 0 { "" } else { ", sticky" };
            format!("owner {uid}, group {gid}, mode {mode:04o}{sticky}")
        };
        if before.rights_version == after.rights_version {
            return;
        }
        let outcome = format!("from {} to {}", shown(before), shown(after));
        let (client, object) = (client.to_owned(), path.to_string());
        let (kind, uid) = (AuditKind::Rights, Some(uid));
        self.note(AuditEvent { kind, reason: "rights", uid, client, object, outcome });
    }

    /// Records a connection that the network layer has refused or closed.
    pub fn note_connection(&self, refusal: &Refusal) {
        let Refusal { peer, reason, .. } = refusal;
        let uid = peer.rsplit_once("of user ").and_then(|(_, uid)| uid.parse().ok());
        self.note(AuditEvent {
            kind: AuditKind::Refused,
            reason: "connection",
            uid,
            client: peer.clone(),
            object: "connection".to_owned(),
            outcome: reason.clone(),
        });
    }

    /// Writes the queued events, and ends the thread.
    pub fn close(&self) {
        if let Some(queue) = &self.queue {
            // The thread receives, so a full queue drains.
            let _ = queue.send(WriterMessage::End);
        }
        if let Some(writer) = self.writer.lock().take() {
            // The panic hook has reported a panic of the thread.
            let _ = writer.join();
        }
    }
}

struct AuditWriter {
    node: String,
    file: LogFile,
    lost: Arc<AtomicU64>,
    clock: WallClock,
}

impl AuditWriter {
    fn run(&mut self, events: &Receiver<WriterMessage>) {
        let mut limiter = RateLimiter::default();
        loop {
            let message = events.recv_timeout(TICK);
            let now = Instant::now();
            match message {
                Ok(WriterMessage::Event(event)) => {
                    if let Some((event, count)) = limiter.take(event, now) {
                        self.write(&event, count);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(WriterMessage::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            for (event, count) in limiter.due(now) {
                self.write(&event, count);
            }
        }
        for (event, count) in limiter.rest() {
            self.write(&event, count);
        }
    }

    fn write(&mut self, event: &AuditEvent, count: u64) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let line = AuditLine {
            time: timestamp(self.clock.now_ns()),
            node: &self.node,
            kind: event.kind,
            user: event.uid,
            client: cut(&event.client),
            object: cut(&event.object),
            outcome: cut(&event.outcome),
            count,
            lost,
        };
        let written = serde_json::to_vec(&line).map_err(io::Error::other).and_then(|mut bytes| {
            bytes.push(b'\n');
            self.file.append(&bytes)
        });
        if let Err(error) = written {
            self.lost.fetch_add(lost + count, Ordering::Relaxed);
            tracing::warn!(%error, "the node cannot write its audit log");
        }
    }
}

/// Formats nanoseconds since 1970 in RFC 3339.
fn timestamp(now_ns: u64) -> String {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(now_ns)).unwrap_or_default();
    timestamp.to_string()
}

/// Returns the first [`TEXT_LIMIT`] characters of a text.
fn cut(text: &str) -> &str {
    text.char_indices().nth(TEXT_LIMIT).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;

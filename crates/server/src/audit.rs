//! The audit log of a node: refusals, administration, and changes of rights, one JSON object per
//! line, in `audit.log` of the data directory.
//!
//! Invariants:
//! - Request handling never waits for the log: events pass through a bounded queue to one thread,
//!   and those that find no room are counted in the next line.
//! - The log is bounded: it has two files of at most [`FILE_LIMIT_BYTES`] each.
//! - A flood of refusals gives one line per second for each user and reason, with their number.

mod log_file;
mod rate;

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
use rate::RateLimiter;

/// Events that may wait to be written.
const QUEUE: usize = 1024;
/// How often events that were held back are looked at.
const TICK: Duration = Duration::from_secs(1);
/// The longest text of a field, in characters.
const TEXT_LIMIT: usize = 300;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditKind {
    /// A connection or a request was refused.
    Refused,
    /// The cluster was administered: stopped, reset, checked, joined.
    Administration,
    /// Owner, group or mode changed.
    Rights,
}

/// Something that the log tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// What it is about.
    pub kind: AuditKind,
    /// Events of a user with the same reason are counted together.
    pub reason: &'static str,
    /// The user, if it is known.
    pub uid: Option<u32>,
    /// What people call the client.
    pub client: String,
    /// The file, or what was to be done.
    pub object: String,
    /// What came of it.
    pub outcome: String,
}

/// Takes events for the log of a node.
#[derive(Debug, Default)]
pub struct Audit {
    queue: Option<SyncSender<Message>>,
    /// Events that found no room in the queue.
    lost: Arc<AtomicU64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

enum Message {
    Event(AuditEvent),
    End,
}

/// A line of the log.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    node: &'a str,
    kind: AuditKind,
    user: Option<u32>,
    client: &'a str,
    object: &'a str,
    outcome: &'a str,
    /// How many such events there were since the last line of their kind.
    count: u64,
    /// How many events were lost since the last line.
    #[serde(skip_serializing_if = "is_zero")]
    lost: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Audit {
    /// The log of a node in its data directory.
    pub fn open(data: &Path, node: &str) -> io::Result<Self> {
        let file = LogFile::open(&data.join("audit.log"), FILE_LIMIT_BYTES)?;
        let (queue, events) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = Writer { node: node.to_owned(), file, lost: lost.clone() };
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || writer.work(&events))?;
        Ok(Self { queue: Some(queue), lost, writer: Mutex::new(Some(thread)) })
    }

    /// No log: events are dropped.
    pub fn off() -> Self {
        Self::default()
    }

    /// Notes an event, if there is room; never waits.
    pub fn note(&self, event: AuditEvent) {
        let Some(queue) = &self.queue else { return };
        if queue.try_send(Message::Event(event)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes a failure if a request was refused by it.
    pub fn note_failure(&self, uid: Option<u32>, client: &str, failure: &Failure) {
        if self.queue.is_none() {
            return;
        }
        let (reason, object) = match failure {
            Failure::Denied { path, .. } => ("permission", path.to_string()),
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

    /// Notes an act of administration, and what came of it.
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

    /// Notes that owner, group or mode of a file or directory have changed.
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

    /// Notes a connection that was refused or cut off, as the network tells it.
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

    /// Writes what waits, and ends the thread.
    pub fn close(&self) {
        if let Some(queue) = &self.queue {
            // The thread receives: there is room before long.
            let _ = queue.send(Message::End);
        }
        if let Some(writer) = self.writer.lock().take() {
            // A panic there was reported when it happened.
            let _ = writer.join();
        }
    }
}

struct Writer {
    node: String,
    file: LogFile,
    lost: Arc<AtomicU64>,
}

impl Writer {
    fn work(&mut self, events: &Receiver<Message>) {
        let mut limiter = RateLimiter::default();
        loop {
            let message = events.recv_timeout(TICK);
            let now = Instant::now();
            match message {
                Ok(Message::Event(event)) => {
                    if let Some((event, count)) = limiter.take(event, now) {
                        self.write(&event, count);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
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
        let line = Line {
            time: jiff::Timestamp::now().to_string(),
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
            tracing::warn!(%error, "the audit log cannot be written");
        }
    }
}

/// The beginning of a text.
fn cut(text: &str) -> &str {
    text.char_indices().nth(TEXT_LIMIT).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests;

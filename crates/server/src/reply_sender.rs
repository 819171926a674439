//! The reply sender: sends the one reply to a request.
//!
//! Invariant: every request gets a reply. If a thread panics while it has the request, the client
//! gets [`Failure::Internal`] with the kind of the request. The audit log gets every refusal.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use pario_net::{Bulk, FilePart, Responder, Sender};
use pario_proto::{Failure, Reply, ReplyMessage};

use crate::audit::AuditLog;
use crate::event_log::EventLog;
use crate::limits::{QuotaShare, Resource};
use crate::protocol::NodeProtocol;
use crate::request_meter::KindMeter;
use crate::sessions::Session;

/// The limit of unread replies of one client; beyond it the node cuts the link.
const BACKLOG_BYTES: usize = 256 << 20;

/// A waiting request counts once more for each such amount of text that it keeps.
const WAIT_TEXT_BYTES: u64 = 4096;

/// Sends the reply to one request of a client.
#[must_use = "a request that is not answered fails"]
pub struct ReplySender {
    to: Option<Responder<NodeProtocol>>,
    node: Arc<str>,
    kind: &'static str,
    /// The client; before its hello, the sender of the request.
    client: Result<Arc<Session>, Arc<Sender>>,
    audit: Arc<AuditLog>,
    events: Arc<EventLog>,
    /// Counts the request when it is answered.
    meter: Arc<KindMeter>,
    /// When the node received the request.
    received: Instant,
    /// The request's share of its user's waits, until the reply is sent.
    waits: Option<QuotaShare>,
}

impl ReplySender {
    /// Creates the sender for a request.
    pub fn new(
        to: Responder<NodeProtocol>,
        node: Arc<str>,
        kind: &'static str,
        client: Result<Arc<Session>, Arc<Sender>>,
        (audit, events): (Arc<AuditLog>, Arc<EventLog>),
        meter: Arc<KindMeter>,
    ) -> Self {
        let received = Instant::now();
        Self { to: Some(to), node, kind, client, audit, events, meter, received, waits: None }
    }

    /// Counts the request as waiting until it is answered. If the user has too many waiting
    /// requests, sends a refusal and returns `None`. `text_bytes` is what the request keeps in
    /// memory while it waits.
    pub fn waiting(mut self, text_bytes: usize) -> Option<Self> {
        let count = 1 + text_bytes as u64 / WAIT_TEXT_BYTES;
        let session = self.client.as_ref().ok();
        let taken = session.map(|session| session.account.take(Resource::Waits, count));
        match taken.transpose() {
            Ok(share) => {
                self.waits = share;
                Some(self)
            }
            Err(failure) => {
                self.fail(failure);
                None
            }
        }
    }

    /// Sends the reply, together with others.
    pub fn send(mut self, answer: ReplyMessage<Bulk>) {
        self.note(&answer);
        if let Some(to) = self.take() {
            to.send(answer);
        }
    }

    /// Sends the reply at once.
    pub fn send_now(mut self, answer: ReplyMessage<Bulk>) {
        self.note(&answer);
        if let Some(to) = self.take() {
            to.send_now(answer);
        }
    }

    /// Sends the reply with a part of a file in place of its first empty segment.
    pub fn send_file(mut self, answer: ReplyMessage<Bulk>, part: FilePart) {
        self.note(&answer);
        if let Some(to) = self.take() {
            to.send_file(answer, part);
        }
    }

    /// Sends a failure.
    pub fn fail(self, failure: Failure) {
        self.send(ReplyMessage { result: Err(failure), data: Vec::new() });
    }

    /// Counts the request, and logs its failures.
    fn note(&self, answer: &ReplyMessage<Bulk>) {
        self.meter.count(self.received.elapsed(), answer.result.is_err());
        let failures: Vec<&Failure> = match &answer.result {
            Err(failure) => vec![failure],
            Ok(Reply::Each(each)) => failures(each).collect(),
            Ok(Reply::OpenedMany(each)) => failures(each).collect(),
            Ok(Reply::SyncedMany(each)) => failures(each).collect(),
            Ok(_) => return,
        };
        let (uid, name) = match &self.client {
            Ok(session) => (Some(session.identity.uid), session.name.as_str()),
            Err(sender) => (sender.user.as_ref().map(|user| user.uid), &*sender.name),
        };
        for failure in failures {
            self.audit.note_failure(uid, name, failure);
            self.events.note_failure(uid, name, failure);
        }
    }

    /// Returns whether parts of files can be sent to the client without a copy.
    pub fn takes_files(&self) -> bool {
        self.to.as_ref().is_some_and(Responder::can_send_files)
    }

    /// Takes the responder. Cuts the link and returns `None` if the client does not read its
    /// replies.
    fn take(&mut self) -> Option<Responder<NodeProtocol>> {
        let to = self.to.take()?;
        let unread = to.queued_bytes();
        let is_user_over = self.client.as_ref().is_ok_and(|session| session.is_over(unread));
        if unread > BACKLOG_BYTES || is_user_over {
            to.cut_off("it does not read its replies");
            return None;
        }
        Some(to)
    }
}

fn failures<T>(each: &[Result<T, Failure>]) -> impl Iterator<Item = &Failure> {
    each.iter().filter_map(|result| result.as_ref().err())
}

impl Drop for ReplySender {
    fn drop(&mut self) {
        // Without a panic, a request is dropped only when the node stops, and the link then ends.
        if let Some(to) = self.to.take().filter(|_| std::thread::panicking()) {
            let (node, kind) = (self.node.to_string(), self.kind);
            let why =
                format!("it panicked while it answered a request ({kind}); its log says where");
            let result = Err(Failure::Internal { node, why });
            let answer = ReplyMessage { result, data: Vec::new() };
            self.note(&answer);
            to.send_now(answer);
        }
    }
}

impl fmt::Debug for ReplySender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplySender({})", self.kind)
    }
}

//! The log of a node for its administrator: start and stop, other nodes, disks, refusals. The table of
//! events is in docs/logs.md.
//!
//! The log prints an event at once the first time, and its repetitions once a minute with a count.

mod disk_watch;
mod peer_watch;
mod repeat_counter;

use std::time::Instant;

use pario_net::Refusal;
use pario_proto::Failure;
use parking_lot::Mutex;
use tracing::Level;

pub use disk_watch::{DiskSample, DiskWatch};
pub use peer_watch::PeerWatch;
use repeat_counter::{LogLine, RepeatCounter};

/// The topic of an event. Events of one topic, level and subject repeat each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventTopic {
    /// Another node.
    Peer,
    /// The free space of a disk.
    DiskSpace,
    /// A disk that completes nothing.
    DiskStall,
    /// The speed of a disk.
    DiskPace,
    /// A disk that fails.
    DiskFailure,
    /// A refused connection.
    Stranger,
    /// A refused request.
    Refusal,
    /// A limit that a user has reached.
    Limit,
}

/// An event for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The level.
    pub level: Level,
    /// The topic.
    pub topic: EventTopic,
    /// The node, disk or user.
    pub subject: String,
    /// The message.
    pub text: String,
}

/// Writes events to the log, and repeated ones once a minute with a count.
#[derive(Debug, Default)]
pub struct EventLog {
    repeats: Mutex<RepeatCounter>,
}

impl EventLog {
    /// Logs an event, or counts it as a repetition.
    pub fn note(&self, event: LogEvent) {
        let lines = self.repeats.lock().note(event, Instant::now());
        lines.iter().for_each(write);
    }

    /// Logs the repetitions that were counted for a minute.
    pub fn flush_due(&self) {
        let due = self.repeats.lock().due(Instant::now());
        due.iter().for_each(write);
    }

    /// Logs all counted repetitions, when the node stops.
    pub fn flush_all(&self) {
        let rest = self.repeats.lock().rest(Instant::now());
        rest.iter().for_each(write);
    }

    /// Logs a failure that concerns the administrator; ignores others.
    pub fn note_failure(&self, uid: Option<u32>, client: &str, failure: &Failure) {
        let user = uid.map_or_else(|| "an unknown user".to_owned(), |uid| format!("user {uid}"));
        let (level, topic, subject) = match failure {
            Failure::DiskFull { disk, .. } => (Level::ERROR, EventTopic::DiskSpace, disk.clone()),
            Failure::Disk { disk, .. } => (Level::ERROR, EventTopic::DiskFailure, disk.clone()),
            Failure::LimitReached { what, .. } => {
                (Level::WARN, EventTopic::Limit, format!("{user}, {what}"))
            }
            Failure::BadGrant { .. } => {
                (Level::WARN, EventTopic::Refusal, format!("{user}, grant"))
            }
            Failure::Version { .. } => {
                (Level::WARN, EventTopic::Refusal, format!("{user}, version"))
            }
            Failure::NotAdministrator { action, .. } => {
                (Level::WARN, EventTopic::Refusal, format!("{user}, {action}"))
            }
            _ => return,
        };
        let text = match topic {
            EventTopic::Refusal => {
                format!("the node refuses a request of {client}, {user}: {failure}")
            }
            _ => failure.to_string(),
        };
        self.note(LogEvent { level, topic, subject, text });
    }

    /// Logs a connection that the network layer has refused or closed.
    pub fn note_connection(&self, refusal: &Refusal) {
        let peer = without_port(&refusal.peer);
        let subject = format!("{peer}, {}", refusal.reason);
        let text = format!("the node refuses a connection from {peer}: {}", refusal.reason);
        self.note(LogEvent { level: Level::WARN, topic: EventTopic::Stranger, subject, text });
    }
}

/// Returns the address of a peer without its port, which means nothing to the administrator.
fn without_port(peer: &str) -> &str {
    match peer.parse::<std::net::SocketAddr>() {
        Ok(address) => {
            let port = address.port().to_string().len() + 1;
            peer[..peer.len() - port].trim_matches(['[', ']'])
        }
        Err(_) => peer,
    }
}

fn write(line: &LogLine) {
    let LogLine { level, text } = line;
    match *level {
        Level::ERROR => tracing::error!("{text}"),
        Level::WARN => tracing::warn!("{text}"),
        _ => tracing::info!("{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_logged_without_their_ports() {
        assert_eq!(without_port("10.0.0.7:53122"), "10.0.0.7");
        assert_eq!(without_port("[fe80::1]:53122"), "fe80::1");
        assert_eq!(without_port("process 17 of user 4711"), "process 17 of user 4711");
    }
}

//! What a node tells its administrator in the log: start and stop, other nodes, disks, refusals. The
//! table of events is in docs/logs.md.
//!
//! The log prints an event at once the first time, and its repetitions once a minute with a count.

mod disk_watch;
mod peer_watch;
mod repeats;

use std::time::Instant;

use pario_net::Refusal;
use pario_proto::Failure;
use parking_lot::Mutex;
use tracing::Level;

pub use disk_watch::{DiskLook, DiskWatch};
pub use peer_watch::PeerWatch;
use repeats::{Repeats, Told};

/// What an event is about. Events of one topic, level and subject repeat each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Another node.
    Peer,
    /// The room on a disk.
    DiskSpace,
    /// A disk that hangs.
    DiskStall,
    /// How fast a disk is.
    DiskPace,
    /// A disk that fails.
    DiskFailure,
    /// A connection that was refused.
    Stranger,
    /// A request that was refused.
    Refusal,
    /// A limit that a user has reached.
    Limit,
}

/// An event for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// How serious it is.
    pub level: Level,
    /// What it is about.
    pub topic: Topic,
    /// Which node, disk or user it is about.
    pub subject: String,
    /// What has happened.
    pub text: String,
}

/// Tells events, each repeated one once with a count.
#[derive(Debug, Default)]
pub struct EventLog {
    repeats: Mutex<Repeats>,
}

impl EventLog {
    /// Tells an event, or counts it.
    pub fn note(&self, event: Event) {
        let told = self.repeats.lock().note(event, Instant::now());
        told.iter().for_each(tell);
    }

    /// Tells what was counted for a minute.
    pub fn tell_due(&self) {
        let due = self.repeats.lock().due(Instant::now());
        due.iter().for_each(tell);
    }

    /// Tells all that was counted: the node stops.
    pub fn tell_rest(&self) {
        let rest = self.repeats.lock().rest(Instant::now());
        rest.iter().for_each(tell);
    }

    /// Tells of a failure if administrators should know of it.
    pub fn note_failure(&self, uid: Option<u32>, client: &str, failure: &Failure) {
        let user = uid.map_or_else(|| "an unknown user".to_owned(), |uid| format!("user {uid}"));
        let (level, topic, subject) = match failure {
            Failure::DiskFull { disk, .. } => (Level::ERROR, Topic::DiskSpace, disk.clone()),
            Failure::Disk { disk, .. } => (Level::ERROR, Topic::DiskFailure, disk.clone()),
            Failure::LimitReached { what, .. } => {
                (Level::WARN, Topic::Limit, format!("{user}, {what}"))
            }
            Failure::BadGrant { .. } => (Level::WARN, Topic::Refusal, format!("{user}, grant")),
            Failure::Version { .. } => (Level::WARN, Topic::Refusal, format!("{user}, version")),
            Failure::NotAdministrator { action, .. } => {
                (Level::WARN, Topic::Refusal, format!("{user}, {action}"))
            }
            _ => return,
        };
        let text = match topic {
            Topic::Refusal => format!("a request of {client}, {user}, is refused: {failure}"),
            _ => failure.to_string(),
        };
        self.note(Event { level, topic, subject, text });
    }

    /// Tells of a connection that was refused or cut off, as the network tells it.
    pub fn note_connection(&self, refusal: &Refusal) {
        let peer = without_port(&refusal.peer);
        let subject = format!("{peer}, {}", refusal.reason);
        let text = format!("a connection from {peer} is refused: {}", refusal.reason);
        self.note(Event { level: Level::WARN, topic: Topic::Stranger, subject, text });
    }
}

/// A peer as the network calls it, without the number of its socket, which nobody knows.
fn without_port(peer: &str) -> &str {
    match peer.parse::<std::net::SocketAddr>() {
        Ok(address) => {
            let port = address.port().to_string().len() + 1;
            peer[..peer.len() - port].trim_matches(['[', ']'])
        }
        Err(_) => peer,
    }
}

fn tell(told: &Told) {
    let Told { level, text } = told;
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
    fn callers_are_told_without_the_numbers_of_their_sockets() {
        assert_eq!(without_port("10.0.0.7:53122"), "10.0.0.7");
        assert_eq!(without_port("[fe80::1]:53122"), "fe80::1");
        assert_eq!(without_port("process 17 of user 4711"), "process 17 of user 4711");
    }
}

//! Detects joins, losses and returns of another node: a state machine without I/O, with time passed in.

use std::time::{Duration, Instant};

use tracing::Level;

use super::{EventTopic, LogEvent};

/// The time before a node that was never reached is reported: nodes start one after the other.
const START_WAIT: Duration = Duration::from_secs(10);

/// Watches one other node.
#[derive(Debug)]
pub struct PeerWatch {
    /// The name and the configured address of the node.
    name: String,
    state: PeerState,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerState {
    /// Not reached yet.
    Expected,
    /// Not reached yet, and reported.
    Missing,
    /// Reachable.
    Reachable,
    /// Not reachable any more.
    Lost,
}

impl PeerWatch {
    /// Watches a node. `address` is empty if none is configured.
    pub fn new(node: &str, address: &str, now: Instant) -> Self {
        let suffix = if address.is_empty() { String::new() } else { format!(" ({address})") };
        Self { name: format!("node {node}{suffix}"), state: PeerState::Expected, since: now }
    }

    /// Takes whether the node is reachable, and why not. Returns the event for a change.
    pub fn observe(
        &mut self,
        is_reachable: bool,
        why: Option<&str>,
        now: Instant,
    ) -> Option<LogEvent> {
        let lasted = now.saturating_duration_since(self.since);
        let (state, level, text) = match (self.state, is_reachable) {
            (PeerState::Expected | PeerState::Missing, true) => {
                (PeerState::Reachable, Level::INFO, "has joined".to_owned())
            }
            (PeerState::Expected, false) if lasted >= START_WAIT => {
                let why = why.unwrap_or("it has not come yet");
                (PeerState::Missing, Level::WARN, format!("is not reached: {why}"))
            }
            (PeerState::Reachable, false) => {
                let why = why.unwrap_or("the connection to it has ended");
                (PeerState::Lost, Level::WARN, format!("is lost: {why}"))
            }
            (PeerState::Lost, true) => {
                let seconds = lasted.as_secs();
                (PeerState::Reachable, Level::INFO, format!("has returned after {seconds} s"))
            }
            _ => return None,
        };
        if state != PeerState::Missing {
            self.since = now;
        }
        let before = std::mem::replace(&mut self.state, state);
        // A return is not a repetition of the first join.
        let subject = format!("{}, {before:?} to {state:?}", self.name);
        let text = format!("{} {text}", self.name);
        Some(LogEvent { level, topic: EventTopic::Peer, subject, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_losses_and_returns_are_reported_once() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut watch = PeerWatch::new("b", "10.0.0.2:7411", began);
        let mut observe = |is_reachable, why, seconds| {
            let event = watch.observe(is_reachable, why, at(seconds));
            event.map(|event| (event.level, event.text))
        };
        assert_eq!(observe(false, Some("nothing listens there"), 9), None, "it may still start");
        let missing = "node b (10.0.0.2:7411) is not reached: nothing listens there";
        let told = observe(false, Some("nothing listens there"), 10);
        assert_eq!(told, Some((Level::WARN, missing.to_owned())));
        assert_eq!(observe(false, None, 30), None);
        let joined = "node b (10.0.0.2:7411) has joined";
        assert_eq!(observe(true, None, 40), Some((Level::INFO, joined.to_owned())));
        assert_eq!(observe(true, None, 41), None);
        let lost = "node b (10.0.0.2:7411) is lost: the connection to it has ended";
        assert_eq!(observe(false, None, 50), Some((Level::WARN, lost.to_owned())));
        assert_eq!(observe(false, None, 55), None);
        let back = "node b (10.0.0.2:7411) has returned after 12 s";
        assert_eq!(observe(true, None, 62), Some((Level::INFO, back.to_owned())));
    }
}

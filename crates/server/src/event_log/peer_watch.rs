//! Which changes of another node are told: a state machine without I/O, with time passed in.

use std::time::{Duration, Instant};

use tracing::Level;

use super::{Event, Topic};

/// A node that was never reached is told of after so long: nodes start one after the other.
const START_WAIT: Duration = Duration::from_secs(10);

/// What is known of another node.
#[derive(Debug)]
pub struct PeerWatch {
    /// Its name and its address as configured.
    name: String,
    state: State,
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was not reached yet.
    Expected,
    /// It was not reached yet, and that was told.
    Missing,
    /// It is reached.
    There,
    /// It was reached.
    Lost,
}

impl PeerWatch {
    /// A node that was not looked at yet. `address` is empty if none is configured.
    pub fn new(node: &str, address: &str, now: Instant) -> Self {
        let place = if address.is_empty() { String::new() } else { format!(" ({address})") };
        Self { name: format!("node {node}{place}"), state: State::Expected, since: now }
    }

    /// Looks at the node: whether it is reached now, and why not.
    pub fn look(&mut self, is_there: bool, why: Option<&str>, now: Instant) -> Option<Event> {
        let lasted = now.saturating_duration_since(self.since);
        let (state, level, text) = match (self.state, is_there) {
            (State::Expected | State::Missing, true) => {
                (State::There, Level::INFO, "has joined".to_owned())
            }
            (State::Expected, false) if lasted >= START_WAIT => {
                let why = why.unwrap_or("it has not come yet");
                (State::Missing, Level::WARN, format!("is not reached: {why}"))
            }
            (State::There, false) => {
                let why = why.unwrap_or("the connection to it has ended");
                (State::Lost, Level::WARN, format!("is lost: {why}"))
            }
            (State::Lost, true) => {
                let seconds = lasted.as_secs();
                (State::There, Level::INFO, format!("has returned after {seconds} s"))
            }
            _ => return None,
        };
        if state != State::Missing {
            self.since = now;
        }
        let before = std::mem::replace(&mut self.state, state);
        // A return is not counted as a repetition of the first join.
        let subject = format!("{}, {before:?} to {state:?}", self.name);
        let text = format!("{} {text}", self.name);
        Some(Event { level, topic: Topic::Peer, subject, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_losses_and_returns_are_told_once() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut watch = PeerWatch::new("b", "10.0.0.2:7411", began);
        let mut look = |is_there, why, seconds| {
            let event = watch.look(is_there, why, at(seconds));
            event.map(|event| (event.level, event.text))
        };
        assert_eq!(look(false, Some("nothing listens there"), 9), None, "it may still start");
        let missing = "node b (10.0.0.2:7411) is not reached: nothing listens there";
        let told = look(false, Some("nothing listens there"), 10);
        assert_eq!(told, Some((Level::WARN, missing.to_owned())));
        assert_eq!(look(false, None, 30), None);
        let joined = "node b (10.0.0.2:7411) has joined";
        assert_eq!(look(true, None, 40), Some((Level::INFO, joined.to_owned())));
        assert_eq!(look(true, None, 41), None);
        let lost = "node b (10.0.0.2:7411) is lost: the connection to it has ended";
        assert_eq!(look(false, None, 50), Some((Level::WARN, lost.to_owned())));
        assert_eq!(look(false, None, 55), None);
        let back = "node b (10.0.0.2:7411) has returned after 12 s";
        assert_eq!(look(true, None, 62), Some((Level::INFO, back.to_owned())));
    }
}

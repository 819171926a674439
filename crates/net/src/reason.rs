//! Why a process could not be reached, in words for users who know neither spaces nor ports. The
//! texts name no spaces, ports or internal addresses; the caller adds the name of the process.

use std::io;

use crate::error::{ConnectError, ConnectionFailure, OpenError, RpcError, SpaceError};

impl SpaceError {
    /// Why, without names and addresses of spaces.
    pub fn reason(&self) -> String {
        match self {
            SpaceError::Join { error, .. } => error.reason(),
            SpaceError::System { error, .. } | SpaceError::Listen { error, .. } => words(error),
            SpaceError::KeyNeeded { .. } => "there is no key".to_owned(),
            SpaceError::NoDirectory { .. }
            | SpaceError::BadName { .. }
            | SpaceError::NameTaken { .. } => "this process cannot join it".to_owned(),
        }
    }
}

impl ConnectError {
    /// Why, without names and addresses of spaces.
    pub fn reason(&self) -> String {
        match self {
            ConnectError::Unreachable { error, .. } => match error.kind() {
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                    "nothing listens there; is it running?".to_owned()
                }
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                    "it does not answer".to_owned()
                }
                _ => words(error),
            },
            ConnectError::Refused { reason, .. } => format!("it refuses this process: {reason}"),
            ConnectError::Untrusted { reason, .. } => format!("it is not to be trusted: {reason}"),
            ConnectError::Key { problem, .. } => problem.to_string(),
            ConnectError::NoRoute { reason, .. } => format!("there is no way to it: {reason}"),
        }
    }
}

impl OpenError {
    /// Why, without names and addresses of spaces.
    pub fn reason(&self) -> String {
        match self {
            OpenError::Unreachable { error, .. } => error.reason(),
            OpenError::Timeout { .. } => "it does not answer".to_owned(),
            OpenError::KindMismatch { .. } => "it is of another version".to_owned(),
            OpenError::Lost { .. } | OpenError::DirectoryLost { .. } | OpenError::Closed { .. } => {
                LOST.to_owned()
            }
        }
    }
}

const LOST: &str = "the connection to it was lost";

impl RpcError {
    /// Why, without names and addresses of spaces.
    pub fn reason(&self) -> String {
        match self {
            RpcError::Lost { .. } | RpcError::Dropped { .. } | RpcError::Closed { .. } => {
                LOST.to_owned()
            }
            RpcError::Refused { reason, .. } => format!("it refused the request: {reason}"),
            RpcError::Unreadable { .. } => "it sent a reply that cannot be decoded".to_owned(),
            RpcError::Unsent { reason } => format!("the request was not sent: {reason}"),
        }
    }
}

impl ConnectionFailure {
    /// Why, without names and addresses of spaces.
    pub fn reason(&self) -> String {
        match self {
            ConnectionFailure::NoAddress => "its address is not known".to_owned(),
            ConnectionFailure::StillOpening => self.to_string(),
            ConnectionFailure::NoLink { error, .. } => error.reason(),
            ConnectionFailure::NoPort { error } => error.reason(),
            ConnectionFailure::Silent { .. } => "it does not answer".to_owned(),
            ConnectionFailure::Request(error) => error.reason(),
            ConnectionFailure::Late => "it has taken too long to answer".to_owned(),
        }
    }
}

/// The error text of the system without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words);
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_no_internal_names() {
        let unreachable = |kind: io::ErrorKind| SpaceError::Join {
            space: "node a to b 8f3c".to_owned(),
            error: ConnectError::Unreachable {
                address: "tcp=10.0.0.2:7411;space=8f3c".to_owned(),
                error: kind.into(),
            },
        };
        let refused = unreachable(io::ErrorKind::ConnectionRefused).reason();
        assert_eq!(refused, "nothing listens there; is it running?");
        assert_eq!(unreachable(io::ErrorKind::TimedOut).reason(), "it does not answer");
        let far = ConnectError::Unreachable {
            address: "tcp=10.0.0.2:7411".to_owned(),
            error: io::Error::from_raw_os_error(113),
        };
        assert_eq!(far.reason(), "no route to host");
        let lost = RpcError::Lost { peer: "node b of lab".to_owned() };
        assert_eq!(lost.reason(), "the connection to it was lost");
    }
}

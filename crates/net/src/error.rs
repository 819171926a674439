//! Errors: one small enum per operation.

use std::fmt;
use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::address::Address;
use crate::key::SpaceId;
use crate::token::{DecodeError, EncodeError};
use crate::wire::WireError;

/// A space could not be made.
#[derive(Debug, Error)]
pub enum SpaceError {
    /// A listening socket could not be made.
    #[error("{space:?} cannot listen on {address}: {error}; is it in use by another process?")]
    Listen {
        /// Name of the space.
        space: String,
        /// Where it was to listen.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// A listening address that other machines can reach, without a key.
    #[error(
        "{space:?} would listen on {address}, which is not loopback, without a key; \
         give it one with `key`, or listen on a loopback address"
    )]
    KeyNeeded {
        /// Name of the space.
        space: String,
        /// Where it was to listen.
        address: String,
    },
    /// Neither `host` nor `join` was called.
    #[error("{space:?} neither hosts a directory nor joins one; call `host` or `join`")]
    NoDirectory {
        /// Name of the space.
        space: String,
    },
    /// A name that cannot be sent.
    #[error("{space:?} is not a name for a space: names have 1 to 255 bytes")]
    BadName {
        /// The name.
        space: String,
    },
    /// The directory could not be reached.
    #[error("{space:?} cannot join the directory: {error}")]
    Join {
        /// Name of the space.
        space: String,
        /// Why not.
        error: ConnectError,
    },
    /// There is another space of that name.
    #[error("there is a space {space:?} already, at {owner}; names of spaces are unique")]
    NameTaken {
        /// Name of the space.
        space: String,
        /// Where the other is.
        owner: String,
    },
    /// The system refused what every space needs.
    #[error("{space:?} cannot be made: {error}")]
    System {
        /// Name of the space.
        space: String,
        /// Why not.
        error: io::Error,
    },
}

/// Why the keys of two spaces do not fit together, as seen by the one that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyProblem {
    /// The other side needs a key, and this one has none.
    #[error("it needs a key, and this space has none")]
    Missing,
    /// The keys differ.
    #[error("it does not know the key of this space")]
    Wrong,
    /// This side has a key, and the other one has none.
    #[error("it has no key, and this space needs one")]
    Unneeded,
}

/// No link to another space could be made.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The connection was not made.
    #[error("no connection to {address}: {error}; is the process there running?")]
    Unreachable {
        /// Where it was tried.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// The other side refused.
    #[error("{address} refused: {reason}")]
    Refused {
        /// The address that refused.
        address: String,
        /// Its words.
        reason: String,
    },
    /// The peer is not trusted.
    #[error("{address} is not trusted: {reason}")]
    Untrusted {
        /// The address.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// The two sides do not have the same key.
    #[error("{address}: {problem}")]
    Key {
        /// The address of the peer.
        address: String,
        /// Which side lacks what.
        problem: KeyProblem,
    },
    /// The address cannot be reached from this process.
    #[error("there is no way to {address} from here: {reason}")]
    NoRoute {
        /// Where to.
        address: String,
        /// Why not.
        reason: String,
    },
}

/// An input port could not be made.
#[derive(Debug, Error)]
pub enum InputError {
    /// There is another port of that name.
    #[error("there is a port {port:?} already, in the space {owner:?}; names of ports are unique")]
    NameTaken {
        /// Name of the port.
        port: String,
        /// Name of the space that has it.
        owner: String,
    },
    /// The directory is gone.
    #[error("port {port:?} cannot be announced: the directory in {directory:?} is lost")]
    DirectoryLost {
        /// Name of the port.
        port: String,
        /// Name of the space that hosted the directory.
        directory: String,
    },
    /// The directory did not answer.
    #[error("port {port:?} cannot be announced: the directory did not answer within {waited:?}")]
    NoAnswer {
        /// Name of the port.
        port: String,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The space is closed.
    #[error("port {port:?} cannot be made: the space {space:?} is closed")]
    Closed {
        /// Name of the port.
        port: String,
        /// Name of the space.
        space: String,
    },
}

/// An output port could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No process created such a port in time.
    #[error(
        "no port {port:?} appeared within {waited:?}; check its name, and that the process which \
         makes it is running and has joined the same directory"
    )]
    Timeout {
        /// Name of the port.
        port: String,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The port takes another type.
    #[error("port {port:?} takes tokens of type {found}, not {wanted}")]
    KindMismatch {
        /// Name of the port.
        port: String,
        /// What the caller has.
        wanted: String,
        /// What the port takes.
        found: String,
    },
    /// The space of the port cannot be reached.
    #[error("port {port:?} is in the space {space:?}, which cannot be reached: {error}")]
    Unreachable {
        /// Name of the port.
        port: String,
        /// Name of its space.
        space: String,
        /// Why not.
        error: ConnectError,
    },
    /// The space of the port was lost while the port was being opened.
    #[error("the space {peer:?} was lost while port {port:?} was being opened")]
    Lost {
        /// Name of the port.
        port: String,
        /// Name of the space.
        peer: String,
    },
    /// The directory is gone.
    #[error("port {port:?} cannot be looked up: the directory in {directory:?} is lost")]
    DirectoryLost {
        /// Name of the port.
        port: String,
        /// Name of the space that hosted the directory.
        directory: String,
    },
    /// The space is closed.
    #[error("port {port:?} cannot be opened: the space {space:?} is closed")]
    Closed {
        /// Name of the port.
        port: String,
        /// Name of the space.
        space: String,
    },
}

/// No token was received.
#[derive(Debug, Error)]
pub enum RecvError {
    /// The space of a sender was lost. All its tokens have been received; the port goes on. A space
    /// that has left the port before is not reported, except to an [`RpcServer`](crate::RpcServer).
    #[error("the space {peer:?} was lost")]
    Lost {
        /// Id of the space.
        space: SpaceId,
        /// Name of the space.
        peer: String,
    },
    /// Nothing came in time.
    #[error("nothing came to port {port:?} within the time given")]
    Timeout {
        /// Name of the port.
        port: String,
    },
    /// There is nothing now. From [`try_recv`](crate::InputPort::try_recv) only.
    #[error("there is nothing in port {port:?} now")]
    Empty {
        /// Name of the port.
        port: String,
    },
    /// The space is closed.
    #[error("port {port:?} is closed, as its space was closed")]
    Closed {
        /// Name of the port.
        port: String,
    },
    /// A received token is not of the port's type. The port skips it and goes on.
    #[error("port {port:?} received from {peer:?} what it cannot decode: {error}")]
    Undecodable {
        /// Name of the port.
        port: String,
        /// Name of the space it came from.
        peer: String,
        /// Why.
        error: DecodeError,
    },
}

/// A token was not sent.
#[derive(Error)]
pub enum SendError<T> {
    /// The space of the port was lost.
    #[error("port {port:?} cannot be reached: the space {peer:?} was lost")]
    Lost {
        /// Name of the port.
        port: String,
        /// Name of the space.
        peer: String,
        /// The token, unless it was encoded already.
        token: Option<T>,
    },
    /// The port does not exist any more, or the own space was closed.
    #[error("port {port:?} is closed; its owner dropped it, or a space was closed")]
    Closed {
        /// Name of the port.
        port: String,
        /// The token.
        token: Option<T>,
    },
    /// The token exceeds a limit of the link.
    #[error("a token for port {port:?} is too large: {error}")]
    TooLarge {
        /// Name of the port.
        port: String,
        /// What exceeds what.
        error: WireError,
    },
    /// The port stayed full.
    #[error("port {port:?} stayed full for {waited:?}; its owner does not receive")]
    Full {
        /// Name of the port.
        port: String,
        /// How long the caller waited.
        waited: Duration,
        /// The token.
        token: Option<T>,
    },
    /// The token could not be encoded.
    #[error("a token for port {port:?} was not sent: {error}")]
    Encode {
        /// Name of the port.
        port: String,
        /// Why.
        error: EncodeError,
    },
}

impl<T> SendError<T> {
    /// The token, where it still exists.
    pub fn into_token(self) -> Option<T> {
        match self {
            Self::Lost { token, .. } | Self::Closed { token, .. } | Self::Full { token, .. } => {
                token
            }
            Self::TooLarge { .. } | Self::Encode { .. } => None,
        }
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Self::Lost { .. } => "Lost",
            Self::Closed { .. } => "Closed",
            Self::TooLarge { .. } => "TooLarge",
            Self::Full { .. } => "Full",
            Self::Encode { .. } => "Encode",
        };
        write!(f, "{variant}({self})")
    }
}

/// A request got no reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RpcError {
    /// The link to the server broke: all requests under way and all later ones fail.
    #[error("the space {peer:?} was lost before it replied")]
    Lost {
        /// Name of the space.
        peer: String,
    },
    /// The server dropped the request without a reply.
    #[error("the space {peer:?} dropped the request without a reply")]
    Dropped {
        /// Name of the space.
        peer: String,
    },
    /// The port does not exist any more, or the own space was closed.
    #[error("port {port:?} replies no more: its owner dropped it, or a space was closed")]
    Closed {
        /// Name of the port.
        port: String,
    },
    /// The server could not decode the request, or could not send its reply.
    #[error("the space {peer:?} refused the request: {reason}")]
    Refused {
        /// Name of the space.
        peer: String,
        /// Its words.
        reason: String,
    },
    /// The reply came, but is not of the expected type.
    #[error("the space {peer:?} sent a reply that cannot be decoded: {reason}")]
    Unreadable {
        /// Name of the space.
        peer: String,
        /// Why.
        reason: String,
    },
    /// The request was not sent.
    #[error("a request was not sent: {reason}")]
    Unsent {
        /// Why, with the name of the port.
        reason: String,
    },
}

/// A [`ReconnectingClient`](crate::ReconnectingClient) has no connection, or no reply.
#[derive(Debug, Error)]
pub enum ConnectionFailure {
    /// The client has no address of the server.
    #[error("the address of the server is not known")]
    NoAddress,
    /// Another thread was still opening the connection at the deadline.
    #[error("no connection could be opened in time")]
    StillOpening,
    /// The space of the connection could not be made, or could not reach the server's space.
    #[error("{error}")]
    NoLink {
        /// The address of the server.
        address: Address,
        /// Why.
        error: SpaceError,
        /// The time limit of the socket and its handshake.
        time_limit: Duration,
    },
    /// The port of the server could not be opened.
    #[error("{error}")]
    NoPort {
        /// Why.
        error: OpenError,
    },
    /// The server accepted the link, and did not reply to the first request in time.
    #[error("{address} did not reply within {time_limit:?}")]
    Silent {
        /// The address of the server.
        address: Address,
        /// The time limit for the whole connection.
        time_limit: Duration,
    },
    /// A request got no reply.
    #[error(transparent)]
    Request(#[from] RpcError),
    /// The reply to a request took longer than its time limit.
    #[error("the reply took longer than its time limit")]
    Late,
}

/// A text that is not an address.
#[derive(Debug, Error)]
#[error("{text:?} is not the address of a space: {reason}")]
pub struct AddressError {
    /// The text.
    pub text: String,
    /// What is wrong.
    pub reason: &'static str,
}

/// A text that is not a key.
#[derive(Debug, Error)]
#[error("a key has 64 hexadecimal digits; this text has {len} characters or others among them")]
pub struct KeyError {
    /// Length of the text.
    pub len: usize,
}

//! Ports: where tokens come in, and handles to send them there.

mod fair;
mod input;
mod output;
mod queue;
mod reply_route;

pub use input::InputPort;
pub use output::OutputPort;
pub(crate) use queue::{NoToken, PortLabel, PortQueue, PortRole, Sink};
pub use reply_route::ReplyRoute;

/// How much may be under way to an input port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// Bytes per output port, and for all senders in the same space together. A larger token may
    /// pass alone.
    Bytes(usize),
    /// No limit, because something else bounds it.
    Unlimited,
}

impl Credit {
    pub(crate) fn limit(self) -> i64 {
        match self {
            Self::Bytes(bytes) => i64::try_from(bytes.max(1)).unwrap_or(UNLIMITED),
            Self::Unlimited => UNLIMITED,
        }
    }
}

/// A credit that is never used up.
pub(crate) const UNLIMITED: i64 = i64::MAX;

/// How an input port behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// How much may be under way to it.
    pub credit_bytes: Credit,
}

impl Default for PortOptions {
    /// 4 MiB of credit.
    fn default() -> Self {
        Self { credit_bytes: Credit::Bytes(4 << 20) }
    }
}

//! The sending end of a port.

use std::fmt;
use std::sync::Arc;

use super::queue::PortQueue;
use crate::channel::Channel;
use crate::error::SendError;
use crate::token::Token;

/// The sending end of a port, wherever its input is. Clones share order and credit.
pub struct OutputPort<T: Token> {
    target: PortTarget<T>,
}

enum PortTarget<T: Token> {
    Local(Arc<PortQueue<T>>),
    Remote(Arc<Channel>),
}

impl<T: Token> OutputPort<T> {
    pub(crate) fn local(queue: Arc<PortQueue<T>>) -> Self {
        Self { target: PortTarget::Local(queue) }
    }

    pub(crate) fn remote(channel: Arc<Channel>) -> Self {
        Self { target: PortTarget::Remote(channel) }
    }

    /// Sends a token. Waits only while the port is full, at most for
    /// [`send_wait`](crate::Options::send_wait).
    ///
    /// Over a link, the token leaves at once if this thread has not sent anything since it last
    /// waited. Otherwise it is gathered with the tokens that follow. A batch leaves when it is
    /// large enough, when this thread waits for something, after [`flush`](Self::flush), and in any
    /// case after [`delay`](crate::Options::delay).
    #[inline]
    pub fn send(&self, token: T) -> Result<(), SendError<T>> {
        match &self.target {
            PortTarget::Local(queue) => queue.send(token),
            PortTarget::Remote(channel) => channel.send(token, false),
        }
    }

    /// Sends a token and the gathered ones at once.
    pub(crate) fn send_at_once(&self, token: T) -> Result<(), SendError<T>> {
        match &self.target {
            PortTarget::Local(queue) => queue.send(token),
            PortTarget::Remote(channel) => channel.send(token, true),
        }
    }

    /// Sends the gathered tokens.
    pub fn flush(&self) {
        if let PortTarget::Remote(channel) = &self.target {
            channel.flush();
        }
    }

    /// Bytes that wait in this space until the space of the port reads them.
    pub fn queued_bytes(&self) -> usize {
        self.channel().map_or(0, |channel| channel.link().out.lock().waiting_bytes())
    }

    /// Closes the link to the space of the port and records the refusal with this reason. Does
    /// nothing if the port is in the same space.
    pub fn cut_off(&self, reason: &str) {
        if let Some(channel) = self.channel() {
            channel.link().cut_off(reason);
        }
    }

    /// Whether tokens can arrive, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        match &self.target {
            PortTarget::Local(queue) => queue.is_open(),
            PortTarget::Remote(channel) => channel.is_open(),
        }
    }

    /// The channel, if the port is in another space.
    pub(crate) fn channel(&self) -> Option<&Arc<Channel>> {
        match &self.target {
            PortTarget::Local(_) => None,
            PortTarget::Remote(channel) => Some(channel),
        }
    }

    /// Whether the port is in the same space, so that tokens move by pointer.
    pub fn is_local(&self) -> bool {
        matches!(self.target, PortTarget::Local(_))
    }

    /// The name of the space that has the port.
    pub fn peer(&self) -> &str {
        match &self.target {
            PortTarget::Local(queue) => queue.core().name(),
            PortTarget::Remote(channel) => channel.peer(),
        }
    }

    /// The name of the port.
    pub fn name(&self) -> &str {
        match &self.target {
            PortTarget::Local(queue) => &queue.label.name,
            PortTarget::Remote(channel) => channel.port(),
        }
    }
}

impl<T: Token> Clone for OutputPort<T> {
    fn clone(&self) -> Self {
        let target = match &self.target {
            PortTarget::Local(queue) => PortTarget::Local(queue.clone()),
            PortTarget::Remote(channel) => PortTarget::Remote(channel.clone()),
        };
        Self { target }
    }
}

impl<T: Token> fmt::Debug for OutputPort<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutputPort({:?} in {:?})", self.name(), self.peer())
    }
}

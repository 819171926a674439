//! The way back to the sender of a token.

use std::sync::Arc;

use super::OutputPort;
use crate::route::FrameRoute;
use crate::sender::Sender;
use crate::token::Token;

/// The sender of a token, and the way back over the link on which the token came.
///
/// ```
/// use std::time::Duration;
///
/// use pario_net::Space;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let second = Duration::from_secs(1);
/// let server = Space::builder("server").host().build()?;
/// let orders = server.input::<u32>("orders")?;
///
/// let client = Space::builder("client").listen_nowhere().join(&server.address()).build()?;
/// let news = client.input::<String>("news")?;
/// let order = client.output::<u32>("orders", second)?;
/// let channel = news.open_reply_channel(&order).expect("the server is in another space");
/// order.send(channel)?;
///
/// let (channel, client) = orders.recv_with_reply_route(second)?;
/// let answer = client.output::<String>(channel).expect("the client is there");
/// answer.send("delivered".to_owned())?;
/// answer.flush();
/// assert_eq!(news.recv_timeout(second)?, "delivered");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReplyRoute {
    sender: Arc<Sender>,
    /// None for a sender of the same space.
    route: Option<Arc<FrameRoute>>,
}

impl ReplyRoute {
    pub(crate) fn new(sender: Arc<Sender>, route: Option<Arc<FrameRoute>>) -> Self {
        Self { sender, route }
    }

    /// The sender.
    pub fn sender(&self) -> &Arc<Sender> {
        &self.sender
    }

    /// Returns the output port to the channel of this number, which the sender has opened with
    /// [`InputPort::open_reply_channel`](crate::InputPort::open_reply_channel). Sending on it never
    /// waits; see [`OutputPort::queued_bytes`]. `None` if the sender is in the same space, or its
    /// link is lost. A sender that names a second number is cut off.
    pub fn output<T: Token>(&self, channel: u32) -> Option<OutputPort<T>> {
        self.route.as_ref()?.reply_channel(channel).map(OutputPort::remote)
    }

    /// Closes the link to the sender and records the refusal with this reason.
    pub fn cut_off(&self, reason: &str) {
        if let Some(route) = &self.route {
            route.cut_off(reason);
        }
    }
}

impl std::fmt::Debug for ReplyRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReplyRoute({:?})", self.sender.name)
    }
}

//! The protocol of the request port of a node.

use pario_net::{Bulk, Protocol};
use pario_proto::{NODE_PROTOCOL, ReplyMessage, RequestMessage};

/// The requests and replies of a node.
#[derive(Debug)]
pub enum NodeProtocol {}

impl Protocol for NodeProtocol {
    const NAME: &'static str = NODE_PROTOCOL;
    type Request = RequestMessage<Bulk>;
    type Reply = ReplyMessage<Bulk>;
}

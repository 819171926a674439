//! NodeProxy threads: each has something done by one node. They wait for nothing: other nodes are
//! asked, and what is to be done on disks of the own node is done by its clerks.

use std::sync::Arc;

use pario_flow::Continuation;
use pario_net::Bulk;
use pario_proto::{Failure, PeerRequest, Reply, ReplyMessage, Request};

use super::{AssignedTask, NodeTask, TaskOutcome, plain_reply};
use crate::node_state::NodeState;

/// A directory thread.
pub struct NodeProxy {
    shared: Arc<NodeState>,
    node: usize,
}

impl NodeProxy {
    /// The thread for a node.
    pub fn new(shared: Arc<NodeState>, node: usize) -> Self {
        Self { shared, node }
    }

    /// Has another node do something.
    pub fn ask(&mut self, work: AssignedTask, next: Continuation<TaskOutcome>) {
        let node = self.node;
        let request = match work.work {
            NodeTask::Remove { files, epoch } => PeerRequest::RemoveSubfiles { files, epoch },
            NodeTask::Describe { files } => PeerRequest::Describe { files },
            NodeTask::Revoke(revocation) => PeerRequest::Revoke(revocation),
            NodeTask::Make { .. } | NodeTask::Measure { .. } | NodeTask::Sync { .. } => {
                let why = "a question for another node came without a way back".to_owned();
                let name = self.shared.name().to_owned();
                let result = Err(Failure::Internal { node: name, why });
                next.call(TaskOutcome { node, result });
                return;
            }
        };
        let is_revocation = matches!(request, PeerRequest::Revoke(_));
        let shared = self.shared.clone();
        self.shared.peers.ask_then(node, Request::Peer(request), move |answer| {
            let result = answer.and_then(|answer| answer.result).map(|_| ());
            if let (true, Err(failure), Some(names)) = (is_revocation, &result, &shared.names) {
                tracing::warn!(%failure, "a node has not acknowledged a change of rights");
                names.uninformed_nodes.lock().insert(node);
            }
            next.call(TaskOutcome { node, result });
        });
    }

    /// Does what concerns no disk.
    pub fn perform(&mut self, work: NodeTask) -> ReplyMessage<Bulk> {
        if let NodeTask::Revoke(revocation) = work {
            self.shared.revoke(revocation);
        }
        plain_reply(Ok(Reply::Done))
    }
}

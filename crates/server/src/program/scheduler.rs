//! The scheduler of a node: it passes tasks to nodes and to disks, and extents to the disks and the
//! compute threads. It never waits: disks and other nodes reply later, and computes nothing.

use std::sync::Arc;

use pario_flow::Continuation;
use pario_net::Bulk;
use pario_proto::{Failure, PeerRequest, Reply, ReplyMessage, Request};

use super::subfile_tasks::{SubfileTask, SubfileTaskResult};
use super::{AssignedTask, NodeTask, TaskOutcome, plain_reply};
use crate::disk_access::DiskRequest;
use crate::node_state::NodeState;
use crate::sessions::NODE_CALLER;

/// The scheduler.
pub struct Scheduler {
    pub shared: Arc<NodeState>,
}

impl Scheduler {
    /// Creates the scheduler of a node.
    pub fn new(shared: Arc<NodeState>) -> Self {
        Self { shared }
    }

    /// Has a task performed in the lane of its disk.
    pub fn perform_subfile_task(
        &mut self,
        task: SubfileTask,
        next: Continuation<SubfileTaskResult>,
    ) {
        let shared = self.shared.clone();
        let queued = DiskRequest::new(&shared, task.disk, NODE_CALLER, task.kind(), 0);
        queued.run(move |queued| {
            let result = task.perform(&shared);
            drop((queued, shared));
            next.call(result);
        });
    }

    /// Sends a task to another node.
    pub fn ask_node(&mut self, assigned: AssignedTask, next: Continuation<TaskOutcome>) {
        let node = assigned.node;
        let request = match assigned.task {
            NodeTask::Remove { files, epoch } => PeerRequest::RemoveSubfiles { files, epoch },
            NodeTask::Describe { files } => PeerRequest::Describe { files },
            NodeTask::Revoke(revocation) => PeerRequest::Revoke(revocation),
            NodeTask::Create { .. } | NodeTask::Measure { .. } | NodeTask::Sync { .. } => {
                let why = "only this node can perform the task, which was assigned to another one"
                    .to_owned();
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
            if let (true, Err(failure), Some(interface)) = (is_revocation, &result, &shared.interface) {
                tracing::warn!(%failure, "a node has not acknowledged a change of rights; it will load all revocations");
                interface.uninformed_nodes.lock().insert(node);
            }
            next.call(TaskOutcome { node, result });
        });
    }

    /// Performs a task that concerns no disk.
    pub fn perform(&mut self, task: NodeTask) -> ReplyMessage<Bulk> {
        if let NodeTask::Revoke(revocation) = task {
            self.shared.revoke(revocation);
        }
        plain_reply(Ok(Reply::Done))
    }
}

//! Directory threads: each has something done by one node. They wait for nothing: other nodes are
//! asked, and what is to be done on disks of the own node is done by its clerks.

use std::sync::Arc;

use pario_flow::Continuation;
use pario_net::Bulk;
use pario_proto::{Failure, PeerRequest, Reply, ReplyMessage, Request};

use super::{SubfilesDone, SubfilesWork, Work, answer};
use crate::shared::Shared;

/// A directory thread.
pub struct Directory {
    shared: Arc<Shared>,
    node: usize,
}

impl Directory {
    /// The thread for a node.
    pub fn new(shared: Arc<Shared>, node: usize) -> Self {
        Self { shared, node }
    }

    /// Has another node do something.
    pub fn ask(&mut self, work: SubfilesWork, next: Continuation<SubfilesDone>) {
        let node = self.node;
        let request = match work.work {
            Work::Remove { files, epoch } => PeerRequest::RemoveSubfiles { files, epoch },
            Work::Describe { files } => PeerRequest::Describe { files },
            Work::Revoke(revocation) => PeerRequest::Revoke(revocation),
            Work::Make { .. } | Work::Measure { .. } | Work::Sync { .. } => {
                let why = "a question for another node came without a way back".to_owned();
                let name = self.shared.name().to_owned();
                let result = Err(Failure::Internal { node: name, why });
                next.call(SubfilesDone { node, result });
                return;
            }
        };
        let is_revocation = matches!(request, PeerRequest::Revoke(_));
        let shared = self.shared.clone();
        self.shared.peers.ask_then(node, Request::Peer(request), move |answer| {
            let result = answer.and_then(|answer| answer.result).map(|_| ());
            if let (true, Err(failure), Some(names)) = (is_revocation, &result, &shared.names) {
                tracing::warn!(%failure, "a node has not acknowledged a change of rights");
                names.untold.lock().insert(node);
            }
            next.call(SubfilesDone { node, result });
        });
    }

    /// Does what concerns no disk.
    pub fn work_here(&mut self, work: Work) -> ReplyMessage<Bulk> {
        if let Work::Revoke(revocation) = work {
            self.shared.revoke(revocation);
        }
        answer(Ok(Reply::Done))
    }
}

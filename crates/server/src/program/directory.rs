//! Directory threads: each has something done by one node. They wait for nothing: other nodes are
//! asked, and what is to be done on disks of the own node is done by its clerks.

use std::sync::Arc;

use pario_flow::Successor;
use pario_net::Bulk;
use pario_proto::{Answer, Failure, PeerRequest, Reply, Request};

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
    pub fn ask(&mut self, work: SubfilesWork, next: Successor<SubfilesDone>) {
        let node = self.node;
        let request = match work.work {
            Work::Remove { files } => PeerRequest::RemoveSubfiles { files },
            Work::Describe { files } => PeerRequest::Describe { files },
            Work::Revoke { file, rights_version } => PeerRequest::Revoke { file, rights_version },
            Work::Make { .. } | Work::Measure { .. } => {
                let why = "a question for another node came without a way back".to_owned();
                let name = self.shared.name().to_owned();
                let result = Err(Failure::Internal { node: name, why });
                next.call(SubfilesDone { node, result });
                return;
            }
        };
        self.shared.peers.ask_then(node, Request::Peer(request), move |answer| {
            let result = answer.and_then(|answer| answer.result).map(|_| ());
            next.call(SubfilesDone { node, result });
        });
    }

    /// Does what concerns no disk.
    pub fn work_here(&mut self, work: Work) -> Answer<Bulk> {
        if let Work::Revoke { file, rights_version } = work {
            self.shared.revoke(file, rights_version);
        }
        answer(Ok(Reply::Done))
    }
}

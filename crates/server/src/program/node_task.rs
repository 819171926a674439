//! What is done by the nodes of a cluster for each other.

use pario_flow::Token;
use pario_proto::{
    Failure, FileRecord, Grant, KnownFile, Revocation, SubfileIndex, SubfileLocation,
};

use crate::node_state::NodeState;

/// Something to be done by one node.
#[derive(Clone, Debug)]
pub struct AssignedTask {
    /// The node.
    pub node: usize,
    /// What.
    pub work: NodeTask,
}

impl Token for AssignedTask {}

/// What a node does.
#[derive(Clone, Debug)]
pub enum NodeTask {
    /// Removes the subfiles of files.
    Remove {
        /// The files.
        files: Vec<FileRecord>,
        /// The grant epoch: grants of the files are of this one or of one before.
        epoch: u64,
    },
    /// Writes into the descriptions of subfiles what the namespace says of their files.
    Describe {
        /// The files, with the subfiles that the node should have.
        files: Vec<(KnownFile, Vec<SubfileLocation>)>,
    },
    /// Grants of before are not valid any more.
    Revoke(Revocation),
    /// Makes sure that flat subfiles are there and open.
    Make {
        /// The right to.
        grant: Grant,
        /// Which, with the numbers of their disks.
        parts: Vec<(usize, SubfileLocation)>,
    },
    /// Makes subfiles durable.
    Sync {
        /// For each: the number of its disk, the right to, and which one; or why that cannot be.
        subfiles: Vec<Result<(usize, Grant, SubfileLocation), Failure>>,
    },
    /// Lengths and times.
    Measure {
        /// For each file: the right to, and which subfiles, with the numbers of their disks.
        files: Vec<(Grant, Vec<(usize, SubfileLocation)>)>,
    },
}

impl Token for NodeTask {}

impl NodeTask {
    /// Whether disks have to be touched, which may take long.
    pub fn is_for_disks(&self) -> bool {
        !matches!(self, NodeTask::Revoke(_))
    }
}

impl AssignedTask {
    /// Has a node describe those of some files that have subfiles on its disks.
    pub fn describe(shared: &NodeState, files: &[KnownFile], node: u64) -> Option<Self> {
        let map = shared.map.read();
        let is_there = |disk| map.disk(disk).is_some_and(|(of, _)| u64::from(of) == node);
        let mut found = Vec::new();
        for file in files {
            let Some(layout) = &file.record.layout else { continue };
            let parts = (0..).map(SubfileIndex).zip(layout.disks().as_slice());
            let parts = parts.filter(|(_, disk)| is_there(**disk));
            let parts: Vec<_> =
                parts.map(|(subfile, &disk)| SubfileLocation { disk, subfile }).collect();
            if !parts.is_empty() {
                found.push((file.clone(), parts));
            }
        }
        let node = usize::try_from(node).ok()?;
        (!found.is_empty()).then_some(Self { node, work: NodeTask::Describe { files: found } })
    }

    /// What this node has to do to describe files, if all their disks are here.
    pub fn describe_here(shared: &NodeState, files: &[KnownFile]) -> Option<NodeTask> {
        let me = u64::try_from(shared.me).ok()?;
        let work = Self::describe(shared, files, me)?.work;
        let disks = |file: &KnownFile| {
            file.record.layout.as_ref().map_or(0, |layout| layout.disks().as_slice().len())
        };
        let all: usize = files.iter().map(disks).sum();
        match &work {
            NodeTask::Describe { files }
                if files.iter().map(|(_, parts)| parts.len()).sum::<usize>() == all =>
            {
                Some(work)
            }
            _ => None,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct TaskOutcome {
    /// The node.
    pub node: usize,
    /// Whether it is done.
    pub result: Result<(), Failure>,
}

impl Token for TaskOutcome {}

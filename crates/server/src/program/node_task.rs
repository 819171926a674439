//! Tasks that the nodes of a cluster perform for clients and for each other.

use pario_flow::Token;
use pario_proto::{
    Failure, FileRecord, Grant, KnownFile, Revocation, SubfileIndex, SubfileLocation,
};

use crate::node_state::NodeState;

/// A task for one node.
#[derive(Clone, Debug)]
pub struct AssignedTask {
    /// The number of the node.
    pub node: usize,
    /// The task.
    pub task: NodeTask,
}

impl Token for AssignedTask {}

/// A task of a node.
#[derive(Clone, Debug)]
pub enum NodeTask {
    /// Removes the subfiles of files.
    Remove {
        /// The files.
        files: Vec<FileRecord>,
        /// The grant epoch: grants of the files are of this epoch or an earlier one.
        epoch: u64,
    },
    /// Writes what the namespace says of files into their descriptions.
    Describe {
        /// The files, with the subfiles on disks of the node.
        files: Vec<(KnownFile, Vec<SubfileLocation>)>,
    },
    /// Revokes older grants of a file.
    Revoke(Revocation),
    /// Creates flat subfiles that do not exist, and opens them.
    Create {
        /// The grant.
        grant: Grant,
        /// The subfiles, with the numbers of their disks.
        parts: Vec<(usize, SubfileLocation)>,
    },
    /// Syncs subfiles.
    Sync {
        /// For each subfile: the number of its disk, the grant and the subfile; or the reason of a
        /// refusal.
        subfiles: Vec<Result<(usize, Grant, SubfileLocation), Failure>>,
    },
    /// Measures lengths and times.
    Measure {
        /// For each file: the grant and the subfiles, with the numbers of their disks.
        files: Vec<(Grant, Vec<(usize, SubfileLocation)>)>,
    },
}

impl Token for NodeTask {}

impl NodeTask {
    /// Returns whether the task accesses disks, which may take long.
    pub fn is_for_disks(&self) -> bool {
        !matches!(self, NodeTask::Revoke(_))
    }
}

impl AssignedTask {
    /// Returns the task of a node to describe those files that have subfiles on its disks.
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
        (!found.is_empty()).then_some(Self { node, task: NodeTask::Describe { files: found } })
    }

    /// Returns the task to describe files, if all their disks are on this node.
    pub fn describe_here(shared: &NodeState, files: &[KnownFile]) -> Option<NodeTask> {
        let me = u64::try_from(shared.me).ok()?;
        let task = Self::describe(shared, files, me)?.task;
        let disks = |file: &KnownFile| {
            file.record.layout.as_ref().map_or(0, |layout| layout.disks().as_slice().len())
        };
        let all: usize = files.iter().map(disks).sum();
        match &task {
            NodeTask::Describe { files }
                if files.iter().map(|(_, parts)| parts.len()).sum::<usize>() == all =>
            {
                Some(task)
            }
            _ => None,
        }
    }
}

/// The outcome of a task on one node.
#[derive(Clone, Debug)]
pub struct TaskOutcome {
    /// The number of the node.
    pub node: usize,
    /// Whether the task is done.
    pub result: Result<(), Failure>,
}

impl Token for TaskOutcome {}

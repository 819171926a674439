//! The node as a dataflow program: its threads and its operations.

mod compaction;
mod compute;
mod cut;
mod extent_scheduler;
mod extent_storage;
mod file_creation;
mod grant_renewal;
mod interface;
mod layout_change;
mod node_proxy;
mod node_task;
mod reader;
mod scheduled_extent;
mod storage;
mod subfile_worker;

use std::sync::Arc;

use pario_flow::{OperationRef, Program, RunningProgram, Token};
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    DiskId, ExtentPlacement, Failure, FileId, FileRecord, Grant, Identity, KnownFile,
    NamespaceRequest, ReplyMessage, Request, Revocation, SubfileLocation,
};

pub use cut::{CutCall, CutRequest, PlacedPiece};
pub use extent_scheduler::ProcessCall;
pub use interface::Interface;
pub use node_proxy::NodeProxy;
pub use node_task::{AssignedTask, NodeTask, TaskOutcome};
pub use storage::Storage;
pub use subfile_worker::{SubfileTask, SubfileTaskResults, SubfileTasks, SubfileWorker};

use compute::Compute;
use extent_scheduler::{ExtentScheduler, ProcessThreads};
use reader::{READERS_PER_DISK, Reader};

use crate::disks::QUEUE_LIMIT;
use crate::error::NodeError;
use crate::node_state::NodeState;
use crate::storage_threads::QueuedRequest;

/// The limit of calls under way, besides those in the queues of the disks. The dispatcher waits
/// while the limit is reached.
const CALLS_LIMIT: usize = 4096;

/// Batches of extents of one call under way; more if there are many disks or processors.
const BATCHES_UNDER_WAY: usize = 32;

/// The operations of a node.
#[derive(Clone, Copy)]
pub struct Operations {
    /// Reads or changes the bytes or extents of a subfile.
    pub data: OperationRef<DataCall, ReplyMessage<Bulk>>,
    /// Serves a namespace request, except changes of rights.
    pub namespace: OperationRef<NamespaceCall, ReplyMessage<Bulk>>,
    /// Changes rights, and revokes older grants on all nodes.
    pub set_rights: OperationRef<NamespaceCall, ReplyMessage<Bulk>>,
    /// Removes the subfiles of deleted files on all nodes.
    pub purge: OperationRef<Vec<FileRecord>, Purged>,
    /// Writes what the namespace says of files into their descriptions on all nodes.
    pub describe: OperationRef<Vec<KnownFile>, Described>,
    /// Like `data`, for a subfile of which this node does not know whether it exists.
    pub find_data: OperationRef<DataCall, ReplyMessage<Bulk>>,
    /// Performs a task on this node, for a client or another node.
    pub perform_task: OperationRef<NodeTask, ReplyMessage<Bulk>>,
    /// Processes the extents of a file.
    pub process: OperationRef<ProcessCall, ProcessCall>,
    /// Cuts pieces of extents for another node.
    pub cut: OperationRef<CutCall, ReplyMessage<Bulk>>,
}

/// A request on a subfile of this node.
#[derive(Clone, Debug)]
pub struct DataCall {
    /// The storage thread.
    pub thread: usize,
    /// The place in the queue of that thread, if the request goes there.
    pub queued: Option<Arc<QueuedRequest>>,
    /// The number of the disk.
    pub disk: usize,
    /// The request.
    pub request: Request,
    /// The bytes that came with it.
    pub data: Vec<Bulk>,
    /// The failure of an earlier lookup of the subfile.
    pub failure: Option<Failure>,
}

impl Token for DataCall {}

impl DataCall {
    /// Returns the grant and the subfile of the request.
    pub fn subfile(&self) -> Option<(&Grant, SubfileLocation)> {
        let of = |disk: &DiskId, place: &ExtentPlacement| SubfileLocation {
            disk: *disk,
            subfile: place.subfile,
        };
        Some(match &self.request {
            Request::Read { grant, part, .. }
            | Request::Write { grant, part, .. }
            | Request::Resize { grant, part, .. }
            | Request::Grow { grant, part, .. }
            | Request::SetModified { grant, part, .. }
            | Request::Compact { grant, part, .. }
            | Request::Sync { grant, part } => (grant, *part),
            Request::ReadExtent { grant, disk, place }
            | Request::WriteExtent { grant, disk, place }
            | Request::DeleteExtent { grant, disk, place } => (grant, of(disk, place)),
            Request::ListExtents { grant, disk, from, .. } => (grant, of(disk, from)),
            _ => return None,
        })
    }

    /// Returns the number of bytes that came with the request.
    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|segment| segment.len() as u64).sum()
    }
}

/// A namespace request.
#[derive(Clone, Debug)]
pub struct NamespaceCall {
    /// The address space of the client.
    pub space: SpaceId,
    /// The identity of the client.
    pub who: Identity,
    /// The request.
    pub request: NamespaceRequest,
}

impl Token for NamespaceCall {}

/// A change of rights on its way to all nodes.
#[derive(Clone, Debug)]
pub struct RightsChange {
    /// The record with the new rights.
    pub result: Result<FileRecord, Failure>,
    /// The grant epoch after the change.
    pub epoch: u64,
    /// The names of all nodes, and whether each holds a part of the file.
    pub nodes: Vec<(String, bool)>,
    /// Nodes with a part of the file that have not acknowledged the change.
    pub untold: Vec<String>,
}

impl Token for RightsChange {}

/// The result of removing the subfiles of deleted files.
#[derive(Clone, Debug)]
pub struct Purged {
    /// All files.
    pub files: Vec<FileId>,
    /// Nodes that have not removed all subfiles.
    pub failed: Vec<u32>,
}

impl Token for Purged {}

/// The result of writing descriptions.
#[derive(Clone, Debug)]
pub struct Described {
    /// Nodes that have not written all descriptions.
    pub failed: Vec<u32>,
}

impl Token for Described {}

/// Starts the program of a node.
pub fn launch(shared: &Arc<NodeState>) -> Result<(RunningProgram, Operations), NodeError> {
    let mut program = Program::new("node");
    let (nodes, me) = (shared.config.nodes.len(), shared.me);
    let config = shared.node();
    program.limit_calls(CALLS_LIMIT + config.disks.len() * QUEUE_LIMIT);
    let state = shared.clone();
    let interface = program.thread("Interface", move || Interface::new(state.clone()));
    let state = shared.clone();
    let proxies = program.pool("NodeProxy", nodes, move |node| NodeProxy::new(state.clone(), node));
    let state = shared.clone();
    let storage = program
        .pool("Storage", shared.storage_threads.count(), move |_| Storage::new(state.clone()));
    let state = shared.clone();
    let subfile_worker = program.pool("SubfileWorker", config.disks.len().max(1), move |_| {
        SubfileWorker::new(state.clone())
    });
    let compute_threads = config.compute_threads.max(1);
    let compute = program.pool("Compute", compute_threads, Compute::new);
    let scheduler = program.thread("ExtentScheduler", || ExtentScheduler);

    let data = program.operation("data", |b| {
        b.on(storage.at(|call: &DataCall| call.thread)).run(Storage::serve).named("serve")
    });
    let namespace = program
        .operation("namespace", |b| b.on(interface).run_async(Interface::serve).named("serve"));
    let state = shared.clone();
    let subfile_tasks = program.operation("subfile tasks", |b| {
        b.on(proxies.thread(me))
            .map(move |task: NodeTask| {
                if let NodeTask::Remove { files, epoch } = &task {
                    state.revoke_removed(files, *epoch);
                }
                SubfileTasks::of(&task, &state.disks)
            })
            .split_indexed(SubfileTasks::numbers, SubfileTasks::task)
            .on(subfile_worker.at(|task: &SubfileTask| task.disk))
            .run(SubfileWorker::perform)
            .named("perform")
            .merge(proxies.thread(me), SubfileTasks::initial_results, SubfileTaskResults::add)
            .map(SubfileTaskResults::into_reply)
    });
    let perform_task = program.operation("perform task", |b| {
        b.on(proxies.thread(me)).if_else(
            NodeTask::is_for_disks,
            |b| b.call(subfile_tasks),
            |b| b.run(NodeProxy::perform).named("perform"),
        )
    });
    let assign_task = program.operation("assign task", |b| {
        b.on(proxies.at(|assigned: &AssignedTask| assigned.node)).if_else(
            move |assigned: &AssignedTask| assigned.node == me,
            |b| {
                b.map(|assigned| assigned.task)
                    .call(perform_task)
                    .map(move |answer| TaskOutcome { node: me, result: answer.result.map(|_| ()) })
            },
            |b| b.run_async(NodeProxy::ask_node).named("ask"),
        )
    });
    let set_rights = program.operation("set rights", |b| {
        b.on(interface)
            .run_async(Interface::set_rights)
            .named("set rights")
            .split_indexed(RightsChange::nodes_to_tell, RightsChange::task_of)
            .call(assign_task)
            .merge(interface, Clone::clone, RightsChange::note)
            .run_async(Interface::describe_rights)
            .named("describe rights")
            .map(RightsChange::into_reply)
    });
    let state = shared.clone();
    let purge = program.operation("purge", |b| {
        b.on(interface)
            .split_indexed(
                move |_: &Vec<FileRecord>| 0..nodes as u64,
                move |files, node| {
                    let epoch = state.known_grant_epoch();
                    let task = NodeTask::Remove { files: files.clone(), epoch };
                    Some(AssignedTask { node: usize::try_from(node).ok()?, task })
                },
            )
            .call(assign_task)
            .merge(
                interface,
                |files| Purged {
                    files: files.iter().map(|file| file.id).collect(),
                    failed: Vec::new(),
                },
                Purged::note,
            )
    });
    let find_data = program.operation("find data", |b| {
        b.on(subfile_worker.at(|call: &DataCall| call.disk))
            .run(SubfileWorker::find_subfile)
            .named("find")
            .on(storage.at(|call: &DataCall| call.thread))
            .run(Storage::serve)
            .named("serve")
    });
    let state = shared.clone();
    let describe = program.operation("describe", |b| {
        b.on(interface)
            .split_indexed(
                move |_: &Vec<KnownFile>| 0..nodes as u64,
                move |files, node| AssignedTask::describe(&state, files, node),
            )
            .call(assign_task)
            .merge(interface, |_| Described { failed: Vec::new() }, Described::note)
    });
    let window = BATCHES_UNDER_WAY.max(4 * (config.disks.len() + compute_threads));
    let readers = program.pool("Reader", READERS_PER_DISK * config.disks.len().max(1), |_| Reader);
    let threads = ProcessThreads { scheduler, storage, readers, compute, window };
    let process = extent_scheduler::add_to(&mut program, threads);
    let cut = cut::add_to(&mut program, scheduler, storage);
    let run = program.launch(None).map_err(|error| NodeError::Other(error.to_string()))?;
    Ok((
        run,
        Operations {
            data,
            namespace,
            set_rights,
            purge,
            describe,
            find_data,
            perform_task,
            process,
            cut,
        },
    ))
}

impl RightsChange {
    fn nodes_to_tell(&self) -> std::ops::Range<u64> {
        0..if self.result.is_ok() { self.nodes.len() as u64 } else { 0 }
    }

    fn task_of(&self, node: u64) -> Option<AssignedTask> {
        let record = self.result.as_ref().ok()?;
        record.layout.as_ref()?;
        let (file, first_valid, epoch) = (record.id, record.rights_version, self.epoch);
        let task = NodeTask::Revoke(Revocation { file, first_valid, epoch });
        Some(AssignedTask { node: usize::try_from(node).ok()?, task })
    }

    /// A node that holds no part of the file uses no grant of it.
    fn note(&mut self, done: TaskOutcome) {
        if let (Err(_), Some((name, true))) = (&done.result, self.nodes.get(done.node)) {
            self.untold.push(name.clone());
        }
    }

    fn into_reply(mut self) -> ReplyMessage<Bulk> {
        self.untold.sort();
        let untold = self.untold;
        plain_reply(self.result.map(|_| pario_proto::Reply::RightsSet { untold }))
    }
}

impl Described {
    fn note(&mut self, done: TaskOutcome) {
        if let Err(failure) = done.result {
            tracing::debug!(%failure, "a node has not described files");
            self.failed.push(u32::try_from(done.node).unwrap_or(u32::MAX));
        }
    }
}

impl Purged {
    fn note(&mut self, done: TaskOutcome) {
        if done.result.is_err() {
            self.failed.push(u32::try_from(done.node).unwrap_or(u32::MAX));
        }
    }
}

/// Returns a reply without data.
pub fn plain_reply(result: Result<pario_proto::Reply, Failure>) -> ReplyMessage<Bulk> {
    ReplyMessage { result, data: Vec::new() }
}

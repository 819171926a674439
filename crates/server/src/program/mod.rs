//! The node as a dataflow program: its threads and its operations.

mod clerk;
mod compaction;
mod compute;
mod creating;
mod cut;
mod directory;
mod extents;
mod here;
mod interface;
mod process;
mod reader;
mod renewing;
mod storage;
mod visit;
mod work;

use std::sync::Arc;

use pario_flow::{OperationRef, Program, RunningProgram};
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    DiskId, ExtentPlacement, Failure, FileId, FileRecord, Grant, Identity, KnownFile,
    NamespaceRequest, ReplyMessage, Request, Revocation, SubfileLocation,
};
use serde::{Deserialize, Serialize};

pub use clerk::{Clerk, Gathered, Task, Tasks};
pub use cut::{CutCall, Cutting};
pub use directory::Directory;
pub use interface::Interface;
pub use process::Calling;
pub use storage::Storage;
pub use work::{SubfilesDone, SubfilesWork, Work};

use compute::Compute;
use process::{Walker, Workers};
use reader::{READERS, Reader};

use crate::disks::CROWD;
use crate::error::NodeError;
use crate::shared::Shared;

/// So many calls may be under way, besides those that wait for disks, which the door counts;
/// further requests wait in front of it.
const CALLS: usize = 4096;

/// So many companies of extents of a call may be under way, and more if there are many disks or
/// processors.
const UNDER_WAY: usize = 32;

/// The operations of a node.
#[derive(Clone, Copy)]
pub struct Operations {
    /// Something with the bytes or extents of a subfile.
    pub data: OperationRef<DataCall, ReplyMessage<Bulk>>,
    /// Something with names, but changing rights.
    pub names: OperationRef<NamesCall, ReplyMessage<Bulk>>,
    /// Changes rights, and tells all nodes that older grants are not valid.
    pub set_rights: OperationRef<NamesCall, ReplyMessage<Bulk>>,
    /// Removes the subfiles of deleted files everywhere.
    pub purge: OperationRef<Vec<FileRecord>, Purged>,
    /// Writes into the descriptions of subfiles, everywhere, what the namespace says of their files.
    pub describe: OperationRef<Vec<KnownFile>, Described>,
    /// The same as `data` for a subfile of which this node does not know whether it is there.
    pub find_data: OperationRef<DataCall, ReplyMessage<Bulk>>,
    /// Something that another node wants to be done here.
    pub here: OperationRef<Work, ReplyMessage<Bulk>>,
    /// Work with extents.
    pub process: OperationRef<Calling, Calling>,
    /// Parts of extents that another node wants.
    pub cut: OperationRef<Cutting, ReplyMessage<Bulk>>,
}

/// A request for a subfile of this node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DataCall {
    /// The storage thread that serves the disk.
    pub thread: usize,
    /// The number of the disk.
    pub disk: usize,
    /// What is asked.
    pub request: Request,
    /// What goes with it.
    pub data: Vec<Bulk>,
    /// Why the subfile cannot be found, if it was looked for.
    pub failure: Option<Failure>,
}

impl DataCall {
    /// Which subfile it is about.
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

    /// How many bytes came with it.
    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|segment| segment.len() as u64).sum()
    }
}

/// A request for names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamesCall {
    /// The client's address space.
    pub space: SpaceId,
    /// As whom it is known.
    pub who: Identity,
    /// What is asked.
    pub request: NamespaceRequest,
}

/// Rights on their way to all nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
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

/// Which deleted files have no subfiles any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Purged {
    /// All files.
    pub files: Vec<FileId>,
    /// Nodes that have not removed everything.
    pub failed: Vec<u32>,
}

/// Which nodes have not described files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Described {
    /// Nodes that have not described everything.
    pub failed: Vec<u32>,
}

/// Starts the program of a node.
pub fn launch(shared: &Arc<Shared>) -> Result<(RunningProgram, Operations), NodeError> {
    let mut program = Program::new("node");
    let (nodes, me) = (shared.config.nodes.len(), shared.me);
    let config = shared.node();
    program.limit_calls(CALLS + config.disks.len() * CROWD);
    let state = shared.clone();
    let interface = program.thread("Interface", move || Interface::new(state.clone()));
    let state = shared.clone();
    let directory =
        program.pool("Directory", nodes, move |node| Directory::new(state.clone(), node));
    let state = shared.clone();
    let storage =
        program.pool("Storage", config.storage_threads, move |_| Storage::new(state.clone()));
    let state = shared.clone();
    let clerk =
        program.pool("Clerk", config.disks.len().max(1), move |_| Clerk::new(state.clone()));
    let compute_threads = config.compute_threads.max(1);
    let compute = program.pool("Compute", compute_threads, Compute::new);
    let walker = program.thread("Walker", || Walker);

    let data = program.operation("data", |b| {
        b.on(storage.at(|call: &DataCall| call.thread)).run(Storage::serve).named("serve")
    });
    let names =
        program.operation("names", |b| b.on(interface).run_async(Interface::serve).named("serve"));
    let state = shared.clone();
    let on_disks = program.operation("on disks", |b| {
        b.on(directory.thread(me))
            .map(move |work: Work| {
                if let Work::Remove { files, epoch } = &work {
                    state.bury(files, *epoch);
                }
                Tasks::of(&work, &state.disks)
            })
            .split_indexed(Tasks::numbers, Tasks::task)
            .on(clerk.at(|task: &Task| task.disk))
            .run(Clerk::work)
            .named("work")
            .merge(directory.thread(me), Tasks::nothing_done, Gathered::add)
            .map(Gathered::answer)
    });
    let here = program.operation("here", |b| {
        b.on(directory.thread(me)).if_else(
            Work::is_for_disks,
            |b| b.call(on_disks),
            |b| b.run(Directory::work_here).named("work here"),
        )
    });
    let everywhere = program.operation("everywhere", |b| {
        b.on(directory.at(|work: &SubfilesWork| work.node)).if_else(
            move |work: &SubfilesWork| work.node == me,
            |b| {
                b.map(|work| work.work)
                    .call(here)
                    .map(move |answer| SubfilesDone { node: me, result: answer.result.map(|_| ()) })
            },
            |b| b.run_async(Directory::ask).named("ask"),
        )
    });
    let set_rights = program.operation("set rights", |b| {
        b.on(interface)
            .run_async(Interface::set_rights)
            .named("set rights")
            .split_indexed(RightsChange::nodes_to_tell, RightsChange::part)
            .call(everywhere)
            .merge(interface, Clone::clone, RightsChange::note)
            .run_async(Interface::describe_rights)
            .named("describe rights")
            .map(RightsChange::answer)
    });
    let state = shared.clone();
    let purge = program.operation("purge", |b| {
        b.on(interface)
            .split_indexed(
                move |_: &Vec<FileRecord>| 0..nodes as u64,
                move |files, node| {
                    let epoch = state.known_grant_epoch();
                    let work = Work::Remove { files: files.clone(), epoch };
                    Some(SubfilesWork { node: usize::try_from(node).ok()?, work })
                },
            )
            .call(everywhere)
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
        b.on(clerk.at(|call: &DataCall| call.disk))
            .run(Clerk::find)
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
                move |files, node| SubfilesWork::describe(&state, files, node),
            )
            .call(everywhere)
            .merge(interface, |_| Described { failed: Vec::new() }, Described::note)
    });
    let window = UNDER_WAY.max(4 * (config.disks.len() + compute_threads));
    let readers = program.pool("Reader", READERS * config.disks.len().max(1), |_| Reader);
    let workers = Workers { walker, storage, readers, compute, window };
    let process = process::add_to(&mut program, workers);
    let cut = cut::add_to(&mut program, walker, storage);
    let run = program.launch(None).map_err(|error| NodeError::Other(error.to_string()))?;
    Ok((
        run,
        Operations { data, names, set_rights, purge, describe, find_data, here, process, cut },
    ))
}

impl RightsChange {
    fn nodes_to_tell(&self) -> std::ops::Range<u64> {
        0..if self.result.is_ok() { self.nodes.len() as u64 } else { 0 }
    }

    fn part(&self, node: u64) -> Option<SubfilesWork> {
        let record = self.result.as_ref().ok()?;
        record.layout.as_ref()?;
        let (file, first_valid, epoch) = (record.id, record.rights_version, self.epoch);
        let work = Work::Revoke(Revocation { file, first_valid, epoch });
        Some(SubfilesWork { node: usize::try_from(node).ok()?, work })
    }

    /// A node that holds no part of the file has no use for its grants.
    fn note(&mut self, done: SubfilesDone) {
        if let (Err(_), Some((name, true))) = (&done.result, self.nodes.get(done.node)) {
            self.untold.push(name.clone());
        }
    }

    fn answer(mut self) -> ReplyMessage<Bulk> {
        self.untold.sort();
        let untold = self.untold;
        answer(self.result.map(|_| pario_proto::Reply::RightsSet { untold }))
    }
}

impl Described {
    fn note(&mut self, done: SubfilesDone) {
        if let Err(failure) = done.result {
            tracing::debug!(%failure, "a node has not described files");
            self.failed.push(u32::try_from(done.node).unwrap_or(u32::MAX));
        }
    }
}

impl Purged {
    fn note(&mut self, done: SubfilesDone) {
        if done.result.is_err() {
            self.failed.push(u32::try_from(done.node).unwrap_or(u32::MAX));
        }
    }
}

/// An answer without data.
pub fn answer(result: Result<pario_proto::Reply, Failure>) -> ReplyMessage<Bulk> {
    ReplyMessage { result, data: Vec::new() }
}

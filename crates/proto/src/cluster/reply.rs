//! Replies of a node.

use serde::{Deserialize, Serialize};

use super::atomic::{AtomicOutcome, AtomicWait};
use super::check::{CheckReport, FoundSubfile};
use super::compaction::CompactionProgress;
use super::failure::Failure;
use super::grant::{Grant, Revocation};
use super::job::{JobMemoryId, SharedFileId, TableLocation, TeamPlace};
use super::job_status::JobStatus;
use super::lock::{LockOutcome, LockWait};
use super::map::{ClusterMap, NodeInfo};
use super::module::ModuleRecord;
use super::path::FilePath;
use super::process::ProcessUpdate;
use super::record::{DirectoryEntry, FileRecord, Identity};
use super::request::SubfileLocation;
use super::status::NodeStatus;
use crate::ids::{ExtentIndex, SubfileIndex};
use crate::modes::call::CallOutcome;

/// A reply with its data. `B` carries bytes without a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplyMessage<B> {
    /// The reply, or why the request failed.
    pub result: Result<Reply, Failure>,
    /// For reads: the bytes, range after range. For extents: header and body. For processing calls:
    /// results.
    pub data: Vec<B>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// The client is accepted.
    Welcome {
        /// The name of the node.
        node: String,
        /// The identity under which the node knows the client.
        identity: Identity,
        /// The cluster.
        map: ClusterMap,
        /// The descriptor socket, if this node passes descriptors to the client.
        descriptors: Option<String>,
    },
    /// The cluster.
    Map(ClusterMap),
    /// The bytes that each range has, up to the end of its subfile; they are in the data.
    Read {
        /// One length for each range.
        lens: Vec<u64>,
    },
    /// One list for each file.
    Measured(Vec<Vec<SubfileMeasure>>),
    /// Whether the extent exists; if so, header and body are in the data.
    Extent {
        /// Whether it exists.
        is_there: bool,
    },
    /// Whether the extent existed.
    Deleted {
        /// Whether it existed.
        was_there: bool,
    },
    /// Extents in order.
    Extents(Vec<ExtentMeasure>),
    /// A file is open.
    Opened(Opened),
    /// All ranks of a job have made the barrier.
    BarrierDone {
        /// The job memory in which the ranks coordinate from now on, if there is one.
        memory: Option<JobMemoryId>,
    },
    /// A file is open for all ranks of a job.
    OpenedForAll {
        /// The open file of the rank that has asked. If one rank has asked for all, that of rank 0:
        /// the handles of the others follow in the order of ranks.
        opened: Opened,
        /// The id of the shared file.
        shared_file: SharedFileId,
        /// The coordination table, if the ranks coordinate in the job memory.
        table: Option<TableLocation>,
    },
    /// The outcome of a call on a shared file; bytes that were read for all are in the data.
    Shared(CallOutcome),
    /// A record, and a grant to measure the file.
    Stat {
        /// The record.
        record: FileRecord,
        /// The grant to measure the file; directories have none.
        grant: Option<Grant>,
    },
    /// Names in order, with grants to measure the files.
    Entries {
        /// The names.
        entries: Vec<DirectoryEntry>,
        /// One for each name; none for directories.
        grants: Vec<Option<Grant>>,
        /// Whether there are more.
        is_more: bool,
    },
    /// The subfile is durable, if it exists.
    Synced {
        /// Whether it exists.
        is_there: bool,
    },
    /// A file, for another node; `None` if there is none, or if it was deleted and no client has it
    /// open.
    File(Option<KnownFile>),
    /// The status of the node.
    Status(Box<NodeStatus>),
    /// The result of a check.
    Checked(CheckReport),
    /// The cluster map with the ids of disks, and the part of the node that joined.
    Joined {
        /// The cluster.
        map: ClusterMap,
        /// The node that joined.
        node: NodeInfo,
    },
    /// Subfiles of a node.
    Subfiles {
        /// In order of disk, file, subfile.
        found: Vec<FoundSubfile>,
        /// Whether there are more.
        is_more: bool,
    },
    /// The subfile accepts changes again.
    Repaired {
        /// Bytes that were read from its disk.
        read_bytes: u64,
    },
    /// The jobs that the node coordinates.
    Jobs(Vec<JobStatus>),
    /// The result of a reset.
    Reset {
        /// The jobs that were forgotten.
        jobs: Vec<String>,
        /// The shared files that were ended.
        files: Vec<FilePath>,
    },
    /// The outcome of a call on locks.
    Lock(LockOutcome),
    /// The processes that wait for locks, longest first.
    LockWaits(Vec<LockWait>),
    /// The news of a processing call; results are in the data.
    Processed(Box<ProcessUpdate>),
    /// Parts of extents are in the data.
    Cut,
    /// Where the machines of a job meet.
    TeamPlace(TeamPlace),
    /// Owner, group or mode are set.
    RightsSet {
        /// Nodes that have subfiles of the file and have not acknowledged in time: they may accept
        /// earlier grants until they reach the interface node again.
        untold: Vec<String>,
    },
    /// The grant epoch.
    GrantNews {
        /// The current epoch.
        epoch: u64,
        /// Whether the node has missed a revocation and must load all of them again.
        must_reload: bool,
    },
    /// Revocations that are in force.
    Revocations {
        /// The current grant epoch.
        epoch: u64,
        /// In the order of files.
        revocations: Vec<Revocation>,
        /// Whether there are more.
        is_more: bool,
    },
    /// The device of the file system of each disk, in the order of the node's status; `None` for a
    /// disk that does not answer. Disks of one machine with the same device share its space.
    FileSystems(Vec<Option<u64>>),
    /// The result of each file of a request for several files.
    Each(Vec<Result<(), Failure>>),
    /// The open file, or the failure, of each file.
    OpenedMany(Vec<Result<Opened, Failure>>),
    /// Whether each subfile exists; if so, it is durable.
    SyncedMany(Vec<Result<bool, Failure>>),
    /// A step of a compaction is done.
    Compacted(CompactionProgress),
    /// The outcome of a call of an opener.
    Atomic(AtomicOutcome),
    /// The openers that wait at the node, longest first.
    AtomicWaits(Vec<AtomicWait>),
    /// The process has joined an unnamed job.
    UnnamedJobJoined {
        /// The name that the node has given the job. No other job has it, also after restarts.
        job: String,
    },
    /// A process of a job may open a file.
    OpenTurn {
        /// The number of the open.
        open: u64,
        /// Whether it is the first of the job: it creates and truncates the file if it asks for that,
        /// and then says that the file is open. The others open the file as it is.
        is_first: bool,
    },
    /// A module; its bytes are in the data if they were asked for.
    Module(Box<ModuleRecord>),
    /// All modules, in the order of names.
    Modules(Vec<ModuleRecord>),
}

/// A file, as the namespace knows it and as the descriptions of its subfiles say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFile {
    /// Its path; `None` if the file is deleted or the path has become too long for a description.
    pub path: Option<FilePath>,
    /// How often it was renamed.
    pub path_version: u32,
    /// The file.
    pub record: FileRecord,
}

impl KnownFile {
    /// Whether a subfile belongs to the file, lies on this disk, and is not first-synced: then a
    /// node may create it, and it reads as a hole before.
    pub fn may_make(&self, part: SubfileLocation) -> bool {
        let layout = self.record.layout.as_ref();
        let disk = layout.and_then(|layout| layout.disks().disk_of(part.subfile));
        disk == Some(part.disk) && !self.record.is_first_synced(part.subfile.0)
    }
}

/// An open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The record.
    pub record: FileRecord,
    /// The right to use it.
    pub grant: Grant,
    /// The handle.
    pub handle: u64,
    /// Whether this call has created it.
    pub is_created: bool,
    /// Milliseconds of use after which the client renews the grant.
    pub renew_after_ms: u64,
}

/// The size and times of a subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubfileMeasure {
    /// The subfile.
    pub subfile: SubfileIndex,
    /// Its length; for extents, the bytes of all headers and bodies.
    pub len: u64,
    /// The bytes that it occupies on the disk.
    pub disk_bytes: u64,
    /// The number of extents.
    pub extents: u64,
    /// When it last changed, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// An extent in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentMeasure {
    /// Its index in its subfile.
    pub extent: ExtentIndex,
    /// Bytes of its header.
    pub header_len: u64,
    /// Bytes of its body.
    pub body_len: u64,
}

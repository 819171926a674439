//! What comes back.

use serde::{Deserialize, Serialize};

use super::check::{CheckReport, FoundSubfile};
use super::failure::Failure;
use super::grant::{Grant, Revocation};
use super::group::{AssemblyId, MemoryId, TablePlace, TeamPlace};
use super::jobs::JobStatus;
use super::lock::{LockOutcome, LockWait};
use super::map::{ClusterMap, NodeInfo};
use super::path::FilePath;
use super::process::Processed;
use super::record::{Entry, FileRecord, Identity};
use super::request::Part;
use super::status::NodeStatus;
use crate::ids::{ExtentIndex, SubfileIndex};
use crate::modes::call::Outcome;

/// The answer to a question. `B` is what carries bytes without a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer<B> {
    /// What came of it.
    pub result: Result<Reply, Failure>,
    /// For reads: the bytes, range after range. For extents: header and body. For work with extents:
    /// its results.
    pub data: Vec<B>,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// The client is known.
    Welcome {
        /// The name of the node.
        node: String,
        /// As whom the client is known.
        identity: Identity,
        /// The cluster.
        map: ClusterMap,
        /// Where descriptors of flat subfiles are given out, if this node does that for the client.
        descriptors: Option<String>,
    },
    /// The cluster.
    Map(ClusterMap),
    /// How many bytes of each range there were, up to the end of its subfile; the data follows.
    Read {
        /// One for each range.
        lens: Vec<u64>,
    },
    /// One list for each file.
    Measured(Vec<Vec<SubfileMeasure>>),
    /// Whether there is such an extent; if so, header and body are in the data.
    Extent {
        /// Whether.
        is_there: bool,
    },
    /// Whether there was such an extent.
    Deleted {
        /// Whether.
        was_there: bool,
    },
    /// Extents in order.
    Extents(Vec<ExtentMeasure>),
    /// A file is open.
    Opened(Opened),
    /// All processes of a job have met.
    Met {
        /// Memory that they can have from the node, to meet there from now on.
        memory: Option<MemoryId>,
    },
    /// A file is open for all processes of a job.
    OpenedTogether {
        /// For the process that has asked; if it has asked for all, for rank 0: the handles of the
        /// others follow in the order of ranks.
        opened: Opened,
        /// The opening.
        assembly: AssemblyId,
        /// If all meet in memory that they can have from the node, and not by messages: where.
        table: Option<TablePlace>,
    },
    /// What came of a call of a file that was opened together; what was read for all is in the
    /// data.
    Shared(Outcome),
    /// A record, and a grant to measure the file.
    Stat {
        /// The record.
        record: FileRecord,
        /// To measure it; directories have none.
        grant: Option<Grant>,
    },
    /// Names in order, with grants to measure the files.
    Entries {
        /// The names.
        entries: Vec<Entry>,
        /// One for each; none for directories.
        grants: Vec<Option<Grant>>,
        /// Whether there are more.
        is_more: bool,
    },
    /// The subfile is durable, if it has come into being.
    Synced {
        /// Whether it has.
        is_there: bool,
    },
    /// A file, for another node; nothing if there is none, or only one that was deleted and that
    /// no client has open.
    File(Option<KnownFile>),
    /// How the node is doing.
    Status(Box<NodeStatus>),
    /// What a check has found.
    Checked(CheckReport),
    /// The cluster's nodes as they are now, with the ids of disks; and the node's own part.
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
    /// A subfile takes changes again.
    Repaired {
        /// Bytes that were read from its disk.
        read_bytes: u64,
    },
    /// The jobs whose processes meet here.
    Jobs(Vec<JobStatus>),
    /// What was reset.
    Reset {
        /// The jobs that were forgotten.
        jobs: Vec<String>,
        /// The files whose openings were ended.
        files: Vec<FilePath>,
    },
    /// What came of a call about locks.
    Lock(LockOutcome),
    /// Who waits for locks, longest first.
    LockWaits(Vec<LockWait>),
    /// What has come of work with extents; results are in the data.
    Processed(Box<Processed>),
    /// Parts of extents are in the data.
    Cut,
    /// Where the machines of a job come together.
    TeamPlace(TeamPlace),
    /// Owner, group or mode are as wanted.
    RightsSet {
        /// Nodes that hold a part of the file and have not acknowledged it in time: they may accept
        /// grants of before until they reach the interface node again.
        untold: Vec<String>,
    },
    /// The grant epoch.
    GrantNews {
        /// Which one it is.
        epoch: u64,
        /// Whether the node has missed a revocation and must load all again.
        must_reload: bool,
    },
    /// Revocations that count.
    Revocations {
        /// Which grant epoch it is.
        epoch: u64,
        /// In the order of files.
        revocations: Vec<Revocation>,
        /// Whether there are more.
        is_more: bool,
    },
    /// The device of the file system of each disk, in the order of the node's status; nothing for a
    /// disk that could not be asked. Disks of one machine with the same device share its space.
    FileSystems(Vec<Option<u64>>),
    /// What came of each file of a request for several.
    Each(Vec<Result<(), Failure>>),
    /// Files are open, or why one is not.
    OpenedMany(Vec<Result<Opened, Failure>>),
    /// Whether each subfile has come into being; if so, it is durable.
    SyncedMany(Vec<Result<bool, Failure>>),
}

/// What the namespace says of a file: the descriptions of its subfiles say the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFile {
    /// Its path; nothing if it is deleted, or if its path has become too long to be written.
    pub path: Option<FilePath>,
    /// How often it was renamed.
    pub path_version: u32,
    /// The file.
    pub record: FileRecord,
}

impl KnownFile {
    /// Whether a subfile belongs to the file, lies where it should, and was never synced: then it
    /// may be made, and reads as a hole before.
    pub fn may_make(&self, part: Part) -> bool {
        let layout = self.record.layout.as_ref();
        let disk = layout.and_then(|layout| layout.disks().disk_of(part.subfile));
        disk == Some(part.disk) && !self.record.is_settled(part.subfile.0)
    }
}

/// An open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// What it is.
    pub record: FileRecord,
    /// The right to use it.
    pub grant: Grant,
    /// For closing it.
    pub handle: u64,
    /// Whether it was created by this very call.
    pub is_created: bool,
    /// After how many milliseconds of use the client renews the grant.
    pub renew_after_ms: u64,
}

/// The size and times of a subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubfileMeasure {
    /// Which one.
    pub subfile: SubfileIndex,
    /// Its length; for extents, the bytes of all headers and bodies.
    pub len: u64,
    /// What it takes on the disk.
    pub disk_bytes: u64,
    /// For extents: how many.
    pub extents: u64,
    /// When it last changed, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// An extent in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentMeasure {
    /// Which one of its subfile.
    pub extent: ExtentIndex,
    /// Bytes of its header.
    pub header_len: u64,
    /// Bytes of its body.
    pub body_len: u64,
}

//! What is asked.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::check::CheckDepth;
use super::grant::{Access, Grant, Revocation};
use super::group::{JobCall, OpenTogether, Seat, SharedRequest, TeamCall};
use super::lock::LockRequest;
use super::map::NodeInfo;
use super::path::FilePath;
use super::process::ProcessRequest;
use super::record::{FileKind, FileRecord, Identity};
use super::reply::KnownFile;
use crate::ids::{DiskId, FileId, SubfileIndex};
use crate::layout::encoding::Layout;
use crate::layout::tiles::ExtentPlace;
use crate::modes::call::digest;

/// The version of everything in this folder: a node talks to clients of the same version.
pub const PROTOCOL_VERSION: u32 = 2;

/// The most data that one request or reply carries; who wants more sends several.
pub const TRANSFER_LIMIT_BYTES: u64 = 4 << 20;

/// The most ranges of one request.
pub const RANGES_LIMIT: usize = 16_384;

/// The most bytes of data that one question or answer carries: an extent of the largest size, with
/// its header.
pub const TOKEN_LIMIT_BYTES: usize = 129 << 20;

/// A question to a node: the request, and the data that goes with it. `B` is what carries bytes
/// without a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question<B> {
    /// What is asked.
    pub request: Request,
    /// For writes: the bytes, in the order of the ranges. For extents: header and body. For work
    /// with extents: the parameters of the operation.
    pub data: Vec<B>,
}

/// What a process that says hello is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerKind {
    /// A client, which acts for its user.
    Client,
    /// A node of the cluster, which acts for all users. Believed of the administrator and of root
    /// on the same machine, and of holders of the cluster's key.
    Node,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first one of a connection.
    Hello {
        /// [`PROTOCOL_VERSION`] of the client.
        version: u32,
        /// Who the client says it is; a node believes it only from holders of the cluster's key.
        identity: Identity,
        /// What people call the client, such as the name of its program.
        client: String,
        /// What it is. Only a node of the cluster may call itself one.
        peer: PeerKind,
    },
    /// Which nodes and disks there are.
    Map,
    /// Something about names; only the interface node answers.
    Namespace(NamespaceRequest),
    /// Bytes of a flat subfile.
    Read {
        /// The right to.
        grant: Grant,
        /// Which subfile.
        part: Part,
        /// Which bytes.
        ranges: Vec<SubfileRange>,
    },
    /// Writes bytes of a flat subfile, which comes into being with the first one.
    Write {
        /// The right to.
        grant: Grant,
        /// Which subfile.
        part: Part,
        /// Which bytes.
        ranges: Vec<SubfileRange>,
    },
    /// Lengths and times of the subfiles that this node has of some files.
    Measure {
        /// For each file: the right to, and which subfiles.
        files: Vec<(Grant, Vec<Part>)>,
    },
    /// Cuts or extends a flat subfile.
    Resize {
        /// The right to.
        grant: Grant,
        /// Which subfile.
        part: Part,
        /// Its length from now on.
        len: u64,
    },
    /// Makes a flat subfile at least so long.
    Grow {
        /// The right to.
        grant: Grant,
        /// Which subfile.
        part: Part,
        /// How long it is at least from now on.
        len: u64,
    },
    /// Makes a subfile durable, if it has come into being.
    Sync {
        /// The right to.
        grant: Grant,
        /// Which one.
        part: Part,
    },
    /// An extent.
    ReadExtent {
        /// The right to.
        grant: Grant,
        /// On which disk.
        disk: DiskId,
        /// Which one.
        place: ExtentPlace,
    },
    /// Replaces an extent.
    WriteExtent {
        /// The right to.
        grant: Grant,
        /// On which disk.
        disk: DiskId,
        /// Which one.
        place: ExtentPlace,
    },
    /// Deletes an extent.
    DeleteExtent {
        /// The right to.
        grant: Grant,
        /// On which disk.
        disk: DiskId,
        /// Which one.
        place: ExtentPlace,
    },
    /// Extents of one subfile, in order.
    ListExtents {
        /// The right to.
        grant: Grant,
        /// On which disk.
        disk: DiskId,
        /// The first one wanted.
        from: ExtentPlace,
        /// At most so many.
        limit: u32,
    },
    /// What the processes of a job do together; answered when all have asked.
    Job {
        /// Who asks.
        seat: Seat,
        /// How many such questions it has asked before.
        number: u64,
        /// What.
        call: JobCall,
    },
    /// Opens a file for all processes of a job, who have agreed on it in memory that they have in
    /// common.
    OpenForAll {
        /// Who asks.
        seat: Seat,
        /// What all want.
        open: OpenTogether,
    },
    /// Something with a file that was opened together.
    Shared(SharedRequest),
    /// How the node is doing.
    Status,
    /// To stop: what is acknowledged is finished, new work is refused.
    Stop,
    /// Checks namespace against disks.
    Check(CheckRequest),
    /// From node to node.
    Peer(PeerRequest),
    /// The jobs whose processes meet here, and who waits for whom: those of the user who asks, all
    /// of them for administrators.
    Jobs,
    /// Ends meetings and shared openings of files: whoever waits is told. Jobs of the user who
    /// asks, all of them for administrators.
    Reset {
        /// Openings of these files; if there are none, of all files, and the jobs too.
        files: Vec<FilePath>,
    },
    /// Something about the locks of an open file; a wait is answered when it is over.
    Lock(LockRequest),
    /// Who waits for locks: processes of the user who asks, all of them for administrators.
    LockWaits,
    /// Work with the extents of a file.
    Process(ProcessRequest),
    /// Where the machines of a job come together without a node.
    Team {
        /// The job. Jobs of different users are different ones.
        job: String,
        /// What about it.
        call: TeamCall,
    },
    /// Sets when a flat subfile last changed. Only the first subfile of a file is made for it.
    SetModified {
        /// The right to write.
        grant: Grant,
        /// Which subfile.
        part: Part,
        /// Nanoseconds since 1970.
        modified_ns: u64,
    },
    /// The file systems of the node's disks.
    FileSystems,
    /// Makes subfiles of this node durable, those of a disk together. At most
    /// [`FILES_LIMIT`](super::limits::FILES_LIMIT). Each has its own result.
    SyncMany {
        /// For each: the right to, and which one.
        subfiles: Vec<(Grant, Part)>,
    },
}

impl Request {
    /// The kind of the request, for messages and logs.
    pub fn kind(&self) -> &'static str {
        match self {
            Request::Hello { .. } => "hello",
            Request::Map => "map",
            Request::Namespace(request) => request.kind(),
            Request::Read { .. } => "read",
            Request::Write { .. } => "write",
            Request::Measure { .. } => "measure",
            Request::Resize { .. } => "resize",
            Request::Grow { .. } => "grow",
            Request::Sync { .. } => "sync",
            Request::ReadExtent { .. } => "read extent",
            Request::WriteExtent { .. } => "write extent",
            Request::DeleteExtent { .. } => "delete extent",
            Request::ListExtents { .. } => "list extents",
            Request::Job { .. } => "job",
            Request::OpenForAll { .. } => "open for all",
            Request::Shared(_) => "shared file",
            Request::Status => "status",
            Request::Stop => "stop",
            Request::Check(_) => "check",
            Request::Peer(_) => "peer",
            Request::Jobs => "jobs",
            Request::Reset { .. } => "reset",
            Request::Lock(_) => "lock",
            Request::LockWaits => "lock waits",
            Request::Process(_) => "process",
            Request::Team { .. } => "team",
            Request::SetModified { .. } => "set time",
            Request::FileSystems => "file systems",
            Request::SyncMany { .. } => "sync many",
        }
    }
}

impl NamespaceRequest {
    /// The kind of the request, for messages and logs.
    pub fn kind(&self) -> &'static str {
        match self {
            NamespaceRequest::Open { .. } => "open",
            NamespaceRequest::Create { .. } => "create",
            NamespaceRequest::Close { .. } => "close",
            NamespaceRequest::Renew { .. } => "renew",
            NamespaceRequest::Settle { .. } => "settle",
            NamespaceRequest::Remove { .. } => "remove",
            NamespaceRequest::MakeDirectory { .. } => "make directory",
            NamespaceRequest::RemoveDirectory { .. } => "remove directory",
            NamespaceRequest::Rename { .. } => "rename",
            NamespaceRequest::Stat { .. } => "stat",
            NamespaceRequest::List { .. } => "list",
            NamespaceRequest::SetRights { .. } => "set rights",
            NamespaceRequest::SetDirectoryTime { .. } => "set time of directory",
            NamespaceRequest::OpenMany { .. } => "open many",
            NamespaceRequest::CreateMany { .. } => "create many",
            NamespaceRequest::CloseMany { .. } => "close many",
            NamespaceRequest::MarkSynced { .. } => "mark synced",
            NamespaceRequest::RemoveMany { .. } => "remove many",
        }
    }
}

/// A subfile and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// On which disk.
    pub disk: DiskId,
    /// Which one of its file.
    pub subfile: SubfileIndex,
}

/// Consecutive bytes of one subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubfileRange {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

/// Something about names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespaceRequest {
    /// Opens a file.
    Open {
        /// Which one.
        path: FilePath,
        /// What for.
        access: Access,
    },
    /// Creates a file and opens it; opens the one that is there, unless told not to.
    Create {
        /// Which one.
        path: FilePath,
        /// What for.
        access: Access,
        /// An existing file is an error.
        is_new: bool,
        /// Permissions of a new one.
        mode: u32,
        /// Layout of a new one.
        layout: LayoutWish,
    },
    /// The file is no longer in use by this client.
    Close {
        /// What the open gave.
        handle: u64,
    },
    /// A new grant for an open file, as rights are now.
    Renew {
        /// What the open gave.
        handle: u64,
        /// The last grant: proof of the open where the handle is not known, because the node was
        /// restarted.
        grant: Grant,
    },
    /// Subfiles that were synced for the first time.
    Settle {
        /// The right to.
        grant: Grant,
        /// Which ones.
        subfiles: Vec<SubfileIndex>,
    },
    /// Deletes a file.
    Remove {
        /// Which one.
        path: FilePath,
    },
    /// Makes a directory.
    MakeDirectory {
        /// Which one.
        path: FilePath,
        /// Its permissions.
        mode: u32,
    },
    /// Removes an empty directory.
    RemoveDirectory {
        /// Which one.
        path: FilePath,
    },
    /// Gives a file or directory another path. What is there before is replaced: a file by a file,
    /// an empty directory by a directory.
    Rename {
        /// The old path.
        from: FilePath,
        /// The new one.
        to: FilePath,
    },
    /// The record, and a grant to measure the file.
    Stat {
        /// Which one.
        path: FilePath,
    },
    /// The names in a directory, in order.
    List {
        /// Which one.
        path: FilePath,
        /// Only names after this one.
        after: Option<String>,
        /// At most so many.
        limit: u32,
    },
    /// Changes owner, group or mode.
    SetRights {
        /// Of which file.
        path: FilePath,
        /// The new mode.
        mode: Option<u32>,
        /// The new owner.
        uid: Option<u32>,
        /// The new group.
        gid: Option<u32>,
    },
    /// Sets when the names of a directory last changed. For its owner and for root.
    SetDirectoryTime {
        /// Which one.
        path: FilePath,
        /// Nanoseconds since 1970.
        changed_ns: u64,
    },
    /// Opens files. This request and the four that follow take at most
    /// [`FILES_LIMIT`](super::limits::FILES_LIMIT) files, make their changes durable together, and
    /// give each file its own result: the failure of one concerns no other.
    OpenMany {
        /// Which ones.
        paths: Vec<FilePath>,
        /// What for.
        access: Access,
    },
    /// Creates files and opens them; opens those that are there, unless told not to.
    CreateMany {
        /// Which ones.
        files: Vec<NewFile>,
        /// What for.
        access: Access,
        /// An existing file is an error.
        is_new: bool,
        /// Layout of new ones.
        layout: LayoutWish,
    },
    /// Files are no longer in use by this client.
    CloseMany {
        /// What the opens gave.
        handles: Vec<u64>,
    },
    /// Subfiles that were synced for the first time, of several files.
    MarkSynced {
        /// For each file: the right to, and which subfiles.
        files: Vec<(Grant, Vec<SubfileIndex>)>,
    },
    /// Removes files and empty directories, in this order: a directory follows what is in it.
    RemoveMany {
        /// Which ones.
        entries: Vec<Removal>,
    },
}

/// A file to be created together with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFile {
    /// Which one.
    pub path: FilePath,
    /// Its permissions.
    pub mode: u32,
}

/// A file or an empty directory to be removed together with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// Which one.
    pub path: FilePath,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// How a new file is to be spread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutWish {
    /// Bytes in units.
    Striped {
        /// The unit; the cluster's own if not given.
        unit_bytes: Option<u64>,
        /// Over which disks.
        disks: DisksWish,
    },
    /// Extents under numbers.
    Extents {
        /// Over which disks.
        disks: DisksWish,
    },
    /// Just so.
    Exactly(Layout),
}

impl LayoutWish {
    /// What kind of file it makes.
    pub fn kind(&self) -> FileKind {
        match self {
            LayoutWish::Striped { .. } | LayoutWish::Exactly(Layout::Striped(_)) => FileKind::Flat,
            LayoutWish::Extents { .. } | LayoutWish::Exactly(_) => FileKind::Extents,
        }
    }
}

impl fmt::Display for LayoutWish {
    /// For people, behind a comma; nothing for what every file has. Two that differ have different
    /// texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutWish::Striped { unit_bytes: None, disks } => disks.fmt(f),
            LayoutWish::Striped { unit_bytes: Some(bytes), disks } => {
                write!(f, ", in units of {bytes} bytes{disks}")
            }
            LayoutWish::Extents { disks } => write!(f, ", of extents{disks}"),
            LayoutWish::Exactly(layout) => {
                let kind = match layout {
                    Layout::Striped(_) => "striped",
                    Layout::Tiles(_) => "tiles",
                    Layout::Extents(_) => "extents",
                };
                write!(f, ", with a given layout ({kind} {:016x})", digest(&layout.encode()))
            }
        }
    }
}

/// Over which disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisksWish {
    /// All that can be written to, beginning at a different one each time.
    All,
    /// So many of them, beginning at a different one each time.
    Count(u32),
    /// These, in this order.
    These(Vec<DiskId>),
}

impl fmt::Display for DisksWish {
    /// For people; nothing if it is all of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DisksWish::All => Ok(()),
            DisksWish::Count(1) => f.write_str(", on one disk"),
            DisksWish::Count(count) => write!(f, ", over {count} disks"),
            DisksWish::These(disks) => {
                let disks: Vec<String> = disks.iter().map(ToString::to_string).collect();
                write!(f, ", over {}", disks.join(", "))
            }
        }
    }
}

/// What nodes ask each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerRequest {
    /// A node that is there: what the interface node should know of it.
    Join {
        /// The node; ids of disks do not count.
        node: NodeInfo,
    },
    /// Removes the subfiles of files that lie on disks of this node. None is not an error.
    RemoveSubfiles {
        /// The files.
        files: Vec<FileRecord>,
        /// The grant epoch: grants of the files are of this one or of one before, and are not valid
        /// any more.
        epoch: u64,
    },
    /// Grants of a file with an older version are not valid any more.
    Revoke(Revocation),
    /// What the namespace says of a file: asked by a node before it makes a subfile.
    FindFile {
        /// The file.
        file: FileId,
    },
    /// Writes into the descriptions of subfiles, durably, the paths of their files, who owns them and
    /// which subfiles were synced. A subfile that is not there is no error; a disk that is not there
    /// is one.
    Describe {
        /// The files, with the subfiles that the node should have.
        files: Vec<(KnownFile, Vec<Part>)>,
    },
    /// Reads every byte of a flat subfile whose sync has failed, and lets it take changes again.
    RepairSubfile {
        /// Which disk.
        disk: DiskId,
        /// Which file.
        file: FileId,
        /// Which subfile.
        subfile: SubfileIndex,
    },
    /// All subfiles of this node.
    ListSubfiles {
        /// Only after this one.
        after: Option<(DiskId, FileId, SubfileIndex)>,
        /// At most so many.
        limit: u32,
        /// How closely to look at each.
        depth: CheckDepth,
    },
    /// Which grant epoch it is, and whether the node that asks must load all revocations again.
    GrantNews {
        /// The name of the node that asks.
        node: String,
    },
    /// The revocations that count, in the order of files.
    Revocations {
        /// The name of the node that asks.
        node: String,
        /// The epoch that it knows: the interface node never counts from a lower one.
        known_epoch: Option<u64>,
        /// Only those of files after this one.
        after: Option<FileId>,
    },
}

/// What a check is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRequest {
    /// How closely to look.
    pub depth: CheckDepth,
    /// Whether to repair what can be repaired without loss.
    pub is_repair: bool,
    /// Whether to make the namespace from what the disks say.
    pub is_rebuild: bool,
}

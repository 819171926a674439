//! Requests to a node.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::atomic::AtomicRequest;
use super::check::CheckDepth;
use super::compaction::CompactionCursor;
use super::grant::{Access, Grant, Revocation};
use super::job::{
    CollectiveOpen, JobCall, JobOpenCall, Member, ProcessName, SharedRequest, TeamCall,
};
use super::lock::LockRequest;
use super::map::NodeInfo;
use super::module::{ModuleHash, ModuleReference, ModuleRequest};
use super::path::FilePath;
use super::process::ProcessRequest;
use super::record::{FileKind, FileRecord, Identity};
use super::reply::KnownFile;
use crate::ids::{DiskId, FileId, SubfileIndex};
use crate::layout::encoding::Layout;
use crate::layout::tiles::ExtentPlacement;
use crate::modes::call::digest;

/// The version of all messages in this folder: a node accepts clients of the same version.
pub const PROTOCOL_VERSION: u32 = 3;

/// The name of the protocol between clients and nodes, with [`PROTOCOL_VERSION`].
pub const NODE_PROTOCOL: &str = "pario.node/3";

/// The name of the port at which every node receives requests.
pub const REQUEST_PORT: &str = "requests";

/// Data of one request or reply; a client with more sends several requests.
pub const TRANSFER_LIMIT_BYTES: u64 = 4 << 20;

/// Ranges of one request.
pub const RANGES_LIMIT: usize = 16_384;

/// Data of one message: the largest extent, with its header.
pub const TOKEN_LIMIT_BYTES: usize = 129 << 20;

/// A request with its data. `B` carries bytes without a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestMessage<B> {
    /// The request.
    pub request: Request,
    /// For writes: the bytes, in the order of the ranges. For extents: header and body. For
    /// processing calls: the parameters of the operation.
    pub data: Vec<B>,
}

/// The kind of a process that says hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerKind {
    /// A client, which acts for its user.
    Client,
    /// A node of the cluster, which acts for all users. A node believes it of the administrator and
    /// of root on the same machine, and of holders of the cluster's key.
    Node,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first request of a connection.
    Hello {
        /// [`PROTOCOL_VERSION`] of the client.
        version: u32,
        /// The identity that the client claims; a node believes it only from holders of the
        /// cluster's key.
        identity: Identity,
        /// The display name of the client, such as the name of its program.
        client: String,
        /// The kind of the client. Only a node of the cluster may claim to be one.
        peer: PeerKind,
    },
    /// Asks for the cluster map.
    Map,
    /// A request about names, for the interface node.
    Namespace(NamespaceRequest),
    /// Reads bytes of a flat subfile.
    Read {
        /// The right to read.
        grant: Grant,
        /// The subfile.
        part: SubfileLocation,
        /// The bytes.
        ranges: Vec<SubfileRange>,
    },
    /// Writes bytes of a flat subfile; the first write creates the subfile.
    Write {
        /// The right to write.
        grant: Grant,
        /// The subfile.
        part: SubfileLocation,
        /// The bytes.
        ranges: Vec<SubfileRange>,
    },
    /// Measures subfiles of this node: lengths and times.
    Measure {
        /// For each file, the right to measure it, and its subfiles.
        files: Vec<(Grant, Vec<SubfileLocation>)>,
    },
    /// Sets the length of a flat subfile.
    Resize {
        /// The right to write.
        grant: Grant,
        /// The subfile.
        part: SubfileLocation,
        /// The new length.
        len: u64,
    },
    /// Extends a flat subfile to at least a length.
    Grow {
        /// The right to write.
        grant: Grant,
        /// The subfile.
        part: SubfileLocation,
        /// The length.
        len: u64,
    },
    /// Makes a subfile durable, if it exists.
    Sync {
        /// The right to use the file.
        grant: Grant,
        /// The subfile.
        part: SubfileLocation,
    },
    /// Reads an extent.
    ReadExtent {
        /// The right to read.
        grant: Grant,
        /// The disk.
        disk: DiskId,
        /// The extent.
        place: ExtentPlacement,
    },
    /// Replaces an extent.
    WriteExtent {
        /// The right to write.
        grant: Grant,
        /// The disk.
        disk: DiskId,
        /// The extent.
        place: ExtentPlacement,
    },
    /// Deletes an extent.
    DeleteExtent {
        /// The right to write.
        grant: Grant,
        /// The disk.
        disk: DiskId,
        /// The extent.
        place: ExtentPlacement,
    },
    /// Lists extents of one subfile, in order.
    ListExtents {
        /// The right to read.
        grant: Grant,
        /// The disk.
        disk: DiskId,
        /// The first extent to list.
        from: ExtentPlacement,
        /// The largest number to list.
        limit: u32,
    },
    /// A collective call of a job; the reply comes when all ranks have called.
    Job {
        /// The rank that calls.
        member: Member,
        /// The number of such calls that the rank has made before.
        number: u64,
        /// The call.
        call: JobCall,
    },
    /// Opens a file for all ranks of a job, which have agreed on it in the job memory.
    OpenForAll {
        /// The rank that asks.
        member: Member,
        /// The options.
        open: CollectiveOpen,
    },
    /// A call on a shared file.
    Shared(SharedRequest),
    /// Asks for the status of the node.
    Status,
    /// Stops the node: it finishes what it has acknowledged, and refuses new work.
    Stop,
    /// Checks the namespace against the disks.
    Check(CheckRequest),
    /// A request of another node.
    Peer(PeerRequest),
    /// Asks for the jobs that the node coordinates, and who waits for whom: those of the user, or
    /// all for administrators.
    Jobs,
    /// Ends jobs and shared files; their waiting calls fail. Affects jobs of the user, or all for
    /// administrators.
    Reset {
        /// The shared files to end; if empty, all of them, and the jobs too.
        files: Vec<FilePath>,
    },
    /// A call on the locks of an open file; the reply to a wait comes when it is over.
    Lock(LockRequest),
    /// Asks for the processes that wait for locks: those of the user, or all for administrators.
    LockWaits,
    /// A request about a processing call.
    Process(ProcessRequest),
    /// A request about the place where the machines of a job meet.
    Team {
        /// The name of the job. Jobs of different users are different jobs.
        job: String,
        /// The request.
        call: TeamCall,
    },
    /// Sets the modification time of a flat subfile. Creates only the first subfile of a file.
    SetModified {
        /// The right to write.
        grant: Grant,
        /// The subfile.
        part: SubfileLocation,
        /// Nanoseconds since 1970.
        modified_ns: u64,
    },
    /// Asks for the file systems of the node's disks.
    FileSystems,
    /// Makes subfiles of this node durable, those of a disk together. At most
    /// [`FILES_LIMIT`](super::limits::FILES_LIMIT). Each has its own result.
    SyncMany {
        /// For each subfile, the right to use the file, and the subfile.
        subfiles: Vec<(Grant, SubfileLocation)>,
    },
    /// Runs one step of the compaction of an extent subfile.
    Compact {
        /// The right to write.
        grant: Grant,
        /// The subfile.
        part: SubfileLocation,
        /// The cursor of the step before; `None` for the first step.
        cursor: Option<CompactionCursor>,
    },
    /// A call of an opener at the home node of its file, for atomic access.
    Atomic(AtomicRequest),
    /// Asks for the openers that wait at this node: those of the user, or all for administrators.
    AtomicWaits,
    /// Joins an unnamed job: the processes of the user that give the same size, each with its own
    /// rank, while the job is incomplete. The reply names the job.
    JoinUnnamedJob {
        /// The number of ranks.
        size: u32,
        /// The rank of this process.
        rank: u32,
        /// This process, for the error of another one with the same rank.
        process: ProcessName,
    },
    /// A call of a process that opens a file without the other processes of its job.
    JobOpen {
        /// The process.
        member: Member,
        /// The call.
        call: JobOpenCall,
    },
    /// A request about operations that are WebAssembly modules, for the interface node.
    Module(ModuleRequest),
}

impl Request {
    /// The kind of the request, for messages, logs and counters.
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
            Request::Compact { .. } => "compact",
            Request::Atomic(_) => "atomic access",
            Request::AtomicWaits => "atomic waits",
            Request::JoinUnnamedJob { .. } => "join unnamed job",
            Request::JobOpen { .. } => "job open",
            Request::Module(_) => "module",
        }
    }
}

impl NamespaceRequest {
    /// The kind of the request, for messages, logs and counters.
    pub fn kind(&self) -> &'static str {
        match self {
            NamespaceRequest::Open { .. } => "open",
            NamespaceRequest::Create { .. } => "create",
            NamespaceRequest::Close { .. } => "close",
            NamespaceRequest::Renew { .. } => "renew",
            NamespaceRequest::MarkSynced { .. } => "settle",
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
            NamespaceRequest::MarkSyncedMany { .. } => "mark synced",
            NamespaceRequest::RemoveMany { .. } => "remove many",
            NamespaceRequest::SetLayout { .. } => "set layout",
        }
    }
}

/// A subfile and the disk on which it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubfileLocation {
    /// The disk.
    pub disk: DiskId,
    /// Its index in its file.
    pub subfile: SubfileIndex,
}

/// Consecutive bytes of one subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubfileRange {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// A request about names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespaceRequest {
    /// Opens a file.
    Open {
        /// The path.
        path: FilePath,
        /// The access.
        access: Access,
    },
    /// Creates a file and opens it. An existing file is opened, unless `is_new` is set.
    Create {
        /// The path.
        path: FilePath,
        /// The access.
        access: Access,
        /// Whether an existing file is an error.
        is_new: bool,
        /// Permissions of a new file.
        mode: u32,
        /// Layout of a new file.
        layout: LayoutChoice,
    },
    /// Closes an open file.
    Close {
        /// The handle.
        handle: u64,
    },
    /// Asks for a new grant for an open file, with its current rights.
    Renew {
        /// The handle.
        handle: u64,
        /// The last grant: it proves the open if the node has been restarted and does not know the
        /// handle.
        grant: Grant,
    },
    /// Marks subfiles as first-synced.
    MarkSynced {
        /// The right to use the file.
        grant: Grant,
        /// The subfiles.
        subfiles: Vec<SubfileIndex>,
    },
    /// Deletes a file.
    Remove {
        /// The path.
        path: FilePath,
    },
    /// Creates a directory.
    MakeDirectory {
        /// The path.
        path: FilePath,
        /// Its permissions.
        mode: u32,
    },
    /// Removes an empty directory.
    RemoveDirectory {
        /// The path.
        path: FilePath,
    },
    /// Renames a file or directory. Replaces an existing file by a file, and an empty directory by
    /// a directory.
    Rename {
        /// The old path.
        from: FilePath,
        /// The new path.
        to: FilePath,
    },
    /// Asks for the record of an entry, and a grant to measure it.
    Stat {
        /// The path.
        path: FilePath,
    },
    /// Lists the names in a directory, in order.
    List {
        /// The directory.
        path: FilePath,
        /// The name after which to begin.
        after: Option<String>,
        /// The largest number of names.
        limit: u32,
    },
    /// Changes owner, group or mode.
    SetRights {
        /// The path.
        path: FilePath,
        /// The new mode.
        mode: Option<u32>,
        /// The new owner.
        uid: Option<u32>,
        /// The new group.
        gid: Option<u32>,
    },
    /// Sets the time of the last change of the names of a directory. Only for its owner and for
    /// root.
    SetDirectoryTime {
        /// The directory.
        path: FilePath,
        /// Nanoseconds since 1970.
        changed_ns: u64,
    },
    /// Opens files. This request and the four that follow take at most
    /// [`FILES_LIMIT`](super::limits::FILES_LIMIT) files, make their changes durable together, and
    /// give each file its own result: the failure of one file does not affect the others.
    OpenMany {
        /// The paths.
        paths: Vec<FilePath>,
        /// The access.
        access: Access,
    },
    /// Creates files and opens them. Existing files are opened, unless `is_new` is set.
    CreateMany {
        /// The files.
        files: Vec<NewFile>,
        /// The access.
        access: Access,
        /// Whether an existing file is an error.
        is_new: bool,
        /// Layout of new files.
        layout: LayoutChoice,
    },
    /// Closes open files.
    CloseMany {
        /// The handles.
        handles: Vec<u64>,
    },
    /// Marks subfiles of several files as first-synced.
    MarkSyncedMany {
        /// For each file, the right to use it, and the subfiles.
        files: Vec<(Grant, Vec<SubfileIndex>)>,
    },
    /// Removes files and empty directories, in this order: a directory follows its entries.
    RemoveMany {
        /// The entries.
        entries: Vec<Removal>,
    },
    /// Gives an empty file another layout: a new file takes its name, owner and permissions. Fails
    /// while any other handle of the file is open. The client closes the handle and opens the name
    /// again.
    SetLayout {
        /// The handle, which is open for writing.
        handle: u64,
        /// The new layout, of the same kind.
        layout: LayoutChoice,
    },
}

/// A file to create together with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFile {
    /// The path.
    pub path: FilePath,
    /// Its permissions.
    pub mode: u32,
}

/// A file or an empty directory to remove together with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The path.
    pub path: FilePath,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// The layout of a new file, as its creator chooses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayoutChoice {
    /// Bytes in units.
    Striped {
        /// The striping unit; `None` for the default.
        unit_bytes: Option<u64>,
        /// The disks.
        disks: DiskChoice,
    },
    /// Numbered extents.
    Extents {
        /// The disks.
        disks: DiskChoice,
    },
    /// A given layout.
    Exactly(Layout),
}

impl LayoutChoice {
    /// The kind of the new file.
    pub fn kind(&self) -> FileKind {
        match self {
            LayoutChoice::Striped { .. } | LayoutChoice::Exactly(Layout::Striped(_)) => {
                FileKind::Flat
            }
            LayoutChoice::Extents { .. } | LayoutChoice::Exactly(_) => FileKind::Extents,
        }
    }
}

impl fmt::Display for LayoutChoice {
    /// Displays the choice after a comma; the default choice is empty. Two choices that differ have
    /// different texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutChoice::Striped { unit_bytes: None, disks } => disks.fmt(f),
            LayoutChoice::Striped { unit_bytes: Some(bytes), disks } => {
                write!(f, ", in units of {bytes} bytes{disks}")
            }
            LayoutChoice::Extents { disks } => write!(f, ", of extents{disks}"),
            LayoutChoice::Exactly(layout) => {
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

/// The disks of a new file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskChoice {
    /// All writable disks, beginning at a different one each time.
    All,
    /// This number of writable disks, beginning at a different one each time.
    Count(u32),
    /// These, in this order.
    These(Vec<DiskId>),
}

impl fmt::Display for DiskChoice {
    /// Displays the choice; all disks are the empty text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskChoice::All => Ok(()),
            DiskChoice::Count(1) => f.write_str(", on one disk"),
            DiskChoice::Count(count) => write!(f, ", over {count} disks"),
            DiskChoice::These(disks) => {
                let disks: Vec<String> = disks.iter().map(ToString::to_string).collect();
                write!(f, ", over {}", disks.join(", "))
            }
        }
    }
}

/// A request of one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerRequest {
    /// Joins the cluster: what the interface node needs to know of the node.
    Join {
        /// The node; its disk ids are ignored.
        node: NodeInfo,
    },
    /// Removes the subfiles that files have on this node. A missing subfile is not an error.
    RemoveSubfiles {
        /// The files.
        files: Vec<FileRecord>,
        /// The current grant epoch: grants of the files are not newer, and are invalid from now on.
        epoch: u64,
    },
    /// Makes grants of a file with an older rights version invalid.
    Revoke(Revocation),
    /// Asks what the namespace knows of a file; a node asks this before it creates a subfile.
    FindFile {
        /// The file.
        file: FileId,
    },
    /// Writes path, owner, mode and first-synced subfiles durably into the descriptions of subfiles.
    /// A missing subfile is not an error, but a missing disk is.
    Describe {
        /// The files, with the subfiles that the node should have.
        files: Vec<(KnownFile, Vec<SubfileLocation>)>,
    },
    /// Reads every byte of a flat subfile whose sync has failed, and lets it accept changes again.
    RepairSubfile {
        /// The disk.
        disk: DiskId,
        /// The file.
        file: FileId,
        /// The subfile.
        subfile: SubfileIndex,
    },
    /// Lists all subfiles of this node.
    ListSubfiles {
        /// The subfile after which to begin.
        after: Option<(DiskId, FileId, SubfileIndex)>,
        /// The largest number of subfiles.
        limit: u32,
        /// How thoroughly to check each.
        depth: CheckDepth,
    },
    /// Asks for the grant epoch, and whether the node must load all revocations again.
    GrantNews {
        /// The name of the node that asks.
        node: String,
    },
    /// Asks for the revocations that are in force, in the order of files.
    Revocations {
        /// The name of the node that asks.
        node: String,
        /// The epoch that the node knows: the interface node never counts from a lower one.
        known_epoch: Option<u64>,
        /// The file after which to begin.
        after: Option<FileId>,
    },
    /// Asks for the record of a module that a user calls.
    FindModule {
        /// The module.
        module: ModuleReference,
        /// The user.
        who: Identity,
    },
    /// Asks for the bytes of a module.
    FetchModule {
        /// The name.
        name: String,
        /// The hash of the bytes.
        hash: ModuleHash,
    },
}

/// The options of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRequest {
    /// How thorough it is.
    pub depth: CheckDepth,
    /// Whether to repair what can be repaired without loss.
    pub is_repair: bool,
    /// Whether to rebuild the namespace from the descriptions on the disks.
    pub is_rebuild: bool,
}

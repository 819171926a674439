//! Failures of requests, as nodes send them.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::job::ProcessName;
use super::path::FilePath;
use crate::ids::FileId;
use crate::layout::tiles::ExtentPlacement;
use crate::modes::collective_error::CollectiveError;

/// Why a request failed: what happened, to what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Failure {
    /// Nothing has this path.
    #[error("{path}: there is no such file or directory")]
    NotFound {
        /// The path.
        path: FilePath,
    },
    /// Something has this path already.
    #[error("{path}: it exists already")]
    Exists {
        /// The path.
        path: FilePath,
    },
    /// The path, or a part of it, is a file.
    #[error("{path}: this is a file, not a directory")]
    NotADirectory {
        /// The path of the file.
        path: FilePath,
    },
    /// It is a directory.
    #[error("{path}: this is a directory, not a file")]
    IsADirectory {
        /// The path.
        path: FilePath,
    },
    /// The directory is not empty.
    #[error("{path}: the directory is not empty; remove what is in it first")]
    NotEmpty {
        /// The path.
        path: FilePath,
    },
    /// The root can neither be removed nor renamed.
    #[error("/: the root directory cannot be removed or renamed")]
    Root,
    /// A directory cannot be moved into itself.
    #[error("{from}: it cannot be moved to {to}, which is inside of it")]
    IntoItself {
        /// The old path.
        from: FilePath,
        /// The new path.
        to: FilePath,
    },
    /// The user may not do this.
    #[error("{path}: user {uid} may not {action} (owner {owner}, mode {mode:04o})")]
    Denied {
        /// The path of the entry that forbids it.
        path: FilePath,
        /// The user.
        uid: u32,
        /// The action.
        action: String,
        /// The owner of the entry.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// The collective call of a job has failed.
    #[error("{what}: job {job}: {error}")]
    Collective {
        /// The path of the file, or the call.
        what: String,
        /// The job.
        job: String,
        /// Why.
        error: CollectiveError,
    },
    /// Only administrators of the cluster may do this.
    #[error("user {uid} may not {action}: only the user that runs the node, and root, may")]
    NotAdministrator {
        /// The user.
        uid: u32,
        /// The action.
        action: String,
    },
    /// The file is of the other kind.
    #[error("{path}: {why}")]
    WrongKind {
        /// The path, or another name of the file.
        path: String,
        /// The kind that was expected.
        why: String,
    },
    /// The request is impossible whatever the state of the cluster.
    #[error("{0}")]
    Invalid(String),
    /// The layout is impossible.
    #[error("{path}: {why}")]
    Layout {
        /// The path.
        path: FilePath,
        /// Why, and what to do.
        why: String,
    },
    /// The grant is not valid: forged, or from another cluster.
    #[error("the node does not accept the grant of file {file}: {why}")]
    BadGrant {
        /// The file.
        file: FileId,
        /// Why.
        why: String,
    },
    /// Owner, group or mode have changed since the file was opened.
    #[error(
        "file {file}: its owner or permissions have changed since it was opened; open it again"
    )]
    Revoked {
        /// The file.
        file: FileId,
    },
    /// The node does not know the handle; it may have been restarted.
    #[error("node {node} does not know the open file any more; open it again")]
    StaleHandle {
        /// The node.
        node: String,
    },
    /// The file was deleted, and its subfiles are removed.
    #[error("file {file} was deleted")]
    Deleted {
        /// The file.
        file: FileId,
    },
    /// A disk has no more room.
    #[error(
        "disk {disk} is full ({free_bytes} bytes free): {action}; free space, or put files on other disks"
    )]
    DiskFull {
        /// The display name of the disk.
        disk: String,
        /// The free bytes.
        free_bytes: u64,
        /// The action that failed.
        action: String,
    },
    /// A disk may not be changed.
    #[error("disk {disk} is read-only: {action}")]
    DiskReadOnly {
        /// The display name of the disk.
        disk: String,
        /// The action that failed.
        action: String,
    },
    /// A disk fails.
    #[error("disk {disk}: {why}")]
    Disk {
        /// The display name of the disk.
        disk: String,
        /// The error of the disk.
        why: String,
    },
    /// A first-synced subfile is missing.
    #[error(
        "disk {disk}: subfile {subfile} of file {file} is missing; `pario fsck` shows what is left"
    )]
    SubfileMissing {
        /// The display name of the disk.
        disk: String,
        /// The file.
        file: FileId,
        /// Its number.
        subfile: u32,
    },
    /// A node that is needed does not answer.
    #[error("node {node} does not answer: {why}")]
    NodeDown {
        /// The node.
        node: String,
        /// What the node is needed for, and since when it does not answer.
        why: String,
    },
    /// The node is stopping.
    #[error("node {node} is stopping and takes no new work")]
    Stopping {
        /// The node.
        node: String,
    },
    /// Another node answers this request.
    #[error("node {node} does not keep the namespace: ask {interface}")]
    NotInterface {
        /// The node asked.
        node: String,
        /// The node to ask.
        interface: String,
    },
    /// The client speaks another version.
    #[error(
        "the client speaks version {client} of the protocol, node {node} version {server}: use the same release on both sides"
    )]
    Version {
        /// The node.
        node: String,
        /// The client's version.
        client: u32,
        /// The node's version.
        server: u32,
    },
    /// The client has not said hello, or only nodes may make this request.
    #[error("node {node} refuses this: {why}")]
    Refused {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
    /// The namespace cannot be kept.
    #[error("the namespace of node {node} cannot be changed: {why}")]
    Metadata {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
    /// A bug: the node has broken one of its invariants.
    #[error("node {node} has an internal error: {why}; please report this")]
    Internal {
        /// The node.
        node: String,
        /// What happened.
        why: String,
    },
    /// The node does not know an operation on extents.
    #[error(
        "node {node} does not know the operation {operation:?}; it knows {known}. Operations are \
         built into the program of a node, or added with `pario operation add`"
    )]
    UnknownOperation {
        /// The node.
        node: Box<str>,
        /// The operation.
        operation: Box<str>,
        /// The operations that it knows.
        known: Box<str>,
    },
    /// An operation on extents has failed.
    #[error("node {node}: operation {operation:?} failed{}: {why}", at(.place))]
    Operation {
        /// The node.
        node: Box<str>,
        /// The operation.
        operation: Box<str>,
        /// The extent that it was processing.
        place: Option<Box<ExtentPlacement>>,
        /// The error of the operation.
        why: String,
    },
    /// The process that holds the lock waits for the process that asks for it.
    #[error(
        "deadlock: process {pid} holds the lock and waits, directly or through other processes, for \
         a lock of this process; unlock that first"
    )]
    Deadlock {
        /// The process that holds the lock.
        pid: u32,
    },
    /// A user, or all users together, have reached a limit of a node.
    #[error("{}, which is {}: {remedy}", has(.node, .uid, .what, .limit), of_whom(.uid))]
    LimitReached {
        /// The node.
        node: Box<str>,
        /// The user at the limit; `None` for the limit of all users together.
        uid: Option<u32>,
        /// What is limited.
        what: Box<str>,
        /// The limit.
        limit: u64,
        /// What to do.
        remedy: Box<str>,
    },
    /// A process has reached its limit of locks of a file.
    #[error(
        "this process has {limit} locked ranges of the file, which is the limit: unlock some, or \
         lock longer ranges"
    )]
    TooManyLocks {
        /// The limit.
        limit: u64,
    },
    /// The grant has expired; the library renews it.
    #[error("the grant of file {file} has expired; open the file again")]
    GrantExpired {
        /// The file.
        file: FileId,
    },
    /// The node has started, and does not know yet which grants are revoked.
    #[error(
        "node {node} has not reached node {interface} since it started, and cannot tell which \
         rights are still valid: start node {interface}, or check the network between the two"
    )]
    Uninformed {
        /// The node.
        node: String,
        /// The node that keeps the namespace.
        interface: String,
    },
    /// Another process has joined the unnamed job with this rank.
    #[error(
        "{newcomer} cannot be rank {rank} of {size}: {holder} {}. If both belong to one job, give \
         each process its own rank; if they belong to two jobs, give each job a name of its own \
         with the variable PARIO_JOB{}",
        has_rank(*has_ended), if_ended(*has_ended)
    )]
    RankInUse {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        size: u32,
        /// The process that has the rank.
        holder: Box<ProcessName>,
        /// Whether that process has ended, while others of its job have not.
        has_ended: bool,
        /// The process that is refused.
        newcomer: Box<ProcessName>,
    },
    /// No module has this name and version.
    #[error(
        "the cluster has no module {operation:?}; `pario operation list` shows those that it has"
    )]
    NoSuchModule {
        /// The operation.
        operation: Box<str>,
    },
    /// The user may not do this with a module.
    #[error(
        "operation {operation:?}: user {uid} may not {action} (owner {owner}, mode {mode:04o})"
    )]
    ModuleDenied {
        /// The operation.
        operation: Box<str>,
        /// The user.
        uid: u32,
        /// The action.
        action: Box<str>,
        /// The owner of the module.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
}

impl Failure {
    /// Returns the path that the failure concerns, if it names one.
    pub fn path(&self) -> Option<&FilePath> {
        match self {
            Self::NotFound { path }
            | Self::Exists { path }
            | Self::NotADirectory { path }
            | Self::IsADirectory { path }
            | Self::NotEmpty { path }
            | Self::IntoItself { from: path, .. }
            | Self::Denied { path, .. }
            | Self::Layout { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the node that the failure concerns, if it names one.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::StaleHandle { node }
            | Self::NodeDown { node, .. }
            | Self::Stopping { node }
            | Self::NotInterface { node, .. }
            | Self::Version { node, .. }
            | Self::Refused { node, .. }
            | Self::Metadata { node, .. }
            | Self::Internal { node, .. }
            | Self::Uninformed { node, .. } => Some(node),
            Self::UnknownOperation { node, .. }
            | Self::Operation { node, .. }
            | Self::LimitReached { node, .. } => Some(node),
            _ => None,
        }
    }

    /// Returns the disk that the failure concerns, as `node/disk`, if it names one.
    pub fn disk(&self) -> Option<&str> {
        match self {
            Self::DiskFull { disk, .. }
            | Self::DiskReadOnly { disk, .. }
            | Self::Disk { disk, .. }
            | Self::SubfileMissing { disk, .. } => Some(disk),
            _ => None,
        }
    }

    /// Whether a new grant may help: this one has expired, or rights have changed since.
    pub fn needs_renewal(&self) -> bool {
        matches!(self, Failure::Revoked { .. } | Failure::GrantExpired { .. })
    }
}

fn has_rank(has_ended: bool) -> &'static str {
    match has_ended {
        false => "is that rank of the unnamed job of this size that not all ranks have joined yet",
        true => {
            "was that rank of the unnamed job of this size, and has ended, while other processes \
             of that job still run"
        }
    }
}

fn if_ended(has_ended: bool) -> &'static str {
    if has_ended { ", or end those processes first" } else { "" }
}

fn has(node: &str, uid: &Option<u32>, what: &str, limit: &u64) -> String {
    match uid {
        Some(uid) => format!("user {uid} has {limit} {what} at node {node}"),
        None => format!("node {node} has {limit} {what}"),
    }
}

fn of_whom(uid: &Option<u32>) -> &'static str {
    match uid {
        Some(_) => "the limit of a user",
        None => "the limit for all users (it keeps the rest for its administrator)",
    }
}

fn at(place: &Option<Box<ExtentPlacement>>) -> String {
    place
        .as_ref()
        .map_or_else(String::new, |place| format!(" at {} of {}", place.extent, place.subfile))
}

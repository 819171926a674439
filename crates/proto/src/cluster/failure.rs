//! What can go wrong at a node, as it travels.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::path::FilePath;
use crate::ids::FileId;
use crate::layout::tiles::ExtentPlacement;
use crate::modes::collective_error::CollectiveError;

/// Why a request failed. Each says what happened, to what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum Failure {
    /// There is nothing at this path.
    #[error("{path}: there is no such file or directory")]
    NotFound {
        /// The path.
        path: FilePath,
    },
    /// There is something at this path already.
    #[error("{path}: it exists already")]
    Exists {
        /// The path.
        path: FilePath,
    },
    /// A part of the path, or all of it, is a file.
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
        /// The new one.
        to: FilePath,
    },
    /// The user may not do this.
    #[error("{path}: user {uid} may not {action} (owner {owner}, mode {mode:04o})")]
    Denied {
        /// The path of what forbids it.
        path: FilePath,
        /// Who.
        uid: u32,
        /// What.
        action: String,
        /// To whom it belongs.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// The processes of a job cannot do this together.
    #[error("{what}: job {job}: {error}")]
    Collective {
        /// The file, or what was to be done.
        what: String,
        /// The job.
        job: String,
        /// Why.
        error: CollectiveError,
    },
    /// Only administrators of the cluster may do this.
    #[error("user {uid} may not {action}: only the user that runs the node, and root, may")]
    NotAdministrator {
        /// Who.
        uid: u32,
        /// What.
        action: String,
    },
    /// The file is of the other kind.
    #[error("{path}: {why}")]
    WrongKind {
        /// The path, or how the file is known.
        path: String,
        /// What was expected.
        why: String,
    },
    /// What was asked for is impossible whatever the state of the cluster.
    #[error("{0}")]
    Invalid(String),
    /// The layout cannot be had.
    #[error("{path}: {why}")]
    Layout {
        /// The path.
        path: FilePath,
        /// Why, and what to do.
        why: String,
    },
    /// The grant does not fit: forged, or from another cluster.
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
    /// The handle is not known; the node may have been restarted.
    #[error("the open file is not known to node {node} any more; open it again")]
    StaleHandle {
        /// The node.
        node: String,
    },
    /// The file was deleted, and its subfiles are gone.
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
        /// The disk, as people call it.
        disk: String,
        /// What is left.
        free_bytes: u64,
        /// What could not be done.
        action: String,
    },
    /// A disk may not be changed.
    #[error("disk {disk} is read-only: {action}")]
    DiskReadOnly {
        /// The disk, as people call it.
        disk: String,
        /// What could not be done.
        action: String,
    },
    /// A disk does not do what it should.
    #[error("disk {disk}: {why}")]
    Disk {
        /// The disk, as people call it.
        disk: String,
        /// What it says.
        why: String,
    },
    /// A subfile that was once synced is not there.
    #[error(
        "disk {disk}: subfile {subfile} of file {file} is missing; `pario fsck` shows what is left"
    )]
    SubfileMissing {
        /// The disk, as people call it.
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
        /// What it is needed for, and since when it is silent.
        why: String,
    },
    /// The node is stopping.
    #[error("node {node} is stopping and takes no new work")]
    Stopping {
        /// The node.
        node: String,
    },
    /// The request belongs to another node.
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
    /// No hello, or a request that only nodes may make.
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
    /// A bug: the node has not kept its own rules.
    #[error("node {node} failed inside: {why}; please report this")]
    Internal {
        /// The node.
        node: String,
        /// What happened.
        why: String,
    },
    /// A node cannot do this with extents.
    #[error(
        "node {node} does not know the operation {operation:?}; it knows {known}. Operations are \
         built into the program of a node: start one that has it"
    )]
    UnknownOperation {
        /// The node.
        node: Box<str>,
        /// What was asked for.
        operation: Box<str>,
        /// What there is.
        known: Box<str>,
    },
    /// An operation has given up.
    #[error("node {node}: operation {operation:?} failed{}: {why}", at(.place))]
    Operation {
        /// The node.
        node: Box<str>,
        /// The operation.
        operation: Box<str>,
        /// The extent that it had before it.
        place: Option<Box<ExtentPlacement>>,
        /// What it says.
        why: String,
    },
    /// Whoever is in the way waits for who asks.
    #[error(
        "waiting for the lock would never end: process {pid} has it, and waits itself, or through \
         others, for a lock of this process; unlock that first"
    )]
    Deadlock {
        /// The process that is in the way.
        pid: u32,
    },
    /// A user has as much of a node as one user can have, or all users together have.
    #[error("{}, which is {}: {remedy}", has(.node, .uid, .what, .limit), of_whom(.uid))]
    LimitReached {
        /// The node.
        node: Box<str>,
        /// The user at its limit; nothing if all users together have reached one.
        uid: Option<u32>,
        /// Of what.
        what: Box<str>,
        /// The most that can be had.
        limit: u64,
        /// What to do.
        remedy: Box<str>,
    },
    /// A process cannot have more locks of a file.
    #[error(
        "this process has {limit} ranges of the file locked already: unlock some, or lock more \
         bytes at once"
    )]
    TooManyLocks {
        /// So many it can have.
        limit: u64,
    },
    /// The grant is older than grants may be; the library renews it.
    #[error("the grant of file {file} has expired; open the file again")]
    GrantExpired {
        /// The file.
        file: FileId,
    },
    /// The node has started and cannot tell which grants were revoked.
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
}

impl Failure {
    /// Whether a new grant may help: this one has expired, or rights have changed since.
    pub fn needs_renewal(&self) -> bool {
        matches!(self, Failure::Revoked { .. } | Failure::GrantExpired { .. })
    }
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

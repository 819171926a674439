//! Errors of metadata stores.

use std::path::PathBuf;

use thiserror::Error;

/// Why metadata could not be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetadataError {
    /// The file cannot be opened or created.
    #[error("the metadata in {} cannot be opened: {why}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// Another process, or another part of this one, has the file open.
    #[error(
        "the metadata in {} is in use by another process: stop the node that serves this \
         directory (`pario stop`), or connect to it instead",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("the metadata in {} cannot be read: {why}; check the disk it is on", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// The content of the file is damaged.
    #[error(
        "the metadata in {} is damaged: {why}; move the file away and run `pario fsck --rebuild`, \
         which rebuilds it from the disks",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A change could not be made durable. Opening the store again shows whether it was kept.
    #[error(
        "the metadata in {} cannot be changed: {why}; start the node again to see whether this \
         change was kept",
        path.display()
    )]
    Commit {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// An earlier change could not be made durable, so the store refuses everything.
    #[error(
        "the metadata in {} is not used any more, because an earlier change failed ({why}); repair \
         the cause and start the node again",
        path.display()
    )]
    Poisoned {
        /// The file.
        path: PathBuf,
        /// The first failure.
        why: String,
    },
    /// Another release has written the values.
    #[error(
        "the metadata has format {found}, this release knows format {known}: use the release that \
         wrote it, or a later one"
    )]
    Format {
        /// The format of the store.
        found: u64,
        /// The format of this release.
        known: u64,
    },
    /// The values contradict each other.
    #[error(
        "the metadata contradicts itself: {why}; `pario fsck` checks it, `pario fsck --rebuild` \
         rebuilds it from the disks"
    )]
    Inconsistent {
        /// The contradiction.
        why: String,
    },
}

//! What can go wrong with the metadata, in sentences.

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
    /// What is in the file is not what was written.
    #[error(
        "the metadata in {} is damaged: {why}; move the file away and run `pario fsck --rebuild`, \
         which makes a new one from what the disks say",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// A change could not be made durable. Whether it is there is known when the store is opened
    /// again.
    #[error(
        "the metadata in {} cannot be changed: {why}; whether this change is kept shows when the \
         node is started again",
        path.display()
    )]
    Commit {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// An earlier change could not be made durable, so that nothing more is promised.
    #[error(
        "the metadata in {} is not used any more since an earlier change failed ({why}); put that \
         right and start the node again",
        path.display()
    )]
    Poisoned {
        /// The file.
        path: PathBuf,
        /// The first failure.
        why: String,
    },
    /// The values were written by another release.
    #[error(
        "the metadata has format {found}, this release knows format {known}: use the release that \
         wrote it, or a later one"
    )]
    Format {
        /// What was found.
        found: u64,
        /// What is known.
        known: u64,
    },
    /// The values contradict each other.
    #[error(
        "the metadata contradicts itself: {why}; `pario fsck` shows what is left, `pario fsck \
         --rebuild` makes new metadata from what the disks say"
    )]
    Inconsistent {
        /// How.
        why: String,
    },
}

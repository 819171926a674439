//! The rank that has a part, and the access to the bytes of the part. Every access to bytes of
//! records passes here: directly in a process of that rank's machine, otherwise in the process that
//! serves the machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::error::RecordError;
use super::part::{PartIdentity, identity_of};

/// The owner of a part, as this process sees it.
#[derive(Debug)]
pub struct PartOwner {
    /// The rank that has the part.
    pub rank: u32,
    /// The path of the part on the machine of that rank.
    pub path: PathBuf,
    identity: PartIdentity,
    access: PartAccess,
}

/// How this process reaches the bytes of a part.
#[derive(Debug)]
enum PartAccess {
    /// The rank is on this machine. This process opens its file at the first access, and reads and
    /// writes it without the help of the rank.
    Local(OnceLock<Arc<File>>),
    /// The rank is on another machine, or sees other files than this process.
    Remote,
}

impl PartOwner {
    /// Describes the owner of a part on this machine, or on another one.
    pub fn new(rank: u32, path: PathBuf, identity: PartIdentity, is_local: bool) -> Self {
        let access = if is_local { PartAccess::Local(OnceLock::new()) } else { PartAccess::Remote };
        Self { rank, path, identity, access }
    }

    /// Whether this process opens the file of the part itself.
    pub fn is_local(&self) -> bool {
        matches!(self.access, PartAccess::Local(_))
    }

    /// Reads bytes of a local part.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<(), RecordError> {
        let read = self.file()?.read_exact_at(bytes, at);
        read.map_err(|error| self.error("reading", &error))
    }

    /// Writes bytes of a local part.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), RecordError> {
        let written = self.file()?.write_all_at(bytes, at);
        written.map_err(|error| self.error("writing", &error))
    }

    /// Fails if a local part has fewer bytes than `len`.
    pub fn check_len(&self, len: u64) -> Result<(), RecordError> {
        let metadata = self.file()?.metadata();
        let metadata = metadata.map_err(|error| self.error("reading its length", &error))?;
        if metadata.len() < len {
            return Err(self.error("reading", &io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    /// The file of a local part.
    pub fn file(&self) -> Result<&Arc<File>, RecordError> {
        let PartAccess::Local(opened) = &self.access else {
            return Err(RecordError::NotFound(format!(
                "{}: the process that serves the machine of rank {} does not see the files of that \
                 rank; run all processes of one machine where they see the same files",
                self.path.display(),
                self.rank
            )));
        };
        if let Some(file) = opened.get() {
            return Ok(file);
        }
        let file = OpenOptions::new().read(true).write(true).open(&self.path);
        let file = file.map_err(|error| self.error("opening it in another process", &error))?;
        // Another file may have taken the path since the rank opened the part.
        if identity_of(&file).ok() != Some(self.identity) {
            return Err(RecordError::Damaged(format!(
                "{}: another file has replaced the part that rank {} has open; put the part back, and \
                 do not replace parts of an open record file",
                self.path.display(),
                self.rank
            )));
        }
        Ok(opened.get_or_init(|| Arc::new(file)))
    }

    fn error(&self, doing: &str, error: &io::Error) -> RecordError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let (path, rank) = (self.path.display(), self.rank);
            return RecordError::Damaged(format!(
                "{path}: this part of rank {rank} was truncated while the record file is open; put \
                 the part back from a copy, and do not change parts of an open record file"
            ));
        }
        let doing = format!("{doing} (part of rank {})", self.rank);
        RecordError::system(&doing, &self.path, error)
    }
}

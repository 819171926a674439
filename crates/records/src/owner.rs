//! Who has a part, and how its bytes are reached. Every access to the bytes of records passes here:
//! that of a process of the same machine at once, that of others when they are served.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::error::RecordError;
use super::part::{Identity, identity_of};

/// The owner of a part, as this process sees it.
#[derive(Debug)]
pub struct Owner {
    /// The rank that has the part.
    pub rank: u32,
    /// Where the part is, on the machine of that rank.
    pub path: PathBuf,
    identity: Identity,
    way: Way,
}

/// How the bytes of a part are reached.
#[derive(Debug)]
enum Way {
    /// The rank is on this machine: its file is opened here as well, when it is needed first, and
    /// read and written without anybody's help.
    Near(OnceLock<Arc<File>>),
    /// The rank is on another machine, or sees other files than this process.
    Far,
}

impl Owner {
    /// A part on this machine, or on another one.
    pub fn new(rank: u32, path: PathBuf, identity: Identity, is_near: bool) -> Self {
        let way = if is_near { Way::Near(OnceLock::new()) } else { Way::Far };
        Self { rank, path, identity, way }
    }

    /// Whether the file is opened here.
    pub fn is_near(&self) -> bool {
        matches!(self.way, Way::Near(_))
    }

    /// Reads bytes of a near part straight to where they are wanted.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<(), RecordError> {
        let read = self.file()?.read_exact_at(bytes, at);
        read.map_err(|error| self.error("reading", &error))
    }

    /// Writes bytes of a near part from where they are.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), RecordError> {
        let written = self.file()?.write_all_at(bytes, at);
        written.map_err(|error| self.error("writing", &error))
    }

    /// An error if a near part has fewer bytes.
    pub fn check_len(&self, len: u64) -> Result<(), RecordError> {
        let metadata = self.file()?.metadata();
        let metadata = metadata.map_err(|error| self.error("asking for its length", &error))?;
        if metadata.len() < len {
            return Err(self.error("reading", &io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }

    /// The file of a near part.
    pub fn file(&self) -> Result<&Arc<File>, RecordError> {
        let Way::Near(place) = &self.way else {
            return Err(RecordError::NotFound(format!(
                "{}: the process that serves the machine of rank {} does not see the files of that \
                 rank; run the processes of one machine where all see the same files",
                self.path.display(),
                self.rank
            )));
        };
        if let Some(file) = place.get() {
            return Ok(file);
        }
        let file = OpenOptions::new().read(true).write(true).open(&self.path);
        let file = file.map_err(|error| self.error("opening it as well", &error))?;
        // Somebody may have put another file there meanwhile.
        if identity_of(&file).ok() != Some(self.identity) {
            return Err(RecordError::Damaged(format!(
                "{}: this is no more the part that rank {} has opened: nobody may replace it \
                 meanwhile",
                self.path.display(),
                self.rank
            )));
        }
        Ok(place.get_or_init(|| Arc::new(file)))
    }

    fn error(&self, doing: &str, error: &io::Error) -> RecordError {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let (path, rank) = (self.path.display(), self.rank);
            let text =
                format!("{path}: somebody has cut this part of rank {rank} while it is open");
            return RecordError::Damaged(text);
        }
        let doing = format!("{doing} (part of rank {})", self.rank);
        RecordError::system(&doing, &self.path, error)
    }
}

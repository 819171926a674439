//! The content of a placement file.

use std::path::{Path, PathBuf};

use super::error::{PlacementError, PlacementProblem};
use super::pattern::ThreadPattern;
use super::reader;

/// The processes of a program, and the process of each thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The name of the file in messages.
    pub(super) source: String,
    pub(super) processes: Vec<ProcessSpec>,
    pub(super) directory: Option<String>,
    pub(super) key_file: Option<PathBuf>,
    pub(super) pools: Vec<PoolSize>,
    pub(super) threads: Vec<ThreadEntry>,
    pub(super) single: bool,
}

/// The description of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// The name, as used under `[threads]`.
    pub name: String,
    /// The machine; `None` for this one.
    pub host: Option<String>,
    /// The executable; `None` for the running one.
    pub executable: Option<PathBuf>,
    /// The arguments; `None` for those of the running process.
    pub arguments: Option<Vec<String>>,
}

/// A pool size that the file sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PoolSize {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) line: usize,
}

/// A line under `[threads]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThreadEntry {
    pub(super) written: String,
    pub(super) pattern: ThreadPattern,
    pub(super) process: usize,
    pub(super) line: usize,
}

impl Placement {
    /// Reads a file. A relative `key_file` is relative to the directory of the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Placement, PlacementError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            PlacementError::at(&name, None, PlacementProblem::Unreadable(error))
        })?;
        let mut placement = Placement::parse(&text, &name)?;
        if let (Some(key_file), Some(folder)) = (&mut placement.key_file, path.parent()) {
            *key_file = folder.join(&*key_file);
        }
        Ok(placement)
    }

    /// Parses the text of a file; error messages call the file `source_name`.
    pub fn parse(text: &str, source_name: &str) -> Result<Placement, PlacementError> {
        reader::read(text, source_name)
    }

    /// Returns the placement without a file: all threads in one process.
    pub fn single_process() -> Placement {
        let user =
            ProcessSpec { name: "user".into(), host: None, executable: None, arguments: None };
        Placement {
            source: "no placement file".into(),
            processes: vec![user],
            directory: None,
            key_file: None,
            pools: Vec::new(),
            threads: Vec::new(),
            single: true,
        }
    }

    /// Returns the processes in order; the user starts the first.
    pub fn processes(&self) -> &[ProcessSpec] {
        &self.processes
    }

    /// Returns the size that the file sets for a pool.
    pub fn pool_size(&self, name: &str) -> Option<usize> {
        self.pools.iter().find(|pool| pool.name == name).map(|pool| pool.size)
    }

    /// Returns the address at which the first process listens for other machines.
    pub fn directory(&self) -> Option<&str> {
        self.directory.as_deref()
    }

    /// Returns the file with the key that the processes share.
    pub fn key_file(&self) -> Option<&Path> {
        self.key_file.as_deref()
    }

    /// Returns whether this is [`Placement::single_process`].
    pub fn is_single_process(&self) -> bool {
        self.single
    }
}

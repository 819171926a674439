//! What a placement file says.

use std::path::{Path, PathBuf};

use super::error::{PlacementError, Problem};
use super::pattern::Pattern;
use super::reader::Reader;

/// Which processes a program consists of and which threads live in each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The name of the file in messages.
    pub(super) source: String,
    pub(super) processes: Vec<Process>,
    pub(super) directory: Option<String>,
    pub(super) key_file: Option<PathBuf>,
    pub(super) pools: Vec<Pool>,
    pub(super) threads: Vec<Entry>,
    pub(super) single: bool,
}

/// A process of the program: an address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The name that the threads' lines use.
    pub name: String,
    /// The machine; none means this one.
    pub host: Option<String>,
    /// The program; none means the one that runs now.
    pub executable: Option<PathBuf>,
    /// Its arguments; none means those of the program that runs now.
    pub arguments: Option<Vec<String>>,
}

/// A size that the file gives to a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) line: usize,
}

/// A line that places threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) written: String,
    pub(super) pattern: Pattern,
    pub(super) process: usize,
    pub(super) line: usize,
}

impl Placement {
    /// Reads a file. A relative `key_file` in it is relative to the file's own folder.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Placement, PlacementError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| PlacementError::at(&name, None, Problem::Unreadable(error)))?;
        let mut placement = Placement::parse(&text, &name)?;
        if let (Some(key_file), Some(folder)) = (&mut placement.key_file, path.parent()) {
            *key_file = folder.join(&*key_file);
        }
        Ok(placement)
    }

    /// Understands the text of a file; `source_name` is what messages call it.
    pub fn parse(text: &str, source_name: &str) -> Result<Placement, PlacementError> {
        Reader::new(text, source_name).placement()
    }

    /// What holds without a file: one process, in which all threads live.
    pub fn single_process() -> Placement {
        let user = Process { name: "user".into(), host: None, executable: None, arguments: None };
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

    /// The processes in order; the first is the one the user starts.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// The size the file gives to a pool, if it gives any.
    pub fn pool_size(&self, name: &str) -> Option<usize> {
        self.pools.iter().find(|pool| pool.name == name).map(|pool| pool.size)
    }

    /// The address where the first process listens when others started all of them.
    pub fn directory(&self) -> Option<&str> {
        self.directory.as_deref()
    }

    /// The file with the key that the processes share.
    pub fn key_file(&self) -> Option<&Path> {
        self.key_file.as_deref()
    }

    /// Whether this is [`Placement::single_process`], which places threads without naming them.
    pub fn is_single_process(&self) -> bool {
        self.single
    }
}

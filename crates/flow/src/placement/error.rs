//! Errors in placement files.

use std::io;

use thiserror::Error;

use crate::document::{DocumentProblem, did_you_mean, location};

/// A problem in a placement file, and its location.
#[derive(Debug, Error)]
#[error("{}: {problem}", location(.file, *.line, *.column))]
pub struct PlacementError {
    /// The file name that the user gave.
    pub file: String,
    /// The line, from 1; `None` if something is missing.
    pub line: Option<usize>,
    /// The column, from 1, if the file is not valid TOML.
    pub column: Option<usize>,
    /// The problem.
    pub problem: Box<PlacementProblem>,
}

/// A problem in a placement file.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum PlacementProblem {
    /// The file cannot be read.
    #[error("the placement file cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The file is not TOML, or a key or value is wrong.
    #[error(transparent)]
    Document(#[from] DocumentProblem),
    /// The file names no process.
    #[error("there are no processes; give at least one, such as A = \"user\", under [processes]")]
    NoProcesses,
    /// The first process is not marked as started by the user.
    #[error(
        "process \"{process}\": the first process is the one you start yourself, \
         so it must be {process} = \"user\""
    )]
    FirstNotUser { process: String },
    /// A second process is marked as started by the user.
    #[error(
        "process \"{process}\": only one process can be \"user\", and \"{first}\" is it \
         (line {first_line})"
    )]
    SecondUser { process: String, first: String, first_line: usize },
    /// An invalid host name.
    #[error("process \"{process}\": \"{host}\" is not the name of a host")]
    BadHost { process: String, host: String },
    /// A thread is placed in an unknown process.
    #[error(
        "thread \"{thread}\": there is no process \"{process}\"{}",
        did_you_mean(.suggestion.as_deref())
    )]
    UnknownProcess { thread: String, process: String, suggestion: Option<String> },
    /// An invalid thread pattern.
    #[error(
        "thread \"{thread}\": write Name, Name[2], Name[0..3], Name[0..=2] or Name[*] ({reason})"
    )]
    BadPattern { thread: String, reason: &'static str },
    /// An empty range of indices.
    #[error("thread \"{thread}\": the range is empty{hint}")]
    EmptyRange { thread: String, hint: String },
    /// The program has no such thread.
    #[error("thread \"{thread}\": the program has no thread \"{name}\"{}", did_you_mean(.suggestion.as_deref()))]
    UnknownThread { thread: String, name: String, suggestion: Option<String> },
    /// An index outside of its pool.
    #[error(
        "thread \"{thread}\": the pool \"{pool}\" has {}",
        threads_of(*.size)
    )]
    BeyondPool { thread: String, pool: String, size: usize },
    /// A pool without an index.
    #[error(
        "thread \"{thread}\": \"{thread}\" is a pool of {}; write \"{thread}[*]\" for the whole \
         pool",
        threads_of(*.size)
    )]
    PoolWithoutIndex { thread: String, size: usize },
    /// A thread with an index.
    #[error("thread \"{thread}\": \"{name}\" is a single thread, not a pool; write \"{name}\"")]
    NotAPool { thread: String, name: String },
    /// A thread is placed twice.
    #[error("thread \"{thread}\": \"{which}\" is already placed in line {first}")]
    PlacedTwice { thread: String, which: String, first: usize },
    /// A thread is not placed.
    #[error("thread \"{thread}\" is not placed; add it under [threads]")]
    NotPlaced { thread: String },
    /// A size for a pool that the program does not have.
    #[error("pool \"{pool}\": the program has no pool \"{pool}\"{}", did_you_mean(.suggestion.as_deref()))]
    UnknownPool { pool: String, suggestion: Option<String> },
}

impl PlacementError {
    pub(super) fn at(file: &str, line: Option<usize>, problem: PlacementProblem) -> Self {
        PlacementError { file: file.to_owned(), line, column: None, problem: Box::new(problem) }
    }
}

fn threads_of(size: usize) -> String {
    match size {
        0 => "no threads".to_owned(),
        1 => "1 thread (0)".to_owned(),
        _ => format!("{size} threads (0 to {})", size - 1),
    }
}

//! What can be wrong with a placement file.

use std::io;

use thiserror::Error;

/// Something is wrong with a placement: where, and what.
#[derive(Debug, Error)]
#[error("{}: {problem}", location(.file, *.line, *.column))]
pub struct PlacementError {
    /// The file as the user named it.
    pub file: String,
    /// The line, from 1, unless the problem is something that is missing.
    pub line: Option<usize>,
    /// The column, from 1, where the file is not TOML at all.
    pub column: Option<usize>,
    /// What is wrong.
    pub problem: Box<Problem>,
}

/// What is wrong with a placement.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the sentences say what the fields are")]
pub enum Problem {
    /// The file cannot be read.
    #[error("the placement file cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The file is not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// The same key is there twice.
    #[error("\"{key}\" is given twice, first in line {first}")]
    Duplicate { key: String, first: usize },
    /// A key that nobody knows.
    #[error("{within} has no setting \"{key}\"{}", did_you_mean(.suggestion))]
    UnknownKey { within: String, key: String, suggestion: Option<String> },
    /// A value of the wrong kind.
    #[error("{what} must be {expected}, but is {found}")]
    Type { what: String, expected: &'static str, found: String },
    /// There is no process at all.
    #[error("there are no processes; give at least one, such as A = \"user\", under [processes]")]
    NoProcesses,
    /// The first process is not the one that the user starts.
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
    /// A host that cannot be one.
    #[error("process \"{process}\": \"{host}\" is not the name of a host")]
    BadHost { process: String, host: String },
    /// A thread is put into a process that does not exist.
    #[error(
        "thread \"{thread}\": there is no process \"{process}\"{}",
        did_you_mean(.suggestion)
    )]
    UnknownProcess { thread: String, process: String, suggestion: Option<String> },
    /// A thread's name cannot be understood.
    #[error(
        "thread \"{thread}\": write Name, Name[2], Name[0..3], Name[0..=2] or Name[*] ({reason})"
    )]
    BadPattern { thread: String, reason: &'static str },
    /// A range holds no index.
    #[error("thread \"{thread}\": the range is empty{hint}")]
    EmptyRange { thread: String, hint: String },
    /// The program has no such thread.
    #[error("thread \"{thread}\": the program has no thread \"{name}\"{}", did_you_mean(.suggestion))]
    UnknownThread { thread: String, name: String, suggestion: Option<String> },
    /// An index beyond the end of a pool.
    #[error(
        "thread \"{thread}\": the pool \"{pool}\" has {}",
        threads_of(*.size)
    )]
    BeyondPool { thread: String, pool: String, size: usize },
    /// A pool named as if it were a thread.
    #[error(
        "thread \"{thread}\": \"{thread}\" is a pool of {}; write \"{thread}[*]\" for the whole \
         pool",
        threads_of(*.size)
    )]
    PoolWithoutIndex { thread: String, size: usize },
    /// A thread named as if it were a pool.
    #[error("thread \"{thread}\": \"{name}\" is a single thread, not a pool; write \"{name}\"")]
    NotAPool { thread: String, name: String },
    /// A thread is placed a second time.
    #[error("thread \"{thread}\": \"{which}\" is already placed in line {first}")]
    PlacedTwice { thread: String, which: String, first: usize },
    /// A thread is not placed.
    #[error("thread \"{thread}\" is not placed; add it under [threads]")]
    NotPlaced { thread: String },
    /// The size of a pool that the program does not have.
    #[error("pool \"{pool}\": the program has no pool \"{pool}\"{}", did_you_mean(.suggestion))]
    UnknownPool { pool: String, suggestion: Option<String> },
}

impl PlacementError {
    pub(super) fn at(file: &str, line: Option<usize>, problem: Problem) -> Self {
        PlacementError { file: file.to_owned(), line, column: None, problem: Box::new(problem) }
    }
}

/// The one of `known` that somebody who wrote `wrote` probably meant.
pub(super) fn nearest<'a>(wrote: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const ALIKE: f64 = 0.75;
    let lower = wrote.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&lower, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, name)| name.to_owned())
}

fn location(file: &str, line: Option<usize>, column: Option<usize>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        (Some(line), None) => format!("{file}:{line}"),
        (None, _) => file.to_owned(),
    }
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean \"{name}\"?"),
        None => String::new(),
    }
}

fn threads_of(size: usize) -> String {
    match size {
        0 => "no threads".to_owned(),
        1 => "1 thread (0)".to_owned(),
        _ => format!("{size} threads (0 to {})", size - 1),
    }
}

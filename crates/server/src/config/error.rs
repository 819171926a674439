//! What can be wrong with the configuration of a cluster.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Everything that is wrong with a configuration, in the order of its lines.
#[derive(Debug, Error)]
pub struct ConfigError {
    /// The file as the user named it.
    pub file: String,
    /// What is wrong; at least one.
    pub mistakes: Vec<Mistake>,
}

/// One thing that is wrong, and where.
#[derive(Debug)]
pub struct Mistake {
    /// The line, from 1, unless the mistake is something that is missing.
    pub line: Option<usize>,
    /// The column, from 1, where the file is not TOML at all.
    pub column: Option<usize>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a configuration.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the sentences say what the fields are")]
pub enum Problem {
    /// The file cannot be read.
    #[error("the configuration cannot be read: {0}")]
    Unreadable(String),
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
    /// There is no node at all.
    #[error("there are no nodes; add at least one, such as [nodes.a] with data and disks")]
    NoNodes,
    /// A name that could not be told from other things.
    #[error(
        "{what} \"{name}\": a name has 1 to 64 letters, digits, dots, dashes or underscores, and \
         begins with a letter or a digit"
    )]
    BadName { what: &'static str, name: String },
    /// A node without a place of its own.
    #[error("node \"{node}\": it has no data directory; add data = \"/var/lib/pario/{node}\"")]
    NoData { node: String },
    /// A node without disks.
    #[error("node \"{node}\": it has no disks; add disks = [\"/mnt/d0\"]")]
    NoDisks { node: String },
    /// A path that depends on where the node is started.
    #[error("{what} \"{path}\" must be an absolute path without \"..\"", path = .path.display())]
    NotAbsolute { what: String, path: PathBuf },
    /// A path that no socket can have.
    #[error(
        "node \"{node}\": socket \"{path}\" has {bytes} bytes, and a socket can have {limit}; set \
         socket = \"/run/pario/{node}.sock\"",
        path = .path.display()
    )]
    LongSocket { node: String, path: PathBuf, bytes: usize, limit: usize },
    /// Two things in one place.
    #[error("node \"{node}\": {what} \"{place}\" is also {other_what} of node \"{other}\"{}", first(*.line))]
    Shared {
        node: String,
        what: &'static str,
        place: String,
        other_what: &'static str,
        other: String,
        line: Option<usize>,
    },
    /// A disk that lies in another one.
    #[error(
        "node \"{node}\": disk \"{path}\" lies inside disk \"{outer}\" of node \"{other}\" (line \
         {line})",
        path = .path.display(),
        outer = .outer.display()
    )]
    Nested { node: String, path: PathBuf, outer: PathBuf, other: String, line: usize },
    /// A node that the others cannot reach.
    #[error(
        "node \"{node}\": it has no listen address, and the other nodes could not reach it; add \
         listen = \"IP:PORT\""
    )]
    NoListen { node: String },
    /// An address that the others cannot use.
    #[error(
        "node \"{node}\": the other nodes cannot know where {listen} is; give the address and port \
         under which they reach it"
    )]
    VagueListen { node: String, listen: String },
    /// A node that would let nobody in.
    #[error(
        "node \"{node}\": over TCP, at {listen}, only those are let in who have the key of the \
         cluster, and there is no key_file; add key_file = \"/etc/pario/cluster.key\" with 64 \
         hexadecimal digits in it"
    )]
    NoKey { node: String, listen: String },
    /// The key cannot be read.
    #[error("key_file \"{path}\" cannot be read: {why}", path = .path.display())]
    UnreadableKey { path: PathBuf, why: String },
    /// The key is not a key.
    #[error(
        "key_file \"{path}\" must hold 64 hexadecimal digits, but holds {len} characters; make one \
         with: openssl rand -hex 32",
        path = .path.display()
    )]
    BadKey { path: PathBuf, len: usize },
    /// Others know the key.
    #[error(
        "key_file \"{path}\" can be read by others (mode {mode:04o}); run: chmod 600 {path}",
        path = .path.display()
    )]
    OpenKey { path: PathBuf, mode: u32 },
    /// Threads with nothing to do.
    #[error(
        "node \"{node}\": {threads} storage threads for {}; at most one per disk has work",
        disks_of(*.disks)
    )]
    IdleThreads { node: String, threads: usize, disks: usize },
    /// The namespace is kept by nobody.
    #[error("interface: there is no node \"{node}\"{}", did_you_mean(.suggestion))]
    UnknownInterface { node: String, suggestion: Option<String> },
}

/// A node that a configuration does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no node \"{name}\" in the configuration; its nodes are {}", quoted(.known))]
pub struct UnknownNode {
    /// The name asked for.
    pub name: String,
    /// The names there are.
    pub known: Vec<String>,
}

impl ConfigError {
    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        let problem = Problem::Unreadable(error.to_string());
        let mistakes = vec![Mistake { line: None, column: None, problem }];
        ConfigError { file: path.display().to_string(), mistakes }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.mistakes.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.file)?;
            for place in [mistake.line, mistake.column].into_iter().flatten() {
                write!(f, ":{place}")?;
            }
            write!(f, ": {}", mistake.problem)?;
        }
        Ok(())
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

fn did_you_mean(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(name) => format!("; did you mean \"{name}\"?"),
        None => String::new(),
    }
}

fn first(line: Option<usize>) -> String {
    line.map(|line| format!(" (line {line})")).unwrap_or_default()
}

fn disks_of(count: usize) -> String {
    if count == 1 { "1 disk".to_owned() } else { format!("{count} disks") }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

//! Mistakes in the configuration of a cluster.

use std::fmt;
use std::path::{Path, PathBuf};

use pario_flow::document::{DocumentError, DocumentProblem, did_you_mean, location};
use thiserror::Error;

/// All mistakes in a configuration, in the order of its lines.
#[derive(Debug, Error)]
pub struct ConfigError {
    /// The file as the user named it.
    pub file: String,
    /// The mistakes; at least one.
    pub mistakes: Vec<ConfigMistake>,
}

/// A mistake, and its position.
#[derive(Debug)]
pub struct ConfigMistake {
    /// The line, from 1; `None` if something is missing.
    pub line: Option<usize>,
    /// The column, from 1, if the file is not valid TOML.
    pub column: Option<usize>,
    /// The problem.
    pub problem: Box<ConfigProblem>,
}

/// A problem in a configuration.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the sentences say what the fields are")]
pub enum ConfigProblem {
    /// The file cannot be read.
    #[error("the configuration cannot be read: {0}")]
    Unreadable(String),
    /// The file is not TOML, or a key or value is wrong.
    #[error(transparent)]
    Document(#[from] DocumentProblem),
    /// The configuration has no node.
    #[error("there are no nodes; add at least one, such as [nodes.a] with data and disks")]
    NoNodes,
    /// A name that is ambiguous in paths and messages.
    #[error(
        "{what} \"{name}\": a name has 1 to 64 letters, digits, dots, dashes or underscores, and \
         begins with a letter or a digit"
    )]
    BadName { what: &'static str, name: String },
    /// A node without a data directory.
    #[error("node \"{node}\": it has no data directory; add data = \"/var/lib/pario/{node}\"")]
    NoData { node: String },
    /// A node without disks.
    #[error("node \"{node}\": it has no disks; add disks = [\"/mnt/d0\"]")]
    NoDisks { node: String },
    /// A path that depends on the working directory.
    #[error("{what} \"{path}\" must be an absolute path without \"..\"", path = .path.display())]
    NotAbsolute { what: String, path: PathBuf },
    /// A path that is too long for a socket.
    #[error(
        "node \"{node}\": socket \"{path}\" has {bytes} bytes, and a socket can have {limit}; set \
         socket = \"/run/pario/{node}.sock\"",
        path = .path.display()
    )]
    LongSocket { node: String, path: PathBuf, bytes: usize, limit: usize },
    /// A path or address that is used twice.
    #[error("node \"{node}\": {what} \"{place}\" is also {other_what} of node \"{other}\"{}", first(*.line))]
    Shared {
        node: String,
        what: &'static str,
        place: String,
        other_what: &'static str,
        other: String,
        line: Option<usize>,
    },
    /// A disk inside another disk.
    #[error(
        "node \"{node}\": disk \"{path}\" lies inside disk \"{outer}\" of node \"{other}\" (line \
         {line})",
        path = .path.display(),
        outer = .outer.display()
    )]
    Nested { node: String, path: PathBuf, outer: PathBuf, other: String, line: usize },
    /// A node without an address, in a cluster of several.
    #[error(
        "node \"{node}\": it has no listen address, and the other nodes could not reach it; add \
         listen = \"IP:PORT\""
    )]
    NoListen { node: String },
    /// An address that the other nodes cannot use.
    #[error(
        "node \"{node}\": the other nodes cannot know where {listen} is; give the address and port \
         under which they reach it"
    )]
    VagueListen { node: String, listen: String },
    /// A node that listens on TCP without a key.
    #[error(
        "node \"{node}\": over TCP, at {listen}, a node accepts only peers with the key of the \
         cluster, and there is no key_file; add key_file = \"/etc/pario/cluster.key\" with 64 \
         hexadecimal digits in it"
    )]
    NoKey { node: String, listen: String },
    /// The key cannot be read.
    #[error("key_file \"{path}\" cannot be read: {why}", path = .path.display())]
    UnreadableKey { path: PathBuf, why: String },
    /// The key file holds no key.
    #[error(
        "key_file \"{path}\" must hold 64 hexadecimal digits, but holds {len} characters; make one \
         with: openssl rand -hex 32",
        path = .path.display()
    )]
    BadKey { path: PathBuf, len: usize },
    /// Other users can read the key.
    #[error(
        "key_file \"{path}\" is readable by other users (mode {mode:04o}); run: chmod 600 {path}",
        path = .path.display()
    )]
    OpenKey { path: PathBuf, mode: u32 },
    /// More storage threads than disks.
    #[error(
        "node \"{node}\": {threads} storage threads for {}; at most one per disk has work",
        disks_of(*.disks)
    )]
    IdleThreads { node: String, threads: usize, disks: usize },
    /// The interface node does not exist.
    #[error("interface: there is no node \"{node}\"{}", did_you_mean(.suggestion.as_deref()))]
    UnknownInterface { node: String, suggestion: Option<String> },
}

/// A name of a node that a configuration does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no node \"{name}\" in the configuration; its nodes are {}", quoted(.known))]
pub struct UnknownNode {
    /// The name.
    pub name: String,
    /// The names of the nodes.
    pub known: Vec<String>,
}

impl ConfigError {
    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        let problem = ConfigProblem::Unreadable(error.to_string());
        let mistakes = vec![ConfigMistake::at(None, problem)];
        ConfigError { file: path.display().to_string(), mistakes }
    }
}

impl ConfigMistake {
    pub(super) fn at(line: impl Into<Option<usize>>, problem: ConfigProblem) -> Self {
        Self { line: line.into(), column: None, problem: Box::new(problem) }
    }
}

impl From<DocumentError> for ConfigMistake {
    fn from(error: DocumentError) -> Self {
        Self { column: error.column, ..Self::at(error.line, error.problem.into()) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.mistakes.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            let ConfigMistake { line, column, problem } = mistake;
            write!(f, "{}: {problem}", location(&self.file, *line, *column))?;
        }
        Ok(())
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

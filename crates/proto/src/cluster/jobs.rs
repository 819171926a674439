//! The jobs whose processes meet at a node: what they have open, and who waits for whom.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::group::AssemblyId;
use super::path::FilePath;
use crate::modes::call::{Call, Ranks};
use crate::modes::mode::Mode;

/// A job at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its name.
    pub job: String,
    /// Whose it is.
    pub uid: u32,
    /// How many processes it has.
    pub size: u32,
    /// The ranks whose processes are here.
    pub here: Vec<u32>,
    /// The files that they have open together.
    pub files: Vec<SharedFileStatus>,
    /// Who waits for whom, longest first.
    pub waits: Vec<WaitStatus>,
}

/// A file that a job has open, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFileStatus {
    /// Which opening.
    pub opening: AssemblyId,
    /// Its path.
    pub path: FilePath,
    /// Its mode.
    pub mode: Mode,
    /// Where the shared pointer is, in modes that have one.
    pub position: Option<u64>,
    /// The ranks that have it open.
    pub here: Vec<u32>,
}

/// A meeting that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitStatus {
    /// Which opening of a file it is about; none for what a job does outside of files.
    pub opening: Option<AssemblyId>,
    /// The path of that file.
    pub path: Option<FilePath>,
    /// The mode of that file.
    pub mode: Option<Mode>,
    /// How many such calls there were before.
    pub number: u64,
    /// Who has called what.
    pub arrived: Vec<(u32, Call)>,
    /// For whom they wait.
    pub missing: Vec<MissingRank>,
    /// Whether all have called, and the one that is missing does it for all.
    pub is_performed: bool,
    /// How long the first of them has waited.
    pub waited_ms: u64,
}

/// A rank for which others wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRank {
    /// Which.
    pub rank: u32,
    /// Whether its process is here.
    pub is_here: bool,
    /// What it called last, as far as is known.
    pub last: Option<LastCall>,
}

/// What a rank called last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCall {
    /// What.
    pub call: Call,
    /// The file that it was about.
    pub path: Option<FilePath>,
    /// How long ago.
    pub ago_ms: u64,
}

impl WaitStatus {
    /// Those who wait.
    pub fn waiting(&self) -> Vec<u32> {
        self.arrived.iter().map(|(rank, _)| *rank).collect()
    }

    /// Those for whom they wait.
    pub fn awaited(&self) -> Vec<u32> {
        self.missing.iter().map(|missing| missing.rank).collect()
    }
}

impl fmt::Display for WaitStatus {
    /// One sentence, without the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, awaited) = (self.waiting(), self.awaited());
        let verb = if waiting.len() == 1 { "waits" } else { "wait" };
        write!(f, "{} {verb} for {}", Ranks(&waiting), Ranks(&awaited))?;
        if let Some((_, call)) = self.arrived.first() {
            write!(f, " in {call}")?;
        }
        match &self.path {
            Some(path) => write!(f, " of {path}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LastCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} of {path}", self.call),
            None => write!(f, "{}", self.call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::position::Transfer;

    #[test]
    fn a_wait_is_a_sentence() {
        let missing = |rank| MissingRank { rank, is_here: true, last: None };
        let call = Call::Transfer(Transfer::write(10));
        let mut wait = WaitStatus {
            opening: Some(AssemblyId(1)),
            path: Some(FilePath::new("/runs/7/result").unwrap()),
            mode: Some(Mode::Sync),
            number: 41,
            arrived: [0, 1, 2, 4].map(|rank| (rank, call.clone())).to_vec(),
            missing: vec![missing(3)],
            is_performed: false,
            waited_ms: 12_000,
        };
        let text = "ranks 0 to 2, 4 wait for rank 3 in write (10 bytes) of /runs/7/result";
        assert_eq!(wait.to_string(), text);
        wait.arrived = vec![(1, Call::Barrier)];
        wait.missing = vec![missing(0), missing(2)];
        wait.path = None;
        assert_eq!(wait.to_string(), "rank 1 waits for ranks 0, 2 in barrier");
    }
}

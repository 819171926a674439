//! The jobs whose processes meet at a node: what they have open, and who waits for whom.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::job::SharedFileId;
use super::path::FilePath;
use crate::modes::call::{Call, RankList};
use crate::modes::mode::Mode;
use crate::modes::waiting::WaitCause;

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
    pub opening: SharedFileId,
    /// Its path.
    pub path: FilePath,
    /// Its mode.
    pub mode: Mode,
    /// Where the shared pointer is, in modes that have one.
    pub position: Option<u64>,
    /// The ranks that have it open.
    pub here: Vec<u32>,
}

/// A meeting that has begun, or an access that cannot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitStatus {
    /// Which opening of a file it is about; none for what a job does outside of files.
    pub opening: Option<SharedFileId>,
    /// The path of that file.
    pub path: Option<FilePath>,
    /// The mode of that file.
    pub mode: Option<Mode>,
    /// How many such calls there were before; for bytes a number that no other wait for them has,
    /// of this rank.
    pub number: u64,
    /// Who has called what.
    pub arrived: Vec<(u32, Call)>,
    /// For whom they wait.
    pub missing: Vec<MissingRank>,
    /// Why they wait.
    pub cause: WaitCause,
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

/// What is waited for, in few words.
#[derive(Clone, Copy, Debug)]
pub struct WaitTarget<'a>(pub &'a WaitStatus);

impl fmt::Display for WaitTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let awaited = self.0.awaited();
        match &self.0.cause {
            WaitCause::Absence | WaitCause::Performance => RankList(&awaited).fmt(f),
            WaitCause::Bytes(bytes) if bytes.more > 0 => {
                write!(f, "bytes of {} and {} more", RankList(&awaited), bytes.more)
            }
            WaitCause::Bytes(_) => write!(f, "bytes of {}", RankList(&awaited)),
            WaitCause::Size => f.write_str("the size of the file"),
        }
    }
}

impl fmt::Display for WaitStatus {
    /// One sentence, without the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.waiting();
        let verb = if waiting.len() == 1 { "waits" } else { "wait" };
        write!(f, "{} {verb} for {}", RankList(&waiting), WaitTarget(self))?;
        match (&self.cause, self.arrived.first()) {
            (WaitCause::Bytes(bytes), _) => write!(f, " in {}", bytes.wanted)?,
            (_, Some((_, call))) => write!(f, " in {call}")?,
            (_, None) => {}
        }
        match &self.path {
            Some(path) => write!(f, " on {path}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LastCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} on {path}", self.call),
            None => write!(f, "{}", self.call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::position::Transfer;
    use crate::modes::waiting::{BytesUse, BytesWait};

    #[test]
    fn a_wait_is_a_sentence() {
        let missing = |rank| MissingRank { rank, is_here: true, last: None };
        let call = Call::Transfer(Transfer::write(10));
        let mut wait = WaitStatus {
            opening: Some(SharedFileId(1)),
            path: Some(FilePath::new("/runs/7/result").unwrap()),
            mode: Some(Mode::Sync),
            number: 41,
            arrived: [0, 1, 2, 4].map(|rank| (rank, call.clone())).to_vec(),
            missing: vec![missing(3)],
            cause: WaitCause::Absence,
            waited_ms: 12_000,
        };
        let text = "ranks 0 to 2, 4 wait for rank 3 in write of 10 bytes on /runs/7/result";
        assert_eq!(wait.to_string(), text);
        let wanted = BytesUse::new(131_072, 65_536, true);
        let mut bytes = BytesWait { wanted, before: Vec::new(), more: 0 };
        wait.arrived = vec![(1, wanted.call())];
        wait.cause = WaitCause::Bytes(bytes.clone());
        let of_file = "in write of 65536 bytes at 131072 on /runs/7/result";
        assert_eq!(wait.to_string(), format!("rank 1 waits for bytes of rank 3 {of_file}"));
        bytes.more = 2;
        wait.cause = WaitCause::Bytes(bytes);
        assert_eq!(WaitTarget(&wait).to_string(), "bytes of rank 3 and 2 more");
        wait.cause = WaitCause::Size;
        wait.missing.clear();
        let text =
            "rank 1 waits for the size of the file in write of 65536 bytes on /runs/7/result";
        assert_eq!(wait.to_string(), text);
        wait.cause = WaitCause::Absence;
        wait.arrived = vec![(1, Call::Barrier)];
        wait.missing = vec![missing(0), missing(2)];
        wait.path = None;
        assert_eq!(wait.to_string(), "rank 1 waits for ranks 0, 2 in barrier");
    }
}

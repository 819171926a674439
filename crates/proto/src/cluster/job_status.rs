//! The status of the jobs that a node coordinates: their open files, and who waits for whom.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::job::SharedFileId;
use super::path::FilePath;
use crate::ids::FileId;
use crate::modes::call::{Call, RankList};
use crate::modes::mode::Mode;
use crate::modes::waiting::WaitCause;

/// The status of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its name.
    pub job: String,
    /// The user of the job.
    pub uid: u32,
    /// The number of ranks.
    pub size: u32,
    /// The ranks that are connected.
    pub here: Vec<u32>,
    /// The shared files.
    pub files: Vec<SharedFileStatus>,
    /// The waits, longest first.
    pub waits: Vec<WaitStatus>,
}

/// The status of a shared file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFileStatus {
    /// The id of the shared file.
    pub opening: SharedFileId,
    /// Its path.
    pub path: FilePath,
    /// Its mode.
    pub mode: Mode,
    /// The shared pointer, in modes that have one.
    pub position: Option<u64>,
    /// The ranks that have it open.
    pub here: Vec<u32>,
    /// The end of the file, if its coordination knows it.
    pub end: Option<u64>,
    /// The file.
    pub file: FileId,
    /// What the ranks that have it open show of themselves in the memory of the job; `None` if they
    /// coordinate by messages, so that only their processes know it.
    pub shown: Option<Vec<ShownRank>>,
}

/// What a rank shows of itself at a shared file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownRank {
    /// The rank.
    pub rank: u32,
    /// Its private pointer, in modes that have one.
    pub pointer: Option<u64>,
    /// The requests that it has started and not waited for.
    pub requests: Vec<StartedRequestStatus>,
}

/// A request that a rank has started and not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedRequestStatus {
    /// Its id in the process: what `iread` or `iwrite` returned.
    pub id: u64,
    /// Whether it writes.
    pub is_write: bool,
    /// Its length in bytes.
    pub len: u64,
    /// How long ago it was started.
    pub ago_ms: u64,
}

/// Ranks that wait: in a round, for bytes, or for the size of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitStatus {
    /// The id of the shared file; `None` for a call outside of files.
    pub opening: Option<SharedFileId>,
    /// The path of that file.
    pub path: Option<FilePath>,
    /// The mode of that file.
    pub mode: Option<Mode>,
    /// The number of the round; for bytes, a number that no other claim of the rank has.
    pub number: u64,
    /// The ranks that wait, and their calls.
    pub arrived: Vec<(u32, Call)>,
    /// The ranks that they wait for.
    pub missing: Vec<MissingRank>,
    /// The cause of the wait.
    pub cause: WaitCause,
    /// How long the first of them has waited.
    pub waited_ms: u64,
}

/// A rank that others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRank {
    /// The rank.
    pub rank: u32,
    /// Whether its process is connected.
    pub is_here: bool,
    /// Its last call, if it is known.
    pub last: Option<LastCall>,
}

/// The last call of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCall {
    /// The call.
    pub call: Call,
    /// The file of the call.
    pub path: Option<FilePath>,
    /// How long ago.
    pub ago_ms: u64,
}

impl WaitStatus {
    /// The ranks that wait.
    pub fn waiting(&self) -> Vec<u32> {
        self.arrived.iter().map(|(rank, _)| *rank).collect()
    }

    /// The ranks that they wait for.
    pub fn awaited(&self) -> Vec<u32> {
        self.missing.iter().map(|missing| missing.rank).collect()
    }
}

/// Displays what a wait waits for, in a few words.
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
    /// Displays the wait as one sentence, without the time.
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

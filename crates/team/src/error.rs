//! Errors of a team.

use std::io;

use thiserror::Error;

use crate::call::CollectiveCall;

/// Why a call of a team failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TeamError {
    /// A process has ended without leaving the team.
    #[error(
        "job {job}: rank {rank} has ended without leaving the team; what was shared with it can be \
         used no more: end the job, and look why that process ended"
    )]
    Lost {
        /// The job.
        job: String,
        /// Which process.
        rank: u32,
    },
    /// A process has left, and others wait for it.
    #[error(
        "job {job}: rank {rank} has left the team while others still call it together; all ranks \
         must make the same calls"
    )]
    Left {
        /// The job.
        job: String,
        /// Which process.
        rank: u32,
    },
    /// Ranks have made calls that do not match.
    #[error("job {job}: the ranks of the team disagree\n{}", told((0..).zip(.calls.iter().copied())))]
    Disagree {
        /// The job.
        job: String,
        /// What each rank has called.
        calls: Vec<CollectiveCall>,
    },
    /// Ranks of a group have made calls that do not match.
    #[error("job {job}: the ranks of the group disagree\n{}", told(.calls.iter().copied()))]
    GroupDisagree {
        /// The job.
        job: String,
        /// Each rank of the group, and what it has called.
        calls: Vec<(u32, CollectiveCall)>,
    },
    /// A rank could not make the call that the others have made.
    #[error("job {job}: rank {rank} could not make the call: {why}")]
    RankFailed {
        /// The job.
        job: String,
        /// The rank.
        rank: u32,
        /// What was wrong there.
        why: String,
    },
    /// Not all have come.
    #[error(
        "job {job}: {missing} of {size} not here after {seconds} s; are all processes started?"
    )]
    Missing {
        /// The job.
        job: String,
        /// The missing ranks, for people.
        missing: String,
        /// How many there should be.
        size: u32,
        /// How long this process waited.
        seconds: u64,
    },
    /// A callback has failed.
    #[error("the callback at the machine of rank {rank} failed: {why}")]
    Callback {
        /// The rank.
        rank: u32,
        /// What it said.
        why: String,
    },
    /// The call is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The machine does not have enough memory.
    #[error("{0}")]
    Memory(String),
    /// The system has refused something.
    #[error("{0}")]
    System(String),
}

impl TeamError {
    /// The kind of error, as the standard library sorts them.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Lost { .. } | Self::Left { .. } => io::ErrorKind::ConnectionAborted,
            Self::Missing { .. } => io::ErrorKind::TimedOut,
            Self::Disagree { .. }
            | Self::GroupDisagree { .. }
            | Self::RankFailed { .. }
            | Self::Invalid(_) => io::ErrorKind::InvalidInput,
            Self::Memory(_) => io::ErrorKind::OutOfMemory,
            Self::System(_) | Self::Callback { .. } => io::ErrorKind::Other,
        }
    }

    /// Returns the rank that was lost, has left, or whose call or callback failed, if the error names
    /// one.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::Lost { rank, .. }
            | Self::Left { rank, .. }
            | Self::RankFailed { rank, .. }
            | Self::Callback { rank, .. } => Some(*rank),
            _ => None,
        }
    }

    pub(crate) fn system(doing: &str, error: impl std::fmt::Display) -> Self {
        Self::System(format!("{doing}: {error}"))
    }
}

/// The calls of the ranks, one line for each call.
fn told(calls: impl Iterator<Item = (u32, CollectiveCall)>) -> String {
    let mut lines: Vec<(String, Vec<usize>)> = Vec::new();
    for (rank, call) in calls {
        let (what, rank) = (call.to_string(), rank as usize);
        match lines.iter_mut().find(|(known, _)| *known == what) {
            Some((_, ranks)) => ranks.push(rank),
            None => lines.push((what, vec![rank])),
        }
    }
    let lines = lines.iter().map(|(what, ranks)| format!("  {} called {what}", some_ranks(ranks)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Ranks as people write them: `rank 3`, `ranks 0, 1, 2`, and not too many of them.
pub fn some_ranks(ranks: &[usize]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = ranks.iter().take(SHOWN).map(usize::to_string).collect();
    let more = ranks.len().saturating_sub(SHOWN);
    let name = if ranks.len() == 1 { "rank" } else { "ranks" };
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{name} {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_calls_and_ranks_line_by_line() {
        let calls = vec![
            CollectiveCall::Barrier,
            CollectiveCall::Broadcast { root: 1, bytes: 8 },
            CollectiveCall::Barrier,
            CollectiveCall::Broadcast { root: 1, bytes: 9 },
        ];
        let error = TeamError::Disagree { job: "7".to_owned(), calls };
        let text = "job 7: the ranks of the team disagree\n  ranks 0, 2 called a barrier\n  \
                    rank 1 called a broadcast of 8 bytes from rank 1\n  \
                    rank 3 called a broadcast of 9 bytes from rank 1";
        assert_eq!(error.to_string(), text);
        let many: Vec<usize> = (0..11).collect();
        assert_eq!(some_ranks(&many), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more");
    }
}

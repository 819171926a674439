//! What the ranks of a job call together, and what is said when they do not fit together.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::mode::Mode;
use super::position::{AccessRange, Seek, Transfer};

/// What one rank tells the others of a file that it has opened for all has at most so many bytes.
pub const OPEN_REPLY_LIMIT_BYTES: u64 = 256 << 10;

/// A call in which all ranks of a group meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Reading or writing.
    Transfer(Transfer),
    /// Moving the pointer.
    Seek(Seek),
    /// Choosing a mode.
    SetMode(Mode),
    /// Closing the file.
    Close,
    /// Opening a file: what is opened how, in words that must be the same for all.
    Open(String),
    /// Nothing but meeting.
    Barrier,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallOutcome {
    /// It is done.
    Done,
    /// The pointer is here.
    At(u64),
    /// The access goes there.
    Placed(AccessRange),
    /// The access goes there; this rank does it for all, and reports.
    Perform {
        /// The number of the round.
        number: u64,
        /// Where.
        placement: AccessRange,
    },
    /// Another rank has done it; what it has read goes with the answer.
    Performed {
        /// The number of the round.
        number: u64,
        /// Where, and how much.
        placement: AccessRange,
    },
}

/// The ranks of a group have called what does not fit together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// What each rank has called, in the order of ranks.
    pub calls: Vec<Call>,
}

impl Call {
    /// Whether two ranks may call this together in a mode.
    pub fn fits(&self, other: &Call, mode: Mode) -> bool {
        match (self, other) {
            (Call::Transfer(one), Call::Transfer(other)) if mode == Mode::Sync => {
                one.is_write == other.is_write
            }
            (one, other) => one == other,
        }
    }
}

/// A number that is another one for other bytes, as good as always.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest: u64, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Transfer(transfer) => {
                let verb = if transfer.is_write { "write" } else { "read" };
                let len = transfer.len;
                let plural = if len == 1 { "" } else { "s" };
                write!(f, "{verb} of {len} byte{plural}")
            }
            Call::Seek(Seek::Start(offset)) => write!(f, "seek to byte {offset}"),
            Call::Seek(Seek::Current(distance)) => write!(f, "seek by {distance:+}"),
            Call::Seek(Seek::End(0)) => f.write_str("seek to the end"),
            Call::Seek(Seek::End(distance)) => write!(f, "seek to the end {distance:+}"),
            Call::SetMode(mode) => write!(f, "setiomode({mode})"),
            Call::Close => f.write_str("close"),
            Call::Open(what) if what.is_empty() => f.write_str("open"),
            Call::Open(what) => write!(f, "open of {what}"),
            Call::Barrier => f.write_str("barrier"),
        }
    }
}

impl fmt::Display for Disagreement {
    /// Ranks that have called the same are named together; those in the minority come first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<(&Call, Vec<u32>)> = Vec::new();
        for (rank, call) in (0..).zip(&self.calls) {
            match groups.iter_mut().find(|(known, _)| *known == call) {
                Some((_, ranks)) => ranks.push(rank),
                None => groups.push((call, vec![rank])),
            }
        }
        groups.sort_by_key(|(_, ranks)| ranks.len());
        for (number, (call, ranks)) in groups.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{} called {call}", RankList(ranks))?;
        }
        Ok(())
    }
}

/// RankList for people: runs are told by their ends.
#[derive(Clone, Copy, Debug)]
pub struct RankList<'a>(pub &'a [u32]);

impl fmt::Display for RankList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "rank " } else { "ranks " })?;
        let runs = self.0.chunk_by(|one, next| one + 1 == *next);
        for (number, run) in runs.enumerate() {
            f.write_str(if number == 0 { "" } else { ", " })?;
            match run {
                [one] => write!(f, "{one}")?,
                [one, two] => write!(f, "{one}, {two}")?,
                [first, .., last] => write!(f, "{first} to {last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disagreement_tells_who_called_what() {
        let write = |len| Call::Transfer(Transfer::write(len));
        let read = Call::Transfer(Transfer::read(65_536));
        let calls = vec![write(1), write(1), write(1), read, write(1)];
        let text = Disagreement { calls }.to_string();
        assert_eq!(
            text,
            "rank 3 called read of 65536 bytes; ranks 0 to 2, 4 called write of 1 byte"
        );
        let calls = vec![Call::Close, Call::Barrier, Call::SetMode(Mode::Log), Call::Close];
        let text = Disagreement { calls }.to_string();
        assert_eq!(
            text,
            "rank 1 called barrier; rank 2 called setiomode(M_LOG); ranks 0, 3 called close"
        );
    }

    #[test]
    fn sizes_may_differ_in_rank_order_and_nowhere_else() {
        let (one, two) = (Call::Transfer(Transfer::write(1)), Call::Transfer(Transfer::write(2)));
        let read = Call::Transfer(Transfer::read(1));
        assert!(one.fits(&two, Mode::Sync) && !one.fits(&two, Mode::Global));
        assert!(!one.fits(&read, Mode::Sync));
        assert!(!Call::Seek(Seek::Start(1)).fits(&Call::Seek(Seek::Start(2)), Mode::Sync));
    }
}

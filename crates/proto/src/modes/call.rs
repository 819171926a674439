//! Collective calls, and the text of a disagreement about them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::mode::{CallKind, Mode};
use super::position::{AccessRange, Seek, Transfer};

/// The limit of the reply that the opening rank broadcasts to the other ranks.
pub const OPEN_REPLY_LIMIT_BYTES: u64 = 256 << 10;

/// The limit of the reason in [`Call::Failed`].
pub const FAILED_CALL_LIMIT_BYTES: usize = 256;

/// A call that every rank of a job makes; it ends for all of them.
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
    /// Opening a file: path and options, as a text that must be the same on every rank.
    Open(String),
    /// A barrier.
    Barrier,
    /// A call that this rank could not make, and why: it ends the round for all ranks.
    Failed(Box<str>),
}

/// The outcome of a call for one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallOutcome {
    /// It is done.
    Done,
    /// The pointer is at this byte.
    At(u64),
    /// The access has this range.
    Placed(AccessRange),
    /// The access has this range; this rank performs it for all ranks, and reports the result.
    Perform {
        /// The number of the round.
        number: u64,
        /// The range.
        range: AccessRange,
    },
    /// Another rank has performed the access; the bytes that it read are in the data of the reply.
    Performed {
        /// The number of the round.
        number: u64,
        /// The range that was read or written.
        range: AccessRange,
    },
}

/// The ranks of a job have made calls that do not match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// The calls, in the order of ranks.
    pub calls: Vec<Call>,
}

impl Call {
    /// The call of a rank that could not make the one of the other ranks; cuts a long reason.
    pub fn failed(reason: &str) -> Self {
        let mut len = reason.len().min(FAILED_CALL_LIMIT_BYTES);
        while !reason.is_char_boundary(len) {
            len -= 1;
        }
        Self::Failed(reason[..len].into())
    }

    /// The kind of the call, if it is one on a file.
    pub fn kind(&self) -> Option<CallKind> {
        match self {
            Call::Transfer(_) => Some(CallKind::Transfer),
            Call::Seek(_) => Some(CallKind::Seek),
            Call::SetMode(_) => Some(CallKind::SetMode),
            Call::Close => Some(CallKind::Close),
            Call::Open(_) | Call::Barrier | Call::Failed(_) => None,
        }
    }

    /// The bytes of text in the call.
    pub fn text_bytes(&self) -> usize {
        match self {
            Call::Open(text) => text.len(),
            Call::Failed(text) => text.len(),
            _ => 0,
        }
    }

    /// Whether two ranks may make these calls in one round, in a mode.
    pub fn fits(&self, other: &Call, mode: Mode) -> bool {
        match (self, other) {
            (Call::Transfer(one), Call::Transfer(other)) if mode == Mode::Sync => {
                one.is_write == other.is_write
            }
            (one, other) => one == other,
        }
    }
}

/// Returns the 64-bit FNV-1a hash of some bytes.
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
            Call::Failed(reason) if reason.is_empty() => f.write_str("a call that failed there"),
            Call::Failed(reason) => write!(f, "a call that failed there ({reason})"),
        }
    }
}

impl fmt::Display for Disagreement {
    /// Names ranks that made the same call together, the smallest group first.
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

/// Displays a list of ranks; three or more consecutive ranks are shown by their ends.
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
    fn a_disagreement_names_ranks_and_calls() {
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

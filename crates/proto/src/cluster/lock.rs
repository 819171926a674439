//! Locks of records: ranges of bytes that processes lock for each other, whoever they are.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::path::FilePath;

/// One past the largest byte that can be locked, 2^63: a range that ends here goes to the end of the
/// file, wherever that will be.
pub const LOCK_END: u64 = 1 << 63;

/// So many ranges of one file can a process have locked, those that it waits for included.
pub const LOCKS_LIMIT: usize = 4096;

/// Bytes that are locked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRange {
    /// The first byte.
    pub from: u64,
    /// One past the last one; [`LOCK_END`] is the end of the file.
    pub to: u64,
}

/// How bytes are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// Any number of processes can have them so: none of them writes.
    Shared,
    /// One process has them alone.
    Exclusive,
}

/// A lock that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLock {
    /// Which bytes.
    pub range: LockRange,
    /// How.
    pub kind: LockKind,
    /// The id of the process, as it says itself; on its own machine.
    pub pid: u32,
}

/// Something about the locks of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRequest {
    /// What the open gave.
    pub handle: u64,
    /// The id of the process that asks, for others.
    pub pid: u32,
    /// What.
    pub call: LockCall,
}

/// What a process wants of the locks of a file. Its own locks are never in its way: what it locks
/// takes the place of what it had of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockCall {
    /// Locks bytes if nobody is in the way.
    Try(LockRange, LockKind),
    /// Locks bytes, when nobody is in the way any more.
    Wait {
        /// Which.
        range: LockRange,
        /// How.
        kind: LockKind,
        /// To give it up by; the process has no other wait of this number.
        number: u64,
    },
    /// Gives up a wait. It is answered as well: whether it was over before.
    Withdraw {
        /// Which.
        number: u64,
    },
    /// Unlocks whatever the process has locked of these bytes.
    Unlock(LockRange),
    /// Who would be in the way.
    Test(LockRange, LockKind),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockOutcome {
    /// It is done. Of a test: nobody is in the way.
    Done,
    /// Somebody is in the way: the first lock, by its first byte.
    Held(HeldLock),
    /// It was given up before it was done.
    Withdrawn,
}

/// A process that waits for a lock, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWait {
    /// The file, as the process has opened it.
    pub path: FilePath,
    /// Whose process it is.
    pub uid: u32,
    /// The process.
    pub client: String,
    /// Which bytes it wants.
    pub range: LockRange,
    /// How.
    pub kind: LockKind,
    /// The processes that have some of them; if none has, others wait in front of it.
    pub holders: Vec<String>,
    /// For how long it has waited.
    pub waited_ms: u64,
}

impl LockRange {
    /// All bytes.
    pub const ALL: LockRange = LockRange { from: 0, to: LOCK_END };

    /// Bytes from one on and before another; none if there are none, or if they cannot be locked.
    pub fn new(from: u64, to: u64) -> Option<Self> {
        (from < to && to <= LOCK_END).then_some(Self { from, to })
    }

    /// Whether two ranges have a byte in common.
    pub fn overlaps(&self, other: &LockRange) -> bool {
        self.from < other.to && other.from < self.to
    }
}

impl LockKind {
    /// Whether two processes can have locked a byte so.
    pub fn goes_with(self, other: LockKind) -> bool {
        (self, other) == (LockKind::Shared, LockKind::Shared)
    }
}

impl fmt::Display for LockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from, self.to) {
            (0, LOCK_END) => f.write_str("all bytes"),
            (from, LOCK_END) => write!(f, "byte {from} to the end"),
            (from, to) if from + 1 == to => write!(f, "byte {from}"),
            (from, to) => write!(f, "bytes {from} to {}", to - 1),
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockKind::Shared => "shared",
            LockKind::Exclusive => "exclusive",
        })
    }
}

impl fmt::Display for LockWait {
    /// One sentence, without the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, client, range, kind, holders, .. } = self;
        write!(f, "{client} waits for {range} of {path} ({kind})")?;
        match holders.as_slice() {
            [] => f.write_str(", behind others that wait"),
            [one] => write!(f, ", locked by {one}"),
            [one, rest @ ..] => write!(f, ", locked by {one} and {} more", rest.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_bytes_that_can_be_locked() {
        assert_eq!(LockRange::new(3, 3), None);
        assert_eq!(LockRange::new(4, 3), None);
        assert_eq!(LockRange::new(0, LOCK_END + 1), None);
        assert_eq!(LockRange::new(0, LOCK_END), Some(LockRange::ALL));
        let range = |from, to| LockRange::new(from, to).unwrap();
        assert!(range(0, 4).overlaps(&range(3, 9)) && range(3, 9).overlaps(&range(0, 4)));
        assert!(!range(0, 4).overlaps(&range(4, 9)) && !range(4, 9).overlaps(&range(0, 4)));
    }

    #[test]
    fn a_wait_for_a_lock_is_a_sentence() {
        let mut wait = LockWait {
            path: FilePath::new("/runs/index").unwrap(),
            uid: 0,
            client: "count (12)".to_owned(),
            range: LockRange::new(8, 16).unwrap(),
            kind: LockKind::Exclusive,
            holders: vec!["count (13)".to_owned(), "count (14)".to_owned()],
            waited_ms: 1,
        };
        let text = "count (12) waits for bytes 8 to 15 of /runs/index (exclusive), locked by count \
                    (13) and 1 more";
        assert_eq!(wait.to_string(), text);
        wait.holders.clear();
        wait.range = LockRange { from: 7, to: LOCK_END };
        wait.kind = LockKind::Shared;
        let text = "count (12) waits for byte 7 to the end of /runs/index (shared), behind others \
                    that wait";
        assert_eq!(wait.to_string(), text);
        assert_eq!(LockRange::ALL.to_string(), "all bytes");
        assert_eq!(LockRange { from: 7, to: 8 }.to_string(), "byte 7");
    }
}

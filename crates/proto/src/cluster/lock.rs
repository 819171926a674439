//! Record locks: byte ranges of a file that processes lock against each other.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::path::FilePath;

/// One past the largest byte that can be locked, 2^63: a range that ends here reaches to the end of
/// the file, however long it becomes.
pub const LOCK_END: u64 = 1 << 63;

/// Ranges of one file that a process can have locked, including those that it waits for.
pub const LOCKS_LIMIT: usize = 4096;

/// A range of bytes to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRange {
    /// The first byte.
    pub from: u64,
    /// One past the last byte; [`LOCK_END`] is the end of the file.
    pub to: u64,
}

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LockKind {
    /// Any number of processes can hold it on the same bytes; none of them writes.
    Shared,
    /// One process holds it alone.
    Exclusive,
}

/// A lock that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLock {
    /// The bytes.
    pub range: LockRange,
    /// Its kind.
    pub kind: LockKind,
    /// The process id that the process has given; valid on its own machine.
    pub pid: u32,
}

/// A request about the locks of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRequest {
    /// The handle of the open file.
    pub handle: u64,
    /// The id of the process, to show it to others.
    pub pid: u32,
    /// The call.
    pub call: LockCall,
}

/// A call on the locks of a file. The own locks of a process never conflict: a new lock replaces
/// what the process had locked of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockCall {
    /// Locks bytes if no other lock conflicts.
    Try(LockRange, LockKind),
    /// Locks bytes as soon as no other lock conflicts.
    Wait {
        /// The bytes.
        range: LockRange,
        /// The kind of the lock.
        kind: LockKind,
        /// The number by which the wait can be withdrawn; unique in the process.
        number: u64,
    },
    /// Withdraws a wait. The reply says whether the wait was over before.
    Withdraw {
        /// The number of the wait.
        number: u64,
    },
    /// Unlocks everything that the process has locked of these bytes.
    Unlock(LockRange),
    /// Asks which lock would conflict.
    Test(LockRange, LockKind),
}

/// The outcome of a call on locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockOutcome {
    /// It is done. For a test: no lock conflicts.
    Done,
    /// A lock conflicts: the first one by its first byte.
    Held(HeldLock),
    /// The wait was withdrawn before the lock was free.
    Withdrawn,
}

/// A process that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWait {
    /// The path by which the process has opened the file.
    pub path: FilePath,
    /// The user of the process.
    pub uid: u32,
    /// The name of the process.
    pub client: String,
    /// The bytes.
    pub range: LockRange,
    /// The kind of the lock.
    pub kind: LockKind,
    /// The processes that hold conflicting locks; empty if only earlier waits are in front.
    pub holders: Vec<String>,
    /// How long the process has waited.
    pub waited_ms: u64,
}

impl LockRange {
    /// All bytes.
    pub const ALL: LockRange = LockRange { from: 0, to: LOCK_END };

    /// Returns the bytes `from..to`; `None` if the range is empty or cannot be locked.
    pub fn new(from: u64, to: u64) -> Option<Self> {
        (from < to && to <= LOCK_END).then_some(Self { from, to })
    }

    /// Whether two ranges share a byte.
    pub fn overlaps(&self, other: &LockRange) -> bool {
        self.from < other.to && other.from < self.to
    }
}

impl LockKind {
    /// Whether two processes can hold these locks on one byte.
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
    /// Displays the wait as one sentence, without the time.
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

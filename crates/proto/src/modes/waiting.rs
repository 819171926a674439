//! Why ranks wait, for people: for others who have not called, for one that does it for all, for
//! bytes that others have, or for the size of a file.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::position::Transfer;

/// So many of those who have the bytes, or wanted them before, are told one by one.
const TOLD: usize = 16;

/// Why those who wait do not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitCause {
    /// Those who are missing have not called.
    Absence,
    /// All have called, and the one that is missing does it for all.
    Performance,
    /// Those who are missing have some of the bytes, or wanted them before.
    Bytes(BytesWait),
    /// The size of the file is being found out; nobody is missing.
    Size,
}

/// Bytes of a file that a rank reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesUse {
    /// The first one.
    pub from: u64,
    /// One past the last one.
    pub to: u64,
    /// Whether it writes.
    pub is_write: bool,
}

/// A rank that has bytes, or wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesClaim {
    /// Which rank.
    pub rank: u32,
    /// A number that no other wish of this rank has.
    pub number: u64,
    /// Which bytes, and what for.
    pub bytes: BytesUse,
    /// Since when it wants them.
    pub since_ms: u64,
}

/// A wait for bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesWait {
    /// What the one that waits wants.
    pub wanted: BytesUse,
    /// Who has some of them or came before, the first of them first.
    pub before: Vec<BytesUser>,
    /// How many more of them there are.
    pub more: u32,
}

/// A rank for whose bytes another one waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesUser {
    /// Which rank.
    pub rank: u32,
    /// Which bytes, and what for.
    pub bytes: BytesUse,
    /// Whether it has them, and does not wait itself.
    pub has_them: bool,
    /// For how long it has or wants them.
    pub for_ms: u64,
}

impl BytesUse {
    /// Bytes from one on, as many as there can be.
    pub fn new(from: u64, len: u64, is_write: bool) -> Self {
        Self { from, to: from.saturating_add(len), is_write }
    }

    /// How many.
    pub fn len(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both must not be done at once.
    pub fn clashes(&self, other: &BytesUse) -> bool {
        (self.is_write || other.is_write) && self.from < other.to && other.from < self.to
    }

    /// The call that it is a part of.
    pub fn call(&self) -> Call {
        let (is_write, len) = (self.is_write, self.len());
        Call::Transfer(Transfer { is_write, len, is_append: false })
    }
}

impl BytesWait {
    /// Those among all who have bytes or want some, in the order in which they came, who wait for
    /// others.
    pub fn among(line: &[BytesClaim], now_ms: u64) -> Vec<(BytesClaim, BytesWait)> {
        let mut has_them = Vec::with_capacity(line.len());
        let mut waits = Vec::new();
        for (index, wish) in line.iter().enumerate() {
            let clashing = |other: &usize| line[*other].bytes.clashes(&wish.bytes);
            let mut before = (0..index).filter(clashing);
            let told = before.by_ref().take(TOLD).map(|other| BytesUser {
                rank: line[other].rank,
                bytes: line[other].bytes,
                has_them: has_them[other],
                for_ms: now_ms.saturating_sub(line[other].since_ms),
            });
            let told: Vec<_> = told.collect();
            let more = u32::try_from(before.count()).unwrap_or(u32::MAX);
            has_them.push(told.is_empty());
            if !told.is_empty() {
                waits.push((*wish, BytesWait { wanted: wish.bytes, before: told, more }));
            }
        }
        waits
    }

    /// The ranks for whom it waits, as far as they are told one by one.
    pub fn ranks(&self) -> Vec<u32> {
        let mut ranks: Vec<u32> = self.before.iter().map(|user| user.rank).collect();
        ranks.sort_unstable();
        ranks
    }
}

impl fmt::Display for BytesUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_write { "write" } else { "read" };
        let plural = if self.len() == 1 { "" } else { "s" };
        write!(f, "{verb} of {} byte{plural} at {}", self.len(), self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(rank: u32, from: u64, len: u64, is_write: bool) -> BytesClaim {
        let since_ms = 100 + u64::from(rank);
        BytesClaim { rank, number: 0, bytes: BytesUse::new(from, len, is_write), since_ms }
    }

    #[test]
    fn who_came_before_and_clashes_is_waited_for() {
        let line = [
            wish(0, 0, 10, false),
            wish(3, 5, 10, false),
            wish(2, 8, 4, true),
            wish(4, 11, 1, false),
            wish(1, 15, 5, true),
        ];
        let waits = BytesWait::among(&line, 150);
        let told: Vec<_> = waits.iter().map(|(wish, wait)| (wish.rank, wait.ranks())).collect();
        assert_eq!(told, [(2, vec![0, 3]), (4, vec![2])], "readers disturb no readers");
        let users = &waits[0].1.before;
        assert!(users.iter().all(|user| user.has_them));
        assert_eq!((users[1].rank, users[1].for_ms), (3, 47));
        assert!(!waits[1].1.before[0].has_them, "rank 2 waits itself");
        assert!(BytesWait::among(&[], 0).is_empty());
    }

    #[test]
    fn only_the_first_ones_are_told_one_by_one() {
        let line: Vec<_> = (0..40).map(|rank| wish(rank, 0, 1, true)).collect();
        let waits = BytesWait::among(&line, 0);
        assert_eq!(waits.len(), 39);
        let (_, last) = &waits[38];
        assert_eq!((last.before.len(), last.more), (16, 23));
    }

    #[test]
    fn a_use_is_told_in_words() {
        let text = BytesUse::new(131_072, 65_536, true).to_string();
        assert_eq!(text, "write of 65536 bytes at 131072");
        assert_eq!(
            BytesUse::new(u64::MAX - 1, 9, false).to_string(),
            "read of 1 byte at 18446744073709551614"
        );
        let nonsense = BytesUse { from: 9, to: 3, is_write: false };
        assert_eq!((nonsense.len(), nonsense.is_empty()), (0, true));
    }
}

//! Why ranks wait, for display: for ranks that have not called, for the rank that performs an
//! access for all, for bytes that other ranks use, or for the size of the file.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::position::Transfer;

/// The earlier claims that a wait for bytes names.
const NAMED_LIMIT: usize = 16;

/// The cause of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitCause {
    /// The missing ranks have not called.
    Absence,
    /// All ranks have called, and the missing rank performs the access for all.
    Performance,
    /// The missing ranks hold some of the bytes, or have claimed them earlier.
    Bytes(BytesWait),
    /// The size of the file is being measured: by the missing rank, which waits for itself too, or by
    /// the interface node if no rank is missing.
    Size,
}

/// Bytes of a file that a rank reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesUse {
    /// The first byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
    /// Whether the rank writes.
    pub is_write: bool,
}

/// Bytes that a rank holds or has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesClaim {
    /// The rank.
    pub rank: u32,
    /// A number that no other claim of this rank has.
    pub number: u64,
    /// The bytes, and whether the rank writes them.
    pub bytes: BytesUse,
    /// When the rank claimed them.
    pub since_ms: u64,
}

/// A wait for bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesWait {
    /// The bytes that the waiting rank has claimed.
    pub wanted: BytesUse,
    /// The earlier claims that conflict, oldest first.
    pub before: Vec<BytesUser>,
    /// The number of further conflicting claims.
    pub more: u32,
}

/// A rank whose bytes another rank waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytesUser {
    /// The rank.
    pub rank: u32,
    /// The bytes, and whether the rank writes them.
    pub bytes: BytesUse,
    /// Whether it holds them, and does not wait itself.
    pub has_them: bool,
    /// How long ago it claimed them.
    pub for_ms: u64,
}

impl BytesUse {
    /// The `len` bytes from `from` on, as far as offsets reach.
    pub fn new(from: u64, len: u64, is_write: bool) -> Self {
        Self { from, to: from.saturating_add(len), is_write }
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both accesses must not happen at the same time.
    pub fn clashes(&self, other: &BytesUse) -> bool {
        (self.is_write || other.is_write) && self.from < other.to && other.from < self.to
    }

    /// The call of the access.
    pub fn call(&self) -> Call {
        let (is_write, len) = (self.is_write, self.len());
        Call::Transfer(Transfer { is_write, len, is_append: false })
    }
}

impl BytesWait {
    /// Returns the claims that wait, with the earlier claims that each waits for. `claims` has all
    /// claims, oldest first.
    pub fn among(claims: &[BytesClaim], now_ms: u64) -> Vec<(BytesClaim, BytesWait)> {
        let mut has_them = Vec::with_capacity(claims.len());
        let mut waits = Vec::new();
        for (index, claim) in claims.iter().enumerate() {
            let clashing = |other: &usize| claims[*other].bytes.clashes(&claim.bytes);
            let mut before = (0..index).filter(clashing);
            let named = before.by_ref().take(NAMED_LIMIT).map(|other| BytesUser {
                rank: claims[other].rank,
                bytes: claims[other].bytes,
                has_them: has_them[other],
                for_ms: now_ms.saturating_sub(claims[other].since_ms),
            });
            let named: Vec<_> = named.collect();
            let more = u32::try_from(before.count()).unwrap_or(u32::MAX);
            has_them.push(named.is_empty());
            if !named.is_empty() {
                waits.push((*claim, BytesWait { wanted: claim.bytes, before: named, more }));
            }
        }
        waits
    }

    /// The ranks that are named, in order.
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

    fn claim(rank: u32, from: u64, len: u64, is_write: bool) -> BytesClaim {
        let since_ms = 100 + u64::from(rank);
        BytesClaim { rank, number: 0, bytes: BytesUse::new(from, len, is_write), since_ms }
    }

    #[test]
    fn a_claim_waits_for_earlier_claims_that_conflict() {
        let claims = [
            claim(0, 0, 10, false),
            claim(3, 5, 10, false),
            claim(2, 8, 4, true),
            claim(4, 11, 1, false),
            claim(1, 15, 5, true),
        ];
        let waits = BytesWait::among(&claims, 150);
        let named: Vec<_> = waits.iter().map(|(claim, wait)| (claim.rank, wait.ranks())).collect();
        assert_eq!(named, [(2, vec![0, 3]), (4, vec![2])], "readers disturb no readers");
        let users = &waits[0].1.before;
        assert!(users.iter().all(|user| user.has_them));
        assert_eq!((users[1].rank, users[1].for_ms), (3, 47));
        assert!(!waits[1].1.before[0].has_them, "rank 2 waits itself");
        assert!(BytesWait::among(&[], 0).is_empty());
    }

    #[test]
    fn only_the_first_claims_are_named() {
        let claims: Vec<_> = (0..40).map(|rank| claim(rank, 0, 1, true)).collect();
        let waits = BytesWait::among(&claims, 0);
        assert_eq!(waits.len(), 39);
        let (_, last) = &waits[38];
        assert_eq!((last.before.len(), last.more), (16, 23));
    }

    #[test]
    fn a_use_is_displayed_in_words() {
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

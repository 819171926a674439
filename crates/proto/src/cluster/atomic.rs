//! Atomic access to a file by processes that have opened it each for itself: what an opener and the
//! home node of the file say to each other.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::grant::Grant;
use super::job::SharedFileId;
use super::path::FilePath;
use crate::ids::FileId;
use crate::modes::waiting::BytesUse;

/// How long a delegation is valid after the opener has asked for it. The home node notices the end
/// of a lease within 100 ms, so a process that is stopped delays an open of another process by two
/// seconds at most.
pub const DELEGATION_LEASE_MS: u64 = 1_900;

/// Claims that one opener has at the home node at the same time.
pub const OPENER_CLAIMS_LIMIT: usize = 4096;

/// Returns the number of the node that is the home of a file, in a cluster of `nodes` nodes. All
/// clients and nodes compute the same one.
pub fn home_node(file: FileId, nodes: usize) -> usize {
    // The finalizer of SplitMix64 spreads ids that differ in few bits.
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    let mut mixed = (file.0 ^ file.0 >> 64) as u64;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    usize::try_from(mixed % (nodes.max(1) as u64)).unwrap_or(0)
}

/// A call of an opener at the home node of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtomicRequest {
    /// The file.
    pub file: FileId,
    /// The number of the opener, unique in its process.
    pub opener: u64,
    /// The call.
    pub call: AtomicCall,
}

/// A call of an opener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtomicCall {
    /// Opens the file for atomic access. The reply comes when no other opener may access the file
    /// without asking the home node.
    Open {
        /// The right to use the file.
        grant: Grant,
        /// The path by which it was opened, for display.
        path: FilePath,
        /// The shared file, if the opener is a rank of a job that has opened the file together: the
        /// ranks coordinate among themselves.
        shared_file: Option<SharedFileId>,
    },
    /// Claims bytes. The reply comes when no other opener uses them.
    Claim {
        /// A number that no other claim of this opener has.
        number: u64,
        /// The bytes, and whether the opener writes them.
        bytes: BytesUse,
    },
    /// Releases claimed bytes.
    Release {
        /// The number of the claim.
        number: u64,
    },
    /// Waits until a delegation is recalled.
    AwaitRecall {
        /// The number of the delegation.
        delegation: u64,
    },
    /// Gives a recalled delegation back. Accesses under way become claims.
    GiveBack {
        /// The number of the delegation.
        delegation: u64,
        /// The accesses under way: the number of the claim, and the bytes.
        claims: Vec<(u64, BytesUse)>,
    },
    /// Closes the file.
    Close,
}

/// The outcome of a call of an opener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtomicOutcome {
    /// It is done.
    Done,
    /// The opener, or the job that it belongs to, is the only one: for
    /// [`DELEGATION_LEASE_MS`] from its call on it accesses the file without asking.
    Delegated {
        /// The number of the delegation.
        delegation: u64,
    },
    /// Other openers have the file open: each access must claim its bytes. For a claim: the bytes
    /// are claimed.
    AtHome,
    /// The delegation is recalled.
    Recalled,
}

/// An opener that waits at the home node of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtomicWait {
    /// The path by which the process has opened the file.
    pub path: FilePath,
    /// The user of the process.
    pub uid: u32,
    /// The name of the process.
    pub client: String,
    /// The bytes that it has claimed; none if it waits in its open.
    pub bytes: Option<BytesUse>,
    /// The processes that it waits for.
    pub holders: Vec<String>,
    /// Whether they have to give a delegation back. Otherwise they use the bytes, or have claimed
    /// them earlier.
    pub is_recall: bool,
    /// How long the process has waited.
    pub waited_ms: u64,
}

impl fmt::Display for AtomicWait {
    /// Displays the wait as one sentence, without the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, client, bytes, holders, is_recall, .. } = self;
        match bytes {
            Some(bytes) => write!(f, "{client} waits with a {bytes} of {path}")?,
            None => write!(f, "{client} waits to open {path}")?,
        }
        let has =
            if *is_recall { "its delegation is recalled from" } else { "the bytes are used by" };
        match holders.as_slice() {
            [] => Ok(()),
            [one] => write!(f, ": {has} {one}"),
            [one, rest @ ..] => write!(f, ": {has} {one} and {} more", rest.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_homes_on_all_nodes() {
        for nodes in [1, 2, 3, 7] {
            let mut files = vec![0; nodes];
            for id in 0..1000_u128 {
                files[home_node(FileId(id), nodes)] += 1;
                assert!(home_node(FileId(id << 64), nodes) < nodes);
            }
            assert!(files.iter().all(|count| *count > 800 / nodes), "{files:?}");
        }
        assert_eq!(home_node(FileId(7), 0), 0);
        // Clients and nodes of one cluster must agree, whatever their release.
        assert_eq!([1, 2, 3, 4, 5].map(|id| home_node(FileId(id), 4)), [1, 2, 0, 0, 0]);
    }

    #[test]
    fn a_wait_is_a_sentence() {
        let mut wait = AtomicWait {
            path: FilePath::new("/runs/log").unwrap(),
            uid: 0,
            client: "count (12)".to_owned(),
            bytes: Some(BytesUse::new(4096, 100, true)),
            holders: vec!["count (13)".to_owned()],
            is_recall: false,
            waited_ms: 1,
        };
        let text = "count (12) waits with a write of 100 bytes at 4096 of /runs/log: the bytes are \
                    used by count (13)";
        assert_eq!(wait.to_string(), text);
        wait.bytes = None;
        wait.is_recall = true;
        wait.holders.push("count (14)".to_owned());
        let text = "count (12) waits to open /runs/log: its delegation is recalled from count (13) \
                    and 1 more";
        assert_eq!(wait.to_string(), text);
    }
}

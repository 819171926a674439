//! The right to use one file, which every node can check by itself.

use serde::{Deserialize, Serialize};

use super::job::JobMemoryId;
use super::request::SubfileLocation;
use crate::ids::FileId;

/// What a grant allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Access {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
}

impl Access {
    /// Neither: only sizes and times may be queried.
    pub const LOOK: Access = Access { read: false, write: false };
    /// Reading only.
    pub const READ: Access = Access { read: true, write: false };
    /// Writing only.
    pub const WRITE: Access = Access { read: false, write: true };
    /// Both.
    pub const READ_WRITE: Access = Access { read: true, write: true };
}

/// Grant epochs for which a grant is valid after the epoch in which it was given.
pub const GRANT_LIFETIME_EPOCHS: u64 = 10;

/// The rights version of grants for a file that was deleted and is still open. Versions of files in
/// the namespace stay below it.
pub const ORPHAN_RIGHTS_VERSION: u32 = u32::MAX - 1;

/// The first valid rights version of a file whose subfiles are removed: every grant is below it.
pub const REMOVED_RIGHTS_VERSION: u32 = u32::MAX;

/// The first valid rights version of a file, since an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revocation {
    /// The file.
    pub file: FileId,
    /// Grants with a lower version are not valid.
    pub first_valid: u32,
    /// The grant epoch in which they became invalid.
    pub epoch: u64,
}

/// The right to use one file, given by an open. The seal proves that a node of the cluster has
/// given it, so every node can check it by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The file.
    pub file: FileId,
    /// The user it was given to.
    pub uid: u32,
    /// What it allows.
    pub access: Access,
    /// The file's `rights_version` when it was given.
    pub rights_version: u32,
    /// The grant epoch in which it was given.
    pub epoch: u64,
    /// Proof of the above.
    pub seal: [u8; 32],
}

impl Grant {
    /// The bytes that are sealed: the fields before the seal, in a fixed-length form.
    pub fn sealed_bytes(&self) -> [u8; 34] {
        let mut bytes = [0; 34];
        bytes[..16].copy_from_slice(&self.file.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.uid.to_le_bytes());
        bytes[20] = u8::from(self.access.read);
        bytes[21] = u8::from(self.access.write);
        bytes[22..26].copy_from_slice(&self.rights_version.to_le_bytes());
        bytes[26..].copy_from_slice(&self.epoch.to_le_bytes());
        bytes
    }
}

/// A request for descriptors, over the descriptor socket of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DescriptorRequest {
    /// Descriptors of flat subfiles.
    Subfiles {
        /// The right to use the file.
        grant: Grant,
        /// The subfiles.
        parts: Vec<SubfileLocation>,
    },
    /// The descriptor of the memory of a job of the user; the only one in the answer.
    Memory(JobMemoryId),
    /// The descriptor of the memory in which the client counts its own reads and writes; the only
    /// one in the answer, with a [`TrafficAnswer`](super::traffic::TrafficAnswer).
    Traffic,
}

/// The answer with descriptors of subfiles: the first descriptor is that of the lease table, then
/// one follows for each subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorAnswer {
    /// The offset of byte 0 of a subfile in the file of its descriptor.
    pub data_start_bytes: u64,
    /// The number of the file in the lease table, read before the grant was checked: so no change
    /// of rights is missed.
    pub lease: u32,
}

/// The size of the lease table, by which clients on the same machine see that rights have changed:
/// 65,536 numbers of four bytes.
pub const LEASE_TABLE_BYTES: u64 = 4 << 16;

/// Returns the index of the number of a file in the lease table.
pub fn lease_slot(file: FileId) -> u32 {
    let folded = file.0 ^ file.0 >> 64;
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits are wanted")]
    let low = folded as u32;
    (low ^ low >> 16) & 0xffff
}

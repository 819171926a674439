//! The right to use one file, as a node can check it by itself.

use serde::{Deserialize, Serialize};

use super::job::JobMemoryId;
use super::request::SubfileLocation;
use crate::ids::FileId;

/// What an open allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Access {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
}

impl Access {
    /// Neither: only sizes and times may be asked for.
    pub const LOOK: Access = Access { read: false, write: false };
    /// Reading only.
    pub const READ: Access = Access { read: true, write: false };
    /// Writing only.
    pub const WRITE: Access = Access { read: false, write: true };
    /// Both.
    pub const READ_WRITE: Access = Access { read: true, write: true };
}

/// Grant epochs for which a grant is valid after the one in which it was given.
pub const GRANT_LIFETIME_EPOCHS: u64 = 10;

/// The rights version of grants for a file that was deleted and is still open. Versions of files in
/// the namespace stay below it.
pub const ORPHAN_RIGHTS_VERSION: u32 = u32::MAX - 1;

/// The first valid rights version of a file whose subfiles are removed: no grant has one as high.
pub const REMOVED_RIGHTS_VERSION: u32 = u32::MAX;

/// The first rights version of a file that is valid, since an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revocation {
    /// The file.
    pub file: FileId,
    /// Grants with a lower version are not valid.
    pub first_valid: u32,
    /// The grant epoch in which they ceased to be valid.
    pub epoch: u64,
}

/// A right that was granted by an open. The seal proves that a node of the cluster has given it;
/// every node can check it without asking.
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
    /// What the seal is made of: the fields before it, in a form of fixed length.
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

/// Asks for descriptors, over the socket that a node has for that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DescriptorRequest {
    /// Of flat subfiles.
    Subfiles {
        /// The right to.
        grant: Grant,
        /// Which.
        parts: Vec<SubfileLocation>,
    },
    /// Of the memory in which processes of the user meet; it comes alone.
    Memory(JobMemoryId),
    /// Of memory in which the client counts what it reads and writes by itself; it comes alone, with
    /// a [`TrafficAnswer`](super::traffic::TrafficAnswer).
    Traffic,
}

/// What comes with descriptors of subfiles: first that of the table of leases, then one for each subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorAnswer {
    /// Byte 0 of a subfile is this byte of its file.
    pub data_start_bytes: u64,
    /// The number of the file in the table, as it was before the grant was checked: so no change
    /// of rights is missed.
    pub lease: u32,
}

/// The table by which clients on the same machine see that rights have changed has so many bytes:
/// 65,536 numbers of four.
pub const LEASE_TABLE_BYTES: u64 = 4 << 16;

/// Which number of the table concerns a file.
pub fn lease_slot(file: FileId) -> u32 {
    let folded = file.0 ^ file.0 >> 64;
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits are wanted")]
    let low = folded as u32;
    (low ^ low >> 16) & 0xffff
}

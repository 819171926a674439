//! Telling clients on the same machine at once that rights have changed.
//!
//! Clients that read and write flat subfiles themselves do not ask the node. They look into a
//! table that the node shares with them instead: a number for each file (or rather for each of
//! 65,536 groups of files), which the node raises when rights change. Who sees another number than
//! before puts its descriptors away and asks for a new grant.

use std::os::fd::OwnedFd;

use pario_proto::{FileId, lease_slot};
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

/// The table, as the node has it.
#[derive(Debug)]
pub struct Leases {
    file: OwnedFd,
    changes: Mutex<()>,
}

impl Leases {
    /// A table in which every number is zero.
    pub fn new() -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("pario-leases", flags)?;
        rustix::fs::ftruncate(&file, pario_proto::LEASE_TABLE_BYTES)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        Ok(Self { file, changes: Mutex::new(()) })
    }

    /// Raises the number of a file: whoever sees it asks again.
    pub fn raise(&self, file: FileId) -> Result<(), Errno> {
        let _one_at_a_time = self.changes.lock();
        let offset = u64::from(lease_slot(file)) * 4;
        let mut bytes = [0; 4];
        rustix::io::pread(&self.file, &mut bytes, offset)?;
        let raised = u32::from_ne_bytes(bytes).wrapping_add(1);
        rustix::io::pwrite(&self.file, &raised.to_ne_bytes(), offset)?;
        Ok(())
    }

    /// The table for a client, which cannot change it.
    pub fn share(&self) -> Result<OwnedFd, Errno> {
        use std::os::fd::AsRawFd as _;
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_sees_the_number_rise_and_cannot_change_it() {
        let leases = Leases::new().unwrap();
        let shared = leases.share().unwrap();
        let slot = u64::from(lease_slot(FileId(77))) * 4;
        let number = || {
            let mut bytes = [0; 4];
            rustix::io::pread(&shared, &mut bytes, slot).unwrap();
            u32::from_ne_bytes(bytes)
        };
        assert_eq!(number(), 0);
        leases.raise(FileId(77)).unwrap();
        leases.raise(FileId(77)).unwrap();
        assert_eq!(number(), 2);
        assert!(rustix::io::pwrite(&shared, &[1], 0).is_err());
    }
}

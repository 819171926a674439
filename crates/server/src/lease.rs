//! Telling clients on the same machine at once that rights have changed.
//!
//! Clients that read and write flat subfiles themselves do not ask the node. They look into a
//! table that the node shares with them instead: a number for each file (or rather for each of
//! 65,536 groups of files), which the node raises when rights change. Who sees another number than
//! before puts its descriptors away and asks for a new grant.
//!
//! The table is a file, which stays when the node is started again: clients that have kept their
//! descriptors meanwhile look into the same one.

use std::os::fd::OwnedFd;
use std::path::Path;

use pario_proto::{FileId, lease_slot};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The table, as the node has it.
#[derive(Debug)]
pub struct Leases {
    file: OwnedFd,
    changes: Mutex<()>,
}

impl Leases {
    /// The table in a file of the node; a new one has zeros only.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::ftruncate(&file, pario_proto::LEASE_TABLE_BYTES)?;
        Ok(Self { file, changes: Mutex::new(()) })
    }

    /// The number of a file.
    pub fn number(&self, file: FileId) -> Result<u32, Errno> {
        let mut bytes = [0; 4];
        rustix::io::pread(&self.file, &mut bytes, u64::from(lease_slot(file)) * 4)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    /// Raises the number of a file: whoever sees it asks again.
    pub fn raise(&self, file: FileId) -> Result<(), Errno> {
        let _one_at_a_time = self.changes.lock();
        let offset = u64::from(lease_slot(file)) * 4;
        let raised = self.number(file)?.wrapping_add(1);
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
        let dir = tempfile::tempdir().unwrap();
        let leases = Leases::open(&dir.path().join("leases")).unwrap();
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
        drop(leases);
        let leases = Leases::open(&dir.path().join("leases")).unwrap();
        leases.raise(FileId(77)).unwrap();
        assert_eq!(number(), 3, "also after the node was started again");
        assert!(rustix::io::pwrite(&shared, &[1], 0).is_err());
    }
}

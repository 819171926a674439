//! The lease table, which shows clients on the same machine at once that rights have changed.
//!
//! Clients on the short cut do not ask the node before each access. They read a table that the node
//! shares with them: one number for each of 65,536 groups of files, which the node raises when rights
//! change. A client that sees a new number closes its descriptors and asks for a new grant.
//!
//! The table is a file that outlives the node, so clients that keep their descriptors across a restart
//! still read the same table.

use std::os::fd::OwnedFd;
use std::path::Path;

use pario_proto::{FileId, lease_slot};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The lease table at the node.
#[derive(Debug)]
pub struct LeaseTable {
    file: OwnedFd,
    changes: Mutex<()>,
}

impl LeaseTable {
    /// Opens the table in a file of the node; a new table holds zeros.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::ftruncate(&file, pario_proto::LEASE_TABLE_BYTES)?;
        Ok(Self { file, changes: Mutex::new(()) })
    }

    /// Returns the number of a file.
    pub fn number(&self, file: FileId) -> Result<u32, Errno> {
        let mut bytes = [0; 4];
        rustix::io::pread(&self.file, &mut bytes, u64::from(lease_slot(file)) * 4)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    /// Raises the number of a file; clients that see it ask for a new grant.
    pub fn raise(&self, file: FileId) -> Result<(), Errno> {
        let _one_at_a_time = self.changes.lock();
        let offset = u64::from(lease_slot(file)) * 4;
        let raised = self.number(file)?.wrapping_add(1);
        rustix::io::pwrite(&self.file, &raised.to_ne_bytes(), offset)?;
        Ok(())
    }

    /// Returns a read-only descriptor of the table for a client.
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
        let leases = LeaseTable::open(&dir.path().join("leases")).unwrap();
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
        let leases = LeaseTable::open(&dir.path().join("leases")).unwrap();
        leases.raise(FileId(77)).unwrap();
        assert_eq!(number(), 3, "also after a restart of the node");
        assert!(rustix::io::pwrite(&shared, &[1], 0).is_err());
    }
}

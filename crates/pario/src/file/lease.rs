//! Leases: a table in shared memory by which a node tells its clients at once that rights have
//! changed.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use pario_proto::{FileId, LEASE_TABLE_BYTES, lease_slot};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

#[expect(clippy::cast_possible_truncation, reason = "262,144 fits everywhere")]
const TABLE_BYTES: usize = LEASE_TABLE_BYTES as usize;

/// The number of a file in a node's table, as it was when the node passed descriptors.
#[derive(Debug)]
pub struct Lease {
    table: MappedLeaseTable,
    slot: usize,
    number: u32,
}

/// A table of a node, mapped into this process.
#[derive(Debug)]
struct MappedLeaseTable(NonNull<AtomicU32>);

// SAFETY: the mapping is bound to no thread, and its numbers are read atomically.
unsafe impl Send for MappedLeaseTable {}
// SAFETY: shared access only reads numbers atomically.
unsafe impl Sync for MappedLeaseTable {}

impl Lease {
    /// Takes the lease of a file from the table that came with its descriptors, and the number that
    /// it had there before the grant was checked.
    pub fn take(table: &OwnedFd, file: FileId, number: u32) -> Option<Self> {
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists. The
        // node never shortens the file, so that reading does not fail.
        let start = unsafe {
            mmap(std::ptr::null_mut(), TABLE_BYTES, ProtFlags::READ, MapFlags::SHARED, table, 0)
        };
        let table = MappedLeaseTable(NonNull::new(start.ok()?.cast())?);
        let slot = lease_slot(file) as usize;
        Some(Self { table, slot, number })
    }

    /// Whether nothing has changed since.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.table.number(self.slot) == self.number
    }
}

impl MappedLeaseTable {
    #[inline]
    fn number(&self, slot: usize) -> u32 {
        debug_assert!(slot < TABLE_BYTES / 4);
        // SAFETY: a slot is below 65,536, and the mapping has that many numbers.
        unsafe { self.0.add(slot).as_ref() }.load(Ordering::Acquire)
    }
}

impl Drop for MappedLeaseTable {
    fn drop(&mut self) {
        // SAFETY: mapped in `take`, and nothing refers to it any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), TABLE_BYTES) };
    }
}

//! Disks on a medium in memory, as most tests use them.

use std::sync::Arc;

use pario_store::medium::MemoryMedium;
use pario_store::{Disk, DiskOptions, FlatFile};

/// Options without a checkpoint worker: every change of the medium has a fixed order.
pub fn inline_options() -> DiskOptions {
    DiskOptions { background: false, ..DiskOptions::default() }
}

/// Creates a disk on an empty medium.
pub fn create_disk(memory: &MemoryMedium) -> Disk {
    Disk::create_on(Arc::new(memory.clone()), inline_options()).unwrap()
}

/// Opens the disk of a medium.
pub fn open_disk(memory: &MemoryMedium) -> Disk {
    Disk::open_on(Arc::new(memory.clone()), inline_options()).unwrap()
}

/// All bytes of a flat subfile.
pub fn bytes_of(flat: &FlatFile) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(flat.len().unwrap()).unwrap()];
    flat.read_at(&mut bytes, 0).unwrap();
    bytes
}

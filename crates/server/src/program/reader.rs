//! Readers: they fetch extents for work with them, several of each disk at once.
//!
//! A disk without moving parts is busy only if it has several requests, and of others the kernel can
//! choose the nearest.

use pario_proto::ExtentPlacement;

use super::scheduled_extent::ScheduledExtent;

/// So many extents of a disk are read at once.
pub const READERS_PER_DISK: usize = 4;

/// A reader of a disk.
pub struct Reader;

impl Reader {
    /// Reads an extent.
    pub fn fetch(&mut self, mut visit: ScheduledExtent) -> ScheduledExtent {
        if !visit.running.is_stopped() {
            visit.read();
        }
        visit
    }
}

/// Which reader fetches an extent. Those of a slice may have numbers that are multiples of some
/// other, and are spread all the same.
pub fn reader_of(disk: usize, place: ExtentPlacement) -> usize {
    let spread = place.extent.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    disk * READERS_PER_DISK + usize::try_from(spread).unwrap_or(0) % READERS_PER_DISK
}

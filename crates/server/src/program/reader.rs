//! Readers: they read extents for processing, several of each disk at once.
//!
//! A disk without moving parts is busy only with several requests; for other disks the kernel
//! chooses the nearest request.

use pario_proto::ExtentPlacement;

use super::scheduled_extent::ScheduledExtent;

/// Concurrent reads per disk.
pub const READERS_PER_DISK: usize = 4;

/// A reader of a disk.
pub struct Reader;

impl Reader {
    /// Reads an extent.
    pub fn fetch(&mut self, mut extent: ScheduledExtent) -> ScheduledExtent {
        if !extent.running.is_stopped() {
            extent.read();
        }
        extent
    }
}

/// Returns the reader of an extent. The hash spreads the extents of a slice, whose indices may be
/// multiples of a number.
pub fn reader_of(disk: usize, place: ExtentPlacement) -> usize {
    let spread = place.extent.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    disk * READERS_PER_DISK + usize::try_from(spread).unwrap_or(0) % READERS_PER_DISK
}

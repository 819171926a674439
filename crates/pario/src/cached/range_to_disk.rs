//! Moving ranges of a plain file from the page cache to its disk (`sync_file_range`).
//!
//! This makes nothing durable: only `fdatasync` does, and it reports the errors of the disk. The
//! system reports an error once for each open file, and so the ranges have an open file of their own.
//! Where the system does not support this, nothing happens.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;

/// The open file for the ranges.
#[derive(Debug)]
pub struct RangeToDisk {
    file: Option<File>,
}

impl RangeToDisk {
    /// Opens the file again.
    pub fn new(file: &File) -> Self {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Self { file: OpenOptions::new().write(true).open(path).ok() }
    }

    /// Starts to write the dirty pages of a range.
    pub fn start(&self, offset: u64, len: u64) {
        self.call(offset, len, libc::SYNC_FILE_RANGE_WRITE);
    }

    /// Waits until the pages of a range that are under way are on the disk.
    pub fn wait(&self, offset: u64, len: u64) {
        self.call(offset, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE);
    }

    fn call(&self, offset: u64, len: u64, flags: libc::c_uint) {
        let (Some(file), Ok(offset), Ok(len)) =
            (&self.file, i64::try_from(offset), i64::try_from(len))
        else {
            return;
        };
        // A length of zero would mean the rest of the file.
        if len > 0 {
            // SAFETY: the call takes no memory, and the descriptor is open. The sync reports errors.
            let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) };
        }
    }
}

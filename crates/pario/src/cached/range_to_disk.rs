//! Moving ranges of a plain file from the page cache to its disk (`sync_file_range`).
//!
//! This makes nothing durable: only `fdatasync` does, and it reports the errors of the disk. The
//! system reports an error once for each open file, and so the ranges have an open file of their own.
//! Where the system does not support this, nothing happens.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;

/// Bytes that a stream has under way to the disk at once.
const UNDER_WAY_BYTES: u64 = 16 << 20;

/// The open file for the ranges.
#[derive(Debug)]
pub struct RangeToDisk {
    file: Option<File>,
}

/// A disk to which ranges are moved.
pub trait DiskRanges {
    /// Starts to write the dirty pages of a range.
    fn start(&self, offset: u64, len: u64);

    /// Waits until the pages of a range that are under way are on the disk.
    fn wait(&self, offset: u64, len: u64);
}

/// Ranges that go to a disk one after the other, a limited number of bytes at once.
#[derive(Debug)]
pub struct DiskStream<D> {
    disk: D,
    /// Offset and length of the ranges under way.
    under_way: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl<D: DiskRanges> DiskStream<D> {
    pub fn new(disk: D) -> Self {
        Self { disk, under_way: VecDeque::new(), bytes: 0 }
    }

    /// Starts to move a range. Waits for the oldest ones first if too many bytes are under way,
    /// except when the caller is in a hurry.
    pub fn push(&mut self, offset: u64, len: u64, is_in_hurry: impl Fn() -> bool) {
        while self.bytes > 0 && self.bytes + len > UNDER_WAY_BYTES {
            let Some((offset, len)) = self.under_way.pop_front() else { break };
            self.bytes -= len;
            if !is_in_hurry() {
                self.disk.wait(offset, len);
            }
        }
        self.disk.start(offset, len);
        self.under_way.push_back((offset, len));
        self.bytes += len;
    }
}

impl DiskRanges for RangeToDisk {
    fn start(&self, offset: u64, len: u64) {
        self.call(offset, len, libc::SYNC_FILE_RANGE_WRITE);
    }

    fn wait(&self, offset: u64, len: u64) {
        self.call(offset, len, libc::SYNC_FILE_RANGE_WAIT_BEFORE);
    }
}

impl RangeToDisk {
    /// Opens the file again.
    pub fn new(file: &File) -> Self {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Self { file: OpenOptions::new().write(true).open(path).ok() }
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// A disk that remembers the ranges under way.
    #[derive(Default)]
    struct Recorder(RefCell<BTreeMap<u64, u64>>);

    impl DiskRanges for &Recorder {
        fn start(&self, offset: u64, len: u64) {
            assert_eq!(self.0.borrow_mut().insert(offset, len), None);
        }

        fn wait(&self, offset: u64, len: u64) {
            assert_eq!(self.0.borrow_mut().remove(&offset), Some(len));
        }
    }

    fn move_ranges(lens: &[u64], is_in_hurry: bool) -> Vec<u64> {
        let disk = Recorder::default();
        let mut stream = DiskStream::new(&disk);
        let mut offset = 0;
        let under_way = lens.iter().map(|len| {
            stream.push(offset, *len, || is_in_hurry);
            offset += len;
            disk.0.borrow().values().sum()
        });
        under_way.collect()
    }

    #[test]
    fn the_bytes_under_way_to_the_disk_are_limited() {
        let lens: Vec<u64> =
            (1..200).map(|number| (number * 7919 % 60 + 1) * (100 << 10)).collect();
        let under_way = move_ranges(&lens, false);
        assert!(under_way.iter().all(|bytes| *bytes <= UNDER_WAY_BYTES), "{under_way:?}");
        // It waits for no more than it has to.
        assert!(under_way[20..].iter().all(|bytes| *bytes > UNDER_WAY_BYTES / 2), "{under_way:?}");
    }

    #[test]
    fn a_range_that_is_longer_goes_alone() {
        assert_eq!(move_ranges(&[1 << 30, 5, 1 << 30], false), [1 << 30, 5, 1 << 30]);
    }

    #[test]
    fn a_caller_in_a_hurry_waits_for_nothing() {
        let lens = [10 << 20; 9];
        assert_eq!(move_ranges(&lens, true)[8], 90 << 20);
    }
}

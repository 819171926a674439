//! The system call `cachestat`: which pages of a file are in the page cache.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The same number on all architectures; Linux 6.5 and later.
const SYS_CACHESTAT: libc::c_long = 451;
/// The unit of the figures.
const PAGE_BYTES: u64 = 4096;

#[repr(C)]
struct Range {
    position: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Figures {
    cached: u64,
    dirty: u64,
    in_writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether the kernel has refused the call: it lacks it.
static IS_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// Whether all pages of a range are in the page cache; `false` if the kernel cannot tell.
pub fn is_cached(file: BorrowedFd<'_>, position: u64, len: u64) -> bool {
    if IS_UNKNOWN.load(Ordering::Relaxed) {
        return false;
    }
    if len == 0 {
        return true;
    }
    let range = Range { position, len };
    let mut figures = Figures::default();
    // SAFETY: both have the layout that the kernel expects and live during the call, which keeps
    // neither.
    let result = unsafe {
        let (range, figures) = (&raw const range, &raw mut figures);
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range, figures, 0)
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        IS_UNKNOWN.fetch_or(error.raw_os_error() == Some(libc::ENOSYS), Ordering::Relaxed);
        return false;
    }
    let (first, last) = (position / PAGE_BYTES, (position + len - 1) / PAGE_BYTES);
    figures.cached > last - first
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_was_written_is_cached_and_what_is_not_there_is_not() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        if is_cached(file.as_fd(), 0, 100_000) {
            assert!(is_cached(file.as_fd(), 4095, 2) && is_cached(file.as_fd(), 99_999, 1));
            assert!(!is_cached(file.as_fd(), 0, 1 << 20));
        } else {
            // The kernel cannot tell.
            assert!(!is_cached(file.as_fd(), 0, 1));
        }
    }
}

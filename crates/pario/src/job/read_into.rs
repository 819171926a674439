//! Started reads into a buffer that the caller lends.

use super::SharedFile;
use super::started_access::{AccessSlot, StartedAccess};
use crate::error::Error;
use crate::pending::Pending;

/// A buffer that the caller lends until a read is over.
pub(super) struct BorrowedBuffer {
    start: *mut u8,
    len: usize,
}

// SAFETY: the lender leaves the buffer alone until the read is over, so it has one user.
unsafe impl Send for BorrowedBuffer {}

impl BorrowedBuffer {
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the lender guarantees that the buffer has `len` bytes, and leaves it alone.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl SharedFile {
    /// Starts a read at the pointer of the mode, into a buffer of the caller. The read is placed
    /// now. Its result is the number of bytes; fewer than requested only at the end of the file.
    ///
    /// # Safety
    /// The buffer has `len` bytes, and nothing else touches or frees it until the read is over:
    /// until the result was taken, [`is_done`](Pending::is_done) has returned true, the returned
    /// value was dropped, or the file was closed.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
    /// use pario::Mode;
    /// use std::io::SeekFrom;
    ///
    /// let file = files.create("/data", Mode::Log)?;
    /// file.write(b"hello")?;
    /// file.seek(SeekFrom::Start(0))?;
    /// let mut bytes = [0; 9];
    /// // SAFETY: the memory is left alone until the read is over.
    /// let pending = unsafe { file.start_read_into(bytes.as_mut_ptr(), bytes.len()) }?;
    /// assert_eq!(pending.wait()?, 5); // the file ends there
    /// assert_eq!(&bytes[..5], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn start_read_into(
        &self,
        start: *mut u8,
        len: usize,
    ) -> Result<Pending<usize>, Error> {
        let started = self.inner.place_started_read(len)?;
        let memory = BorrowedBuffer { start, len };
        self.submit(|slot: AccessSlot<usize>| StartedAccess::ReadInto { started, memory, slot })
    }
}

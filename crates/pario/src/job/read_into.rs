//! Started reads into a buffer that the caller lends.

use super::SharedFile;
use super::started_access::{Pending, StartedAccess};
use crate::error::Error;

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

/// A started read into a borrowed buffer; made by [`SharedFile::start_read_into`].
#[must_use = "call `wait` to get the result"]
#[derive(Debug)]
pub struct SharedReadInto(Pending<usize>);

impl SharedFile {
    /// Starts a read at the pointer of the mode, into a buffer of the caller. The read is placed
    /// now.
    ///
    /// # Safety
    /// The buffer has `len` bytes, and nothing else touches or frees it until the read is over:
    /// until [`wait`](SharedReadInto::wait) has returned, [`is_done`](SharedReadInto::is_done) has
    /// returned true, or the file is closed. Dropping the returned value does not end the read.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
    /// use pario::{Mode, Seek};
    ///
    /// let file = files.create("/data", Mode::Log)?;
    /// file.write(b"hello")?;
    /// file.seek(Seek::Start(0))?;
    /// let mut bytes = [0; 9];
    /// // SAFETY: the memory is left alone until it was waited for.
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
    ) -> Result<SharedReadInto, Error> {
        let target = self.inner.place_access(pario_proto::Transfer::read(len as u64))?;
        let (done, pending) = Pending::new();
        let memory = BorrowedBuffer { start, len };
        self.submit(StartedAccess::ReadInto { target, memory, done })?;
        Ok(SharedReadInto(pending))
    }
}

impl SharedReadInto {
    /// Whether the read is over, so that `wait` returns at once.
    pub fn is_done(&mut self) -> bool {
        self.0.is_done()
    }

    /// Waits until the read is over. Returns the number of bytes; fewer than requested only at the
    /// end of the file.
    pub fn wait(self) -> Result<usize, Error> {
        self.0.wait()
    }
}

//! StartedAccess reads into memory that the caller has lent.

use super::SharedFile;
use super::started_access::{Pending, StartedAccess};
use crate::error::Error;

/// Memory that a caller has lent until a read is over.
pub(super) struct BorrowedBuffer {
    start: *mut u8,
    len: usize,
}

// SAFETY: whoever lends it leaves it alone until the read is over, so that it has one user.
unsafe impl Send for BorrowedBuffer {}

impl BorrowedBuffer {
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: whoever has lent it says that so many bytes are there, and leaves them alone.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// A read that was started, into memory that was lent; made by [`SharedFile::start_read_into`].
#[must_use = "whether it worked is known by waiting"]
#[derive(Debug)]
pub struct SharedReadInto(Pending<usize>);

impl SharedFile {
    /// Starts to read where the mode says, into memory of the caller; the place is taken now.
    ///
    /// # Safety
    /// The memory has `len` bytes, and nobody else touches or frees it until the read is over:
    /// until [`wait`](SharedReadInto::wait) has returned, [`is_done`](SharedReadInto::is_done) has
    /// said so, or the file is closed. Dropping what is returned does not end the read.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let group = pario::Group::new(&cluster, "job", 1, 0)?;
    /// use pario::{Mode, Seek};
    ///
    /// let file = group.create("/data", Mode::Log)?;
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
        let place = self.inner.place_access(pario_proto::Transfer::read(len as u64))?;
        let (done, pending) = Pending::new();
        let memory = BorrowedBuffer { start, len };
        self.submit(StartedAccess::ReadInto { place, memory, done })?;
        Ok(SharedReadInto(pending))
    }
}

impl SharedReadInto {
    /// Whether it is over: waiting will not wait.
    pub fn is_done(&mut self) -> bool {
        self.0.is_done()
    }

    /// Waits until it is over, and says how many bytes were read; fewer than asked for only at the
    /// end of the file.
    pub fn wait(self) -> Result<usize, Error> {
        self.0.wait()
    }
}

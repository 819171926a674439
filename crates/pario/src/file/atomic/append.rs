//! Appends, and the end of a file with atomic access.
//!
//! The disks know the end of a file, and no process keeps it. An append claims all bytes from a
//! place at or before the end on, measures the file while it has them, and writes at the end: no
//! other append and no write beyond that place is under way at that time.

use std::sync::atomic::Ordering;

use pario_proto::BytesUse;

use super::super::File;
use crate::error::Error;

/// All bytes from an offset on, including those that the file will get.
fn bytes_from(from: u64, is_write: bool) -> BytesUse {
    BytesUse { from, to: u64::MAX, is_write }
}

impl File {
    /// Writes all of a buffer at the end of the file, and returns the offset at which it begins.
    /// Appends of any number of processes neither overlap nor leave gaps, and no atomic read sees a
    /// part of one.
    ///
    /// A file that was opened with [`append`](crate::OpenOptions::append) or
    /// [`atomic`](crate::OpenOptions::atomic) appends without a message to its home node while no
    /// other process has it open in this way. For other files each append registers the process
    /// there.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let log = cluster.options().append(true).create(true).open("/log")?;
    /// assert_eq!(log.append(b"started\n")?, 0);
    /// assert_eq!(log.append(b"stopped\n")?, 8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn append(&self, buffer: &[u8]) -> Result<u64, Error> {
        let mut from = self.append_hint();
        loop {
            match self.append_beyond(buffer, from)? {
                Ok(offset) => return Ok(offset),
                Err(end) => from = end,
            }
        }
    }

    /// A place at or before which the file probably ends.
    pub(crate) fn append_hint(&self) -> u64 {
        self.opener().map_or(0, |opener| opener.appended.load(Ordering::Relaxed))
    }

    /// Appends if the file does not end before `from`; otherwise returns its end. The caller may
    /// keep others away from the bytes from `from` on.
    pub(crate) fn append_beyond(
        &self,
        buffer: &[u8],
        from: u64,
    ) -> Result<Result<u64, u64>, Error> {
        let striped = self.striped("write")?;
        self.check_writable()?;
        let opener = match self.opener() {
            Some(opener) => opener,
            None => self.find_opener(None)?,
        };
        let _claim = opener.claim(self, bytes_from(from, true))?;
        let end = self.measured_len()?;
        if end < from {
            return Ok(Err(end));
        }
        let range = self.range(end, buffer.len())?;
        if !buffer.is_empty() {
            self.note_write();
            self.write_claimed(striped, &[(range.start_bytes(), buffer)])?;
        }
        opener.appended.store(end + buffer.len() as u64, Ordering::Relaxed);
        Ok(Ok(end))
    }

    /// Runs a call that changes or measures the whole file, while no access is under way that
    /// conflicts with it.
    pub(in crate::file) fn whole_atomically<R>(
        &self,
        is_write: bool,
        call: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.atomically(|| bytes_from(0, is_write), call)
    }
}

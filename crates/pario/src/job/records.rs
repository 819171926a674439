//! Record files of a job.

use std::path::Path;

use pario_records::{RecordFile, RecordOptions};

use super::Job;
use crate::error::Error;

/// The record files of a job; made by [`Job::records`]. All calls are collective. Each rank gives a
/// path of its own, on a local disk.
#[derive(Clone, Copy, Debug)]
pub struct JobRecords<'j> {
    job: &'j Job,
    options: RecordOptions,
}

impl Job {
    /// Returns the record files of the job: records over the local disks of all ranks.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("run7");
    /// let job = pario::Job::from_env()?;
    /// let file = job.records().open_or_create(&path)?; // the part of rank 0: run7.part0
    /// let grid = file.create_record(8_000_000)?; // over the disks of all ranks
    /// file.close()?;
    /// job.records().delete(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn records(&self) -> JobRecords<'_> {
        JobRecords { job: self, options: RecordOptions::new() }
    }
}

impl JobRecords<'_> {
    /// Opens files with a cache of this many bytes in each process, for bytes of other machines that
    /// are read again and again; see [`RecordOptions::cache`].
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("tables");
    /// let job = pario::Job::from_env()?;
    /// let tables = job.records().cache(64 << 20).open_or_create(&path)?;
    /// tables.close()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cache(mut self, bytes: usize) -> Self {
        self.options = self.options.cache(bytes);
        self
    }

    /// Creates a record file, of one part for each rank. Existing parts are an error.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<RecordFile, Error> {
        Ok(self.options.create(&self.job.team()?, path)?)
    }

    /// Opens a record file.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<RecordFile, Error> {
        Ok(self.options.open(&self.job.team()?, path)?)
    }

    /// Opens a record file, or creates it if no rank finds a part.
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<RecordFile, Error> {
        Ok(self.options.open_or_create(&self.job.team()?, path)?)
    }

    /// Deletes a record file with all its parts.
    pub fn delete(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        Ok(RecordFile::delete(&self.job.team()?, path)?)
    }
}

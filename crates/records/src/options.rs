//! Options to open a record file.

use std::path::Path;

use pario_team::Team;

use super::error::RecordError;
use super::file::{OpenMode, RecordFile};

/// Options to open a record file. All calls are collective.
///
/// ```
/// use pario_records::RecordOptions;
///
/// # let dir = tempfile::tempdir()?;
/// # let team = pario_team::Team::meet("options", 1, 0)?;
/// # let path = dir.path().join("state");
/// let options = RecordOptions::new().cache(64 << 20); // for records that are read again and again
/// let file = options.open_or_create(&team, &path)?;
/// let table = file.create_record(1000)?;
/// file.read(&mut [0; 100], table, 0..100)?;
/// file.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "they open nothing by themselves"]
pub struct RecordOptions {
    cache_bytes: Option<usize>,
}

impl RecordOptions {
    /// The defaults: no cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps up to this many bytes that this process has read from parts on other machines, so that
    /// it need not read them again. A read still sees every write and accumulation that had returned
    /// before. In return, each of these sends a message to each other machine.
    ///
    /// All ranks must want a cache, or none; they may give different sizes. Parts on this machine are
    /// not cached: the system does that. A read of more than a quarter of the size is not cached.
    pub fn cache(mut self, bytes: usize) -> Self {
        self.cache_bytes = Some(bytes);
        self
    }

    /// Like [`RecordFile::create`].
    pub fn create(&self, team: &Team, path: impl AsRef<Path>) -> Result<RecordFile, RecordError> {
        RecordFile::open_as(team, path.as_ref(), OpenMode::Create, self.cache_bytes)
    }

    /// Like [`RecordFile::open`].
    pub fn open(&self, team: &Team, path: impl AsRef<Path>) -> Result<RecordFile, RecordError> {
        RecordFile::open_as(team, path.as_ref(), OpenMode::Open, self.cache_bytes)
    }

    /// Like [`RecordFile::open_or_create`].
    pub fn open_or_create(
        &self,
        team: &Team,
        path: impl AsRef<Path>,
    ) -> Result<RecordFile, RecordError> {
        RecordFile::open_as(team, path.as_ref(), OpenMode::OpenOrCreate, self.cache_bytes)
    }
}

//! A metadata store in one file of this machine.
//!
//! Invariants: one process at a time has the file open; one thread, the committer's, changes it.
//! After a change that could not be made durable, the store reports no transaction as done and shows
//! no state until the file is opened again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, Table,
};
use redb::{ReadOnlyTable, TableDefinition, TableError};

use super::error::MetadataError;
use super::group_commit::GroupCommitter;
use super::store::{CommitCallback, KeyValue, MetadataStore, Revision, Snapshot, TransactionBody};
use crate::private_files;

pub const PAIRS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("pairs");
/// The empty key, which is reserved for the store: the number of transactions with changes. It lies
/// beside the counters, in a page that most transactions write anyway.
const REVISION_KEY: &[u8] = b"";

/// The page cache of redb.
const CACHE_BYTES: usize = 64 << 20;

/// A metadata store in one file of this machine, on redb.
///
/// Transactions that arrive while the disk is busy become durable together, with one sync.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("metadata");
/// use pario_server::metadata::RedbStore;
///
/// let store = RedbStore::open(&path)?;
/// // No other store can open the file at the same time.
/// assert!(RedbStore::open(&path).is_err_and(|error| error.to_string().contains("in use")));
/// # Ok::<(), pario_server::metadata::MetadataError>(())
/// ```
pub struct RedbStore {
    committer: Arc<GroupCommitter>,
    thread: Option<JoinHandle<()>>,
}

impl RedbStore {
    /// Opens the store in a file, and creates the file if it is missing. An empty file is damaged,
    /// not new: it has lost its content.
    pub fn open(path: &Path) -> Result<RedbStore, MetadataError> {
        if !path.exists() {
            create_file(path)?;
        }
        RedbStore::start(path, |builder| builder.open(path))
    }

    /// Opens the store on a backend of redb, for tests with failing disks. Errors name the path.
    #[cfg(test)]
    pub(super) fn open_on(
        backend: impl redb::StorageBackend,
        path: &Path,
    ) -> Result<RedbStore, MetadataError> {
        RedbStore::start(path, |builder| builder.create_with_backend(backend))
    }

    fn start(
        path: &Path,
        open: impl FnOnce(&Builder) -> Result<Database, DatabaseError>,
    ) -> Result<RedbStore, MetadataError> {
        let path: Arc<PathBuf> = Arc::new(path.to_owned());
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        // redb may panic over damaged bytes; a damaged file must be an error, not a panic.
        let attempt = std::panic::AssertUnwindSafe(|| {
            let database = open(&builder).map_err(|error| opening_error(&path, error))?;
            let revision = prepare(&database).map_err(|error| reading_error(&path, &error))?;
            Ok((database, revision))
        });
        let (database, revision) = std::panic::catch_unwind(attempt).unwrap_or_else(|_| {
            let why = "redb cannot interpret it".to_owned();
            Err(MetadataError::Damaged { path: path.to_path_buf(), why })
        })?;
        let committer = Arc::new(GroupCommitter::new(database, path, revision));
        let runner = Arc::clone(&committer);
        let thread = thread::Builder::new()
            .name("metadata".to_owned())
            .spawn(move || runner.run())
            .map_err(|error| MetadataError::Open {
                path: committer.path().to_owned(),
                why: format!("no thread can be started: {error}"),
            })?;
        Ok(RedbStore { committer, thread: Some(thread) })
    }

    /// Returns the number of commits, each of which took one sync.
    pub fn commits(&self) -> u64 {
        self.committer.commits()
    }
}

/// Creates the file of a new store.
///
/// The file gets its name when it is complete, so a killed process leaves no file that would pass
/// for a damaged one. It gets the name only if the name is still free, so it never replaces the file
/// of another process that does the same.
fn create_file(path: &Path) -> Result<(), MetadataError> {
    let mut new = path.as_os_str().to_owned();
    // A killed process may have had the same process id.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    new.push(format!(".new-{}-{}", std::process::id(), now.as_nanos()));
    let new = Path::new(&new);
    let file = private_files::create(new)
        .map_err(|error| MetadataError::Open { path: path.to_owned(), why: error.to_string() })?;
    let database = Builder::new().create_file(file).map_err(|error| opening_error(path, error))?;
    prepare(&database).map_err(|error| reading_error(path, &error))?;
    drop(database);
    let name = || {
        match fs::hard_link(new, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        fs::remove_file(new)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    };
    name().map_err(|error| MetadataError::Open { path: path.to_owned(), why: error.to_string() })
}

/// Creates the table if it is missing. Returns the revision of the last transaction.
fn prepare(database: &Database) -> Result<u64, redb::Error> {
    {
        let reading = database.begin_read()?;
        match reading.open_table(PAIRS) {
            Ok(pairs) => return last_revision(&pairs).map_err(redb::Error::from),
            Err(TableError::TableDoesNotExist(_)) => {}
            Err(other) => return Err(other.into()),
        }
    }
    let writing = database.begin_write()?;
    put_revision(&mut writing.open_table(PAIRS)?, 0)?;
    writing.commit()?;
    Ok(0)
}

/// Returns the revision of the last transaction.
pub fn last_revision(pairs: &impl ReadablePairs) -> Result<u64, StorageError> {
    let value = pairs.get(REVISION_KEY)?;
    let bytes = value.and_then(|value| value.value().try_into().ok());
    bytes
        .map(u64::from_be_bytes)
        .ok_or_else(|| StorageError::Corrupted("the revision is missing".to_owned()))
}

/// Writes the revision of the last transaction.
pub fn put_revision(pairs: &mut PairsTable<'_>, revision: u64) -> Result<(), StorageError> {
    pairs.insert(REVISION_KEY, &revision.to_be_bytes()[..])?;
    Ok(())
}

fn opening_error(path: &Path, error: DatabaseError) -> MetadataError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => MetadataError::InUse { path },
        // redb reports a file with a wrong beginning as invalid data.
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() != io::ErrorKind::InvalidData
                && error.kind() != io::ErrorKind::UnexpectedEof =>
        {
            MetadataError::Open { path, why: error.to_string() }
        }
        other => MetadataError::Damaged { path, why: other.to_string() },
    }
}

/// Converts an error of a read: the disk has failed, or the file is damaged.
pub fn reading_error(path: &Path, error: &redb::Error) -> MetadataError {
    let path = path.to_owned();
    match error {
        redb::Error::Io(error) => MetadataError::Read { path, why: error.to_string() },
        redb::Error::PreviousIo => {
            MetadataError::Poisoned { path, why: "the disk could not be read".to_owned() }
        }
        other => MetadataError::Damaged { path, why: other.to_string() },
    }
}

impl MetadataStore for RedbStore {
    fn submit(&self, body: TransactionBody, done: CommitCallback) {
        self.committer.submit(body, done);
    }

    fn read(&self, body: &mut dyn FnMut(&dyn Snapshot)) -> Result<(), MetadataError> {
        self.committer.check()?;
        let snapshot = self.committer.snapshot()?;
        body(&snapshot);
        Ok(())
    }
}

impl Drop for RedbStore {
    /// Commits the submitted transactions, and ends the thread.
    fn drop(&mut self) {
        self.committer.close();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // The committer has reported its panic to the callers that waited.
            let _ = thread.join();
        }
    }
}

/// The table in a durable state.
pub type DurableTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// The table in a write transaction.
pub type PairsTable<'a> = Table<'a, &'static [u8], &'static [u8]>;

/// A snapshot of a table of redb.
pub struct TableSnapshot<T> {
    pub table: T,
    pub revision: u64,
    pub path: Arc<PathBuf>,
}

/// The tables that a snapshot can read: in a durable state, and in a write transaction.
pub trait ReadablePairs: ReadableTable<&'static [u8], &'static [u8]> {}
impl ReadablePairs for DurableTable {}
impl ReadablePairs for PairsTable<'_> {}

impl<T: ReadablePairs> Snapshot for TableSnapshot<T> {
    fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MetadataError> {
        if key == REVISION_KEY {
            return Ok(None);
        }
        let value = self.table.get(key).map_err(|error| self.error(error))?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn range(
        &self,
        from: &[u8],
        until: &[u8],
        limit: usize,
    ) -> Result<Vec<KeyValue>, MetadataError> {
        let from = if from == REVISION_KEY { &[0] } else { from };
        if from >= until {
            return Ok(Vec::new());
        }
        let pairs = self.table.range(from..until).map_err(|error| self.error(error))?;
        let pairs = pairs.take(limit).map(|pair| {
            let (key, value) = pair.map_err(|error| self.error(error))?;
            Ok((key.value().to_vec(), value.value().to_vec()))
        });
        pairs.collect()
    }
}

impl<T> TableSnapshot<T> {
    fn error(&self, error: StorageError) -> MetadataError {
        reading_error(&self.path, &error.into())
    }
}

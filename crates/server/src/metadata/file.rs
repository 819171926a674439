//! A metadata store in one file of this machine.
//!
//! Invariants: the file belongs to one process at a time; one thread, the engine, changes it.
//! After a change that could not be made durable nothing is reported as done, and nothing is
//! shown, until the file is opened again.

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

use super::engine::Engine;
use super::error::MetadataError;
use super::store::{Done, KeyValue, MetadataStore, Revision, Snapshot, Work};
use crate::private_files;

pub const PAIRS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("pairs");
/// Under the empty key, which nobody else may use: the number of transactions that changed
/// something. It lies beside the counters, in a page that most transactions write anyway.
const ORDER: &[u8] = b"";

/// Pages kept in memory.
const CACHE_BYTES: usize = 64 << 20;

/// A metadata store in one file of this machine, by means of redb.
///
/// Transactions that are submitted while the disk is busy become durable together, with one sync.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("metadata");
/// use pario_server::metadata::Redb;
///
/// let store = Redb::open(&path)?;
/// // Another one cannot have it at the same time.
/// assert!(Redb::open(&path).is_err_and(|error| error.to_string().contains("in use")));
/// # Ok::<(), pario_server::metadata::MetadataError>(())
/// ```
pub struct Redb {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

impl Redb {
    /// Opens the store in a file, or makes it. An empty file is not taken for a new one: it has
    /// lost what was in it.
    pub fn open(path: &Path) -> Result<Redb, MetadataError> {
        if !path.exists() {
            make(path)?;
        }
        Redb::start(path, |builder| builder.open(path))
    }

    /// Opens the store on a backend of redb; the path only serves to name it in errors. For tests
    /// with disks that fail.
    #[cfg(test)]
    pub(super) fn open_on(
        backend: impl redb::StorageBackend,
        path: &Path,
    ) -> Result<Redb, MetadataError> {
        Redb::start(path, |builder| builder.create_with_backend(backend))
    }

    fn start(
        path: &Path,
        open: impl FnOnce(&Builder) -> Result<Database, DatabaseError>,
    ) -> Result<Redb, MetadataError> {
        let path: Arc<PathBuf> = Arc::new(path.to_owned());
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        // Bytes from a disk must not end the process, so that a panic over them becomes an error.
        let attempt = std::panic::AssertUnwindSafe(|| {
            let database = open(&builder).map_err(|error| opening_error(&path, error))?;
            let revision = prepare(&database).map_err(|error| reading_error(&path, &error))?;
            Ok((database, revision))
        });
        let (database, revision) = std::panic::catch_unwind(attempt).unwrap_or_else(|_| {
            let why = "it makes no sense to the engine".to_owned();
            Err(MetadataError::Damaged { path: path.to_path_buf(), why })
        })?;
        let engine = Arc::new(Engine::new(database, path, revision));
        let runner = Arc::clone(&engine);
        let thread = thread::Builder::new()
            .name("metadata".to_owned())
            .spawn(move || runner.run())
            .map_err(|error| MetadataError::Open {
                path: engine.path().to_owned(),
                why: format!("no thread can be started: {error}"),
            })?;
        Ok(Redb { engine, thread: Some(thread) })
    }

    /// How many times something was made durable; each takes one sync.
    pub fn commits(&self) -> u64 {
        self.engine.commits()
    }
}

/// Makes the file of a new store.
///
/// It gets its name when it is complete, so that a process that is killed meanwhile leaves
/// nothing behind that would be taken for damage; and only if the name is still free, so that the
/// file of another process that does the same is not replaced.
fn make(path: &Path) -> Result<(), MetadataError> {
    let mut new = path.as_os_str().to_owned();
    // A process that was killed may have had the same number.
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

/// Makes the tables, if they are not there, and tells the number of the last transaction.
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

/// The number of the last transaction that changed something.
pub fn last_revision(pairs: &impl Readable) -> Result<u64, StorageError> {
    let value = pairs.get(ORDER)?;
    let bytes = value.and_then(|value| value.value().try_into().ok());
    bytes
        .map(u64::from_be_bytes)
        .ok_or_else(|| StorageError::Corrupted("the number of transactions is missing".to_owned()))
}

/// Notes the number of the last transaction that changed something.
pub fn put_revision(pairs: &mut PairsTable<'_>, revision: u64) -> Result<(), StorageError> {
    pairs.insert(ORDER, &revision.to_be_bytes()[..])?;
    Ok(())
}

fn opening_error(path: &Path, error: DatabaseError) -> MetadataError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => MetadataError::InUse { path },
        // A file that does not begin as it should is reported as invalid data.
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() != io::ErrorKind::InvalidData
                && error.kind() != io::ErrorKind::UnexpectedEof =>
        {
            MetadataError::Open { path, why: error.to_string() }
        }
        other => MetadataError::Damaged { path, why: other.to_string() },
    }
}

/// What a failure to read means: the disk cannot be read, or what is on it makes no sense.
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

impl MetadataStore for Redb {
    fn submit(&self, work: Work, done: Done) {
        self.engine.submit(work, done);
    }

    fn read(&self, work: &mut dyn FnMut(&dyn Snapshot)) -> Result<(), MetadataError> {
        self.engine.check()?;
        let state = self.engine.snapshot()?;
        work(&state);
        Ok(())
    }
}

impl Drop for Redb {
    /// What is submitted is finished.
    fn drop(&mut self) {
        self.engine.close();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the engine has been reported to those who waited for it.
            let _ = thread.join();
        }
    }
}

/// The table of a durable state.
pub type DurableTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// The table that is being changed.
pub type PairsTable<'a> = Table<'a, &'static [u8], &'static [u8]>;

/// A state that redb shows, of a table that can be read (`T`).
pub struct Shown<T> {
    pub table: T,
    pub revision: u64,
    pub path: Arc<PathBuf>,
}

/// The tables that can be shown: that of a durable state, and the one that is being changed.
pub trait Readable: ReadableTable<&'static [u8], &'static [u8]> {}
impl Readable for DurableTable {}
impl Readable for PairsTable<'_> {}

impl<T: Readable> Snapshot for Shown<T> {
    fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MetadataError> {
        if key == ORDER {
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
        let from = if from == ORDER { &[0] } else { from };
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

impl<T> Shown<T> {
    fn error(&self, error: StorageError) -> MetadataError {
        reading_error(&self.path, &error.into())
    }
}

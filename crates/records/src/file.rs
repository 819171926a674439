//! An open record file: opening, syncing and closing it, and which rank holds which bytes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use pario_team::{Callback, Mutexes, Team};
use parking_lot::{Mutex, RwLock};

use super::collective::{agree, different_versions};
use super::error::RecordError;
use super::open_parts::{self, OpenedParts, OwnPart, RecordMap, sync_directory};
use super::options::RecordOptions;
use super::part_owner::PartOwner;
use super::part_search::{PartSearch, part_error};
use super::part_server;
use super::read_cache::{CacheStatistics, ReadCache};
use super::record::{BlockLocation, Record, RecordId, RecordInfo};
use super::request::{AccessCounter, AccessGuard};

/// Mutexes of each rank for accumulation.
pub(super) const MUTEXES_PER_RANK: u32 = 64;

/// An open record file, as one rank of a team sees it.
///
/// Opening, creating and destroying records, [`sync`](Self::sync) and [`close`](Self::close) are
/// collective: all ranks call them, in the same order, with the same arguments. All other calls are
/// one-sided: the caller needs no other rank, and several threads may call at once.
///
/// ```
/// use pario_records::RecordFile;
///
/// # let dir = tempfile::tempdir()?;
/// # let team = pario_team::Team::meet("a record file", 1, 0)?;
/// # let path = dir.path().join("state");
/// let file = RecordFile::create(&team, &path)?; // each rank may give a path of its own
/// let matrix = file.create_record(8 * 100)?;
/// file.write(&[7; 16], matrix, 16..32)?;
/// let mut row = [0; 24];
/// file.read(&mut row, matrix, 8..32)?;
/// assert_eq!(row[..8], [0; 8]); // never written
/// assert_eq!(row[8..], [7; 16]);
/// file.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordFile {
    pub(super) file: Arc<OpenRecordFile>,
    /// Held during collective calls.
    pub(super) own: Mutex<OwnParts>,
}

/// The part of an open file that accesses, their tasks and the part server share.
pub(super) struct OpenRecordFile {
    pub team: Team,
    pub owners: Arc<[PartOwner]>,
    pub mutexes: Mutexes,
    /// Sends requests to the part servers of other machines; empty if all parts are local.
    callback: OnceLock<Callback>,
    /// Requests to other machines that are under way.
    pub remote_requests: AtomicUsize,
    pub map: RwLock<RecordMap>,
    pub accesses: Arc<AccessCounter>,
    /// Bytes of parts on other machines, if the file was opened with a cache.
    pub read_cache: Option<ReadCache>,
}

/// The parts whose maps this rank changes.
pub(super) struct OwnParts {
    pub parts: Vec<OwnPart>,
    /// The error after which the file can no longer be changed.
    pub broken: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenMode {
    Open,
    Create,
    OpenOrCreate,
}

impl RecordFile {
    /// Creates a record file. Collective. Part `r` is a file of rank `r`; its name is the path that
    /// this rank gives, followed by `.part` and the number.
    ///
    /// If the path is a directory, the part is in it: `gio.part` and the number. This holds for all
    /// calls that take the path of a record file.
    pub fn create(team: &Team, path: impl AsRef<Path>) -> Result<Self, RecordError> {
        RecordOptions::new().create(team, path)
    }

    /// Opens an existing record file with any number of ranks. Collective.
    ///
    /// Every rank gives a path and looks there for parts. Parts that no rank finds are looked for at
    /// their last known paths, which every part stores. On one machine, a path that leads to one part
    /// is therefore enough for all ranks. If parts were moved, the paths of all ranks together must
    /// lead to all parts. A part belongs to a rank of a machine that sees it; if all ranks see it,
    /// part `p` belongs to rank `p` modulo the number of ranks. Parts of a machine on which no rank
    /// runs are missing.
    pub fn open(team: &Team, path: impl AsRef<Path>) -> Result<Self, RecordError> {
        RecordOptions::new().open(team, path)
    }

    /// Opens a record file, and creates it if no rank finds a part of it. Collective.
    pub fn open_or_create(team: &Team, path: impl AsRef<Path>) -> Result<Self, RecordError> {
        RecordOptions::new().open_or_create(team, path)
    }

    pub(super) fn open_as(
        team: &Team,
        path: &Path,
        mode: OpenMode,
        cache_bytes: Option<usize>,
    ) -> Result<Self, RecordError> {
        let call = match (mode, cache_bytes.is_some()) {
            (OpenMode::Open, false) => "open of a record file",
            (OpenMode::Open, true) => "open of a record file with a cache",
            (OpenMode::Create, false) => "create of a record file",
            (OpenMode::Create, true) => "create of a record file with a cache",
            (OpenMode::OpenOrCreate, false) => "open_or_create of a record file",
            (OpenMode::OpenOrCreate, true) => "open_or_create of a record file with a cache",
        };
        let found = PartSearch::search(team, call, path)?;
        let OpenedParts { own, owners, map } = if found.parts.is_empty() {
            if mode == OpenMode::Open {
                return Err(no_parts(path));
            }
            open_parts::create(team, call, &found)?
        } else {
            if mode == OpenMode::Create {
                return Err(RecordError::Exists(format!(
                    "{}: this record file exists already; open or delete it, or give another path",
                    path.display()
                )));
            }
            found.check_complete(path)?;
            open_parts::open(team, call, &found)?
        };
        let mutexes = team.mutexes(MUTEXES_PER_RANK)?;
        let read_cache = match cache_bytes {
            Some(bytes) => Some(ReadCache::new(team, bytes)?),
            None => None,
        };
        let file = Arc::new(OpenRecordFile {
            team: team.clone(),
            owners: owners.into(),
            mutexes,
            callback: OnceLock::new(),
            remote_requests: AtomicUsize::new(0),
            map: RwLock::new(map),
            accesses: Arc::default(),
            read_cache,
        });
        if !found.are_all_local() {
            // The cell is empty: this is its only `set`.
            let _ = file.callback.set(part_server::serve(&file)?);
        }
        let own = OwnParts { parts: own, broken: None };
        Ok(Self { file, own: Mutex::new(own) })
    }

    /// Deletes all parts of a record file that the ranks find, even if some are missing. Collective.
    pub fn delete(team: &Team, path: impl AsRef<Path>) -> Result<(), RecordError> {
        let call = "delete of a record file";
        let path = path.as_ref();
        let found = PartSearch::search(team, call, path)?;
        if found.parts.is_empty() {
            return Err(no_parts(path));
        }
        let own: Vec<PathBuf> = (found.parts.iter().flatten())
            .filter(|seen| found.owner_of(seen.identity.number) == team.rank())
            .map(|seen| seen.path.clone())
            .collect();
        let locked: Result<Vec<_>, RecordError> =
            own.iter().map(|p| open_parts::open_locked(p)).collect();
        let result = locked.as_ref().map(|_| Vec::new()).map_err(RecordError::clone);
        // No part is removed before all are locked: another job may have the file open.
        agree(team, call, &[], result)?;
        let remove = |path: &PathBuf| {
            let removed = std::fs::remove_file(path);
            removed.map_err(|error| RecordError::system("deleting it", path, &error))?;
            sync_directory(path)
        };
        let removed = own.iter().try_for_each(remove);
        agree(team, call, &[], removed.map(|()| Vec::new())).map(drop)
    }

    /// Makes durable what any rank wrote before. Collective. Waits for the started accesses of this
    /// process.
    pub fn sync(&self) -> Result<(), RecordError> {
        self.sync_as("sync of a record file")
    }

    fn sync_as(&self, call: &str) -> Result<(), RecordError> {
        self.file.accesses.wait_until_empty();
        let mut own = self.own.lock();
        let own = &mut *own;
        let team = &self.file.team;
        // All ranks have ended their writes before the first rank syncs.
        agree(team, call, &[], own.check().map(|()| Vec::new()))?;
        let sync = |own: &mut OwnPart| {
            own.part.sync().map_err(|error| part_error("syncing it", &own.path, error))
        };
        let synced = own.parts.iter_mut().try_for_each(sync);
        let synced = agree(team, call, &[], synced.map(|()| Vec::new()));
        let mark = |own: &mut OwnPart| {
            let marked = own.part.mark();
            marked.map_err(|error| part_error("writing its superblock", &own.path, error))
        };
        let marked = synced.and_then(|_| {
            let marked = own.parts.iter_mut().try_for_each(mark);
            agree(team, call, &[], marked.map(|()| Vec::new()))
        });
        if let Err(error) = marked {
            own.broken.get_or_insert(error.to_string());
            return Err(error);
        }
        Ok(())
    }

    /// Makes everything durable, and closes the file. Collective. Waits for the started accesses of
    /// this process. The file is closed even if this fails.
    pub fn close(self) -> Result<(), RecordError> {
        self.finish()
    }

    /// Does the work of [`close`](Self::close) for a caller that cannot give the file away because
    /// other threads share it. The file is closed when the last of them drops it.
    pub fn finish(&self) -> Result<(), RecordError> {
        self.sync_as("close of a record file")?;
        // All ranks have called it, so that no rank needs the parts of this machine any more.
        if let Some(callback) = self.file.callback.get() {
            callback.forget();
        }
        Ok(())
    }

    /// Forgets all bytes that the cache of this process holds; nothing without a cache. Accesses of
    /// all ranks make cached bytes invalid by themselves: this is for parts that something else has
    /// changed.
    pub fn forget_cached(&self) {
        if let Some(cache) = &self.file.read_cache {
            cache.clear();
        }
    }

    /// What the cache of this process has done and holds; zeros without a cache.
    pub fn cache_statistics(&self) -> CacheStatistics {
        self.file.read_cache.as_ref().map(ReadCache::statistics).unwrap_or_default()
    }

    /// The number of parts: one for each process that created the file.
    pub fn parts(&self) -> u32 {
        // A file has at most as many parts as a team has processes.
        u32::try_from(self.file.owners.len()).unwrap_or(u32::MAX)
    }

    /// The team that has opened the file.
    pub fn team(&self) -> &Team {
        &self.file.team
    }

    /// The path of a part on the machine of the rank that has it.
    pub fn part_path(&self, part: u32) -> Option<&Path> {
        self.file.owners.get(part as usize).map(|owner| owner.path.as_path())
    }

    /// All records, by number.
    pub fn records(&self) -> Vec<RecordInfo> {
        self.file.map.read().records.values().map(|record| record.info.clone()).collect()
    }

    /// The length and the kind of a record.
    pub fn record(&self, record: RecordId) -> Result<RecordInfo, RecordError> {
        Ok(self.file.record(record)?.info.clone())
    }

    /// Lists which rank holds which bytes of a record: one block for each part, in order.
    ///
    /// ```
    /// # use pario_records::RecordFile;
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario_team::Team::meet("distribution", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let record = file.create_record_irregular(&[100])?;
    /// for block in file.distribution(record)? {
    ///     println!("rank {} has {} bytes from {} on", block.rank, block.len, block.start);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn distribution(&self, record: RecordId) -> Result<Vec<BlockLocation>, RecordError> {
        let record = self.file.record(record)?;
        Ok((0..record.parts()).map(|part| self.block_location(&record, part)).collect())
    }

    /// The non-empty blocks of a record that this rank holds on its own disk.
    pub fn held_here(&self, record: RecordId) -> Result<Vec<BlockLocation>, RecordError> {
        let mut all = self.distribution(record)?;
        all.retain(|held| held.rank == self.file.team.rank() && held.len > 0);
        Ok(all)
    }

    /// Finds the block that holds a byte of a record.
    pub fn locate(&self, record: RecordId, position: u64) -> Result<BlockLocation, RecordError> {
        let record = self.file.record(record)?;
        record.check_byte(position)?;
        Ok(self.block_location(&record, record.part_of(position)))
    }

    fn block_location(&self, record: &Record, part: usize) -> BlockLocation {
        let (start, len, _) = record.block(part);
        let rank = self.file.owners[part].rank;
        BlockLocation { part: u32::try_from(part).unwrap_or(u32::MAX), rank, start, len }
    }
}

impl OpenRecordFile {
    /// Looks a record up.
    pub fn record(&self, record: RecordId) -> Result<Arc<Record>, RecordError> {
        self.map.read().record(record)
    }

    /// Looks a record up and counts an access to it. The record is not destroyed before the guard is
    /// dropped.
    pub fn begin_access(
        &self,
        record: RecordId,
    ) -> Result<(Arc<Record>, AccessGuard), RecordError> {
        // The access is counted while the map is locked: `destroy_records` removes the record first
        // and waits for accesses then.
        let map = self.map.read();
        Ok((map.record(record)?, self.accesses.enter()))
    }

    /// The callback that sends requests to the part servers of other machines.
    pub fn callback(&self) -> Result<&Callback, RecordError> {
        self.callback.get().ok_or_else(different_versions)
    }

    /// Waits until no access of this process is under way.
    pub fn wait_for_all(&self) {
        self.accesses.wait_until_empty();
    }
}

impl OwnParts {
    /// Fails if the file can no longer be changed.
    pub fn check(&self) -> Result<(), RecordError> {
        match &self.broken {
            None => Ok(()),
            Some(why) => Err(RecordError::Broken(format!(
                "this record file can no longer be changed or synced, because an earlier change or \
                 sync has failed ({why}); close it and open it again"
            ))),
        }
    }
}

fn no_parts(path: &Path) -> RecordError {
    RecordError::NotFound(format!(
        "{}: no rank finds a part of this record file; check the path, and run a process on each \
         machine that has parts",
        path.display()
    ))
}

impl fmt::Debug for RecordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.file.map.read().records.len();
        write!(f, "RecordFile({records} records in {} parts)", self.file.owners.len())
    }
}

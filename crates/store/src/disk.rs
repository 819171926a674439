//! A disk: a directory with subfiles that one process has open.
//!
//! The directory holds `pario.disk`, the disk mark, which the process locks; `ID.flat` for each flat
//! subfile, with its description `ID.description`; and the directory `ID.extents` for each extent
//! subfile. The store creates files under names that start with `new-`, and removes those that start
//! with `gone-`. Opening the disk removes files that a crash has left under such names, and
//! descriptions without a subfile. A subfile exists exactly if its final name does.

use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::buffer::BufferPool;
use crate::cache::ExtentCache;
use crate::checkpoint_worker::{CheckpointWorker, CheckpointWorkerOwner};
use crate::description::{
    DESCRIPTION_LIMIT_BYTES, Description, Rights, SYNCED_SET_LIMIT, write_slot,
};
use crate::description_store::{DescriptionStore, described_by, name_of, named, path_of};
use crate::disk_mark::{self, DISK_VERSION, DiskMark, MARK_FILE, not_a_disk};
use crate::error::{DiskContext, StoreError, SubfileContext};
use crate::extents::{self, ExtentFile, ExtentFileLimits, OpenExtentFile, Recovery, next_open_id};
use crate::flat::{DATA_START, FlatFile, OpenFlatFile};
use crate::medium::{
    DirectoryMedium, Medium, MediumFile, MediumOpenMode, MediumSpace, Pace, SlowMedium,
};
use crate::poison::POISONED_BEFORE_OPEN;
use crate::subfile::{SubfileId, SubfileKind};
use crate::task_threads::TaskThreads;
use crate::upgrade::upgrade;
use parking_lot::{Mutex, RwLock};

/// Options of an open disk.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Refuse changes. Several processes may open a disk read-only.
    pub read_only: bool,
    /// The cache of extents. Several disks may share one.
    pub cache: ExtentCache,
    /// The pool of buffers. Several disks may share one.
    pub pool: BufferPool,
    /// The limit of memory for the index of each extent subfile. An index has about 40 bytes per
    /// extent. The store reads pages that are not in memory when it needs them.
    pub index_cache_bytes: usize,
    /// The bytes of writes after which the store syncs an extent subfile by itself. Recovery after a
    /// crash reads about as many at most.
    pub unsynced_bytes: u64,
    /// The bytes of journal after which the store writes a checkpoint of an extent subfile. Recovery
    /// after a crash replays about as many at most. On a slow disk the journal may grow to four
    /// times as many before writes wait for the checkpoint.
    pub journal_bytes: u64,
    /// The store compacts an extent subfile by itself when its dead bytes exceed half of its live
    /// bytes and this floor. Dead bytes lie in the data file between extents.
    pub compact_floor_bytes: u64,
    /// Have a checkpoint worker make the syncs, checkpoints and compactions of the options above, on
    /// one of `tasks`. Without it, the thread that makes them necessary makes them.
    pub background: bool,
    /// The threads for work that blocks. Several disks may share them.
    pub tasks: TaskThreads,
    /// Behave like a slower disk of this pace: every I/O takes its time, even if the page cache has
    /// the bytes, and the disk gives no descriptors away.
    pub pace: Option<Pace>,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            cache: ExtentCache::new(64 << 20),
            pool: BufferPool::new(64 << 20),
            index_cache_bytes: 512 << 20,
            unsynced_bytes: 256 << 20,
            journal_bytes: 8 << 20,
            compact_floor_bytes: 64 << 20,
            background: true,
            tasks: TaskThreads::new(),
            pace: None,
        }
    }
}

/// The parameters of a new subfile.
#[derive(Clone, Debug)]
pub struct NewSubfile {
    /// Its identity.
    pub id: SubfileId,
    /// The layout of its file; the store does not interpret it.
    pub layout: Vec<u8>,
    /// The path of its file.
    pub path: String,
    /// How often its file was renamed.
    pub path_version: u32,
    /// For extent subfiles: each extent starts at a multiple of this many bytes, a power of two from
    /// 512 to 65,536. From 4,096 on the store bypasses the page cache if the file system allows it.
    /// Smaller granules save space if extents are tiny.
    pub granule_bytes: u32,
    /// For flat subfiles: whether the subfile survives a power loss from its creation on, or only
    /// from its first sync on. Before that, a power loss may leave no file, or an empty file without
    /// a description.
    pub is_durable: bool,
    /// Owner and mode of its file.
    pub rights: Option<Rights>,
    /// The first-synced subfiles of its file: bit `i % 64` of word `i / 64`.
    pub synced: Option<Vec<u64>>,
}

impl NewSubfile {
    /// A durable subfile without layout and path, of unknown owner, and with granules of 4,096
    /// bytes.
    pub fn new(id: SubfileId) -> Self {
        let (layout, path) = (Vec::new(), String::new());
        let (rights, synced) = (None, None);
        let (path_version, granule_bytes) = (0, 4096);
        Self { id, layout, path, path_version, granule_bytes, is_durable: true, rights, synced }
    }
}

/// An entry of [`Disk::subfiles`].
#[derive(Debug)]
pub struct ListedSubfile {
    /// Its identity, from its name.
    pub id: SubfileId,
    /// Its kind, from its name.
    pub kind: SubfileKind,
    /// Its description, or why the store cannot read it.
    pub description: Result<Description, StoreError>,
}

/// A disk of the store: a directory that only this process may change.
///
/// ```
/// # fn main() -> Result<(), pario_store::StoreError> {
/// # let dir = tempfile::tempdir().unwrap();
/// use pario_store::{Disk, DiskOptions, NewSubfile, SubfileId};
///
/// let disk = Disk::create(dir.path(), DiskOptions::default())?;
/// disk.create_flat(NewSubfile::new(SubfileId::data(1, 0)))?;
/// assert!(Disk::open(dir.path(), DiskOptions::default()).is_err()); // one process at a time
/// drop(disk);
///
/// let disk = Disk::open(dir.path(), DiskOptions::default())?;
/// assert_eq!(disk.subfiles()?.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct Disk {
    context: DiskContext,
    id: u128,
    medium: Arc<dyn Medium>,
    options: DiskOptions,
    worker: CheckpointWorker,
    _worker_owner: Option<CheckpointWorkerOwner>,
    lock: Arc<dyn Any + Send + Sync>,
    open: Mutex<OpenSubfiles>,
    descriptions: Arc<DescriptionStore>,
}

#[derive(Default)]
struct OpenSubfiles {
    flat: HashMap<SubfileId, Weak<OpenFlatFile>>,
    extents: HashMap<SubfileId, Weak<OpenExtentFile>>,
    removals: u64,
}

impl Disk {
    /// Creates a disk in a directory that is empty or does not exist.
    pub fn create(path: impl AsRef<Path>, options: DiskOptions) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let context = DiskContext::new(&path.display().to_string());
        let made = DirectoryMedium::create(path);
        let medium = made.map_err(|error| context.io(error, "create its directory"))?;
        Self::create_on(Arc::new(medium), options)
    }

    /// Opens the disk of a directory.
    pub fn open(path: impl AsRef<Path>, options: DiskOptions) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let context = DiskContext::new(&path.display().to_string());
        let medium = DirectoryMedium::new(path).map_err(|error| not_a_disk(&context, error))?;
        Self::open_on(Arc::new(medium), options)
    }

    /// Creates a disk on an empty medium.
    pub fn create_on(medium: Arc<dyn Medium>, options: DiskOptions) -> Result<Self, StoreError> {
        let context = DiskContext::new(&medium.label());
        if options.read_only {
            return Err(context.read_only("create a disk"));
        }
        let medium = paced(medium, &options);
        let names = medium.list("").map_err(|error| context.io(error, "list its directory"))?;
        if let Some(name) = names.iter().find(|name| !name.name.starts_with("new-")) {
            let why = format!("it cannot become one, because it contains {}", name.name);
            return Err(StoreError::NotADisk { disk: context.name.clone(), why });
        }
        let made = DiskMark::new().and_then(|mark| mark.write(&*medium));
        made.and_then(|()| disk_mark::publish(&*medium))
            .map_err(|error| context.io(error, "write its disk mark"))?;
        Self::open_paced(medium, options)
    }

    /// Opens the disk of a medium.
    pub fn open_on(medium: Arc<dyn Medium>, options: DiskOptions) -> Result<Self, StoreError> {
        Self::open_paced(paced(medium, &options), options)
    }

    /// Opens the disk of a medium that [`paced`] has returned.
    fn open_paced(medium: Arc<dyn Medium>, options: DiskOptions) -> Result<Self, StoreError> {
        let context = DiskContext::new(&medium.label());
        let lock =
            medium.lock(MARK_FILE, !options.read_only).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => StoreError::InUse { disk: context.name.clone() },
                _ => not_a_disk(&context, error),
            })?;
        let mut lock: Arc<dyn Any + Send + Sync> = Arc::from(lock);
        let mut mark = DiskMark::read(&*medium, &context)?;
        if mark.version < DISK_VERSION && !options.read_only {
            let upgraded = upgrade(&*medium, mark);
            let new = upgraded.map_err(|error| {
                let (from, to) = (mark.version, DISK_VERSION);
                context.io(error, format!("upgrade it from format version {from} to {to}"))
            })?;
            lock = Arc::new((lock, new));
            mark.version = DISK_VERSION;
        }
        let (worker, worker_owner) = if options.background && !options.read_only {
            let (worker, owner) = CheckpointWorker::start(options.tasks.clone());
            (worker, Some(owner))
        } else {
            (CheckpointWorker::inline(), None)
        };
        let descriptions = DescriptionStore::new(medium.clone(), context.clone(), mark.version);
        let disk = Self {
            context,
            id: mark.id,
            medium,
            options,
            worker,
            _worker_owner: worker_owner,
            lock,
            open: Mutex::default(),
            descriptions: Arc::new(descriptions),
        };
        if !disk.options.read_only {
            disk.remove_unfinished()
                .map_err(|error| disk.context.io(error, "remove unfinished subfiles"))?;
        }
        Ok(disk)
    }

    /// The random id of the disk.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Total and free space of its file system.
    pub fn space(&self) -> Result<MediumSpace, StoreError> {
        self.medium.space().map_err(|error| self.context.io(error, "measure its free space"))
    }

    pub(crate) fn medium(&self) -> &dyn Medium {
        &*self.medium
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    /// The pool of this disk's buffers.
    pub fn pool(&self) -> &BufferPool {
        &self.options.pool
    }

    /// The cache of this disk's extents.
    pub fn cache(&self) -> &ExtentCache {
        &self.options.cache
    }

    /// Creates a flat subfile. If `new.is_durable`, it survives a power loss when the call returns.
    pub fn create_flat(&self, new: NewSubfile) -> Result<FlatFile, StoreError> {
        if !new.is_durable {
            return self.create_flat_unsynced(new);
        }
        let name = self.check_new(&new, SubfileKind::Flat)?;
        let context = self.context_of(new.id);
        let mut open = self.open.lock();
        self.check_absent(new.id)?;
        let description = describe(new, SubfileKind::Flat);
        let described = path_of(context.subfile, SubfileKind::Flat);
        let (new_file, new_description) = (format!("new-{name}"), format!("new-{described}"));
        let make = || {
            let file = self.create_file(&new_description)?;
            write_slot(&*file, &description)?;
            file.sync()?;
            self.medium.rename(&new_description, &described)?;
            let file = self.create_file(&new_file)?;
            file.set_len(DATA_START)?;
            file.sync()?;
            self.medium.rename(&new_file, &name)?;
            self.medium.sync_dir("")?;
            Ok(file)
        };
        let file = make().map_err(|error: io::Error| {
            for left in [&new_description, &new_file] {
                let _ = self.medium.remove_file(left);
            }
            self.context.io(error, format!("create {}", context.subfile))
        })?;
        let flat = self.flat_of(context, file, None, true);
        add_open(&mut open.flat, flat.id(), &flat.inner);
        Ok(flat)
    }

    /// Creates a flat subfile that a power loss may take before its first sync. It gets its final
    /// name at once: a missing or torn description shows that it was never synced.
    fn create_flat_unsynced(&self, new: NewSubfile) -> Result<FlatFile, StoreError> {
        let name = self.check_new(&new, SubfileKind::Flat)?;
        let context = self.context_of(new.id);
        let description = describe(new, SubfileKind::Flat);
        let described = path_of(context.subfile, SubfileKind::Flat);
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        let mut open = self.open.lock();
        let make = || {
            let file = self.medium.open(&name, mode)?;
            let written =
                self.create_file(&described).and_then(|file| write_slot(&*file, &description));
            if let Err(error) = written {
                let _ = self.medium.remove_file(&name);
                let _ = self.medium.remove_file(&described);
                return Err(error);
            }
            Ok(file)
        };
        let file = make().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                StoreError::Exists { disk: self.context.name.clone(), subfile: context.subfile }
            }
            _ => self.context.io(error, format!("create {}", context.subfile)),
        })?;
        let flat = self.flat_of(context, file, None, false);
        add_open(&mut open.flat, flat.id(), &flat.inner);
        Ok(flat)
    }

    /// Creates an extent subfile. It survives a power loss when the call returns.
    pub fn create_extents(&self, new: NewSubfile) -> Result<ExtentFile, StoreError> {
        let name = self.check_new(&new, SubfileKind::Extents)?;
        let context = self.context_of(new.id);
        let mut open = self.open.lock();
        self.check_absent(new.id)?;
        let description = describe(new, SubfileKind::Extents);
        let new_dir = format!("new-{name}");
        let make = || {
            self.remove_tree(&new_dir)?;
            self.medium.create_dir(&new_dir)?;
            extents::create_files(&*self.medium, &new_dir, &context)?;
            let file = self.create_file(&format!("{new_dir}/{}", extents::DESCRIPTION))?;
            write_slot(&*file, &description)?;
            file.sync()?;
            self.medium.sync_dir(&new_dir)?;
            self.medium.rename(&new_dir, &name)?;
            self.medium.sync_dir("")
        };
        make().map_err(|error: io::Error| {
            let _ = self.remove_tree(&new_dir);
            self.context.io(error, format!("create {}", context.subfile))
        })?;
        self.open_extents_at(&mut open, context, description.granule_bytes)
    }

    /// Opens a flat subfile.
    pub fn open_flat(&self, id: SubfileId) -> Result<FlatFile, StoreError> {
        let mut open = self.open.lock();
        if let Some(inner) = open.flat.get(&id).and_then(Weak::upgrade) {
            return Ok(FlatFile { inner });
        }
        let context = self.context_of(id);
        let name = name_of(id, SubfileKind::Flat);
        let description = self.descriptions.read(id, SubfileKind::Flat)?;
        let mode = MediumOpenMode {
            create: false,
            write: !self.options.read_only,
            direct_alignment: None,
        };
        let file = self.medium.open(&name, mode).map_err(|error| context.io(error, "open"))?;
        let failed = self.descriptions.poisoned.reason(id);
        let failed =
            failed.or_else(|| description.is_poisoned.then(|| POISONED_BEFORE_OPEN.to_owned()));
        // The name may not be durable yet: the first sync syncs it.
        let flat = self.flat_of(context, file, failed, self.options.read_only);
        add_open(&mut open.flat, id, &flat.inner);
        Ok(flat)
    }

    fn flat_of(
        &self,
        context: SubfileContext,
        file: Arc<dyn MediumFile>,
        failed: Option<String>,
        is_durable: bool,
    ) -> FlatFile {
        let descriptions = self.descriptions.clone();
        let (read_only, lock) = (self.options.read_only, self.lock.clone());
        FlatFile::new(OpenFlatFile::new(
            context,
            file,
            read_only,
            failed,
            is_durable,
            descriptions,
            lock,
        ))
    }

    /// Opens an extent subfile and recovers it after a crash.
    pub fn open_extents(&self, id: SubfileId) -> Result<ExtentFile, StoreError> {
        let mut open = self.open.lock();
        if let Some(inner) = open.extents.get(&id).and_then(Weak::upgrade) {
            return Ok(ExtentFile { inner });
        }
        let description = self.descriptions.read(id, SubfileKind::Extents)?;
        let context = self.context_of(id);
        if !is_granule(description.granule_bytes) {
            return Err(context.damaged(None, "its description has an impossible granule size"));
        }
        self.open_extents_at(&mut open, context, description.granule_bytes)
    }

    /// Removes a subfile. Open handles stay usable until they are closed.
    pub fn remove(&self, id: SubfileId) -> Result<(), StoreError> {
        self.remove_name(id)?;
        self.sync_removals()
    }

    /// Removes subfiles and syncs the directory once. It skips subfiles that do not exist. After a
    /// failure it goes on with the others and returns the first failure.
    pub fn remove_many(&self, ids: &[SubfileId]) -> Result<(), StoreError> {
        let (mut removed, mut first) = (0, Ok(()));
        for &id in ids {
            match self.remove_name(id) {
                Ok(()) => removed += 1,
                Err(StoreError::NotFound { .. }) => {}
                Err(error) if first.is_ok() => first = Err(error),
                Err(_) => {}
            }
        }
        let synced = if removed > 0 { self.sync_removals() } else { Ok(()) };
        first.and(synced)
    }

    fn sync_removals(&self) -> Result<(), StoreError> {
        let synced = self.medium.sync_dir("");
        synced.map_err(|error| self.context.io(error, "sync its directory after removals"))
    }

    /// Removes a subfile. Until [`Disk::sync_removals`] a power loss may bring it back.
    fn remove_name(&self, id: SubfileId) -> Result<(), StoreError> {
        if self.options.read_only {
            return Err(self.context.read_only(format!("remove {id}")));
        }
        let mut open = self.open.lock();
        let failed = |error| self.context.io(error, format!("remove {id}"));
        let kind = self.descriptions.kind_of(id)?;
        let name = name_of(id, kind);
        match kind {
            SubfileKind::Flat => {
                self.medium.remove_file(&name).map_err(failed)?;
                open.flat.remove(&id);
                self.descriptions.poisoned.remove(id);
                match self.medium.remove_file(&path_of(id, kind)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(failed(error));
                    }
                    _ => {}
                }
            }
            SubfileKind::Extents => {
                open.removals += 1;
                let gone = format!("gone-{}-{name}", open.removals);
                let held = open.extents.remove(&id).and_then(|inner| inner.upgrade());
                let dir = held.as_ref().map(|inner| inner.dir.write());
                self.medium.rename(&name, &gone).map_err(failed)?;
                match (dir, &held) {
                    (Some(mut dir), Some(inner)) => {
                        *dir = gone;
                        inner.removed.store(true, Ordering::Release);
                    }
                    _ => self.remove_tree(&gone).map_err(failed)?,
                }
            }
        }
        Ok(())
    }

    /// The identities of all subfiles, from their names alone. It reads no descriptions.
    pub fn subfile_ids(&self) -> Result<Vec<(SubfileId, SubfileKind)>, StoreError> {
        let names =
            self.medium.list("").map_err(|error| self.context.io(error, "list its directory"))?;
        Ok(names.iter().filter_map(|name| named(&name.name)).collect())
    }

    /// The description of a subfile.
    pub fn description(&self, id: SubfileId) -> Result<Description, StoreError> {
        self.descriptions.read(id, self.descriptions.kind_of(id)?)
    }

    /// Changes the description of a subfile, durably: a crash leaves the old description or the new
    /// one. If `change` changes nothing, the store only syncs the description.
    ///
    /// ```
    /// # fn main() -> Result<(), pario_store::StoreError> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use pario_store::{Disk, DiskOptions, NewSubfile, Rights, SubfileId};
    ///
    /// let disk = Disk::create(dir.path(), DiskOptions::default())?;
    /// let id = SubfileId::data(1, 0);
    /// disk.create_flat(NewSubfile::new(id))?;
    /// let rights = Rights { uid: 1000, gid: 100, mode: 0o640, version: 1 };
    /// disk.update_description(id, |description| description.rights = Some(rights))?;
    /// assert_eq!(disk.description(id)?.rights, Some(rights));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_description(
        &self,
        id: SubfileId,
        change: impl FnOnce(&mut Description),
    ) -> Result<Description, StoreError> {
        if self.options.read_only {
            return Err(self.context.read_only(format!("change the description of {id}")));
        }
        self.descriptions.update(id, change)
    }

    /// Whether a sync of a flat subfile has failed, so that it accepts no changes.
    pub fn is_poisoned(&self, id: SubfileId) -> Result<bool, StoreError> {
        let is_noted = self.descriptions.poisoned.reason(id).is_some();
        Ok(is_noted || self.description(id)?.is_poisoned)
    }

    /// Repairs a poisoned flat subfile: syncs it, drops its pages from the page cache, and reads every
    /// byte from the disk. From then on the subfile accepts changes again. Returns the number of bytes
    /// read. Bytes written since the last successful sync may be lost.
    pub fn repair_flat(&self, id: SubfileId) -> Result<u64, StoreError> {
        let flat = self.open_flat(id)?;
        let read = flat.inner.verify()?;
        self.update_description(id, |description| description.is_poisoned = false)?;
        self.descriptions.poisoned.remove(id);
        flat.inner.poison.clear();
        Ok(read)
    }

    /// All subfiles with their descriptions.
    pub fn subfiles(&self) -> Result<Vec<ListedSubfile>, StoreError> {
        let names =
            self.medium.list("").map_err(|error| self.context.io(error, "list its directory"))?;
        let found = names.iter().filter_map(|name| {
            let (id, kind) = named(&name.name)?;
            Some(ListedSubfile { id, kind, description: self.descriptions.read(id, kind) })
        });
        Ok(found.collect())
    }

    fn check_new(&self, new: &NewSubfile, kind: SubfileKind) -> Result<String, StoreError> {
        if self.options.read_only {
            return Err(self.context.read_only(format!("create {}", new.id)));
        }
        let bytes = new.layout.len() + new.path.len();
        let words = new.synced.as_ref().map_or(0, Vec::len);
        if bytes > DESCRIPTION_LIMIT_BYTES || words > SYNCED_SET_LIMIT / 64 {
            return Err(StoreError::DescriptionTooLarge {
                subfile: new.id,
                bytes: bytes as u64,
                limit_bytes: DESCRIPTION_LIMIT_BYTES as u64,
            });
        }
        if !is_granule(new.granule_bytes) {
            return Err(StoreError::BadOption {
                option: "granule_bytes",
                value: u64::from(new.granule_bytes),
                why: "it must be a power of two from 512 to 65,536",
            });
        }
        Ok(name_of(new.id, kind))
    }

    fn check_absent(&self, id: SubfileId) -> Result<(), StoreError> {
        match self.descriptions.kind_of(id) {
            Ok(_) => Err(StoreError::Exists { disk: self.context.name.clone(), subfile: id }),
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn open_extents_at(
        &self,
        open: &mut OpenSubfiles,
        context: SubfileContext,
        granule_bytes: u32,
    ) -> Result<ExtentFile, StoreError> {
        let id = context.subfile;
        let dir = name_of(id, SubfileKind::Extents);
        let options = &self.options;
        let opening = Recovery {
            medium: &*self.medium,
            dir: &dir,
            context: &context,
            pool: &options.pool,
            granule_bytes,
            read_only: options.read_only,
            index_cache_bytes: options.index_cache_bytes,
        };
        let files = opening.files()?;
        let state = opening.recover(&files)?;
        let inner = Arc::new(OpenExtentFile {
            context,
            granule_bytes,
            read_only: options.read_only,
            limits: ExtentFileLimits {
                index_cache_bytes: options.index_cache_bytes,
                unsynced_bytes: options.unsynced_bytes,
                journal_bytes: options.journal_bytes,
                compact_floor_bytes: options.compact_floor_bytes,
            },
            medium: self.medium.clone(),
            dir: RwLock::new(dir),
            data: files.data,
            index_file: files.index,
            pool: options.pool.clone(),
            cache: options.cache.clone(),
            open_id: next_open_id(),
            worker: self.worker.clone(),
            maintenance_requested: AtomicBool::new(false),
            compacting: Mutex::new(()),
            checkpointing: Mutex::new(()),
            syncing: Mutex::new(()),
            state: Mutex::new(state),
            poison: OnceLock::new(),
            removed: AtomicBool::new(false),
            _lock: self.lock.clone(),
        });
        add_open(&mut open.extents, id, &inner);
        Ok(ExtentFile { inner })
    }

    fn context_of(&self, subfile: SubfileId) -> SubfileContext {
        SubfileContext { disk: self.context.clone(), subfile }
    }

    fn create_file(&self, path: &str) -> io::Result<Arc<dyn MediumFile>> {
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        match self.medium.open(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // An earlier attempt failed and left it.
                self.medium.remove_file(path)?;
                self.medium.open(path, mode)
            }
            other => other,
        }
    }

    /// Removes the files of unfinished creations and removals.
    fn remove_unfinished(&self) -> io::Result<()> {
        let names = self.medium.list("")?;
        let is_there = |id| {
            let flat = name_of(id, SubfileKind::Flat);
            names.binary_search_by(|name| name.name.as_str().cmp(&flat)).is_ok()
        };
        for name in &names {
            let is_unfinished = name.name.starts_with("new-") || name.name.starts_with("gone-");
            let describes_nothing = described_by(&name.name).is_some_and(|id| !is_there(id));
            if is_unfinished && name.is_dir {
                self.remove_tree(&name.name)?;
            } else if is_unfinished || describes_nothing {
                self.medium.remove_file(&name.name)?;
            }
        }
        Ok(())
    }

    fn remove_tree(&self, dir: &str) -> io::Result<()> {
        remove_tree(&*self.medium, dir)
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Disk({})", self.context.name)
    }
}

/// The medium with the pace of the options.
fn paced(medium: Arc<dyn Medium>, options: &DiskOptions) -> Arc<dyn Medium> {
    match options.pace {
        Some(pace) => Arc::new(SlowMedium::new(medium, pace)),
        None => medium,
    }
}

/// Removes a directory of files, if it exists.
pub(crate) fn remove_tree(medium: &dyn Medium, dir: &str) -> io::Result<()> {
    let names = match medium.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for name in names {
        medium.remove_file(&format!("{dir}/{}", name.name))?;
    }
    medium.remove_dir(dir)
}

/// Adds an open subfile to the table; drops closed ones before the table grows.
fn add_open<T>(open: &mut HashMap<SubfileId, Weak<T>>, id: SubfileId, file: &Arc<T>) {
    if open.len() == open.capacity() {
        open.retain(|_, file| file.strong_count() > 0);
    }
    open.insert(id, Arc::downgrade(file));
}

fn is_granule(bytes: u32) -> bool {
    bytes.is_power_of_two() && (512..=64 << 10).contains(&bytes)
}

fn describe(new: NewSubfile, kind: SubfileKind) -> Description {
    let NewSubfile { id, layout, path, path_version, granule_bytes, rights, synced, .. } = new;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Description {
        id,
        kind,
        layout,
        path,
        path_version,
        created_s: since_1970.map_or(0, |duration| duration.as_secs()),
        granule_bytes: if kind == SubfileKind::Flat { 1 } else { granule_bytes },
        rights,
        synced,
        is_poisoned: false,
        is_replacement: false,
        generation: 0,
    }
}

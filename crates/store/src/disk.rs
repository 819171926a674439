//! A disk: a directory with subfiles, held by one process.
//!
//! In the directory: `pario.disk` says what it is and carries the lock; `ID.flat` is a flat
//! subfile, described by `ID.description`; `ID.extents` is the directory of an extent subfile.
//! Names that start with `new-` are being made and with `gone-` being removed; both are swept away
//! when the disk is opened, as is a description without its subfile. A subfile exists exactly if
//! its final name does.

use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::buffer::BufferPool;
use crate::cache::ExtentCache;
use crate::description::{
    DESCRIPTION_LIMIT_BYTES, Description, Rights, SYNCED_SET_LIMIT, write_slot,
};
use crate::descriptions::{Descriptions, described_by, name_of, named, path_of};
use crate::error::{DiskPlace, Place, StoreError};
use crate::extents::{self, ExtentFile, Limits, Opening, Shared, next_opening};
use crate::flat::{DATA_START, FlatFile, FlatShared};
use crate::keeper::{Keeper, KeeperThread};
use crate::mark::{self, DISK_VERSION, MARK, Mark, not_a_disk};
use crate::medium::{Directory, Medium, MediumFile, OpenHow, Pace, Slow, Space};
use crate::poison::MARKED;
use crate::subfile::{Kind, SubfileId};
use crate::upgrade::upgrade;
use parking_lot::{Mutex, RwLock};

/// How a disk is used.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Change nothing. Several processes may have a disk open this way.
    pub read_only: bool,
    /// Extents kept in memory; several disks may share one.
    pub cache: ExtentCache,
    /// Where buffers come from; several disks may share one.
    pub pool: BufferPool,
    /// At most so much memory for the index of each extent subfile, however large it is. An index
    /// takes about 40 bytes per extent; what does not fit is read when it is needed.
    pub index_cache_bytes: usize,
    /// After so many bytes an extent subfile is synced even if nobody asks. Recovery after a crash
    /// reads at most about as many.
    pub unsynced_bytes: u64,
    /// After so many bytes of journal the index of an extent subfile is written. Recovery after a
    /// crash replays about as many at most, and four times as many where the disk is slow: then
    /// writes wait.
    pub journal_bytes: u64,
    /// Do syncs and index writes that nobody asked for in a thread of the disk's own; otherwise
    /// they happen in the thread that makes them necessary.
    pub background: bool,
    /// Behave like a slower disk, which has this pace: every I/O takes its time, also where the
    /// page cache has the bytes, and nobody gets descriptors.
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
            background: true,
            pace: None,
        }
    }
}

/// A subfile to be created.
#[derive(Clone, Debug)]
pub struct NewSubfile {
    /// Whose it is.
    pub id: SubfileId,
    /// The layout of its file; the store does not look into it.
    pub layout: Vec<u8>,
    /// The path of its file.
    pub path: String,
    /// How often its file was renamed.
    pub path_version: u32,
    /// For extents: each starts at a multiple of this many bytes, a power of two from 512 to
    /// 65,536. From 4,096 on the page cache is bypassed where the file system allows it; smaller
    /// granules save space where extents are tiny.
    pub granule_bytes: u32,
    /// For flat ones: whether it survives a power loss as soon as it is created; otherwise after
    /// its first sync. Until then a power loss may leave nothing of it, or an empty file without a
    /// description.
    pub is_durable: bool,
    /// Owner and mode of its file.
    pub rights: Option<Rights>,
    /// Which subfiles of its file have been synced: bit `i % 64` of word `i / 64`.
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

/// A subfile as found on a disk.
#[derive(Debug)]
pub struct FoundSubfile {
    /// Whose it is, from its name.
    pub id: SubfileId,
    /// Its kind, from its name.
    pub kind: Kind,
    /// What it says of itself, or why that cannot be read.
    pub description: Result<Description, StoreError>,
}

/// A disk of the store: a directory that this process alone may change.
///
/// ```
/// # fn main() -> Result<(), pario_store::StoreError> {
/// # let dir = tempfile::tempdir().unwrap();
/// use pario_store::{Disk, DiskOptions, NewSubfile, SubfileId};
///
/// let disk = Disk::create(dir.path(), DiskOptions::default())?;
/// disk.create_flat(NewSubfile::new(SubfileId::data(1, 0)))?;
/// assert!(Disk::open(dir.path(), DiskOptions::default()).is_err()); // one holder at a time
/// drop(disk);
///
/// let disk = Disk::open(dir.path(), DiskOptions::default())?;
/// assert_eq!(disk.subfiles()?.len(), 1);
/// # Ok(())
/// # }
/// ```
pub struct Disk {
    place: DiskPlace,
    id: u128,
    medium: Arc<dyn Medium>,
    options: DiskOptions,
    keeper: Keeper,
    _keeper_thread: Option<KeeperThread>,
    lock: Arc<dyn Any + Send + Sync>,
    open: Mutex<OpenSubfiles>,
    descriptions: Arc<Descriptions>,
}

#[derive(Default)]
struct OpenSubfiles {
    flat: HashMap<SubfileId, Weak<FlatShared>>,
    extents: HashMap<SubfileId, Weak<Shared>>,
    removals: u64,
}

impl Disk {
    /// Makes a new disk of a directory, which must be empty or not there yet.
    pub fn create(path: impl AsRef<Path>, options: DiskOptions) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let place = DiskPlace::new(&path.display().to_string());
        let made = Directory::create(path);
        let medium = made.map_err(|error| place.io(error, "make the directory"))?;
        Self::create_on(Arc::new(medium), options)
    }

    /// Opens the disk of a directory.
    pub fn open(path: impl AsRef<Path>, options: DiskOptions) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let place = DiskPlace::new(&path.display().to_string());
        let medium = Directory::new(path).map_err(|error| not_a_disk(&place, error))?;
        Self::open_on(Arc::new(medium), options)
    }

    /// Makes a new disk of an empty medium.
    pub fn create_on(medium: Arc<dyn Medium>, options: DiskOptions) -> Result<Self, StoreError> {
        let place = DiskPlace::new(&medium.label());
        if options.read_only {
            return Err(place.read_only("create a disk"));
        }
        let medium = paced(medium, &options);
        let names = medium.list("").map_err(|error| place.io(error, "look into it"))?;
        if let Some(name) = names.iter().find(|name| !name.name.starts_with("new-")) {
            let why = format!("it cannot become one: it contains {}", name.name);
            return Err(StoreError::NotADisk { disk: place.disk.clone(), why });
        }
        let made = Mark::new().and_then(|mark| mark.write(&*medium));
        made.and_then(|()| mark::put_in_place(&*medium))
            .map_err(|error| place.io(error, "make it a disk"))?;
        Self::open_paced(medium, options)
    }

    /// Opens the disk of a medium.
    pub fn open_on(medium: Arc<dyn Medium>, options: DiskOptions) -> Result<Self, StoreError> {
        Self::open_paced(paced(medium, &options), options)
    }

    /// Opens the disk of a medium that has its pace already.
    fn open_paced(medium: Arc<dyn Medium>, options: DiskOptions) -> Result<Self, StoreError> {
        let place = DiskPlace::new(&medium.label());
        let lock = medium.lock(MARK, !options.read_only).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StoreError::InUse { disk: place.disk.clone() },
            _ => not_a_disk(&place, error),
        })?;
        let mut lock: Arc<dyn Any + Send + Sync> = Arc::from(lock);
        let mut mark = Mark::read(&*medium, &place)?;
        if mark.version < DISK_VERSION && !options.read_only {
            let upgraded = upgrade(&*medium, mark);
            let new = upgraded.map_err(|error| {
                let (from, to) = (mark.version, DISK_VERSION);
                place.io(error, format!("upgrade it from format version {from} to {to}"))
            })?;
            lock = Arc::new((lock, new));
            mark.version = DISK_VERSION;
        }
        let (keeper, keeper_thread) = if options.background && !options.read_only {
            let started = Keeper::start().map_err(|error| place.io(error, "start a thread"));
            started.map(|(keeper, thread)| (keeper, Some(thread)))?
        } else {
            (Keeper::none(), None)
        };
        let descriptions = Descriptions::new(medium.clone(), place.clone(), mark.version);
        let disk = Self {
            place,
            id: mark.id,
            medium,
            options,
            keeper,
            _keeper_thread: keeper_thread,
            lock,
            open: Mutex::default(),
            descriptions: Arc::new(descriptions),
        };
        if !disk.options.read_only {
            disk.sweep().map_err(|error| disk.place.io(error, "remove what is left over"))?;
        }
        Ok(disk)
    }

    /// A number that no other disk has.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Total and free space of the file system it is on.
    pub fn space(&self) -> Result<Space, StoreError> {
        self.medium.space().map_err(|error| self.place.io(error, "measure the space"))
    }

    pub(crate) fn medium(&self) -> &dyn Medium {
        &*self.medium
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    /// Where buffers of this disk come from.
    pub fn pool(&self) -> &BufferPool {
        &self.options.pool
    }

    /// The cache of this disk's extents.
    pub fn cache(&self) -> &ExtentCache {
        &self.options.cache
    }

    /// Creates a flat subfile. It survives a power loss from here on, if it was asked to.
    pub fn create_flat(&self, new: NewSubfile) -> Result<FlatFile, StoreError> {
        if !new.is_durable {
            return self.create_flat_quickly(new);
        }
        let name = self.check_new(&new, Kind::Flat)?;
        let place = self.place_of(new.id);
        let mut open = self.open.lock();
        self.check_absent(new.id)?;
        let description = describe(new, Kind::Flat);
        let described = path_of(place.subfile, Kind::Flat);
        let (making, describing) = (format!("new-{name}"), format!("new-{described}"));
        let make = || {
            let file = self.create_file(&describing)?;
            write_slot(&*file, &description)?;
            file.sync()?;
            self.medium.rename(&describing, &described)?;
            let file = self.create_file(&making)?;
            file.set_len(DATA_START)?;
            file.sync()?;
            self.medium.rename(&making, &name)?;
            self.medium.sync_dir("")?;
            Ok(file)
        };
        let file = make().map_err(|error: io::Error| {
            for left in [&describing, &making] {
                let _ = self.medium.remove_file(left);
            }
            self.place.io(error, format!("create {}", place.subfile))
        })?;
        let flat = self.flat_of(place, file, None, true);
        remember(&mut open.flat, flat.id(), &flat.shared);
        Ok(flat)
    }

    /// Creates a flat subfile that a power loss may take before its first sync: under its own name
    /// at once, because a description that is missing or not whole shows.
    fn create_flat_quickly(&self, new: NewSubfile) -> Result<FlatFile, StoreError> {
        let name = self.check_new(&new, Kind::Flat)?;
        let place = self.place_of(new.id);
        let description = describe(new, Kind::Flat);
        let described = path_of(place.subfile, Kind::Flat);
        let how = OpenHow { create: true, write: true, direct_alignment: None };
        let mut open = self.open.lock();
        let make = || {
            let file = self.medium.open(&name, how)?;
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
                StoreError::Exists { disk: self.place.disk.clone(), subfile: place.subfile }
            }
            _ => self.place.io(error, format!("create {}", place.subfile)),
        })?;
        let flat = self.flat_of(place, file, None, false);
        remember(&mut open.flat, flat.id(), &flat.shared);
        Ok(flat)
    }

    /// Creates an extent subfile. It survives a power loss from here on.
    pub fn create_extents(&self, new: NewSubfile) -> Result<ExtentFile, StoreError> {
        let name = self.check_new(&new, Kind::Extents)?;
        let place = self.place_of(new.id);
        let mut open = self.open.lock();
        self.check_absent(new.id)?;
        let description = describe(new, Kind::Extents);
        let making = format!("new-{name}");
        let make = || {
            self.remove_tree(&making)?;
            self.medium.create_dir(&making)?;
            extents::create_files(&*self.medium, &making, &place)?;
            let file = self.create_file(&format!("{making}/{}", extents::DESCRIPTION))?;
            write_slot(&*file, &description)?;
            file.sync()?;
            self.medium.sync_dir(&making)?;
            self.medium.rename(&making, &name)?;
            self.medium.sync_dir("")
        };
        make().map_err(|error: io::Error| {
            let _ = self.remove_tree(&making);
            self.place.io(error, format!("create {}", place.subfile))
        })?;
        self.open_extents_at(&mut open, place, description.granule_bytes)
    }

    /// Opens a flat subfile.
    pub fn open_flat(&self, id: SubfileId) -> Result<FlatFile, StoreError> {
        let mut open = self.open.lock();
        if let Some(shared) = open.flat.get(&id).and_then(Weak::upgrade) {
            return Ok(FlatFile { shared });
        }
        let place = self.place_of(id);
        let name = name_of(id, Kind::Flat);
        let description = self.descriptions.read(id, Kind::Flat)?;
        let how = OpenHow { create: false, write: !self.options.read_only, direct_alignment: None };
        let file = self.medium.open(&name, how).map_err(|error| place.io(error, "opening"))?;
        let failed = self.descriptions.poisoned.reason(id);
        let failed = failed.or_else(|| description.is_poisoned.then(|| MARKED.to_owned()));
        // Whether its name was ever synced is unknown: the first sync syncs it.
        let flat = self.flat_of(place, file, failed, self.options.read_only);
        remember(&mut open.flat, id, &flat.shared);
        Ok(flat)
    }

    fn flat_of(
        &self,
        place: Place,
        file: Arc<dyn MediumFile>,
        failed: Option<String>,
        is_durable: bool,
    ) -> FlatFile {
        let descriptions = self.descriptions.clone();
        let (read_only, lock) = (self.options.read_only, self.lock.clone());
        FlatFile::new(FlatShared::new(
            place,
            file,
            read_only,
            failed,
            is_durable,
            descriptions,
            lock,
        ))
    }

    /// Opens an extent subfile. What a crash left unfinished is settled here.
    pub fn open_extents(&self, id: SubfileId) -> Result<ExtentFile, StoreError> {
        let mut open = self.open.lock();
        if let Some(shared) = open.extents.get(&id).and_then(Weak::upgrade) {
            return Ok(ExtentFile { shared });
        }
        let description = self.descriptions.read(id, Kind::Extents)?;
        let place = self.place_of(id);
        if !is_granule(description.granule_bytes) {
            return Err(place.damaged(None, "its granule size is impossible"));
        }
        self.open_extents_at(&mut open, place, description.granule_bytes)
    }

    /// Removes a subfile. Whoever has it open can use it until they close it.
    pub fn remove(&self, id: SubfileId) -> Result<(), StoreError> {
        self.remove_name(id)?;
        self.sync_removals()
    }

    /// Removes subfiles; those that are not there are left out. The names are synced once, for all.
    /// After a failure the others are removed all the same, and the first failure is reported.
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
        synced.map_err(|error| self.place.io(error, "make removals durable"))
    }

    /// Removes a subfile; a power loss may bring it back until the names are synced.
    fn remove_name(&self, id: SubfileId) -> Result<(), StoreError> {
        if self.options.read_only {
            return Err(self.place.read_only(format!("remove {id}")));
        }
        let mut open = self.open.lock();
        let failed = |error| self.place.io(error, format!("remove {id}"));
        let kind = self.descriptions.kind_of(id)?;
        let name = name_of(id, kind);
        match kind {
            Kind::Flat => {
                self.medium.remove_file(&name).map_err(failed)?;
                open.flat.remove(&id);
                self.descriptions.poisoned.forget(id);
                match self.medium.remove_file(&path_of(id, kind)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(failed(error));
                    }
                    _ => {}
                }
            }
            Kind::Extents => {
                open.removals += 1;
                let gone = format!("gone-{}-{name}", open.removals);
                let held = open.extents.remove(&id).and_then(|shared| shared.upgrade());
                let dir = held.as_ref().map(|shared| shared.dir.write());
                self.medium.rename(&name, &gone).map_err(failed)?;
                match (dir, &held) {
                    (Some(mut dir), Some(shared)) => {
                        *dir = gone;
                        shared.removed.store(true, Ordering::Release);
                    }
                    _ => self.remove_tree(&gone).map_err(failed)?,
                }
            }
        }
        Ok(())
    }

    /// The identities of all subfiles, from their names alone: quick, also where there are many.
    pub fn subfile_ids(&self) -> Result<Vec<(SubfileId, Kind)>, StoreError> {
        let names = self.medium.list("").map_err(|error| self.place.io(error, "list it"))?;
        Ok(names.iter().filter_map(|name| named(&name.name)).collect())
    }

    /// What a subfile says of itself.
    pub fn description(&self, id: SubfileId) -> Result<Description, StoreError> {
        self.descriptions.read(id, self.descriptions.kind_of(id)?)
    }

    /// Changes what a subfile says of itself, durably: a crash leaves the description of before or
    /// the new one. Nothing is written if nothing changes, and what is there is durable.
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
            return Err(self.place.read_only(format!("change the description of {id}")));
        }
        self.descriptions.update(id, change)
    }

    /// Whether a sync of a flat subfile has failed, so that it takes no changes.
    pub fn is_poisoned(&self, id: SubfileId) -> Result<bool, StoreError> {
        let is_noted = self.descriptions.poisoned.reason(id).is_some();
        Ok(is_noted || self.description(id)?.is_poisoned)
    }

    /// Lets a flat subfile take changes again whose sync has failed: syncs it, has the kernel forget
    /// what it holds of it, and reads every byte from the disk. Returns how many were read. Bytes
    /// written since the last sync that succeeded may be lost.
    pub fn repair_flat(&self, id: SubfileId) -> Result<u64, StoreError> {
        let flat = self.open_flat(id)?;
        let read = flat.shared.verify()?;
        self.update_description(id, |description| description.is_poisoned = false)?;
        self.descriptions.poisoned.forget(id);
        flat.shared.poison.clear();
        Ok(read)
    }

    /// All subfiles, from the directory alone.
    pub fn subfiles(&self) -> Result<Vec<FoundSubfile>, StoreError> {
        let names = self.medium.list("").map_err(|error| self.place.io(error, "list it"))?;
        let found = names.iter().filter_map(|name| {
            let (id, kind) = named(&name.name)?;
            Some(FoundSubfile { id, kind, description: self.descriptions.read(id, kind) })
        });
        Ok(found.collect())
    }

    fn check_new(&self, new: &NewSubfile, kind: Kind) -> Result<String, StoreError> {
        if self.options.read_only {
            return Err(self.place.read_only(format!("create {}", new.id)));
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
            Ok(_) => Err(StoreError::Exists { disk: self.place.disk.clone(), subfile: id }),
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn open_extents_at(
        &self,
        open: &mut OpenSubfiles,
        place: Place,
        granule_bytes: u32,
    ) -> Result<ExtentFile, StoreError> {
        let id = place.subfile;
        let dir = name_of(id, Kind::Extents);
        let options = &self.options;
        let opening = Opening {
            medium: &*self.medium,
            dir: &dir,
            place: &place,
            pool: &options.pool,
            granule_bytes,
            read_only: options.read_only,
            index_cache_bytes: options.index_cache_bytes,
        };
        let files = opening.files()?;
        let state = opening.recover(&files)?;
        let shared = Arc::new(Shared {
            place,
            granule_bytes,
            read_only: options.read_only,
            limits: Limits {
                index_cache_bytes: options.index_cache_bytes,
                unsynced_bytes: options.unsynced_bytes,
                journal_bytes: options.journal_bytes,
            },
            medium: self.medium.clone(),
            dir: RwLock::new(dir),
            data: files.data,
            index_file: files.index,
            pool: options.pool.clone(),
            cache: options.cache.clone(),
            opening: next_opening(),
            keeper: self.keeper.clone(),
            keeper_called: AtomicBool::new(false),
            checkpointing: Mutex::new(()),
            syncing: Mutex::new(()),
            state: Mutex::new(state),
            poison: OnceLock::new(),
            removed: AtomicBool::new(false),
            _lock: self.lock.clone(),
        });
        remember(&mut open.extents, id, &shared);
        Ok(ExtentFile { shared })
    }

    fn place_of(&self, subfile: SubfileId) -> Place {
        Place { disk: self.place.clone(), subfile }
    }

    fn create_file(&self, path: &str) -> io::Result<Arc<dyn MediumFile>> {
        let how = OpenHow { create: true, write: true, direct_alignment: None };
        match self.medium.open(path, how) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Left over from an attempt that failed.
                self.medium.remove_file(path)?;
                self.medium.open(path, how)
            }
            other => other,
        }
    }

    /// Removes what unfinished creations and removals have left.
    fn sweep(&self) -> io::Result<()> {
        let names = self.medium.list("")?;
        let is_there = |id| {
            let flat = name_of(id, Kind::Flat);
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
        write!(f, "Disk({})", self.place.disk)
    }
}

/// A medium that is as slow as it was asked to be.
fn paced(medium: Arc<dyn Medium>, options: &DiskOptions) -> Arc<dyn Medium> {
    match options.pace {
        Some(pace) => Arc::new(Slow::new(medium, pace)),
        None => medium,
    }
}

/// Removes a directory of files; one that is not there is fine.
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

/// Notes an open subfile; those that were closed are forgotten before the table grows.
fn remember<T>(open: &mut HashMap<SubfileId, Weak<T>>, id: SubfileId, shared: &Arc<T>) {
    if open.len() == open.capacity() {
        open.retain(|_, shared| shared.strong_count() > 0);
    }
    open.insert(id, Arc::downgrade(shared));
}

fn is_granule(bytes: u32) -> bool {
    bytes.is_power_of_two() && (512..=64 << 10).contains(&bytes)
}

fn describe(new: NewSubfile, kind: Kind) -> Description {
    let NewSubfile { id, layout, path, path_version, granule_bytes, rights, synced, .. } = new;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Description {
        id,
        kind,
        layout,
        path,
        path_version,
        created_s: since_1970.map_or(0, |duration| duration.as_secs()),
        granule_bytes: if kind == Kind::Flat { 1 } else { granule_bytes },
        rights,
        synced,
        is_poisoned: false,
        is_replacement: false,
        generation: 0,
    }
}

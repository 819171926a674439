//! A disk: a directory with subfiles, held by one process.
//!
//! In the directory: `pario.disk` says what it is and carries the lock; `ID.flat` is a flat
//! subfile; `ID.extents` is the directory of an extent subfile. Names that start with `new-` are
//! being made and with `gone-` being removed; both are swept away when the disk is opened. A
//! subfile exists exactly if its final name does.

use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use zerocopy::little_endian::{U16, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::buffer::BufferPool;
use crate::cache::ExtentCache;
use crate::checksum::checksum;
use crate::error::{DiskPlace, Place, StoreError};
use crate::extents::{self, ExtentFile, Limits, Opening, Shared, next_opening};
use crate::flat::{DATA_START, FlatFile, FlatShared};
use crate::keeper::{Keeper, KeeperThread};
use crate::medium::{Directory, Medium, MediumFile, OpenHow, Pace, Slow, Space};
use crate::subfile::{
    BadDescription, DESCRIPTION_LIMIT_BYTES, DESCRIPTION_MAX_BYTES, DESCRIPTION_VERSION,
    Description, Kind, SubfileId,
};

const MARK: &str = "pario.disk";
const MARK_VERSION: u16 = 1;
const MARK_MAGIC: [u8; 8] = *b"PARIODSK";

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
    /// For extents: each starts at a multiple of this many bytes, a power of two from 512 to
    /// 65,536. From 4,096 on the page cache is bypassed where the file system allows it; smaller
    /// granules save space where extents are tiny.
    pub granule_bytes: u32,
    /// For flat ones: whether it survives a power loss as soon as it is created; otherwise after
    /// its first sync. Until then a power loss may leave nothing of it, or an empty file without a
    /// description.
    pub is_durable: bool,
}

impl NewSubfile {
    /// A durable subfile without layout and path, and with granules of 4,096 bytes.
    pub fn new(id: SubfileId) -> Self {
        let (layout, path) = (Vec::new(), String::new());
        Self { id, layout, path, granule_bytes: 4096, is_durable: true }
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
        write_mark(&*medium).map_err(|error| place.io(error, "make it a disk"))?;
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
        let id = read_mark(&*medium, &place)?;
        let (keeper, keeper_thread) = if options.background && !options.read_only {
            let started = Keeper::start().map_err(|error| place.io(error, "start a thread"));
            started.map(|(keeper, thread)| (keeper, Some(thread)))?
        } else {
            (Keeper::none(), None)
        };
        let (lock, open) = (Arc::from(lock), Mutex::default());
        let disk =
            Self { place, id, medium, options, keeper, _keeper_thread: keeper_thread, lock, open };
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
        let making = format!("new-{name}");
        let make = || {
            let file = self.create_file(&making)?;
            file.set_len(DATA_START)?;
            file.write_all_at(&description.encode(), 0)?;
            file.sync()?;
            self.medium.rename(&making, &name)?;
            self.medium.sync_dir("")?;
            Ok(file)
        };
        let file = make().map_err(|error: io::Error| {
            let _ = self.medium.remove_file(&making);
            self.place.io(error, format!("create {}", place.subfile))
        })?;
        let flat = FlatFile::new(place, file, false, None, self.lock.clone());
        remember(&mut open.flat, flat.id(), &flat.shared);
        Ok(flat)
    }

    /// Creates a flat subfile that a power loss may take before its first sync: under its own name
    /// at once, because a description that is not whole shows by its checksum.
    fn create_flat_quickly(&self, new: NewSubfile) -> Result<FlatFile, StoreError> {
        let name = self.check_new(&new, Kind::Flat)?;
        let place = self.place_of(new.id);
        let description = describe(new, Kind::Flat).encode();
        let how = OpenHow { create: true, write: true, direct_alignment: None };
        let mut open = self.open.lock();
        let make = || {
            let file = self.medium.open(&name, how)?;
            if let Err(error) = file.write_all_at(&description, 0) {
                let _ = self.medium.remove_file(&name);
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
        let flat = FlatFile::new(place, file, false, Some(self.medium.clone()), self.lock.clone());
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
            file.write_all_at(&description.encode(), 0)?;
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
        self.describe_found(id, Kind::Flat)?;
        let how = OpenHow { create: false, write: !self.options.read_only, direct_alignment: None };
        let file = self.medium.open(&name, how).map_err(|error| place.io(error, "opening"))?;
        // Nobody knows whether its name was ever synced: the first sync sees to it.
        let unsettled = (!self.options.read_only).then(|| self.medium.clone());
        let flat = FlatFile::new(place, file, self.options.read_only, unsettled, self.lock.clone());
        remember(&mut open.flat, id, &flat.shared);
        Ok(flat)
    }

    /// Opens an extent subfile. What a crash left unfinished is settled here.
    pub fn open_extents(&self, id: SubfileId) -> Result<ExtentFile, StoreError> {
        let mut open = self.open.lock();
        if let Some(shared) = open.extents.get(&id).and_then(Weak::upgrade) {
            return Ok(ExtentFile { shared });
        }
        let description = self.describe_found(id, Kind::Extents)?;
        let place = self.place_of(id);
        if !is_granule(description.granule_bytes) {
            return Err(place.damaged(None, "its granule size is impossible"));
        }
        self.open_extents_at(&mut open, place, description.granule_bytes)
    }

    /// Removes a subfile. Whoever has it open can use it until they close it.
    pub fn remove(&self, id: SubfileId) -> Result<(), StoreError> {
        if self.options.read_only {
            return Err(self.place.read_only(format!("remove {id}")));
        }
        let mut open = self.open.lock();
        let failed = |error| self.place.io(error, format!("remove {id}"));
        let kind = self.kind_of(id)?;
        let name = name_of(id, kind);
        match kind {
            Kind::Flat => {
                self.medium.remove_file(&name).map_err(failed)?;
                open.flat.remove(&id);
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
        self.medium.sync_dir("").map_err(failed)
    }

    /// The identities of all subfiles, from their names alone: quick, also where there are many.
    pub fn subfile_ids(&self) -> Result<Vec<(SubfileId, Kind)>, StoreError> {
        let names = self.medium.list("").map_err(|error| self.place.io(error, "list it"))?;
        let known = |name: &crate::medium::Name| {
            let (stem, kind) = split_name(&name.name)?;
            Some((SubfileId::from_stem(stem)?, kind))
        };
        Ok(names.iter().filter_map(known).collect())
    }

    /// What a subfile says of itself.
    pub fn description(&self, id: SubfileId) -> Result<Description, StoreError> {
        self.describe_found(id, self.kind_of(id)?)
    }

    /// All subfiles, from the directory alone.
    pub fn subfiles(&self) -> Result<Vec<FoundSubfile>, StoreError> {
        let names = self.medium.list("").map_err(|error| self.place.io(error, "list it"))?;
        let found = names.iter().filter_map(|name| {
            let (stem, kind) = split_name(&name.name)?;
            let id = SubfileId::from_stem(stem)?;
            Some(FoundSubfile { id, kind, description: self.describe_found(id, kind) })
        });
        Ok(found.collect())
    }

    fn check_new(&self, new: &NewSubfile, kind: Kind) -> Result<String, StoreError> {
        if self.options.read_only {
            return Err(self.place.read_only(format!("create {}", new.id)));
        }
        let bytes = new.layout.len() + new.path.len();
        if bytes > DESCRIPTION_LIMIT_BYTES {
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
        match self.kind_of(id) {
            Ok(_) => Err(StoreError::Exists { disk: self.place.disk.clone(), subfile: id }),
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Which kind of subfile there is under an identity.
    fn kind_of(&self, id: SubfileId) -> Result<Kind, StoreError> {
        let how = OpenHow::default();
        for (kind, path) in [
            (Kind::Flat, name_of(id, Kind::Flat)),
            (Kind::Extents, format!("{}/{}", name_of(id, Kind::Extents), extents::DESCRIPTION)),
        ] {
            match self.medium.open(&path, how) {
                Ok(_) => return Ok(kind),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.place_of(id).io(error, "opening")),
            }
        }
        Err(StoreError::NotFound { disk: self.place.disk.clone(), subfile: id })
    }

    /// The description of a subfile, which must be of the kind asked for.
    fn describe_found(&self, id: SubfileId, asked: Kind) -> Result<Description, StoreError> {
        let place = self.place_of(id);
        let disk = self.place.disk.clone();
        let found = self.kind_of(id)?;
        if found != asked {
            return Err(StoreError::WrongKind { disk, subfile: id, found, asked });
        }
        let name = name_of(id, found);
        let path = match found {
            Kind::Flat => name.clone(),
            Kind::Extents => format!("{name}/{}", extents::DESCRIPTION),
        };
        let read = || {
            let file = self.medium.open(&path, OpenHow::default())?;
            let mut block = vec![0; DESCRIPTION_MAX_BYTES];
            let count = file.read_at(&mut block, 0)?;
            block.truncate(count);
            Ok(block)
        };
        let block =
            read().map_err(|error: io::Error| place.io(error, "reading the description"))?;
        match Description::decode(&block) {
            Ok(description) if description.id == id && description.kind == asked => Ok(description),
            Ok(_) => {
                let why = "its description belongs to another subfile".into();
                Err(StoreError::NotASubfile { disk, name, why })
            }
            Err(BadDescription::NotOurs) => {
                let why = "it does not start with a description".into();
                Err(StoreError::NotASubfile { disk, name, why })
            }
            Err(BadDescription::Newer(version)) => {
                Err(place.newer(name, version, DESCRIPTION_VERSION))
            }
            Err(BadDescription::Damaged(what)) => {
                Err(place.damaged(None, format!("{what} does not fit")))
            }
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
        for name in self.medium.list("")? {
            if name.name.starts_with("new-") || name.name.starts_with("gone-") {
                if name.is_dir {
                    self.remove_tree(&name.name)?;
                } else {
                    self.medium.remove_file(&name.name)?;
                }
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

fn name_of(id: SubfileId, kind: Kind) -> String {
    format!("{}.{kind}", id.stem())
}

fn split_name(name: &str) -> Option<(&str, Kind)> {
    let (stem, kind) = name.rsplit_once('.')?;
    let kind = [Kind::Flat, Kind::Extents].into_iter().find(|known| known.to_string() == kind)?;
    Some((stem, kind))
}

fn is_granule(bytes: u32) -> bool {
    bytes.is_power_of_two() && (512..=64 << 10).contains(&bytes)
}

fn describe(new: NewSubfile, kind: Kind) -> Description {
    let NewSubfile { id, layout, path, granule_bytes, is_durable: _ } = new;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Description {
        id,
        kind,
        layout,
        path,
        created_s: since_1970.map_or(0, |duration| duration.as_secs()),
        granule_bytes: if kind == Kind::Flat { 1 } else { granule_bytes },
    }
}

/// What `pario.disk` holds.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Mark {
    magic: [u8; 8],
    checksum: U64,
    version: U16,
    reserved: [u8; 14],
    id: U128,
}

const CHECKED_FROM: usize = 16;

fn write_mark(medium: &dyn Medium) -> io::Result<()> {
    let mut id = [0; 16];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())?;
    let mut mark = Mark {
        magic: MARK_MAGIC,
        checksum: U64::ZERO,
        version: U16::new(MARK_VERSION),
        reserved: [0; 14],
        id: U128::from_bytes(id),
    };
    mark.checksum = U64::new(checksum(&[&mark.as_bytes()[CHECKED_FROM..]]));
    let making = format!("new-{MARK}");
    match medium.remove_file(&making) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let how = OpenHow { create: true, write: true, direct_alignment: None };
    let file = medium.open(&making, how)?;
    file.write_all_at(mark.as_bytes(), 0)?;
    file.sync()?;
    medium.rename(&making, MARK)?;
    medium.sync_dir("")
}

fn read_mark(medium: &dyn Medium, place: &DiskPlace) -> Result<u128, StoreError> {
    let mut bytes = [0; size_of::<Mark>()];
    let read = medium.open(MARK, OpenHow::default()).and_then(|file| file.read_at(&mut bytes, 0));
    let count = read.map_err(|error| not_a_disk(place, error))?;
    let strange = |why: &str| StoreError::NotADisk {
        disk: place.disk.clone(),
        why: format!("its {MARK} {why}"),
    };
    let mark = Mark::ref_from_bytes(&bytes).expect("just as long");
    if count < bytes.len() || mark.magic != MARK_MAGIC {
        return Err(strange("is another file"));
    }
    let version = mark.version.get();
    if version > MARK_VERSION {
        let (disk, name) = (place.disk.clone(), MARK.to_owned());
        return Err(StoreError::NewerVersion { disk, name, found: version, known: MARK_VERSION });
    }
    if checksum(&[&bytes[CHECKED_FROM..]]) != mark.checksum.get() {
        return Err(strange("is damaged"));
    }
    Ok(mark.id.get())
}

fn not_a_disk(place: &DiskPlace, error: io::Error) -> StoreError {
    let disk = place.disk.clone();
    match error.kind() {
        io::ErrorKind::NotFound => {
            StoreError::NotADisk { disk, why: format!("there is no {MARK} in it") }
        }
        io::ErrorKind::NotADirectory => {
            StoreError::NotADisk { disk, why: "it is not a directory".into() }
        }
        _ => place.io(error, "open it"),
    }
}

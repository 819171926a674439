//! The disks of a node: opened once, their subfiles kept open, what is done with them counted.

mod load;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_proto::{
    DiskId, DiskInfo, DiskStatus, Failure, FileId, FileKind, FileRecord, KnownFile, Layout,
    SubfileIndex, SubfileLocation, Traffic,
};
use pario_store::{
    BufferPool, Disk, DiskOptions, ExtentCache, ExtentFile, FlatFile, NewSubfile, Rights,
    StoreError, SubfileId,
};
use parking_lot::{Mutex, RwLock};

pub use load::{CROWD, Load};

use crate::config::{DiskConfig, NodeConfig};
use crate::descriptors;
use crate::error::NodeError;
use crate::event_log::{DiskLook, DiskWatch};
use crate::private_files;
use crate::unmade::Unmade;

/// Everybody is told of a disk that has stalled for so long: a sync of much may well take a moment.
const DELAY: Duration = Duration::from_secs(3);

/// In place of an id that nobody has given yet.
pub const NO_ID: DiskId = DiskId(u32::MAX);

/// The disks of a node.
#[derive(Debug)]
pub struct NodeDisks {
    node: String,
    disks: Vec<NodeDisk>,
    ids: RwLock<HashMap<DiskId, usize>>,
    cache: ExtentCache,
}

/// A disk of a node.
#[derive(Debug)]
pub struct NodeDisk {
    /// Its name for people: `node/label`.
    pub name: String,
    label: String,
    path: String,
    disk: Disk,
    is_read_only: bool,
    /// Whether it behaves like a slower disk: then nobody may go around it.
    pub is_slow: bool,
    /// The storage thread that serves it.
    pub thread: usize,
    open: Mutex<HashMap<SubfileId, Subfile>>,
    /// How many of them stay open though no request uses them.
    kept_subfiles: usize,
    /// Locked while subfiles are made and removed.
    making: Mutex<()>,
    /// Subfiles that may be made.
    pub unmade: Mutex<Unmade>,
    /// What is done with it.
    pub load: Load,
    space: Mutex<Option<pario_store::medium::MediumSpace>>,
    trouble: Mutex<Option<String>>,
}

#[derive(Clone, Debug)]
enum Subfile {
    Flat(FlatFile),
    Extents(ExtentFile),
}

impl NodeDisks {
    /// Opens the disks of a node; empty or missing directories become disks.
    pub fn open(config: &NodeConfig) -> Result<Self, NodeError> {
        let cache = ExtentCache::new(config.cache_bytes);
        let pool = BufferPool::new(64 << 20);
        let known = KnownDisks::read(&config.data)?;
        let mut disks = Vec::new();
        for (number, wanted) in config.disks.iter().enumerate() {
            let options = DiskOptions {
                read_only: wanted.is_read_only,
                pace: wanted.pace,
                cache: cache.clone(),
                pool: pool.clone(),
                index_cache_bytes: 64 << 20,
                ..DiskOptions::default()
            };
            let disk = open_disk(&wanted.path, options, &known)
                .map_err(|error| NodeError::of_disk(error, config))?;
            let label = label_of(&wanted.path, number, &disks);
            let name = format!("{}/{label}", config.name);
            tell_pace(&name, wanted);
            disks.push(NodeDisk {
                name,
                label,
                path: wanted.path.display().to_string(),
                is_read_only: wanted.is_read_only,
                is_slow: wanted.pace.is_some(),
                disk,
                thread: number % config.storage_threads.max(1),
                open: Mutex::default(),
                kept_subfiles: descriptors::kept_subfiles(config.disks.len()),
                making: Mutex::default(),
                unmade: Mutex::default(),
                load: Load::default(),
                space: Mutex::new(None),
                trouble: Mutex::new(None),
            });
        }
        KnownDisks::write(&config.data, &disks)?;
        let node = config.name.clone();
        let disks = Self { node, disks, ids: RwLock::default(), cache };
        disks.measure_space();
        Ok(disks)
    }

    /// What others should know of the disks. Where the namespace has given no id yet, it is the one
    /// that the subfiles on the disk speak of, or [`NO_ID`].
    pub fn infos(&self) -> Vec<DiskInfo> {
        let ids = self.ids.read();
        let id_of = |number, disk: &NodeDisk| {
            let known = ids.iter().find(|(_, known)| **known == number).map(|(id, _)| *id);
            known.or_else(|| disk.id_on_disk()).unwrap_or(NO_ID)
        };
        let info = |(number, disk): (usize, &NodeDisk)| DiskInfo {
            id: id_of(number, disk),
            uuid: disk.disk.id(),
            label: disk.label.clone(),
            is_read_only: disk.is_read_only,
        };
        self.disks.iter().enumerate().map(info).collect()
    }

    /// Learns the ids that the namespace has given to the disks.
    pub fn set_ids(&self, infos: &[DiskInfo]) {
        let mut ids = self.ids.write();
        ids.clear();
        for (number, disk) in self.disks.iter().enumerate() {
            if let Some(info) = infos.iter().find(|info| info.uuid == disk.disk.id()) {
                ids.insert(info.id, number);
            }
        }
    }

    /// Counts the subfiles on all disks.
    pub fn count_subfiles(&self) -> Result<usize, StoreError> {
        let count = |disk: &NodeDisk| disk.disk.subfile_ids().map(|ids| ids.len());
        self.disks.iter().map(count).sum()
    }

    /// The number of a disk in this node.
    pub fn number_of(&self, id: DiskId) -> Result<usize, Failure> {
        self.ids.read().get(&id).copied().ok_or_else(|| Failure::Refused {
            node: self.node.clone(),
            why: format!("{id} is not one of its disks"),
        })
    }

    /// The disk of a number.
    pub fn disk(&self, number: usize) -> &NodeDisk {
        &self.disks[number]
    }

    /// Nothing more will be asked of the disks.
    pub fn settle(&self) {
        std::thread::scope(|scope| {
            for disk in self.disks.iter().filter(|disk| disk.has_open_extents()) {
                scope.spawn(|| disk.settle());
            }
        });
    }

    /// All disks, with their ids as far as they are known.
    pub fn all(&self) -> Vec<(DiskId, &NodeDisk)> {
        let ids = self.ids.read();
        let mut all: Vec<_> = ids.iter().map(|(id, number)| (*id, &self.disks[*number])).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// The subfiles of a file that lie on disks of this node, with the numbers of the disks.
    pub fn parts_of(&self, record: &FileRecord) -> Vec<(usize, u32)> {
        let Some(layout) = &record.layout else { return Vec::new() };
        let ids = self.ids.read();
        (0..)
            .zip(layout.disks().as_slice())
            .filter_map(|(index, disk)| Some((*ids.get(disk)?, index)))
            .collect()
    }

    /// Asks the file systems how much room there is.
    pub fn measure_space(&self) {
        for disk in &self.disks {
            let space = disk.disk.space();
            *disk.trouble.lock() = space.as_ref().err().map(ToString::to_string);
            if let Ok(space) = space {
                *disk.space.lock() = Some(space);
            }
        }
    }

    /// How each disk is, and what it has served since this was last asked.
    pub fn looks(&self) -> Vec<DiskLook> {
        let look = |disk: &NodeDisk| {
            let (served, took) = disk.load.take_served();
            DiskLook {
                space: disk.space.lock().map(|space| (space.total_bytes, space.free_bytes)),
                trouble: disk.trouble.lock().clone(),
                stall: disk.delay(),
                served,
                took,
            }
        };
        self.disks.iter().map(look).collect()
    }

    /// What the log tells of each disk, which is nothing yet.
    pub fn watches(&self) -> Vec<DiskWatch> {
        self.disks.iter().map(|disk| DiskWatch::new(&disk.name, &disk.path)).collect()
    }

    /// How the disks are doing. `short_cut` is what clients have read and written by themselves, by
    /// number of the disk.
    pub fn status(&self, short_cut: &[Traffic]) -> Vec<DiskStatus> {
        let infos = self.infos();
        let status = |(number, info): (usize, DiskInfo)| {
            let disk = &self.disks[number];
            let space = *disk.space.lock();
            let around = short_cut.get(number).copied().unwrap_or_default();
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let sum = |counter, around: u64| count(counter).saturating_add(around);
            DiskStatus {
                disk: info,
                path: disk.path.clone(),
                total_bytes: space.map_or(0, |space| space.total_bytes),
                free_bytes: space.map_or(0, |space| space.free_bytes),
                reads: sum(&disk.load.reads, around.reads),
                read_bytes: sum(&disk.load.read_bytes, around.read_bytes),
                writes: sum(&disk.load.writes, around.writes),
                written_bytes: sum(&disk.load.written_bytes, around.written_bytes),
                queue: count(&disk.load.queue),
                trouble: disk.trouble.lock().clone().or_else(|| disk.delay()),
            }
        };
        infos.into_iter().enumerate().map(status).collect()
    }

    /// Requests that each disk has failed.
    pub fn error_counts(&self) -> Vec<u64> {
        self.disks.iter().map(|disk| disk.load.errors.load(Ordering::Relaxed)).collect()
    }

    /// What disks have failed within the last minute, each as a sentence.
    pub fn recent_errors(&self) -> Vec<String> {
        let now = Instant::now();
        let told = |disk: &NodeDisk| {
            let (age, why) = disk.load.recent_error(now)?;
            let (name, seconds) = (&disk.name, age.as_secs());
            Some(format!("disk {name} has failed a request {seconds} s ago: {why}"))
        };
        self.disks.iter().filter_map(told).collect()
    }

    /// The device of the file system of each disk, as far as it is known.
    pub fn devices(&self) -> Vec<Option<u64>> {
        self.disks.iter().map(|disk| disk.space.lock().map(|space| space.device)).collect()
    }

    /// Extents in memory.
    pub fn cache(&self) -> &ExtentCache {
        &self.cache
    }
}

impl NodeDisk {
    /// The store's disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The id that this disk has in the layouts of the files on it, if there are any.
    fn id_on_disk(&self) -> Option<DiskId> {
        let ids = self.disk.subfile_ids().ok()?;
        ids.into_iter().find_map(|(id, _)| {
            let layout = self.disk.description(id).ok()?.layout;
            Layout::decode(&layout).ok()?.disks().disk_of(SubfileIndex(id.index))
        })
    }

    /// A flat subfile, if it is open.
    pub fn open_flat(&self, file: FileId, index: u32) -> Option<FlatFile> {
        match self.open.lock().get(&SubfileId::data(file.0, index)) {
            Some(Subfile::Flat(flat)) => Some(flat.clone()),
            _ => None,
        }
    }

    /// Brings the indices of subfiles up to date, so that who opens them next has nothing to catch up
    /// with.
    fn settle(&self) {
        let open: Vec<Subfile> = self.open.lock().values().cloned().collect();
        for subfile in open {
            if self.delay().is_some() {
                tracing::warn!(disk = self.name, "the disk is stuck; its indices stay as they are");
                return;
            }
            if let Subfile::Extents(extents) = subfile
                && let Err(error) = extents.close()
            {
                tracing::warn!(disk = self.name, %error, "an index stays as it is");
            }
        }
    }

    fn has_open_extents(&self) -> bool {
        self.open.lock().values().any(|subfile| matches!(subfile, Subfile::Extents(_)))
    }

    /// A subfile of extents, if it is open.
    pub fn open_extents(&self, file: FileId, index: u32) -> Option<ExtentFile> {
        match self.open.lock().get(&SubfileId::data(file.0, index)) {
            Some(Subfile::Extents(extents)) => Some(extents.clone()),
            _ => None,
        }
    }

    /// Whether a flat subfile is open: then nobody has to wait for the disk.
    pub fn has_open(&self, file: FileId, index: u32) -> bool {
        self.open.lock().contains_key(&SubfileId::data(file.0, index))
    }

    /// Why nothing more can be asked of the disk.
    pub fn overrun(&self, stalled: Duration) -> Failure {
        let why = format!("{}: look after the disk, or try again later", self.load.told(stalled));
        Failure::Disk { disk: self.name.clone(), why }
    }

    /// What is to be told of a disk that has not got on for long.
    fn delay(&self) -> Option<String> {
        let stalled = self.load.stalled_for().filter(|stalled| *stalled >= DELAY)?;
        Some(self.load.told(stalled))
    }

    /// Whether a subfile is there that holds extents.
    pub fn has_extents(&self, file: FileId, index: u32) -> bool {
        let id = SubfileId::data(file.0, index);
        match self.open.lock().get(&id) {
            Some(subfile) => return matches!(subfile, Subfile::Extents(_)),
            None if self.unmade.lock().get(id).is_some() => return false,
            None => {}
        }
        matches!(self.flat(file, index), Err(StoreError::WrongKind { .. }))
    }

    /// A flat subfile.
    pub fn flat(&self, file: FileId, index: u32) -> Result<FlatFile, StoreError> {
        let id = SubfileId::data(file.0, index);
        if let Some(Subfile::Flat(flat)) = self.open.lock().get(&id) {
            return Ok(flat.clone());
        }
        let flat = self.disk.open_flat(id)?;
        self.keep(id, Subfile::Flat(flat.clone()));
        Ok(flat)
    }

    /// A subfile of extents.
    pub fn extents(&self, file: FileId, index: u32) -> Result<ExtentFile, StoreError> {
        let id = SubfileId::data(file.0, index);
        if let Some(Subfile::Extents(extents)) = self.open.lock().get(&id) {
            return Ok(extents.clone());
        }
        let extents = self.disk.open_extents(id)?;
        self.keep(id, Subfile::Extents(extents.clone()));
        Ok(extents)
    }

    /// Makes a subfile that may be made, unless another thread was faster. What a power loss has left
    /// of one that was never synced is replaced.
    pub fn make(&self, file: FileId, index: u32) -> Result<(), Failure> {
        let id = SubfileId::data(file.0, index);
        let _making = self.making.lock();
        // It was made by another thread, or its file was removed: opening it tells which.
        let Some(known) = self.unmade.lock().get(id) else { return Ok(()) };
        let record = &known.record;
        // A path that has become too long is no reason to lose a byte.
        let path = known.path.as_ref().map_or_else(|| format!("/{file}"), ToString::to_string);
        match self.disk.description(id) {
            Ok(_) => {
                self.unmade.lock().forget(id);
                return Ok(());
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(StoreError::NotASubfile { .. }) => {
                tracing::info!(disk = self.name, path, index, "subfile made anew");
                self.remove_subfile(id)?;
            }
            Err(error) => return Err(self.failure(error, id, "look at it")),
        }
        let layout = record.layout.as_ref().map(Layout::encode).unwrap_or_default();
        let new = NewSubfile {
            layout,
            path,
            path_version: known.path_version,
            is_durable: false,
            rights: Some(rights_of(record)),
            synced: Some(record.first_synced.clone()),
            ..NewSubfile::new(id)
        };
        let created = match record.kind {
            FileKind::Extents => self.disk.create_extents(new).map(Subfile::Extents),
            _ => self.disk.create_flat(new).map(Subfile::Flat),
        };
        let subfile = created.map_err(|error| self.failure(error, id, "create a file"))?;
        // Known to be there before it is not known to be absent: so no request asks in between.
        self.keep(id, subfile);
        self.unmade.lock().forget(id);
        Ok(())
    }

    /// Writes into the description of a subfile, durably, what the namespace says of its file; that
    /// there is no subfile is fine.
    pub fn describe(&self, file: &KnownFile, index: u32) -> Result<(), Failure> {
        let record = &file.record;
        let id = SubfileId::data(record.id.0, index);
        {
            // A subfile that is made right now is there afterwards; a later one is made by what is
            // said here.
            let _making = self.making.lock();
            self.unmade.lock().update(id, file);
        }
        let described = self.disk.update_description(id, |description| {
            let rights = rights_of(record);
            if description.rights.is_none_or(|known| known.version <= rights.version) {
                description.rights = Some(rights);
            }
            if let Some(path) = &file.path {
                description.set_path(path.as_str(), file.path_version);
            }
            description.add_synced(&record.first_synced);
        });
        match described {
            Ok(_) | Err(StoreError::NotFound { .. } | StoreError::NotASubfile { .. }) => Ok(()),
            Err(error) => Err(self.failure(error, id, "change a description")),
        }
    }

    /// Whether it is known without touching the disk that a subfile is there, or may be made.
    pub fn is_known(&self, file: FileId, index: u32) -> bool {
        let id = SubfileId::data(file.0, index);
        self.has_open(file, index) || self.unmade.lock().get(id).is_some()
    }

    /// Removes subfiles for good; those that are not there are fine.
    pub fn remove_many(&self, subfiles: &[(FileId, u32)]) -> Result<(), Failure> {
        let ids: Vec<_> =
            subfiles.iter().map(|(file, index)| SubfileId::data(file.0, *index)).collect();
        let Some(&first) = ids.first() else { return Ok(()) };
        let _making = self.making.lock();
        for &id in &ids {
            self.unmade.lock().forget(id);
            self.open.lock().remove(&id);
        }
        self.disk.remove_many(&ids).map_err(|error| self.failure(error, first, "delete files"))
    }

    fn remove_subfile(&self, id: SubfileId) -> Result<(), Failure> {
        self.open.lock().remove(&id);
        match self.disk.remove(id) {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failure(error, id, "delete a file")),
        }
    }

    fn keep(&self, id: SubfileId, subfile: Subfile) {
        let mut open = self.open.lock();
        if open.len() >= self.kept_subfiles {
            let some: Vec<_> = open.keys().copied().take(self.kept_subfiles.div_ceil(4)).collect();
            for id in some {
                open.remove(&id);
            }
        }
        open.insert(id, subfile);
    }

    /// What an error of the store means to a client.
    pub fn failure(&self, error: StoreError, id: SubfileId, action: &str) -> Failure {
        let disk = self.name.clone();
        if error.is_full() {
            let free_bytes = self.disk.space().map_or(0, |space| space.free_bytes);
            return Failure::DiskFull { disk, free_bytes, action: format!("cannot {action}") };
        }
        match error {
            StoreError::NotFound { .. } => {
                Failure::SubfileMissing { disk, file: FileId(id.file), subfile: id.index }
            }
            StoreError::ReadOnly { .. } => {
                Failure::DiskReadOnly { disk, action: format!("cannot {action}") }
            }
            StoreError::OffsetOutOfRange { .. } => too_large(disk),
            StoreError::Io { source, .. } if source.kind() == ErrorKind::FileTooLarge => {
                too_large(disk)
            }
            error => {
                let why = error.to_string();
                // Other errors say something of the request, not of the disk.
                if matches!(
                    error,
                    StoreError::Io { .. }
                        | StoreError::Damaged { .. }
                        | StoreError::Poisoned { .. }
                ) {
                    self.load.note_error(&why, Instant::now());
                }
                Failure::Disk { disk, why }
            }
        }
    }

    /// A part of a file on this disk, for messages.
    pub fn subfile_id(file: FileId, part: SubfileLocation) -> SubfileId {
        SubfileId::data(file.0, part.subfile.0)
    }
}

/// Owner and mode of a file, for descriptions.
fn rights_of(record: &FileRecord) -> Rights {
    let FileRecord { uid, gid, mode, rights_version: version, .. } = *record;
    Rights { uid, gid, mode, version }
}

fn open_disk(path: &Path, options: DiskOptions, known: &KnownDisks) -> Result<Disk, StoreError> {
    let is_new = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !path.exists(),
    };
    if is_new && !options.read_only {
        if let Some(uuid) = known.uuid_of(path) {
            let why = format!(
                "it is empty, but was disk {uuid:032x} before: mount it, or, if its content is \
                 gone for good, remove its line from {}",
                known.path
            );
            return Err(StoreError::NotADisk { disk: path.display().to_string().into(), why });
        }
        return Disk::create(path, options);
    }
    Disk::open(path, options)
}

/// Nobody should wonder why a disk is slow that was told to be.
fn tell_pace(disk: &str, wanted: &DiskConfig) {
    let Some(pace) = wanted.pace else { return };
    let latency_ms = pace.latency.as_secs_f64() * 1e3;
    let mb_per_s = pace.bytes_per_second.map(|rate| rate.get() as f64 / 1e6);
    tracing::warn!(disk, latency_ms, mb_per_s, "behaves like a slower disk, as configured");
}

fn too_large(disk: String) -> Failure {
    let why = "a subfile would be too large for its file system: spread the file over more disks";
    Failure::Disk { disk, why: why.to_owned() }
}

/// A label that no other disk of the node has.
fn label_of(path: &Path, number: usize, others: &[NodeDisk]) -> String {
    let last = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut label = last.unwrap_or_else(|| format!("disk{number}"));
    // A label that was made up may be the name of a directory too.
    while others.iter().any(|other| other.label == label) {
        label = format!("{label}-{number}");
    }
    label
}

/// Which disk was last seen in which directory: so that an empty mount point is not taken for a
/// new disk. A text file, a line per disk.
struct KnownDisks {
    path: String,
    lines: Vec<(u128, String)>,
}

impl KnownDisks {
    const NAME: &str = "disks";

    fn read(data: &Path) -> Result<Self, NodeError> {
        let path = data.join(Self::NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(NodeError::io(&path, error)),
        };
        let line = |line: &str| {
            let (uuid, path) = line.split_once(' ')?;
            Some((u128::from_str_radix(uuid, 16).ok()?, path.to_owned()))
        };
        let lines = text.lines().filter_map(line).collect();
        Ok(Self { path: path.display().to_string(), lines })
    }

    fn write(data: &Path, disks: &[NodeDisk]) -> Result<(), NodeError> {
        let line = |disk: &NodeDisk| format!("{:032x} {}\n", disk.disk.id(), disk.path);
        let text: String = disks.iter().map(line).collect();
        let path = data.join(Self::NAME);
        if fs::read_to_string(&path).is_ok_and(|known| known == text) {
            return Ok(());
        }
        let making = data.join("disks.new");
        private_files::replace(&path, &making, text.as_bytes())
            .map_err(|error| NodeError::io(&path, error))
    }

    fn uuid_of(&self, path: &Path) -> Option<u128> {
        let path = path.display().to_string();
        self.lines.iter().find(|(_, known)| *known == path).map(|(uuid, _)| *uuid)
    }
}

//! The disks of a node: opened once, with their open subfiles and counters.

mod known_disks;
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
    StoreError, SubfileId, TaskThreads,
};
use parking_lot::{Mutex, RwLock};

use known_disks::KnownDisks;
pub use load::{DiskLoad, QUEUE_LIMIT};

use crate::config::{DiskConfig, NodeConfig};
use crate::descriptor_limit;
use crate::error::NodeError;
use crate::event_log::{DiskSample, DiskWatch};
use crate::lazy_subfiles::LazySubfiles;

/// The node reports a disk that has stalled for this long. A large sync may take less.
const STALL_REPORT_AFTER: Duration = Duration::from_secs(3);

/// The id of a disk to which the namespace has given none yet.
pub const NO_ID: DiskId = DiskId(u32::MAX);

/// The disks of a node.
#[derive(Debug)]
pub struct NodeDisks {
    node: String,
    disks: Vec<NodeDisk>,
    ids: RwLock<HashMap<DiskId, usize>>,
    cache: ExtentCache,
    /// The memory of extents and of bytes that are read.
    pool: BufferPool,
    /// The threads for work that blocks.
    tasks: TaskThreads,
}

/// A disk of a node.
#[derive(Debug)]
pub struct NodeDisk {
    /// Its name in messages: `node/label`.
    pub name: String,
    label: String,
    path: String,
    disk: Disk,
    is_read_only: bool,
    /// Whether it is configured as a slower disk, which has no short cut.
    pub is_slow: bool,
    open: Mutex<HashMap<SubfileId, SubfileHandle>>,
    /// The limit of subfiles that stay open although no request uses them.
    kept_subfiles: usize,
    /// Locked while subfiles are created and removed.
    creating: Mutex<()>,
    /// Lazy subfiles that the namespace has confirmed.
    pub lazy_subfiles: Mutex<LazySubfiles>,
    /// Its queue and counters.
    pub load: DiskLoad,
    space: Mutex<Option<pario_store::medium::MediumSpace>>,
    trouble: Mutex<Option<String>>,
}

#[derive(Clone, Debug)]
enum SubfileHandle {
    Flat(FlatFile),
    Extents(ExtentFile),
}

impl NodeDisks {
    /// Opens the disks of a node; empty or missing directories become disks.
    pub fn open(config: &NodeConfig) -> Result<Self, NodeError> {
        let cache = ExtentCache::new(config.cache_bytes);
        let (pool, tasks) = (BufferPool::new(64 << 20), TaskThreads::new());
        let known = KnownDisks::read(&config.data)?;
        let mut disks = Vec::new();
        for (number, wanted) in config.disks.iter().enumerate() {
            let options = DiskOptions {
                read_only: wanted.is_read_only,
                pace: wanted.pace,
                cache: cache.clone(),
                pool: pool.clone(),
                index_cache_bytes: 64 << 20,
                tasks: tasks.clone(),
                ..DiskOptions::default()
            };
            let disk = open_disk(&wanted.path, options, &known)
                .map_err(|error| NodeError::of_disk(error, config))?;
            let label = label_of(&wanted.path, number, &disks);
            let name = format!("{}/{label}", config.name);
            log_pace(&name, wanted);
            disks.push(NodeDisk {
                name,
                label,
                path: wanted.path.display().to_string(),
                is_read_only: wanted.is_read_only,
                is_slow: wanted.pace.is_some(),
                disk,
                open: Mutex::default(),
                kept_subfiles: descriptor_limit::kept_subfiles(config.disks.len()),
                creating: Mutex::default(),
                lazy_subfiles: Mutex::default(),
                load: DiskLoad::default(),
                space: Mutex::new(None),
                trouble: Mutex::new(None),
            });
        }
        KnownDisks::write(&config.data, &disks)?;
        let node = config.name.clone();
        let disks = Self { node, disks, ids: RwLock::default(), cache, pool, tasks };
        disks.measure_space();
        Ok(disks)
    }

    /// Returns the description of each disk for other nodes. A disk without an id from the
    /// namespace has the id in the layouts of its subfiles, or [`NO_ID`].
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

    /// Sets the ids that the namespace has given to the disks.
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

    /// Returns the number of a disk on this node.
    pub fn number_of(&self, id: DiskId) -> Result<usize, Failure> {
        self.ids.read().get(&id).copied().ok_or_else(|| Failure::Refused {
            node: self.node.clone(),
            why: format!("{id} is not one of its disks"),
        })
    }

    /// Returns the disk of a number.
    pub fn disk(&self, number: usize) -> &NodeDisk {
        &self.disks[number]
    }

    /// Flushes the indices of all open subfiles, before the node stops.
    pub fn flush_indices(&self) {
        std::thread::scope(|scope| {
            for disk in self.disks.iter().filter(|disk| disk.has_open_extents()) {
                scope.spawn(|| disk.flush_indices());
            }
        });
    }

    /// Returns all disks that have an id.
    pub fn all(&self) -> Vec<(DiskId, &NodeDisk)> {
        let ids = self.ids.read();
        let mut all: Vec<_> = ids.iter().map(|(id, number)| (*id, &self.disks[*number])).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Returns the subfiles of a file on disks of this node, with the numbers of the disks.
    pub fn parts_of(&self, record: &FileRecord) -> Vec<(usize, u32)> {
        let Some(layout) = &record.layout else { return Vec::new() };
        let ids = self.ids.read();
        (0..)
            .zip(layout.disks().as_slice())
            .filter_map(|(index, disk)| Some((*ids.get(disk)?, index)))
            .collect()
    }

    /// Asks the file systems for their free space.
    pub fn measure_space(&self) {
        for disk in &self.disks {
            let space = disk.disk.space();
            *disk.trouble.lock() = space.as_ref().err().map(ToString::to_string);
            if let Ok(space) = space {
                *disk.space.lock() = Some(space);
            }
        }
    }

    /// Returns the state of each disk, and the requests that it has served since the last call.
    pub fn looks(&self) -> Vec<DiskSample> {
        let look = |disk: &NodeDisk| {
            let (served, took) = disk.load.take_served();
            DiskSample {
                space: disk.space.lock().map(|space| (space.total_bytes, space.free_bytes)),
                trouble: disk.trouble.lock().clone(),
                stall: disk.stall_report(),
                served,
                took,
            }
        };
        self.disks.iter().map(look).collect()
    }

    /// Returns a watch for each disk, which reports its events to the log.
    pub fn watches(&self) -> Vec<DiskWatch> {
        self.disks.iter().map(|disk| DiskWatch::new(&disk.name, &disk.path)).collect()
    }

    /// Returns the status of the disks. `short_cut` is the traffic of the short cut, by number of
    /// the disk.
    pub fn status(&self, short_cut: &[Traffic]) -> Vec<DiskStatus> {
        let infos = self.infos();
        let status = |(number, info): (usize, DiskInfo)| {
            let disk = &self.disks[number];
            let space = *disk.space.lock();
            let short_cut = short_cut.get(number).copied().unwrap_or_default();
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let sum = |counter, short_cut: u64| count(counter).saturating_add(short_cut);
            DiskStatus {
                disk: info,
                path: disk.path.clone(),
                total_bytes: space.map_or(0, |space| space.total_bytes),
                free_bytes: space.map_or(0, |space| space.free_bytes),
                reads: sum(&disk.load.reads, short_cut.reads),
                read_bytes: sum(&disk.load.read_bytes, short_cut.read_bytes),
                writes: sum(&disk.load.writes, short_cut.writes),
                written_bytes: sum(&disk.load.written_bytes, short_cut.written_bytes),
                queue: count(&disk.load.queue),
                trouble: disk.trouble.lock().clone().or_else(|| disk.stall_report()),
            }
        };
        infos.into_iter().enumerate().map(status).collect()
    }

    /// Returns the number of failed requests of each disk.
    pub fn error_counts(&self) -> Vec<u64> {
        self.disks.iter().map(|disk| disk.load.errors.load(Ordering::Relaxed)).collect()
    }

    /// Returns a sentence for each disk that has failed a request within the last minute.
    pub fn recent_errors(&self) -> Vec<String> {
        let now = Instant::now();
        let sentence = |disk: &NodeDisk| {
            let (age, why) = disk.load.recent_error(now)?;
            let (name, seconds) = (&disk.name, age.as_secs());
            Some(format!("disk {name} has failed a request {seconds} s ago: {why}"))
        };
        self.disks.iter().filter_map(sentence).collect()
    }

    /// Returns the device of the file system of each disk, if it is known.
    pub fn devices(&self) -> Vec<Option<u64>> {
        self.disks.iter().map(|disk| disk.space.lock().map(|space| space.device)).collect()
    }

    /// Returns the number of disks.
    pub fn count(&self) -> usize {
        self.disks.len()
    }

    /// Returns the memory of extents.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Returns the threads for work that blocks.
    pub fn tasks(&self) -> &TaskThreads {
        &self.tasks
    }

    /// Returns the cache of extents.
    pub fn cache(&self) -> &ExtentCache {
        &self.cache
    }
}

impl NodeDisk {
    /// Returns the disk of the store.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Returns the id of this disk in the layouts of its files, if it has any.
    fn id_on_disk(&self) -> Option<DiskId> {
        let ids = self.disk.subfile_ids().ok()?;
        ids.into_iter().find_map(|(id, _)| {
            let layout = self.disk.description(id).ok()?.layout;
            Layout::decode(&layout).ok()?.disks().disk_of(SubfileIndex(id.index))
        })
    }

    /// Returns a flat subfile if it is open.
    pub fn open_flat(&self, file: FileId, index: u32) -> Option<FlatFile> {
        match self.open.lock().get(&SubfileId::data(file.0, index)) {
            Some(SubfileHandle::Flat(flat)) => Some(flat.clone()),
            _ => None,
        }
    }

    /// Flushes the indices of open subfiles, so that the next opening has no journal to replay.
    fn flush_indices(&self) {
        let open: Vec<SubfileHandle> = self.open.lock().values().cloned().collect();
        for subfile in open {
            if self.stall_report().is_some() {
                tracing::warn!(
                    disk = self.name,
                    "the disk has stalled; the node does not flush its indices"
                );
                return;
            }
            if let SubfileHandle::Extents(extents) = subfile
                && let Err(error) = extents.close()
            {
                tracing::warn!(disk = self.name, %error, "cannot flush an index");
            }
        }
    }

    fn has_open_extents(&self) -> bool {
        self.open.lock().values().any(|subfile| matches!(subfile, SubfileHandle::Extents(_)))
    }

    /// Returns an extent subfile if it is open.
    pub fn open_extents(&self, file: FileId, index: u32) -> Option<ExtentFile> {
        match self.open.lock().get(&SubfileId::data(file.0, index)) {
            Some(SubfileHandle::Extents(extents)) => Some(extents.clone()),
            _ => None,
        }
    }

    /// Returns whether a subfile is open, so that its use needs no wait for the disk.
    pub fn has_open(&self, file: FileId, index: u32) -> bool {
        self.open.lock().contains_key(&SubfileId::data(file.0, index))
    }

    /// Returns the refusal of a request to a stalled disk.
    pub fn stall_failure(&self, stalled: Duration) -> Failure {
        let why =
            format!("{}: look after the disk, or try again later", self.load.stall_text(stalled));
        Failure::Disk { disk: self.name.clone(), why }
    }

    /// Returns the report of a disk that has stalled for long.
    fn stall_report(&self) -> Option<String> {
        let stalled = self.load.stalled_for().filter(|stalled| *stalled >= STALL_REPORT_AFTER)?;
        Some(self.load.stall_text(stalled))
    }

    /// Returns whether a subfile exists and holds extents.
    pub fn has_extents(&self, file: FileId, index: u32) -> bool {
        let id = SubfileId::data(file.0, index);
        match self.open.lock().get(&id) {
            Some(subfile) => return matches!(subfile, SubfileHandle::Extents(_)),
            None if self.lazy_subfiles.lock().get(id).is_some() => return false,
            None => {}
        }
        matches!(self.flat(file, index), Err(StoreError::WrongKind { .. }))
    }

    /// Opens a flat subfile.
    pub fn flat(&self, file: FileId, index: u32) -> Result<FlatFile, StoreError> {
        let id = SubfileId::data(file.0, index);
        if let Some(SubfileHandle::Flat(flat)) = self.open.lock().get(&id) {
            return Ok(flat.clone());
        }
        let flat = self.disk.open_flat(id)?;
        self.keep_open(id, SubfileHandle::Flat(flat.clone()));
        Ok(flat)
    }

    /// Opens an extent subfile.
    pub fn extents(&self, file: FileId, index: u32) -> Result<ExtentFile, StoreError> {
        let id = SubfileId::data(file.0, index);
        if let Some(SubfileHandle::Extents(extents)) = self.open.lock().get(&id) {
            return Ok(extents.clone());
        }
        let extents = self.disk.open_extents(id)?;
        self.keep_open(id, SubfileHandle::Extents(extents.clone()));
        Ok(extents)
    }

    /// Creates a lazy subfile, unless another thread has. Replaces the remains that a power loss
    /// has left of a subfile that was never synced.
    pub fn create_lazy(&self, file: FileId, index: u32) -> Result<(), Failure> {
        let id = SubfileId::data(file.0, index);
        let _creating = self.creating.lock();
        // Another thread has created it, or its file was removed: opening it tells which.
        let Some(known) = self.lazy_subfiles.lock().get(id) else { return Ok(()) };
        let record = &known.record;
        // The path may have become too long; the subfile is created all the same.
        let path = known.path.as_ref().map_or_else(|| format!("/{file}"), ToString::to_string);
        match self.disk.description(id) {
            Ok(_) => {
                self.lazy_subfiles.lock().forget(id);
                return Ok(());
            }
            Err(StoreError::NotFound { .. }) => {}
            Err(StoreError::NotASubfile { .. }) => {
                tracing::info!(
                    disk = self.name,
                    path,
                    index,
                    "replaces the remains of a subfile that was never synced"
                );
                self.remove_subfile(id)?;
            }
            Err(error) => return Err(self.failure(error, id, "read its description")),
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
            FileKind::Extents => self.disk.create_extents(new).map(SubfileHandle::Extents),
            _ => self.disk.create_flat(new).map(SubfileHandle::Flat),
        };
        let subfile = created.map_err(|error| self.failure(error, id, "create a file"))?;
        // Registered as open before it ceases to be lazy, so that no request asks the namespace in
        // between.
        self.keep_open(id, subfile);
        self.lazy_subfiles.lock().forget(id);
        Ok(())
    }

    /// Writes what the namespace says of a file into the description of a subfile, durably. Does
    /// nothing if there is no subfile.
    pub fn describe(&self, file: &KnownFile, index: u32) -> Result<(), Failure> {
        let record = &file.record;
        let id = SubfileId::data(record.id.0, index);
        {
            // The lock orders this with `create_lazy`: a subfile that is being created exists
            // afterwards, and a later one gets the updated description.
            let _creating = self.creating.lock();
            self.lazy_subfiles.lock().update(id, file);
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

    /// Returns whether this node knows, without a disk access, that a subfile exists or is lazy.
    pub fn is_known(&self, file: FileId, index: u32) -> bool {
        let id = SubfileId::data(file.0, index);
        self.has_open(file, index) || self.lazy_subfiles.lock().get(id).is_some()
    }

    /// Removes subfiles; those that do not exist are ignored.
    pub fn remove_many(&self, subfiles: &[(FileId, u32)]) -> Result<(), Failure> {
        let ids: Vec<_> =
            subfiles.iter().map(|(file, index)| SubfileId::data(file.0, *index)).collect();
        let Some(&first) = ids.first() else { return Ok(()) };
        let _creating = self.creating.lock();
        for &id in &ids {
            self.lazy_subfiles.lock().forget(id);
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

    fn keep_open(&self, id: SubfileId, subfile: SubfileHandle) {
        let mut open = self.open.lock();
        if open.len() >= self.kept_subfiles {
            let some: Vec<_> = open.keys().copied().take(self.kept_subfiles.div_ceil(4)).collect();
            for id in some {
                open.remove(&id);
            }
        }
        open.insert(id, subfile);
    }

    /// Translates an error of the store for a client.
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
                // Other errors concern the request, not the disk.
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

    /// Returns the store's id of a subfile.
    pub fn subfile_id(file: FileId, part: SubfileLocation) -> SubfileId {
        SubfileId::data(file.0, part.subfile.0)
    }
}

/// Returns owner and mode of a file, for its descriptions.
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

/// Logs that a disk is configured as a slower one.
fn log_pace(disk: &str, wanted: &DiskConfig) {
    let Some(pace) = wanted.pace else { return };
    let latency_ms = pace.latency.as_secs_f64() * 1e3;
    let mb_per_s = pace.bytes_per_second.map(|rate| rate.get() as f64 / 1e6);
    tracing::warn!(disk, latency_ms, mb_per_s, "the disk is configured as a slower one");
}

fn too_large(disk: String) -> Failure {
    let why = "a subfile would be too large for its file system: spread the file over more disks";
    Failure::Disk { disk, why: why.to_owned() }
}

/// Returns a label that no other disk of the node has.
fn label_of(path: &Path, number: usize, others: &[NodeDisk]) -> String {
    let last = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut label = last.unwrap_or_else(|| format!("disk{number}"));
    // The new label may be the name of another directory.
    while others.iter().any(|other| other.label == label) {
        label = format!("{label}-{number}");
    }
    label
}

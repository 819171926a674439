//! A medium in memory that can fail in every way in which a disk fails.
//!
//! Fault model: the bytes of a file are durable after its sync, names after the sync of their
//! directory. A power loss keeps or loses each 512-byte sector of each unsynced write independently,
//! so that writes are lost, torn and reordered. Of the unsynced changes of names it keeps a prefix.
//! A failed sync drops the bytes that it should have made durable: the next sync does not bring them
//! back.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{DirectoryEntry, Medium, MediumFile, MediumOpenMode, MediumSpace};

const SECTOR_BYTES: usize = 512;

/// A failure at a chosen change of a [`MemoryMedium`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine stops: this change may or may not take effect, and every later call fails until
    /// [`MemoryMedium::power_loss`] or [`MemoryMedium::kill`].
    Crash,
    /// This change fails with an I/O error.
    Error,
    /// This change fails because the medium is full.
    Full,
}

/// A medium in memory. Clones share the same content.
#[derive(Clone, Debug)]
pub struct MemoryMedium {
    state: Arc<Mutex<MemoryMediumState>>,
}

impl Default for MemoryMedium {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryMedium {
    /// An empty medium that tracks which changes are durable.
    pub fn new() -> Self {
        Self::with_tracking(true)
    }

    /// An empty medium on which every change is durable at once: for long runs, in which the
    /// tracking would need more memory than the content.
    pub fn untracked() -> Self {
        Self::with_tracking(false)
    }

    fn with_tracking(tracking: bool) -> Self {
        let root = BTreeMap::from([(String::new(), NameTarget::Dir)]);
        let state = MemoryMediumState {
            tracking,
            files: HashMap::new(),
            names: root.clone(),
            durable_names: root,
            pending_names: Vec::new(),
            next_inode: 1,
            changes: 0,
            fault: None,
            stopped: false,
            capacity_bytes: u64::MAX,
            locks: HashMap::new(),
            boot: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// The number of changes so far: writes, syncs, changes of length and of names.
    pub fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// Makes the change with this number fail, counted as by [`MemoryMedium::changes`].
    pub fn set_fault(&self, at_change: u64, fault: Fault) {
        self.state.lock().fault = Some((at_change, fault));
    }

    /// ExtentFileLimits the sum of all file lengths.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        self.state.lock().capacity_bytes = capacity_bytes;
    }

    /// Ends all processes of the machine. The kernel keeps their writes.
    pub fn kill(&self) {
        self.state.lock().restart();
    }

    /// Cuts the power and restores it. `random`, which returns a number below its argument, decides
    /// which unsynced changes survive.
    pub fn power_loss(&self, random: &mut dyn FnMut(u64) -> u64) {
        let mut state = self.state.lock();
        state.lose_power(random);
        state.restart();
    }

    /// The paths of all files.
    pub fn file_paths(&self) -> Vec<String> {
        let state = self.state.lock();
        let files = state.names.iter().filter(|(_, node)| matches!(node, NameTarget::File(_)));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        let state = self.state.lock();
        Ok(state.files[&state.inode(path)?].bytes.clone())
    }

    /// Replaces the bytes of a file, durably: tests damage a medium with it.
    pub fn set_bytes(&self, path: &str, bytes: Vec<u8>) -> io::Result<()> {
        let mut state = self.state.lock();
        let inode = state.inode(path)?;
        let file = state.file(inode);
        file.durable.clone_from(&bytes);
        file.bytes = bytes;
        file.pending.clear();
        Ok(())
    }

    /// An independent medium with the same content, all of it durable.
    pub fn duplicate(&self) -> Self {
        let state = self.state.lock();
        let copy = Self::with_tracking(state.tracking);
        {
            let mut new = copy.state.lock();
            new.names.clone_from(&state.names);
            new.durable_names.clone_from(&state.names);
            new.next_inode = state.next_inode;
            for (&inode, file) in &state.files {
                let durable = if state.tracking { file.bytes.clone() } else { Vec::new() };
                let file = FileContent { bytes: file.bytes.clone(), durable, pending: Vec::new() };
                new.files.insert(inode, file);
            }
        }
        copy
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameTarget {
    Dir,
    File(u64),
}

#[derive(Clone, Debug)]
enum NameChange {
    Add(String, NameTarget),
    Remove(String),
    Rename(String, String),
}

#[derive(Debug)]
enum PendingChange {
    Write { position: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Debug, Default)]
struct FileContent {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<PendingChange>,
}

impl FileContent {
    fn make_durable(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            apply_pending(&mut self.durable, &pending);
        }
    }
}

#[derive(Debug)]
struct MemoryMediumState {
    tracking: bool,
    files: HashMap<u64, FileContent>,
    names: BTreeMap<String, NameTarget>,
    durable_names: BTreeMap<String, NameTarget>,
    pending_names: Vec<NameChange>,
    next_inode: u64,
    changes: u64,
    fault: Option<(u64, Fault)>,
    stopped: bool,
    capacity_bytes: u64,
    /// Holders per lock; an exclusive holder counts as -1.
    locks: HashMap<String, i64>,
    /// The number of restarts. Handles of an earlier boot fail.
    boot: u64,
}

impl MemoryMediumState {
    fn restart(&mut self) {
        self.stopped = false;
        self.fault = None;
        self.locks.clear();
        self.boot += 1;
    }

    fn check_running(&self) -> io::Result<()> {
        if self.stopped { Err(io::Error::other("the machine has stopped")) } else { Ok(()) }
    }

    /// Counts a change; fails if the change must not take effect.
    fn change(&mut self) -> io::Result<ChangeEffect> {
        self.check_running()?;
        self.changes += 1;
        match self.fault {
            Some((at, fault)) if at == self.changes => {
                self.fault = None;
                match fault {
                    Fault::Crash => {
                        self.stopped = true;
                        Ok(ChangeEffect::ThenStop)
                    }
                    Fault::Error => Err(io::Error::from_raw_os_error(5)),
                    Fault::Full => Err(no_space()),
                }
            }
            _ => Ok(ChangeEffect::Happens),
        }
    }

    fn inode(&self, path: &str) -> io::Result<u64> {
        match self.names.get(path) {
            Some(NameTarget::File(inode)) => Ok(*inode),
            Some(NameTarget::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn file(&mut self, inode: u64) -> &mut FileContent {
        self.files.get_mut(&inode).expect("an open file has content")
    }

    fn used_bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes.len() as u64).sum()
    }

    fn reserve(&self, inode: u64, end: usize) -> io::Result<()> {
        let len = self.files[&inode].bytes.len();
        let more = end.saturating_sub(len) as u64;
        if self.capacity_bytes != u64::MAX && more > 0 {
            let free = self.capacity_bytes.saturating_sub(self.used_bytes());
            if more > free {
                return Err(no_space());
            }
        }
        Ok(())
    }

    fn apply_name(&mut self, change: NameChange) {
        apply_name(&mut self.names, &change);
        if self.tracking {
            self.pending_names.push(change);
        } else {
            apply_name(&mut self.durable_names, &change);
        }
    }

    fn pend(&mut self, inode: u64, pending: PendingChange) {
        let tracking = self.tracking;
        let file = self.file(inode);
        apply_pending(&mut file.bytes, &pending);
        if tracking {
            file.pending.push(pending);
        }
    }

    fn lose_power(&mut self, random: &mut dyn FnMut(u64) -> u64) {
        let kept = random(self.pending_names.len() as u64 + 1);
        let pending = std::mem::take(&mut self.pending_names);
        for change in pending.into_iter().take(usize::try_from(kept).unwrap_or(usize::MAX)) {
            apply_name(&mut self.durable_names, &change);
        }
        self.names = self.durable_names.clone();
        // One draw per power loss, so that all, nothing and mixtures occur.
        let chance = [0, 30, 60, 90, 100][usize::try_from(random(5)).unwrap_or(0)];
        // By inode, so that a seed replays in spite of the map's random order.
        let mut inodes: Vec<u64> = self.files.keys().copied().collect();
        inodes.sort_unstable();
        for inode in inodes {
            let file = self.file(inode);
            let mut durable = std::mem::take(&mut file.durable);
            for pending in std::mem::take(&mut file.pending) {
                match pending {
                    PendingChange::SetLen(_) => {
                        if random(100) < chance {
                            apply_pending(&mut durable, &pending);
                        }
                    }
                    PendingChange::Write { position, bytes } => {
                        let mut from = 0;
                        while from < bytes.len() {
                            let to_boundary = SECTOR_BYTES - (position + from) % SECTOR_BYTES;
                            let to = (from + to_boundary).min(bytes.len());
                            if random(100) < chance {
                                put(&mut durable, position + from, &bytes[from..to]);
                            }
                            from = to;
                        }
                    }
                }
            }
            file.bytes.clone_from(&durable);
            file.durable = durable;
        }
    }
}

enum ChangeEffect {
    Happens,
    ThenStop,
}

impl ChangeEffect {
    fn result(self) -> io::Result<()> {
        match self {
            Self::Happens => Ok(()),
            Self::ThenStop => Err(io::Error::other("the machine has stopped")),
        }
    }
}

fn no_space() -> io::Error {
    io::Error::from_raw_os_error(28)
}

fn apply_name(names: &mut BTreeMap<String, NameTarget>, change: &NameChange) {
    match change {
        NameChange::Add(path, node) => {
            names.insert(path.clone(), *node);
        }
        NameChange::Remove(path) => {
            names.remove(path);
        }
        NameChange::Rename(from, to) => {
            let below = format!("{from}/");
            let moved: Vec<String> =
                names.keys().filter(|p| *p == from || p.starts_with(&below)).cloned().collect();
            for path in moved {
                let node = names.remove(&path).expect("just listed");
                names.insert(format!("{to}{}", &path[from.len()..]), node);
            }
        }
    }
}

fn apply_pending(bytes: &mut Vec<u8>, pending: &PendingChange) {
    match pending {
        PendingChange::SetLen(len) => bytes.resize(*len, 0),
        PendingChange::Write { position, bytes: new } => put(bytes, *position, new),
    }
}

fn put(bytes: &mut Vec<u8>, position: usize, new: &[u8]) {
    let end = position + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[position..end].copy_from_slice(new);
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn to_usize(value: u64) -> io::Result<usize> {
    usize::try_from(value).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

impl Medium for MemoryMedium {
    fn open(&self, path: &str, mode: MediumOpenMode) -> io::Result<Arc<dyn MediumFile>> {
        let mut state = self.state.lock();
        state.check_running()?;
        if mode.create {
            if state.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if state.names.get(parent(path)) != Some(&NameTarget::Dir) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let effect = state.change()?;
            let inode = state.next_inode;
            state.next_inode += 1;
            state.files.insert(inode, FileContent::default());
            state.apply_name(NameChange::Add(path.to_owned(), NameTarget::File(inode)));
            effect.result()?;
        }
        let inode = state.inode(path)?;
        Ok(Arc::new(MemoryFile { state: self.state.clone(), inode, boot: state.boot }))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let effect = state.change()?;
        state.apply_name(NameChange::Add(path.to_owned(), NameTarget::Dir));
        effect.result()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        match (state.names.get(from), state.names.get(to)) {
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
            (Some(NameTarget::Dir), Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            _ => {}
        }
        let effect = state.change()?;
        state.apply_name(NameChange::Rename(from.to_owned(), to.to_owned()));
        effect.result()
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.inode(path)?;
        let effect = state.change()?;
        state.apply_name(NameChange::Remove(path.to_owned()));
        effect.result()
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        let below = format!("{path}/");
        if state.names.keys().any(|name| name.starts_with(&below)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let effect = state.change()?;
        state.apply_name(NameChange::Remove(path.to_owned()));
        effect.result()
    }

    fn list(&self, path: &str) -> io::Result<Vec<DirectoryEntry>> {
        let state = self.state.lock();
        state.check_running()?;
        if state.names.get(path) != Some(&NameTarget::Dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside =
            state.names.iter().filter(|(name, _)| !name.is_empty() && parent(name) == path);
        let named = inside.map(|(name, node)| DirectoryEntry {
            name: name.rsplit('/').next().unwrap_or(name).to_owned(),
            is_dir: *node == NameTarget::Dir,
        });
        Ok(named.collect())
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        let effect = state.change()?;
        if matches!(effect, ChangeEffect::ThenStop) {
            return effect.result();
        }
        let touches = |change: &NameChange| match change {
            NameChange::Add(name, _) | NameChange::Remove(name) => parent(name) == path,
            NameChange::Rename(from, to) => parent(from) == path || parent(to) == path,
        };
        if let Some(last) = state.pending_names.iter().rposition(touches) {
            let made_durable: Vec<_> = state.pending_names.drain(..=last).collect();
            for change in made_durable {
                apply_name(&mut state.durable_names, &change);
            }
        }
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let effect = state.change();
        match effect {
            Ok(ChangeEffect::Happens) => {
                for file in state.files.values_mut() {
                    file.make_durable();
                }
                for change in std::mem::take(&mut state.pending_names) {
                    apply_name(&mut state.durable_names, &change);
                }
                Ok(())
            }
            Ok(effect) => effect.result(),
            Err(error) => {
                for file in state.files.values_mut() {
                    file.pending.clear();
                }
                Err(error)
            }
        }
    }

    fn lock(&self, path: &str, exclusive: bool) -> io::Result<Box<dyn Any + Send + Sync>> {
        let mut state = self.state.lock();
        state.inode(path)?;
        let boot = state.boot;
        let holders = state.locks.entry(path.to_owned()).or_default();
        if *holders < 0 || (exclusive && *holders > 0) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        *holders += if exclusive { -1 } else { 1 };
        Ok(Box::new(MemoryLock {
            state: self.state.clone(),
            path: path.to_owned(),
            step: if exclusive { 1 } else { -1 },
            boot,
        }))
    }

    fn space(&self) -> io::Result<MediumSpace> {
        let state = self.state.lock();
        let free_bytes = state.capacity_bytes.saturating_sub(state.used_bytes());
        Ok(MediumSpace { total_bytes: state.capacity_bytes, free_bytes, device: 0 })
    }

    fn label(&self) -> String {
        "memory".to_owned()
    }
}

struct MemoryLock {
    state: Arc<Mutex<MemoryMediumState>>,
    path: String,
    step: i64,
    boot: u64,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.boot == self.boot {
            *state.locks.entry(self.path.clone()).or_default() += self.step;
        }
    }
}

#[derive(Debug)]
struct MemoryFile {
    state: Arc<Mutex<MemoryMediumState>>,
    inode: u64,
    boot: u64,
}

impl MemoryFile {
    fn state(&self) -> io::Result<parking_lot::MutexGuard<'_, MemoryMediumState>> {
        let state = self.state.lock();
        state.check_running()?;
        if state.boot != self.boot {
            return Err(io::Error::other("the file was opened before the machine restarted"));
        }
        Ok(state)
    }

    fn write(&self, bytes: Vec<u8>, position: u64) -> io::Result<()> {
        let position = to_usize(position)?;
        let end = position.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        let mut state = self.state()?;
        state.reserve(self.inode, end)?;
        let effect = state.change()?;
        state.pend(self.inode, PendingChange::Write { position, bytes });
        effect.result()
    }

    fn resize(&self, len: u64, only_up: bool) -> io::Result<()> {
        let len = to_usize(len)?;
        let mut state = self.state()?;
        if only_up && state.file(self.inode).bytes.len() >= len {
            return Ok(());
        }
        state.reserve(self.inode, len)?;
        let effect = state.change()?;
        state.pend(self.inode, PendingChange::SetLen(len));
        effect.result()
    }
}

impl MediumFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.file(self.inode).bytes.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.resize(len, false)
    }

    fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        let end = position.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
        self.resize(end, true)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.state()?;
        let bytes = &state.file(self.inode).bytes;
        let from = to_usize(position)?.min(bytes.len());
        let count = buffer.len().min(bytes.len() - from);
        buffer[..count].copy_from_slice(&bytes[from..from + count]);
        Ok(count)
    }

    fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], position: u64) -> io::Result<usize> {
        let mut done = 0;
        for buffer in buffers {
            let count = self.read_at(buffer, position + done as u64)?;
            done += count;
            if count < buffer.len() {
                break;
            }
        }
        Ok(done)
    }

    fn write_all_at(&self, buffer: &[u8], position: u64) -> io::Result<()> {
        self.write(buffer.to_vec(), position)
    }

    fn write_all_vectored_at(&self, buffers: &mut [IoSlice<'_>], position: u64) -> io::Result<()> {
        self.write(buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect(), position)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state()?;
        let effect = state.change();
        let file = state.file(self.inode);
        match effect {
            Ok(ChangeEffect::Happens) => {
                file.make_durable();
                Ok(())
            }
            Ok(effect) => effect.result(),
            Err(error) => {
                file.pending.clear();
                Err(error)
            }
        }
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.len()
    }
}

//! A medium in memory that can fail in every way a disk fails.
//!
//! Fault model: a file's bytes are durable after its sync, names after the sync of their
//! directory. At a power loss every 512-byte sector of every write since then is kept or lost by
//! itself, so writes are lost, torn and reordered; names survive as a prefix of their changes.
//! A failed sync drops what it should have made durable: syncing again does not bring it back.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Medium, MediumFile, Name, OpenHow, Space};

const SECTOR_BYTES: usize = 512;

/// What goes wrong at a chosen change of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine stops: this change may or may not happen, and everything after it fails until
    /// [`Memory::power_loss`] or [`Memory::kill`].
    Crash,
    /// This one change fails with an I/O error.
    Error,
    /// This one change fails because there is no space.
    Full,
}

/// A medium in memory. Clones share the same content.
#[derive(Clone, Debug)]
pub struct Memory {
    world: Arc<Mutex<World>>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty medium that remembers what is not durable yet.
    pub fn new() -> Self {
        Self::with_tracking(true)
    }

    /// An empty medium that takes every change as durable at once: for long runs, where the
    /// memory of what is not durable would cost more than the content.
    pub fn untracked() -> Self {
        Self::with_tracking(false)
    }

    fn with_tracking(tracking: bool) -> Self {
        let root = BTreeMap::from([(String::new(), Node::Dir)]);
        let world = World {
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
            life: 0,
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Changes made so far: writes, syncs, changes of length and of names.
    pub fn changes(&self) -> u64 {
        self.world.lock().changes
    }

    /// Lets `fault` happen at the change with this number, counted as [`Memory::changes`] does.
    pub fn set_fault(&self, at_change: u64, fault: Fault) {
        self.world.lock().fault = Some((at_change, fault));
    }

    /// Limits the sum of all file lengths.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        self.world.lock().capacity_bytes = capacity_bytes;
    }

    /// All processes of the machine are gone; the kernel keeps what they wrote.
    pub fn kill(&self) {
        self.world.lock().restart();
    }

    /// Power is cut and comes back; `random` decides what of the changes that were not durable
    /// survives (it is called with an upper bound and answers a smaller number).
    pub fn power_loss(&self, random: &mut dyn FnMut(u64) -> u64) {
        let mut world = self.world.lock();
        world.lose_power(random);
        world.restart();
    }

    /// The paths of all files.
    pub fn file_paths(&self) -> Vec<String> {
        let world = self.world.lock();
        let files = world.names.iter().filter(|(_, node)| matches!(node, Node::File(_)));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        let world = self.world.lock();
        Ok(world.files[&world.inode(path)?].bytes.clone())
    }

    /// Replaces the bytes of a file, durably: how tests damage a medium.
    pub fn set_bytes(&self, path: &str, bytes: Vec<u8>) -> io::Result<()> {
        let mut world = self.world.lock();
        let inode = world.inode(path)?;
        let file = world.file(inode);
        file.durable.clone_from(&bytes);
        file.bytes = bytes;
        file.pending.clear();
        Ok(())
    }

    /// A medium with the same content, all of it durable, sharing nothing with this one.
    pub fn duplicate(&self) -> Self {
        let world = self.world.lock();
        let copy = Self::with_tracking(world.tracking);
        {
            let mut new = copy.world.lock();
            new.names.clone_from(&world.names);
            new.durable_names.clone_from(&world.names);
            new.next_inode = world.next_inode;
            for (&inode, file) in &world.files {
                let durable = if world.tracking { file.bytes.clone() } else { Vec::new() };
                let file = Content { bytes: file.bytes.clone(), durable, pending: Vec::new() };
                new.files.insert(inode, file);
            }
        }
        copy
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Dir,
    File(u64),
}

#[derive(Clone, Debug)]
enum NameChange {
    Add(String, Node),
    Remove(String),
    Rename(String, String),
}

#[derive(Debug)]
enum Pending {
    Write { position: usize, bytes: Vec<u8> },
    SetLen(usize),
}

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

impl Content {
    fn make_durable(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            apply_pending(&mut self.durable, &pending);
        }
    }
}

#[derive(Debug)]
struct World {
    tracking: bool,
    files: HashMap<u64, Content>,
    names: BTreeMap<String, Node>,
    durable_names: BTreeMap<String, Node>,
    pending_names: Vec<NameChange>,
    next_inode: u64,
    changes: u64,
    fault: Option<(u64, Fault)>,
    stopped: bool,
    capacity_bytes: u64,
    /// Holders per lock; an exclusive holder counts as -1.
    locks: HashMap<String, i64>,
    /// Counts restarts: handles of an earlier life are dead.
    life: u64,
}

impl World {
    fn restart(&mut self) {
        self.stopped = false;
        self.fault = None;
        self.locks.clear();
        self.life += 1;
    }

    fn alive(&self) -> io::Result<()> {
        if self.stopped { Err(io::Error::other("the machine has stopped")) } else { Ok(()) }
    }

    /// Counts a change; an error says that it must not happen.
    fn change(&mut self) -> io::Result<Fate> {
        self.alive()?;
        self.changes += 1;
        match self.fault {
            Some((at, fault)) if at == self.changes => {
                self.fault = None;
                match fault {
                    Fault::Crash => {
                        self.stopped = true;
                        Ok(Fate::ThenStop)
                    }
                    Fault::Error => Err(io::Error::from_raw_os_error(5)),
                    Fault::Full => Err(no_space()),
                }
            }
            _ => Ok(Fate::Happens),
        }
    }

    fn inode(&self, path: &str) -> io::Result<u64> {
        match self.names.get(path) {
            Some(Node::File(inode)) => Ok(*inode),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn file(&mut self, inode: u64) -> &mut Content {
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

    fn pend(&mut self, inode: u64, pending: Pending) {
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
        // How much survives is drawn per power loss, so that all, nothing and mixtures occur.
        let chance = [0, 30, 60, 90, 100][usize::try_from(random(5)).unwrap_or(0)];
        // By inode, so that a seed replays whatever the order of the map is.
        let mut inodes: Vec<u64> = self.files.keys().copied().collect();
        inodes.sort_unstable();
        for inode in inodes {
            let file = self.file(inode);
            let mut durable = std::mem::take(&mut file.durable);
            for pending in std::mem::take(&mut file.pending) {
                match pending {
                    Pending::SetLen(_) => {
                        if random(100) < chance {
                            apply_pending(&mut durable, &pending);
                        }
                    }
                    Pending::Write { position, bytes } => {
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

enum Fate {
    Happens,
    ThenStop,
}

impl Fate {
    fn answer(self) -> io::Result<()> {
        match self {
            Self::Happens => Ok(()),
            Self::ThenStop => Err(io::Error::other("the machine has stopped")),
        }
    }
}

fn no_space() -> io::Error {
    io::Error::from_raw_os_error(28)
}

fn apply_name(names: &mut BTreeMap<String, Node>, change: &NameChange) {
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

fn apply_pending(bytes: &mut Vec<u8>, pending: &Pending) {
    match pending {
        Pending::SetLen(len) => bytes.resize(*len, 0),
        Pending::Write { position, bytes: new } => put(bytes, *position, new),
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

impl Medium for Memory {
    fn open(&self, path: &str, how: OpenHow) -> io::Result<Arc<dyn MediumFile>> {
        let mut world = self.world.lock();
        world.alive()?;
        if how.create {
            if world.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if world.names.get(parent(path)) != Some(&Node::Dir) {
                return Err(io::ErrorKind::NotFound.into());
            }
            let fate = world.change()?;
            let inode = world.next_inode;
            world.next_inode += 1;
            world.files.insert(inode, Content::default());
            world.apply_name(NameChange::Add(path.to_owned(), Node::File(inode)));
            fate.answer()?;
        }
        let inode = world.inode(path)?;
        Ok(Arc::new(MemoryFile { world: self.world.clone(), inode, life: world.life }))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        if world.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let fate = world.change()?;
        world.apply_name(NameChange::Add(path.to_owned(), Node::Dir));
        fate.answer()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        match (world.names.get(from), world.names.get(to)) {
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
            (Some(Node::Dir), Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            _ => {}
        }
        let fate = world.change()?;
        world.apply_name(NameChange::Rename(from.to_owned(), to.to_owned()));
        fate.answer()
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        world.inode(path)?;
        let fate = world.change()?;
        world.apply_name(NameChange::Remove(path.to_owned()));
        fate.answer()
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        let below = format!("{path}/");
        if world.names.keys().any(|name| name.starts_with(&below)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let fate = world.change()?;
        world.apply_name(NameChange::Remove(path.to_owned()));
        fate.answer()
    }

    fn list(&self, path: &str) -> io::Result<Vec<Name>> {
        let world = self.world.lock();
        world.alive()?;
        if world.names.get(path) != Some(&Node::Dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside =
            world.names.iter().filter(|(name, _)| !name.is_empty() && parent(name) == path);
        let named = inside.map(|(name, node)| Name {
            name: name.rsplit('/').next().unwrap_or(name).to_owned(),
            is_dir: *node == Node::Dir,
        });
        Ok(named.collect())
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut world = self.world.lock();
        let fate = world.change()?;
        if matches!(fate, Fate::ThenStop) {
            return fate.answer();
        }
        let touches = |change: &NameChange| match change {
            NameChange::Add(name, _) | NameChange::Remove(name) => parent(name) == path,
            NameChange::Rename(from, to) => parent(from) == path || parent(to) == path,
        };
        if let Some(last) = world.pending_names.iter().rposition(touches) {
            let made_durable: Vec<_> = world.pending_names.drain(..=last).collect();
            for change in made_durable {
                apply_name(&mut world.durable_names, &change);
            }
        }
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut world = self.world.lock();
        let fate = world.change();
        match fate {
            Ok(Fate::Happens) => {
                for file in world.files.values_mut() {
                    file.make_durable();
                }
                for change in std::mem::take(&mut world.pending_names) {
                    apply_name(&mut world.durable_names, &change);
                }
                Ok(())
            }
            Ok(fate) => fate.answer(),
            Err(error) => {
                for file in world.files.values_mut() {
                    file.pending.clear();
                }
                Err(error)
            }
        }
    }

    fn lock(&self, path: &str, exclusive: bool) -> io::Result<Box<dyn Any + Send + Sync>> {
        let mut world = self.world.lock();
        world.inode(path)?;
        let life = world.life;
        let holders = world.locks.entry(path.to_owned()).or_default();
        if *holders < 0 || (exclusive && *holders > 0) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        *holders += if exclusive { -1 } else { 1 };
        Ok(Box::new(MemoryLock {
            world: self.world.clone(),
            path: path.to_owned(),
            step: if exclusive { 1 } else { -1 },
            life,
        }))
    }

    fn space(&self) -> io::Result<Space> {
        let world = self.world.lock();
        let free_bytes = world.capacity_bytes.saturating_sub(world.used_bytes());
        Ok(Space { total_bytes: world.capacity_bytes, free_bytes, device: 0 })
    }

    fn label(&self) -> String {
        "memory".to_owned()
    }
}

struct MemoryLock {
    world: Arc<Mutex<World>>,
    path: String,
    step: i64,
    life: u64,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut world = self.world.lock();
        if world.life == self.life {
            *world.locks.entry(self.path.clone()).or_default() += self.step;
        }
    }
}

#[derive(Debug)]
struct MemoryFile {
    world: Arc<Mutex<World>>,
    inode: u64,
    life: u64,
}

impl MemoryFile {
    fn world(&self) -> io::Result<parking_lot::MutexGuard<'_, World>> {
        let world = self.world.lock();
        world.alive()?;
        if world.life != self.life {
            return Err(io::Error::other("the file was opened before the machine restarted"));
        }
        Ok(world)
    }

    fn write(&self, bytes: Vec<u8>, position: u64) -> io::Result<()> {
        let position = to_usize(position)?;
        let end = position.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        let mut world = self.world()?;
        world.reserve(self.inode, end)?;
        let fate = world.change()?;
        world.pend(self.inode, Pending::Write { position, bytes });
        fate.answer()
    }

    fn resize(&self, len: u64, only_up: bool) -> io::Result<()> {
        let len = to_usize(len)?;
        let mut world = self.world()?;
        if only_up && world.file(self.inode).bytes.len() >= len {
            return Ok(());
        }
        world.reserve(self.inode, len)?;
        let fate = world.change()?;
        world.pend(self.inode, Pending::SetLen(len));
        fate.answer()
    }
}

impl MediumFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.world()?.file(self.inode).bytes.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.resize(len, false)
    }

    fn allocate(&self, position: u64, len: u64) -> io::Result<()> {
        let end = position.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
        self.resize(end, true)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut world = self.world()?;
        let bytes = &world.file(self.inode).bytes;
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
        let mut world = self.world()?;
        let fate = world.change();
        let file = world.file(self.inode);
        match fate {
            Ok(Fate::Happens) => {
                file.make_durable();
                Ok(())
            }
            Ok(fate) => fate.answer(),
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

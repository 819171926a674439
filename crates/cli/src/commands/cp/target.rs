//! The file that a copy writes: under a hidden name until it is complete, see [`partial`].
//!
//! A new, not large file in the cluster has its final name at once. The bytes of its last striping
//! unit are written after all others are acknowledged: a killed copy leaves a file that is shorter
//! than its source, never one of full length with a hole.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, bail};
use pario::{Cluster, DEFAULT_UNIT_BYTES, FileKind, FilePath, FileRecord, LockKind};
use rustix::fs::{Access, FlockOperation};

use super::copy::CONTINUED_BYTES;
use super::direction::Location;
use super::partial::{self, SourceVersion};
use super::plan::CopyItem;
use super::{DiskArgument, Flags};
use crate::owners;

/// The target of a copy.
pub struct CopyTarget<'c> {
    cluster: &'c Cluster,
    flags: &'c Flags,
    file: TargetFile,
    /// The bytes that are written last.
    tail: Tail,
}

/// The last bytes of a file that already has its final name.
#[derive(Default)]
struct Tail {
    /// Offset of the tail; `None` holds nothing back.
    start: Option<u64>,
    bytes: Vec<u8>,
}

enum TargetFile {
    Stream(io::Stdout),
    Cluster { file: Box<pario::File>, name: FilePath, to: FilePath, mode: u32, is_new: bool },
    Local { file: fs::File, name: PathBuf, to: PathBuf, is_durable: bool },
}

impl<'c> CopyTarget<'c> {
    /// Begins a new file that will replace an existing target.
    pub fn begin(cluster: &'c Cluster, flags: &'c Flags, item: &CopyItem) -> anyhow::Result<Self> {
        let file = match &item.to {
            Location::Stream => TargetFile::Stream(io::stdout()),
            Location::Local(path) => begin_local(path, item)?,
            Location::Cluster(path) => begin_in_cluster(cluster, flags, path, item)?,
        };
        let mut target = Self { cluster, flags, file, tail: Tail::default() };
        if let TargetFile::Cluster { is_new: true, .. } = target.file
            && target.is_in_place()
        {
            let unit = flags.unit.unwrap_or(DEFAULT_UNIT_BYTES);
            target.tail.start = item.len.map(|len| len.saturating_sub(1) / unit * unit);
        }
        Ok(target)
    }

    /// Like [`Self::begin`] for a large file: continues an earlier copy of the same version, if
    /// there is one, and returns the bytes that it already has. Removes copies of other versions.
    pub fn resume(
        cluster: &'c Cluster,
        flags: &'c Flags,
        item: &CopyItem,
        version: SourceVersion,
    ) -> anyhow::Result<(Self, u64)> {
        let mut target = Self::begin(cluster, flags, item)?;
        if target.is_in_place() {
            return Ok((target, 0));
        }
        let Some(name) = item.to.file_name() else { return Ok((target, 0)) };
        let mut done = 0;
        for found in target.names_beside()? {
            match partial::parse(&name, &found) {
                Some((of, there))
                    if of == version && there > done && target.switch_to(&found)? =>
                {
                    done = there;
                }
                Some(_) => target.remove_beside(&found),
                None => {}
            }
        }
        target.lock(&item.to)?;
        target.rename_to(&partial::continuable(&name, version, done))?;
        Ok((target, done))
    }

    /// Returns whether the target itself is written, without a hidden name.
    fn is_in_place(&self) -> bool {
        match &self.file {
            TargetFile::Stream(_) => true,
            TargetFile::Cluster { name, to, .. } => name == to,
            TargetFile::Local { name, to, .. } => name == to,
        }
    }

    /// Writes bytes at an offset.
    pub fn write(&mut self, piece: &[u8], offset: u64) -> anyhow::Result<()> {
        let piece = self.tail.hold_back(piece, offset);
        match &mut self.file {
            TargetFile::Stream(stdout) => stdout.write_all(piece)?,
            TargetFile::Cluster { file, .. } => file.write_at(piece, offset)?,
            // Pipes and devices have no offsets.
            TargetFile::Local { file, name, to, .. } if name == to => file.write_all(piece)?,
            TargetFile::Local { file, .. } => file.write_all_at(piece, offset)?,
        }
        Ok(())
    }

    /// Syncs the file, and records the synced length in its name.
    pub fn sync_and_record(
        &mut self,
        to: &Location,
        version: SourceVersion,
        done: u64,
    ) -> anyhow::Result<()> {
        match &self.file {
            TargetFile::Stream(_) => return Ok(()),
            TargetFile::Cluster { file, .. } => file.sync()?,
            TargetFile::Local { file, .. } => file.sync_data()?,
        }
        match to.file_name() {
            Some(name) if !self.is_in_place() => {
                self.rename_to(&partial::continuable(&name, version, done))
            }
            _ => Ok(()),
        }
    }

    /// Completes the file: sets permissions, time and name, and syncs it if it is in the cluster or
    /// large.
    pub fn finish(mut self, item: &CopyItem) -> anyhow::Result<()> {
        let finished = self.complete(item);
        if finished.is_err() {
            self.abandon();
        }
        finished
    }

    fn complete(&mut self, item: &CopyItem) -> anyhow::Result<()> {
        let time = item.modified_ns.filter(|_| self.flags.keeps_times());
        match &mut self.file {
            TargetFile::Stream(stdout) => stdout.flush()?,
            TargetFile::Cluster { file, name, to, mode, .. } => {
                if let Some(start) = self.tail.start {
                    file.write_at(&self.tail.bytes, start)?;
                }
                if let Some(time) = time {
                    file.set_modified(time)?;
                }
                file.sync()?;
                if file.record().mode & 0o777 != *mode & 0o777 {
                    let outcome = self.cluster.set_mode(name.as_str(), *mode)?;
                    owners::warn_unacknowledged(to, &outcome);
                }
                if name != to {
                    self.cluster.rename(name.as_str(), to.as_str())?;
                    *name = to.clone();
                }
            }
            TargetFile::Local { file, name, to, is_durable } => {
                let is_plain = file.metadata()?.is_file();
                if let Some(mode) = item.mode.filter(|_| is_plain) {
                    file.set_permissions(fs::Permissions::from_mode(mode))?;
                }
                if let Some(time) = time.filter(|_| is_plain) {
                    file.set_modified(UNIX_EPOCH + Duration::from_nanos(time))?;
                }
                if is_plain && *is_durable {
                    file.sync_all()?;
                }
                if name != to {
                    fs::rename(&*name, &*to).with_context(|| to.display().to_string())?;
                    name.clone_from(to);
                }
            }
        }
        Ok(())
    }

    /// Removes the incomplete file. Ignores errors: the caller reports the original failure.
    pub fn abandon(self) {
        match self.file {
            TargetFile::Stream(_) => {}
            TargetFile::Cluster { name, is_new: true, .. } => {
                let _ = self.cluster.remove(name.as_str());
            }
            TargetFile::Local { name, to, .. } if name != to => {
                let _ = fs::remove_file(name);
            }
            TargetFile::Cluster { .. } | TargetFile::Local { .. } => {}
        }
    }

    /// Returns the hidden names in the directory of the target.
    fn names_beside(&self) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        match &self.file {
            TargetFile::Stream(_) => {}
            TargetFile::Cluster { to, .. } => {
                let parent = to.parent().unwrap_or_else(FilePath::root);
                for listed in self.cluster.list_names(parent.as_str())? {
                    names.push(listed?.name);
                }
            }
            TargetFile::Local { to, .. } => {
                for entry in fs::read_dir(directory_of(to))? {
                    names.extend(entry?.file_name().into_string());
                }
            }
        }
        names.retain(|name| name.starts_with('.'));
        Ok(names)
    }

    /// Switches to an earlier copy beside the target, if it can be opened, and removes the file
    /// written so far.
    fn switch_to(&mut self, found: &str) -> anyhow::Result<bool> {
        let taken = match &self.file {
            TargetFile::Stream(_) => return Ok(false),
            TargetFile::Cluster { to, mode, .. } => {
                let name = beside(to, found)?;
                let Ok(file) = self.cluster.options().write(true).open(name.as_str()) else {
                    return Ok(false);
                };
                TargetFile::Cluster {
                    file: Box::new(file),
                    name,
                    to: to.clone(),
                    mode: *mode,
                    is_new: true,
                }
            }
            TargetFile::Local { to, is_durable, .. } => {
                let name = directory_of(to).join(found);
                let Ok(file) = fs::OpenOptions::new().write(true).open(&name) else {
                    return Ok(false);
                };
                TargetFile::Local { file, name, to: to.clone(), is_durable: *is_durable }
            }
        };
        let before = std::mem::replace(&mut self.file, taken);
        let tail = Tail::default();
        Self { cluster: self.cluster, flags: self.flags, file: before, tail }.abandon();
        Ok(true)
    }

    /// Removes an earlier copy; ignores errors, because such a file does no harm.
    fn remove_beside(&self, found: &str) {
        match &self.file {
            TargetFile::Stream(_) => {}
            TargetFile::Cluster { to, .. } => {
                if let Ok(name) = beside(to, found) {
                    let _ = self.cluster.remove(name.as_str());
                }
            }
            TargetFile::Local { to, .. } => {
                let _ = fs::remove_file(directory_of(to).join(found));
            }
        }
    }

    fn rename_to(&mut self, new: &str) -> anyhow::Result<()> {
        match &mut self.file {
            TargetFile::Stream(_) => {}
            TargetFile::Cluster { name, to, .. } => {
                let new = beside(to, new)?;
                if *name != new {
                    self.cluster.rename(name.as_str(), new.as_str())?;
                    *name = new;
                }
            }
            TargetFile::Local { name, to, .. } => {
                let new = directory_of(to).join(new);
                fs::rename(&*name, &new).with_context(|| new.display().to_string())?;
                *name = new;
            }
        }
        Ok(())
    }

    /// Locks the file, so that two processes cannot continue the same copy.
    fn lock(&self, to: &Location) -> anyhow::Result<()> {
        let is_locked = match &self.file {
            TargetFile::Stream(_) => true,
            TargetFile::Cluster { file, .. } => file.try_lock(.., LockKind::Exclusive)?,
            TargetFile::Local { file, .. } => {
                rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
            }
        };
        if is_locked {
            return Ok(());
        }
        bail!("{to}: another process is copying to it; wait for it to end")
    }
}

impl Tail {
    /// Keeps the bytes of the tail and returns those before it. Pieces must come in order.
    fn hold_back<'p>(&mut self, piece: &'p [u8], offset: u64) -> &'p [u8] {
        let Some(start) = self.start else { return piece };
        let before = usize::try_from(start.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (piece, tail) = piece.split_at(before.min(piece.len()));
        self.bytes.extend_from_slice(tail);
        piece
    }
}

fn begin_in_cluster(
    cluster: &Cluster,
    flags: &Flags,
    to: &FilePath,
    item: &CopyItem,
) -> anyhow::Result<TargetFile> {
    let existing = existing_in_cluster(cluster, to)?;
    let mode = item.mode.or(existing.as_ref().map(|record| record.mode & 0o777)).unwrap_or(0o644);
    let mut options = cluster.options().write(true).mode(mode);
    match (&existing, &flags.disks) {
        // Another user's file is written in place, so that it keeps its owner.
        (Some(record), _) if record.uid != rustix::process::getuid().as_raw() => {
            let file = Box::new(options.truncate(true).open(to.as_str())?);
            let is_new = false;
            return Ok(TargetFile::Cluster {
                file,
                name: to.clone(),
                to: to.clone(),
                mode,
                is_new,
            });
        }
        (Some(FileRecord { kind: FileKind::Flat, layout: Some(layout), .. }), None)
            if flags.unit.is_none() =>
        {
            options = options.layout(layout.clone());
        }
        (_, None) => {}
        (_, Some(DiskArgument::Count(count))) => options = options.disk_count(*count),
        (_, Some(DiskArgument::These(names))) => options = options.disks(names.iter().cloned()),
    }
    if let Some(unit) = flags.unit {
        options = options.unit(unit);
    }
    let is_hidden = existing.is_some() || item.len.is_none_or(|len| len >= CONTINUED_BYTES);
    let name = match is_hidden {
        true => beside(to, &partial::unique(to.name().unwrap_or_default().as_ref()))?,
        false => to.clone(),
    };
    if is_hidden {
        // The owner must be able to continue it.
        options = options.mode(mode | 0o600);
    }
    let file = Box::new(options.create_new(true).open(name.as_str())?);
    Ok(TargetFile::Cluster { file, name, to: to.clone(), mode, is_new: true })
}

/// Returns the file at a path in the cluster; fails if it exists and is not writable.
fn existing_in_cluster(
    cluster: &Cluster,
    path: &FilePath,
) -> Result<Option<FileRecord>, pario::Error> {
    match cluster.options().write(true).open(path.as_str()) {
        Ok(file) => Ok(Some(file.record().clone())),
        Err(error) if error.kind() == pario::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn begin_local(to: &Path, item: &CopyItem) -> anyhow::Result<TargetFile> {
    let shown = || to.display().to_string();
    let is_durable = item.len.is_none_or(|len| len > super::SMALL_BYTES);
    let mut options = fs::OpenOptions::new();
    options.write(true);
    // Writes through a symbolic link, and keeps the link.
    let to = match to.is_symlink() {
        true => fs::canonicalize(to).with_context(shown)?,
        false => to.to_owned(),
    };
    if let Ok(known) = fs::metadata(&to) {
        rustix::fs::access(&to, Access::WRITE_OK).map_err(io::Error::from).with_context(shown)?;
        let is_own = known.uid() == rustix::process::getuid().as_raw() && known.nlink() == 1;
        if !known.is_file() || !is_own {
            let file = options.truncate(known.is_file()).open(&to).with_context(shown)?;
            return Ok(TargetFile::Local { file, name: to.clone(), to, is_durable });
        }
    }
    let name = directory_of(&to).join(partial::unique(to.file_name().unwrap_or_default()));
    options.create_new(true).mode(item.mode.map_or(0o666, |mode| mode | 0o200));
    let file = options.open(&name).with_context(shown)?;
    Ok(TargetFile::Local { file, name, to, is_durable })
}

/// Returns a path in the same directory.
fn beside(path: &FilePath, name: &str) -> Result<FilePath, pario::PathError> {
    path.parent().unwrap_or_else(FilePath::root).join(name)
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries of the root directory, with their sizes.
    type Entries = Vec<(String, Option<u64>)>;

    /// Returns the entries while a new file is written, and afterwards.
    fn entries_of(len: u64, flags: &Flags) -> [Entries; 2] {
        const PIECE_BYTES: usize = 300_000;
        let content: Vec<u8> = (0..251).cycle().zip(0..len).map(|(byte, _)| byte).collect();
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::embedded(dir.path().join("data")).unwrap();
        let item = CopyItem {
            from: Location::Local(dir.path().join("source")),
            to: Location::Cluster(FilePath::new("/new").unwrap()),
            len: Some(len),
            mode: Some(0o644),
            modified_ns: Some(7),
            is_extents: false,
        };
        let entries = || -> Entries {
            let entries = cluster.list("/").unwrap().map(Result::unwrap);
            entries.map(|entry| (entry.name, entry.measured.map(|known| known.len))).collect()
        };
        let mut target = CopyTarget::begin(&cluster, flags, &item).unwrap();
        for (number, piece) in (0..).zip(content.chunks(PIECE_BYTES)) {
            target.write(piece, number * PIECE_BYTES as u64).unwrap();
        }
        let before = entries();
        target.finish(&item).unwrap();
        let mut stored = vec![0; content.len()];
        cluster.open("/new").unwrap().read_exact_at(&mut stored, 0).unwrap();
        assert!(stored == content);
        [before, entries()]
    }

    #[test]
    fn a_large_file_has_its_name_when_it_is_whole() {
        let [before, after] = entries_of(CONTINUED_BYTES, &Flags::default());
        assert!(before.len() == 1 && before[0].0.starts_with(".new."), "{before:?}");
        assert_eq!(after, [("new".to_owned(), Some(CONTINUED_BYTES))]);
    }

    #[test]
    fn a_new_file_is_shorter_until_it_is_whole() {
        let narrow = Flags { unit: Some(4096), ..Flags::default() };
        let (unit, one) = (64 << 10, Flags::default());
        for (len, flags, without_tail) in [
            (0, &one, 0),
            (1, &one, 0),
            (unit, &one, 0),
            (unit + 1, &one, unit),
            (1_000_000, &one, 15 * unit),
            (4097, &narrow, 4096),
        ] {
            let [before, after] = entries_of(len, flags);
            assert_eq!(before, [("new".to_owned(), Some(without_tail))], "{len}");
            assert_eq!(after, [("new".to_owned(), Some(len))]);
        }
    }
}

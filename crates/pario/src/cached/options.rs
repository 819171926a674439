//! Options to open a cached file.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pario_proto::Access;
use pario_team::Team;
use rustix::io::Errno;

use super::agreement::{RankFailure, agree, agree_on};
use super::backing_io::{BackingIo, IoCounters};
use super::file_end::FileEnd;
use super::flush::FlushStep;
use super::io_share::{IoShare, can_access};
use super::page_cache::PageCache;
use super::source::{BackingFile, BackingOptions, CachedFileSource};
use super::whole_file_cache::MemoryState;
use super::write_back::WriteBackRule;
use super::{CacheMemory, CachedFile};
use crate::error::Error;
use crate::job::Job;

/// The default number of ranks that read or write for all.
const DEFAULT_IO_RANKS: u32 = 4;

/// Options to open a cached file, for [`Job::cache_with`](crate::Job::cache_with). All ranks must give
/// the same options.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("state");
/// # let job = pario::Job::new("options", 1, 0)?;
/// use pario::CachedOptions;
///
/// let options = CachedOptions::new()
///     .read(true)
///     .write(true)
///     .create(true)
///     .replace(true); // a crash leaves the old file or the new one
/// let mut state = job.cache_with(&path, &options)?;
/// state.reserve(1 << 20)?;
/// state.write_at(b"step 7", 0)?;
/// state.close()?;
/// assert_eq!(std::fs::read(&path)?, b"step 7");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it opens nothing until `Job::cache_with` is called"]
pub struct CachedOptions {
    pub(super) settings: OpenSettings,
}

/// The options as values.
#[derive(Clone, Debug)]
pub struct OpenSettings {
    pub read: bool,
    pub write: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
    pub append: bool,
    pub replace: bool,
    memory: Option<u64>,
    pub prefault: bool,
    readers: u32,
    pub writers: u32,
    mode: u32,
    pub write_back: WriteBackRule,
    pub is_copying: bool,
    pub observer: Option<fn(FlushStep)>,
}

impl Default for CachedOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl CachedOptions {
    /// Neither reading nor writing.
    pub fn new() -> Self {
        let settings = OpenSettings {
            read: false,
            write: false,
            create: false,
            create_new: false,
            truncate: false,
            append: false,
            replace: false,
            memory: None,
            prefault: false,
            readers: DEFAULT_IO_RANKS,
            writers: DEFAULT_IO_RANKS,
            mode: 0o644,
            write_back: WriteBackRule::Automatic,
            is_copying: false,
            observer: None,
        };
        Self { settings }
    }

    /// Opens the file for reading: the open reads it.
    pub fn read(mut self, yes: bool) -> Self {
        self.settings.read = yes;
        self
    }

    /// Opens the file for writing. The open empties a file that is not opened for reading or
    /// appending, too.
    pub fn write(mut self, yes: bool) -> Self {
        self.settings.write = yes;
        self
    }

    /// Opens the file for reading, writing or both.
    pub fn access(self, access: Access) -> Self {
        self.read(access.read).write(access.write)
    }

    /// Creates the file if it does not exist.
    pub fn create(mut self, yes: bool) -> Self {
        self.settings.create = yes;
        self
    }

    /// Creates the file; an existing file is an error.
    pub fn create_new(mut self, yes: bool) -> Self {
        self.settings.create_new = yes;
        self
    }

    /// Empties an existing file.
    pub fn truncate(mut self, yes: bool) -> Self {
        self.settings.truncate = yes;
        self
    }

    /// Every write goes to the current end of the file.
    pub fn append(mut self, yes: bool) -> Self {
        self.settings.append = yes;
        self
    }

    /// A flush writes a new file beside the old one, and renames it over the old one when it is
    /// durable: a crash leaves the old file or the new one. Each flush writes the whole file.
    ///
    /// The file keeps its permissions and owner; other names of it (hard links) keep the old file.
    /// A process that is killed during a flush leaves `.NAME.pario-NUMBER` behind, which can be
    /// deleted.
    pub fn replace(mut self, yes: bool) -> Self {
        self.settings.replace = yes;
        self
    }

    /// The memory that all ranks together use for pages of the file. A rank reads a page that is not
    /// in memory when it uses it, and removes another page for it. Writes may reach the disk before a
    /// flush; they are durable after the flush, as always.
    ///
    /// By default the whole file is in memory. A plain file can be limited so only in a job on one
    /// machine.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.settings.memory = Some(bytes);
        self
    }

    /// Takes the memory for all reserved bytes at once, and not page by page at the first write:
    /// writes then have the speed of memory from the first byte on. Reserved bytes that no rank
    /// writes take memory as well. This has no effect together with [`memory`](Self::memory).
    pub fn prefault(mut self, yes: bool) -> Self {
        self.settings.prefault = yes;
        self
    }

    /// The number of ranks that read the file when it is opened: 4 by default.
    pub fn readers(mut self, count: u32) -> Self {
        self.settings.readers = count;
        self
    }

    /// The number of ranks that write in a flush: 4 by default.
    pub fn writers(mut self, count: u32) -> Self {
        self.settings.writers = count;
        self
    }

    /// Write-back: how long no rank must have written to a page before it goes to the file in the
    /// background, so that flush and close have to write the rest only. The default is 10 ms, for
    /// files for which 32 MiB or more are reserved. `None`: only flush and close write to the file,
    /// and a crash before them leaves it as it was.
    ///
    /// A file that is [replaced](Self::replace) or has [little memory](Self::memory) has no
    /// write-back.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("steps");
    /// # let job = pario::Job::new("write-back", 1, 0)?;
    /// use pario::CachedOptions;
    ///
    /// let options = CachedOptions::new().write(true).create(true).write_back_age(None);
    /// let mut steps = job.cache_with(&path, &options)?;
    /// steps.reserve(64 << 20)?;
    /// steps.write_at(b"step 1", 0)?; // in memory alone
    /// steps.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_back_age(mut self, age: Option<Duration>) -> Self {
        self.settings.write_back = age.map_or(WriteBackRule::Never, WriteBackRule::After);
        self
    }

    /// The permissions of a new file: `0o644` by default.
    pub fn mode(mut self, mode: u32) -> Self {
        self.settings.mode = mode;
        self
    }

    /// Moves bytes through a buffer of the process that reads or writes, as on several machines.
    #[doc(hidden)]
    pub fn copying(mut self, yes: bool) -> Self {
        self.settings.is_copying = yes;
        self
    }

    /// Calls a function at each step of a flush.
    #[doc(hidden)]
    pub fn observer(mut self, observer: fn(FlushStep)) -> Self {
        self.settings.observer = Some(observer);
        self
    }

    /// Opens the file. Collective.
    pub(crate) fn open(&self, job: &Job, given: CachedFileSource) -> Result<CachedFile, Error> {
        let team = &job.team()?;
        let settings = self.settings.clone();
        let source = settings.check().and_then(|()| settings.check_access(team, &given));
        let source = source.and_then(|()| given.absolute());
        let path = match (0..team.size()).all(|rank| can_access(team, &given, rank)) {
            true => source.as_ref().unwrap_or(&given).to_string(),
            false => given.common_name(),
        };
        let call = format!("open of {path} {settings}");
        let pool = job.memory_pool().begin(team);
        let counters = Arc::new(IoCounters::default());

        // Rank 0 creates and empties the file after the ranks have agreed and before the others open
        // it. An open that changes nothing comes first, which saves a round.
        let open_first =
            |source: &CachedFileSource| (team.rank() == 0).then(|| settings.open_first(source));
        let len_of = |first: &Option<Result<OpenedFirst, RankFailure>>| match first {
            Some(Ok(opened)) => Ok(opened.len),
            Some(Err(why)) => Err(why.clone()),
            None => Ok(0),
        };
        let is_early = !settings.can_change();
        let early = source.as_ref().ok().filter(|_| is_early).and_then(open_first);
        let checked = source.as_ref().map(drop).map_err(Clone::clone);
        let checked = checked.and_then(|()| Ok([pool.number(), len_of(&early)?]));
        let agreed = agree_on(team, &path, &call, &checked)?;
        let numbers: Vec<u64> = agreed.iter().map(|[number, _]| *number).collect();
        let source = source.unwrap_or(given);
        let (first, len) = match is_early {
            true => (early, agreed[0][1]),
            false => {
                let first = open_first(&source);
                let len = agree(team, &path, &call, &len_of(&first))?[0];
                (first, len)
            }
        };

        let reading = IoShare::of_team(team, &source, settings.readers);
        let writing = IoShare::of_team(team, &source, settings.writers);
        let is_partial = settings.memory.is_some_and(|bytes| settings.write || len > bytes);
        let (is_emptied, is_created) = match &first {
            Some(Ok(opened)) => (opened.is_emptied, opened.is_created),
            _ => (false, false),
        };
        let opened = match first {
            Some(Ok(opened)) => Ok(Some(opened.file)),
            Some(Err(why)) => Err(why),
            None if reading.is_some() || writing.is_some() || is_partial => {
                settings.open_again(&source).map(Some)
            }
            None => Ok(None),
        };
        let backing = opened
            .map(|file| file.map(|file| BackingIo::new(file, &counters, settings.is_copying)));
        let backing = backing.map_err(|why| why.context("cannot open it"));

        let needed = settings.first_needed(len);
        let (memory, end, state) = match settings.memory.filter(|_| is_partial) {
            Some(bytes) => {
                let pages = CacheMemory::Pages(PageCache::new(team, bytes)?);
                (pages, FileEnd::new(team, len)?, MemoryState::default())
            }
            None => {
                let lease = pool.lease(team, &path, &numbers, len, settings.prefault)?;
                let state = lease.prepare(team, needed, len)?;
                let end = lease.cache().end(len)?;
                (CacheMemory::Whole(lease), end, state)
            }
        };
        let loaded = match (&backing, reading, &memory) {
            (Ok(Some(backing)), Some(share), CacheMemory::Whole(whole)) => whole
                .cache()
                .load(backing, share, needed..len, state)
                .and_then(|()| whole.cache().fence().map_err(RankFailure::from)),
            (Err(why), _, _) => Err(why.clone()),
            _ => Ok(()),
        };
        agree(team, &path, &call, &loaded.map(|()| 0))?;
        if let (CacheMemory::Whole(whole), true) = (&memory, settings.prefault) {
            whole.make_ready();
        }
        let backing = backing.ok().flatten().filter(|_| settings.write || is_partial);
        if let Some(backing) = backing.as_ref().filter(|_| is_emptied || is_created) {
            backing.note_change();
        }
        Ok(CachedFile {
            write_back: None,
            job: job.clone(),
            team: team.clone(),
            source,
            path,
            settings,
            end: Arc::new(end),
            memory,
            backing: backing.map(Arc::new),
            is_new_name: is_created,
            room: None,
            position: 0,
            is_changed: AtomicBool::new(is_emptied || is_created),
            poison: None,
            counters,
        })
    }
}

/// The file, as rank 0 has opened it.
struct OpenedFirst {
    file: BackingFile,
    /// The length that counts: zero if the old content is discarded.
    len: u64,
    /// Whether old content is discarded.
    is_emptied: bool,
    is_created: bool,
}

impl OpenSettings {
    fn check(&self) -> Result<(), RankFailure> {
        let wrong = |text: &str| Err(RankFailure::invalid(text));
        let wants_write = self.create || self.create_new || self.truncate || self.append;
        if !self.read && !self.write {
            return wrong("cannot open it for nothing: for reading, for writing, or both");
        }
        if !self.write && (wants_write || self.replace) {
            return wrong(
                "cannot open it so: a file that is created, emptied, appended to or replaced must be \
                 opened for writing",
            );
        }
        if self.append && self.truncate {
            return wrong("cannot open it so: what is appended to is not emptied");
        }
        if self.replace && self.memory.is_some() {
            return wrong(
                "cannot open it so: a file that is replaced is written as a whole, and so must be in \
                 memory as a whole",
            );
        }
        Ok(())
    }

    /// With limited memory, every rank must be able to read and write pages itself.
    fn check_access(&self, team: &Team, source: &CachedFileSource) -> Result<(), RankFailure> {
        let without_access = (0..team.size()).find(|rank| !can_access(team, source, *rank));
        match without_access.filter(|_| self.memory.is_some()) {
            None => Ok(()),
            Some(rank) => Err(RankFailure::invalid(format!(
                "cannot keep only a part of it in memory: it is a plain file of the machine of rank \
                 0, and rank {rank} is on another; keep all of it in memory, or put it into a cluster"
            ))),
        }
    }

    /// Whether the open discards the old content.
    fn is_emptied(&self) -> bool {
        self.truncate || (!self.read && !self.append)
    }

    fn backing_options(&self) -> BackingOptions {
        // A rank reads a page before it writes a part of it.
        let needs_rest = self.memory.is_some() || self.append;
        BackingOptions {
            read: self.read || needs_rest,
            write: self.write,
            mode: self.mode,
            ..BackingOptions::default()
        }
    }

    /// Opens the file on rank 0.
    fn open_first(&self, source: &CachedFileSource) -> Result<OpenedFirst, RankFailure> {
        let options = self.backing_options();
        let cannot = |why: RankFailure| why.context("cannot open it");
        let create = |is_new| {
            let created = source.open(BackingOptions { create: true, is_new, ..options });
            created.map_err(|why| why.context("cannot create it"))
        };
        let (file, is_created) = if self.create_new {
            (create(true)?, true)
        } else {
            match source.open(options) {
                Err(why) if self.create && why.number == Errno::NOENT.raw_os_error() => {
                    (create(false)?, true)
                }
                opened => (opened.map_err(cannot)?, false),
            }
        };
        let len = file.len().map_err(cannot)?;
        if !self.is_emptied() || !self.write {
            return Ok(OpenedFirst { file, len, is_emptied: false, is_created });
        }
        if len > 0 && !self.replace {
            file.set_len(0).map_err(|why| why.context("cannot empty it"))?;
        }
        Ok(OpenedFirst { file, len: 0, is_emptied: len > 0, is_created })
    }

    /// Whether the open may create or empty the file.
    fn can_change(&self) -> bool {
        self.create || self.create_new || (self.is_emptied() && self.write)
    }

    fn open_again(&self, source: &CachedFileSource) -> Result<BackingFile, RankFailure> {
        source.open(self.backing_options())
    }

    /// The first byte of the file that the open must read.
    fn first_needed(&self, len: u64) -> u64 {
        if self.read || self.replace { 0 } else { len }
    }
}

/// The options that all ranks must give alike, in words.
impl fmt::Display for OpenSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match (self.read, self.write) {
            (true, true) => "for reading and writing",
            (true, false) => "for reading",
            (false, true) => "for writing",
            (false, false) => "for nothing",
        };
        f.write_str(access)?;
        let effects = [
            (self.create || self.create_new, "created"),
            (self.create_new, "new"),
            (self.truncate, "emptied"),
            (self.append, "appended to"),
            (self.replace, "replaced"),
        ];
        for (_, effect) in effects.iter().filter(|(is_set, _)| *is_set) {
            write!(f, ", {effect}")?;
        }
        if self.prefault {
            f.write_str(", with memory at once")?;
        }
        match self.write_back {
            WriteBackRule::Automatic => {}
            WriteBackRule::After(age) => write!(f, ", written back after {age:?}")?,
            WriteBackRule::Never => f.write_str(", not written back")?,
        }
        if let Some(bytes) = self.memory {
            write!(f, ", in {bytes} bytes of memory")?;
        }
        if (self.readers, self.writers) != (DEFAULT_IO_RANKS, DEFAULT_IO_RANKS) {
            write!(f, ", by {} readers and {} writers", self.readers, self.writers)?;
        }
        Ok(())
    }
}

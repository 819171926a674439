//! Cached files: files in the memory of all processes of a job.
//!
//! All ranks of a job open a [`CachedFile`] together, with [`Job::cache`] or [`Job::cache_with`]. A few
//! of them read it in large pieces; then each rank reads and writes any bytes at the speed of memory,
//! with a pointer of its own. The collective calls [`flush`](CachedFile::flush) and
//! [`close`](CachedFile::close) write changes back. docs/memory.md describes how, and the guarantees.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("mesh.bin");
//! use pario::{CachedOptions, Job};
//!
//! let job = Job::from_env()?; // plain files need no cluster
//! let mut mesh = job.cache_with(&path, &CachedOptions::new().write(true).create(true))?;
//! mesh.reserve(8 * u64::from(job.size()))?; // how long it can become; more does no harm
//! mesh.write_at(&[7; 8], 8 * u64::from(job.rank()))?; // a copy, not a system call
//! mesh.close()?; // durable now
//!
//! let mesh = job.cache(&path)?;
//! let mut element = [0; 8];
//! mesh.read_exact_at(&mut element, 0)?;
//! assert_eq!(element, [7; 8]);
//! # Ok(())
//! # }
//! ```

mod agreement;
mod backing_io;
mod file_end;
mod flush;
mod io_share;
mod memory_pool;
mod options;
mod page_cache;
mod pointer;
mod range_to_disk;
mod source;
mod whole_file_cache;
mod write_back;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pario_team::{RawArray, Team};

pub use backing_io::CachedStatistics;
#[doc(hidden)]
pub use flush::FlushStep;
pub(crate) use memory_pool::MemoryPool;
pub use options::CachedOptions;
pub use source::CachedFileSource;

use crate::error::Error;
use crate::job::Job;
use agreement::{RankFailure, agree};
use backing_io::{BackingIo, IoCounters};
use file_end::FileEnd;
use flush::DirtyRun;
use io_share::IoShare;
use memory_pool::MemoryLease;
use options::OpenSettings;
use page_cache::{PageCache, PageIo};
use write_back::{WriteBack, WriteBackPause, WriteBackTask};

/// The largest offset of a byte.
const OFFSET_LIMIT: u64 = 1 << 62;

/// A file in the memory of all ranks of a job, as one of them has it open; made by [`Job::cache`] and
/// [`Job::cache_with`].
///
/// The open, `reserve`, `flush` and `close` are collective: if they fail for one rank, they fail for
/// all. All other calls concern this rank alone. Ranks that write the same bytes at the same time may
/// leave a mixture of them.
///
/// The other ranks see the writes of a rank after a barrier of the job, and at the latest after a
/// flush. Unwritten bytes are zero. Bytes that were not flushed when the file is dropped, or when a
/// process of the job ends, are lost; flushed bytes are safe.
///
/// [`Read`](std::io::Read), [`Write`](std::io::Write) and [`Seek`](std::io::Seek) use a pointer of
/// this rank; the flush of `Write` does nothing.
pub struct CachedFile {
    /// The thread that writes pages in the background; dropped before the memory.
    write_back: Option<WriteBack>,
    job: Job,
    team: Team,
    source: CachedFileSource,
    path: String,
    settings: OpenSettings,
    end: Arc<FileEnd>,
    memory: CacheMemory,
    /// The backing file, if this rank reads or writes it.
    backing: Option<Arc<BackingIo>>,
    /// Whether the name of the file must be made durable by the first flush.
    is_new_name: bool,
    /// The reserved length; none before the first `reserve`.
    room: Option<u64>,
    position: u64,
    /// Whether this rank has written since the last flush.
    is_changed: AtomicBool,
    /// The error of a failed sync: every later flush fails with it.
    poison: Option<Error>,
    counters: Arc<IoCounters>,
}

/// The pages in memory.
enum CacheMemory {
    /// All pages of the file.
    Whole(MemoryLease),
    /// Some pages of the file.
    Pages(PageCache),
}

impl CachedFile {
    /// The path with which the file was opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The job that has the file open.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The length: up to the highest byte that any rank has written.
    pub fn len(&self) -> Result<u64, Error> {
        self.end.now()
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// The transfers of this rank between the file and its disk.
    pub fn statistics(&self) -> CachedStatistics {
        self.counters.now()
    }

    /// Sets how long the file can become. No rank can write before. A length that is too large does
    /// no harm, because the file becomes as long as its highest written byte. A length below that of
    /// the file is an error. The ranks may call this again. Collective.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("x");
    /// # let job = pario::Job::new("reserve", 1, 0)?;
    /// # use pario::CachedOptions;
    /// let mut file = job.cache_with(&path, &CachedOptions::new().write(true).create(true))?;
    /// assert!(file.write_at(b"1", 0).is_err()); // nothing is reserved
    /// file.reserve(1000)?;
    /// file.write_at(b"1", 9)?;
    /// assert!(file.write_at(b"22", 999).is_err());
    /// file.close()?;
    /// assert_eq!(std::fs::metadata(&path).unwrap().len(), 10);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        self.memory.fence()?;
        // Until all ranks have the new memory, no rank writes pages of the old one.
        let write_back = self.write_back.take();
        let mut pause = write_back.as_ref().map(WriteBack::pause);
        let reserved = self.reserve_memory(bytes, pause.as_mut());
        drop(pause);
        self.write_back = write_back;
        reserved?;
        self.start_write_back(bytes);
        Ok(())
    }

    fn reserve_memory(
        &mut self,
        bytes: u64,
        pause: Option<&mut WriteBackPause<'_>>,
    ) -> Result<(), Error> {
        let call = format!("reserve of {bytes} bytes for {}", self.path);
        let checked = self.check_reserve(bytes);
        let job = self.job.clone();
        let pool = job.memory_pool().begin(&self.team);
        let numbers = agree(&self.team, &self.path, &call, &checked.map(|()| pool.number()))?;
        let end = self.end.now()?;
        if bytes < end {
            return Err(Error::invalid(format!(
                "{}: {bytes} bytes cannot be enough: {end} are in the file already",
                self.path
            )));
        }
        let prefault = self.settings.prefault;
        if let CacheMemory::Whole(old) = &self.memory
            && (old.cache().len() < bytes || (prefault && !old.is_prefaulted()))
        {
            let larger = pool.lease(&self.team, &self.path, &numbers, bytes, prefault)?;
            let was_used = larger.clean(0);
            larger.touch(bytes);
            if was_used && end > 0 {
                // Ranks copy into the memory of others, which must be clean by then.
                self.team.barrier()?;
            }
            let (rank, size) = (self.team.rank(), self.team.size());
            let copied = match IoShare::of_rank(rank, size, size) {
                Some(share) => larger.cache().copy_from(old.cache(), share, end),
                None => Ok(()),
            };
            let new_end = Arc::new(larger.cache().end(end)?);
            agree(&self.team, &self.path, &call, &copied.map(|()| 0))?;
            if let Some(pause) = pause {
                pause.replace(larger.cache().clone(), new_end.clone());
            }
            self.end = new_end;
            self.memory = CacheMemory::Whole(larger);
        }
        if let CacheMemory::Whole(memory) = &self.memory {
            memory.touch(bytes);
        }
        self.room = Some(bytes);
        Ok(())
    }

    /// Starts the write-back of this rank, if the file has one.
    fn start_write_back(&mut self, bytes: u64) {
        let age = self.settings.write_back.age(bytes).filter(|_| !self.settings.replace);
        let (Some(age), None) = (age, &self.write_back) else { return };
        let (Some(backing), Some(share), CacheMemory::Whole(memory)) =
            (&self.backing, self.share_of_writing(), &self.memory)
        else {
            return;
        };
        let task = WriteBackTask {
            memory: memory.cache().clone(),
            backing: backing.clone(),
            end: self.end.clone(),
            share,
            observer: self.settings.observer,
            failure: None,
        };
        // Without the thread, the flush writes everything.
        match WriteBack::start(task, age) {
            Ok(started) => self.write_back = Some(started),
            Err(error) => tracing::warn!("no write-back of {}: {error}", self.path),
        }
    }

    fn check_reserve(&self, bytes: u64) -> Result<(), RankFailure> {
        if !self.settings.write {
            return Err(RankFailure::invalid(
                "cannot reserve anything: the file was opened for reading only",
            ));
        }
        if bytes > OFFSET_LIMIT {
            return Err(RankFailure::invalid("cannot reserve more than 2^62 bytes"));
        }
        Ok(())
    }

    /// Reads into a buffer from an offset on; fewer bytes than the buffer has only at the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        if !self.settings.read {
            let path = &self.path;
            return Err(Error::invalid(format!("{path}: the file was not opened for reading")));
        }
        let last = offset.saturating_add(buffer.len() as u64);
        let left = self.end.at_least(last)?.saturating_sub(offset);
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        match &self.memory {
            _ if here == 0 => {}
            CacheMemory::Whole(whole) => whole.cache().get(&mut buffer[..here], offset)?,
            CacheMemory::Pages(pages) => {
                pages.get(&self.page_io()?, &mut buffer[..here], offset)?
            }
        }
        Ok(here)
    }

    /// Fills a buffer from an offset on. If the file has fewer bytes, the call fails.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let wanted = buffer.len();
        if self.read_at(buffer, offset)? == wanted {
            return Ok(());
        }
        let (path, len) = (self.path.clone(), self.len()?);
        Err(Error::Ended { path, len, offset, wanted: wanted as u64 })
    }

    /// Writes all of a buffer from an offset on, within the reserved length.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> Result<(), Error> {
        let room = self.writable_room()?;
        if self.settings.append {
            let path = &self.path;
            let text =
                format!("{path}: it was opened for appending; write to its end, or open it so");
            return Err(Error::invalid(text));
        }
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= room);
        let Some(end) = end else { return Err(self.beyond(buffer.len(), offset, room)) };
        if buffer.is_empty() {
            return Ok(());
        }
        self.end.raise(end)?;
        self.put(buffer, offset)
    }

    /// Writes all of a buffer at the end of a file that was opened for appending, and returns its
    /// offset. No two appends overlap, on any ranks.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("log");
    /// # let job = pario::Job::new("append", 1, 0)?;
    /// # use pario::CachedOptions;
    /// std::fs::write(&path, "old\n").unwrap();
    /// let mut log = job.cache_with(&path, &CachedOptions::new().write(true).append(true))?;
    /// log.reserve(1000)?;
    /// assert_eq!(log.append(b"new\n")?, 4);
    /// log.close()?;
    /// assert_eq!(std::fs::read(&path).unwrap(), b"old\nnew\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn append(&self, buffer: &[u8]) -> Result<u64, Error> {
        let room = self.writable_room()?;
        if !self.settings.append {
            let path = &self.path;
            return Err(Error::invalid(format!("{path}: it was not opened for appending")));
        }
        match self.end.append(buffer.len() as u64, room)? {
            Ok(start) if buffer.is_empty() => Ok(start),
            Ok(start) => self.put(buffer, start).map(|()| start),
            Err(end) => Err(self.beyond(buffer.len(), end, room)),
        }
    }

    fn writable_room(&self) -> Result<u64, Error> {
        let path = &self.path;
        if !self.settings.write {
            return Err(Error::invalid(format!("{path}: the file was not opened for writing")));
        }
        self.room.ok_or_else(|| {
            Error::invalid(format!(
                "{path}: nothing can be written before all ranks have said how long the file can \
                 become: call reserve (do_lsize in C) after the open"
            ))
        })
    }

    fn beyond(&self, len: usize, offset: u64, room: u64) -> Error {
        Error::invalid(format!(
            "{}: {len} bytes at byte {offset} end beyond the {room} bytes that were reserved; reserve \
             more (do_lsize in C)",
            self.path
        ))
    }

    fn put(&self, buffer: &[u8], offset: u64) -> Result<(), Error> {
        if !self.is_changed.load(Ordering::Relaxed) {
            self.is_changed.store(true, Ordering::Relaxed);
        }
        match &self.memory {
            CacheMemory::Whole(whole) => whole.cache().put(buffer, offset),
            CacheMemory::Pages(pages) => pages.put(&self.page_io()?, buffer, offset),
        }
    }

    fn page_io(&self) -> Result<PageIo<'_>, Error> {
        let missing = || Error::other(format!("{}: this rank does not have the file", self.path));
        let backing = self.backing.as_ref().ok_or_else(missing)?;
        Ok(PageIo { backing, end: &self.end, path: &self.path, team: &self.team })
    }

    /// Makes the writes of all ranks durable. If no rank has written since the last flush, no disk is
    /// touched. A flush that fails, fails for all ranks; bytes that were flushed before are safe, and
    /// the ranks can try again. After a failed sync every flush fails. Collective.
    pub fn flush(&mut self) -> Result<(), Error> {
        let call = format!("flush of {}", self.path);
        self.write_back(&call)
    }

    /// Makes the writes of all ranks durable, and closes the file. A close that fails closes the file
    /// as well: to be able to try again, call [`flush`](Self::flush) first. Collective.
    pub fn close(mut self) -> Result<(), Error> {
        let call = format!("close of {}", self.path);
        self.write_back(&call)
    }
}

impl CacheMemory {
    fn fence(&self) -> Result<(), Error> {
        match self {
            Self::Whole(whole) => whole.cache().fence(),
            Self::Pages(pages) => pages.fence(),
        }
    }

    fn array(&self) -> &RawArray {
        match self {
            Self::Whole(whole) => whole.cache().array(),
            Self::Pages(pages) => pages.array(),
        }
    }

    fn dirty(&self, share: IoShare, end: u64) -> Result<Vec<DirtyRun>, RankFailure> {
        match self {
            Self::Whole(whole) => whole.cache().dirty(share, end, false),
            Self::Pages(pages) => pages.dirty(share, end),
        }
    }

    fn mark(&self, dirty: &[DirtyRun], is_changed: bool) -> Result<(), RankFailure> {
        match self {
            Self::Whole(whole) => whole.cache().mark(dirty, is_changed),
            Self::Pages(pages) => pages.mark(dirty, is_changed),
        }
    }
}

impl fmt::Debug for CachedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedFile({:?}, {:?})", self.path, self.job)
    }
}

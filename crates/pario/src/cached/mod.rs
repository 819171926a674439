//! Files that are in the memory of all processes of a job.
//!
//! A [`CachedFile`] is opened by all ranks of a [`Team`] together: a few of them read it in large
//! pieces, and afterwards each rank reads and writes it wherever it wants, as fast as memory is, with
//! a pointer of its own. [`flush`](CachedFile::flush) and [`close`](CachedFile::close), called by all
//! together, write back what was changed. docs/memory.md tells how, and what can be relied on.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("mesh.bin");
//! use pario::{CachedFile, CachedOptions};
//!
//! let team = pario::team::from_env()?; // no cluster is needed for plain files
//! let mut mesh = CachedOptions::new().write(true).create(true).open(&team, &path)?;
//! mesh.reserve(8 * u64::from(team.size()))?; // how long it can become; more does no harm
//! mesh.write_at(&[7; 8], 8 * u64::from(team.rank()))?; // a copy, not a system call
//! mesh.close()?; // durable now
//!
//! let mesh = CachedFile::open(&team, &path)?;
//! let mut element = [0; 8];
//! mesh.read_exact_at(&mut element, 0)?;
//! assert_eq!(element, [7; 8]);
//! # Ok(())
//! # }
//! ```

mod agreement;
mod disk;
mod end;
mod flush;
mod group;
mod options;
mod place;
mod pointer;
mod resident;
mod share;
mod whole;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pario_team::{RawArray, Team};

pub use disk::CachedStatistics;
#[doc(hidden)]
pub use flush::Step;
pub use options::CachedOptions;
pub use place::Place;

use crate::error::Error;
use agreement::{Trouble, agree};
use disk::{Counted, Disk};
use end::End;
use flush::Dirty;
use options::Settings;
use resident::{Resident, Using};
use share::Share;
use whole::Whole;

/// The largest offset of a byte.
const OFFSET_LIMIT: u64 = 1 << 62;

/// A file in the memory of all ranks of a team, as one of them has it open.
///
/// `open`, `reserve`, `flush` and `close` are called by all ranks together, and fail for all of them
/// if they fail for one; everything else is this rank's own business. Ranks that write the same bytes
/// at the same time may leave a mixture of them.
///
/// What one rank has written the others see after a barrier of the team, and at the latest after a
/// flush. Bytes that nobody has written are zero. What was not flushed when the file is dropped, or
/// when a process of the job ends, is lost; what was flushed is not.
///
/// It can also be used with [`Read`](std::io::Read), [`Write`](std::io::Write) and
/// [`Seek`](std::io::Seek), with a pointer of this rank's own; the flush of `Write` does nothing.
pub struct CachedFile {
    team: Team,
    place: Place,
    path: String,
    settings: Settings,
    end: End,
    memory: Memory,
    /// The file, if this rank has something to do with it.
    disk: Option<Disk>,
    /// How long it may become; nothing was said yet at first.
    room: Option<u64>,
    position: u64,
    /// Whether this rank has changed something since the last flush.
    is_changed: AtomicBool,
    /// A sync has failed: no later success is reported.
    poison: Option<Error>,
    counted: Arc<Counted>,
}

/// Where the bytes are.
enum Memory {
    /// All of them in memory.
    Whole(Whole),
    /// Some pages of them.
    Resident(Resident),
}

impl CachedFile {
    /// Opens a file for reading, together with all ranks of the team.
    pub fn open(team: &Team, place: impl Into<Place>) -> Result<Self, Error> {
        CachedOptions::new().read(true).open(team, place)
    }

    /// The path with which it was opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The team that has it open.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// How long it is: to the highest byte that anybody has written.
    pub fn len(&self) -> Result<u64, Error> {
        self.end.now()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// What this rank has read from the disk and written to it.
    pub fn statistics(&self) -> CachedStatistics {
        self.counted.now()
    }

    /// Says how long the file can become, together with all others; nobody can write before. To say
    /// too much does no harm: the file gets as long as what is written. It cannot be less than what
    /// is in the file already. It may be said again.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("x");
    /// # let team = pario::team::Team::meet("reserve", 1, 0)?;
    /// # use pario::CachedOptions;
    /// let mut file = CachedOptions::new().write(true).create(true).open(&team, &path)?;
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
        let call = format!("reserve of {bytes} bytes for {}", self.path);
        let wish = self.check_wish(bytes);
        agree(&self.team, &self.path, &call, &wish.map(|()| 0))?;
        let end = self.end.now()?;
        if bytes < end {
            return Err(Error::invalid(format!(
                "{}: {bytes} bytes cannot be enough: {end} are in the file already",
                self.path
            )));
        }
        if let Memory::Whole(whole) = &self.memory
            && whole.len() < bytes
        {
            let larger = Whole::new(&self.team, &self.path, bytes)?;
            if self.settings.prefault {
                larger.array().prefault()?;
            }
            let (rank, size) = (self.team.rank(), self.team.size());
            let copied = match Share::of_rank(rank, size, size) {
                Some(share) => larger.copy_from(whole, share, end),
                None => Ok(()),
            };
            agree(&self.team, &self.path, &call, &copied.map(|()| 0))?;
            self.memory = Memory::Whole(larger);
        }
        self.room = Some(bytes);
        Ok(())
    }

    fn check_wish(&self, bytes: u64) -> Result<(), Trouble> {
        if !self.settings.write {
            return Err(Trouble::invalid(
                "cannot reserve anything: the file was opened for reading only",
            ));
        }
        if bytes > OFFSET_LIMIT {
            return Err(Trouble::invalid("cannot reserve more than 2^62 bytes"));
        }
        Ok(())
    }

    /// Reads into a buffer from an offset on; fewer bytes than asked for only at the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        if !self.settings.read {
            let path = &self.path;
            return Err(Error::invalid(format!("{path}: the file was not opened for reading")));
        }
        let wanted = offset.saturating_add(buffer.len() as u64);
        let left = self.end.enough(wanted)?.saturating_sub(offset);
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        match &self.memory {
            _ if here == 0 => {}
            Memory::Whole(whole) => whole.get(&mut buffer[..here], offset)?,
            Memory::Resident(pages) => pages.get(&self.using()?, &mut buffer[..here], offset)?,
        }
        Ok(here)
    }

    /// Reads exactly as many bytes as the buffer has; that there are fewer before the end is an error.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let wanted = buffer.len();
        if self.read_at(buffer, offset)? == wanted {
            return Ok(());
        }
        let (path, len) = (self.path.clone(), self.len()?);
        Err(Error::Ended { path, len, offset, wanted: wanted as u64 })
    }

    /// Writes all of a buffer from an offset on, within what was reserved.
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

    /// Writes all of a buffer to the end of the file, of a file that was opened for it. No two
    /// appends overlap, whoever makes them. Where it begins.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("log");
    /// # let team = pario::team::Team::meet("append", 1, 0)?;
    /// # use pario::CachedOptions;
    /// std::fs::write(&path, "old\n").unwrap();
    /// let mut log = CachedOptions::new().write(true).append(true).open(&team, &path)?;
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
        match self.end.take(buffer.len() as u64, room)? {
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
            Memory::Whole(whole) => whole.put(buffer, offset),
            Memory::Resident(pages) => pages.put(&self.using()?, buffer, offset),
        }
    }

    fn using(&self) -> Result<Using<'_>, Error> {
        let missing = || Error::other(format!("{}: this rank does not have the file", self.path));
        let disk = self.disk.as_ref().ok_or_else(missing)?;
        Ok(Using { disk, end: &self.end, path: &self.path, team: &self.team })
    }

    /// Makes durable what all ranks have written, together with all of them. If nobody has written
    /// anything since the last time, nothing is done. If it fails, it fails for all, what was flushed
    /// before is kept, and it can be tried again; after a sync that failed, it fails for ever.
    pub fn flush(&mut self) -> Result<(), Error> {
        let call = format!("flush of {}", self.path);
        self.write_back(&call)
    }

    /// Makes durable what all ranks have written, and closes the file, together with all of them.
    /// It is closed also if that fails: who wants to try again calls [`flush`](Self::flush) before.
    pub fn close(mut self) -> Result<(), Error> {
        let call = format!("close of {}", self.path);
        self.write_back(&call)
    }
}

impl Memory {
    fn fence(&self) -> Result<(), Error> {
        match self {
            Self::Whole(whole) => whole.fence(),
            Self::Resident(pages) => pages.fence(),
        }
    }

    fn array(&self) -> &RawArray {
        match self {
            Self::Whole(whole) => whole.array(),
            Self::Resident(pages) => pages.array(),
        }
    }

    fn dirty(&self, share: Share, end: u64) -> Result<Vec<Dirty>, Trouble> {
        match self {
            Self::Whole(whole) => whole.dirty(share, end, false),
            Self::Resident(pages) => pages.dirty(share, end),
        }
    }

    fn mark(&self, dirty: &[Dirty], is_changed: bool) -> Result<(), Trouble> {
        match self {
            Self::Whole(whole) => whole.mark(dirty, is_changed),
            Self::Resident(pages) => pages.mark(dirty, is_changed),
        }
    }
}

impl fmt::Debug for CachedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CachedFile({:?}, {:?})", self.path, self.team)
    }
}

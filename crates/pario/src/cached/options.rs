//! How a cached file is opened.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pario_proto::Access;
use pario_team::Team;
use rustix::io::Errno;

use super::agreement::{Trouble, agree};
use super::disk::{Counted, Disk};
use super::end::End;
use super::flush::Step;
use super::place::{Backing, Place, Wanted};
use super::resident::Resident;
use super::share::{Share, sees};
use super::whole::Whole;
use super::{CachedFile, Memory};
use crate::error::Error;

/// Ranks that read or write at a time, if nothing else is said.
const FEW: u32 = 4;

/// How a cached file is opened. All ranks say the same.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("state");
/// # let team = pario::team::Team::meet("options", 1, 0)?;
/// use pario::CachedOptions;
///
/// let options = CachedOptions::new()
///     .read(true)
///     .write(true)
///     .create(true)
///     .replace(true); // a crash leaves the old file or the new one
/// let mut state = options.open(&team, &path)?;
/// state.reserve(1 << 20)?;
/// state.write_at(b"step 7", 0)?;
/// state.close()?;
/// assert_eq!(std::fs::read(&path)?, b"step 7");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it opens nothing until `open` is called"]
pub struct CachedOptions {
    pub(super) settings: Settings,
}

#[derive(Clone, Debug)]
pub struct Settings {
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
    pub is_copying: bool,
    pub observer: Option<fn(Step)>,
}

impl Default for CachedOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl CachedOptions {
    /// Nothing is wanted yet.
    pub fn new() -> Self {
        let settings = Settings {
            read: false,
            write: false,
            create: false,
            create_new: false,
            truncate: false,
            append: false,
            replace: false,
            memory: None,
            prefault: false,
            readers: FEW,
            writers: FEW,
            mode: 0o644,
            is_copying: false,
            observer: None,
        };
        Self { settings }
    }

    /// For reading: the file is read when it is opened.
    pub fn read(mut self, yes: bool) -> Self {
        self.settings.read = yes;
        self
    }

    /// For writing. A file that is opened for writing and not for reading is emptied, unless it is
    /// appended to.
    pub fn write(mut self, yes: bool) -> Self {
        self.settings.write = yes;
        self
    }

    /// For what an access says.
    pub fn access(self, access: Access) -> Self {
        self.read(access.read).write(access.write)
    }

    /// Creates the file if it is not there.
    pub fn create(mut self, yes: bool) -> Self {
        self.settings.create = yes;
        self
    }

    /// Creates the file; that it is there already is an error.
    pub fn create_new(mut self, yes: bool) -> Self {
        self.settings.create_new = yes;
        self
    }

    /// Empties a file that is there.
    pub fn truncate(mut self, yes: bool) -> Self {
        self.settings.truncate = yes;
        self
    }

    /// Every write goes to the end of the file, wherever the others have moved it.
    pub fn append(mut self, yes: bool) -> Self {
        self.settings.append = yes;
        self
    }

    /// A flush writes a new file beside the old one and puts it in its place when it is durable: a
    /// crash leaves the one or the other. Each flush writes the whole file.
    ///
    /// The file keeps its permissions and owner; other names of it (hard links) keep the old one.
    /// A process that is killed during a flush leaves `.NAME.pario-NUMBER` behind, which is of no use.
    pub fn replace(mut self, yes: bool) -> Self {
        self.settings.replace = yes;
        self
    }

    /// How much memory all ranks together use for pages of the file: pages that are not there are
    /// read when they are needed, and others make room for them. What was written may get to the
    /// disk before a flush; it is durable after the flush, as always.
    ///
    /// If nothing is said, all of the file is in memory. A plain file can be kept so only by a team on
    /// one machine.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.settings.memory = Some(bytes);
        self
    }

    /// Takes the memory for what is reserved at once, and not page by page when it is first written:
    /// writing is at the speed of memory from the first byte on, and what was reserved in vain is
    /// taken as well. It means nothing together with [`memory`](Self::memory).
    pub fn prefault(mut self, yes: bool) -> Self {
        self.settings.prefault = yes;
        self
    }

    /// How many ranks read from the disk at a time when the file is opened: 4 if nothing is said.
    pub fn readers(mut self, count: u32) -> Self {
        self.settings.readers = count;
        self
    }

    /// How many ranks write to the disk at a time in a flush: 4 if nothing is said.
    pub fn writers(mut self, count: u32) -> Self {
        self.settings.writers = count;
        self
    }

    /// Permissions of a new file: `0o644` if nothing is said.
    pub fn mode(mut self, mode: u32) -> Self {
        self.settings.mode = mode;
        self
    }

    /// Bytes go through memory of the process that reads or writes, as they do to ranks of other
    /// machines.
    #[doc(hidden)]
    pub fn copying(mut self, yes: bool) -> Self {
        self.settings.is_copying = yes;
        self
    }

    /// Is called at each step of a flush.
    #[doc(hidden)]
    pub fn observer(mut self, observer: fn(Step)) -> Self {
        self.settings.observer = Some(observer);
        self
    }

    /// Opens the file together with all ranks of the team.
    pub fn open(&self, team: &Team, place: impl Into<Place>) -> Result<CachedFile, Error> {
        let settings = self.settings.clone();
        let given = place.into();
        let place = settings.check().and_then(|()| settings.check_reach(team, &given));
        let place = place.and_then(|()| given.absolute());
        let path = match (0..team.size()).all(|rank| sees(team, &given, rank)) {
            true => place.as_ref().unwrap_or(&given).to_string(),
            false => given.called(),
        };
        let call = format!("open of {path} {settings}");
        agree(team, &path, &call, &place.as_ref().map(|_| 0).map_err(Clone::clone))?;
        let place = place.unwrap_or(given);
        let counted = Arc::new(Counted::default());

        // The first one creates and empties it; the others find it so.
        let first = (team.rank() == 0).then(|| settings.open_first(&place));
        let told = match &first {
            Some(Ok((_, len, _))) => Ok(*len),
            Some(Err(why)) => Err(why.clone()),
            None => Ok(0),
        };
        let len = agree(team, &path, &call, &told)?[0];

        let reading = Share::of(team, &place, settings.readers);
        let writing = Share::of(team, &place, settings.writers);
        let is_resident = settings.memory.is_some_and(|bytes| settings.write || len > bytes);
        let is_emptied = matches!(&first, Some(Ok((_, _, true))));
        let opened = match first {
            Some(Ok((backing, _, _))) => Ok(Some(backing)),
            Some(Err(why)) => Err(why),
            None if reading.is_some() || writing.is_some() || is_resident => {
                settings.open_again(&place).map(Some)
            }
            None => Ok(None),
        };
        let disk = opened.map(|backing| {
            backing.map(|backing| Disk::new(backing, &counted, settings.is_copying))
        });
        let disk = disk.map_err(|why| why.doing("cannot open it"));

        let end = End::new(team, len)?;
        let memory = match settings.memory.filter(|_| is_resident) {
            Some(bytes) => Memory::Resident(Resident::new(team, bytes)?),
            None => Memory::Whole(Whole::new(team, &path, len)?),
        };
        let needed = settings.first_needed(len);
        let is_taken = match &memory {
            Memory::Whole(whole) if needed == 0 && len > 0 => {
                let is_taken = whole.take();
                // Nobody reads to where another one has not taken it.
                team.barrier()?;
                is_taken
            }
            _ => false,
        };
        let loaded = match (&disk, reading, &memory) {
            (Ok(Some(disk)), Some(share), Memory::Whole(whole)) => whole
                .load(disk, share, needed, is_taken)
                .and_then(|()| whole.fence().map_err(Trouble::from)),
            (Err(why), _, _) => Err(why.clone()),
            _ => Ok(()),
        };
        agree(team, &path, &call, &loaded.map(|()| 0))?;
        if let (Memory::Whole(whole), true) = (&memory, settings.prefault) {
            whole.array().make_ready();
        }
        let disk = disk.ok().flatten().filter(|_| settings.write || is_resident);
        if let Some(disk) = disk.as_ref().filter(|_| is_emptied) {
            disk.note_change();
        }
        Ok(CachedFile {
            team: team.clone(),
            place,
            path,
            settings,
            end,
            memory,
            disk,
            room: None,
            position: 0,
            is_changed: AtomicBool::new(is_emptied),
            poison: None,
            counted,
        })
    }
}

impl Settings {
    fn check(&self) -> Result<(), Trouble> {
        let wrong = |text: &str| Err(Trouble::invalid(text));
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

    /// Pages that are not in memory are read and written by whoever needs them.
    fn check_reach(&self, team: &Team, place: &Place) -> Result<(), Trouble> {
        let stranger = (0..team.size()).find(|rank| !sees(team, place, *rank));
        match stranger.filter(|_| self.memory.is_some()) {
            None => Ok(()),
            Some(rank) => Err(Trouble::invalid(format!(
                "cannot keep only a part of it in memory: it is a plain file of the machine of rank \
                 0, and rank {rank} is on another; keep all of it in memory, or put it into a cluster"
            ))),
        }
    }

    /// Whether what is in the file does not matter.
    fn is_emptied(&self) -> bool {
        self.truncate || (!self.read && !self.append)
    }

    fn wanted(&self) -> Wanted {
        // Pages that are only partly written are read first.
        let needs_rest = self.memory.is_some() || self.append;
        Wanted {
            read: self.read || needs_rest,
            write: self.write,
            mode: self.mode,
            ..Wanted::default()
        }
    }

    /// Opens it as the first one: the file, its length, and whether there was something that is not
    /// there any more.
    fn open_first(&self, place: &Place) -> Result<(Backing, u64, bool), Trouble> {
        let wanted = self.wanted();
        let cannot = |why: Trouble| why.doing("cannot open it");
        let create = |is_new| {
            let created = place.open(Wanted { create: true, is_new, ..wanted });
            let created = created.map_err(|why| why.doing("cannot create it"))?;
            place.sync_name().map_err(cannot)?;
            Ok::<Backing, Trouble>(created)
        };
        let backing = if self.create_new {
            create(true)?
        } else {
            match place.open(wanted) {
                Err(why) if self.create && why.number == Errno::NOENT.raw_os_error() => {
                    create(false)?
                }
                opened => opened.map_err(cannot)?,
            }
        };
        let len = backing.len().map_err(cannot)?;
        if !self.is_emptied() || !self.write {
            return Ok((backing, len, false));
        }
        if len > 0 && !self.replace {
            backing.set_len(0).map_err(|why| why.doing("cannot empty it"))?;
        }
        Ok((backing, 0, len > 0))
    }

    fn open_again(&self, place: &Place) -> Result<Backing, Trouble> {
        place.open(self.wanted())
    }

    /// The first byte of the file that somebody may want to see.
    fn first_needed(&self, len: u64) -> u64 {
        if self.read || self.replace { 0 } else { len }
    }
}

/// What all ranks must say alike, for people.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match (self.read, self.write) {
            (true, true) => "for reading and writing",
            (true, false) => "for reading",
            (false, true) => "for writing",
            (false, false) => "for nothing",
        };
        f.write_str(access)?;
        let wishes = [
            (self.create || self.create_new, "created"),
            (self.create_new, "new"),
            (self.truncate, "emptied"),
            (self.append, "appended to"),
            (self.replace, "replaced"),
        ];
        for (_, wish) in wishes.iter().filter(|(is_wanted, _)| *is_wanted) {
            write!(f, ", {wish}")?;
        }
        if self.prefault {
            f.write_str(", with memory at once")?;
        }
        if let Some(bytes) = self.memory {
            write!(f, ", in {bytes} bytes of memory")?;
        }
        if (self.readers, self.writers) != (FEW, FEW) {
            write!(f, ", by {} readers and {} writers", self.readers, self.writers)?;
        }
        Ok(())
    }
}

//! The state of an open extent subfile and the steps that change it.
//!
//! A write goes: reserve a run of granules → write the block there → commit (journal record, then
//! index). Nothing that is live, or could become live again after a power loss, is overwritten: a
//! replaced run waits in `limbo` until what replaced it is durable.
//!
//! Locks, in the order they are taken: `checkpointing`, `syncing`, `state`. The first two are held
//! while disks work, `state` only for moments; data is read and written outside of it.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use super::block::{Entry, ExtentBuffer, MAX_EXTENT_INDEX, Run, granules_for};
use super::journal::{Change, Old, Segment};
use super::room::Reservation;
use super::space::Space;
use crate::buffer::BufferPool;
use crate::cache::ExtentCache;
use crate::disk::remove_tree;
use crate::error::{Place, StoreError};
use crate::index::{Load, PAGE_BYTES, PageFault, PageWanted, Pages, Tree};
use crate::keeper::Keeper;
use crate::medium::{Medium, MediumFile};

/// So much of the index around a page is read for somebody who will look many extents up.
const PAGES_AHEAD_BYTES: u64 = 256 << 10;

/// Limits of one extent subfile; see the fields of [`crate::DiskOptions`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) index_cache_bytes: usize,
    pub(crate) unsynced_bytes: u64,
    pub(crate) journal_bytes: u64,
}

/// What all handles of an open extent subfile share.
pub(crate) struct Shared {
    pub(crate) place: Place,
    pub(crate) granule_bytes: u32,
    pub(crate) read_only: bool,
    pub(crate) limits: Limits,
    pub(crate) medium: Arc<dyn Medium>,
    /// The directory of the subfile; it moves when an open subfile is removed.
    pub(crate) dir: RwLock<String>,
    pub(crate) data: Arc<dyn MediumFile>,
    pub(crate) index_file: Arc<dyn MediumFile>,
    pub(crate) pool: BufferPool,
    pub(crate) cache: ExtentCache,
    /// Distinguishes this opening from all others of the process, in the cache.
    pub(crate) opening: u64,
    pub(crate) keeper: Keeper,
    pub(crate) keeper_called: AtomicBool,
    pub(crate) checkpointing: Mutex<()>,
    pub(crate) syncing: Mutex<()>,
    pub(crate) state: Mutex<State>,
    pub(crate) poison: OnceLock<String>,
    pub(crate) removed: AtomicBool,
    /// Keeps other processes away as long as anything of the disk is open.
    pub(crate) _lock: Arc<dyn Any + Send + Sync>,
}

pub(crate) struct State {
    pub(crate) pages: Pages,
    pub(crate) extents: Tree,
    pub(crate) space: Space,
    pub(crate) count: u64,
    pub(crate) live_bytes: u64,
    pub(crate) next_version: u64,
    /// Absent in a subfile that is open for reading only.
    pub(crate) segment: Option<Segment>,
    /// Segments that the next durable checkpoint makes superfluous.
    pub(crate) older_segments: Vec<(u64, Arc<dyn MediumFile>)>,
    /// Runs that are free when the change with this sequence number is durable.
    pub(crate) limbo: VecDeque<(u64, Run)>,
    pub(crate) limbo_granules: u64,
    /// Runs that are being written, by position.
    pub(crate) reserved: HashMap<u64, u64>,
    /// Sequence number of the last change, and of the last one that is durable.
    pub(crate) changed: u64,
    pub(crate) synced: u64,
    /// Bytes written since the last sync began.
    pub(crate) unsynced_bytes: u64,
    /// One past the last granule that the data file has space for.
    pub(crate) allocated_end: u64,
    /// Whether there are changes that no checkpoint has.
    pub(crate) needs_checkpoint: bool,
}

/// What the index says of an extent.
pub(crate) enum Found {
    Absent,
    At(Entry),
    /// The answer needs a page that is not in memory.
    Wants(PageWanted),
}

static OPENINGS: AtomicU64 = AtomicU64::new(1);

/// A number that no other opening of this process has.
pub(crate) fn next_opening() -> u64 {
    OPENINGS.fetch_add(1, Ordering::Relaxed)
}

/// What to do about an extent subfile whose sync has failed: its journal knows what is durable.
const REOPEN: &str = "close it and open it again to continue from what is safely on the disk";

impl Shared {
    pub(crate) fn check_index(index: u64) -> Result<(), StoreError> {
        if index > MAX_EXTENT_INDEX {
            return Err(StoreError::IndexOutOfRange { index, max: MAX_EXTENT_INDEX });
        }
        Ok(())
    }

    /// An error if the subfile takes no changes.
    pub(crate) fn check_writable(&self, action: &str) -> Result<(), StoreError> {
        if self.read_only {
            return Err(self.place.read_only(action));
        }
        match self.poison.get() {
            Some(reason) => Err(self.place.poisoned(reason, REOPEN)),
            None => Ok(()),
        }
    }

    /// Refuses all later changes.
    pub(crate) fn poison(&self, error: StoreError) -> StoreError {
        let _ = self.poison.set(error.to_string());
        error
    }

    pub(crate) fn fault(&self, fault: PageFault, extent: Option<u64>) -> StoreError {
        match fault {
            PageFault::Damaged(what) => self.place.damaged(extent, what),
            PageFault::Io(error) => self.place.io(error, "reading the index"),
            PageFault::Absent(_) => unreachable!("a page that is waited for is never absent"),
        }
    }

    /// Bytes that an extent takes on the disk.
    pub(crate) fn disk_bytes(&self, payload_bytes: u64) -> usize {
        let bytes = granules_for(payload_bytes, self.granule_bytes) * u64::from(self.granule_bytes);
        usize::try_from(bytes).expect("extents are limited")
    }

    pub(crate) fn byte_position(&self, granule: u64) -> u64 {
        granule * u64::from(self.granule_bytes)
    }

    /// Looks an extent up, without reading from the disk.
    pub(crate) fn find(&self, index: u64) -> Result<Found, StoreError> {
        let mut state = self.state.lock();
        let State { pages, extents, .. } = &mut *state;
        match extents.get(pages, index, Load::Refuse) {
            Ok(Some(value)) => self.checked(index, Entry::from_value(value)).map(Found::At),
            Ok(None) => Ok(Found::Absent),
            Err(PageFault::Absent(wanted)) => Ok(Found::Wants(wanted)),
            Err(fault) => Err(self.fault(fault, Some(index))),
        }
    }

    /// Takes an index page that was read.
    pub(crate) fn supply(
        &self,
        wanted: PageWanted,
        bytes: Box<[u8; PAGE_BYTES]>,
        extent: Option<u64>,
    ) -> Result<(), StoreError> {
        let supplied = self.state.lock().pages.supply(wanted, bytes);
        supplied.map(|_| ()).map_err(|fault| self.fault(fault, extent))
    }

    /// Looks an extent up and reads what is needed of the index.
    pub(crate) fn find_waiting(&self, index: u64) -> Result<Option<Entry>, StoreError> {
        self.find_page_by_page(index, |_| ())
    }

    /// The same for somebody who will look many up: of the index, more than is needed is read.
    pub(crate) fn find_of_many(&self, index: u64) -> Result<Option<Entry>, StoreError> {
        self.find_page_by_page(index, |wanted| {
            let around = wanted.position() / PAGES_AHEAD_BYTES * PAGES_AHEAD_BYTES;
            self.index_file.will_need(around, PAGES_AHEAD_BYTES);
        })
    }

    fn find_page_by_page(
        &self,
        index: u64,
        before_wait: impl Fn(PageWanted),
    ) -> Result<Option<Entry>, StoreError> {
        loop {
            match self.find(index)? {
                Found::Absent => return Ok(None),
                Found::At(entry) => return Ok(Some(entry)),
                Found::Wants(wanted) => {
                    before_wait(wanted);
                    let mut bytes = Box::new([0; PAGE_BYTES]);
                    let read = self.index_file.read_at(&mut bytes[..], wanted.position());
                    read.map_err(|error| self.place.io(error, "reading the index"))?;
                    self.supply(wanted, bytes, Some(index))?;
                }
            }
        }
    }

    /// An entry whose numbers are possible.
    fn checked(&self, index: u64, entry: Entry) -> Result<Entry, StoreError> {
        let limit = super::block::EXTENT_LIMIT_BYTES as u64;
        if entry.payload_bytes() > limit || entry.position >= super::space::MAX_GRANULES {
            return Err(self.place.damaged(Some(index), "the index gives impossible numbers"));
        }
        Ok(entry)
    }

    /// Seals a block for its place.
    pub(crate) fn seal(&self, reservation: &Reservation, extent: &mut ExtentBuffer) -> Entry {
        let Reservation { index, run, version } = *reservation;
        let disk_bytes = self.disk_bytes(extent.payload_bytes());
        extent.seal(self.place.subfile, index, version, run.position, disk_bytes)
    }

    /// Makes a written block part of the subfile. With `moved_from`, only if the extent is still
    /// there: the answer says whether it was.
    pub(crate) fn commit(
        &self,
        reservation: &Reservation,
        entry: Entry,
        moved_from: Option<Entry>,
    ) -> Result<bool, StoreError> {
        let index = reservation.index;
        let committed = self.or_with_less(|| self.try_commit(index, entry, moved_from));
        if !matches!(committed, Ok(true)) {
            self.cancel(reservation);
        }
        committed
    }

    fn try_commit(
        &self,
        index: u64,
        entry: Entry,
        moved_from: Option<Entry>,
    ) -> Result<bool, StoreError> {
        self.check_writable("write to")?;
        let mut state = self.state.lock();
        let State { pages, extents, .. } = &mut *state;
        let old = extents.get(pages, index, Load::Wait);
        let old = old.map_err(|fault| self.fault(fault, Some(index)))?;
        let old = old.map(|old| self.checked(index, Entry::from_value(old))).transpose()?;
        if moved_from.is_some() && moved_from != old {
            return Ok(false);
        }
        let change = Change::Put { index, entry, old: old.map(to_old) };
        let sequence = self.append(&mut state, change, index)?;
        let State { pages, extents, .. } = &mut *state;
        if let Err(fault) = extents.insert(pages, index, entry.to_value()) {
            return Err(self.poison(self.fault(fault, Some(index))));
        }
        state.reserved.remove(&entry.position);
        state.count += u64::from(old.is_none());
        state.live_bytes += entry.payload_bytes();
        state.unsynced_bytes += entry.payload_bytes();
        if let Some(old) = old {
            self.retire(&mut state, sequence, old);
        }
        Ok(true)
    }

    /// Deletes an extent; the answer says whether it was there.
    pub(crate) fn delete(&self, index: u64) -> Result<bool, StoreError> {
        self.check_writable("delete from")?;
        let mut state = self.state.lock();
        let State { pages, extents, .. } = &mut *state;
        let old = extents.get(pages, index, Load::Wait);
        let Some(old) = old.map_err(|fault| self.fault(fault, Some(index)))? else {
            return Ok(false);
        };
        let old = self.checked(index, Entry::from_value(old))?;
        let sequence =
            self.append(&mut state, Change::Delete { index, old: to_old(old) }, index)?;
        let State { pages, extents, .. } = &mut *state;
        if let Err(fault) = extents.remove(pages, index) {
            return Err(self.poison(self.fault(fault, Some(index))));
        }
        state.count = state.count.saturating_sub(1);
        self.retire(&mut state, sequence, old);
        Ok(true)
    }

    fn append(&self, state: &mut State, change: Change, index: u64) -> Result<u64, StoreError> {
        let segment = state.segment.as_mut().expect("a writable subfile has a journal");
        let sequence = segment.append(change).map_err(|error| {
            let action = format!("note the change of extent {index} of {}", self.place.subfile);
            self.place.disk.io(error, action)
        })?;
        state.changed = sequence;
        state.needs_checkpoint = true;
        Ok(sequence)
    }

    /// The run of a replaced extent waits until what replaced it is durable.
    fn retire(&self, state: &mut State, sequence: u64, old: Entry) {
        state.live_bytes = state.live_bytes.saturating_sub(old.payload_bytes());
        let run = old.run(self.granule_bytes);
        state.limbo.push_back((sequence, run));
        state.limbo_granules += run.granules;
        self.cache.forget(self.opening, old.position);
    }

    /// Makes everything durable that was acknowledged before the call.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        if self.read_only {
            return Ok(());
        }
        let changed = self.state.lock().changed;
        self.sync_through(changed)
    }

    /// Makes the changes through a sequence number durable, unless somebody else has meanwhile.
    pub(crate) fn sync_through(&self, wanted: u64) -> Result<(), StoreError> {
        let _one_at_a_time = self.syncing.lock();
        self.check_writable("sync")?;
        let (through, segments) = {
            let mut state = self.state.lock();
            if wanted <= state.synced {
                return Ok(());
            }
            state.unsynced_bytes = 0;
            (state.changed, state.segment_files())
        };
        self.sync_files(&segments)?;
        self.finish_sync(&mut self.state.lock(), through)
    }

    /// Syncs data and segments; a failure poisons the subfile.
    pub(crate) fn sync_files(&self, segments: &[Arc<dyn MediumFile>]) -> Result<(), StoreError> {
        let mut synced = self.data.sync();
        for segment in segments {
            synced = synced.and_then(|()| segment.sync());
        }
        synced.map_err(|error| self.poison(self.place.io(error, "the sync")))
    }

    /// Notes that the changes through a sequence number are durable, and frees what they replaced.
    pub(crate) fn finish_sync(&self, state: &mut State, through: u64) -> Result<(), StoreError> {
        // A concurrent failure must not be followed by a success.
        self.check_writable("sync")?;
        if through <= state.synced {
            return Ok(());
        }
        state.synced = through;
        // Without this record, recovery checks more than it needs to; nothing else.
        let segment = state.segment.as_mut().expect("a writable subfile has a journal");
        let _ = segment.append(Change::Synced { through });
        while let Some(&(sequence, run)) = state.limbo.front()
            && sequence <= through
        {
            state.limbo.pop_front();
            state.limbo_granules -= run.granules;
            self.give_back(state, run)?;
        }
        Ok(())
    }

    /// Called after each change: sees to what has to be done, here or in the keeper's thread.
    pub(crate) fn after_change(self: &Arc<Self>) {
        let chores = self.chores();
        if (chores.sync || chores.checkpoint) && !self.keeper.call(self) {
            self.do_chores();
        }
    }

    /// Syncs and checkpoints as needed. A failed sync poisons the subfile, which the next change
    /// reports; a lack of space is met again by whoever needs the space.
    pub(crate) fn do_chores(&self) {
        let chores = self.chores();
        let _ = if chores.checkpoint {
            self.checkpoint()
        } else if chores.sync {
            self.sync()
        } else {
            Ok(())
        };
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.removed.load(Ordering::Acquire) {
            // What stays behind is swept away when the disk is opened the next time.
            let _ = remove_tree(&*self.medium, &self.dir.read());
        }
    }
}

impl State {
    /// The files that hold records.
    pub(crate) fn segment_files(&self) -> Vec<Arc<dyn MediumFile>> {
        let older = self.older_segments.iter().map(|(_, file)| file.clone());
        older.chain(self.segment.iter().map(|segment| segment.file.clone())).collect()
    }
}

fn to_old(entry: Entry) -> Old {
    let payload_bytes = u32::try_from(entry.payload_bytes()).expect("extents are limited");
    Old { position: entry.position, payload_bytes }
}

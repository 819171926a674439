//! An open extent subfile: its state, and the steps that change it.
//!
//! A write has three steps: reserve a run of granules → write the block there → commit (append a
//! journal record, then change the index). The store never overwrites a block that is live or could
//! become live again after a power loss: the run of a replaced extent waits in `limbo` until its
//! replacement is durable.
//!
//! Lock order: `compacting`, `checkpointing`, `syncing`, `state`. A thread holds all but the last
//! during disk I/O.
//! It holds `state` only to change memory, to append to the journal and to read index pages; it
//! reads and writes blocks without it.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};

use super::block::{ExtentBuffer, ExtentEntry, GranuleRun, MAX_EXTENT_INDEX, granules_for};
use super::free_space::FreeSpace;
use super::journal::{JournalRecord, PreviousBlock, Segment};
use super::reservation::{Maintenance, Reservation};
use crate::buffer::BufferPool;
use crate::cache::ExtentCache;
use crate::checkpoint_worker::CheckpointWorker;
use crate::disk::remove_tree;
use crate::error::{StoreError, SubfileContext};
use crate::index::{MissingPage, PAGE_BYTES, PageFault, PageLoad, Pages, Tree};
use crate::medium::{Medium, MediumFile};

/// How much of the index [`OpenExtentFile::find_prefetching_index`] reads around a page.
const PAGES_AHEAD_BYTES: u64 = 256 << 10;

/// How long a thread that serves several disks waits for the state of one subfile. Changes of memory
/// take less; a thread that reads an index page or writes to the journal may take any time.
const STATE_WAIT: Duration = Duration::from_micros(200);

/// ExtentFileLimits of one extent subfile; see the fields of [`crate::DiskOptions`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtentFileLimits {
    pub(crate) index_cache_bytes: usize,
    pub(crate) unsynced_bytes: u64,
    pub(crate) journal_bytes: u64,
    pub(crate) compact_floor_bytes: u64,
}

/// An open extent subfile. All its handles share one.
pub(crate) struct OpenExtentFile {
    pub(crate) context: SubfileContext,
    pub(crate) granule_bytes: u32,
    pub(crate) read_only: bool,
    pub(crate) limits: ExtentFileLimits,
    pub(crate) medium: Arc<dyn Medium>,
    /// The directory of the subfile. The removal of an open subfile renames it.
    pub(crate) dir: RwLock<String>,
    pub(crate) data: Arc<dyn MediumFile>,
    pub(crate) index_file: Arc<dyn MediumFile>,
    pub(crate) pool: BufferPool,
    pub(crate) cache: ExtentCache,
    /// Distinguishes this open file from all others of the process, in the cache.
    pub(crate) open_id: u64,
    pub(crate) worker: CheckpointWorker,
    /// Whether a request waits at the worker.
    pub(crate) maintenance_requested: AtomicBool,
    pub(crate) compacting: Mutex<()>,
    pub(crate) checkpointing: Mutex<()>,
    pub(crate) syncing: Mutex<()>,
    pub(crate) state: Mutex<ExtentFileState>,
    pub(crate) poison: OnceLock<String>,
    pub(crate) removed: AtomicBool,
    /// The lock of the disk: held as long as a subfile of it is open.
    pub(crate) _lock: Arc<dyn Any + Send + Sync>,
}

/// The mutable part of an open extent subfile.
pub(crate) struct ExtentFileState {
    pub(crate) pages: Pages,
    pub(crate) extents: Tree,
    pub(crate) space: FreeSpace,
    pub(crate) count: u64,
    pub(crate) live_bytes: u64,
    pub(crate) next_version: u64,
    /// `None` in a subfile that is open for reading only.
    pub(crate) segment: Option<Segment>,
    /// Segments that the next durable checkpoint makes obsolete.
    pub(crate) older_segments: Vec<(u64, Arc<dyn MediumFile>)>,
    /// Runs of replaced extents, each with the sequence number of the change that replaced it. A
    /// run becomes free when that change is durable.
    pub(crate) limbo: VecDeque<(u64, GranuleRun)>,
    pub(crate) limbo_granules: u64,
    /// Reserved runs that a write fills, by position.
    pub(crate) reserved: HashMap<u64, u64>,
    /// Sequence number of the last change.
    pub(crate) changed: u64,
    /// Sequence number of the last durable change.
    pub(crate) synced: u64,
    /// Bytes written since the start of the last sync.
    pub(crate) unsynced_bytes: u64,
    /// One past the last granule that the file system has reserved for the data file.
    pub(crate) allocated_end: u64,
    /// Dead granules that the last compaction has left.
    pub(crate) unmovable_granules: u64,
    /// Whether the journal has changes that no checkpoint has.
    pub(crate) needs_checkpoint: bool,
}

/// The result of a lookup in the index pages that are in memory.
pub(crate) enum IndexLookup {
    Absent,
    At(ExtentEntry),
    /// The lookup needs a page that is not in memory.
    NeedsPage(MissingPage),
}

static OPEN_IDS: AtomicU64 = AtomicU64::new(1);

/// A number that no other open file of this process has.
pub(crate) fn next_open_id() -> u64 {
    OPEN_IDS.fetch_add(1, Ordering::Relaxed)
}

/// The remedy for an extent subfile whose sync has failed: its journal records which changes are
/// durable.
const REOPEN: &str = "close it and open it again to continue from the durable changes";

impl OpenExtentFile {
    pub(crate) fn check_index(index: u64) -> Result<(), StoreError> {
        if index > MAX_EXTENT_INDEX {
            return Err(StoreError::IndexOutOfRange { index, max: MAX_EXTENT_INDEX });
        }
        Ok(())
    }

    /// Fails if the subfile accepts no changes.
    pub(crate) fn check_writable(&self, action: &str) -> Result<(), StoreError> {
        if self.read_only {
            return Err(self.context.read_only(action));
        }
        match self.poison.get() {
            Some(reason) => Err(self.context.poisoned(reason, REOPEN)),
            None => Ok(()),
        }
    }

    /// Makes the subfile refuse all later changes; returns the error.
    pub(crate) fn poison(&self, error: StoreError) -> StoreError {
        let _ = self.poison.set(error.to_string());
        error
    }

    pub(crate) fn fault(&self, fault: PageFault, extent: Option<u64>) -> StoreError {
        match fault {
            PageFault::Damaged(what) => self.context.damaged(extent, what),
            PageFault::Io(error) => self.context.io(error, "read the index of"),
            PageFault::Absent(_) => unreachable!("PageLoad::Wait never reports an absent page"),
        }
    }

    /// The bytes that an extent occupies on the disk.
    pub(crate) fn disk_bytes(&self, payload_bytes: u64) -> usize {
        let bytes = granules_for(payload_bytes, self.granule_bytes) * u64::from(self.granule_bytes);
        usize::try_from(bytes).expect("extents are limited")
    }

    pub(crate) fn byte_position(&self, granule: u64) -> u64 {
        granule * u64::from(self.granule_bytes)
    }

    /// The state, unless another thread holds it for long.
    pub(crate) fn try_state(&self) -> Option<MutexGuard<'_, ExtentFileState>> {
        self.state.try_lock_for(STATE_WAIT)
    }

    /// Looks an extent up in memory, without disk I/O.
    pub(crate) fn find(&self, index: u64) -> Result<IndexLookup, StoreError> {
        self.find_in(&mut self.state.lock(), index)
    }

    /// Looks an extent up in a state that the caller has locked.
    pub(crate) fn find_in(
        &self,
        state: &mut ExtentFileState,
        index: u64,
    ) -> Result<IndexLookup, StoreError> {
        let ExtentFileState { pages, extents, .. } = state;
        match extents.get(pages, index, PageLoad::Refuse) {
            Ok(Some(value)) => {
                self.checked(index, ExtentEntry::from_value(value)).map(IndexLookup::At)
            }
            Ok(None) => Ok(IndexLookup::Absent),
            Err(PageFault::Absent(wanted)) => Ok(IndexLookup::NeedsPage(wanted)),
            Err(fault) => Err(self.fault(fault, Some(index))),
        }
    }

    /// Hands over an index page that the caller has read.
    pub(crate) fn supply(
        &self,
        wanted: MissingPage,
        bytes: Box<[u8; PAGE_BYTES]>,
        extent: Option<u64>,
    ) -> Result<(), StoreError> {
        let supplied = self.state.lock().pages.supply(wanted, bytes);
        supplied.map(|_| ()).map_err(|fault| self.fault(fault, extent))
    }

    /// Looks an extent up and reads the index pages that are not in memory.
    pub(crate) fn find_waiting(&self, index: u64) -> Result<Option<ExtentEntry>, StoreError> {
        self.find_page_by_page(index, |_| ())
    }

    /// Looks an extent up like [`Self::find_waiting`], and has the kernel read the index pages around
    /// each page ahead: for callers that look many extents up.
    pub(crate) fn find_prefetching_index(
        &self,
        index: u64,
    ) -> Result<Option<ExtentEntry>, StoreError> {
        self.find_page_by_page(index, |wanted| self.prefetch_index(wanted))
    }

    /// Has the kernel read the index pages around a page ahead.
    pub(crate) fn prefetch_index(&self, wanted: MissingPage) {
        let around = wanted.position() / PAGES_AHEAD_BYTES * PAGES_AHEAD_BYTES;
        self.index_file.will_need(around, PAGES_AHEAD_BYTES);
    }

    fn find_page_by_page(
        &self,
        index: u64,
        before_wait: impl Fn(MissingPage),
    ) -> Result<Option<ExtentEntry>, StoreError> {
        loop {
            match self.find(index)? {
                IndexLookup::Absent => return Ok(None),
                IndexLookup::At(entry) => return Ok(Some(entry)),
                IndexLookup::NeedsPage(wanted) => {
                    before_wait(wanted);
                    let mut bytes = Box::new([0; PAGE_BYTES]);
                    let read = self.index_file.read_at(&mut bytes[..], wanted.position());
                    read.map_err(|error| self.context.io(error, "read the index of"))?;
                    self.supply(wanted, bytes, Some(index))?;
                }
            }
        }
    }

    /// Returns the entry if its numbers are possible.
    fn checked(&self, index: u64, entry: ExtentEntry) -> Result<ExtentEntry, StoreError> {
        let limit = super::block::EXTENT_LIMIT_BYTES as u64;
        if entry.payload_bytes() > limit || entry.position >= super::free_space::MAX_GRANULES {
            return Err(self
                .context
                .damaged(Some(index), "its index entry has impossible numbers"));
        }
        Ok(entry)
    }

    /// Completes the block of an extent for its reserved run.
    pub(crate) fn seal(&self, reservation: &Reservation, extent: &mut ExtentBuffer) -> ExtentEntry {
        let Reservation { index, run, version } = *reservation;
        let disk_bytes = self.disk_bytes(extent.payload_bytes());
        extent.seal(self.context.subfile, index, version, run.position, disk_bytes)
    }

    /// Makes a written block part of the subfile. With `moved_from`, it does so only if the extent
    /// still has that entry; returns whether it had.
    pub(crate) fn commit(
        &self,
        reservation: &Reservation,
        entry: ExtentEntry,
        moved_from: Option<ExtentEntry>,
    ) -> Result<bool, StoreError> {
        let index = reservation.index;
        let committed = self.retry_after_trim(|| self.try_commit(index, entry, moved_from));
        if !matches!(committed, Ok(true)) {
            self.cancel(reservation);
        }
        committed
    }

    fn try_commit(
        &self,
        index: u64,
        entry: ExtentEntry,
        moved_from: Option<ExtentEntry>,
    ) -> Result<bool, StoreError> {
        self.check_writable("write to")?;
        let mut state = self.state.lock();
        let ExtentFileState { pages, extents, .. } = &mut *state;
        let old = extents.get(pages, index, PageLoad::Wait);
        let old = old.map_err(|fault| self.fault(fault, Some(index)))?;
        let old = old.map(|old| self.checked(index, ExtentEntry::from_value(old))).transpose()?;
        if moved_from.is_some() && moved_from != old {
            return Ok(false);
        }
        let change = JournalRecord::Put { index, entry, old: old.map(previous_block) };
        let sequence = self.append(&mut state, change, index)?;
        let ExtentFileState { pages, extents, .. } = &mut *state;
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

    /// Deletes an extent; returns whether it existed.
    pub(crate) fn delete(&self, index: u64) -> Result<bool, StoreError> {
        self.check_writable("delete from")?;
        let mut state = self.state.lock();
        let ExtentFileState { pages, extents, .. } = &mut *state;
        let old = extents.get(pages, index, PageLoad::Wait);
        let Some(old) = old.map_err(|fault| self.fault(fault, Some(index)))? else {
            return Ok(false);
        };
        let old = self.checked(index, ExtentEntry::from_value(old))?;
        let sequence = self.append(
            &mut state,
            JournalRecord::Delete { index, old: previous_block(old) },
            index,
        )?;
        let ExtentFileState { pages, extents, .. } = &mut *state;
        if let Err(fault) = extents.remove(pages, index) {
            return Err(self.poison(self.fault(fault, Some(index))));
        }
        state.count = state.count.saturating_sub(1);
        self.retire(&mut state, sequence, old);
        Ok(true)
    }

    fn append(
        &self,
        state: &mut ExtentFileState,
        change: JournalRecord,
        index: u64,
    ) -> Result<u64, StoreError> {
        let segment = state.segment.as_mut().expect("a writable subfile has a journal");
        let sequence = segment.append(change).map_err(|error| {
            let action = format!(
                "record the change of extent {index} of {} in the journal",
                self.context.subfile
            );
            self.context.disk.io(error, action)
        })?;
        state.changed = sequence;
        state.needs_checkpoint = true;
        Ok(sequence)
    }

    /// Moves the run of a replaced extent to limbo, until the change that replaced it is durable.
    fn retire(&self, state: &mut ExtentFileState, sequence: u64, old: ExtentEntry) {
        state.live_bytes = state.live_bytes.saturating_sub(old.payload_bytes());
        let run = old.run(self.granule_bytes);
        state.limbo.push_back((sequence, run));
        state.limbo_granules += run.granules;
        self.cache.forget(self.open_id, old.position);
    }

    /// Makes all changes durable that were acknowledged before the call.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        if self.read_only {
            return Ok(());
        }
        let changed = self.state.lock().changed;
        self.sync_through(changed)
    }

    /// Makes the changes through a sequence number durable, unless another thread has done so.
    pub(crate) fn sync_through(&self, wanted: u64) -> Result<(), StoreError> {
        let _syncing = self.syncing.lock();
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

    /// Syncs the data file and the journal segments; a failure poisons the subfile.
    pub(crate) fn sync_files(&self, segments: &[Arc<dyn MediumFile>]) -> Result<(), StoreError> {
        let mut synced = self.data.sync();
        for segment in segments {
            synced = synced.and_then(|()| segment.sync());
        }
        synced.map_err(|error| self.poison(self.context.io(error, "sync")))
    }

    /// Records that the changes through a sequence number are durable, and frees the runs that they
    /// replaced.
    pub(crate) fn finish_sync(
        &self,
        state: &mut ExtentFileState,
        through: u64,
    ) -> Result<(), StoreError> {
        // No success may follow a concurrent failure.
        self.check_writable("sync")?;
        if through <= state.synced {
            return Ok(());
        }
        state.synced = through;
        // Without this record, recovery verifies more blocks than necessary.
        let segment = state.segment.as_mut().expect("a writable subfile has a journal");
        let _ = segment.append(JournalRecord::Synced { through });
        while let Some(&(sequence, run)) = state.limbo.front()
            && sequence <= through
        {
            state.limbo.pop_front();
            state.limbo_granules -= run.granules;
            self.free_run(state, run)?;
        }
        Ok(())
    }

    /// Has the subfile maintained if it needs that: by the worker, or in this thread if the disk has
    /// no worker. Called after each change and each sync.
    pub(crate) fn request_maintenance(self: &Arc<Self>) {
        if self.read_only {
            return;
        }
        let Maintenance { sync, checkpoint, compact } = self.maintenance();
        if !(sync || checkpoint || compact) || self.worker.request(self) {
            return;
        }
        // Without its thread, a stopped worker compacts nothing: a write would wait for too long.
        if self.maintain() && self.worker.is_inline() && self.compact().is_err() {
            self.give_up_compaction();
        }
    }

    /// Syncs or checkpoints as needed; returns whether the subfile also needs a compaction. A failed
    /// sync poisons the subfile, and the next change reports that. A write that lacks space reports a
    /// full disk.
    pub(crate) fn maintain(&self) -> bool {
        let maintenance = self.maintenance();
        let done = if maintenance.checkpoint {
            self.checkpoint()
        } else if maintenance.sync {
            self.sync()
        } else {
            Ok(())
        };
        done.is_ok() && self.poison.get().is_none() && self.maintenance().compact
    }
}

impl Drop for OpenExtentFile {
    fn drop(&mut self) {
        if self.removed.load(Ordering::Acquire) {
            // The next opening of the disk removes files that are left.
            let _ = remove_tree(&*self.medium, &self.dir.read());
        }
    }
}

impl ExtentFileState {
    /// The files of all journal segments.
    pub(crate) fn segment_files(&self) -> Vec<Arc<dyn MediumFile>> {
        let older = self.older_segments.iter().map(|(_, file)| file.clone());
        older.chain(self.segment.iter().map(|segment| segment.file.clone())).collect()
    }
}

fn previous_block(entry: ExtentEntry) -> PreviousBlock {
    let payload_bytes = u32::try_from(entry.payload_bytes()).expect("extents are limited");
    PreviousBlock { position: entry.position, payload_bytes }
}

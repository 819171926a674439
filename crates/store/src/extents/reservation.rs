//! Reservations: where a write puts its block, and what it waits for if there is no free run.
//!
//! The run of a replaced extent becomes free when a sync has made its replacement durable. The
//! checkpoint worker syncs before much space waits in limbo, but a sync can take any time. Therefore
//! the data file grows only while the space in limbo is below a limit. Above it, a write that finds
//! no free run waits for the sync in progress, or makes one. A write that finds a free run never
//! waits for a sync.

use super::block::{GranuleRun, granules_for};
use super::journal::Segment;
use super::open_file::{ExtentFileState, OpenExtentFile};
use crate::error::StoreError;
use crate::index::PageFault;

/// Maintenance syncs the subfile when limbo holds more than this share (one in `SYNC_SHARE`) of the
/// live granules.
const SYNC_SHARE: u64 = 16;
/// Limbo below this size is not worth a sync.
const SYNC_FLOOR_BYTES: u64 = 4 << 20;

/// The data file does not grow while limbo holds more than this share of the live granules.
const WAIT_SHARE: u64 = 8;
/// The data file may grow while limbo is below this size.
const WAIT_FLOOR_BYTES: u64 = 16 << 20;

/// Writes wait for a checkpoint when the journal is this many times longer than its limit.
const JOURNAL_EXCESS: u64 = 4;

/// The syncs that a write makes on a full disk before it gives up: concurrent writes may take the
/// space that a sync frees.
const SYNCS_WHEN_FULL: u32 = 8;

/// The run and the version of an extent that a write is about to store.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) index: u64,
    pub(crate) run: GranuleRun,
    pub(crate) version: u64,
}

/// The result of [`OpenExtentFile::try_reserve`].
#[derive(Debug)]
pub(crate) enum ReserveOutcome {
    Reserved(Reservation),
    /// The write has to try again after this.
    Blocked(Prerequisite),
}

/// What has to happen before a write gets a reservation; see [`OpenExtentFile::satisfy`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prerequisite {
    /// The changes through this sequence number become durable.
    Sync {
        through: u64,
    },
    Checkpoint,
}

/// The prerequisites that a write has waited for already, so that it does not wait without end.
#[derive(Debug, Default)]
pub(crate) struct ReserveAttempts {
    had_checkpoint: bool,
    syncs_when_full: u32,
}

impl OpenExtentFile {
    /// Reserves a run for a write; waits until there is one.
    pub(crate) fn reserve(
        &self,
        index: u64,
        payload_bytes: u64,
    ) -> Result<Reservation, StoreError> {
        let mut attempts = ReserveAttempts::default();
        loop {
            match self.try_reserve(index, payload_bytes, &mut attempts)? {
                ReserveOutcome::Reserved(reservation) => return Ok(reservation),
                ReserveOutcome::Blocked(need) => self.satisfy(need)?,
            }
        }
    }

    /// Reserves a run for a write without disk I/O; `None` if that is not possible, so that the
    /// caller has to call [`reserve`](Self::reserve) on a thread that may wait.
    pub(crate) fn reserve_in_memory(
        &self,
        index: u64,
        payload_bytes: u64,
    ) -> Result<Option<Reservation>, StoreError> {
        self.check_writable("write to")?;
        let Some(mut state) = self.try_state() else { return Ok(None) };
        if self.needs_checkpoint_now(&state) {
            return Ok(None);
        }
        let granules = granules_for(payload_bytes, self.granule_bytes);
        let waits = state.limbo_granules > self.share_of_live(&state, WAIT_SHARE, WAIT_FLOOR_BYTES);
        let ExtentFileState { pages, space, allocated_end, .. } = &mut *state;
        let run = match space.allocate_in_memory(pages, granules) {
            Ok(Some(run)) => run,
            Ok(None) if !waits && space.end().saturating_add(granules) <= *allocated_end => {
                match space.allocate_at_end(granules) {
                    Some(run) => run,
                    None => return Ok(None),
                }
            }
            Ok(None) | Err(PageFault::Absent(_)) => return Ok(None),
            Err(fault) => return Err(self.poison(self.fault(fault, None))),
        };
        self.hold_run(&mut state, index, run).map(Some)
    }

    /// Reserves a run for a write, or returns what has to happen before.
    pub(crate) fn try_reserve(
        &self,
        index: u64,
        payload_bytes: u64,
        attempts: &mut ReserveAttempts,
    ) -> Result<ReserveOutcome, StoreError> {
        self.check_writable("write to")?;
        Self::check_index(index)?;
        let mut state = self.state.lock();
        if !attempts.had_checkpoint && self.needs_checkpoint_now(&state) {
            // Memory and journal are bounded: a writer that exceeds them waits until the index is
            // on the disk.
            attempts.had_checkpoint = true;
            return Ok(ReserveOutcome::Blocked(Prerequisite::Checkpoint));
        }
        let granules = granules_for(payload_bytes, self.granule_bytes);
        let ExtentFileState { pages, space, .. } = &mut *state;
        let free = space.allocate(pages, granules);
        let free = free.map_err(|fault| self.poison(self.fault(fault, None)))?;
        if free.is_none()
            && state.limbo_granules > self.share_of_live(&state, WAIT_SHARE, WAIT_FLOOR_BYTES)
            && let Some(&(oldest, _)) = state.limbo.front()
        {
            return Ok(ReserveOutcome::Blocked(Prerequisite::Sync { through: oldest }));
        }
        let held = match free.or_else(|| state.space.allocate_at_end(granules)) {
            Some(run) => self.hold_run(&mut state, index, run),
            None => {
                let action = format!("write extent {index} of {}", self.context.subfile);
                Err(StoreError::Full { disk: self.context.disk.name.clone(), action })
            }
        };
        if let Err(error) = &held
            && error.is_full()
            && attempts.syncs_when_full < SYNCS_WHEN_FULL
            && let Some(&(newest, _)) = state.limbo.back()
        {
            attempts.syncs_when_full += 1;
            return Ok(ReserveOutcome::Blocked(Prerequisite::Sync { through: newest }));
        }
        held.map(ReserveOutcome::Reserved)
    }

    /// Does what a write needs, unless another thread has done it.
    pub(crate) fn satisfy(&self, need: Prerequisite) -> Result<(), StoreError> {
        match need {
            Prerequisite::Sync { through } => self.sync_through(through),
            Prerequisite::Checkpoint => self.retry_after_trim(|| self.checkpoint_if_needed_now()),
        }
    }

    /// Turns an allocated run into a reservation, and grows the data file if necessary.
    pub(crate) fn hold_run(
        &self,
        state: &mut ExtentFileState,
        index: u64,
        run: GranuleRun,
    ) -> Result<Reservation, StoreError> {
        if let Err(error) = self.grow(state) {
            self.free_run(state, run)?;
            let action = format!("write extent {index} of {}", self.context.subfile);
            return Err(self.context.disk.io(error, action));
        }
        state.reserved.insert(run.position, run.granules);
        let version = state.next_version;
        state.next_version += 1;
        Ok(Reservation { index, run, version })
    }

    /// Frees the run of a reservation that no extent uses.
    pub(crate) fn cancel(&self, reservation: &Reservation) {
        let mut state = self.state.lock();
        state.reserved.remove(&reservation.run.position);
        // A failure poisons the subfile, which every later change reports.
        let _ = self.free_run(&mut state, reservation.run);
    }

    /// Frees a run.
    pub(crate) fn free_run(
        &self,
        state: &mut ExtentFileState,
        run: GranuleRun,
    ) -> Result<(), StoreError> {
        let freed = state.space.free(&mut state.pages, run);
        freed.map_err(|fault| self.poison(self.fault(fault, None)))
    }

    /// Reserves space in the file system up to the end of the allocated granules.
    fn grow(&self, state: &mut ExtentFileState) -> std::io::Result<()> {
        let end = state.space.end();
        if end <= state.allocated_end {
            return Ok(());
        }
        let granule = u64::from(self.granule_bytes);
        let step = (end / 8).clamp((256 << 10) / granule, (32 << 20) / granule);
        let start = self.byte_position(state.allocated_end);
        let ahead = self.byte_position(end + step) - start;
        let needed = self.byte_position(end) - start;
        match self.data.allocate(start, ahead) {
            Ok(()) => state.allocated_end = end + step,
            Err(_) => {
                self.data.allocate(start, needed)?;
                state.allocated_end = end;
            }
        }
        Ok(())
    }

    /// Makes an attempt that may find the disk full. If it does, syncs, cuts the free end off the
    /// data file, and tries once more.
    pub(crate) fn retry_after_trim<T>(
        &self,
        attempt: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match attempt() {
            Err(error) if error.is_full() => {
                self.sync()?;
                let mut state = self.state.lock();
                let before = state.allocated_end;
                self.trim_to_end(&mut state);
                let is_shorter = state.allocated_end < before;
                drop(state);
                if is_shorter { attempt() } else { Err(error) }
            }
            other => other,
        }
    }

    /// Whether writes have to wait for a checkpoint.
    pub(crate) fn needs_checkpoint_now(&self, state: &ExtentFileState) -> bool {
        state.pages.pinned_bytes() > self.limits.index_cache_bytes
            || state.journal_bytes() > self.limits.journal_bytes.saturating_mul(JOURNAL_EXCESS)
    }

    /// The maintenance that the subfile needs now.
    pub(crate) fn maintenance(&self) -> Maintenance {
        let state = self.state.lock();
        Maintenance {
            sync: state.limbo_granules > self.share_of_live(&state, SYNC_SHARE, SYNC_FLOOR_BYTES)
                || state.unsynced_bytes > self.limits.unsynced_bytes,
            checkpoint: state.journal_bytes() > self.limits.journal_bytes
                || state.pages.pinned_bytes() > self.limits.index_cache_bytes / 2,
            compact: self.wastes_space(&state),
        }
    }

    /// A share of the live granules, at least the floor.
    pub(crate) fn share_of_live(
        &self,
        state: &ExtentFileState,
        share: u64,
        floor_bytes: u64,
    ) -> u64 {
        let granule = u64::from(self.granule_bytes);
        (state.live_granules(granule) / share).max(floor_bytes / granule)
    }
}

/// The maintenance that a subfile needs besides the requests of its users.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maintenance {
    pub(crate) sync: bool,
    pub(crate) checkpoint: bool,
    pub(crate) compact: bool,
}

impl ExtentFileState {
    /// An upper bound of the granules that the extents occupy, from their number and bytes. It is
    /// close unless most extents are much smaller than a granule.
    pub(crate) fn live_granules(&self, granule: u64) -> u64 {
        let used = self.space.end().saturating_sub(self.limbo_granules);
        used.min(self.live_bytes / granule + self.count)
    }

    fn journal_bytes(&self) -> u64 {
        self.segment.as_ref().map_or(0, Segment::len_bytes)
    }
}

//! Room for writes: where a block goes, and what a write waits for when there is no place for it.
//!
//! The place of a replaced extent is free when a sync has made durable what replaced it. Syncs
//! that nobody asked for come before much waits for one, but nobody knows how long they take.
//! Therefore the data file grows only while what waits for a sync is below a limit; otherwise a
//! write that finds no free run waits for the sync that is under way, or makes one. A write that
//! finds a free run never waits for a sync.

use super::block::{Run, granules_for};
use super::journal::Segment;
use super::shared::{Shared, State};
use crate::error::StoreError;

/// When so much of what is live waits for a sync, one is made by whoever does the chores.
const SYNC_SHARE: u64 = 16;
/// As long as less waits, it is not worth a sync.
const SYNC_FLOOR_BYTES: u64 = 4 << 20;

/// When so much of what is live waits for a sync, the data file does not grow.
const WAIT_SHARE: u64 = 8;
/// As long as less waits, the data file may grow.
const WAIT_FLOOR_BYTES: u64 = 16 << 20;

/// A journal that is so many times as long as it should be makes writes wait for a checkpoint.
const JOURNAL_EXCESS: u64 = 4;

/// A write that finds the disk full has so many syncs made, as long as anything waits for one:
/// what they free may go to others.
const SYNCS_WHEN_FULL: u32 = 8;

/// Where an extent is to be written.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) index: u64,
    pub(crate) run: Run,
    pub(crate) version: u64,
}

/// What a write gets that asks for room.
#[derive(Debug)]
pub(crate) enum Room {
    At(Reservation),
    /// It has to ask again after this.
    After(Need),
}

/// What has to happen before there is room; see [`Shared::fulfil`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// The changes through this sequence number become durable.
    Sync {
        through: u64,
    },
    Checkpoint,
}

/// What a write has waited for: some of it is not waited for without end.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    had_checkpoint: bool,
    syncs_when_full: u32,
}

impl Shared {
    /// Reserves the place for a write, and waits until there is one.
    pub(crate) fn reserve(
        &self,
        index: u64,
        payload_bytes: u64,
    ) -> Result<Reservation, StoreError> {
        let mut patience = Patience::default();
        loop {
            match self.try_reserve(index, payload_bytes, &mut patience)? {
                Room::At(reservation) => return Ok(reservation),
                Room::After(need) => self.fulfil(need)?,
            }
        }
    }

    /// Reserves the place for a write, or says what has to happen before.
    pub(crate) fn try_reserve(
        &self,
        index: u64,
        payload_bytes: u64,
        patience: &mut Patience,
    ) -> Result<Room, StoreError> {
        self.check_writable("write to")?;
        Self::check_index(index)?;
        let mut state = self.state.lock();
        if !patience.had_checkpoint && self.is_urgent(&state) {
            // Memory and journal are bounded: whoever changes more waits until the index is on
            // the disk.
            patience.had_checkpoint = true;
            return Ok(Room::After(Need::Checkpoint));
        }
        let granules = granules_for(payload_bytes, self.granule_bytes);
        let State { pages, space, .. } = &mut *state;
        let free = space.allocate(pages, granules);
        let free = free.map_err(|fault| self.poison(self.fault(fault, None)))?;
        if free.is_none()
            && state.limbo_granules > self.share(&state, WAIT_SHARE, WAIT_FLOOR_BYTES)
            && let Some(&(oldest, _)) = state.limbo.front()
        {
            return Ok(Room::After(Need::Sync { through: oldest }));
        }
        let held = match free.or_else(|| state.space.allocate_at_end(granules)) {
            Some(run) => self.hold(&mut state, index, run),
            None => {
                let action = format!("write extent {index} of {}", self.place.subfile);
                Err(StoreError::Full { disk: self.place.disk.disk.clone(), action })
            }
        };
        if let Err(error) = &held
            && error.is_full()
            && patience.syncs_when_full < SYNCS_WHEN_FULL
            && let Some(&(newest, _)) = state.limbo.back()
        {
            patience.syncs_when_full += 1;
            return Ok(Room::After(Need::Sync { through: newest }));
        }
        held.map(Room::At)
    }

    /// Does what a write needs, unless others have done it meanwhile.
    pub(crate) fn fulfil(&self, need: Need) -> Result<(), StoreError> {
        match need {
            Need::Sync { through } => self.sync_through(through),
            Need::Checkpoint => self.or_with_less(|| self.checkpoint_if_urgent()),
        }
    }

    /// Turns an allocated run into a reservation; the data file gets space for it.
    pub(crate) fn hold(
        &self,
        state: &mut State,
        index: u64,
        run: Run,
    ) -> Result<Reservation, StoreError> {
        if let Err(error) = self.grow(state) {
            self.give_back(state, run)?;
            let action = format!("write extent {index} of {}", self.place.subfile);
            return Err(self.place.disk.io(error, action));
        }
        state.reserved.insert(run.position, run.granules);
        let version = state.next_version;
        state.next_version += 1;
        Ok(Reservation { index, run, version })
    }

    /// Gives up a reservation: its run was never part of the subfile.
    pub(crate) fn cancel(&self, reservation: &Reservation) {
        let mut state = self.state.lock();
        state.reserved.remove(&reservation.run.position);
        // A failure poisons the subfile, which every later change reports.
        let _ = self.give_back(&mut state, reservation.run);
    }

    /// Makes a run free.
    pub(crate) fn give_back(&self, state: &mut State, run: Run) -> Result<(), StoreError> {
        let freed = state.space.free(&mut state.pages, run);
        freed.map_err(|fault| self.poison(self.fault(fault, None)))
    }

    /// Makes sure that the data file has space up to the end of what is allocated.
    fn grow(&self, state: &mut State) -> std::io::Result<()> {
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

    /// Tries something that may find the disk full; if it does, once more after the data file was
    /// cut behind what is not free, or only waits for a sync.
    pub(crate) fn or_with_less<T>(
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

    /// Whether changes have to wait for a checkpoint.
    pub(crate) fn is_urgent(&self, state: &State) -> bool {
        state.pages.pinned_bytes() > self.limits.index_cache_bytes
            || state.journal_bytes() > self.limits.journal_bytes.saturating_mul(JOURNAL_EXCESS)
    }

    /// What has to be done besides the callers' requests.
    pub(crate) fn chores(&self) -> Chores {
        let state = self.state.lock();
        Chores {
            sync: state.limbo_granules > self.share(&state, SYNC_SHARE, SYNC_FLOOR_BYTES)
                || state.unsynced_bytes > self.limits.unsynced_bytes,
            checkpoint: state.journal_bytes() > self.limits.journal_bytes
                || state.pages.pinned_bytes() > self.limits.index_cache_bytes / 2,
        }
    }

    /// So many granules are a share of what is live, or the floor.
    fn share(&self, state: &State, share: u64, floor_bytes: u64) -> u64 {
        let granule = u64::from(self.granule_bytes);
        (state.live_granules(granule) / share).max(floor_bytes / granule)
    }
}

/// What has to be done besides the callers' requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chores {
    pub(crate) sync: bool,
    pub(crate) checkpoint: bool,
}

impl State {
    /// Granules that the extents take. Nobody counts them: there are not more than this, and not
    /// many fewer unless most are small and much is free.
    fn live_granules(&self, granule: u64) -> u64 {
        let used = self.space.end().saturating_sub(self.limbo_granules);
        used.min(self.live_bytes / granule + self.count)
    }

    fn journal_bytes(&self) -> u64 {
        self.segment.as_ref().map_or(0, Segment::len_bytes)
    }
}

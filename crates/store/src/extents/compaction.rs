//! Compaction: the store moves extents together until the data file has no holes.
//!
//! A hole travels from the front to the end of the data file. The extents behind it move into it, a
//! batch at a time; a sync makes each batch durable before the store reuses the space that it left.
//! If a hole is too small, the extents behind it first move to the end of the file. Every move is an
//! ordinary change of the subfile, so that other threads can read and write at the same time and a
//! crash at any time is harmless.
//!
//! A compaction is a sequence of steps, each of one batch, with a [`CompactionCursor`] between them.
//! The checkpoint worker compacts a subfile that wastes too much space, and runs its other
//! maintenance between two steps. Administrators run the steps through [`ExtentFile::compact_step`].

use super::block::{ExtentEntry, GranuleRun, MAX_EXTENT_INDEX, check_block, read_head};
use super::open_file::{ExtentFileState, OpenExtentFile};
use super::reservation::Reservation;
use crate::buffer::Buffer;
use crate::error::StoreError;

/// The bytes that compaction moves between two syncs.
const BATCH_BYTES: u64 = 16 << 20;

/// The bytes of one read or write.
const IO_BYTES: usize = 1 << 20;

/// Automatic compaction starts when the dead granules of a subfile exceed this share (one in
/// `COMPACT_SHARE`) of the live ones, and [`crate::DiskOptions::compact_floor_bytes`]. Dead granules
/// lie before the end of the data file and belong to no extent.
const COMPACT_SHARE: u64 = 2;

/// The position of a compaction between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionCursor {
    /// The granule before which the data file has no holes.
    pub granule: u64,
    /// The number of granules that the compaction may still move. It bounds a compaction that runs
    /// beside writes that make new holes.
    pub budget_granules: u64,
}

/// The result of one step of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionStep {
    /// The bytes that the step has moved.
    pub moved_bytes: u64,
    /// The bytes of the data file before which no hole is left.
    pub compact_bytes: u64,
    /// The bytes of the data file up to its last extent.
    pub data_bytes: u64,
    /// The cursor of the next step; `None` if the compaction is finished.
    pub next: Option<CompactionCursor>,
}

/// Where a batch of extents moves to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MoveTarget {
    /// Into the hole before them, one behind the other.
    Hole,
    /// Behind the last extent.
    End,
}

impl OpenExtentFile {
    /// Runs all steps of a compaction.
    pub(crate) fn compact(&self) -> Result<(), StoreError> {
        let mut cursor = None;
        loop {
            cursor = self.compact_step(cursor)?.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Runs one step of a compaction: moves a batch of extents, or, at the end, returns the space
    /// behind the last extent to the file system. The first step has no cursor.
    pub(crate) fn compact_step(
        &self,
        cursor: Option<CompactionCursor>,
    ) -> Result<CompactionStep, StoreError> {
        let _compacting = self.compacting.lock();
        self.check_writable("compact")?;
        let cursor = match cursor {
            Some(cursor) => cursor,
            None => {
                // Runs in limbo cannot take extents.
                self.sync()?;
                // Each extent may move twice, on average: to the end and back.
                let budget_granules = self.state.lock().space.end().saturating_mul(2);
                CompactionCursor { granule: 0, budget_granules }
            }
        };
        if cursor.budget_granules > 0
            && let Some(hole) = self.first_hole(cursor.granule)?
        {
            let MovedBatch { granules, is_contended } = self.fill_hole(hole)?;
            // Skip extents that cannot move: reserved runs, and damaged extents.
            let granule = if granules > 0 || is_contended { hole.position } else { hole.end() };
            // A step costs a batch if a concurrent write hinders it, so that steps end.
            let cost = if is_contended { granules.max(self.batch_granules()) } else { granules };
            let budget_granules = cursor.budget_granules.saturating_sub(cost);
            let next = Some(CompactionCursor { granule, budget_granules });
            return Ok(self.step_result(granules, granule, next));
        }
        self.checkpoint()?;
        // The first checkpoint wrote into new pages; the second one frees the old pages.
        self.state.lock().needs_checkpoint = true;
        self.checkpoint()?;
        let mut state = self.state.lock();
        self.trim_to_end(&mut state);
        state.unmovable_granules = self.dead_granules(&state);
        let end = state.space.end();
        drop(state);
        Ok(self.step_result(0, end, None))
    }

    fn step_result(
        &self,
        moved: u64,
        granule: u64,
        next: Option<CompactionCursor>,
    ) -> CompactionStep {
        let end = self.state.lock().space.end();
        CompactionStep {
            moved_bytes: self.byte_position(moved),
            compact_bytes: self.byte_position(granule.min(end)),
            data_bytes: self.byte_position(end),
            next,
        }
    }

    /// Moves a batch of extents into a hole, or makes the hole larger, durably.
    fn fill_hole(&self, hole: GranuleRun) -> Result<MovedBatch, StoreError> {
        let batch = self.batch_granules();
        let behind = self.state.lock().space.end().saturating_sub(hole.end());
        let is_large = hole.granules >= batch.min(behind);
        let [first, second] = if is_large {
            [MoveTarget::Hole, MoveTarget::End]
        } else {
            [MoveTarget::End, MoveTarget::Hole]
        };
        let mut moved = self.move_batch(hole, first)?;
        if moved.granules == 0 && !moved.is_contended {
            moved = self.move_batch(hole, second)?;
        }
        // Moves fill the journal and the index like writes do.
        if self.maintenance().checkpoint {
            self.checkpoint()?
        } else {
            self.sync()?
        }
        Ok(moved)
    }

    /// Whether the subfile wastes so much space that the store compacts it by itself. A compaction
    /// that leaves dead granules behind does not repeat before as many more are dead.
    pub(crate) fn wastes_space(&self, state: &ExtentFileState) -> bool {
        let limit = self.share_of_live(state, COMPACT_SHARE, self.limits.compact_floor_bytes);
        self.dead_granules(state) > state.unmovable_granules.saturating_add(limit)
    }

    /// Granules before the end of the data file that are neither live nor reserved nor in limbo. It
    /// may be too small, because the number of live granules is an upper bound.
    fn dead_granules(&self, state: &ExtentFileState) -> u64 {
        let reserved: u64 = state.reserved.values().sum();
        let used = state.live_granules(u64::from(self.granule_bytes)) + state.limbo_granules;
        state.space.end().saturating_sub(used.saturating_add(reserved))
    }

    /// Records that a compaction has failed: the next one waits until more granules are dead.
    pub(crate) fn give_up_compaction(&self) {
        let mut state = self.state.lock();
        state.unmovable_granules = self.dead_granules(&state);
    }

    fn batch_granules(&self) -> u64 {
        BATCH_BYTES / u64::from(self.granule_bytes)
    }

    fn first_hole(&self, from: u64) -> Result<Option<GranuleRun>, StoreError> {
        let mut state = self.state.lock();
        let ExtentFileState { pages, space, .. } = &mut *state;
        space.first_free(pages, from).map_err(|fault| self.fault(fault, None))
    }

    /// Moves the extents behind a hole: as many as fit into it, or as many as make it a large one.
    fn move_batch(&self, hole: GranuleRun, target: MoveTarget) -> Result<MovedBatch, StoreError> {
        let end = self.state.lock().space.end();
        let batch = self.batch_granules();
        let mut target_run = hole;
        let mut position = hole.end();
        let mut window = ReadWindow::new(self);
        let mut moves = BlockMover::new(self);
        let mut is_contended = false;
        while position < end {
            if let Some(free) = self.free_at(position)? {
                position = free.end();
                continue;
            }
            let Some((index, entry)) = window.extent_at(position)? else {
                // No extent of the index starts here: the run is reserved or in limbo.
                position += 1;
                continue;
            };
            let run = entry.run(self.granule_bytes);
            match target {
                MoveTarget::Hole => {
                    if target_run.granules < run.granules {
                        break;
                    }
                    let to = Some(target_run.position);
                    match moves.add(index, entry, window.block(entry)?, to)? {
                        MoveDecision::Yes => {
                            target_run.position += run.granules;
                            target_run.granules -= run.granules;
                        }
                        MoveDecision::Damaged => {}
                        // A concurrent write has taken part of the hole.
                        MoveDecision::NoSpace => {
                            is_contended = true;
                            break;
                        }
                    }
                }
                MoveTarget::End => {
                    moves.add(index, entry, window.block(entry)?, None)?;
                    if run.end() - hole.position >= batch {
                        break;
                    }
                }
            }
            position = run.end();
        }
        Ok(MovedBatch { granules: moves.finish()?, is_contended })
    }

    fn free_at(&self, position: u64) -> Result<Option<GranuleRun>, StoreError> {
        Ok(self.first_hole(position)?.filter(|run| run.position == position))
    }
}

/// The result of moving a batch of extents.
#[derive(Clone, Copy)]
struct MovedBatch {
    granules: u64,
    /// Whether a concurrent write has taken space that the batch was to move to.
    is_contended: bool,
}

/// Whether a block will move.
enum MoveDecision {
    Yes,
    Damaged,
    NoSpace,
}

/// A part of the data file, read with one I/O, in which compaction finds extents.
struct ReadWindow<'a> {
    file: &'a OpenExtentFile,
    buffer: Buffer,
    start: u64,
    len: usize,
}

impl<'a> ReadWindow<'a> {
    fn new(file: &'a OpenExtentFile) -> Self {
        Self { file, buffer: file.pool.get(IO_BYTES), start: 0, len: 0 }
    }

    /// The extent that starts at a position, if there is one.
    fn extent_at(&mut self, position: u64) -> Result<Option<(u64, ExtentEntry)>, StoreError> {
        let file = self.file;
        let head = self.bytes_at(position, file.granule_bytes as usize)?;
        let Some((index, payload)) = read_head(head, file.context.subfile) else {
            return Ok(None);
        };
        if index > MAX_EXTENT_INDEX {
            return Ok(None);
        }
        let entry = file.find_waiting(index)?;
        let fits =
            |entry: &ExtentEntry| entry.position == position && entry.payload_bytes() == payload;
        Ok(entry.filter(fits).map(|entry| (index, entry)))
    }

    /// The block of an extent.
    fn block(&mut self, entry: ExtentEntry) -> Result<&[u8], StoreError> {
        let bytes = self.file.disk_bytes(entry.payload_bytes());
        self.bytes_at(entry.position, bytes)
    }

    /// Bytes from a position on, fewer only at the end of the file.
    fn bytes_at(&mut self, position: u64, len: usize) -> Result<&[u8], StoreError> {
        let granule = u64::from(self.file.granule_bytes);
        let within = position.checked_sub(self.start).map(|granules| granules * granule);
        let within = within.and_then(|at| usize::try_from(at).ok());
        let from = match within.filter(|at| at.saturating_add(len) <= self.len) {
            Some(from) => from,
            None => {
                self.read(position, len)?;
                0
            }
        };
        Ok(&self.buffer[from..self.len.min(from + len)])
    }

    fn read(&mut self, position: u64, len: usize) -> Result<(), StoreError> {
        let len = len.max(IO_BYTES);
        if self.buffer.len() < len {
            self.buffer = self.file.pool.get(len);
        }
        let at = self.file.byte_position(position);
        let read = self.file.data.read_at(&mut self.buffer[..len], at);
        self.len = read.map_err(|error| self.file.context.io(error, "read extents of"))?;
        self.start = position;
        Ok(())
    }
}

/// Moves blocks to consecutive runs, and writes them with one I/O.
struct BlockMover<'a> {
    file: &'a OpenExtentFile,
    buffer: Buffer,
    len: usize,
    in_flight: Vec<(Reservation, ExtentEntry)>,
    moved_granules: u64,
}

impl<'a> BlockMover<'a> {
    fn new(file: &'a OpenExtentFile) -> Self {
        let buffer = file.pool.get(IO_BYTES);
        Self { file, buffer, len: 0, in_flight: Vec::new(), moved_granules: 0 }
    }

    /// Adds a block that is to move to a position, or behind the last extent.
    fn add(
        &mut self,
        index: u64,
        entry: ExtentEntry,
        block: &[u8],
        to: Option<u64>,
    ) -> Result<MoveDecision, StoreError> {
        if check_block(block, self.file.context.subfile, index, entry).is_err() {
            // A damaged extent stays in place, for a repair by hand.
            return Ok(MoveDecision::Damaged);
        }
        let Some(reservation) = self.reserve(index, entry, to)? else {
            return Ok(MoveDecision::NoSpace);
        };
        let follows = self.in_flight.last().is_none_or(|(last, _)| {
            last.run.end() == reservation.run.position && self.len + block.len() <= IO_BYTES
        });
        if !follows {
            self.write()?;
        }
        if self.buffer.len() < block.len() {
            self.buffer = self.file.pool.get(block.len());
        }
        self.buffer[self.len..self.len + block.len()].copy_from_slice(block);
        self.len += block.len();
        self.in_flight.push((reservation, entry));
        Ok(MoveDecision::Yes)
    }

    fn reserve(
        &self,
        index: u64,
        entry: ExtentEntry,
        to: Option<u64>,
    ) -> Result<Option<Reservation>, StoreError> {
        let file = self.file;
        let granules = entry.run(file.granule_bytes).granules;
        let mut state = file.state.lock();
        let ExtentFileState { pages, space, .. } = &mut *state;
        let run = match to {
            Some(position) => space.allocate_at(pages, position, granules),
            None => Ok(space.allocate_at_end(granules)),
        };
        let run = run.map_err(|fault| file.poison(file.fault(fault, None)))?;
        let Some(run) = run else { return Ok(None) };
        match file.hold_run(&mut state, index, run) {
            // On a full disk an extent that does not fit stays in place.
            Err(error) if error.is_full() => Ok(None),
            held => held.map(Some),
        }
    }

    /// Writes the added blocks and commits their moves.
    fn write(&mut self) -> Result<(), StoreError> {
        let in_flight = std::mem::take(&mut self.in_flight);
        let len = std::mem::take(&mut self.len);
        let Some((first, _)) = in_flight.first() else { return Ok(()) };
        let at = self.file.byte_position(first.run.position);
        if let Err(error) = self.file.data.write_all_at(&self.buffer[..len], at) {
            in_flight.iter().for_each(|(reservation, _)| self.file.cancel(reservation));
            return Err(self.file.context.io(error, "move extents of"));
        }
        let mut outcome = Ok(());
        for (reservation, entry) in in_flight {
            if outcome.is_err() {
                self.file.cancel(&reservation);
                continue;
            }
            let moved = ExtentEntry { position: reservation.run.position, ..entry };
            match self.file.commit(&reservation, moved, Some(entry)) {
                Ok(true) => self.moved_granules += reservation.run.granules,
                // A concurrent change has replaced or deleted the extent.
                Ok(false) => {}
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// Writes the remaining blocks; returns the number of granules moved.
    fn finish(mut self) -> Result<u64, StoreError> {
        self.write()?;
        Ok(self.moved_granules)
    }
}

impl Drop for BlockMover<'_> {
    fn drop(&mut self) {
        // Not empty only after an error.
        self.in_flight.iter().for_each(|(reservation, _)| self.file.cancel(reservation));
    }
}

//! Compaction: the store moves extents together until the data file has no holes.
//!
//! A hole travels from the front to the end of the data file. The extents behind it move into it, a
//! batch at a time; a sync makes each batch durable before the store reuses the space that it left.
//! If a hole is too small, the extents behind it first move to the end of the file. Every move is an
//! ordinary change of the subfile, so that other threads can read and write at the same time and a
//! crash at any time is harmless.

use super::block::{ExtentEntry, GranuleRun, MAX_EXTENT_INDEX, check_block, read_head};
use super::open_file::{ExtentFileState, OpenExtentFile};
use super::reservation::Reservation;
use crate::buffer::Buffer;
use crate::error::StoreError;

/// The bytes that compaction moves between two syncs.
const BATCH_BYTES: u64 = 16 << 20;

/// The bytes of one read or write.
const IO_BYTES: usize = 1 << 20;

/// Where a batch of extents moves to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MoveTarget {
    /// Into the hole before them, one behind the other.
    Hole,
    /// Behind the last extent.
    End,
}

impl OpenExtentFile {
    /// Moves extents together and returns the space behind them to the file system.
    pub(crate) fn compact(&self) -> Result<(), StoreError> {
        self.check_writable("compact")?;
        // Runs in limbo cannot take extents.
        self.sync()?;
        let batch = BATCH_BYTES / u64::from(self.granule_bytes);
        let mut from = 0;
        // Concurrent writes may make new holes without end: stop when each extent has moved twice, on
        // average.
        let mut left = self.state.lock().space.end().saturating_mul(2);
        while left > 0
            && let Some(hole) = self.first_hole(from)?
        {
            let behind = self.state.lock().space.end().saturating_sub(hole.end());
            let is_large = hole.granules >= batch.min(behind);
            let [first, second] = if is_large {
                [MoveTarget::Hole, MoveTarget::End]
            } else {
                [MoveTarget::End, MoveTarget::Hole]
            };
            let mut moved = self.move_batch(hole, first)?;
            if moved == 0 {
                moved = self.move_batch(hole, second)?;
            }
            self.sync()?;
            left = left.saturating_sub(moved);
            // Skip extents that cannot move: reserved runs, and damaged extents.
            from = if moved > 0 { hole.position } else { hole.end() };
        }
        self.checkpoint()?;
        // The first checkpoint wrote into new pages; the second one frees the old pages.
        self.state.lock().needs_checkpoint = true;
        self.checkpoint()?;
        self.trim_to_end(&mut self.state.lock());
        Ok(())
    }

    fn first_hole(&self, from: u64) -> Result<Option<GranuleRun>, StoreError> {
        let mut state = self.state.lock();
        let ExtentFileState { pages, space, .. } = &mut *state;
        space.first_free(pages, from).map_err(|fault| self.fault(fault, None))
    }

    /// Moves the extents behind a hole: as many as fit into it, or as many as make it a large one.
    /// Returns the number of granules moved.
    fn move_batch(&self, hole: GranuleRun, target: MoveTarget) -> Result<u64, StoreError> {
        let end = self.state.lock().space.end();
        let batch = BATCH_BYTES / u64::from(self.granule_bytes);
        let mut target_run = hole;
        let mut position = hole.end();
        let mut window = ReadWindow::new(self);
        let mut moves = BlockMover::new(self);
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
                    if moves.add(index, entry, window.block(entry)?, to)? {
                        target_run.position += run.granules;
                        target_run.granules -= run.granules;
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
        moves.finish()
    }

    fn free_at(&self, position: u64) -> Result<Option<GranuleRun>, StoreError> {
        Ok(self.first_hole(position)?.filter(|run| run.position == position))
    }
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

    /// Adds a block that is to move to a position, or behind the last extent. Returns whether it
    /// will move.
    fn add(
        &mut self,
        index: u64,
        entry: ExtentEntry,
        block: &[u8],
        to: Option<u64>,
    ) -> Result<bool, StoreError> {
        if check_block(block, self.file.context.subfile, index, entry).is_err() {
            // A damaged extent stays in place, for a repair by hand.
            return Ok(false);
        }
        let Some(reservation) = self.reserve(index, entry, to)? else { return Ok(false) };
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
        Ok(true)
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

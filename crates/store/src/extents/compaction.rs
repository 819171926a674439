//! Moving extents together until no holes are left.
//!
//! A hole travels from the front to the end of the data file: what follows it moves into it, a
//! batch at a time, each made durable before the space it left is used. A hole that is too small
//! is made larger first, by moving what follows it behind the end. Every move is an ordinary
//! change of the subfile, so that others may read and write meanwhile and a crash at any time is
//! harmless.

use super::block::{Entry, MAX_EXTENT_INDEX, Run, check_block, read_head};
use super::room::Reservation;
use super::shared::{Shared, State};
use crate::buffer::Buffer;
use crate::error::StoreError;

/// Bytes that are moved between two syncs.
const BATCH_BYTES: u64 = 16 << 20;

/// Bytes that are read or written at once.
const IO_BYTES: usize = 1 << 20;

/// Where extents move to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Into the hole before them, one behind the other.
    Hole,
    /// Behind the last extent.
    End,
}

impl Shared {
    /// Moves extents together and gives the space behind them back.
    pub(crate) fn compact(&self) -> Result<(), StoreError> {
        self.check_writable("compact")?;
        // What waits for a sync would be in the way.
        self.sync()?;
        let batch = BATCH_BYTES / u64::from(self.granule_bytes);
        let mut from = 0;
        // Where others keep making holes, there is no end to reach: each extent may have moved
        // twice, on average, when it is enough.
        let mut left = self.state.lock().space.end().saturating_mul(2);
        while left > 0
            && let Some(hole) = self.first_hole(from)?
        {
            let behind = self.state.lock().space.end().saturating_sub(hole.end());
            let is_large = hole.granules >= batch.min(behind);
            let [first, second] =
                if is_large { [Target::Hole, Target::End] } else { [Target::End, Target::Hole] };
            let mut moved = self.move_batch(hole, first)?;
            if moved == 0 {
                moved = self.move_batch(hole, second)?;
            }
            self.sync()?;
            left = left.saturating_sub(moved);
            // Extents that nobody may move (being written, or damaged) are passed over.
            from = if moved > 0 { hole.position } else { hole.end() };
        }
        self.checkpoint()?;
        // The frozen state was written into new pages; once more, and the old ones can go.
        self.state.lock().needs_checkpoint = true;
        self.checkpoint()?;
        self.trim_to_end(&mut self.state.lock());
        Ok(())
    }

    fn first_hole(&self, from: u64) -> Result<Option<Run>, StoreError> {
        let mut state = self.state.lock();
        let State { pages, space, .. } = &mut *state;
        space.first_free(pages, from).map_err(|fault| self.fault(fault, None))
    }

    /// Moves extents that follow a hole, as many as fit into it or make it a large one; the answer
    /// is the number of granules moved.
    fn move_batch(&self, hole: Run, target: Target) -> Result<u64, StoreError> {
        let end = self.state.lock().space.end();
        let batch = BATCH_BYTES / u64::from(self.granule_bytes);
        let mut room = hole;
        let mut position = hole.end();
        let mut window = Window::new(self);
        let mut moves = Moves::new(self);
        while position < end {
            if let Some(free) = self.free_at(position)? {
                position = free.end();
                continue;
            }
            let Some((index, entry)) = window.extent_at(position)? else {
                // Nothing that the index knows starts here: it is on its way in or out.
                position += 1;
                continue;
            };
            let run = entry.run(self.granule_bytes);
            match target {
                Target::Hole => {
                    if room.granules < run.granules {
                        break;
                    }
                    let to = Some(room.position);
                    if moves.add(index, entry, window.block(entry)?, to)? {
                        room.position += run.granules;
                        room.granules -= run.granules;
                    }
                }
                Target::End => {
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

    fn free_at(&self, position: u64) -> Result<Option<Run>, StoreError> {
        Ok(self.first_hole(position)?.filter(|run| run.position == position))
    }
}

/// A part of the data file, read with one I/O, in which extents are found.
struct Window<'a> {
    file: &'a Shared,
    buffer: Buffer,
    start: u64,
    len: usize,
}

impl<'a> Window<'a> {
    fn new(file: &'a Shared) -> Self {
        Self { file, buffer: file.pool.get(IO_BYTES), start: 0, len: 0 }
    }

    /// The extent that starts at a position, if there is one.
    fn extent_at(&mut self, position: u64) -> Result<Option<(u64, Entry)>, StoreError> {
        let file = self.file;
        let head = self.bytes_at(position, file.granule_bytes as usize)?;
        let Some((index, payload)) = read_head(head, file.place.subfile) else {
            return Ok(None);
        };
        if index > MAX_EXTENT_INDEX {
            return Ok(None);
        }
        let entry = file.find_waiting(index)?;
        let fits = |entry: &Entry| entry.position == position && entry.payload_bytes() == payload;
        Ok(entry.filter(fits).map(|entry| (index, entry)))
    }

    /// The block of an extent.
    fn block(&mut self, entry: Entry) -> Result<&[u8], StoreError> {
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
        self.len = read.map_err(|error| self.file.place.io(error, "reading extents"))?;
        self.start = position;
        Ok(())
    }
}

/// Blocks on their way to consecutive places, written with one I/O.
struct Moves<'a> {
    file: &'a Shared,
    buffer: Buffer,
    len: usize,
    under_way: Vec<(Reservation, Entry)>,
    moved_granules: u64,
}

impl<'a> Moves<'a> {
    fn new(file: &'a Shared) -> Self {
        let buffer = file.pool.get(IO_BYTES);
        Self { file, buffer, len: 0, under_way: Vec::new(), moved_granules: 0 }
    }

    /// Takes a block that is to move to a position, or behind the last extent; the answer says
    /// whether it will.
    fn add(
        &mut self,
        index: u64,
        entry: Entry,
        block: &[u8],
        to: Option<u64>,
    ) -> Result<bool, StoreError> {
        if check_block(block, self.file.place.subfile, index, entry).is_err() {
            // Moving must not turn a damaged extent into a lost one.
            return Ok(false);
        }
        let Some(reservation) = self.reserve(index, entry, to)? else { return Ok(false) };
        let follows = self.under_way.last().is_none_or(|(last, _)| {
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
        self.under_way.push((reservation, entry));
        Ok(true)
    }

    fn reserve(
        &self,
        index: u64,
        entry: Entry,
        to: Option<u64>,
    ) -> Result<Option<Reservation>, StoreError> {
        let file = self.file;
        let granules = entry.run(file.granule_bytes).granules;
        let mut state = file.state.lock();
        let State { pages, space, .. } = &mut *state;
        let run = match to {
            Some(position) => space.allocate_at(pages, position, granules),
            None => Ok(space.allocate_at_end(granules)),
        };
        let run = run.map_err(|fault| file.poison(file.fault(fault, None)))?;
        let Some(run) = run else { return Ok(None) };
        match file.hold(&mut state, index, run) {
            // Who compacts is short of space: what does not fit stays where it is.
            Err(error) if error.is_full() => Ok(None),
            held => held.map(Some),
        }
    }

    /// Writes what is under way and makes it part of the subfile.
    fn write(&mut self) -> Result<(), StoreError> {
        let under_way = std::mem::take(&mut self.under_way);
        let len = std::mem::take(&mut self.len);
        let Some((first, _)) = under_way.first() else { return Ok(()) };
        let at = self.file.byte_position(first.run.position);
        if let Err(error) = self.file.data.write_all_at(&self.buffer[..len], at) {
            under_way.iter().for_each(|(reservation, _)| self.file.cancel(reservation));
            return Err(self.file.place.io(error, "moving extents"));
        }
        let mut outcome = Ok(());
        for (reservation, entry) in under_way {
            if outcome.is_err() {
                self.file.cancel(&reservation);
                continue;
            }
            let moved = Entry { position: reservation.run.position, ..entry };
            match self.file.commit(&reservation, moved, Some(entry)) {
                Ok(true) => self.moved_granules += reservation.run.granules,
                // It was replaced or deleted meanwhile.
                Ok(false) => {}
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// Writes the rest; the answer is the number of granules moved.
    fn finish(mut self) -> Result<u64, StoreError> {
        self.write()?;
        Ok(self.moved_granules)
    }
}

impl Drop for Moves<'_> {
    fn drop(&mut self) {
        // Left over only after an error.
        self.under_way.iter().for_each(|(reservation, _)| self.file.cancel(reservation));
    }
}

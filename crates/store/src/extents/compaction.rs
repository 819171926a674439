//! Moving extents together until no holes are left.
//!
//! A hole travels from the front to the end of the data file: what follows it moves into it, a
//! batch at a time, each made durable before the space it left is used. A hole that is too small
//! is made larger first, by moving what follows it behind the end. Every move is an ordinary
//! change of the subfile, so that others may read and write meanwhile and a crash at any time is
//! harmless.

use super::block::{Entry, Run, check_block, granules_for, read_head};
use super::shared::{Shared, State};
use crate::buffer::Buffer;
use crate::error::StoreError;

/// Bytes that are moved between two syncs.
const BATCH_BYTES: u64 = 16 << 20;

/// Where extents move to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Into the hole before them, one behind the other.
    Hole(Run),
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
            let targets = [Target::End, Target::Hole(hole)];
            let [first, second] = if is_large { [targets[1], targets[0]] } else { targets };
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
    fn move_batch(&self, hole: Run, mut target: Target) -> Result<u64, StoreError> {
        let end = self.state.lock().space.end();
        let batch = BATCH_BYTES / u64::from(self.granule_bytes);
        let mut position = hole.end();
        let mut moved = 0;
        while position < end {
            if let Some(free) = self.free_at(position)? {
                position = free.end();
                continue;
            }
            let Some((index, entry, block)) = self.extent_at(position)? else {
                // Nothing that the index knows starts here: it is on its way in or out.
                position += 1;
                continue;
            };
            let run = entry.run(self.granule_bytes);
            match &mut target {
                Target::Hole(room) => {
                    if room.granules < run.granules {
                        break;
                    }
                    if self.move_extent(index, entry, block, Target::Hole(*room))? {
                        room.position += run.granules;
                        room.granules -= run.granules;
                        moved += run.granules;
                    }
                }
                Target::End => {
                    if self.move_extent(index, entry, block, Target::End)? {
                        moved += run.granules;
                    }
                    if run.end() - hole.position >= batch {
                        break;
                    }
                }
            }
            position = run.end();
        }
        Ok(moved)
    }

    fn free_at(&self, position: u64) -> Result<Option<Run>, StoreError> {
        Ok(self.first_hole(position)?.filter(|run| run.position == position))
    }

    /// The extent that starts at a position, with its block.
    fn extent_at(&self, position: u64) -> Result<Option<(u64, Entry, Buffer)>, StoreError> {
        let failed = |error| self.place.io(error, "reading an extent");
        let granule = self.granule_bytes as usize;
        let mut first = self.pool.get(granule);
        let at = self.byte_position(position);
        let read = self.data.read_at(&mut first[..granule], at).map_err(failed)?;
        let Some((index, payload)) = read_head(&first[..read], self.place.subfile) else {
            return Ok(None);
        };
        let entry = match self.find_waiting(index) {
            Ok(Some(entry)) if entry.position == position => entry,
            Ok(_) => return Ok(None),
            Err(StoreError::IndexOutOfRange { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if entry.payload_bytes() != payload {
            return Ok(None);
        }
        let bytes = self.disk_bytes(payload);
        if bytes == granule {
            return Ok(Some((index, entry, first)));
        }
        let mut block = self.pool.get(bytes);
        self.data.read_at(&mut block[..bytes], at).map_err(failed)?;
        Ok(Some((index, entry, block)))
    }

    /// Copies a block to another place, if that is still free and the extent still there.
    fn move_extent(
        &self,
        index: u64,
        entry: Entry,
        block: Buffer,
        target: Target,
    ) -> Result<bool, StoreError> {
        let bytes = self.disk_bytes(entry.payload_bytes());
        if check_block(&block[..bytes], self.place.subfile, index, entry).is_err() {
            // Moving must not turn a damaged extent into a lost one.
            return Ok(false);
        }
        let granules = granules_for(entry.payload_bytes(), self.granule_bytes);
        let reservation = {
            let mut state = self.state.lock();
            let State { pages, space, .. } = &mut *state;
            let run = match target {
                Target::Hole(room) => space.allocate_at(pages, room.position, granules),
                Target::End => Ok(space.allocate_at_end(granules)),
            };
            match run.map_err(|fault| self.poison(self.fault(fault, None)))? {
                Some(run) => match self.hold(&mut state, index, run) {
                    // Who compacts is short of space: what does not fit stays where it is.
                    Err(error) if error.is_full() => return Ok(false),
                    other => other?,
                },
                None => return Ok(false),
            }
        };
        let at = self.byte_position(reservation.run.position);
        if let Err(error) = self.data.write_all_at(&block[..bytes], at) {
            self.cancel(&reservation);
            return Err(self.place.io(error, "moving an extent"));
        }
        let moved = Entry { position: reservation.run.position, ..entry };
        self.commit(&reservation, moved, Some(entry))
    }
}

//! Moving extents together until no holes are left.
//!
//! A hole travels from the front to the end of the data file: what follows it moves into it, in
//! batches, each made durable before the space it left is used. Where the hole is too small for
//! what follows, that is moved behind the end first. Every move is an ordinary change of the
//! subfile, so that others may read and write meanwhile and a crash at any time is harmless.

use super::block::{Entry, Run, granules_for, read_head};
use super::shared::{Shared, State};
use crate::buffer::Buffer;
use crate::error::StoreError;

/// Bytes that are moved between two syncs.
const BATCH_BYTES: u64 = 16 << 20;

impl Shared {
    /// Moves extents together and gives the space behind them back.
    pub(crate) fn compact(&self) -> Result<(), StoreError> {
        self.check_writable("compact")?;
        // What waits for a sync would be in the way.
        self.sync()?;
        let mut from = 0;
        while let Some(hole) = self.first_hole(from)? {
            let moved = self.move_batch(hole)?;
            self.sync()?;
            // Extents that nobody may move (being written, or damaged) are passed over.
            from = if moved { hole.position } else { hole.end() };
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

    /// Moves the extents that follow a hole; the answer says whether any moved.
    fn move_batch(&self, hole: Run) -> Result<bool, StoreError> {
        let end = self.state.lock().space.end();
        let granule = u64::from(self.granule_bytes);
        let mut position = hole.end();
        let mut moved = false;
        while position < end && (position - hole.end()) * granule < BATCH_BYTES {
            if let Some(free) = self.free_at(position)? {
                position = free.end();
                continue;
            }
            let Some((index, entry, block)) = self.extent_at(position)? else {
                // Nothing that the index knows starts here: it is on its way in or out.
                position += 1;
                continue;
            };
            moved |= self.move_extent(index, entry, block)?;
            position = entry.run(self.granule_bytes).end();
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

    /// Copies a block to a lower place, or behind the end if there is none.
    fn move_extent(&self, index: u64, entry: Entry, block: Buffer) -> Result<bool, StoreError> {
        let bytes = self.disk_bytes(entry.payload_bytes());
        if super::block::check_block(&block[..bytes], self.place.subfile, index, entry).is_err() {
            // Moving must not turn a damaged extent into a lost one.
            return Ok(false);
        }
        let reservation = {
            let mut state = self.state.lock();
            let State { pages, space, .. } = &mut *state;
            let granules = granules_for(entry.payload_bytes(), self.granule_bytes);
            let lower = space.allocate_below(pages, granules, entry.position);
            let lower = lower.map_err(|fault| self.poison(self.fault(fault, None)))?;
            match lower.or_else(|| space.allocate_at_end(granules)) {
                Some(run) => self.hold(&mut state, index, run)?,
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

//! Writing the index to the disk, while the subfile is in use.
//!
//! Order: the state is frozen and the journal goes on in a new segment → data and old segments
//! are synced → the frozen pages are written and synced → the superblock is written and synced →
//! the old segments go. At every point the newest durable superblock and the segments that follow
//! it describe every change.

use std::io;
use std::sync::Arc;

use super::block::Run;
use super::journal::{Segment, SegmentHead};
use super::shared::{Shared, State};
use crate::error::StoreError;
use crate::index::{Frozen, PAGE_BYTES, Superblock};
use crate::medium::{MediumFile, OpenHow};

impl Shared {
    /// Brings the index on the disk up to date and makes everything durable.
    pub(crate) fn checkpoint(&self) -> Result<(), StoreError> {
        if self.read_only {
            return Ok(());
        }
        let _one_at_a_time = self.checkpointing.lock();
        self.checkpoint_alone()
    }

    /// The same, unless somebody else has meanwhile done what was urgent.
    pub(crate) fn checkpoint_if_urgent(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.checkpointing.lock();
        if self.is_urgent(&self.state.lock()) {
            self.checkpoint_alone()
        } else {
            self.check_writable("checkpoint")
        }
    }

    fn checkpoint_alone(&self) -> Result<(), StoreError> {
        self.check_writable("checkpoint")?;
        if !self.state.lock().needs_checkpoint {
            return self.sync();
        }
        let (frozen, superblock, segments) = self.freeze()?;
        let written = self.write_frozen(&frozen, &superblock);
        let mut state = self.state.lock();
        if let Err(error) = written {
            state.pages.abandon();
            state.needs_checkpoint = true;
            return Err(error);
        }
        state.pages.complete();
        let superfluous = state.older_segments.len().min(segments);
        for (number, _) in state.older_segments.drain(..superfluous) {
            // A segment that stays is older than the superblock and removed at the next opening.
            let _ = self.medium.remove_file(&self.segment_path(number));
        }
        // Pages behind the end are free, and none has been written since the freeze.
        let _ = self.index_file.set_len(frozen.end * PAGE_BYTES as u64);
        self.trim(&mut state);
        Ok(())
    }

    /// Fixes what the checkpoint contains, and makes durable what it refers to. The last answer
    /// is the number of segments that it makes superfluous.
    fn freeze(&self) -> Result<(Frozen, Superblock, usize), StoreError> {
        let syncing = self.syncing.lock();
        let number = self.state.lock().segment.as_ref().map_or(1, |segment| segment.number + 1);
        let file = self.create_segment(number)?;
        let (frozen, superblock, files, superfluous, through) = {
            let mut state = self.state.lock();
            let first_sequence = state.segment.as_ref().map_or(1, Segment::next_sequence);
            let head = SegmentHead {
                number,
                base: number,
                first_sequence,
                whole_records: 0,
                held: state.held_runs(),
            };
            let begun = Segment::begin(file, self.place.subfile, &head, &[]);
            let segment = match begun {
                Ok(segment) => segment,
                Err(error) => {
                    let _ = self.medium.remove_file(&self.segment_path(number));
                    return Err(self.place.io(error, "beginning a journal segment"));
                }
            };
            if let Some(old) = state.segment.replace(segment) {
                state.older_segments.push((old.number, old.file));
            }
            state.unsynced_bytes = 0;
            state.needs_checkpoint = false;
            let frozen = state.pages.freeze();
            let superblock = self.superblock(&state, &frozen, number);
            let superfluous = state.older_segments.len();
            (frozen, superblock, state.segment_files(), superfluous, state.changed)
        };
        let synced = self.sync_files(&files);
        let mut state = self.state.lock();
        if let Err(error) = synced.and_then(|()| self.finish_sync(&mut state, through)) {
            state.pages.abandon();
            return Err(error);
        }
        drop(state);
        drop(syncing);
        Ok((frozen, superblock, superfluous))
    }

    fn create_segment(&self, number: u64) -> Result<Arc<dyn MediumFile>, StoreError> {
        let path = self.segment_path(number);
        let how = OpenHow { create: true, write: true, direct_alignment: None };
        let create = || {
            let file = match self.medium.open(&path, how) {
                // Left behind by an attempt that ran out of space.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.medium.remove_file(&path)?;
                    self.medium.open(&path, how)?
                }
                other => other?,
            };
            self.medium.sync_dir(&self.dir.read())?;
            Ok(file)
        };
        create().map_err(|error| self.place.io(error, "beginning a journal segment"))
    }

    fn segment_path(&self, number: u64) -> String {
        format!("{}/{}", self.dir.read(), Segment::file_name(number))
    }

    fn superblock(&self, state: &State, frozen: &Frozen, journal_segment: u64) -> Superblock {
        let [by_position, by_size] = state.space.trees();
        Superblock {
            generation: frozen.generation,
            file: self.place.subfile.file,
            subfile_index: self.place.subfile.index,
            trees: [state.extents.root(), by_position.root(), by_size.root()],
            free_list: frozen.free_list,
            page_end: frozen.end,
            data_end: state.space.end(),
            extents: state.count,
            live_bytes: state.live_bytes,
            next_version: state.next_version,
            journal_segment,
        }
    }

    fn write_frozen(&self, frozen: &Frozen, superblock: &Superblock) -> Result<(), StoreError> {
        let written = self.write_pages(frozen);
        written.map_err(|error| self.place.io(error, "writing the index"))?;
        let unsynced = |error| self.poison(self.place.io(error, "the sync of the index"));
        self.index_file.sync().map_err(unsynced)?;
        let block = superblock.encode();
        let written = self.index_file.write_all_at(&block[..], superblock.position());
        // A superblock of unknown fate must not be followed by changes that rely on it.
        written.map_err(unsynced)?;
        self.index_file.sync().map_err(unsynced)
    }

    /// Writes the pages, neighbours together.
    fn write_pages(&self, frozen: &Frozen) -> io::Result<()> {
        const AT_ONCE: usize = 256;
        // Reserved first: a full disk must show before anything is written.
        let end = frozen.end * PAGE_BYTES as u64;
        let len = self.index_file.len()?;
        if end > len {
            self.index_file.allocate(len, end - len)?;
        }
        let mut pages = &frozen.pages[..];
        let mut bytes = Vec::with_capacity(AT_ONCE.min(pages.len()) * PAGE_BYTES);
        while let Some((first, _)) = pages.first() {
            let together = pages.iter().zip(*first..).take(AT_ONCE);
            let together = together.take_while(|((no, _), expected)| no == expected).count();
            bytes.clear();
            for (_, page) in &pages[..together] {
                page.seal_into(&mut bytes);
            }
            self.index_file.write_all_at(&bytes, first * PAGE_BYTES as u64)?;
            pages = &pages[together..];
        }
        Ok(())
    }

    /// Gives the file system back what lies behind the last extent.
    fn trim(&self, state: &mut State) {
        let end = state.space.end();
        // What is about to be written again is worth keeping.
        if state.allocated_end > end + end / 16 + (1 << 20) / u64::from(self.granule_bytes) {
            self.trim_to_end(state);
        }
    }

    /// Cuts the data file behind the last extent.
    pub(crate) fn trim_to_end(&self, state: &mut State) {
        let end = state.space.end();
        // Nothing is lost if it fails: the space stays reserved for us.
        if !self.read_only
            && state.allocated_end > end
            && self.data.set_len(self.byte_position(end)).is_ok()
        {
            state.allocated_end = end;
        }
    }
}

impl State {
    /// Runs that are neither free nor part of an extent.
    fn held_runs(&self) -> Vec<Run> {
        let limbo = self.limbo.iter().map(|(_, run)| *run);
        let reserved =
            self.reserved.iter().map(|(&position, &granules)| Run { position, granules });
        limbo.chain(reserved).collect()
    }
}

//! Checkpoints: the store writes the index to the disk while the subfile is in use.
//!
//! Order: freeze the state and continue the journal in a new segment → sync the data file and the
//! old segments → write and sync the frozen pages → write and sync the superblock → remove the old
//! segments. At every point the newest durable superblock and the segments that follow it describe
//! every change.

use std::io;
use std::sync::Arc;

use super::block::GranuleRun;
use super::journal::{Segment, SegmentHead};
use super::open_file::{ExtentFileState, OpenExtentFile};
use crate::error::StoreError;
use crate::index::{FrozenPages, PAGE_BYTES, Superblock};
use crate::medium::{MediumFile, MediumOpenMode};

impl OpenExtentFile {
    /// Writes a checkpoint and makes all changes durable.
    pub(crate) fn checkpoint(&self) -> Result<(), StoreError> {
        if self.read_only {
            return Ok(());
        }
        let _checkpointing = self.checkpointing.lock();
        self.checkpoint_locked()
    }

    /// Writes a checkpoint, unless another thread has done so while this one waited.
    pub(crate) fn checkpoint_if_needed_now(&self) -> Result<(), StoreError> {
        let _checkpointing = self.checkpointing.lock();
        if self.needs_checkpoint_now(&self.state.lock()) {
            self.checkpoint_locked()
        } else {
            self.check_writable("checkpoint")
        }
    }

    fn checkpoint_locked(&self) -> Result<(), StoreError> {
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
        let obsolete = state.older_segments.len().min(segments);
        for (number, _) in state.older_segments.drain(..obsolete) {
            // If this fails, the next opening removes the segment: it is older than the superblock.
            let _ = self.medium.remove_file(&self.segment_path(number));
        }
        // Pages behind the end are free, and no page was written there since the freeze.
        let _ = self.index_file.set_len(frozen.end * PAGE_BYTES as u64);
        self.trim(&mut state);
        Ok(())
    }

    /// Fixes the content of the checkpoint and syncs the files that it refers to. The last value is
    /// the number of segments that the checkpoint makes obsolete.
    fn freeze(&self) -> Result<(FrozenPages, Superblock, usize), StoreError> {
        let syncing = self.syncing.lock();
        let number = self.state.lock().segment.as_ref().map_or(1, |segment| segment.number + 1);
        let file = self.create_segment(number)?;
        let (frozen, superblock, files, obsolete, through) = {
            let mut state = self.state.lock();
            let first_sequence = state.segment.as_ref().map_or(1, Segment::next_sequence);
            let head = SegmentHead {
                number,
                base: number,
                first_sequence,
                whole_records: 0,
                held: state.held_runs(),
            };
            let begun = Segment::begin(file, self.context.subfile, &head, &[]);
            let segment = match begun {
                Ok(segment) => segment,
                Err(error) => {
                    let _ = self.medium.remove_file(&self.segment_path(number));
                    return Err(self.context.io(error, "begin a journal segment of"));
                }
            };
            if let Some(old) = state.segment.replace(segment) {
                state.older_segments.push((old.number, old.file));
            }
            state.unsynced_bytes = 0;
            state.needs_checkpoint = false;
            let frozen = state.pages.freeze();
            let superblock = self.superblock(&state, &frozen, number);
            let obsolete = state.older_segments.len();
            (frozen, superblock, state.segment_files(), obsolete, state.changed)
        };
        let synced = self.sync_files(&files);
        let mut state = self.state.lock();
        if let Err(error) = synced.and_then(|()| self.finish_sync(&mut state, through)) {
            state.pages.abandon();
            return Err(error);
        }
        drop(state);
        drop(syncing);
        Ok((frozen, superblock, obsolete))
    }

    fn create_segment(&self, number: u64) -> Result<Arc<dyn MediumFile>, StoreError> {
        let path = self.segment_path(number);
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        let create = || {
            let file = match self.medium.open(&path, mode) {
                // An earlier attempt ran out of space and left it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.medium.remove_file(&path)?;
                    self.medium.open(&path, mode)?
                }
                other => other?,
            };
            self.medium.sync_dir(&self.dir.read())?;
            Ok(file)
        };
        create().map_err(|error| self.context.io(error, "begin a journal segment of"))
    }

    fn segment_path(&self, number: u64) -> String {
        format!("{}/{}", self.dir.read(), Segment::file_name(number))
    }

    fn superblock(
        &self,
        state: &ExtentFileState,
        frozen: &FrozenPages,
        journal_segment: u64,
    ) -> Superblock {
        let [by_position, by_size] = state.space.trees();
        Superblock {
            generation: frozen.generation,
            file: self.context.subfile.file,
            subfile_index: self.context.subfile.index,
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

    fn write_frozen(
        &self,
        frozen: &FrozenPages,
        superblock: &Superblock,
    ) -> Result<(), StoreError> {
        let written = self.write_pages(frozen);
        written.map_err(|error| self.context.io(error, "write the index of"))?;
        let unsynced = |error| self.poison(self.context.io(error, "sync the index of"));
        self.index_file.sync().map_err(unsynced)?;
        let block = superblock.encode();
        let written = self.index_file.write_all_at(&block[..], superblock.position());
        // The superblock may be on the disk or not: no change may rely on either.
        written.map_err(unsynced)?;
        self.index_file.sync().map_err(unsynced)
    }

    /// Writes the pages; consecutive pages with one I/O.
    fn write_pages(&self, frozen: &FrozenPages) -> io::Result<()> {
        const PAGES_PER_WRITE: usize = 256;
        // Reserve the space first: a full disk must show before the first write.
        let end = frozen.end * PAGE_BYTES as u64;
        let len = self.index_file.len()?;
        if end > len {
            self.index_file.allocate(len, end - len)?;
        }
        let mut pages = &frozen.pages[..];
        let mut bytes = Vec::with_capacity(PAGES_PER_WRITE.min(pages.len()) * PAGE_BYTES);
        while let Some((first, _)) = pages.first() {
            let together = pages.iter().zip(*first..).take(PAGES_PER_WRITE);
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

    /// Returns the space behind the last extent to the file system, if it is much.
    fn trim(&self, state: &mut ExtentFileState) {
        let end = state.space.end();
        // The next writes use a small reserve.
        if state.allocated_end > end + end / 16 + (1 << 20) / u64::from(self.granule_bytes) {
            self.trim_to_end(state);
        }
    }

    /// Cuts the data file behind the last extent.
    pub(crate) fn trim_to_end(&self, state: &mut ExtentFileState) {
        let end = state.space.end();
        // If it fails, the space stays reserved for this file.
        if !self.read_only
            && state.allocated_end > end
            && self.data.set_len(self.byte_position(end)).is_ok()
        {
            state.allocated_end = end;
        }
    }
}

impl ExtentFileState {
    /// Runs that are neither free nor part of an extent: in limbo or reserved.
    fn held_runs(&self) -> Vec<GranuleRun> {
        let limbo = self.limbo.iter().map(|(_, run)| *run);
        let reserved =
            self.reserved.iter().map(|(&position, &granules)| GranuleRun { position, granules });
        limbo.chain(reserved).collect()
    }
}

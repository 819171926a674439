//! Creation and recovery of an extent subfile: checkpoint, then journal.
//!
//! Recovery reads the newest superblock and the journal segments that follow it. It believes changes
//! that were durable. For later changes it verifies the block on the disk; it drops a change whose
//! block is not whole. If no change is missing, as after the death of a process, the journal
//! continues in its last segment. Otherwise recovery writes the remaining changes into one new
//! segment, syncs it and removes the old ones. So it decides about each change only once: later
//! writes may overwrite the blocks that the decision rests on.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use super::block::{ExtentEntry, GranuleRun, MAX_EXTENT_INDEX, check_block, granules_for};
use super::free_space::{FreeSpace, MAX_GRANULES};
use super::journal::{
    BadSegment, JOURNAL_VERSION, JournalRecord, PreviousBlock, ReadSegment, Segment, SegmentHead,
};
use super::open_file::ExtentFileState;
use crate::buffer::BufferPool;
use crate::error::{StoreError, SubfileContext};
use crate::index::{
    BadSuperblock, INDEX_VERSION, PAGE_BYTES, PageFault, PageKind, Pages, Superblock, Tree,
};
use crate::medium::{Medium, MediumFile, MediumOpenMode};

/// The file of the blocks.
const DATA: &str = "data";
/// The file of the index.
const INDEX: &str = "index";
/// The file of the description.
pub(crate) const DESCRIPTION: &str = "description";

/// The files of an extent subfile, opened.
pub(crate) struct Files {
    pub(crate) data: Arc<dyn MediumFile>,
    pub(crate) index: Arc<dyn MediumFile>,
}

/// The recovery of one subfile: the parameters that all its steps need.
pub(crate) struct Recovery<'a> {
    pub(crate) medium: &'a dyn Medium,
    pub(crate) dir: &'a str,
    pub(crate) context: &'a SubfileContext,
    pub(crate) pool: &'a BufferPool,
    pub(crate) granule_bytes: u32,
    pub(crate) read_only: bool,
    pub(crate) index_cache_bytes: usize,
}

/// Creates the files of a new, empty subfile in an existing directory.
pub(crate) fn create_files(
    medium: &dyn Medium,
    dir: &str,
    context: &SubfileContext,
) -> io::Result<()> {
    let create = MediumOpenMode { create: true, write: true, direct_alignment: None };
    medium.open(&format!("{dir}/{DATA}"), create)?.sync()?;
    let segment =
        SegmentHead { number: 1, base: 1, first_sequence: 1, whole_records: 0, held: Vec::new() };
    let file = medium.open(&format!("{dir}/{}", Segment::file_name(1)), create)?;
    Segment::begin(file, context.subfile, &segment, &[])?.file.sync()?;
    let none = (crate::index::PageLink::NONE, 0);
    let superblock = Superblock {
        generation: 0,
        file: context.subfile.file,
        subfile_index: context.subfile.index,
        trees: [none; 3],
        free_list: none.0,
        page_end: 0,
        data_end: 0,
        extents: 0,
        live_bytes: 0,
        next_version: 1,
        journal_segment: 1,
    };
    let index = medium.open(&format!("{dir}/{INDEX}"), create)?;
    index.write_all_at(&superblock.encode()[..], superblock.position())?;
    index.sync()
}

/// The changes of the journal since a checkpoint.
struct ReplayedJournal {
    /// The changed extents by index.
    changes: BTreeMap<u64, ReplayedExtent>,
    held: Vec<GranuleRun>,
    next_sequence: u64,
    /// The numbers of all segments on the disk.
    segments: Vec<u64>,
    /// The segments that hold the changes, oldest first.
    chain: Vec<ReadSegment>,
    /// Whether the chain has no holes and recovery accepts every change in it.
    is_intact: bool,
    /// Whether some changes were not known to be durable.
    had_doubts: bool,
}

#[derive(Clone, Copy)]
struct ReplayedExtent {
    at_checkpoint: Option<PreviousBlock>,
    latest: LatestChange,
}

#[derive(Clone, Copy)]
enum LatestChange {
    Unchanged,
    PutAt(ExtentEntry),
    Deleted,
}

impl Recovery<'_> {
    /// Opens data and index.
    pub(crate) fn files(&self) -> Result<Files, StoreError> {
        let open = |name: &str, direct_alignment| {
            let mode = MediumOpenMode { create: false, write: !self.read_only, direct_alignment };
            let opened = self.medium.open(&format!("{}/{name}", self.dir), mode);
            opened.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    self.context.damaged(None, format!("its {name} file is missing"))
                }
                _ => self.context.io(error, &format!("open the {name} file of")),
            })
        };
        // A file system serialises direct writes that are smaller than its blocks.
        let direct = self.granule_bytes.is_multiple_of(4096).then_some(self.granule_bytes);
        Ok(Files { data: open(DATA, direct)?, index: open(INDEX, None)? })
    }

    /// Reads the checkpoint and the journal, and applies the journal to the checkpoint.
    pub(crate) fn recover(&self, files: &Files) -> Result<ExtentFileState, StoreError> {
        if !self.read_only {
            // After the death of a process the newest superblock may be in the page cache only. It
            // must be durable before recovery removes files that it makes obsolete.
            let synced = files.index.sync();
            synced.map_err(|error| self.context.io(error, "sync the index of"))?;
        }
        let superblock = self.newest_superblock(&files.index)?;
        let replayed = self.replay(&superblock, &files.data)?;
        if replayed.changes.len() > 64 {
            files.index.will_need(0, superblock.page_end * PAGE_BYTES as u64);
        }
        let mut state = self.state_of(&superblock, files, &replayed)?;
        if !self.read_only {
            self.continue_journal(&superblock, files, &replayed, &mut state)?;
        }
        Ok(state)
    }

    fn newest_superblock(&self, index: &Arc<dyn MediumFile>) -> Result<Superblock, StoreError> {
        let mut newest: Option<Superblock> = None;
        for number in 0..2 {
            let mut block = Box::new([0; PAGE_BYTES]);
            let read = index.read_at(&mut block[..], number * PAGE_BYTES as u64);
            read.map_err(|error| self.context.io(error, "read the index of"))?;
            match Superblock::decode(&block) {
                Ok(found) if newest.is_none_or(|known| known.generation < found.generation) => {
                    newest = Some(found);
                }
                Err(BadSuperblock::Newer(version)) => {
                    return Err(self.context.newer(INDEX, version, INDEX_VERSION));
                }
                // The other superblock counts: a torn write leaves it intact. If this one is damaged in
                // another way, the journal of the older checkpoint is missing, which fails below.
                _ => {}
            }
        }
        let newest = newest.ok_or_else(|| {
            self.context.damaged(None, "the index has no superblock that can be read")
        })?;
        let subfile = self.context.subfile;
        if newest.file != subfile.file || newest.subfile_index != subfile.index {
            return Err(self.context.damaged(None, "the index belongs to another subfile"));
        }
        Ok(newest)
    }

    fn replay(
        &self,
        superblock: &Superblock,
        data: &Arc<dyn MediumFile>,
    ) -> Result<ReplayedJournal, StoreError> {
        let segments = self.segment_numbers()?;
        let chain = self.read_chain(&segments, superblock.journal_segment)?;
        let held = chain[0].head.held.clone();
        let next_sequence = chain.iter().map(ReadSegment::end_sequence).max().unwrap_or(1);
        let synced = self.synced_through(&chain)?;
        let mut changes = BTreeMap::new();
        let mut expected = chain[0].head.first_sequence;
        let (mut is_intact, mut had_doubts) = (true, false);
        for segment in &chain {
            if segment.head.first_sequence != expected {
                // The end of the segment before is missing: later changes do not count.
                is_intact = false;
                break;
            }
            expected = segment.end_sequence();
            is_intact &= !segment.has_more;
            for (change, sequence) in segment.records.iter().zip(segment.head.first_sequence..) {
                let in_doubt = sequence > synced && !matches!(change, JournalRecord::Synced { .. });
                had_doubts |= in_doubt;
                is_intact &= self.replay_one(*change, in_doubt, &mut changes, data)?;
            }
        }
        changes.retain(|_, extent| !matches!(extent.latest, LatestChange::Unchanged));
        Ok(ReplayedJournal { changes, held, next_sequence, segments, chain, is_intact, had_doubts })
    }

    fn segment_numbers(&self) -> Result<Vec<u64>, StoreError> {
        let listed = self.medium.list(self.dir);
        let names = listed.map_err(|error| self.context.io(error, "list the files of"))?;
        let mut numbers: Vec<u64> =
            names.iter().filter_map(|name| Segment::number_of(&name.name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The segments since the checkpoint that names `base`, without gaps; at least one.
    fn read_chain(&self, numbers: &[u64], base: u64) -> Result<Vec<ReadSegment>, StoreError> {
        let mut chain: Vec<ReadSegment> = Vec::new();
        for &number in numbers.iter().filter(|&&number| number >= base) {
            let bytes = self.read_whole(&self.segment_path(number))?;
            match ReadSegment::decode(&bytes, self.context.subfile, number) {
                Ok(segment) if segment.head.base == base => chain = vec![segment],
                Ok(segment) => {
                    let follows = chain
                        .last()
                        .is_some_and(|last| last.end_sequence() <= segment.head.first_sequence);
                    if follows {
                        chain.push(segment);
                    }
                }
                Err(BadSegment::Newer(version)) => {
                    let name = Segment::file_name(number);
                    return Err(self.context.newer(name, version, JOURNAL_VERSION));
                }
                // A crash came before the sync of the segment. The segment that the checkpoint names
                // must be there: the test below fails without it.
                Err(BadSegment::NotWhole) => {}
            }
        }
        if chain.is_empty() {
            let name = Segment::file_name(base);
            return Err(self.context.damaged(None, format!("{name} is missing or damaged")));
        }
        Ok(chain)
    }

    fn read_whole(&self, path: &str) -> Result<Vec<u8>, StoreError> {
        let mode = MediumOpenMode { create: false, write: false, direct_alignment: None };
        let read = || {
            let file = self.medium.open(path, mode)?;
            let len = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
            let mut bytes = vec![0; len];
            let count = file.read_at(&mut bytes, 0)?;
            bytes.truncate(count);
            Ok(bytes)
        };
        read().map_err(|error| self.context.io(error, "read the journal of"))
    }

    /// The sequence number of the last durable change. Fails if a durable record is missing.
    fn synced_through(&self, chain: &[ReadSegment]) -> Result<u64, StoreError> {
        let mut synced = 0;
        let mut readable_end = None;
        for segment in chain {
            let in_records = segment.records.iter().filter_map(|change| match change {
                JournalRecord::Synced { through } => Some(*through),
                _ => None,
            });
            synced = synced.max(in_records.max().unwrap_or(0));
            synced = synced.max(segment.synced_behind_hole.unwrap_or(0));
            let end = readable_end.get_or_insert(segment.head.first_sequence);
            if *end == segment.head.first_sequence {
                *end = segment.end_sequence();
            }
        }
        if readable_end.is_some_and(|end| synced >= end) {
            let what = "durable records of the journal are missing";
            return Err(self.context.damaged(None, what));
        }
        Ok(synced)
    }

    /// Applies a record to `changes`; returns whether recovery accepts it.
    fn replay_one(
        &self,
        change: JournalRecord,
        in_doubt: bool,
        changes: &mut BTreeMap<u64, ReplayedExtent>,
        data: &Arc<dyn MediumFile>,
    ) -> Result<bool, StoreError> {
        let (index, old, now) = match change {
            JournalRecord::Synced { .. } => return Ok(true),
            JournalRecord::Put { index, entry, old } => (index, old, LatestChange::PutAt(entry)),
            JournalRecord::Delete { index, old } => (index, Some(old), LatestChange::Deleted),
        };
        if index > MAX_EXTENT_INDEX {
            return Err(self.context.damaged(None, "the journal names an impossible extent index"));
        }
        let unknown = ReplayedExtent { at_checkpoint: old, latest: LatestChange::Unchanged };
        let extent = changes.entry(index).or_insert(unknown);
        match now {
            LatestChange::PutAt(entry) if in_doubt && !self.is_whole(index, entry, data)? => {
                Ok(false)
            }
            _ => {
                extent.latest = now;
                Ok(true)
            }
        }
    }

    /// Whether the block of a change is whole on the disk.
    fn is_whole(
        &self,
        index: u64,
        entry: ExtentEntry,
        data: &Arc<dyn MediumFile>,
    ) -> Result<bool, StoreError> {
        let limit = super::block::EXTENT_LIMIT_BYTES as u64;
        if entry.payload_bytes() > limit || entry.position >= MAX_GRANULES {
            return Ok(false);
        }
        let granule = u64::from(self.granule_bytes);
        let bytes = granules_for(entry.payload_bytes(), self.granule_bytes) * granule;
        let bytes = usize::try_from(bytes).expect("extents are limited");
        let mut block = self.pool.get(bytes);
        let read = data.read_at(&mut block[..bytes], entry.position * granule);
        let read = read.map_err(|error| self.context.io(error, "verify the last changes of"))?;
        Ok(check_block(&block[..read], self.context.subfile, index, entry).is_ok())
    }

    /// The state of the checkpoint with the replayed changes applied.
    fn state_of(
        &self,
        superblock: &Superblock,
        files: &Files,
        replayed: &ReplayedJournal,
    ) -> Result<ExtentFileState, StoreError> {
        let damaged = |fault| match fault {
            PageFault::Damaged(what) => self.context.damaged(None, what),
            PageFault::Io(error) => self.context.io(error, "read the index of"),
            PageFault::Absent(_) => unreachable!("PageLoad::Wait never reports an absent page"),
        };
        let [extents, by_position, by_size] = superblock.trees;
        let tree = |kind, (root, height)| Tree::new(kind, root, height).map_err(damaged);
        let extents = tree(PageKind::Extents, extents)?;
        let by_position = tree(PageKind::FreeByPosition, by_position)?;
        let by_size = tree(PageKind::FreeBySize, by_size)?;
        let space = FreeSpace::new(by_position, by_size, superblock.data_end).map_err(damaged)?;
        let mut pages = Pages::new(
            files.index.clone(),
            superblock.generation,
            superblock.page_end,
            // The other half is for changed pages.
            self.index_cache_bytes / 2,
        );
        pages.load_free_list(superblock.free_list).map_err(damaged)?;
        let data_len = files.data.len();
        let data_len =
            data_len.map_err(|error| self.context.io(error, "measure the data file of"))?;
        let mut state = ExtentFileState {
            pages,
            extents,
            space,
            count: superblock.extents,
            live_bytes: superblock.live_bytes,
            // Writes that a crash has interrupted may have used higher versions.
            next_version: superblock.next_version + (1 << 32),
            segment: None,
            older_segments: Vec::new(),
            limbo: VecDeque::new(),
            limbo_granules: 0,
            reserved: HashMap::new(),
            changed: replayed.next_sequence.saturating_sub(1),
            synced: replayed.next_sequence.saturating_sub(1),
            unsynced_bytes: 0,
            unmovable_granules: 0,
            allocated_end: data_len / u64::from(self.granule_bytes),
            needs_checkpoint: replayed.chain.len() > 1
                || !replayed.held.is_empty()
                || replayed.chain.iter().any(|segment| !segment.records.is_empty()),
        };
        self.apply(replayed, &mut state).map_err(damaged)?;
        Ok(state)
    }

    fn apply(
        &self,
        replayed: &ReplayedJournal,
        state: &mut ExtentFileState,
    ) -> Result<(), PageFault> {
        let ExtentFileState { pages, extents, space, count, live_bytes, .. } = state;
        let impossible =
            || PageFault::Damaged("journal and checkpoint contradict each other".into());
        for run in &replayed.held {
            space.free(pages, *run)?;
        }
        for extent in replayed.changes.values() {
            if let Some(old) = extent.at_checkpoint {
                let payload = u64::from(old.payload_bytes);
                let granules = granules_for(payload, self.granule_bytes);
                space.free(pages, GranuleRun { position: old.position, granules })?;
                *count = count.checked_sub(1).ok_or_else(impossible)?;
                *live_bytes = live_bytes.checked_sub(payload).ok_or_else(impossible)?;
            }
        }
        for (&index, extent) in &replayed.changes {
            match extent.latest {
                LatestChange::PutAt(entry) => {
                    space.take(pages, entry.run(self.granule_bytes))?;
                    extents.insert(pages, index, entry.to_value())?;
                    *count += 1;
                    *live_bytes = live_bytes.saturating_add(entry.payload_bytes());
                }
                LatestChange::Deleted => {
                    extents.remove(pages, index)?;
                }
                LatestChange::Unchanged => {}
            }
        }
        Ok(())
    }

    /// Makes the replayed changes durable, and gives the state a segment to append to.
    fn continue_journal(
        &self,
        superblock: &Superblock,
        files: &Files,
        replayed: &ReplayedJournal,
        state: &mut ExtentFileState,
    ) -> Result<(), StoreError> {
        let continued = || {
            // Verified blocks may be in the page cache only.
            files.data.sync()?;
            if replayed.is_intact {
                self.reuse_segments(replayed)
            } else {
                self.rewrite_journal(superblock.journal_segment, replayed)
            }
        };
        let taken = continued();
        let mut segments =
            taken.map_err(|error| self.context.io(error, "continue the journal of"))?;
        let mut segment = segments.pop().expect("a chain has a last segment");
        let through = segment.next_sequence().saturating_sub(1);
        if replayed.had_doubts {
            // Without this record, the next recovery verifies more blocks than necessary.
            let _ = segment.append(JournalRecord::Synced { through });
        }
        state.changed = through;
        state.synced = through;
        let older = segments.into_iter().map(|segment| (segment.number, segment.file));
        state.older_segments = older.collect();
        state.segment = Some(segment);
        Ok(())
    }

    /// Keeps the segments of the chain and removes all others.
    fn reuse_segments(&self, replayed: &ReplayedJournal) -> io::Result<Vec<Segment>> {
        let mode = MediumOpenMode { create: false, write: true, direct_alignment: None };
        let open = |read: &ReadSegment| {
            let file = self.medium.open(&self.segment_path(read.head.number), mode)?;
            file.sync()?;
            Segment::resume(file, read)
        };
        let segments = replayed.chain.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let in_use = |number| segments.iter().any(|segment| segment.number == number);
        for &number in replayed.segments.iter().filter(|&&number| !in_use(number)) {
            // An old segment does no harm if it stays.
            let _ = self.medium.remove_file(&self.segment_path(number));
        }
        Ok(segments)
    }

    /// Writes the accepted changes into one durable segment and removes all others.
    fn rewrite_journal(&self, base: u64, replayed: &ReplayedJournal) -> io::Result<Vec<Segment>> {
        let number = replayed.segments.last().map_or(base, |last| last.max(&base) + 1);
        let records: Vec<JournalRecord> = replayed.changes.iter().filter_map(to_record).collect();
        let head = SegmentHead {
            number,
            base,
            first_sequence: replayed.next_sequence,
            whole_records: records.len() as u64,
            held: replayed.held.clone(),
        };
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        let file = self.medium.open(&self.segment_path(number), mode)?;
        let segment = Segment::begin(file, self.context.subfile, &head, &records)?;
        segment.file.sync()?;
        self.medium.sync_dir(self.dir)?;
        for &old in &replayed.segments {
            self.medium.remove_file(&self.segment_path(old))?;
        }
        Ok(vec![segment])
    }

    fn segment_path(&self, number: u64) -> String {
        format!("{}/{}", self.dir, Segment::file_name(number))
    }
}

fn to_record((&index, extent): (&u64, &ReplayedExtent)) -> Option<JournalRecord> {
    let old = extent.at_checkpoint;
    match extent.latest {
        LatestChange::PutAt(entry) => Some(JournalRecord::Put { index, entry, old }),
        LatestChange::Deleted => old.map(|old| JournalRecord::Delete { index, old }),
        LatestChange::Unchanged => None,
    }
}

//! Creating and opening an extent subfile: checkpoint, then journal.
//!
//! Opening reads the newest superblock and the journal segments that follow it. Changes that are
//! known to have been durable are believed; for later ones the block on the disk is checked
//! first, and a change whose block is not whole has not happened. If nothing is missing, as after
//! the death of a process, the journal goes on where it ended. Otherwise the changes that remain
//! are put into one new segment, made durable, and the old segments go: what recovery once decided
//! it never has to decide again, when the evidence may be overwritten.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use super::block::{Entry, MAX_EXTENT_INDEX, Run, check_block, granules_for};
use super::journal::{BadSegment, Change, JOURNAL_VERSION, Old, ReadSegment, Segment, SegmentHead};
use super::shared::State;
use super::space::{MAX_GRANULES, Space};
use crate::buffer::BufferPool;
use crate::error::{Place, StoreError};
use crate::index::{
    BadSuperblock, INDEX_VERSION, PAGE_BYTES, PageFault, PageKind, Pages, Superblock, Tree,
};
use crate::medium::{Medium, MediumFile, OpenHow};

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

/// The part of opening that all steps need.
pub(crate) struct Opening<'a> {
    pub(crate) medium: &'a dyn Medium,
    pub(crate) dir: &'a str,
    pub(crate) place: &'a Place,
    pub(crate) pool: &'a BufferPool,
    pub(crate) granule_bytes: u32,
    pub(crate) read_only: bool,
    pub(crate) index_cache_bytes: usize,
}

/// Makes the files of a new, empty subfile in a directory that exists.
pub(crate) fn create_files(medium: &dyn Medium, dir: &str, place: &Place) -> io::Result<()> {
    let create = OpenHow { create: true, write: true, direct_alignment: None };
    medium.open(&format!("{dir}/{DATA}"), create)?.sync()?;
    let segment =
        SegmentHead { number: 1, base: 1, first_sequence: 1, whole_records: 0, held: Vec::new() };
    let file = medium.open(&format!("{dir}/{}", Segment::file_name(1)), create)?;
    Segment::begin(file, place.subfile, &segment, &[])?.file.sync()?;
    let none = (crate::index::Link::NONE, 0);
    let superblock = Superblock {
        generation: 0,
        file: place.subfile.file,
        subfile_index: place.subfile.index,
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

/// What the journal says on top of a checkpoint.
struct Replayed {
    /// By extent: where it was at the checkpoint, and what became of it.
    changes: BTreeMap<u64, Outcome>,
    held: Vec<Run>,
    next_sequence: u64,
    /// All segments there are.
    segments: Vec<u64>,
    /// Those that say the above, oldest first.
    chain: Vec<ReadSegment>,
    /// Whether the chain has no holes, and every change in it has happened.
    is_intact: bool,
    /// Whether there are changes that were not known to be durable.
    had_doubts: bool,
}

#[derive(Clone, Copy)]
struct Outcome {
    at_checkpoint: Option<Old>,
    now: Now,
}

#[derive(Clone, Copy)]
enum Now {
    Unchanged,
    At(Entry),
    Gone,
}

impl Opening<'_> {
    /// Opens data and index.
    pub(crate) fn files(&self) -> Result<Files, StoreError> {
        let open = |name: &str, direct_alignment| {
            let how = OpenHow { create: false, write: !self.read_only, direct_alignment };
            let opened = self.medium.open(&format!("{}/{name}", self.dir), how);
            opened.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    self.place.damaged(None, format!("its {name} file is missing"))
                }
                _ => self.place.io(error, &format!("opening the {name} file")),
            })
        };
        // Direct I/O below the blocks of a file system makes it do one write after the other.
        let direct = self.granule_bytes.is_multiple_of(4096).then_some(self.granule_bytes);
        Ok(Files { data: open(DATA, direct)?, index: open(INDEX, None)? })
    }

    /// Reads the checkpoint and the journal, and makes them one again.
    pub(crate) fn recover(&self, files: &Files) -> Result<State, StoreError> {
        if !self.read_only {
            // After the death of a process the newest superblock may be in the kernel's hands
            // only; nothing may be removed on its word before it is durable.
            let synced = files.index.sync();
            synced.map_err(|error| self.place.io(error, "the sync of the index"))?;
        }
        let superblock = self.newest_superblock(&files.index)?;
        let replayed = self.replay(&superblock, &files.data)?;
        if replayed.changes.len() > 64 {
            files.index.will_need(0, superblock.page_end * PAGE_BYTES as u64);
        }
        let mut state = self.state_of(&superblock, files, &replayed)?;
        if !self.read_only {
            self.take_over(&superblock, files, &replayed, &mut state)?;
        }
        Ok(state)
    }

    fn newest_superblock(&self, index: &Arc<dyn MediumFile>) -> Result<Superblock, StoreError> {
        let mut newest: Option<Superblock> = None;
        for number in 0..2 {
            let mut block = Box::new([0; PAGE_BYTES]);
            let read = index.read_at(&mut block[..], number * PAGE_BYTES as u64);
            read.map_err(|error| self.place.io(error, "reading the index"))?;
            match Superblock::decode(&block) {
                Ok(found) if newest.is_none_or(|known| known.generation < found.generation) => {
                    newest = Some(found);
                }
                Err(BadSuperblock::Newer(version)) => {
                    return Err(self.place.newer(INDEX, version, INDEX_VERSION));
                }
                // The other one counts: a torn write leaves it as it was. If this one is damaged
                // otherwise, the journal of the older checkpoint is missing, and that is noticed.
                _ => {}
            }
        }
        let newest = newest.ok_or_else(|| {
            self.place.damaged(None, "the index has no superblock that can be read")
        })?;
        let subfile = self.place.subfile;
        if newest.file != subfile.file || newest.subfile_index != subfile.index {
            return Err(self.place.damaged(None, "the index belongs to another subfile"));
        }
        Ok(newest)
    }

    fn replay(
        &self,
        superblock: &Superblock,
        data: &Arc<dyn MediumFile>,
    ) -> Result<Replayed, StoreError> {
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
                // The end of the segment before is missing, so nothing later counts.
                is_intact = false;
                break;
            }
            expected = segment.end_sequence();
            is_intact &= !segment.has_more;
            for (change, sequence) in segment.records.iter().zip(segment.head.first_sequence..) {
                let in_doubt = sequence > synced && !matches!(change, Change::Synced { .. });
                had_doubts |= in_doubt;
                is_intact &= self.replay_one(*change, in_doubt, &mut changes, data)?;
            }
        }
        changes.retain(|_, outcome| !matches!(outcome.now, Now::Unchanged));
        Ok(Replayed { changes, held, next_sequence, segments, chain, is_intact, had_doubts })
    }

    fn segment_numbers(&self) -> Result<Vec<u64>, StoreError> {
        let listed = self.medium.list(self.dir);
        let names = listed.map_err(|error| self.place.io(error, "listing the files"))?;
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
            match ReadSegment::decode(&bytes, self.place.subfile, number) {
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
                    return Err(self.place.newer(name, version, JOURNAL_VERSION));
                }
                // It was begun and never made durable; the checkpoint's own one must be there.
                Err(BadSegment::NotWhole) => {}
            }
        }
        if chain.is_empty() {
            let name = Segment::file_name(base);
            return Err(self.place.damaged(None, format!("{name} is missing or damaged")));
        }
        Ok(chain)
    }

    fn read_whole(&self, path: &str) -> Result<Vec<u8>, StoreError> {
        let how = OpenHow { create: false, write: false, direct_alignment: None };
        let read = || {
            let file = self.medium.open(path, how)?;
            let len = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
            let mut bytes = vec![0; len];
            let count = file.read_at(&mut bytes, 0)?;
            bytes.truncate(count);
            Ok(bytes)
        };
        read().map_err(|error| self.place.io(error, "reading the journal"))
    }

    /// Up to which sequence number the changes were durable; an error if one of these is missing.
    fn synced_through(&self, chain: &[ReadSegment]) -> Result<u64, StoreError> {
        let mut synced = 0;
        let mut readable_end = None;
        for segment in chain {
            let in_records = segment.records.iter().filter_map(|change| match change {
                Change::Synced { through } => Some(*through),
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
            let what = "records of the journal are missing that had been made durable";
            return Err(self.place.damaged(None, what));
        }
        Ok(synced)
    }

    /// Takes a change into account; the answer says whether it has happened.
    fn replay_one(
        &self,
        change: Change,
        in_doubt: bool,
        changes: &mut BTreeMap<u64, Outcome>,
        data: &Arc<dyn MediumFile>,
    ) -> Result<bool, StoreError> {
        let (index, old, now) = match change {
            Change::Synced { .. } => return Ok(true),
            Change::Put { index, entry, old } => (index, old, Now::At(entry)),
            Change::Delete { index, old } => (index, Some(old), Now::Gone),
        };
        if index > MAX_EXTENT_INDEX {
            return Err(self.place.damaged(None, "the journal names an impossible extent"));
        }
        let unknown = Outcome { at_checkpoint: old, now: Now::Unchanged };
        let outcome = changes.entry(index).or_insert(unknown);
        match now {
            Now::At(entry) if in_doubt && !self.is_whole(index, entry, data)? => Ok(false),
            _ => {
                outcome.now = now;
                Ok(true)
            }
        }
    }

    /// Whether the block of a change is on the disk.
    fn is_whole(
        &self,
        index: u64,
        entry: Entry,
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
        let read = read.map_err(|error| self.place.io(error, "checking the last changes"))?;
        Ok(check_block(&block[..read], self.place.subfile, index, entry).is_ok())
    }

    /// The state of the checkpoint with the replayed changes applied to it.
    fn state_of(
        &self,
        superblock: &Superblock,
        files: &Files,
        replayed: &Replayed,
    ) -> Result<State, StoreError> {
        let damaged = |fault| match fault {
            PageFault::Damaged(what) => self.place.damaged(None, what),
            PageFault::Io(error) => self.place.io(error, "reading the index"),
            PageFault::Absent(_) => unreachable!("a page that is waited for is never absent"),
        };
        let [extents, by_position, by_size] = superblock.trees;
        let tree = |kind, (root, height)| Tree::new(kind, root, height).map_err(damaged);
        let extents = tree(PageKind::Extents, extents)?;
        let by_position = tree(PageKind::FreeByPosition, by_position)?;
        let by_size = tree(PageKind::FreeBySize, by_size)?;
        let space = Space::new(by_position, by_size, superblock.data_end).map_err(damaged)?;
        let mut pages = Pages::new(
            files.index.clone(),
            superblock.generation,
            superblock.page_end,
            // The other half is for pages that wait to be written.
            self.index_cache_bytes / 2,
        );
        pages.load_free_list(superblock.free_list).map_err(damaged)?;
        let data_len = files.data.len();
        let data_len = data_len.map_err(|error| self.place.io(error, "measuring the data"))?;
        let mut state = State {
            pages,
            extents,
            space,
            count: superblock.extents,
            live_bytes: superblock.live_bytes,
            // What a crash left unfinished may have used higher versions.
            next_version: superblock.next_version + (1 << 32),
            segment: None,
            older_segments: Vec::new(),
            limbo: VecDeque::new(),
            limbo_granules: 0,
            reserved: HashMap::new(),
            changed: replayed.next_sequence.saturating_sub(1),
            synced: replayed.next_sequence.saturating_sub(1),
            unsynced_bytes: 0,
            allocated_end: data_len / u64::from(self.granule_bytes),
            needs_checkpoint: replayed.chain.len() > 1
                || !replayed.held.is_empty()
                || replayed.chain.iter().any(|segment| !segment.records.is_empty()),
        };
        self.apply(replayed, &mut state).map_err(damaged)?;
        Ok(state)
    }

    fn apply(&self, replayed: &Replayed, state: &mut State) -> Result<(), PageFault> {
        let State { pages, extents, space, count, live_bytes, .. } = state;
        let impossible =
            || PageFault::Damaged("journal and checkpoint contradict each other".into());
        for run in &replayed.held {
            space.free(pages, *run)?;
        }
        for outcome in replayed.changes.values() {
            if let Some(old) = outcome.at_checkpoint {
                let payload = u64::from(old.payload_bytes);
                let granules = granules_for(payload, self.granule_bytes);
                space.free(pages, Run { position: old.position, granules })?;
                *count = count.checked_sub(1).ok_or_else(impossible)?;
                *live_bytes = live_bytes.checked_sub(payload).ok_or_else(impossible)?;
            }
        }
        for (&index, outcome) in &replayed.changes {
            match outcome.now {
                Now::At(entry) => {
                    space.take(pages, entry.run(self.granule_bytes))?;
                    extents.insert(pages, index, entry.to_value())?;
                    *count += 1;
                    *live_bytes = live_bytes.saturating_add(entry.payload_bytes());
                }
                Now::Gone => {
                    extents.remove(pages, index)?;
                }
                Now::Unchanged => {}
            }
        }
        Ok(())
    }

    /// Makes durable what was replayed, and gives the state a journal to go on with.
    fn take_over(
        &self,
        superblock: &Superblock,
        files: &Files,
        replayed: &Replayed,
        state: &mut State,
    ) -> Result<(), StoreError> {
        let take_over = || {
            // What was found whole may still be in the kernel's hands only.
            files.data.sync()?;
            if replayed.is_intact {
                self.go_on(replayed)
            } else {
                self.rewrite(superblock.journal_segment, replayed)
            }
        };
        let taken = take_over();
        let mut segments =
            taken.map_err(|error| self.place.io(error, "taking over the journal"))?;
        let mut segment = segments.pop().expect("a chain has a last segment");
        let through = segment.next_sequence().saturating_sub(1);
        if replayed.had_doubts {
            // Without this record, the next recovery checks more than it needs to; nothing else.
            let _ = segment.append(Change::Synced { through });
        }
        state.changed = through;
        state.synced = through;
        let older = segments.into_iter().map(|segment| (segment.number, segment.file));
        state.older_segments = older.collect();
        state.segment = Some(segment);
        Ok(())
    }

    /// Uses the segments as they are.
    fn go_on(&self, replayed: &Replayed) -> io::Result<Vec<Segment>> {
        let how = OpenHow { create: false, write: true, direct_alignment: None };
        let open = |read: &ReadSegment| {
            let file = self.medium.open(&self.segment_path(read.head.number), how)?;
            file.sync()?;
            Segment::go_on(file, read)
        };
        let segments = replayed.chain.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let in_use = |number| segments.iter().any(|segment| segment.number == number);
        for &number in replayed.segments.iter().filter(|&&number| !in_use(number)) {
            // What is left over from an earlier life does no harm if it stays.
            let _ = self.medium.remove_file(&self.segment_path(number));
        }
        Ok(segments)
    }

    /// Puts the changes that have happened into one durable segment and removes the others.
    fn rewrite(&self, base: u64, replayed: &Replayed) -> io::Result<Vec<Segment>> {
        let number = replayed.segments.last().map_or(base, |last| last.max(&base) + 1);
        let records: Vec<Change> = replayed.changes.iter().filter_map(to_record).collect();
        let head = SegmentHead {
            number,
            base,
            first_sequence: replayed.next_sequence,
            whole_records: records.len() as u64,
            held: replayed.held.clone(),
        };
        let how = OpenHow { create: true, write: true, direct_alignment: None };
        let file = self.medium.open(&self.segment_path(number), how)?;
        let segment = Segment::begin(file, self.place.subfile, &head, &records)?;
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

fn to_record((&index, outcome): (&u64, &Outcome)) -> Option<Change> {
    let old = outcome.at_checkpoint;
    match outcome.now {
        Now::At(entry) => Some(Change::Put { index, entry, old }),
        Now::Gone => old.map(|old| Change::Delete { index, old }),
        Now::Unchanged => None,
    }
}

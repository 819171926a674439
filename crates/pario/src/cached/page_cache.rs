//! A cache of some pages of a file, in the memory of the ranks.
//!
//! Frames for pages form sets of eight; page `p` may be in any frame of set `p` modulo the number of
//! sets. A set has a lock, and for each frame a word with the number of its page and whether the page
//! is changed. A rank that uses a page holds the lock of its set. If the page is not in memory, the
//! rank takes a frame: a free one, one whose page is the same as on the disk, or one whose page it
//! first writes to the disk. Then it reads the page.
//!
//! Invariants: a page is in at most one frame; no rank sees a page that is only partly read; a page
//! that could not be written stays in its frame.

use pario_team::{Mutexes, RawArray, Segments, Team};

use super::agreement::RankFailure;
use super::backing_io::BackingIo;
use super::file_end::FileEnd;
use super::flush::DirtyRun;
use super::io_share::{CHUNK_PAGES, IoShare};
use crate::error::Error;

/// The frames of a set.
const WAYS: usize = 8;
/// The words of a set: one for each frame, and the frame that is freed next.
const WORDS: usize = WAYS + 1;
/// In the word of a frame: the page is changed. The bits below are the number of the page plus one.
const CHANGED: u64 = 1 << 63;

/// Frames for some pages of a file.
pub struct PageCache {
    frames: RawArray,
    words: Segments,
    locks: Mutexes,
    sets: u64,
}

/// The words of a set, while its lock is held.
type Words = [u64; WORDS];

impl PageCache {
    /// Creates frames of this many bytes in total. Collective.
    pub fn new(team: &Team, bytes: u64) -> Result<Self, Error> {
        let page = u64::from(PAGE_BYTES);
        let sets = (bytes / (page * WAYS as u64)).max(1);
        let frames = team.raw_array(sets * WAYS as u64 * page, 1)?;
        debug_assert_eq!(frames.page_len(), page, "a page of the array is a frame");
        let (rank, size) = (u64::from(team.rank()), u64::from(team.size()));
        let own = sets / size + u64::from(sets % size > rank);
        let words = team.segments(usize::try_from(own).unwrap_or(0) * WORDS * 8)?;
        let locks = team.mutexes(u32::try_from(own).unwrap_or(u32::MAX))?;
        Ok(Self { frames, words, locks, sets })
    }

    pub fn page_len(&self) -> u64 {
        self.frames.page_len()
    }

    pub fn array(&self) -> &RawArray {
        &self.frames
    }

    pub fn fence(&self) -> Result<(), Error> {
        self.frames.fence()?;
        Ok(self.words.fence_all()?)
    }

    /// The rank that has the words of a set, and the number of the set there.
    fn owner_of(&self, set: u64) -> (u32, u32) {
        let size = u64::from(self.frames.team().size());
        let (rank, number) = (u32::try_from(set % size), u32::try_from(set / size));
        (rank.unwrap_or(0), number.unwrap_or(u32::MAX))
    }

    fn words_of(&self, set: u64) -> Result<Words, Error> {
        let (rank, number) = self.owner_of(set);
        let mut bytes = [0; WORDS * 8];
        let offset = number as usize * bytes.len();
        self.words.get(&mut bytes, rank, offset)?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut one = [0; 8];
            one.copy_from_slice(bytes);
            *word = u64::from_ne_bytes(one);
        }
        Ok(words)
    }

    fn set_word(&self, set: u64, way: usize, word: u64) -> Result<(), Error> {
        let (rank, number) = self.owner_of(set);
        let offset = (number as usize * WORDS + way) * 8;
        Ok(self.words.put(&word.to_ne_bytes(), rank, offset)?)
    }

    /// Copies bytes from the file.
    pub fn get(&self, io: &PageIo<'_>, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        let page = self.page_len();
        let (mut rest, mut offset) = (bytes, offset);
        while !rest.is_empty() {
            let inside = offset % page;
            let here = usize::try_from(page - inside).unwrap_or(0).min(rest.len());
            let (now, later) = rest.split_at_mut(here);
            self.with_page(io, offset / page, None, |frame| {
                Ok(self.frames.get(now, frame * page + inside)?)
            })?;
            offset += here as u64;
            rest = later;
        }
        Ok(())
    }

    /// Copies bytes into the file.
    pub fn put(&self, io: &PageIo<'_>, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let page = self.page_len();
        let (mut rest, mut offset) = (bytes, offset);
        while !rest.is_empty() {
            let inside = offset % page;
            let here = usize::try_from(page - inside).unwrap_or(0).min(rest.len());
            let (now, later) = rest.split_at(here);
            self.with_page(io, offset / page, Some(here), |frame| {
                Ok(self.frames.put(now, frame * page + inside)?)
            })?;
            offset += here as u64;
            rest = later;
        }
        Ok(())
    }

    /// Calls `work` with the frame of a page, while this rank holds the lock of its set. `written` is
    /// the number of bytes that `work` writes; it makes the page a changed one.
    fn with_page(
        &self,
        io: &PageIo<'_>,
        page: u64,
        written: Option<usize>,
        work: impl FnOnce(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let set = page % self.sets;
        let (rank, number) = self.owner_of(set);
        let held = self.locks.lock(rank, number)?;
        let words = self.words_of(set)?;
        let is_page = |word: &u64| word & !CHANGED == page + 1;
        let way = match words[..WAYS].iter().position(is_page) {
            Some(way) => way,
            None => {
                let way = self.free_frame(io, set, &words)?;
                let is_replaced = written.is_some_and(|len| len as u64 == self.page_len());
                if !is_replaced {
                    self.load(io, set * WAYS as u64 + way as u64, page)?;
                }
                self.set_word(set, way, page + 1)?;
                way
            }
        };
        if written.is_some() {
            // Before the bytes, so that a partly written page counts as changed.
            self.set_word(set, way, (page + 1) | CHANGED)?;
        }
        work(set * WAYS as u64 + way as u64)?;
        self.fence()?;
        drop(held);
        Ok(())
    }

    /// Returns a free frame of a set; writes a page back to free it, if necessary.
    fn free_frame(&self, io: &PageIo<'_>, set: u64, words: &Words) -> Result<usize, Error> {
        if let Some(way) = words[..WAYS].iter().position(|word| *word == 0) {
            return Ok(way);
        }
        let next = usize::try_from(words[WAYS]).unwrap_or(0) % WAYS;
        let mut in_turn = (0..WAYS).map(|step| (next + step) % WAYS);
        let way = in_turn.find(|way| words[*way] & CHANGED == 0).unwrap_or(next);
        if words[way] & CHANGED != 0 {
            let page = (words[way] & !CHANGED) - 1;
            self.write_back(io, set * WAYS as u64 + way as u64, page)?;
        }
        self.set_word(set, way, 0)?;
        self.set_word(set, WAYS, (way as u64 + 1) % WAYS as u64)?;
        Ok(way)
    }

    fn write_back(&self, io: &PageIo<'_>, frame: u64, page: u64) -> Result<(), Error> {
        let len = self.page_len();
        let here = io.end.now()?.saturating_sub(page * len).min(len);
        let span = (frame * len, usize::try_from(here).unwrap_or(0));
        let stored = io.backing.store(&self.frames, &[span], page * len);
        stored.map_err(|why| {
            let why = why.context("cannot write a page back to make room for another");
            why.of_rank(io.path, io.rank())
        })
    }

    /// Reads a page; bytes beyond the end of the file are zero.
    fn load(&self, io: &PageIo<'_>, frame: u64, page: u64) -> Result<(), Error> {
        let len = self.page_len();
        let span = (frame * len, usize::try_from(len).unwrap_or(0));
        let done = io.backing.load(&self.frames, &[span], page * len);
        let done = done.map_err(|why| why.context("cannot read").of_rank(io.path, io.rank()))?;
        if done < len {
            let rest = vec![0; usize::try_from(len - done).unwrap_or(0)];
            self.frames.put(&rest, frame * len + done)?;
        }
        Ok(())
    }

    /// The runs of changed pages of a share. No rank may use the file during the call.
    pub fn dirty(&self, share: IoShare, end: u64) -> Result<Vec<DirtyRun>, RankFailure> {
        let len = self.page_len();
        let mut changed: Vec<(u64, u64)> = Vec::new();
        for set in 0..self.sets {
            for (way, word) in self.words_of(set)?[..WAYS].iter().enumerate() {
                if word & CHANGED != 0 && share.has((word & !CHANGED) - 1) {
                    changed.push(((word & !CHANGED) - 1, set * WAYS as u64 + way as u64));
                }
            }
        }
        changed.sort_unstable();
        let follows = |one: &(u64, u64), other: &(u64, u64)| {
            one.0 + 1 == other.0 && !other.0.is_multiple_of(CHUNK_PAGES)
        };
        let runs = changed.chunk_by(follows).map(|run| {
            let pages = run[0].0..run[run.len() - 1].0 + 1;
            let span = |(page, frame): &(u64, u64)| {
                let here = end.saturating_sub(page * len).min(len);
                (frame * len, usize::try_from(here).unwrap_or(0))
            };
            let spans = run.iter().map(span).collect();
            DirtyRun { offset: pages.start * len, spans, pages }
        });
        Ok(runs.collect())
    }

    /// Marks pages as changed, or as the same as on the disk.
    pub fn mark(&self, dirty: &[DirtyRun], is_changed: bool) -> Result<(), RankFailure> {
        let changed = if is_changed { CHANGED } else { 0 };
        for DirtyRun { pages, spans, .. } in dirty {
            for (page, (first, _)) in pages.clone().zip(spans) {
                let frame = first / self.page_len();
                let way = usize::try_from(frame % WAYS as u64).unwrap_or(0);
                self.set_word(frame / WAYS as u64, way, (page + 1) | changed)?;
            }
        }
        Ok(self.fence()?)
    }
}

/// The bytes of a page: those of a page of an array.
const PAGE_BYTES: u32 = 64 << 10;

/// The file behind the pages, and where it ends.
pub struct PageIo<'a> {
    pub backing: &'a BackingIo,
    pub end: &'a FileEnd,
    pub path: &'a str,
    pub team: &'a Team,
}

impl PageIo<'_> {
    fn rank(&self) -> u32 {
        self.team.rank()
    }
}

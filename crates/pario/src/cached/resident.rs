//! A file of which only some pages are in the memory of the ranks at a time.
//!
//! Frames for pages form sets of eight; page `p` may be in any frame of set `p` modulo the number of
//! sets. A set has a lock, and for each frame a word that says which page is there and whether it was
//! changed. Whoever uses a page holds the lock of its set: it looks for the page, and if it is not
//! there takes a frame that is free, or whose page is as on the disk, or else writes the page of one
//! to the disk first; then it reads the page. So a page is in one frame at most, nobody sees half of
//! one that is being read, and a page that could not be written stays where it is.

use pario_team::{Mutexes, RawArray, Segments, Team};

use super::agreement::Trouble;
use super::disk::Disk;
use super::end::End;
use super::flush::Dirty;
use super::share::{CHUNK_PAGES, Share};
use crate::error::Error;

/// Frames of a set.
const WAYS: usize = 8;
/// Words of a set: one for each frame, and the frame that is given away next.
const WORDS: usize = WAYS + 1;
/// In the word of a frame: the page was changed. Below it stand the page and one more.
const CHANGED: u64 = 1 << 63;

pub struct Resident {
    frames: RawArray,
    words: Segments,
    locks: Mutexes,
    sets: u64,
}

/// The words of a set, while its lock is held.
type Words = [u64; WORDS];

impl Resident {
    /// Frames of so many bytes together, made by all together.
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

    /// Who keeps the words of a set, and its number there.
    fn place(&self, set: u64) -> (u32, u32) {
        let size = u64::from(self.frames.team().size());
        let (rank, number) = (u32::try_from(set % size), u32::try_from(set / size));
        (rank.unwrap_or(0), number.unwrap_or(u32::MAX))
    }

    fn words_of(&self, set: u64) -> Result<Words, Error> {
        let (rank, number) = self.place(set);
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
        let (rank, number) = self.place(set);
        let offset = (number as usize * WORDS + way) * 8;
        Ok(self.words.put(&word.to_ne_bytes(), rank, offset)?)
    }

    /// Copies bytes out of the file.
    pub fn get(&self, using: &Using<'_>, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        let page = self.page_len();
        let (mut rest, mut offset) = (bytes, offset);
        while !rest.is_empty() {
            let inside = offset % page;
            let here = usize::try_from(page - inside).unwrap_or(0).min(rest.len());
            let (now, later) = rest.split_at_mut(here);
            self.with_page(using, offset / page, None, |frame| {
                Ok(self.frames.get(now, frame * page + inside)?)
            })?;
            offset += here as u64;
            rest = later;
        }
        Ok(())
    }

    /// Copies bytes into the file.
    pub fn put(&self, using: &Using<'_>, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let page = self.page_len();
        let (mut rest, mut offset) = (bytes, offset);
        while !rest.is_empty() {
            let inside = offset % page;
            let here = usize::try_from(page - inside).unwrap_or(0).min(rest.len());
            let (now, later) = rest.split_at(here);
            self.with_page(using, offset / page, Some(here), |frame| {
                Ok(self.frames.put(now, frame * page + inside)?)
            })?;
            offset += here as u64;
            rest = later;
        }
        Ok(())
    }

    /// Does something with the frame of a page, which nobody else uses meanwhile. Bytes that are
    /// written make the page a changed one.
    fn with_page(
        &self,
        using: &Using<'_>,
        page: u64,
        written: Option<usize>,
        work: impl FnOnce(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let set = page % self.sets;
        let (rank, number) = self.place(set);
        let held = self.locks.lock(rank, number)?;
        let words = self.words_of(set)?;
        let is_page = |word: &u64| word & !CHANGED == page + 1;
        let way = match words[..WAYS].iter().position(is_page) {
            Some(way) => way,
            None => {
                let way = self.free_a_frame(using, set, &words)?;
                let is_replaced = written.is_some_and(|len| len as u64 == self.page_len());
                if !is_replaced {
                    self.load(using, set * WAYS as u64 + way as u64, page)?;
                }
                self.set_word(set, way, page + 1)?;
                way
            }
        };
        if written.is_some() {
            // Before the bytes: a page that is half written is a changed one.
            self.set_word(set, way, (page + 1) | CHANGED)?;
        }
        work(set * WAYS as u64 + way as u64)?;
        self.fence()?;
        drop(held);
        Ok(())
    }

    /// A frame of a set in which nothing is any more.
    fn free_a_frame(&self, using: &Using<'_>, set: u64, words: &Words) -> Result<usize, Error> {
        if let Some(way) = words[..WAYS].iter().position(|word| *word == 0) {
            return Ok(way);
        }
        let next = usize::try_from(words[WAYS]).unwrap_or(0) % WAYS;
        let mut in_turn = (0..WAYS).map(|step| (next + step) % WAYS);
        let way = in_turn.find(|way| words[*way] & CHANGED == 0).unwrap_or(next);
        if words[way] & CHANGED != 0 {
            let page = (words[way] & !CHANGED) - 1;
            self.write_back(using, set * WAYS as u64 + way as u64, page)?;
        }
        self.set_word(set, way, 0)?;
        self.set_word(set, WAYS, (way as u64 + 1) % WAYS as u64)?;
        Ok(way)
    }

    fn write_back(&self, using: &Using<'_>, frame: u64, page: u64) -> Result<(), Error> {
        let len = self.page_len();
        let here = using.end.now()?.saturating_sub(page * len).min(len);
        let stretch = (frame * len, usize::try_from(here).unwrap_or(0));
        let stored = using.disk.store(&self.frames, &[stretch], page * len);
        stored.map_err(|why| {
            let why = why.doing("cannot write a page back to make room for another");
            why.of_rank(using.path, using.rank())
        })
    }

    /// Reads a page; what is beyond the end of the file is zero.
    fn load(&self, using: &Using<'_>, frame: u64, page: u64) -> Result<(), Error> {
        let len = self.page_len();
        let stretch = (frame * len, usize::try_from(len).unwrap_or(0));
        let done = using.disk.load(&self.frames, &[stretch], page * len);
        let done =
            done.map_err(|why| why.doing("cannot read").of_rank(using.path, using.rank()))?;
        if done < len {
            let rest = vec![0; usize::try_from(len - done).unwrap_or(0)];
            self.frames.put(&rest, frame * len + done)?;
        }
        Ok(())
    }

    /// Runs of changed pages of a share, while nobody uses any.
    pub fn dirty(&self, share: Share, end: u64) -> Result<Vec<Dirty>, Trouble> {
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
            let stretch = |(page, frame): &(u64, u64)| {
                let here = end.saturating_sub(page * len).min(len);
                (frame * len, usize::try_from(here).unwrap_or(0))
            };
            let stretches = run.iter().map(stretch).collect();
            Dirty { offset: pages.start * len, stretches, pages }
        });
        Ok(runs.collect())
    }

    /// Says of pages that they are on the disk, or that they are not.
    pub fn mark(&self, dirty: &[Dirty], is_changed: bool) -> Result<(), Trouble> {
        let changed = if is_changed { CHANGED } else { 0 };
        for Dirty { pages, stretches, .. } in dirty {
            for (page, (first, _)) in pages.clone().zip(stretches) {
                let frame = first / self.page_len();
                let way = usize::try_from(frame % WAYS as u64).unwrap_or(0);
                self.set_word(frame / WAYS as u64, way, (page + 1) | changed)?;
            }
        }
        Ok(self.fence()?)
    }
}

/// Bytes of a page, which are those of the pages of an array.
const PAGE_BYTES: u32 = 64 << 10;

/// What is needed to move pages.
pub struct Using<'a> {
    pub disk: &'a Disk,
    pub end: &'a End,
    pub path: &'a str,
    pub team: &'a Team,
}

impl Using<'_> {
    fn rank(&self) -> u32 {
        self.team.rank()
    }
}

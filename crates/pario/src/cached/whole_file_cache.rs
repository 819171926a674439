//! A file of which all pages are in the memory of the ranks.

use std::ops::Range;
use std::sync::atomic::{self, Ordering};

use pario_team::{Mutexes, RawArray, Segments, Team};

use super::agreement::RankFailure;
use super::backing_io::{BackingIo, PageSpan};
use super::file_end::FileEnd;
use super::flush::DirtyRun;
use super::io_share::{CHUNK_PAGES, IoShare};
use crate::error::Error;

/// The page differs from the disk.
const CHANGED: u8 = 1;
/// The page has content: a rank has read it from the disk, or written to it.
const HAS_CONTENT: u8 = 2;
/// A rank has written to the page since the write-back has last seen it.
const RECENT: u8 = 4;

/// An array of bytes, and a byte of flags for each of its pages.
///
/// States of a page: *clean*; *dirty* (`CHANGED`); *writing*: the rank whose share it is has cleared
/// `CHANGED` and copies the page to the file; *dirty again*: a rank has set `CHANGED` during that.
///
/// A rank that writes copies its bytes and then sets the flags. The rank whose share the page is
/// clears `CHANGED` first and reads the bytes then. Bytes that it does not see are therefore followed
/// by a `CHANGED` that it has not cleared. All ranks set the same value, and only one rank clears, so
/// that plain stores suffice.
#[derive(Clone)]
pub struct WholeFileCache {
    data: RawArray,
    flags: RawArray,
    end: Segments,
    end_lock: Mutexes,
}

/// What an open finds in the memory for a file that it reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryState {
    /// Whether the system has provided the memory already.
    pub is_provided: bool,
    /// Bytes from the first one on in which an earlier file may have left something.
    pub old_bytes: u64,
}

/// What the write-back finds in a chunk.
pub struct QuietPages {
    /// The runs of pages to write.
    pub quiet: Vec<DirtyRun>,
    /// Whether the chunk has dirty pages, quiet or not.
    pub is_dirty: bool,
}

impl WholeFileCache {
    /// Allocates memory for this many bytes. Collective.
    pub fn new(team: &Team, path: &str, len: u64) -> Result<Self, Error> {
        let hint = |error| match error {
            pario_team::TeamError::Memory(why) => pario_team::TeamError::Memory(format!(
                "{path}: {len} bytes do not fit into memory: {why}; or keep a part of the file in \
                 memory, with CachedOptions::memory"
            )),
            other => other,
        };
        let data = team.raw_array(len, 1).map_err(hint)?;
        let flags = team.raw_array(len.div_ceil(data.page_len()), 1)?;
        let (end, end_lock) = FileEnd::memory(team)?;
        Ok(Self { data, flags, end, end_lock })
    }

    /// The end of the file that this memory holds, with a first value; rank 0 sets it.
    pub fn end(&self, len: u64) -> Result<FileEnd, Error> {
        FileEnd::in_memory(self.end.clone(), self.end_lock.clone(), len)
    }

    /// Zeroes the pages of this rank from a byte to another, and its flags up to the latter.
    pub fn clean(&self, from: u64, to: u64) {
        let page = self.data.page_len();
        let zero = |array: &RawArray, from: u64, to: u64| {
            for local in array.local().filter(|local| (from..to).contains(&local.first())) {
                // SAFETY: the page is memory of this rank that lives as long as the array; no rank
                // uses it, since no file has this memory.
                unsafe { local.pointer().write_bytes(0, local.len()) };
            }
        };
        zero(&self.data, from / page * page, to);
        zero(&self.flags, 0, to.div_ceil(page));
    }

    /// The bytes for which there is memory.
    pub fn len(&self) -> u64 {
        self.data.len()
    }

    pub fn fence(&self) -> Result<(), Error> {
        self.data.fence()?;
        Ok(self.flags.fence()?)
    }

    /// Copies bytes from the file.
    pub fn get(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        Ok(self.data.get(bytes, offset)?)
    }

    /// Copies bytes into the file.
    pub fn put(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.data.put(bytes, offset)?;
        let page = self.data.page_len();
        let (first, last) = (offset / page, (offset + bytes.len() as u64 - 1) / page);
        // The bytes come before the flags, for ranks that see the flags without a barrier.
        atomic::fence(Ordering::Release);
        self.set_flags(first, last + 1 - first, CHANGED | HAS_CONTENT | RECENT)
    }

    fn set_flags(&self, first: u64, count: u64, flag: u8) -> Result<(), Error> {
        let flags = vec![flag; usize::try_from(count).unwrap_or(usize::MAX)];
        Ok(self.flags.put(&flags, first)?)
    }

    /// Makes the kernel provide the memory of this rank at once, in huge pages. Returns whether it has.
    pub fn prefault_own(&self) -> bool {
        self.data.take_huge()
    }

    /// Reads this rank's share of some bytes of the file; directly if the memory is provided already.
    /// Behind them it zeroes what an earlier file has left.
    pub fn load(
        &self,
        backing: &BackingIo,
        share: IoShare,
        bytes: Range<u64>,
        state: MemoryState,
    ) -> Result<(), RankFailure> {
        let page = self.data.page_len();
        let Range { start: from, end: len } = bytes;
        for chunk in share.chunks(from / page, len.div_ceil(page)) {
            let offset = (chunk.start * page).max(from / page * page);
            let end = (chunk.end * page).min(len);
            let wanted = end - offset;
            let done = match state.is_provided {
                true => backing.load(&self.data, &self.spans(offset, end), offset),
                false => backing.load_new(&self.data, offset..end),
            };
            let done = done.map_err(|why| why.context("cannot read"))?;
            if done < wanted {
                let what = format!("finds byte {} missing: the file became shorter", offset + done);
                return Err(RankFailure::new(rustix::io::Errno::IO, what));
            }
            self.set_flags(chunk.start, chunk.end - chunk.start, HAS_CONTENT)?;
        }
        self.zero_share(share, len..state.old_bytes)
    }

    /// Zeroes this rank's share of some bytes, and the flags of the pages that begin in them.
    fn zero_share(&self, share: IoShare, bytes: Range<u64>) -> Result<(), RankFailure> {
        if bytes.is_empty() {
            return Ok(());
        }
        let page = self.data.page_len();
        let zeros = vec![0; usize::try_from(page).unwrap_or(0)];
        for chunk in share.chunks(bytes.start / page, bytes.end.div_ceil(page)) {
            let (start, end) = (chunk.start * page, (chunk.end * page).min(self.len()));
            for (first, len) in self.spans(start.max(bytes.start), end) {
                self.data.put(&zeros[..len], first).map_err(Error::from)?;
            }
            let first = start.max(bytes.start).div_ceil(page);
            self.set_flags(first, chunk.end.saturating_sub(first), 0)?;
        }
        Ok(())
    }

    /// The bytes `start..end`, cut at the ends of pages.
    fn spans(&self, start: u64, end: u64) -> Vec<PageSpan> {
        let page = self.data.page_len();
        let mut spans = Vec::new();
        let mut next = start;
        while next < end {
            let here = (page - next % page).min(end - next);
            spans.push((next, usize::try_from(here).unwrap_or(0)));
            next += here;
        }
        spans
    }

    /// The runs of pages of a share that are changed, or that have content.
    pub fn dirty(
        &self,
        share: IoShare,
        end: u64,
        is_all: bool,
    ) -> Result<Vec<DirtyRun>, RankFailure> {
        let page = self.data.page_len();
        let wanted = if is_all { HAS_CONTENT } else { CHANGED };
        let mut all = Vec::new();
        let mut flags = vec![0; usize::try_from(CHUNK_PAGES).unwrap_or(0)];
        for chunk in share.chunks(0, end.div_ceil(page)) {
            let flags = &mut flags[..usize::try_from(chunk.end - chunk.start).unwrap_or(0)];
            self.flags.get(flags, chunk.start).map_err(Error::from)?;
            let mut first = chunk.start;
            for run in flags.chunk_by(|one, other| (one & wanted == 0) == (other & wanted == 0)) {
                let pages = first..first + run.len() as u64;
                first = pages.end;
                if run[0] & wanted != 0 {
                    let (start, end) = (pages.start * page, (pages.end * page).min(end));
                    let spans = self.spans(start, end);
                    all.push(DirtyRun { offset: start, spans, pages });
                }
            }
        }
        Ok(all)
    }

    /// Finds the pages of a chunk that are changed and that no rank has written to since the last
    /// call for them, and marks them as the same as on the disk. Ranks may write to them at the same
    /// time; `end` is called when the pages are marked.
    pub fn take_quiet(
        &self,
        chunk: Range<u64>,
        end: impl FnOnce() -> Result<u64, Error>,
    ) -> Result<QuietPages, RankFailure> {
        let page = self.data.page_len();
        let mut flags = vec![0; usize::try_from(chunk.end - chunk.start).unwrap_or(0)];
        self.flags.get(&mut flags, chunk.start).map_err(Error::from)?;
        let is_alike =
            |one: &u8, other: &u8| one & (CHANGED | RECENT) == other & (CHANGED | RECENT);
        let (mut first, mut quiet, mut is_dirty) = (chunk.start, Vec::new(), false);
        for run in flags.chunk_by(is_alike) {
            let pages = first..first + run.len() as u64;
            first = pages.end;
            is_dirty |= run[0] & CHANGED != 0;
            match run[0] & (CHANGED | RECENT) {
                0 => {}
                CHANGED => {
                    self.set_flags(pages.start, pages.end - pages.start, HAS_CONTENT)?;
                    quiet.push(pages);
                }
                _ => {
                    self.set_flags(pages.start, pages.end - pages.start, CHANGED | HAS_CONTENT)?;
                }
            }
        }
        if quiet.is_empty() {
            return Ok(QuietPages { quiet: Vec::new(), is_dirty });
        }
        // The flags are cleared before any byte is read: see the states of a page.
        self.fence()?;
        let end = end()?;
        let run = |pages: Range<u64>| {
            let (start, end) = (pages.start * page, (pages.end * page).min(end));
            DirtyRun { offset: start, spans: self.spans(start, end), pages }
        };
        Ok(QuietPages { quiet: quiet.into_iter().map(run).collect(), is_dirty })
    }

    /// Marks pages as changed, or as the same as on the disk.
    pub fn mark(&self, dirty: &[DirtyRun], is_changed: bool) -> Result<(), RankFailure> {
        let flag = if is_changed { CHANGED | HAS_CONTENT } else { HAS_CONTENT };
        for DirtyRun { pages, .. } in dirty {
            self.set_flags(pages.start, pages.end - pages.start, flag)?;
        }
        Ok(())
    }

    pub fn array(&self) -> &RawArray {
        &self.data
    }

    /// Copies this rank's share of the content of another cache.
    pub fn copy_from(&self, other: &Self, share: IoShare, end: u64) -> Result<(), RankFailure> {
        let mut bytes = Vec::new();
        for is_all in [true, false] {
            for dirty in other.dirty(share, end, is_all)? {
                if is_all {
                    let len = dirty.spans.iter().map(|(_, len)| len).sum();
                    bytes.resize(len, 0);
                    other.get(&mut bytes, dirty.offset)?;
                    self.data.put(&bytes, dirty.offset).map_err(Error::from)?;
                }
                // The changed pages come last, so that they stay marked as changed.
                self.mark(&[dirty], !is_all)?;
            }
        }
        Ok(self.fence()?)
    }
}

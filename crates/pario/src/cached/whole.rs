//! A file whose pages are all in the memory of the ranks.

use pario_team::{RawArray, Team};

use super::agreement::Trouble;
use super::disk::{Disk, Stretch};
use super::flush::Dirty;
use super::share::{CHUNK_PAGES, Share};
use crate::error::Error;

/// The page was written since it was last on the disk.
const CHANGED: u8 = 1;
/// The page holds something: it was read from the disk, or written.
const HOLDS: u8 = 2;

/// An array of bytes, and a byte for each of its pages that says what became of it. Whoever writes
/// sets that byte; only the flush, when nobody writes, clears it.
pub struct Whole {
    data: RawArray,
    flags: RawArray,
}

impl Whole {
    /// Memory for so many bytes, made by all together.
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
        Ok(Self { data, flags })
    }

    /// For how many bytes there is memory.
    pub fn len(&self) -> u64 {
        self.data.len()
    }

    pub fn fence(&self) -> Result<(), Error> {
        self.data.fence()?;
        Ok(self.flags.fence()?)
    }

    /// Copies bytes out of it.
    pub fn get(&self, bytes: &mut [u8], offset: u64) -> Result<(), Error> {
        Ok(self.data.get(bytes, offset)?)
    }

    /// Copies bytes into it.
    pub fn put(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.data.put(bytes, offset)?;
        let page = self.data.page_len();
        let (first, last) = (offset / page, (offset + bytes.len() as u64 - 1) / page);
        self.flag(first, last + 1 - first, CHANGED | HOLDS)
    }

    fn flag(&self, first: u64, count: u64, flag: u8) -> Result<(), Error> {
        let flags = vec![flag; usize::try_from(count).unwrap_or(usize::MAX)];
        Ok(self.flags.put(&flags, first)?)
    }

    /// Takes the memory of this rank for all of it, since all will be used; whether that is done.
    pub fn take(&self) -> bool {
        self.data.take_huge()
    }

    /// Reads this rank's share of the file, from a byte on. Memory that was taken is read to
    /// directly.
    pub fn load(
        &self,
        disk: &Disk,
        share: Share,
        from: u64,
        is_taken: bool,
    ) -> Result<(), Trouble> {
        let page = self.data.page_len();
        let len = self.len();
        for chunk in share.chunks(from / page, len.div_ceil(page)) {
            let offset = (chunk.start * page).max(from / page * page);
            let end = (chunk.end * page).min(len);
            let wanted = end - offset;
            let done = match is_taken {
                true => disk.load(&self.data, &self.stretches(offset, end), offset),
                false => disk.load_new(&self.data, offset..end),
            };
            let done = done.map_err(|why| why.doing("cannot read"))?;
            if done < wanted {
                let what = format!("finds byte {} missing: the file became shorter", offset + done);
                return Err(Trouble::new(rustix::io::Errno::IO, what));
            }
            self.flag(chunk.start, chunk.end - chunk.start, HOLDS)?;
        }
        Ok(())
    }

    /// The bytes from one to another, cut at the ends of pages.
    fn stretches(&self, start: u64, end: u64) -> Vec<Stretch> {
        let page = self.data.page_len();
        let mut stretches = Vec::new();
        let mut next = start;
        while next < end {
            let here = (page - next % page).min(end - next);
            stretches.push((next, usize::try_from(here).unwrap_or(0)));
            next += here;
        }
        stretches
    }

    /// Runs of pages of a share that were changed, or that hold something.
    pub fn dirty(&self, share: Share, end: u64, is_all: bool) -> Result<Vec<Dirty>, Trouble> {
        let page = self.data.page_len();
        let wanted = if is_all { HOLDS } else { CHANGED };
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
                    let stretches = self.stretches(start, end);
                    all.push(Dirty { offset: start, stretches, pages });
                }
            }
        }
        Ok(all)
    }

    /// Says of pages that they are on the disk, or that they are not.
    pub fn mark(&self, dirty: &[Dirty], is_changed: bool) -> Result<(), Trouble> {
        let flag = if is_changed { CHANGED | HOLDS } else { HOLDS };
        for Dirty { pages, .. } in dirty {
            self.flag(pages.start, pages.end - pages.start, flag)?;
        }
        Ok(())
    }

    pub fn array(&self) -> &RawArray {
        &self.data
    }

    /// Copies all that another one holds, each rank a share of it.
    pub fn copy_from(&self, other: &Self, share: Share, end: u64) -> Result<(), Trouble> {
        let mut bytes = Vec::new();
        for is_all in [true, false] {
            for dirty in other.dirty(share, end, is_all)? {
                if is_all {
                    let len = dirty.stretches.iter().map(|(_, len)| len).sum();
                    bytes.resize(len, 0);
                    other.get(&mut bytes, dirty.offset)?;
                    self.data.put(&bytes, dirty.offset).map_err(Error::from)?;
                }
                // Those that were changed come last.
                self.mark(&[dirty], !is_all)?;
            }
        }
        Ok(self.fence()?)
    }
}

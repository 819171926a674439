//! The flush: a few ranks write the changed pages in large pieces, in place or into a new file that
//! replaces the old one.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::agreement::{RankFailure, agree};
use super::backing_io::{BackingIo, PageSpan};
use super::io_share::{CHUNK_PAGES, IoShare, can_access};
use super::range_to_disk::{DiskRanges as _, RangeToDisk};
use super::source::{BackingOptions, CachedFileSource};
use super::write_back::WriteBack;
use super::{CacheMemory, CachedFile};
use crate::error::Error;

/// Pages that a flush starts to move to the disk at once: 1 MiB.
const PIECE_PAGES: usize = 16;

/// Consecutive pages of the file that are written with one call.
pub struct DirtyRun {
    /// Their offset in the file.
    pub offset: u64,
    /// Their bytes in the array.
    pub spans: Vec<PageSpan>,
    /// The numbers of the pages.
    pub pages: Range<u64>,
}

/// A step that a flush has reached on this rank.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushStep {
    /// The write-back of this rank has written some pages in the background.
    WroteBack,
    /// The write-back of this rank has failed and waits for the next flush.
    WriteBackFailed,
    /// This rank has written some pages; more writes or a sync follow.
    Wrote,
    /// The writes of this rank are durable.
    Synced,
    /// This rank is about to rename the new file over the old one.
    Replacing,
    /// The new file has replaced the old one.
    Replaced,
}

/// The new file beside the old one; dropping it deletes the file, unless it has replaced the old
/// one.
struct TemporaryFile(Option<CachedFileSource>);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(source) = &self.0 {
            source.remove();
        }
    }
}

impl CachedFile {
    /// Writes the changes since the last flush. Collective.
    pub(super) fn write_back(&mut self, call: &str) -> Result<(), Error> {
        self.memory.fence()?;
        let is_changed = u64::from(self.is_changed.load(Ordering::Relaxed));
        let is_new_name = u64::from(self.is_new_name) << 1;
        let changed = agree(&self.team, &self.path, call, &Ok(is_changed | is_new_name))?;
        if let Some(error) = &self.poison {
            return Err(error.clone());
        }
        if changed.iter().all(|changed| *changed == 0) {
            return Ok(());
        }
        let end = self.end.now()?;
        let done = if self.settings.replace {
            self.replace(call, end)
        } else {
            // Rank 0 has created the file.
            self.write_in_place(call, end, changed[0] >> 1 == 1)
        };
        match &done {
            Ok(()) => {
                self.is_changed.store(false, Ordering::Relaxed);
                self.is_new_name = false;
            }
            Err(error @ Error::Cached { is_final: true, .. }) => self.poison = Some(error.clone()),
            Err(_) => {}
        }
        done
    }

    pub(super) fn share_of_writing(&self) -> Option<IoShare> {
        IoShare::of_team(&self.team, &self.source, self.settings.writers)
    }

    fn reached(&self, step: FlushStep) {
        if let Some(observer) = self.settings.observer {
            observer(step);
        }
    }

    /// Writes the changed pages in place: first all ranks write, and then they sync.
    fn write_in_place(&self, call: &str, end: u64, is_new_name: bool) -> Result<(), Error> {
        let mut pause = self.write_back.as_ref().map(WriteBack::pause);
        if let Some(pause) = &mut pause {
            pause.forget_failure();
        }
        let stored = match &self.backing {
            Some(backing) => self.write_share(backing, end),
            None => Ok(()),
        };
        let has_written = self.backing.as_ref().is_some_and(|backing| backing.has_written());
        let stored = stored.map(|()| u64::from(has_written));
        // The sync comes when all ranks have written.
        let written = match self.is_of_first_share(end) {
            true => stored.map(|written| vec![written]),
            false => Ok(agree(&self.team, &self.path, call, &stored)?),
        };
        let synced = written.and_then(|written| match &self.backing {
            Some(backing) => self.sync_share(backing, written.contains(&1)),
            None => Ok(()),
        });
        let synced = match is_new_name && self.team.rank() == self.name_rank() {
            true => synced.and_then(|()| {
                let synced = self.source.sync_name();
                synced.map_err(|why| why.context("cannot make its name durable"))
            }),
            false => synced,
        };
        agree(&self.team, &self.path, call, &synced.map(|()| 0))?;
        if let Some(backing) = &self.backing {
            backing.note_synced();
        }
        Ok(())
    }

    /// Whether rank 0 alone has written to the file since it was opened, as it syncs it.
    fn is_of_first_share(&self, end: u64) -> bool {
        let is_whole = matches!(self.memory, CacheMemory::Whole(_));
        let is_plain = matches!(self.source, CachedFileSource::Plain(_));
        is_whole && is_plain && end <= CHUNK_PAGES * self.memory.array().page_len()
    }

    fn write_share(&self, backing: &BackingIo, end: u64) -> Result<(), RankFailure> {
        let Some(share) = self.share_of_writing() else { return Ok(()) };
        let dirty = self.memory.dirty(share, end)?;
        // No rank uses the pages, so that the order of mark and write does not matter.
        self.memory.mark(&dirty, false)?;
        // The sync of a small file does as much by itself.
        let disk = backing.range_to_disk().filter(|_| !self.is_of_first_share(end));
        if let Err(why) = self.store(backing, &dirty, disk.as_ref()) {
            self.memory.mark(&dirty, true)?;
            return Err(why);
        }
        // The rank whose share has the last page extends the file: the page may be unchanged.
        let last = end.saturating_sub(1) / self.memory.array().page_len();
        if share.has(last) {
            backing.extend_to(end).map_err(|why| why.context("cannot make the file longer"))?;
        }
        Ok(())
    }

    /// Makes the writes of all ranks durable. One sync of a plain file covers all processes of its
    /// machine; in a cluster each rank syncs its own writes.
    fn sync_share(&self, backing: &BackingIo, has_written: bool) -> Result<(), RankFailure> {
        match self.source {
            CachedFileSource::Plain(_) if self.team.rank() != 0 => return Ok(()),
            CachedFileSource::Plain(_) if has_written => backing.sync_all()?,
            CachedFileSource::Plain(_) => {}
            CachedFileSource::Cluster(..) => backing.sync()?,
        }
        self.reached(FlushStep::Synced);
        Ok(())
    }

    /// The rank that makes the name of a new file durable: another one than the one that syncs the
    /// bytes, if there is one, so that both syncs are under way at once.
    fn name_rank(&self) -> u32 {
        u32::from(self.team.size() > 1 && can_access(&self.team, &self.source, 1))
    }

    /// Writes runs of pages. With a disk to move them to, writes them in pieces that it starts to move
    /// at once, so that the disk works while the ranks still copy.
    fn store(
        &self,
        backing: &BackingIo,
        dirty: &[DirtyRun],
        disk: Option<&RangeToDisk>,
    ) -> Result<(), RankFailure> {
        for DirtyRun { offset, spans, .. } in dirty {
            let mut offset = *offset;
            for piece in spans.chunks(if disk.is_some() { PIECE_PAGES } else { spans.len() }) {
                let stored = backing.store(self.memory.array(), piece, offset);
                stored.map_err(|why| why.context("cannot write"))?;
                let len = piece.iter().map(|(_, len)| *len as u64).sum();
                if let Some(disk) = disk {
                    disk.start(offset, len);
                }
                offset += len;
            }
            self.reached(FlushStep::Wrote);
        }
        Ok(())
    }

    /// Writes all pages to a new file, which then replaces the old one.
    fn replace(&self, call: &str, end: u64) -> Result<(), Error> {
        let (team, path) = (&self.team, &self.path);
        let is_first = team.rank() == 0;
        let created = is_first.then(|| self.source.create_beside());
        let failure = created.as_ref().and_then(|created| created.as_ref().err());
        let failure = failure.map(|why| why.clone().context("cannot make a file beside it"));
        let mut temporary = TemporaryFile(created.and_then(Result::ok));
        agree(team, path, call, &failure.map_or(Ok(0), Err))?;
        let name = temporary.0.as_ref().map(CachedFileSource::to_bytes).unwrap_or_default();
        let new_file = self.source.at(&team.gather(&name)?.swap_remove(0));
        // The old file is unchanged, whatever happens: no failure is final.
        let done =
            self.write_all(&new_file, end).map_err(|why| RankFailure { is_final: false, ..why });
        agree(team, path, call, &done.map(|()| 0))?;
        let mut done = Ok(0);
        if is_first {
            self.reached(FlushStep::Replacing);
            match self.source.replace_by(&new_file) {
                Ok(()) => {
                    temporary.0 = None;
                    self.reached(FlushStep::Replaced);
                }
                Err(why) => {
                    done = Err(why.context("cannot put the new file in place of the old one"))
                }
            }
        }
        agree(team, path, call, &done).map(drop)
    }

    fn write_all(&self, new_file: &CachedFileSource, end: u64) -> Result<(), RankFailure> {
        let Some(share) = self.share_of_writing() else { return Ok(()) };
        let options = BackingOptions { write: true, ..BackingOptions::default() };
        let file =
            new_file.open(options).map_err(|why| why.context("cannot open the file beside"))?;
        let backing = BackingIo::new(file, &self.counters, self.settings.is_copying);
        let all = match &self.memory {
            CacheMemory::Whole(whole) => whole.cache().dirty(share, end, true)?,
            CacheMemory::Pages(_) => {
                return Err(RankFailure::invalid("holds only a part of the file"));
            }
        };
        self.store(&backing, &all, backing.range_to_disk().as_ref())?;
        if self.team.rank() == 0 {
            backing.extend_to(end).map_err(|why| why.context("cannot make the file longer"))?;
            // An empty file must become durable, too.
            backing.note_change();
        }
        backing.sync()?;
        self.reached(FlushStep::Synced);
        Ok(())
    }
}

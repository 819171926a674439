//! How what was changed gets to the disk: by a few ranks, in large pieces, and all or nothing if that
//! was wanted.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::agreement::{Trouble, agree};
use super::disk::{Disk, Stretch};
use super::place::{Place, Wanted};
use super::share::Share;
use super::{CachedFile, Memory};
use crate::error::Error;

/// Pages that follow each other in the file and are written with one call.
pub struct Dirty {
    /// Where they begin in the file.
    pub offset: u64,
    /// Where they are in memory.
    pub stretches: Vec<Stretch>,
    /// Which pages these are.
    pub pages: Range<u64>,
}

/// How far a flush has come on this rank.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has written some pages, and will write more or sync.
    Wrote,
    /// What it wrote is durable.
    Synced,
    /// It is about to put the new file in the place of the old one.
    Replacing,
    /// It has done so.
    Replaced,
}

/// The file beside the old one; it is deleted unless it has taken its place.
struct Beside(Option<Place>);

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(place) = &self.0 {
            place.remove();
        }
    }
}

impl CachedFile {
    /// Writes what was changed since the last time, together with all others.
    pub(super) fn write_back(&mut self, call: &str) -> Result<(), Error> {
        self.memory.fence()?;
        let is_changed = self.is_changed.load(Ordering::Relaxed);
        let changed = agree(&self.team, &self.path, call, &Ok(u64::from(is_changed)))?;
        if let Some(error) = &self.poison {
            return Err(error.clone());
        }
        if changed.iter().all(|changed| *changed == 0) {
            return Ok(());
        }
        let end = self.end.now()?;
        let done =
            if self.settings.replace { self.replace(call, end) } else { self.write(call, end) };
        match &done {
            Ok(()) => self.is_changed.store(false, Ordering::Relaxed),
            Err(error @ Error::Cached { is_final: true, .. }) => self.poison = Some(error.clone()),
            Err(_) => {}
        }
        done
    }

    fn share_of_writing(&self) -> Option<Share> {
        Share::of(&self.team, &self.place, self.settings.writers)
    }

    fn reached(&self, step: Step) {
        if let Some(observer) = self.settings.observer {
            observer(step);
        }
    }

    /// Writes what was changed to its place.
    fn write(&self, call: &str, end: u64) -> Result<(), Error> {
        let done = match &self.disk {
            Some(disk) => self.write_share(disk, end),
            None => Ok(()),
        };
        agree(&self.team, &self.path, call, &done.map(|()| 0)).map(drop)
    }

    fn write_share(&self, disk: &Disk, end: u64) -> Result<(), Trouble> {
        if let Some(share) = self.share_of_writing() {
            let dirty = self.memory.dirty(share, end)?;
            // Nobody uses the pages: they may be called written before they are.
            self.memory.mark(&dirty, false)?;
            if let Err(why) = self.store(disk, &dirty) {
                self.memory.mark(&dirty, true)?;
                return Err(why);
            }
            // Whoever has the last page: it ends the file, unless its writer had failed before.
            let last = end.saturating_sub(1) / self.memory.array().page_len();
            if share.has(last) {
                disk.reach(end).map_err(|why| why.doing("cannot make the file longer"))?;
            }
        }
        // Also what was written before the flush, to make room.
        disk.sync()?;
        self.reached(Step::Synced);
        Ok(())
    }

    fn store(&self, disk: &Disk, dirty: &[Dirty]) -> Result<(), Trouble> {
        for Dirty { offset, stretches, .. } in dirty {
            let stored = disk.store(self.memory.array(), stretches, *offset);
            stored.map_err(|why| why.doing("cannot write"))?;
            self.reached(Step::Wrote);
        }
        Ok(())
    }

    /// Writes everything to a file beside the old one, which then takes its place.
    fn replace(&self, call: &str, end: u64) -> Result<(), Error> {
        let (team, path) = (&self.team, &self.path);
        let is_first = team.rank() == 0;
        let made = is_first.then(|| self.place.beside());
        let told = made.as_ref().and_then(|made| made.as_ref().err());
        let told = told.map(|why| why.clone().doing("cannot make a file beside it"));
        let mut beside = Beside(made.and_then(Result::ok));
        agree(team, path, call, &told.map_or(Ok(0), Err))?;
        let name = beside.0.as_ref().map(Place::to_bytes).unwrap_or_default();
        let place = self.place.at(&team.gather(&name)?.swap_remove(0));
        // The old file is as it was, whatever happens: nothing is final.
        let done = self.write_all(&place, end).map_err(|why| Trouble { is_final: false, ..why });
        agree(team, path, call, &done.map(|()| 0))?;
        let mut done = Ok(0);
        if is_first {
            self.reached(Step::Replacing);
            match self.place.replace_by(&place) {
                Ok(()) => {
                    beside.0 = None;
                    self.reached(Step::Replaced);
                }
                Err(why) => {
                    done = Err(why.doing("cannot put the new file in place of the old one"))
                }
            }
        }
        agree(team, path, call, &done).map(drop)
    }

    fn write_all(&self, place: &Place, end: u64) -> Result<(), Trouble> {
        let Some(share) = self.share_of_writing() else { return Ok(()) };
        let wanted = Wanted { write: true, ..Wanted::default() };
        let backing = place.open(wanted).map_err(|why| why.doing("cannot open the file beside"))?;
        let disk = Disk::new(backing, &self.counted, self.settings.is_copying);
        let all = match &self.memory {
            Memory::Whole(whole) => whole.dirty(share, end, true)?,
            Memory::Resident(_) => return Err(Trouble::invalid("holds only a part of the file")),
        };
        self.store(&disk, &all)?;
        if self.team.rank() == 0 {
            disk.reach(end).map_err(|why| why.doing("cannot make the file longer"))?;
            // An empty file has to be durable, too.
            disk.note_change();
        }
        disk.sync()?;
        self.reached(Step::Synced);
        Ok(())
    }
}

//! The descriptions of the subfiles of a disk: where they lie, how they are read and changed.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::description::{
    BadDescription, DESCRIPTION_MAX_BYTES, DESCRIPTION_VERSION, Description, read_slots, write_slot,
};
use crate::error::{DiskPlace, Place, StoreError};
use crate::extents;
use crate::medium::{Medium, MediumFile, OpenHow};
use crate::poison::Poisoned;
use crate::subfile::{Kind, SubfileId};

/// The end of the name of a flat subfile's description.
const SUFFIX: &str = ".description";

/// The descriptions of a disk.
pub(crate) struct Descriptions {
    medium: Arc<dyn Medium>,
    place: DiskPlace,
    /// The version of the disk: in version 1 a flat subfile begins with its description.
    version: u16,
    /// Held while a description changes.
    changing: Mutex<()>,
    /// Subfiles whose sync has failed.
    pub(crate) poisoned: Poisoned,
}

impl Descriptions {
    pub(crate) fn new(medium: Arc<dyn Medium>, place: DiskPlace, version: u16) -> Self {
        let (changing, poisoned) = (Mutex::default(), Poisoned::default());
        Self { medium, place, version, changing, poisoned }
    }

    /// Which kind of subfile there is under an identity.
    pub(crate) fn kind_of(&self, id: SubfileId) -> Result<Kind, StoreError> {
        for (kind, path) in
            [(Kind::Flat, name_of(id, Kind::Flat)), (Kind::Extents, path_of(id, Kind::Extents))]
        {
            match self.medium.open(&path, OpenHow::default()) {
                Ok(_) => return Ok(kind),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.place_of(id).io(error, "opening")),
            }
        }
        Err(StoreError::NotFound { disk: self.place.disk.clone(), subfile: id })
    }

    /// The description of a subfile, which must be of the kind asked for.
    pub(crate) fn read(&self, id: SubfileId, asked: Kind) -> Result<Description, StoreError> {
        let found = self.kind_of(id)?;
        if found != asked {
            let disk = self.place.disk.clone();
            return Err(StoreError::WrongKind { disk, subfile: id, found, asked });
        }
        let read = match (self.version, found) {
            (0 | 1, Kind::Flat) => read_head(&*self.medium, id),
            _ => self.open(id, found, false).and_then(|file| read_slots(&*file)),
        };
        self.understood(id, found, read)
    }

    /// Changes a description, durably; a crash leaves the one of before or the new one. If nothing
    /// changes, nothing is written, and what is there is durable.
    pub(crate) fn update(
        &self,
        id: SubfileId,
        change: impl FnOnce(&mut Description),
    ) -> Result<Description, StoreError> {
        let _changing = self.changing.lock();
        let kind = self.kind_of(id)?;
        let failed = |error| self.place_of(id).io(error, "changing the description");
        let file = match self.open(id, kind, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.understood(id, kind, Err(error));
            }
            other => other.map_err(failed)?,
        };
        let before = self.understood(id, kind, read_slots(&*file))?;
        let mut after = before.clone();
        change(&mut after);
        let (is_changed, is_moved) = (after != before, after.is_short() != before.is_short());
        if is_changed {
            after.generation = before.generation + 1;
            after.is_replacement = is_moved;
        }
        let write = || {
            if is_moved {
                return self.replace(&after);
            }
            if is_changed {
                write_slot(&*file, &after)?;
            }
            // Also if nothing changes: a process that was killed may have written it.
            file.sync()?;
            if before.is_replacement { self.sync_name(id, kind) } else { Ok(()) }
        };
        write().map_err(failed)?;
        Ok(after)
    }

    /// Puts a new file in the place of a description whose slots lie elsewhere from now on. The
    /// opening of a disk sweeps away what a crash leaves.
    fn replace(&self, description: &Description) -> io::Result<()> {
        let (id, kind) = (description.id, description.kind);
        let new = format!("new-{}", path_of(id, Kind::Flat));
        let how = OpenHow { create: true, write: true, direct_alignment: None };
        let replaced = self.medium.open(&new, how).and_then(|file| {
            write_slot(&*file, description)?;
            file.sync()?;
            self.medium.rename(&new, &path_of(id, kind))
        });
        if replaced.is_err() {
            // It must not be in the way of the next attempt.
            let _ = self.medium.remove_file(&new);
        }
        replaced?;
        self.sync_name(id, kind)
    }

    /// Makes the name of a description durable.
    fn sync_name(&self, id: SubfileId, kind: Kind) -> io::Result<()> {
        match kind {
            Kind::Flat => self.medium.sync_dir(""),
            Kind::Extents => self.medium.sync_dir(&name_of(id, kind)),
        }
    }

    /// Makes a flat subfile durable with the description that was written with it. A description
    /// that is gone belongs to a subfile that was removed since it was opened.
    pub(crate) fn sync_first(&self, id: SubfileId, flat: &dyn MediumFile) -> io::Result<()> {
        let description = match self.open(id, Kind::Flat, true) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // A file system with a journal commits the names and the blocks of both files with the sync
        // of the first, if both are written before: then the syncs that follow find nothing to do.
        // Written after it, the description would cost a second commit.
        if let Some(file) = &description {
            file.begin_sync();
            flat.begin_sync();
            file.wait_begun()?;
        }
        flat.sync()?;
        if let Some(file) = &description {
            file.sync()?;
        }
        self.medium.sync_dir("")
    }

    fn open(&self, id: SubfileId, kind: Kind, write: bool) -> io::Result<Arc<dyn MediumFile>> {
        let how = OpenHow { create: false, write, direct_alignment: None };
        self.medium.open(&path_of(id, kind), how)
    }

    /// What was read, if it is the description of this very subfile.
    fn understood(
        &self,
        id: SubfileId,
        kind: Kind,
        read: io::Result<Result<Description, BadDescription>>,
    ) -> Result<Description, StoreError> {
        let (place, disk, name) = (self.place_of(id), self.place.disk.clone(), name_of(id, kind));
        let strange = |why: &str| StoreError::NotASubfile { disk, name, why: why.to_owned() };
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(strange("it has no description"))
            }
            Err(error) => Err(place.io(error, "reading the description")),
            Ok(Ok(found)) if found.id == id && found.kind == kind => Ok(found),
            Ok(Ok(_)) => Err(strange("its description belongs to another subfile")),
            Ok(Err(BadDescription::NotOurs)) => Err(strange("its description is another file")),
            Ok(Err(BadDescription::Newer(version))) => {
                Err(place.newer(name_of(id, kind), version, DESCRIPTION_VERSION))
            }
            Ok(Err(BadDescription::Damaged(what))) => {
                Err(place.damaged(None, format!("{what} does not fit")))
            }
        }
    }

    fn place_of(&self, subfile: SubfileId) -> Place {
        Place { disk: self.place.clone(), subfile }
    }
}

/// The description at the beginning of a flat subfile of version 1.
pub(crate) fn read_head(
    medium: &dyn Medium,
    id: SubfileId,
) -> io::Result<Result<Description, BadDescription>> {
    let file = medium.open(&name_of(id, Kind::Flat), OpenHow::default())?;
    let mut block = vec![0; DESCRIPTION_MAX_BYTES];
    let count = file.read_at(&mut block, 0)?;
    Ok(Description::decode(&block[..count]))
}

/// The name of a subfile in the directory of a disk.
pub(crate) fn name_of(id: SubfileId, kind: Kind) -> String {
    format!("{}.{kind}", id.stem())
}

/// Where the description of a subfile lies.
pub(crate) fn path_of(id: SubfileId, kind: Kind) -> String {
    match kind {
        Kind::Flat => format!("{}{SUFFIX}", id.stem()),
        Kind::Extents => format!("{}/{}", name_of(id, kind), extents::DESCRIPTION),
    }
}

/// The flat subfile that a file of this name describes.
pub(crate) fn described_by(name: &str) -> Option<SubfileId> {
    SubfileId::from_stem(name.strip_suffix(SUFFIX)?)
}

/// Which subfile has this name in the directory of a disk.
pub(crate) fn named(name: &str) -> Option<(SubfileId, Kind)> {
    let (stem, kind) = name.rsplit_once('.')?;
    let kind = [Kind::Flat, Kind::Extents].into_iter().find(|known| known.to_string() == kind)?;
    Some((SubfileId::from_stem(stem)?, kind))
}

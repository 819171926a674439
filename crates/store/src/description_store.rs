//! The descriptions of the subfiles of a disk: their files, and how the store reads and changes
//! them.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::description::{
    BadDescription, DESCRIPTION_MAX_BYTES, DESCRIPTION_VERSION, Description, read_slots, write_slot,
};
use crate::error::{DiskContext, StoreError, SubfileContext};
use crate::extents;
use crate::medium::{Medium, MediumFile, MediumOpenMode};
use crate::poison::PoisonedSubfiles;
use crate::subfile::{SubfileId, SubfileKind};

/// The suffix of the description file of a flat subfile.
const SUFFIX: &str = ".description";

/// The descriptions of a disk.
pub(crate) struct DescriptionStore {
    medium: Arc<dyn Medium>,
    context: DiskContext,
    /// The format version of the disk: in version 1 a flat subfile begins with its description.
    version: u16,
    /// Held while a description changes.
    updating: Mutex<()>,
    /// Subfiles whose sync has failed.
    pub(crate) poisoned: PoisonedSubfiles,
}

impl DescriptionStore {
    pub(crate) fn new(medium: Arc<dyn Medium>, context: DiskContext, version: u16) -> Self {
        let (updating, poisoned) = (Mutex::default(), PoisonedSubfiles::default());
        Self { medium, context, version, updating, poisoned }
    }

    /// The kind of a subfile.
    pub(crate) fn kind_of(&self, id: SubfileId) -> Result<SubfileKind, StoreError> {
        for (kind, path) in [
            (SubfileKind::Flat, name_of(id, SubfileKind::Flat)),
            (SubfileKind::Extents, path_of(id, SubfileKind::Extents)),
        ] {
            match self.medium.open(&path, MediumOpenMode::default()) {
                Ok(_) => return Ok(kind),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.context_of(id).io(error, "open")),
            }
        }
        Err(StoreError::NotFound { disk: self.context.name.clone(), subfile: id })
    }

    /// The description of a subfile, which must be of the requested kind.
    pub(crate) fn read(
        &self,
        id: SubfileId,
        asked: SubfileKind,
    ) -> Result<Description, StoreError> {
        let found = self.kind_of(id)?;
        if found != asked {
            let disk = self.context.name.clone();
            return Err(StoreError::WrongKind { disk, subfile: id, found, asked });
        }
        let read = match (self.version, found) {
            (0 | 1, SubfileKind::Flat) => read_head(&*self.medium, id),
            _ => self.open(id, found, false).and_then(|file| read_slots(&*file)),
        };
        self.checked(id, found, read)
    }

    /// Changes a description, durably: a crash leaves the old one or the new one. If `change` changes
    /// nothing, only syncs the file.
    pub(crate) fn update(
        &self,
        id: SubfileId,
        change: impl FnOnce(&mut Description),
    ) -> Result<Description, StoreError> {
        let _updating = self.updating.lock();
        let kind = self.kind_of(id)?;
        let failed = |error| self.context_of(id).io(error, "change the description of");
        let file = match self.open(id, kind, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.checked(id, kind, Err(error));
            }
            other => other.map_err(failed)?,
        };
        let before = self.checked(id, kind, read_slots(&*file))?;
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
            // Also without a change: a killed process may have written it without a sync.
            file.sync()?;
            if before.is_replacement { self.sync_name(id, kind) } else { Ok(()) }
        };
        write().map_err(failed)?;
        Ok(after)
    }

    /// Replaces the file of a description whose slots change their positions. The next opening of
    /// the disk removes a temporary file that a crash leaves.
    fn replace(&self, description: &Description) -> io::Result<()> {
        let (id, kind) = (description.id, description.kind);
        let new = format!("new-{}", path_of(id, SubfileKind::Flat));
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        let replaced = self.medium.open(&new, mode).and_then(|file| {
            write_slot(&*file, description)?;
            file.sync()?;
            self.medium.rename(&new, &path_of(id, kind))
        });
        if replaced.is_err() {
            // The next attempt creates it again.
            let _ = self.medium.remove_file(&new);
        }
        replaced?;
        self.sync_name(id, kind)
    }

    /// Makes the name of a description durable.
    fn sync_name(&self, id: SubfileId, kind: SubfileKind) -> io::Result<()> {
        match kind {
            SubfileKind::Flat => self.medium.sync_dir(""),
            SubfileKind::Extents => self.medium.sync_dir(&name_of(id, kind)),
        }
    }

    /// Makes a flat subfile durable together with its description and their names. The description
    /// is missing if the subfile was removed after it was opened.
    pub(crate) fn sync_first(&self, id: SubfileId, flat: &dyn MediumFile) -> io::Result<()> {
        let description = match self.open(id, SubfileKind::Flat, true) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // A journaling file system commits the names and blocks of both files with the sync of the
        // first one, if both are written back before. The later syncs then have nothing to do. A
        // description that is written back later would cost a second commit.
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

    fn open(
        &self,
        id: SubfileId,
        kind: SubfileKind,
        write: bool,
    ) -> io::Result<Arc<dyn MediumFile>> {
        let mode = MediumOpenMode { create: false, write, direct_alignment: None };
        self.medium.open(&path_of(id, kind), mode)
    }

    /// The description that was read, if it is valid and belongs to the subfile.
    fn checked(
        &self,
        id: SubfileId,
        kind: SubfileKind,
        read: io::Result<Result<Description, BadDescription>>,
    ) -> Result<Description, StoreError> {
        let (context, disk, name) =
            (self.context_of(id), self.context.name.clone(), name_of(id, kind));
        let invalid = |why: &str| StoreError::NotASubfile { disk, name, why: why.to_owned() };
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(invalid("it has no description"))
            }
            Err(error) => Err(context.io(error, "read the description of")),
            Ok(Ok(found)) if found.id == id && found.kind == kind => Ok(found),
            Ok(Ok(_)) => Err(invalid("its description belongs to another subfile")),
            Ok(Err(BadDescription::NotOurs)) => Err(invalid("its description is another file")),
            Ok(Err(BadDescription::Newer(version))) => {
                Err(context.newer(name_of(id, kind), version, DESCRIPTION_VERSION))
            }
            Ok(Err(BadDescription::Damaged(what))) => {
                Err(context.damaged(None, format!("its description has {what}")))
            }
        }
    }

    fn context_of(&self, subfile: SubfileId) -> SubfileContext {
        SubfileContext { disk: self.context.clone(), subfile }
    }
}

/// The description at the beginning of a flat subfile of version 1.
pub(crate) fn read_head(
    medium: &dyn Medium,
    id: SubfileId,
) -> io::Result<Result<Description, BadDescription>> {
    let file = medium.open(&name_of(id, SubfileKind::Flat), MediumOpenMode::default())?;
    let mut block = vec![0; DESCRIPTION_MAX_BYTES];
    let count = file.read_at(&mut block, 0)?;
    Ok(Description::decode(&block[..count]))
}

/// The name of a subfile in the directory of a disk.
pub(crate) fn name_of(id: SubfileId, kind: SubfileKind) -> String {
    format!("{}.{kind}", id.stem())
}

/// The path of the description of a subfile.
pub(crate) fn path_of(id: SubfileId, kind: SubfileKind) -> String {
    match kind {
        SubfileKind::Flat => format!("{}{SUFFIX}", id.stem()),
        SubfileKind::Extents => format!("{}/{}", name_of(id, kind), extents::DESCRIPTION),
    }
}

/// The flat subfile whose description has this file name.
pub(crate) fn described_by(name: &str) -> Option<SubfileId> {
    SubfileId::from_stem(name.strip_suffix(SUFFIX)?)
}

/// The subfile that has this name in the directory of a disk.
pub(crate) fn named(name: &str) -> Option<(SubfileId, SubfileKind)> {
    let (stem, kind) = name.rsplit_once('.')?;
    let kind = [SubfileKind::Flat, SubfileKind::Extents]
        .into_iter()
        .find(|known| known.to_string() == kind)?;
    Some((SubfileId::from_stem(stem)?, kind))
}

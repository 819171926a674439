//! From version 1 of the disk format to version 2.
//!
//! In version 1 a flat subfile begins with its description; in version 2 the description is a file
//! beside it. The upgrade writes all these files, syncs them, and only then replaces the disk mark.
//! Until then the disk has version 1, and the next opening repeats an interrupted upgrade. The
//! upgrade moves no bytes of subfiles and does not touch extent subfiles: their description of
//! version 1 is a separate file already, which the store can read and change.

use std::any::Any;
use std::io;

use crate::description::write_slot;
use crate::description_store::{named, path_of, read_head};
use crate::disk_mark::{self, DISK_VERSION, DiskMark};
use crate::medium::{Medium, MediumOpenMode};
use crate::subfile::{SubfileId, SubfileKind};

type MediumLock = Box<dyn Any + Send + Sync>;

/// Upgrades a disk from version 1 to version 2. Returns the lock of the new mark. The caller keeps
/// the lock of the old mark, which protects the disk until the new mark is in effect.
pub(crate) fn upgrade(medium: &dyn Medium, mark: DiskMark) -> io::Result<MediumLock> {
    for name in medium.list("")? {
        if let Some((id, SubfileKind::Flat)) = named(&name.name) {
            move_description(medium, id)?;
        }
    }
    medium.sync_dir("")?;
    DiskMark { version: DISK_VERSION, ..mark }.write(medium)?;
    let lock = medium.lock(disk_mark::NEW_MARK_FILE, true)?;
    disk_mark::publish(medium)?;
    Ok(lock)
}

/// Writes the description of a flat subfile to a separate file. A subfile without a valid
/// description gets none: it was never synced, or is damaged.
fn move_description(medium: &dyn Medium, id: SubfileId) -> io::Result<()> {
    let path = path_of(id, SubfileKind::Flat);
    match medium.remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let Ok(description) = read_head(medium, id)? else { return Ok(()) };
    if description.id != id {
        return Ok(());
    }
    let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
    let file = medium.open(&path, mode)?;
    write_slot(&*file, &description)?;
    file.sync()
}

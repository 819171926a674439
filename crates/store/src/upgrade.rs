//! From version 1 of the disk format to version 2.
//!
//! In version 1 a flat subfile begins with its description; in version 2 the description is a file
//! beside it. The upgrade writes all these files, makes them durable, and only then replaces the
//! mark of the disk. Until then the disk is of version 1, and an upgrade that was interrupted begins
//! again. The bytes of subfiles stay where they are; extent subfiles stay as they are, since a
//! description of version 1 in a file of its own can be read and changed.

use std::any::Any;
use std::io;

use crate::description::write_slot;
use crate::descriptions::{named, path_of, read_head};
use crate::mark::{self, DISK_VERSION, Mark};
use crate::medium::{Medium, OpenHow};
use crate::subfile::{Kind, SubfileId};

type Lock = Box<dyn Any + Send + Sync>;

/// Makes a disk of version 1 one of version 2. The answer locks the new mark, as the lock of the
/// old mark, which the caller keeps, locks the disk until the new mark counts.
pub(crate) fn upgrade(medium: &dyn Medium, mark: Mark) -> io::Result<Lock> {
    for name in medium.list("")? {
        if let Some((id, Kind::Flat)) = named(&name.name) {
            move_description(medium, id)?;
        }
    }
    medium.sync_dir("")?;
    Mark { version: DISK_VERSION, ..mark }.write(medium)?;
    let lock = medium.lock(mark::NEW_MARK, true)?;
    mark::put_in_place(medium)?;
    Ok(lock)
}

/// Writes the description of a flat subfile to a file of its own. A subfile without a valid one
/// gets none: it was never synced, or is damaged.
fn move_description(medium: &dyn Medium, id: SubfileId) -> io::Result<()> {
    let path = path_of(id, Kind::Flat);
    match medium.remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let Ok(description) = read_head(medium, id)? else { return Ok(()) };
    if description.id != id {
        return Ok(());
    }
    let how = OpenHow { create: true, write: true, direct_alignment: None };
    let file = medium.open(&path, how)?;
    write_slot(&*file, &description)?;
    file.sync()
}

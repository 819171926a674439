//! What is done with an open shared file: modes, pointers, sizes, bytes.

use std::sync::Arc;

use libc::{c_int, off_t};
use pario::{CollectiveError, Error, Failure, Mode, Seek, SharedFile};

use crate::descriptors::{OpenFile, Sharing};
use crate::errors::{Doing, Done, Failed, While};
use crate::memory::Pieces;
use crate::opening;
use crate::requests::Started;

/// Sets the mode, together with all others. Pointers stay where they are: processes whose pointers
/// are their own must be at the same place when they begin to share one.
pub fn set_mode(open: &OpenFile, mode: Mode) -> Done<()> {
    let Sharing { file, is_alone } = open.sharing()?;
    let before = file.mode();
    let is_private = matches!(before, Mode::Unix | Mode::Async | Mode::Record);
    let at = if is_private { Some(file.position().while_doing(Doing::Else)?) } else { None };
    if is_alone {
        let together = opening::join(open)?;
        if let Err(error) = enter(&together, mode, at) {
            let failed = Failed::of(&error, Doing::Else);
            // All have got the same error, and close it.
            let _ = together.close();
            return Err(failed);
        }
        let together = Sharing { file: Arc::new(together), is_alone: false };
        drop(open.replace(together));
        if let Some(file) = Arc::into_inner(file) {
            file.close().while_doing(Doing::Else)?;
        }
        return Ok(());
    }
    let entered = enter(&file, mode, at);
    if let Err(Error::Failure(Failure::Collective {
        error: CollectiveError::Disagreement(_), ..
    })) = &entered
        && file.mode() != before
    {
        // All have got the same error, and go back.
        file.set_mode(before).while_doing(Doing::Else)?;
        if let (Some(at), Mode::Unix | Mode::Async) = (at, before) {
            file.seek(Seek::Start(at)).while_doing(Doing::Else)?;
        }
    }
    entered.while_doing(Doing::Else)
}

/// Sets a mode, and the pointer to where it was.
fn enter(file: &SharedFile, mode: Mode, at: Option<u64>) -> Result<(), Error> {
    let Some(at) = at else { return file.set_mode(mode) };
    // Who comes first in M_LOG must not move the pointer that others use already: it is set in a
    // mode in which all meet to set it.
    let meeting = if mode == Mode::Log { Mode::Sync } else { mode };
    file.set_mode(meeting)?;
    file.seek(Seek::Start(at))?;
    if meeting == mode { Ok(()) } else { file.set_mode(mode) }
}

/// Moves the pointer as `lseek` does.
pub fn seek(open: &OpenFile, offset: off_t, whence: c_int) -> Done<off_t> {
    let impossible = |why: String| Failed::new(libc::EINVAL, why);
    let seek = seek_of(offset, whence).ok_or_else(|| {
        let path = &open.path;
        impossible(format!(
            "{path}: lseek to {offset} from whence {whence}: there is no such place"
        ))
    })?;
    let at = open.file()?.seek(seek).map_err(|error| match error {
        Error::Invalid { text } => impossible(text),
        error => Failed::of(&error, Doing::Else),
    })?;
    off_t::try_from(at).map_err(|_| beyond_offsets(open, at))
}

/// Makes the file longer as `lsize` does, and says how long it is.
pub fn grow(open: &OpenFile, offset: off_t, whence: c_int) -> Done<off_t> {
    let to = match (whence, offset) {
        // Nothing is shorter than a file without bytes.
        (libc::SEEK_SET, ..0) => Some(Seek::Start(0)),
        _ => seek_of(offset, whence),
    };
    let to = to.ok_or_else(|| {
        Failed::invalid(format!("{whence} is none of SIZE_SET, SIZE_CUR and SIZE_END"))
    })?;
    check_access(open, true)?;
    let len = open.file()?.extend(to).while_doing(Doing::Else)?;
    off_t::try_from(len).map_err(|_| beyond_offsets(open, len))
}

/// A place that no offset of C reaches.
fn beyond_offsets(open: &OpenFile, at: u64) -> Failed {
    Failed::new(
        libc::EOVERFLOW,
        format!("{}: byte {at} is beyond what an off_t can hold", open.path),
    )
}

/// Reads where the mode says.
pub fn read(open: &OpenFile, mut to: Pieces) -> Done<usize> {
    check_access(open, false)?;
    let file = open.file()?;
    to.fill(|bytes| file.read(bytes)).while_doing(Doing::Moving)
}

/// Writes all where the mode says.
pub fn write(open: &OpenFile, from: &Pieces) -> Done<usize> {
    check_access(open, true)?;
    let file = at_its_place(open, from.len(), |file| {
        file.write(&from.gathered())?;
        Ok(file)
    })?;
    if open.flags & (libc::O_SYNC | libc::O_DSYNC) != 0 {
        file.sync().while_doing(Doing::Moving)?;
    }
    Ok(from.len())
}

/// Starts to read where the mode says.
pub fn start_read(open: &OpenFile, to: Pieces) -> Done<Started> {
    check_access(open, false)?;
    let file = open.file()?;
    let started = open.start(|| match to.only() {
        // SAFETY: whoever has made the piece says that it is there, and is left alone.
        Some((start, len)) => unsafe { file.start_read_into(start, len) }.map(Started::Read),
        None => file.start_read(to.len()).map(|read| Started::Scatter(read, to)),
    });
    started.while_doing(Doing::Moving)
}

/// Starts to write where the mode says.
pub fn start_write(open: &OpenFile, from: Pieces) -> Done<Started> {
    check_access(open, true)?;
    at_its_place(open, from.len(), |file| open.start(|| file.start_write(from))).map(Started::Write)
}

/// Writes or starts to. Appends to a file that this process has open for itself go to where the file
/// ends at this moment, and behind what it has appended before.
fn at_its_place<T>(
    open: &OpenFile,
    len: usize,
    write: impl FnOnce(Arc<SharedFile>) -> Result<T, Error>,
) -> Done<T> {
    let Sharing { file, is_alone } = open.sharing()?;
    if !is_alone || open.flags & libc::O_APPEND == 0 {
        return write(file).while_doing(Doing::Moving);
    }
    let mut appended = open.appended.lock();
    let end = file.len().while_doing(Doing::Moving)?.max(*appended);
    file.seek(Seek::Start(end)).while_doing(Doing::Moving)?;
    let written = write(file).while_doing(Doing::Moving)?;
    *appended = end + len as u64;
    Ok(written)
}

/// Whether the file was opened for what is to be done.
pub fn check_access(open: &OpenFile, is_write: bool) -> Done<()> {
    let wrong = if is_write { libc::O_RDONLY } else { libc::O_WRONLY };
    if open.flags & libc::O_ACCMODE == wrong {
        let verb = if is_write { "writing" } else { "reading" };
        return Err(Failed::new(libc::EBADF, format!("{}: not opened for {verb}", open.path)));
    }
    Ok(())
}

fn seek_of(offset: off_t, whence: c_int) -> Option<Seek> {
    match whence {
        libc::SEEK_SET => u64::try_from(offset).ok().map(Seek::Start),
        libc::SEEK_CUR => Some(Seek::Current(offset)),
        libc::SEEK_END => Some(Seek::End(offset)),
        _ => None,
    }
}

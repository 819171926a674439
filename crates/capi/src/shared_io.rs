//! Operations on an open shared file: mode, pointer, size, reads and writes.

use std::io::SeekFrom;
use std::sync::Arc;

use libc::{c_int, off_t};
use pario::{CallKind, CollectiveError, Error, Failure, Mode, SharedFile};

use crate::buffers::CallerBuffers;
use crate::descriptors::{self, DescriptorEntry, FileHandle};
use crate::errors::{CallResult, ErrnoContext, ErrnoError, IntoCallResult};
use crate::requests::StartedIo;
use crate::{misdirected_calls, opening};

/// Returns what a process has prepared for a call of a kind. If it cannot make the call, and the mode
/// makes the call collective, the call fails on all processes, with its rank and the reason.
pub fn or_fail_call<T>(
    open: &DescriptorEntry,
    kind: CallKind,
    prepared: CallResult<T>,
) -> CallResult<T> {
    if let (Err(failed), Ok(file)) = (&prepared, open.file()) {
        file.fail_call(kind, &failed.cause());
    }
    prepared
}

/// As [`or_fail_call`], for a transfer that is started: does not wait for the other processes.
fn or_fail_start<T>(open: &DescriptorEntry, prepared: CallResult<T>) -> CallResult<T> {
    if let (Err(failed), Ok(file)) = (&prepared, open.file()) {
        open.start_request(|| file.start_failed_call(CallKind::Transfer, &failed.cause()));
    }
    prepared
}

/// Fails a change of the mode on all processes, because this one cannot make it.
pub fn fail_set_mode(open: &DescriptorEntry, failed: &ErrnoError) {
    match open.handle() {
        // The other processes open the file together first.
        Ok(FileHandle { is_single: true, .. }) => drop(open.files.fail_call(&failed.cause())),
        Ok(FileHandle { file, .. }) => file.fail_call(CallKind::SetMode, &failed.cause()),
        Err(_) => {}
    }
}

/// Sets the mode, collectively. Pointers stay: processes with private pointers must be at the same
/// position when they begin to share one.
pub fn set_mode(open: &DescriptorEntry, mode: Mode) -> CallResult<()> {
    let FileHandle { file, is_single } = open.handle()?;
    let before = file.mode();
    let is_private = matches!(before, Mode::Unix | Mode::Async | Mode::Record);
    let at = if is_private { Some(file.position().in_call(ErrnoContext::Other)?) } else { None };
    if is_single {
        let collective = opening::reopen_collective(open)?;
        if let Err(error) = set_mode_and_position(&collective, mode, at) {
            let failed = ErrnoError::from_error(&error, ErrnoContext::Other);
            // Every rank gets the same error and closes the file.
            let _ = collective.close();
            return Err(failed);
        }
        let collective = FileHandle { file: Arc::new(collective), is_single: false };
        drop(open.replace(collective));
        if let Some(file) = Arc::into_inner(file) {
            file.close().in_call(ErrnoContext::Other)?;
        }
        return Ok(());
    }
    let entered = set_mode_and_position(&file, mode, at);
    if let Err(Error::Failure(Failure::Collective {
        error: CollectiveError::Disagreement(_), ..
    })) = &entered
        && file.mode() != before
    {
        // Every rank gets the same error and returns to the former mode.
        file.set_mode(before).in_call(ErrnoContext::Other)?;
        if let (Some(at), Mode::Unix | Mode::Async) = (at, before) {
            file.seek(SeekFrom::Start(at)).in_call(ErrnoContext::Other)?;
        }
    }
    entered.in_call(ErrnoContext::Other)
}

/// Sets a mode and restores the position.
fn set_mode_and_position(file: &SharedFile, mode: Mode, at: Option<u64>) -> Result<(), Error> {
    let Some(at) = at else { return file.set_mode(mode) };
    // In M_LOG a late rank would move the pointer that early ranks already use. So the position is
    // set in M_SYNC, where all ranks meet to set it.
    let transit = if mode == Mode::Log { Mode::Sync } else { mode };
    file.set_mode(transit)?;
    file.seek(SeekFrom::Start(at))?;
    if transit == mode { Ok(()) } else { file.set_mode(mode) }
}

/// Implements `lseek`.
pub fn seek(open: &DescriptorEntry, offset: off_t, whence: c_int) -> CallResult<off_t> {
    let impossible = |why: String| ErrnoError::new(libc::EINVAL, why);
    let seek = seek_of(offset, whence).ok_or_else(|| {
        let path = &open.path;
        impossible(format!(
            "{path}: lseek to offset {offset} with whence {whence} is not a position in a file"
        ))
    });
    let seek = or_fail_call(open, CallKind::Seek, seek)?;
    let file = open.file()?;
    let at =
        misdirected_calls::while_waiting_at(&*file, || file.seek(seek)).map_err(
            |error| match error {
                Error::Invalid { text } => impossible(text),
                error => ErrnoError::from_error(&error, ErrnoContext::Other),
            },
        )?;
    off_t::try_from(at).map_err(|_| beyond_offsets(open, at))
}

/// Implements `lsize`: extends the file and returns its length.
pub fn grow(open: &DescriptorEntry, offset: off_t, whence: c_int) -> CallResult<off_t> {
    let to = match (whence, offset) {
        // A file is never shorter than 0 bytes.
        (libc::SEEK_SET, ..0) => Some(SeekFrom::Start(0)),
        _ => seek_of(offset, whence),
    };
    let to = to.ok_or_else(|| {
        ErrnoError::invalid(format!(
            "whence {whence} is unknown: use SIZE_SET, SIZE_CUR or SIZE_END"
        ))
    })?;
    check_access(open, true)?;
    let len = open.file()?.extend(to).in_call(ErrnoContext::Other)?;
    off_t::try_from(len).map_err(|_| beyond_offsets(open, len))
}

/// Returns the error about an offset that an `off_t` cannot hold.
fn beyond_offsets(open: &DescriptorEntry, at: u64) -> ErrnoError {
    ErrnoError::new(
        libc::EOVERFLOW,
        format!("{}: byte {at} is beyond what an off_t holds", open.path),
    )
}

/// Reads at the position that the mode gives.
pub fn read(open: &DescriptorEntry, to: CallResult<CallerBuffers>) -> CallResult<usize> {
    let mut to = or_fail_call(open, CallKind::Transfer, checked(open, to, false))?;
    let file = open.file()?;
    let read = misdirected_calls::while_waiting_at(&*file, || to.fill(|bytes| file.read(bytes)));
    read.in_call(ErrnoContext::Transfer)
}

/// Writes everything at the position that the mode gives.
pub fn write(open: &DescriptorEntry, from: CallResult<CallerBuffers>) -> CallResult<usize> {
    let from = or_fail_call(open, CallKind::Transfer, checked(open, from, true))?;
    let file = open.file()?;
    let written = misdirected_calls::while_waiting_at(&*file, || file.write(&from.gather()));
    written.in_call(ErrnoContext::Transfer)?;
    if open.flags & (libc::O_SYNC | libc::O_DSYNC) != 0 {
        file.sync().in_call(ErrnoContext::Transfer)?;
    }
    Ok(from.len())
}

/// Starts a read at the position that the mode gives.
pub fn start_read(open: &DescriptorEntry, to: CallResult<CallerBuffers>) -> CallResult<StartedIo> {
    let to = or_fail_start(open, checked(open, to, false))?;
    let file = open.file()?;
    let started = open.start_request(|| match to.as_single() {
        // SAFETY: the creator of the buffers guarantees the memory and leaves it alone.
        Some((start, len)) => unsafe { file.start_read_into(start, len) }.map(StartedIo::Read),
        None => file.start_read(to.len()).map(|read| StartedIo::Scatter(read, to)),
    });
    started.in_call(ErrnoContext::Transfer)
}

/// Starts a write at the position that the mode gives.
pub fn start_write(
    open: &DescriptorEntry,
    from: CallResult<CallerBuffers>,
) -> CallResult<StartedIo> {
    let from = or_fail_start(open, checked(open, from, true))?;
    let file = open.file()?;
    let started = open.start_request(|| file.start_write(from));
    started.map(StartedIo::Write).in_call(ErrnoContext::Transfer)
}

/// Returns the buffers of a transfer, if the file was opened for it.
fn checked(
    open: &DescriptorEntry,
    buffers: CallResult<CallerBuffers>,
    is_write: bool,
) -> CallResult<CallerBuffers> {
    check_access(open, is_write).and(buffers)
}

/// Fails a started transfer on all processes, because this one cannot start it.
pub fn fail_start(fd: c_int, failed: ErrnoError) -> ErrnoError {
    if let Ok(Some(open)) = descriptors::find(fd) {
        let _: CallResult<()> = or_fail_start(&open, Err(failed.clone()));
    }
    failed
}

/// Fails if the file was not opened for the access.
pub fn check_access(open: &DescriptorEntry, is_write: bool) -> CallResult<()> {
    let wrong = if is_write { libc::O_RDONLY } else { libc::O_WRONLY };
    if open.flags & libc::O_ACCMODE == wrong {
        let verb = if is_write { "writing" } else { "reading" };
        return Err(ErrnoError::new(libc::EBADF, format!("{}: not opened for {verb}", open.path)));
    }
    Ok(())
}

fn seek_of(offset: off_t, whence: c_int) -> Option<SeekFrom> {
    match whence {
        libc::SEEK_SET => u64::try_from(offset).ok().map(SeekFrom::Start),
        libc::SEEK_CUR => Some(SeekFrom::Current(offset)),
        libc::SEEK_END => Some(SeekFrom::End(offset)),
        _ => None,
    }
}

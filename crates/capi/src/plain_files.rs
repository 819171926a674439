//! Plain files: calls of this library on descriptors that are not of shared files.

use libc::{c_int, c_void, off_t};

use crate::errors::{CallResult, EPFSLBADF, ErrnoError};

/// Converts the result of a system call: -1 is an error.
pub fn check_size(result: isize) -> CallResult<usize> {
    usize::try_from(result).map_err(|_| ErrnoError::last_os_error())
}

/// Converts an `int` result of a system call: -1 is an error.
pub fn check_int(result: c_int) -> CallResult<c_int> {
    if result < 0 { Err(ErrnoError::last_os_error()) } else { Ok(result) }
}

/// Replaces `EBADF` by `EPFSLBADF`, as the calls of `pfslib.h` report it.
pub fn with_pfslib_errno<T>(done: CallResult<T>) -> CallResult<T> {
    done.map_err(|failed| match failed.number {
        libc::EBADF => ErrnoError::new(EPFSLBADF, failed.text),
        _ => failed,
    })
}

/// Returns whether the pointer is at or beyond the end of the file.
pub fn is_at_end(fd: c_int) -> CallResult<bool> {
    // SAFETY: the call takes no memory.
    let at = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
    if at < 0 {
        return Err(ErrnoError::last_os_error());
    }
    Ok(at >= len(fd)?)
}

/// Extends a file if it is shorter than the given size. Returns its length.
pub fn grow(fd: c_int, offset: off_t, whence: c_int) -> CallResult<off_t> {
    let now = len(fd)?;
    let from = match whence {
        libc::SEEK_SET => 0,
        libc::SEEK_END => now,
        libc::SEEK_CUR => {
            // SAFETY: the call takes no memory.
            let at = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
            if at < 0 {
                return Err(ErrnoError::last_os_error());
            }
            at
        }
        _ => {
            return Err(ErrnoError::invalid(format!(
                "whence {whence} is unknown: use SIZE_SET, SIZE_CUR or SIZE_END"
            )));
        }
    };
    let wanted = from.checked_add(offset).ok_or_else(|| {
        ErrnoError::new(
            libc::EFBIG,
            format!("a size of {from} + {offset} bytes is beyond what an off_t holds"),
        )
    })?;
    if wanted > now {
        // SAFETY: the call takes no memory. It never cuts, even if another process extends the file
        // at the same time.
        check_int(unsafe { libc::fallocate(fd, 0, wanted - 1, 1) })?;
    }
    len(fd)
}

fn len(fd: c_int) -> CallResult<off_t> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the memory is local and large enough.
    check_int(unsafe { libc::fstat(fd, stat.as_mut_ptr()) })?;
    // SAFETY: the successful call has filled it.
    Ok(unsafe { stat.assume_init() }.st_size)
}

/// Reads or writes one buffer with a system call.
///
/// # Safety
/// `memory` points to `len` bytes.
pub unsafe fn transfer(
    fd: c_int,
    memory: *mut c_void,
    len: usize,
    is_write: bool,
) -> CallResult<usize> {
    // SAFETY: the caller guarantees it.
    check_size(unsafe {
        if is_write { libc::write(fd, memory, len) } else { libc::read(fd, memory, len) }
    })
}

/// Reads or writes several buffers with a system call.
///
/// # Safety
/// `list` is null or points to `count` buffers.
pub unsafe fn transfer_vectored(
    fd: c_int,
    list: *const libc::iovec,
    count: c_int,
    is_write: bool,
) -> CallResult<usize> {
    // SAFETY: the caller guarantees it.
    check_size(unsafe {
        if is_write { libc::writev(fd, list, count) } else { libc::readv(fd, list, count) }
    })
}

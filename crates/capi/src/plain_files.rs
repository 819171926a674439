//! Plain descriptors: what the calls of this library do with files of the system.

use libc::{c_int, c_void, off_t};

use crate::errors::{CallError, CallResult, EPFSLBADF};

/// What a call of the system says: -1 is an error.
pub fn check_size(result: isize) -> CallResult<usize> {
    usize::try_from(result).map_err(|_| CallError::last_os_error())
}

/// The same for numbers of the other width.
pub fn check_int(result: c_int) -> CallResult<c_int> {
    if result < 0 { Err(CallError::last_os_error()) } else { Ok(result) }
}

/// A descriptor that is not open has a number of its own in the calls of `pfslib.h`.
pub fn with_pfslib_errno<T>(done: CallResult<T>) -> CallResult<T> {
    done.map_err(|failed| match failed.number {
        libc::EBADF => CallError::new(EPFSLBADF, failed.text),
        _ => failed,
    })
}

/// Whether the pointer is at the end of the file.
pub fn is_at_end(fd: c_int) -> CallResult<bool> {
    // SAFETY: no memory is passed.
    let at = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
    if at < 0 {
        return Err(CallError::last_os_error());
    }
    Ok(at >= len(fd)?)
}

/// Makes a file longer, and says how long it is.
pub fn grow(fd: c_int, offset: off_t, whence: c_int) -> CallResult<off_t> {
    let now = len(fd)?;
    let from = match whence {
        libc::SEEK_SET => 0,
        libc::SEEK_END => now,
        libc::SEEK_CUR => {
            // SAFETY: no memory is passed.
            let at = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
            if at < 0 {
                return Err(CallError::last_os_error());
            }
            at
        }
        _ => {
            return Err(CallError::invalid(format!(
                "{whence} is none of SIZE_SET, SIZE_CUR and SIZE_END"
            )));
        }
    };
    let wanted = from
        .checked_add(offset)
        .ok_or_else(|| CallError::new(libc::EFBIG, format!("{from} + {offset} bytes")))?;
    if wanted > now {
        // SAFETY: no memory is passed. What is there is not touched, also if somebody adds to it.
        check_int(unsafe { libc::fallocate(fd, 0, wanted - 1, 1) })?;
    }
    len(fd)
}

fn len(fd: c_int) -> CallResult<off_t> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the memory is ours and large enough.
    check_int(unsafe { libc::fstat(fd, stat.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, and so has filled it.
    Ok(unsafe { stat.assume_init() }.st_size)
}

/// Reads or writes one piece of memory with a call of the system.
///
/// # Safety
/// The memory has so many bytes.
pub unsafe fn transfer(
    fd: c_int,
    memory: *mut c_void,
    len: usize,
    is_write: bool,
) -> CallResult<usize> {
    // SAFETY: as the caller says.
    check_size(unsafe {
        if is_write { libc::write(fd, memory, len) } else { libc::read(fd, memory, len) }
    })
}

/// The same with several pieces.
///
/// # Safety
/// The list is null, or that of so many pieces.
pub unsafe fn transfer_vectored(
    fd: c_int,
    list: *const libc::iovec,
    count: c_int,
    is_write: bool,
) -> CallResult<usize> {
    // SAFETY: as the caller says.
    check_size(unsafe {
        if is_write { libc::writev(fd, list, count) } else { libc::readv(fd, list, count) }
    })
}

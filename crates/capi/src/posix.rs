//! System calls that also work on shared files, where they obey the mode. `nx.h` and the preload
//! library put them in the place of the system's.

use libc::{c_char, c_int, c_long, c_void, iovec, off_t, size_t, ssize_t};

use crate::boundary::return_errno;
use crate::buffers::CallerBuffers;
use crate::descriptors::{self, DescriptorEntry};
use crate::errors::{CallResult, EPFSLNDELAY, ErrnoContext, ErrnoError, IntoCallResult};
use crate::names::{NameMatch, NameRule};
use crate::{file_status, inheritance, plain_files, record_locks, shared_io, striping};

/// Returns whether a descriptor is that of a shared file.
#[unsafe(no_mangle)]
pub extern "C" fn pario_is_shared(fd: c_int) -> c_int {
    descriptors::is_shared(fd).into()
}

/// Returns the part of the name rule that a name matches, as a `PARIO_NAME_` constant; 0 for a
/// plain name.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_name_rule(name: *const c_char) -> c_int {
    if name.is_null() {
        return 0;
    }
    // SAFETY: it is not null, and the caller guarantees a NUL at its end.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    match NameRule::current().matched(&name.to_string_lossy()) {
        None => 0,
        Some(NameMatch::Number) => PARIO_NAME_NUMBER,
        Some(NameMatch::Contains) => PARIO_NAME_CONTAINS,
        Some(NameMatch::Below) => PARIO_NAME_BELOW,
        Some(NameMatch::Relative) => PARIO_NAME_RELATIVE,
        Some(NameMatch::Leaves) => PARIO_NAME_LEAVES,
    }
}

/// The name contains `###`: a plain file of this process.
pub const PARIO_NAME_NUMBER: c_int = 1;
/// The name contains `pfs`: a shared file.
pub const PARIO_NAME_CONTAINS: c_int = 2;
/// The name is below `PARIO_PREFIX`: a shared file.
pub const PARIO_NAME_BELOW: c_int = 3;
/// The name is relative, and the working directory is a shared one: a shared file.
pub const PARIO_NAME_RELATIVE: c_int = 4;
/// The name leads out of `PARIO_PREFIX`: a plain file.
pub const PARIO_NAME_LEAVES: c_int = 5;

/// `read`.
///
/// # Safety
/// `buffer` points to `bytes` bytes of memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => {
            // SAFETY: the caller guarantees it.
            let to = unsafe { CallerBuffers::single(buffer, bytes) };
            let _pointer = inheritance::take_pointer(fd, &open)?;
            shared_io::read(&open, to).and_then(size)
        }
        // SAFETY: the caller guarantees it.
        None => unsafe { plain_files::transfer(fd, buffer, bytes, false) }.and_then(size),
    })
}

/// `write`.
///
/// # Safety
/// `buffer` points to `bytes` bytes of memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t {
    let buffer = buffer.cast_mut();
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => {
            // SAFETY: the caller guarantees it.
            let from = unsafe { CallerBuffers::single(buffer, bytes) };
            let _pointer = inheritance::take_pointer(fd, &open)?;
            shared_io::write(&open, from).and_then(size)
        }
        // SAFETY: the caller guarantees it.
        None => unsafe { plain_files::transfer(fd, buffer, bytes, true) }.and_then(size),
    })
}

/// `readv`.
///
/// # Safety
/// `pieces` is null or points to `count` buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => {
            // SAFETY: the caller guarantees it.
            let to = unsafe { CallerBuffers::vectored(pieces, count) };
            let _pointer = inheritance::take_pointer(fd, &open)?;
            shared_io::read(&open, to).and_then(size)
        }
        // SAFETY: the caller guarantees it.
        None => unsafe { plain_files::transfer_vectored(fd, pieces, count, false) }.and_then(size),
    })
}

/// `writev`.
///
/// # Safety
/// `pieces` is null or points to `count` buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => {
            // SAFETY: the caller guarantees it.
            let from = unsafe { CallerBuffers::vectored(pieces, count) };
            let _pointer = inheritance::take_pointer(fd, &open)?;
            shared_io::write(&open, from).and_then(size)
        }
        // SAFETY: the caller guarantees it.
        None => unsafe { plain_files::transfer_vectored(fd, pieces, count, true) }.and_then(size),
    })
}

/// `pread`: an explicit offset moves no pointer, in any mode.
///
/// # Safety
/// `buffer` points to `bytes` bytes of memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_pread(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    offset: off_t,
) -> ssize_t {
    return_errno(|| {
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: the caller guarantees it.
            return plain_files::check_size(unsafe { libc::pread(fd, buffer, bytes, offset) })
                .and_then(size);
        };
        shared_io::check_access(&open, false)?;
        let offset = u64::try_from(offset).map_err(|_| negative(&open, "offset", offset))?;
        let file = open.file()?;
        // SAFETY: the caller guarantees it.
        let mut to = unsafe { CallerBuffers::single(buffer, bytes) }?;
        let read = to.fill(|to| file.read_at(to, offset));
        read.in_call(ErrnoContext::Transfer).and_then(size)
    })
}

/// `pwrite`: an explicit offset moves no pointer, in any mode.
///
/// # Safety
/// `buffer` points to `bytes` bytes of memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_pwrite(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
    offset: off_t,
) -> ssize_t {
    return_errno(|| {
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: the caller guarantees it.
            return plain_files::check_size(unsafe { libc::pwrite(fd, buffer, bytes, offset) })
                .and_then(size);
        };
        shared_io::check_access(&open, true)?;
        let offset = u64::try_from(offset).map_err(|_| negative(&open, "offset", offset))?;
        // SAFETY: the caller guarantees it.
        let from = unsafe { CallerBuffers::single(buffer.cast_mut(), bytes) }?;
        let written = open.file()?.write_at(&from.gather(), offset);
        written.in_call(ErrnoContext::Transfer).and_then(|()| size(bytes))
    })
}

/// `fsync`.
#[unsafe(no_mangle)]
pub extern "C" fn pario_fsync(fd: c_int) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        // A read-only descriptor has nothing to sync.
        Some(open) if open.flags & libc::O_ACCMODE == libc::O_RDONLY => Ok(0),
        Some(open) => open.file()?.sync().in_call(ErrnoContext::Transfer).map(|()| 0),
        // SAFETY: the call takes no memory.
        None => plain_files::check_int(unsafe { libc::fsync(fd) }),
    })
}

/// `ftruncate`: cuts or extends the file for all processes; pointers stay.
#[unsafe(no_mangle)]
pub extern "C" fn pario_ftruncate(fd: c_int, len: off_t) -> c_int {
    return_errno(|| {
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: the call takes no memory.
            return plain_files::check_int(unsafe { libc::ftruncate(fd, len) });
        };
        let len = u64::try_from(len).map_err(|_| negative(&open, "length", len))?;
        shared_io::check_access(&open, true)
            .map_err(|failed| ErrnoError::new(libc::EINVAL, failed.text))?;
        open.file()?.set_len(len).in_call(ErrnoContext::Other).map(|()| 0)
    })
}

/// `fstat`.
///
/// # Safety
/// `to` is null or points to a `struct stat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_fstat(fd: c_int, to: *mut libc::stat) -> c_int {
    return_errno(|| {
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: the caller guarantees it.
            return plain_files::check_int(unsafe { libc::fstat(fd, to) });
        };
        if to.is_null() {
            return Err(ErrnoError::null_pointer("the struct stat"));
        }
        let stat = file_status::of_descriptor(&open)?;
        // SAFETY: it is not null, and the caller guarantees a `struct stat`.
        unsafe { to.write(stat) };
        Ok(0)
    })
}

/// `dup`: both descriptors share the file with its mode and pointer.
#[unsafe(no_mangle)]
pub extern "C" fn pario_dup(fd: c_int) -> c_int {
    if descriptors::is_unused(fd) {
        // SAFETY: the call takes no memory.
        return return_errno(|| descriptors::duplicate_unused(|| unsafe { libc::dup(fd) }));
    }
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => descriptors::duplicate(fd, &open, 0, false),
        // SAFETY: the call takes no memory.
        None => plain_files::check_int(unsafe { libc::dup(fd) }),
    })
}

/// `dup2`.
#[unsafe(no_mangle)]
pub extern "C" fn pario_dup2(fd: c_int, number: c_int) -> c_int {
    if fd == number {
        return return_errno(|| match descriptors::find(fd)? {
            Some(_) => Ok(fd),
            // SAFETY: the call takes no memory.
            None => plain_files::check_int(unsafe { libc::dup2(fd, number) }),
        });
    }
    pario_dup3(fd, number, 0)
}

/// `dup3`. The descriptor of a shared file is always closed on exec, unless the preload library makes
/// it inheritable.
#[unsafe(no_mangle)]
pub extern "C" fn pario_dup3(fd: c_int, number: c_int, flags: c_int) -> c_int {
    if descriptors::is_unused(fd) && fd != number {
        return return_errno(|| {
            // As with the system, an error of this close is lost.
            let _ = descriptors::close(number);
            // SAFETY: the call takes no memory.
            descriptors::duplicate_unused(|| unsafe { libc::dup3(fd, number, flags) })
        });
    }
    return_errno(|| match descriptors::find(fd)? {
        Some(open) if fd != number && flags & !libc::O_CLOEXEC == 0 => {
            descriptors::duplicate_to(fd, &open, number, flags & libc::O_CLOEXEC != 0)
        }
        Some(open) => {
            let why = format!("{}: dup3 of {fd} to {number} with flags {flags:#x}", open.path);
            Err(ErrnoError::new(libc::EINVAL, why))
        }
        None => {
            // SAFETY: the call takes no memory.
            if descriptors::is_shared(number) && unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0 {
                // As with the system, an error of this close is lost.
                let _ = descriptors::close(number);
            }
            // SAFETY: the call takes no memory.
            plain_files::check_int(unsafe { libc::dup3(fd, number, flags) })
        }
    })
}

/// `fcntl`. Shared files support their flags, the close-on-exec flag and record locks.
///
/// # Safety
/// `argument` is what the command expects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    return_errno(|| {
        if descriptors::is_unused(fd) {
            // SAFETY: these commands take a number.
            let call = || unsafe { libc::fcntl(fd, command, argument) };
            match command {
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                    return descriptors::duplicate_unused(call);
                }
                libc::F_GETFD | libc::F_SETFD => return plain_files::check_int(call()),
                _ => {}
            }
        }
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: the caller guarantees it.
            return plain_files::check_int(unsafe { libc::fcntl(fd, command, argument) });
        };
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                let is_closed_on_exec = command == libc::F_DUPFD_CLOEXEC;
                descriptors::duplicate(fd, &open, int_of(argument), is_closed_on_exec)
            }
            // SAFETY: the call takes no memory.
            libc::F_GETFD => plain_files::check_int(unsafe { libc::fcntl(fd, command) }),
            // Without the preload library a shared file is always closed on exec.
            libc::F_SETFD if inheritance::is_on() || is_closed_on_exec(argument) => {
                descriptors::set_closed_on_exec(fd, &open, is_closed_on_exec(argument)).map(|()| 0)
            }
            libc::F_GETFL => Ok(open.flags & (libc::O_ACCMODE | libc::O_APPEND | libc::O_SYNC)),
            libc::F_SETFL if argument & c_long::from(libc::O_NONBLOCK) != 0 => {
                Err(ErrnoError::new(
                    EPFSLNDELAY,
                    format!(
                        "{}: calls on shared files block: use iread and iwrite instead of O_NDELAY",
                        open.path
                    ),
                ))
            }
            libc::F_SETFL => {
                let settable = c_long::from(libc::O_APPEND);
                let is_same = argument & settable == c_long::from(open.flags) & settable;
                let why = || format!("{}: O_APPEND can only be set by open", open.path);
                if is_same { Ok(0) } else { Err(ErrnoError::new(libc::EINVAL, why())) }
            }
            libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW => {
                let address = usize::try_from(argument.cast_unsigned()).unwrap_or(0);
                let lock = std::ptr::with_exposed_provenance_mut::<libc::flock>(address);
                // SAFETY: it is null, or the caller guarantees a `struct flock`.
                match unsafe { lock.as_mut() } {
                    Some(lock) => record_locks::fcntl_lock(&open, command, lock),
                    None => Err(ErrnoError::null_pointer("the struct flock")),
                }
            }
            striping::F_GETSATTR | striping::F_SETSATTR => {
                let address = usize::try_from(argument.cast_unsigned()).unwrap_or(0);
                let known = std::ptr::with_exposed_provenance_mut::<striping::sattr>(address);
                // SAFETY: it is null, or the caller guarantees a `struct sattr`.
                let Some(known) = (unsafe { known.as_mut() }) else {
                    return Err(ErrnoError::null_pointer("the struct sattr"));
                };
                match command {
                    striping::F_GETSATTR => *known = striping::get(&open)?,
                    _ => striping::set(&open, *known)?,
                }
                Ok(0)
            }
            striping::F_PFS_SVR_BUF => {
                striping::set_node_buffers(&open.path, int_of(argument)).map(|()| 0)
            }
            _ => Err(ErrnoError::new(
                libc::EINVAL,
                format!("{}: fcntl command {command} is not possible for a shared file", open.path),
            )),
        }
    })
}

/// `lockf`.
#[unsafe(no_mangle)]
pub extern "C" fn pario_lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => record_locks::lockf(&open, command, len),
        // SAFETY: the call takes no memory.
        None => plain_files::check_int(unsafe { libc::lockf(fd, command, len) }),
    })
}

fn is_closed_on_exec(descriptor_flags: c_long) -> bool {
    descriptor_flags & c_long::from(libc::FD_CLOEXEC) != 0
}

/// Returns the optional argument of `fcntl` where it is an `int`: only its lower half is defined.
fn int_of(argument: c_long) -> c_int {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    c_int::from_le_bytes([a, b, c, d])
}

fn negative(open: &DescriptorEntry, what: &str, number: off_t) -> ErrnoError {
    ErrnoError::new(libc::EINVAL, format!("{}: the {what} {number} is negative", open.path))
}

fn size(count: usize) -> CallResult<ssize_t> {
    ssize_t::try_from(count).map_err(|_| {
        ErrnoError::new(libc::EOVERFLOW, format!("{count} bytes do not fit into a ssize_t"))
    })
}

//! The calls of the system that also work on shared files, where they obey the mode. `nx.h` puts them
//! in the place of those of the system, and so does the preload library.

use libc::{c_char, c_int, c_long, c_void, iovec, off_t, size_t, ssize_t};

use crate::boundary::return_errno;
use crate::buffers::CallerBuffers;
use crate::descriptors::{self, OpenFile};
use crate::errors::{CallError, CallKind, CallResult, EPFSLNDELAY, IntoCallResult};
use crate::names::{self, NameMatch, NameRule, NameTarget};
use crate::{plain_files, process, record_locks, shared_io};

/// Whether a descriptor is that of a shared file.
#[unsafe(no_mangle)]
pub extern "C" fn pario_is_shared(fd: c_int) -> c_int {
    descriptors::is_shared(fd).into()
}

/// Why a name is not simply that of a plain file, as `PARIO_NAME_` constants say; 0 if it is.
///
/// # Safety
/// The name is null, or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_name_rule(name: *const c_char) -> c_int {
    if name.is_null() {
        return 0;
    }
    // SAFETY: it is not null, and the caller says that it ends.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    match NameRule::current().matched(&name.to_string_lossy()) {
        None => 0,
        Some(NameMatch::Number) => PARIO_NAME_NUMBER,
        Some(NameMatch::Contains) => PARIO_NAME_CONTAINS,
        Some(NameMatch::Below) => PARIO_NAME_BELOW,
    }
}

/// The name contains `###`: a plain file of this process alone.
pub const PARIO_NAME_NUMBER: c_int = 1;
/// The name contains `pfs`: a shared file.
pub const PARIO_NAME_CONTAINS: c_int = 2;
/// The name is below `PARIO_PREFIX`: a shared file.
pub const PARIO_NAME_BELOW: c_int = 3;

/// `read`.
///
/// # Safety
/// The memory has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    return_errno(|| match descriptors::find(fd)? {
        // SAFETY: as the caller says.
        Some(open) => {
            shared_io::read(&open, unsafe { CallerBuffers::single(buffer, bytes) }?).and_then(size)
        }
        // SAFETY: as the caller says.
        None => unsafe { plain_files::transfer(fd, buffer, bytes, false) }.and_then(size),
    })
}

/// `write`.
///
/// # Safety
/// The memory has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t {
    let buffer = buffer.cast_mut();
    return_errno(|| match descriptors::find(fd)? {
        // SAFETY: as the caller says.
        Some(open) => shared_io::write(&open, &unsafe { CallerBuffers::single(buffer, bytes) }?)
            .and_then(size),
        // SAFETY: as the caller says.
        None => unsafe { plain_files::transfer(fd, buffer, bytes, true) }.and_then(size),
    })
}

/// `readv`.
///
/// # Safety
/// The list is null, or that of so many pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => {
            // SAFETY: as the caller says.
            shared_io::read(&open, unsafe { CallerBuffers::vectored(pieces, count) }?)
                .and_then(size)
        }
        // SAFETY: as the caller says.
        None => unsafe { plain_files::transfer_vectored(fd, pieces, count, false) }.and_then(size),
    })
}

/// `writev`.
///
/// # Safety
/// The list is null, or that of so many pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => {
            // SAFETY: as the caller says.
            shared_io::write(&open, &unsafe { CallerBuffers::vectored(pieces, count) }?)
                .and_then(size)
        }
        // SAFETY: as the caller says.
        None => unsafe { plain_files::transfer_vectored(fd, pieces, count, true) }.and_then(size),
    })
}

/// `pread`: an explicit offset concerns no pointer, in whatever mode.
///
/// # Safety
/// The memory has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_pread(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    offset: off_t,
) -> ssize_t {
    return_errno(|| {
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: as the caller says.
            return plain_files::check_size(unsafe { libc::pread(fd, buffer, bytes, offset) })
                .and_then(size);
        };
        shared_io::check_access(&open, false)?;
        let offset = u64::try_from(offset).map_err(|_| negative(&open, "offset", offset))?;
        let file = open.file()?;
        // SAFETY: as the caller says.
        let mut to = unsafe { CallerBuffers::single(buffer, bytes) }?;
        let read = to.fill(|to| file.file().read_at(to, offset));
        read.in_call(CallKind::Transfer).and_then(size)
    })
}

/// `pwrite`: an explicit offset concerns no pointer, in whatever mode.
///
/// # Safety
/// The memory has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_pwrite(
    fd: c_int,
    buffer: *const c_void,
    bytes: size_t,
    offset: off_t,
) -> ssize_t {
    return_errno(|| {
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: as the caller says.
            return plain_files::check_size(unsafe { libc::pwrite(fd, buffer, bytes, offset) })
                .and_then(size);
        };
        shared_io::check_access(&open, true)?;
        let offset = u64::try_from(offset).map_err(|_| negative(&open, "offset", offset))?;
        // SAFETY: as the caller says.
        let from = unsafe { CallerBuffers::single(buffer.cast_mut(), bytes) }?;
        let written = open.file()?.file().write_at(&from.gather(), offset);
        written.in_call(CallKind::Transfer).and_then(|()| size(bytes))
    })
}

/// `fsync`.
#[unsafe(no_mangle)]
pub extern "C" fn pario_fsync(fd: c_int) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        // Who may only read has nothing to make durable.
        Some(open) if open.flags & libc::O_ACCMODE == libc::O_RDONLY => Ok(0),
        Some(open) => open.file()?.sync().in_call(CallKind::Transfer).map(|()| 0),
        // SAFETY: no memory is passed.
        None => plain_files::check_int(unsafe { libc::fsync(fd) }),
    })
}

/// `ftruncate`: it cuts or extends the file for all; pointers stay where they are.
#[unsafe(no_mangle)]
pub extern "C" fn pario_ftruncate(fd: c_int, len: off_t) -> c_int {
    return_errno(|| {
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: no memory is passed.
            return plain_files::check_int(unsafe { libc::ftruncate(fd, len) });
        };
        let len = u64::try_from(len).map_err(|_| negative(&open, "length", len))?;
        shared_io::check_access(&open, true)
            .map_err(|failed| CallError::new(libc::EINVAL, failed.text))?;
        open.file()?.file().set_len(len).in_call(CallKind::Other).map(|()| 0)
    })
}

/// `fstat`.
///
/// # Safety
/// The memory is null, or that of a `struct stat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_fstat(fd: c_int, to: *mut libc::stat) -> c_int {
    return_errno(|| {
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: as the caller says.
            return plain_files::check_int(unsafe { libc::fstat(fd, to) });
        };
        if to.is_null() {
            return Err(CallError::null_pointer("the memory for the status"));
        }
        let stat = stat_of(&open)?;
        // SAFETY: it is not null, and large enough, as the caller says.
        unsafe { to.write(stat) };
        Ok(0)
    })
}

/// `fcntl`. Shared files know their flags, whether they stay open in programs that are started, and
/// the locks of their records.
///
/// # Safety
/// The last argument is what the command wants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    return_errno(|| {
        let Some(open) = descriptors::find(fd)? else {
            // SAFETY: as the caller says.
            return plain_files::check_int(unsafe { libc::fcntl(fd, command, argument) });
        };
        match command {
            libc::F_GETFD => Ok(libc::FD_CLOEXEC),
            // It cannot be used by a program that is started.
            libc::F_SETFD if argument & c_long::from(libc::FD_CLOEXEC) != 0 => Ok(0),
            libc::F_GETFL => Ok(open.flags & (libc::O_ACCMODE | libc::O_APPEND | libc::O_SYNC)),
            libc::F_SETFL if argument & c_long::from(libc::O_NONBLOCK) != 0 => {
                Err(CallError::new(EPFSLNDELAY, format!("{}: calls wait", open.path)))
            }
            libc::F_SETFL => {
                let settable = c_long::from(libc::O_APPEND);
                let is_same = argument & settable == c_long::from(open.flags) & settable;
                let why = || format!("{}: O_APPEND is chosen when the file is opened", open.path);
                if is_same { Ok(0) } else { Err(CallError::new(libc::EINVAL, why())) }
            }
            libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW => {
                let address = usize::try_from(argument.cast_unsigned()).unwrap_or(0);
                let lock = std::ptr::with_exposed_provenance_mut::<libc::flock>(address);
                // SAFETY: it is null, or that of a `struct flock`, as the caller says.
                match unsafe { lock.as_mut() } {
                    Some(lock) => record_locks::fcntl_lock(&open, command, lock),
                    None => Err(CallError::null_pointer("the lock")),
                }
            }
            _ => Err(CallError::new(
                libc::EINVAL,
                format!("{}: fcntl command {command} has no meaning for a shared file", open.path),
            )),
        }
    })
}

/// `lockf`.
#[unsafe(no_mangle)]
pub extern "C" fn pario_lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => record_locks::lockf(&open, command, len),
        // SAFETY: no memory is passed.
        None => plain_files::check_int(unsafe { libc::lockf(fd, command, len) }),
    })
}

/// `unlink`: names mean what they mean to `open`.
///
/// # Safety
/// The name is null, or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_unlink(name: *const c_char) -> c_int {
    return_errno(|| {
        // SAFETY: as the caller says.
        let name = unsafe { names::from_c(name) }?;
        match names::resolve(&name, || process::size_and_rank().map(|(_, rank)| rank))? {
            NameTarget::Plain(own) => {
                // SAFETY: the name ends with a zero.
                match plain_files::check_int(unsafe { libc::unlink(own.as_ptr()) })
                    .map_err(|failed| failed.with_name(&name))
                {
                    // Files that were opened with `gopen` may have any name.
                    Err(failed) if failed.number == libc::ENOENT && process::is_connected() => {
                        remove_shared(&names::path(&name)?)
                    }
                    other => other,
                }
            }
            NameTarget::Shared(path) => remove_shared(&path),
        }
    })
}

fn remove_shared(path: &str) -> CallResult<c_int> {
    let removed = process::current()?.group.cluster().remove(path);
    removed.in_call(CallKind::Open).map(|()| 0)
}

fn stat_of(open: &OpenFile) -> CallResult<libc::stat> {
    let file = open.file()?;
    let known = file.file().metadata().in_call(CallKind::Other)?;
    // SAFETY: a `struct stat` of zeros is one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let clipped = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    stat.st_ino = process::hash_of(&known.record.id.to_string());
    stat.st_mode = libc::S_IFREG | known.record.mode;
    stat.st_nlink = 1;
    stat.st_uid = known.record.uid;
    stat.st_gid = known.record.gid;
    stat.st_size = clipped(known.len);
    stat.st_blksize = 1 << 16;
    stat.st_blocks = clipped(known.disk_bytes() / 512);
    let second = 1_000_000_000;
    let times = |ns: u64| (clipped(ns / second), clipped(ns % second));
    (stat.st_mtime, stat.st_mtime_nsec) = times(known.modified_ns);
    (stat.st_atime, stat.st_atime_nsec) = (stat.st_mtime, stat.st_mtime_nsec);
    (stat.st_ctime, stat.st_ctime_nsec) = times(known.record.changed_ns);
    Ok(stat)
}

fn negative(open: &OpenFile, what: &str, number: off_t) -> CallError {
    CallError::new(libc::EINVAL, format!("{}: the {what} {number} is negative", open.path))
}

fn size(count: usize) -> CallResult<ssize_t> {
    ssize_t::try_from(count).map_err(|_| {
        CallError::new(libc::EOVERFLOW, format!("{count} does not fit into a ssize_t"))
    })
}

//! The calls of `donio.h`: files in the memory of all processes of a job.

use std::collections::HashMap;
use std::io::SeekFrom;
use std::os::fd::IntoRawFd as _;
use std::sync::Arc;

use libc::{c_char, c_int, c_void};
use pario::cached::CachedFileSource;
use pario::{CachedFile, CachedOptions};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

use crate::boundary::return_errno;
use crate::errors::{
    CallResult, EPFSLBADF, EPFSLIOLEN, EPFSLMFILE, ErrnoContext, ErrnoError, IntoCallResult,
};
use crate::names::{self, NameTarget};
use crate::{opening, process, team};

/// The manual's O_CREAT. On Linux this number is O_TRUNC.
pub const MANUAL_O_CREAT: c_int = 512;
/// A flush writes the whole file anew and replaces the old one atomically.
pub const DO_REPLACE: c_int = 0x1000_0000;
/// Flags of `open` that have no effect here.
const IGNORED_FLAGS: c_int = libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_SYNC | libc::O_LARGEFILE;

type CachedFileRef = Arc<Mutex<CachedFile>>;

static FILES: Mutex<Option<HashMap<c_int, CachedFileRef>>> = Mutex::new(None);

/// Sets rank and size and joins the team.
#[unsafe(no_mangle)]
pub extern "C" fn do_nio(rank: c_int, size: c_int) -> c_int {
    return_errno(|| team::init(rank, size).map(|()| 0))
}

/// Opens a file in the memory of all processes, collectively.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_open(name: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| open(unsafe { names::from_c(name) }, flags, mode, None))
}

/// Opens a cached file that keeps about `memory` bytes in memory at a time, collectively.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_open_within(
    name: *const c_char,
    flags: c_int,
    mode: c_int,
    memory: i64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| open(unsafe { names::from_c(name) }, flags, mode, Some(memory)))
}

/// Reserves room for the file's final length, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn do_lsize(fd: c_int, bytes: c_int) -> c_int {
    return_errno(|| reserve(fd, bytes.into()).map(|()| bytes))
}

/// `do_lsize` with a 64-bit size.
#[unsafe(no_mangle)]
pub extern "C" fn do_lsize64(fd: c_int, bytes: i64) -> i64 {
    return_errno(|| reserve(fd, bytes).map(|()| bytes))
}

/// Moves the pointer of this process.
#[unsafe(no_mangle)]
pub extern "C" fn do_lseek(fd: c_int, offset: c_int, whence: c_int) -> c_int {
    return_errno(|| seek(fd, offset.into(), whence, c_int::MAX.into()).and_then(int))
}

/// `do_lseek` with 64-bit offsets.
#[unsafe(no_mangle)]
pub extern "C" fn do_lseek64(fd: c_int, offset: i64, whence: c_int) -> i64 {
    return_errno(|| seek(fd, offset, whence, i64::MAX))
}

/// Reads at the pointer.
///
/// # Safety
/// `buffer` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_read(fd: c_int, buffer: *mut c_void, bytes: c_int) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { read(fd, buffer, bytes.into()) }.and_then(int))
}

/// `do_read` with a 64-bit size.
///
/// # Safety
/// `buffer` is null or has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_read64(fd: c_int, buffer: *mut c_void, bytes: i64) -> i64 {
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { read(fd, buffer, bytes) })
}

/// Writes at the pointer.
///
/// # Safety
/// `buffer` is null or points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_write(fd: c_int, buffer: *const c_void, bytes: c_int) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { write(fd, buffer, bytes.into()) }.and_then(int))
}

/// `do_write` with a 64-bit size.
///
/// # Safety
/// `buffer` is null or points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_write64(fd: c_int, buffer: *const c_void, bytes: i64) -> i64 {
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { write(fd, buffer, bytes) })
}

/// Makes the writes of all processes durable, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn do_flush(fd: c_int) -> c_int {
    return_errno(|| flush(fd).map(|()| 0))
}

/// Makes the writes of all processes durable and closes the file, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn do_close(fd: c_int) -> c_int {
    return_errno(|| close(fd).map(|()| 0))
}

/// Opens a cached file, collectively. Names have the same meaning as in `open`.
pub fn open(
    name: CallResult<String>,
    flags: c_int,
    mode: c_int,
    memory: Option<i64>,
) -> CallResult<c_int> {
    let job = team::require_initialized()?;
    let prepared = name.and_then(|name| {
        let options = within(&name, options_of(&name, flags)?, memory)?;
        prepare(&name, options, flags, mode, job.rank())
    });
    let team = job.team().in_call(ErrnoContext::Open)?;
    let (source, options, placeholder) = team::check_all_ranks(&team, prepared)?;
    let file = job.cache_with(source, &options).in_call(ErrnoContext::Open)?;
    let number = placeholder.into_raw_fd();
    let file = Arc::new(Mutex::new(file));
    // An entry with this number was closed without this library.
    drop(FILES.lock().get_or_insert_default().insert(number, file));
    Ok(number)
}

type PreparedOpen = (CachedFileSource, CachedOptions, std::os::fd::OwnedFd);

fn prepare(
    name: &str,
    options: CachedOptions,
    flags: c_int,
    mode: c_int,
    rank: u32,
) -> CallResult<PreparedOpen> {
    let is_created = flags & (libc::O_CREAT | MANUAL_O_CREAT) != 0;
    let mode = u32::from_ne_bytes(mode.to_ne_bytes()) & 0o7777;
    // A placeholder: no other file gets the number, and reads and writes through it fail.
    let placeholder = rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let placeholder = placeholder.map_err(|errno| {
        ErrnoError::new(
            EPFSLMFILE,
            format!("{name}: no descriptor is left ({errno}): close files, or raise `ulimit -n`"),
        )
    })?;
    match names::resolve(name, || Ok(rank))? {
        NameTarget::Plain(path) => {
            use std::os::unix::ffi::OsStrExt as _;
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
            Ok((path.into(), options.mode(mode), placeholder))
        }
        NameTarget::Shared(path) => {
            let process = process::current()?;
            let cluster = process.cluster();
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            if is_created && rank == 0 && !above.is_empty() {
                opening::make_parents(cluster, above)?;
            }
            let options = options.mode(mode & !opening::umask());
            Ok((CachedFileSource::in_cluster(cluster, path), options, placeholder))
        }
    }
}

fn options_of(name: &str, flags: c_int) -> CallResult<CachedOptions> {
    let is = |flag: c_int| flags & flag != 0;
    let creating = libc::O_CREAT | libc::O_EXCL | MANUAL_O_CREAT;
    let known = libc::O_ACCMODE | libc::O_APPEND | creating | DO_REPLACE;
    let access = flags & libc::O_ACCMODE;
    if flags & !(known | IGNORED_FLAGS) != 0 || access == libc::O_ACCMODE {
        let text = format!("{name}: the open flags {flags:#x} are not possible for a cached file");
        return Err(ErrnoError::invalid(text));
    }
    // Together with the system's O_CREAT, 512 is the system's O_TRUNC.
    let has_system_create = is(libc::O_CREAT);
    Ok(CachedOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .create(has_system_create || is(MANUAL_O_CREAT))
        .create_new(has_system_create && is(libc::O_EXCL))
        .truncate(has_system_create && is(MANUAL_O_CREAT) && !is(libc::O_APPEND))
        .append(is(libc::O_APPEND))
        .replace(is(DO_REPLACE)))
}

/// Adds the memory limit, if there is one.
fn within(name: &str, options: CachedOptions, memory: Option<i64>) -> CallResult<CachedOptions> {
    let Some(memory) = memory else { return Ok(options) };
    match u64::try_from(memory) {
        Ok(bytes) => Ok(options.memory(bytes)),
        Err(_) => Err(ErrnoError::invalid(format!(
            "{name}: the memory limit of {memory} bytes is negative"
        ))),
    }
}

/// Returns the cached file of a descriptor.
fn find(fd: c_int) -> CallResult<CachedFileRef> {
    process::check_fork()?;
    let found = FILES.lock().as_ref().and_then(|files| files.get(&fd).cloned());
    found.ok_or_else(|| {
        ErrnoError::new(EPFSLBADF, format!("descriptor {fd} is not that of a cached file"))
    })
}

/// Returns the cached file of a descriptor, for a collective call.
fn find_for_all(fd: c_int) -> CallResult<CachedFileRef> {
    team::require_initialized()?;
    team::or_fail_round(find(fd))
}

/// Implements `do_lsize`.
pub fn reserve(fd: c_int, bytes: i64) -> CallResult<()> {
    let file = find_for_all(fd)?;
    let mut file = file.lock();
    // A negative size becomes a size that every rank refuses.
    file.reserve(u64::try_from(bytes).unwrap_or(u64::MAX)).in_call(ErrnoContext::Other)
}

/// Implements `do_lseek`. Returns the new position, and fails if it is above `largest`.
pub fn seek(fd: c_int, offset: i64, whence: c_int, largest: i64) -> CallResult<i64> {
    let file = find(fd)?;
    let mut file = file.lock();
    let to = match whence {
        libc::SEEK_SET => match u64::try_from(offset) {
            Ok(offset) => SeekFrom::Start(offset),
            Err(_) => {
                return Err(ErrnoError::invalid(format!(
                    "do_lseek to offset {offset}: a position is never negative"
                )));
            }
        },
        libc::SEEK_CUR => SeekFrom::Current(offset),
        libc::SEEK_END => SeekFrom::End(offset),
        _ => {
            let text = format!("whence {whence} is unknown: use SEEK_SET, SEEK_CUR or SEEK_END");
            return Err(ErrnoError::invalid(text));
        }
    };
    let before = file.position();
    let position =
        i64::try_from(file.move_to(to).in_call(ErrnoContext::Other)?).unwrap_or(i64::MAX);
    if position > largest {
        file.move_to(SeekFrom::Start(before)).in_call(ErrnoContext::Other)?;
        let text = format!("position {position} does not fit into an int: use do_lseek64");
        return Err(ErrnoError::new(libc::EOVERFLOW, text));
    }
    Ok(position)
}

/// Implements `do_read`.
///
/// # Safety
/// `buffer` is null or has room for `bytes` bytes.
pub unsafe fn read(fd: c_int, buffer: *mut c_void, bytes: i64) -> CallResult<i64> {
    let file = find(fd)?;
    let len = checked_len(buffer.is_null(), bytes)?;
    if len > 0 {
        // SAFETY: it is not null, and the caller guarantees room for `len` bytes.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) };
        file.lock().read_all(buffer).in_call(ErrnoContext::Other)?;
    }
    Ok(bytes)
}

/// Implements `do_write`.
///
/// # Safety
/// `buffer` is null or points to `bytes` bytes.
pub unsafe fn write(fd: c_int, buffer: *const c_void, bytes: i64) -> CallResult<i64> {
    let file = find(fd)?;
    let len = checked_len(buffer.is_null(), bytes)?;
    let buffer = match len {
        0 => &[],
        // SAFETY: it is not null, and the caller guarantees `len` bytes.
        _ => unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), len) },
    };
    file.lock().write_whole(buffer).in_call(ErrnoContext::Other)?;
    Ok(bytes)
}

fn checked_len(is_null: bool, bytes: i64) -> CallResult<usize> {
    let largest = isize::MAX.cast_unsigned();
    let len = usize::try_from(bytes).ok().filter(|len| *len <= largest);
    let len = len.ok_or_else(|| {
        ErrnoError::new(
            EPFSLIOLEN,
            format!("{bytes} bytes in one call: the count must not be negative"),
        )
    })?;
    if is_null && len > 0 {
        return Err(ErrnoError::null_pointer("the buffer"));
    }
    Ok(len)
}

/// Implements `do_flush`.
pub fn flush(fd: c_int) -> CallResult<()> {
    let file = find_for_all(fd)?;
    let flushed = file.lock().flush();
    flushed.in_call(ErrnoContext::Other)
}

/// Implements `do_close`. Closes the descriptor even if closing the file fails.
pub fn close(fd: c_int) -> CallResult<()> {
    let file = find_for_all(fd)?;
    let taken = FILES.lock().as_mut().and_then(|files| files.remove(&fd));
    drop(taken);
    match Arc::try_unwrap(file) {
        Ok(file) => {
            let closed = file.into_inner().close();
            // SAFETY: this module created the descriptor and gave it only to the caller, who is
            // closing it.
            unsafe { rustix::io::close(fd) };
            closed.in_call(ErrnoContext::Other)
        }
        Err(file) => {
            FILES.lock().get_or_insert_default().insert(fd, file);
            team::or_fail_round(Err(ErrnoError::new(
                libc::EBUSY,
                format!("descriptor {fd}: another thread is using the file"),
            )))
        }
    }
}

fn int(value: i64) -> CallResult<c_int> {
    c_int::try_from(value).map_err(|_| {
        ErrnoError::new(
            libc::EOVERFLOW,
            format!("{value} does not fit into an int: use the call that ends with 64"),
        )
    })
}

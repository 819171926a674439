//! The calls of `donio.h`: files in the memory of all processes.

use std::collections::HashMap;
use std::io::SeekFrom;
use std::os::fd::IntoRawFd as _;
use std::sync::Arc;

use libc::{c_char, c_int, c_void};
use pario::cached::Place;
use pario::{CachedFile, CachedOptions};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

use crate::boundary::return_errno;
use crate::errors::{
    CallError, CallKind, CallResult, EPFSLBADF, EPFSLIOLEN, EPFSLMFILE, IntoCallResult,
};
use crate::names::{self, NameTarget};
use crate::{opening, process, team};

/// What the manual calls O_CREAT. On this system the number is that of O_TRUNC.
pub const MANUAL_O_CREAT: c_int = 512;
/// The file is replaced as a whole when it is flushed.
pub const DO_REPLACE: c_int = 0x1000_0000;
/// Flags of the system that change nothing here.
const IGNORED_FLAGS: c_int = libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_SYNC | libc::O_LARGEFILE;

type CachedFileRef = Arc<Mutex<CachedFile>>;

static FILES: Mutex<Option<HashMap<c_int, CachedFileRef>>> = Mutex::new(None);

/// Says which process of how many this is, and meets the others.
#[unsafe(no_mangle)]
pub extern "C" fn do_nio(rank: c_int, size: c_int) -> c_int {
    return_errno(|| team::init(rank, size).map(|()| 0))
}

/// Opens a file in the memory of all processes, together with them.
///
/// # Safety
/// The name is null, or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_open(name: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: as the caller says.
    return_errno(|| open(unsafe { names::from_c(name) }, flags, mode, None))
}

/// The same for a file of which only so many bytes are in memory at a time.
///
/// # Safety
/// The name is null, or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_open_within(
    name: *const c_char,
    flags: c_int,
    mode: c_int,
    memory: i64,
) -> c_int {
    // SAFETY: as the caller says.
    return_errno(|| open(unsafe { names::from_c(name) }, flags, mode, Some(memory)))
}

/// Says how long the file can become, together with all.
#[unsafe(no_mangle)]
pub extern "C" fn do_lsize(fd: c_int, bytes: c_int) -> c_int {
    return_errno(|| reserve(fd, bytes.into()).map(|()| bytes))
}

/// The same for large files.
#[unsafe(no_mangle)]
pub extern "C" fn do_lsize64(fd: c_int, bytes: i64) -> i64 {
    return_errno(|| reserve(fd, bytes).map(|()| bytes))
}

/// Moves the pointer of this process.
#[unsafe(no_mangle)]
pub extern "C" fn do_lseek(fd: c_int, offset: c_int, whence: c_int) -> c_int {
    return_errno(|| seek(fd, offset.into(), whence, c_int::MAX.into()).and_then(int))
}

/// The same for large files.
#[unsafe(no_mangle)]
pub extern "C" fn do_lseek64(fd: c_int, offset: i64, whence: c_int) -> i64 {
    return_errno(|| seek(fd, offset, whence, i64::MAX))
}

/// Reads where the pointer is.
///
/// # Safety
/// The buffer is null, or has room for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_read(fd: c_int, buffer: *mut c_void, bytes: c_int) -> c_int {
    // SAFETY: as the caller says.
    return_errno(|| unsafe { read(fd, buffer, bytes.into()) }.and_then(int))
}

/// The same for large buffers.
///
/// # Safety
/// The buffer is null, or has room for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_read64(fd: c_int, buffer: *mut c_void, bytes: i64) -> i64 {
    // SAFETY: as the caller says.
    return_errno(|| unsafe { read(fd, buffer, bytes) })
}

/// Writes where the pointer is.
///
/// # Safety
/// The buffer is null, or has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_write(fd: c_int, buffer: *const c_void, bytes: c_int) -> c_int {
    // SAFETY: as the caller says.
    return_errno(|| unsafe { write(fd, buffer, bytes.into()) }.and_then(int))
}

/// The same for large buffers.
///
/// # Safety
/// The buffer is null, or has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn do_write64(fd: c_int, buffer: *const c_void, bytes: i64) -> i64 {
    // SAFETY: as the caller says.
    return_errno(|| unsafe { write(fd, buffer, bytes) })
}

/// Makes durable what all have written, together with all.
#[unsafe(no_mangle)]
pub extern "C" fn do_flush(fd: c_int) -> c_int {
    return_errno(|| flush(fd).map(|()| 0))
}

/// Makes durable what all have written and closes the file, together with all.
#[unsafe(no_mangle)]
pub extern "C" fn do_close(fd: c_int) -> c_int {
    return_errno(|| close(fd).map(|()| 0))
}

/// Opens a file; names mean what they mean to `open`.
pub fn open(
    name: CallResult<String>,
    flags: c_int,
    mode: c_int,
    memory: Option<i64>,
) -> CallResult<c_int> {
    let team = team::require_initialized()?;
    let prepared = name.and_then(|name| {
        let options = within(&name, options_of(&name, flags)?, memory)?;
        prepare(&name, options, flags, mode, team.rank())
    });
    let (place, options, held) = team::check_all_ranks(&team, prepared)?;
    let file = options.open(&team, place).in_call(CallKind::Open)?;
    let number = held.into_raw_fd();
    let file = Arc::new(Mutex::new(file));
    // A number that is in use here was closed behind our back.
    drop(FILES.lock().get_or_insert_default().insert(number, file));
    Ok(number)
}

type PreparedOpen = (Place, CachedOptions, std::os::fd::OwnedFd);

fn prepare(
    name: &str,
    options: CachedOptions,
    flags: c_int,
    mode: c_int,
    rank: u32,
) -> CallResult<PreparedOpen> {
    let is_created = flags & (libc::O_CREAT | MANUAL_O_CREAT) != 0;
    let mode = u32::from_ne_bytes(mode.to_ne_bytes()) & 0o7777;
    // The number is nobody else's, and nothing can be read or written through it directly.
    let held = rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let held = held.map_err(|errno| {
        CallError::new(EPFSLMFILE, format!("{name}: there are no descriptors left: {errno}"))
    })?;
    match names::resolve(name, || Ok(rank))? {
        NameTarget::Plain(path) => {
            use std::os::unix::ffi::OsStrExt as _;
            let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
            Ok((path.into(), options.mode(mode), held))
        }
        NameTarget::Shared(path) => {
            let process = process::current()?;
            let cluster = process.group.cluster();
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            if is_created && rank == 0 && !above.is_empty() {
                opening::make_parents(cluster, above)?;
            }
            let options = options.mode(mode & !opening::umask());
            Ok((Place::of_cluster(cluster, path), options, held))
        }
    }
}

fn options_of(name: &str, flags: c_int) -> CallResult<CachedOptions> {
    let is = |flag: c_int| flags & flag != 0;
    let creating = libc::O_CREAT | libc::O_EXCL | MANUAL_O_CREAT;
    let known = libc::O_ACCMODE | libc::O_APPEND | creating | DO_REPLACE;
    let access = flags & libc::O_ACCMODE;
    if flags & !(known | IGNORED_FLAGS) != 0 || access == libc::O_ACCMODE {
        let text = format!("{name}: the flags {flags:#x} mean nothing to a cached file");
        return Err(CallError::invalid(text));
    }
    // Next to the O_CREAT of the system, the number means what it means to the system.
    let is_systems = is(libc::O_CREAT);
    Ok(CachedOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .create(is_systems || is(MANUAL_O_CREAT))
        .create_new(is_systems && is(libc::O_EXCL))
        .truncate(is_systems && is(MANUAL_O_CREAT) && !is(libc::O_APPEND))
        .append(is(libc::O_APPEND))
        .replace(is(DO_REPLACE)))
}

/// Options with a limit of memory, if there is one.
fn within(name: &str, options: CachedOptions, memory: Option<i64>) -> CallResult<CachedOptions> {
    let Some(memory) = memory else { return Ok(options) };
    match u64::try_from(memory) {
        Ok(bytes) => Ok(options.memory(bytes)),
        Err(_) => Err(CallError::invalid(format!("{name}: {memory} bytes of memory"))),
    }
}

/// The file of a descriptor.
fn find(fd: c_int) -> CallResult<CachedFileRef> {
    process::check_fork()?;
    let found = FILES.lock().as_ref().and_then(|files| files.get(&fd).cloned());
    found
        .ok_or_else(|| CallError::new(EPFSLBADF, format!("{fd} is no descriptor of a cached file")))
}

/// What `do_lsize` does.
pub fn reserve(fd: c_int, bytes: i64) -> CallResult<()> {
    let file = find(fd)?;
    let mut file = file.lock();
    // A negative size is refused for all, as one that is too large.
    file.reserve(u64::try_from(bytes).unwrap_or(u64::MAX)).in_call(CallKind::Other)
}

/// What `do_lseek` does: the new place, which is no larger than the largest.
pub fn seek(fd: c_int, offset: i64, whence: c_int, largest: i64) -> CallResult<i64> {
    let file = find(fd)?;
    let mut file = file.lock();
    let to = match whence {
        libc::SEEK_SET => match u64::try_from(offset) {
            Ok(offset) => SeekFrom::Start(offset),
            Err(_) => return Err(CallError::invalid(format!("{offset} is before the beginning"))),
        },
        libc::SEEK_CUR => SeekFrom::Current(offset),
        libc::SEEK_END => SeekFrom::End(offset),
        _ => {
            let text = format!("{whence} is none of SEEK_SET, SEEK_CUR and SEEK_END");
            return Err(CallError::invalid(text));
        }
    };
    let before = file.position();
    let place = i64::try_from(file.move_to(to).in_call(CallKind::Other)?).unwrap_or(i64::MAX);
    if place > largest {
        file.move_to(SeekFrom::Start(before)).in_call(CallKind::Other)?;
        let text = format!("byte {place} is beyond what this call can tell: use do_lseek64");
        return Err(CallError::new(libc::EOVERFLOW, text));
    }
    Ok(place)
}

/// What `do_read` does.
///
/// # Safety
/// The buffer is null, or has room for so many bytes.
pub unsafe fn read(fd: c_int, buffer: *mut c_void, bytes: i64) -> CallResult<i64> {
    let file = find(fd)?;
    let len = checked_len(buffer.is_null(), bytes)?;
    if len > 0 {
        // SAFETY: it is not null, and the caller says that there is room for so many.
        let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) };
        file.lock().read_all(buffer).in_call(CallKind::Other)?;
    }
    Ok(bytes)
}

/// What `do_write` does.
///
/// # Safety
/// The buffer is null, or has so many bytes.
pub unsafe fn write(fd: c_int, buffer: *const c_void, bytes: i64) -> CallResult<i64> {
    let file = find(fd)?;
    let len = checked_len(buffer.is_null(), bytes)?;
    let buffer = match len {
        0 => &[],
        // SAFETY: it is not null, and the caller says that so many are there.
        _ => unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), len) },
    };
    file.lock().write_whole(buffer).in_call(CallKind::Other)?;
    Ok(bytes)
}

fn checked_len(is_null: bool, bytes: i64) -> CallResult<usize> {
    let largest = isize::MAX.cast_unsigned();
    let len = usize::try_from(bytes).ok().filter(|len| *len <= largest);
    let len = len.ok_or_else(|| CallError::new(EPFSLIOLEN, format!("{bytes} bytes")))?;
    if is_null && len > 0 {
        return Err(CallError::null_pointer("the buffer"));
    }
    Ok(len)
}

/// What `do_flush` does.
pub fn flush(fd: c_int) -> CallResult<()> {
    let file = find(fd)?;
    let flushed = file.lock().flush();
    flushed.in_call(CallKind::Other)
}

/// What `do_close` does. The descriptor is closed, whatever it says.
pub fn close(fd: c_int) -> CallResult<()> {
    let file = find(fd)?;
    let taken = FILES.lock().as_mut().and_then(|files| files.remove(&fd));
    drop(taken);
    match Arc::try_unwrap(file) {
        Ok(file) => {
            let closed = file.into_inner().close();
            // SAFETY: the number is that of a descriptor which was made here and given to nobody but
            // the caller, who is closing it.
            unsafe { rustix::io::close(fd) };
            closed.in_call(CallKind::Other)
        }
        Err(file) => {
            FILES.lock().get_or_insert_default().insert(fd, file);
            Err(CallError::new(libc::EBUSY, format!("{fd}: another thread uses it")))
        }
    }
}

fn int(value: i64) -> CallResult<c_int> {
    c_int::try_from(value).map_err(|_| {
        CallError::new(
            libc::EOVERFLOW,
            format!("{value} does not fit into an int: use the form with 64"),
        )
    })
}

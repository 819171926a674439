//! How files are opened.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

use libc::{c_char, c_int, mode_t};
use pario::{Cluster, Error, Failure, FilePath, Group, Mode, SharedFile};

use crate::descriptors::{self, FileHandle, OpenFile};
use crate::errors::{CallError, CallKind, CallResult, EPFSLNDELAY, IntoCallResult};
use crate::names::{self, NameTarget};
use crate::process;

/// What can be wanted of a shared file beyond reading and writing; other flags mean nothing to it.
const REFUSED_FLAGS: c_int = libc::O_DIRECTORY | libc::O_PATH;

/// What `open` does: a shared file for this process, until a mode is set; or a plain file.
///
/// # Safety
/// The name is null, or ends with a zero.
pub unsafe fn open(name: *const c_char, flags: c_int, mode: mode_t) -> CallResult<c_int> {
    // SAFETY: as the caller says.
    let name = unsafe { names::from_c(name) }?;
    match names::resolve(&name, || process::size_and_rank().map(|(_, rank)| rank))? {
        NameTarget::Plain(own) => {
            // SAFETY: the name ends with a zero.
            let fd = unsafe { libc::open(own.as_ptr(), flags, mode) };
            if fd < 0 {
                Err(CallError::last_os_error().with_name(&own.to_string_lossy()))
            } else {
                Ok(fd)
            }
        }
        NameTarget::Shared(path) => {
            let process = process::current()?;
            open_shared(path, flags, mode, process.group.clone(), Mode::Unix, true)
        }
    }
}

/// What `gopen` does: a shared file whatever its name, opened together by all.
///
/// # Safety
/// The name is null, or ends with a zero.
pub unsafe fn open_collective(
    name: *const c_char,
    flags: c_int,
    io_mode: c_int,
    mode: mode_t,
) -> CallResult<c_int> {
    // SAFETY: as the caller says.
    let path = names::path(&unsafe { names::from_c(name) }?)?;
    let io_mode = mode_of(io_mode)?;
    open_shared(path, flags, mode, process::current()?.group.clone(), io_mode, false)
}

/// What `_pfslib_open` does: a shared file of so many processes, of which this is one, opened
/// together or not.
///
/// # Safety
/// The name is null, or ends with a zero.
pub unsafe fn open_subgroup(
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
    io_mode: c_int,
    size: c_int,
    rank: c_int,
    is_collective: bool,
) -> CallResult<c_int> {
    // SAFETY: as the caller says.
    let path = names::path(&unsafe { names::from_c(name) }?)?;
    let io_mode = if is_collective { mode_of(io_mode)? } else { Mode::Unix };
    let (Ok(size_known), Ok(rank_known)) = (u32::try_from(size), u32::try_from(rank)) else {
        return Err(CallError::invalid(format!("process {rank} of {size}: there is no such one")));
    };
    let group = process::current()?.subgroup(&path, size_known, rank_known)?;
    open_shared(path, flags, mode, group, io_mode, !is_collective)
}

/// The mode of a number.
pub fn mode_of(number: c_int) -> CallResult<Mode> {
    let mode = u8::try_from(number).ok().and_then(Mode::from_number);
    mode.ok_or_else(|| {
        CallError::invalid(format!("{number} is no mode: M_UNIX to M_ASYNC are 0 to 5"))
    })
}

/// Opens a file that is there, with the access that a descriptor has, together with those who share
/// it.
pub fn reopen_collective(open: &OpenFile) -> CallResult<SharedFile> {
    let flags = open.flags & (libc::O_ACCMODE | libc::O_APPEND);
    open_in_cluster(&open.path, flags, 0, &open.group, Mode::Unix).in_call(CallKind::Open)
}

fn open_shared(
    path: String,
    flags: c_int,
    mode: mode_t,
    group: Group,
    io_mode: Mode,
    is_single: bool,
) -> CallResult<c_int> {
    check_flags(&path, flags, is_single)?;
    let who = if is_single { process::current()?.alone.clone() } else { group.clone() };
    // Who is alone looks for the end of the file itself, since nobody tells of the others.
    let wanted = if is_single { flags & !libc::O_APPEND } else { flags };
    let mode = mode & !umask();
    let file = match flags & libc::O_TMPFILE == libc::O_TMPFILE {
        true => open_unnamed(&path, flags, mode, &who, io_mode),
        false => open_in_cluster(&path, wanted, mode, &who, io_mode),
    };
    let file = Arc::new(file.in_call(CallKind::Open)?);
    descriptors::add(OpenFile::new(path, flags, group, FileHandle { file, is_single }))
}

fn check_flags(path: &str, flags: c_int, is_single: bool) -> CallResult<()> {
    if flags & libc::O_NONBLOCK != 0 {
        return Err(CallError::new(
            EPFSLNDELAY,
            format!("{path}: calls on shared files wait; use iread and iwrite"),
        ));
    }
    let has_access = flags & libc::O_ACCMODE != libc::O_ACCMODE;
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        if !has_access || flags & libc::O_ACCMODE == libc::O_RDONLY {
            let why = "a file without a name is opened for writing: O_WRONLY or O_RDWR";
            return Err(CallError::new(libc::EINVAL, format!("{path}: {why}")));
        }
        if !is_single {
            let why = "processes that open a file together need its name: O_TMPFILE is for open";
            return Err(CallError::invalid(format!("{path}: {why}")));
        }
        return Ok(());
    }
    if !has_access || flags & REFUSED_FLAGS != 0 {
        return Err(CallError::invalid(format!(
            "{path}: these flags mean nothing to a shared file"
        )));
    }
    Ok(())
}

fn open_in_cluster(
    path: &str,
    flags: c_int,
    mode: mode_t,
    group: &Group,
    io_mode: Mode,
) -> Result<SharedFile, Error> {
    let access = flags & libc::O_ACCMODE;
    let is = |flag: c_int| flags & flag != 0;
    let is_new = is(libc::O_CREAT) && is(libc::O_EXCL);
    group
        .options(io_mode)
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .create(is(libc::O_CREAT))
        .create_new(is_new)
        .create_parents(is(libc::O_CREAT))
        .truncate(is(libc::O_TRUNC))
        .append(is(libc::O_APPEND))
        .permissions(mode & 0o7777)
        .open(path)
}

/// A new file in a directory that is there, which has no name when this returns: what O_TMPFILE asks
/// for. It is gone when the descriptor is closed.
fn open_unnamed(
    directory: &str,
    flags: c_int,
    mode: mode_t,
    group: &Group,
    io_mode: Mode,
) -> Result<SharedFile, Error> {
    let cluster = group.cluster();
    if !cluster.metadata(directory)?.is_directory() {
        return Err(Failure::NotADirectory { path: FilePath::new(directory)? }.into());
    }
    // The keys of a hasher are random.
    let number = RandomState::new().build_hasher().finish();
    let path = format!("{}/.unnamed-{number:016x}", directory.trim_end_matches('/'));
    let access = flags & (libc::O_ACCMODE | libc::O_SYNC);
    let options = libc::O_CREAT | libc::O_EXCL;
    let file = open_in_cluster(&path, access | options, mode, group, io_mode)?;
    cluster.remove(&path)?;
    Ok(file)
}

/// Makes the directories above a file that is created, if they are missing.
pub fn make_parents(cluster: &Cluster, directory: &str) -> CallResult<()> {
    match cluster.metadata(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            cluster.make_directories(directory).in_call(CallKind::Open)
        }
        // What else is wrong with it, the creation says.
        _ => Ok(()),
    }
}

/// What new files of this process are not permitted.
pub fn umask() -> mode_t {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let told = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    told.and_then(|mask| mode_t::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

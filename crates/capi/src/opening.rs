//! Opening files: alone, collectively, or by some processes of a job.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

use libc::{c_char, c_int, mode_t};
use pario::{
    Cluster, Error, Failure, FileKind, FilePath, JobFiles, Mode, SharedFile, SharedOpenOptions,
};

use crate::descriptors::{self, DescriptorEntry, FileHandle};
use crate::errors::{CallResult, EPFSLNDELAY, ErrnoContext, ErrnoError, IntoCallResult};
use crate::inheritance::{InheritableFile, OpenKind};
use crate::names::{self, NameTarget};
use crate::{process, striping};

/// Implements `open` and `openat`: a plain file, or a shared file of this process until all set a
/// mode. A shared directory is opened for calls that take its descriptor.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
pub unsafe fn open(
    directory: c_int,
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> CallResult<c_int> {
    // SAFETY: the caller guarantees it.
    match unsafe { names::resolve_at(directory, name) }? {
        NameTarget::Plain(own) => {
            // SAFETY: a `CString` is NUL-terminated.
            let fd = unsafe { libc::openat(directory, own.as_ptr(), flags, mode) };
            if fd < 0 {
                Err(ErrnoError::last_os_error().with_name(&own.to_string_lossy()))
            } else {
                Ok(fd)
            }
        }
        NameTarget::Shared(path) if is_directory_open(flags) => open_directory(path, flags),
        NameTarget::Shared(path) => {
            let process = process::current()?;
            let opened =
                open_shared(path.clone(), flags, mode, process.files.clone(), Mode::Unix, true);
            match opened {
                Err(failed) if failed.number == libc::EISDIR && is_read_only(flags) => {
                    open_directory(path, flags)
                }
                opened => opened,
            }
        }
    }
}

/// Returns whether the flags ask for a directory. O_TMPFILE contains O_DIRECTORY.
fn is_directory_open(flags: c_int) -> bool {
    flags & libc::O_DIRECTORY != 0 && flags & libc::O_TMPFILE != libc::O_TMPFILE
}

/// Returns whether the flags ask for reading only, of a file that exists.
fn is_read_only(flags: c_int) -> bool {
    flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) == libc::O_RDONLY
}

/// Opens a shared directory. Calls by name and `fdopendir` take its descriptor; it cannot be read.
pub fn open_directory(path: String, flags: c_int) -> CallResult<c_int> {
    let process = process::current()?;
    let record = process.cluster().record(&path).in_call(ErrnoContext::Open)?;
    if record.kind != FileKind::Directory {
        return Err(ErrnoError::new(libc::ENOTDIR, format!("{path}: it is not a directory")));
    }
    if !is_read_only(flags) {
        let why = "a directory can only be opened for reading";
        return Err(ErrnoError::new(libc::EISDIR, format!("{path}: {why}")));
    }
    let opened_with = flags;
    let flags = flags & (libc::O_ACCMODE | libc::O_DIRECTORY);
    let file = InheritableFile { kind: OpenKind::Directory, flags, path: path.clone() };
    let placeholder = descriptors::reserve(&file, opened_with)?;
    let entry = DescriptorEntry::directory(path, flags, process.files.clone());
    Ok(descriptors::add(placeholder, entry))
}

/// Implements `gopen`: a collective open of a shared file, under any name.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
pub unsafe fn open_collective(
    name: *const c_char,
    flags: c_int,
    io_mode: c_int,
    mode: mode_t,
) -> CallResult<c_int> {
    let files = process::current()?.files.clone();
    // SAFETY: the caller guarantees it.
    let name = unsafe { names::from_c(name) };
    let (path, io_mode) = or_fail_open(&files, checked_arguments(name, flags, io_mode))?;
    open_shared(path, flags, mode, files, io_mode, false)
}

/// Checks the arguments of a collective open.
fn checked_arguments(
    name: CallResult<String>,
    flags: c_int,
    io_mode: c_int,
) -> CallResult<(String, Mode)> {
    let path = names::path(&name?)?;
    let io_mode = mode_of(io_mode)?;
    check_flags(&path, flags, false)?;
    Ok((path, io_mode))
}

/// Returns the arguments of a collective open. If this process cannot make it, the open fails on all
/// processes, with its rank and the reason.
fn or_fail_open<T>(files: &JobFiles, prepared: CallResult<T>) -> CallResult<T> {
    if let Err(failed) = &prepared {
        drop(files.fail_call(&failed.cause()));
    }
    prepared
}

/// Implements `_pfslib_open`: a shared file of `size` processes, of which this is `rank`;
/// collective on request.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
pub unsafe fn open_subgroup(
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
    io_mode: c_int,
    size: c_int,
    rank: c_int,
    is_collective: bool,
) -> CallResult<c_int> {
    // SAFETY: the caller guarantees it.
    let name = unsafe { names::from_c(name) };
    let (Ok(size_known), Ok(rank_known)) = (u32::try_from(size), u32::try_from(rank)) else {
        return Err(ErrnoError::invalid(format!(
            "process {rank} of {size}: neither number may be negative"
        )));
    };
    // Without a name, the processes that share the file cannot be told.
    let path = names::path(&name?)?;
    let files = process::current()?.subgroup_files(&path, size_known, rank_known)?;
    if !is_collective {
        return open_shared(path, flags, mode, files, Mode::Unix, true);
    }
    let checked = checked_arguments(Ok(path.clone()), flags, io_mode);
    let (_, io_mode) = or_fail_open(&files, checked)?;
    open_shared(path, flags, mode, files, io_mode, false)
}

/// Returns the mode with a number.
pub fn mode_of(number: c_int) -> CallResult<Mode> {
    let mode = u8::try_from(number).ok().and_then(Mode::from_number);
    mode.ok_or_else(|| {
        ErrnoError::invalid(format!("I/O mode {number} is unknown: M_UNIX to M_ASYNC are 0 to 5"))
    })
}

/// Opens the file of a descriptor once more, collectively, with the descriptor's access.
pub fn reopen_collective(open: &DescriptorEntry) -> CallResult<SharedFile> {
    let flags = open.flags & (libc::O_ACCMODE | libc::O_APPEND);
    let options = options_of(flags, 0, &open.files, Mode::Unix);
    options.and_then(|options| options.open(&open.path)).in_call(ErrnoContext::Open)
}

/// Opens the file of a descriptor once more, with the descriptor's access, by the processes and in
/// the mode of a handle.
pub fn reopen(open: &DescriptorEntry, like: &FileHandle) -> Result<SharedFile, Error> {
    let flags = open.flags & (libc::O_ACCMODE | libc::O_APPEND);
    let options = options_of(flags, 0, like.file.files(), like.file.mode())?;
    match like.is_single {
        true => options.open_first_of(&open.files, &open.path),
        false => options.open(&open.path),
    }
}

fn open_shared(
    path: String,
    flags: c_int,
    mode: mode_t,
    files: JobFiles,
    io_mode: Mode,
    is_single: bool,
) -> CallResult<c_int> {
    check_flags(&path, flags, is_single)?;
    let placeholder = descriptors::reserve(&inheritable(&path, flags, is_single), flags);
    let placeholder = if is_single { placeholder? } else { or_fail_open(&files, placeholder)? };
    let openers = if is_single { process::current()?.single_files.clone() } else { files.clone() };
    let mode = mode & !umask();
    // The open of this process alone may connect to the home node of the file, which starts threads.
    // It waits for another process for two seconds at most.
    let open_alone =
        |options: SharedOpenOptions<'_>| process::with_signals_blocked(|| options.open(&path));
    let open = || {
        let options = options_of(flags, mode, &openers, io_mode)?;
        match is_single {
            true if flags & libc::O_TMPFILE == libc::O_TMPFILE => {
                process::with_signals_blocked(|| {
                    open_unnamed(&path, flags, mode, &openers, io_mode)
                })
            }
            // The first open of the job counts.
            true => options.open_first_of_by(&files, &path, open_alone),
            false => options.open(&path),
        }
    };
    let file = open();
    let file = file.in_call(ErrnoContext::Open);
    let file = Arc::new(file.map_err(|failed| names::with_put_hint(failed, &path))?);
    let entry = DescriptorEntry::new(path, flags, files, FileHandle { file, is_single });
    Ok(descriptors::add(placeholder, entry))
}

/// Returns what the placeholder of a file says.
fn inheritable(path: &str, flags: c_int, is_single: bool) -> InheritableFile {
    let kind = match is_single {
        _ if flags & libc::O_TMPFILE == libc::O_TMPFILE => OpenKind::Unnamed,
        true => OpenKind::Single,
        false => OpenKind::Collective,
    };
    let flags = flags & (libc::O_ACCMODE | libc::O_APPEND | libc::O_SYNC);
    InheritableFile { kind, flags, path: path.to_owned() }
}

/// Opens the file of an inherited descriptor once more, by this process alone. The file exists, and
/// the process from which the descriptor came has opened it first.
pub fn open_inherited(file: &InheritableFile) -> CallResult<DescriptorEntry> {
    let refused = |why: &str| Err(ErrnoError::new(libc::EBADF, format!("{}: {why}", file.path)));
    let process = process::current()?;
    let (path, flags) = (file.path.clone(), file.flags);
    match file.kind {
        OpenKind::Single => {}
        OpenKind::Directory => {
            return Ok(DescriptorEntry::directory(path, flags, process.files.clone()));
        }
        OpenKind::Collective => {
            return refused(
                "the processes of a job have opened it together: other processes cannot use their \
                 descriptors",
            );
        }
        OpenKind::Unnamed => {
            return refused("it has no name: other processes cannot use it");
        }
    }
    let opened = process::with_signals_blocked(|| {
        options_of(flags, 0, &process.single_files, Mode::Unix)?.open(&path)
    });
    let file = Arc::new(opened.in_call(ErrnoContext::Open)?);
    let handle = FileHandle { file, is_single: true };
    Ok(DescriptorEntry::new(path, flags, process.files.clone(), handle))
}

fn check_flags(path: &str, flags: c_int, is_single: bool) -> CallResult<()> {
    if flags & libc::O_NONBLOCK != 0 {
        return Err(ErrnoError::new(
            EPFSLNDELAY,
            format!(
                "{path}: calls on shared files block: use iread and iwrite instead of O_NDELAY"
            ),
        ));
    }
    let has_access = flags & libc::O_ACCMODE != libc::O_ACCMODE;
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        if !has_access || flags & libc::O_ACCMODE == libc::O_RDONLY {
            let why = "O_TMPFILE needs O_WRONLY or O_RDWR";
            return Err(ErrnoError::new(libc::EINVAL, format!("{path}: {why}")));
        }
        if !is_single {
            let why = "a collective open needs a file name: use O_TMPFILE with open only";
            return Err(ErrnoError::invalid(format!("{path}: {why}")));
        }
        return Ok(());
    }
    if !has_access || flags & (libc::O_DIRECTORY | libc::O_PATH) != 0 {
        return Err(ErrnoError::invalid(format!(
            "{path}: the open flags {flags:#x} are not possible for a shared file"
        )));
    }
    if flags & libc::O_CREAT != 0 {
        striping::check_default(process::current()?.cluster()).in_call(ErrnoContext::Open)?;
    }
    Ok(())
}

/// Returns the options that the flags of `open` mean.
fn options_of(
    flags: c_int,
    mode: mode_t,
    files: &JobFiles,
    io_mode: Mode,
) -> Result<SharedOpenOptions<'_>, Error> {
    let access = flags & libc::O_ACCMODE;
    let is = |flag: c_int| flags & flag != 0;
    let is_new = is(libc::O_CREAT) && is(libc::O_EXCL);
    let options = files.options(io_mode);
    let options =
        if is(libc::O_CREAT) { striping::with_default(options, files.cluster())? } else { options };
    Ok(options
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .create(is(libc::O_CREAT))
        .create_new(is_new)
        .create_parents(is(libc::O_CREAT))
        .truncate(is(libc::O_TRUNC))
        .append(is(libc::O_APPEND))
        .permissions(mode & 0o7777))
}

/// Creates a file in a directory and removes its name: implements O_TMPFILE. The file is gone when
/// the descriptor is closed.
fn open_unnamed(
    directory: &str,
    flags: c_int,
    mode: mode_t,
    files: &JobFiles,
    io_mode: Mode,
) -> Result<SharedFile, Error> {
    let cluster = files.cluster();
    if !cluster.metadata(directory)?.is_directory() {
        return Err(Failure::NotADirectory { path: FilePath::new(directory)? }.into());
    }
    // The keys of a `RandomState` are random.
    let number = RandomState::new().build_hasher().finish();
    let path = format!("{}/.unnamed-{number:016x}", directory.trim_end_matches('/'));
    let access = flags & (libc::O_ACCMODE | libc::O_APPEND | libc::O_SYNC);
    let options = libc::O_CREAT | libc::O_EXCL;
    let file = options_of(access | options, mode, files, io_mode)?.open(&path)?;
    cluster.remove(&path)?;
    Ok(file)
}

/// Creates the missing parent directories of a new file.
pub fn make_parents(cluster: &Cluster, directory: &str) -> CallResult<()> {
    match cluster.metadata(directory) {
        Err(error) if error.kind() == pario::ErrorKind::NotFound => {
            cluster.make_directories(directory).in_call(ErrnoContext::Open)
        }
        // Creating the file reports any other problem with the directory.
        _ => Ok(()),
    }
}

/// Returns the file mode creation mask, without changing it.
pub fn umask() -> mode_t {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| mode_t::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

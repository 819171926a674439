//! System calls by name that know shared files: they ask whether a file exists, create and remove
//! directories, rename and cut. `nx.h` and the preload library put them in the place of the system's.
//!
//! The call with a directory descriptor (`…at`) does the work; the others call it with `AT_FDCWD`.

use std::ffi::CStr;
use std::sync::Arc;

use libc::{c_char, c_int, c_uint, mode_t, off_t};
use pario::{Cluster, Error, Failure, FileKind, FileRecord};

use crate::boundary::return_errno;
use crate::descriptors::{self, DescriptorEntry};
use crate::errors::{CallResult, ErrnoContext, ErrnoError, IntoCallResult};
use crate::names::{self, NameTarget};
use crate::{file_status, opening, plain_files, process};

/// `openat`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_openat(
    directory: c_int,
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { opening::open(directory, name, flags, mode) })
}

/// `access`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_access(name: *const c_char, wanted: c_int) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_faccessat(libc::AT_FDCWD, name, wanted, 0) }
}

/// `faccessat`. The node knows one identity of a process: `AT_EACCESS` makes no difference.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_faccessat(
    directory: c_int,
    name: *const c_char,
    wanted: c_int,
    flags: c_int,
) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated.
        plain_files::check_int(unsafe { libc::faccessat(directory, own.as_ptr(), wanted, flags) })
    };
    let shared = |cluster: &Cluster, path: &str| {
        check_flags(path, flags, libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW)?;
        check_access(cluster, path, wanted)
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(directory, name, plain, shared) })
}

/// `stat`.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `to` is null or points to a `struct stat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_stat(name: *const c_char, to: *mut libc::stat) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_fstatat(libc::AT_FDCWD, name, to, 0) }
}

/// `lstat`: a cluster has no symbolic links.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `to` is null or points to a `struct stat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_lstat(name: *const c_char, to: *mut libc::stat) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_fstatat(libc::AT_FDCWD, name, to, libc::AT_SYMLINK_NOFOLLOW) }
}

/// `fstatat`.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `to` is null or points to a `struct stat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_fstatat(
    directory: c_int,
    name: *const c_char,
    to: *mut libc::stat,
    flags: c_int,
) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated, and the caller guarantees `to`.
        plain_files::check_int(unsafe { libc::fstatat(directory, own.as_ptr(), to, flags) })
    };
    let shared = |cluster: &Cluster, path: &str| {
        check_flags(path, flags, STATUS_FLAGS)?;
        let known = cluster.metadata(path).in_call(ErrnoContext::Open)?;
        let status = file_status::stat_of(cluster, &known);
        // SAFETY: the caller guarantees it.
        unsafe { write_to(to, status, "the struct stat") }
    };
    return_errno(|| {
        // SAFETY: the caller guarantees it.
        if let Some(open) = unsafe { descriptor_itself(directory, name, flags) }? {
            let status = file_status::of_descriptor(&open)?;
            // SAFETY: the caller guarantees it.
            return unsafe { write_to(to, status, "the struct stat") };
        }
        // SAFETY: the caller guarantees it.
        unsafe { by_name(directory, name, plain, shared) }
    })
}

/// `statx`.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `to` is null or points to a `struct statx`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_statx(
    directory: c_int,
    name: *const c_char,
    flags: c_int,
    wanted: c_uint,
    to: *mut libc::statx,
) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated, and the caller guarantees `to`.
        let done = unsafe { libc::statx(directory, own.as_ptr(), flags, wanted, to) };
        plain_files::check_int(done)
    };
    let shared = |cluster: &Cluster, path: &str| {
        check_flags(path, flags, STATUS_FLAGS | libc::AT_STATX_SYNC_TYPE)?;
        let known = cluster.metadata(path).in_call(ErrnoContext::Open)?;
        let status = file_status::statx_of(cluster, &known);
        // SAFETY: the caller guarantees it.
        unsafe { write_to(to, status, "the struct statx") }
    };
    return_errno(|| {
        // SAFETY: the caller guarantees it.
        if let Some(open) = unsafe { descriptor_itself(directory, name, flags) }? {
            let known = file_status::metadata_of_descriptor(&open)?;
            let status = file_status::statx_of(open.files.cluster(), &known);
            // SAFETY: the caller guarantees it.
            return unsafe { write_to(to, status, "the struct statx") };
        }
        // SAFETY: the caller guarantees it.
        unsafe { by_name(directory, name, plain, shared) }
    })
}

/// `truncate`: cuts or extends a file for all processes.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_truncate(name: *const c_char, len: off_t) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated.
        plain_files::check_int(unsafe { libc::truncate(own.as_ptr(), len) })
    };
    let shared = |cluster: &Cluster, path: &str| {
        let len = u64::try_from(len).map_err(|_| {
            ErrnoError::new(libc::EINVAL, format!("{path}: the length {len} is negative"))
        })?;
        let file = cluster.options().write(true).open(path).in_call(ErrnoContext::Open)?;
        file.set_len(len).in_call(ErrnoContext::Other).map(|()| 0)
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(libc::AT_FDCWD, name, plain, shared) })
}

/// `mkdir`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_mkdir(name: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_mkdirat(libc::AT_FDCWD, name, mode) }
}

/// `mkdirat`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_mkdirat(
    directory: c_int,
    name: *const c_char,
    mode: mode_t,
) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| match unsafe { names::resolve_at(directory, name) }? {
        NameTarget::Plain(own) => {
            // SAFETY: a `CString` is NUL-terminated.
            let made = unsafe { libc::mkdirat(directory, own.as_ptr(), mode) };
            plain_files::check_int(made).map_err(|failed| failed.with_name(&own.to_string_lossy()))
        }
        NameTarget::Shared(path) => {
            let mode = mode & !opening::umask() & 0o777;
            let made = process::current()?.cluster().make_directory_with_mode(&path, mode);
            made.in_call(ErrnoContext::Open).map(|()| 0)
        }
    })
}

/// `rmdir`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_rmdir(name: *const c_char) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_unlinkat(libc::AT_FDCWD, name, libc::AT_REMOVEDIR) }
}

/// `unlink`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_unlink(name: *const c_char) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_unlinkat(libc::AT_FDCWD, name, 0) }
}

/// `unlinkat`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_unlinkat(
    directory: c_int,
    name: *const c_char,
    flags: c_int,
) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated.
        plain_files::check_int(unsafe { libc::unlinkat(directory, own.as_ptr(), flags) })
    };
    let shared = |cluster: &Cluster, path: &str| {
        check_flags(path, flags, libc::AT_REMOVEDIR)?;
        let removed = match flags & libc::AT_REMOVEDIR {
            0 => cluster.remove(path),
            _ => cluster.remove_directory(path),
        };
        removed.in_call(ErrnoContext::Open).map(|()| 0)
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(directory, name, plain, shared) })
}

/// `remove`: a file or an empty directory.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_remove(name: *const c_char) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated.
        plain_files::check_int(unsafe { libc::remove(own.as_ptr()) })
    };
    let shared = |cluster: &Cluster, path: &str| {
        let removed = match cluster.remove(path) {
            Err(Error::Failure(Failure::IsADirectory { .. })) => cluster.remove_directory(path),
            removed => removed,
        };
        removed.in_call(ErrnoContext::Open).map(|()| 0)
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(libc::AT_FDCWD, name, plain, shared) })
}

/// `rename`.
///
/// # Safety
/// Both names are null or NUL-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_renameat(libc::AT_FDCWD, from, libc::AT_FDCWD, to) }
}

/// `renameat`.
///
/// # Safety
/// Both names are null or NUL-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_renameat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe {
        let targets =
            (names::resolve_at(from_directory, from)?, names::resolve_at(to_directory, to)?);
        rename(from_directory, to_directory, targets)
    })
}

/// Flags of calls that return the status of a file.
const STATUS_FLAGS: c_int = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH;

/// Performs a call on the file that a name stands for: `plain` on a plain file, `shared` on a file
/// of the cluster. A plain name that the system does not have may be that of a file that `gopen`
/// created.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
pub unsafe fn by_name<T>(
    directory: c_int,
    name: *const c_char,
    plain: impl FnOnce(&CStr) -> CallResult<T>,
    shared: impl FnOnce(&Cluster, &str) -> CallResult<T>,
) -> CallResult<T> {
    // SAFETY: the caller guarantees it.
    let own = match unsafe { names::resolve_at(directory, name) }? {
        NameTarget::Shared(path) => {
            let done = shared(process::current()?.cluster(), &path);
            return done.map_err(|failed| names::with_put_hint(failed, &path));
        }
        NameTarget::Plain(own) => own,
    };
    let text = own.to_string_lossy();
    let failed = match plain(&own) {
        Ok(done) => return Ok(done),
        Err(failed) => failed.with_name(&text),
    };
    match any_shared_path(directory, &own, &failed)? {
        Some(path) => match shared(process::current()?.cluster(), &path) {
            // The cluster has no such file either.
            Err(missing) if matches!(missing.number, libc::ENOENT | libc::ENOTDIR) => Err(failed),
            done => done,
        },
        None => Err(failed),
    }
}

/// Returns the path in the cluster of a plain name that the system does not have, if this process
/// uses the cluster.
fn any_shared_path(
    directory: c_int,
    own: &CStr,
    failed: &ErrnoError,
) -> CallResult<Option<String>> {
    let is_reachable = directory == libc::AT_FDCWD || own.to_bytes().starts_with(b"/");
    if failed.number != libc::ENOENT || !is_reachable || !process::is_connected() {
        return Ok(None);
    }
    match own.to_str() {
        Ok(name) if !name.is_empty() => names::path(name).map(Some),
        _ => Ok(None),
    }
}

/// Returns the descriptor that a call with `AT_EMPTY_PATH` is about, if it is that of a shared file.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
unsafe fn descriptor_itself(
    directory: c_int,
    name: *const c_char,
    flags: c_int,
) -> CallResult<Option<Arc<DescriptorEntry>>> {
    // SAFETY: it is not null, and the caller guarantees a NUL at its end.
    if flags & libc::AT_EMPTY_PATH == 0 || name.is_null() || unsafe { *name } != 0 {
        return Ok(None);
    }
    descriptors::find(directory)
}

/// Writes a result to the memory of the caller.
///
/// # Safety
/// `to` is null or points to a `T`.
pub unsafe fn write_to<T>(to: *mut T, value: T, what: &str) -> CallResult<c_int> {
    if to.is_null() {
        return Err(ErrnoError::null_pointer(what));
    }
    // SAFETY: it is not null, and the caller guarantees it.
    unsafe { to.write(value) };
    Ok(0)
}

/// Fails if a call has flags that a shared file does not support.
pub fn check_flags(path: &str, flags: c_int, known: c_int) -> CallResult<()> {
    if flags & !known == 0 {
        return Ok(());
    }
    let why = format!("{path}: the flags {flags:#x} are not possible for a shared file");
    Err(ErrnoError::new(libc::EINVAL, why))
}

/// Fails unless this user has the permissions, as bits of `R_OK`, `W_OK` and `X_OK`.
pub fn check_access(cluster: &Cluster, path: &str, wanted: c_int) -> CallResult<c_int> {
    let Some(wanted) = u32::try_from(wanted).ok().filter(|bits| *bits < 8) else {
        let why = format!("{path}: access mode {wanted} is not made of R_OK, W_OK and X_OK");
        return Err(ErrnoError::new(libc::EINVAL, why));
    };
    let record = cluster.record(path).in_call(ErrnoContext::Open)?;
    let who = cluster.identity().in_call(ErrnoContext::Open)?;
    let granted = match who.uid {
        // Root executes what some user may execute.
        0 if record.kind == FileKind::Directory || record.mode & 0o111 != 0 => 7,
        0 => 6,
        uid if uid == record.uid => record.mode >> 6 & 7,
        _ if who.gids.contains(&record.gid) => record.mode >> 3 & 7,
        _ => record.mode & 7,
    };
    if wanted & !granted == 0 {
        return Ok(0);
    }
    let FileRecord { uid, gid, mode, .. } = record;
    Err(ErrnoError::new(
        libc::EACCES,
        format!(
            "{path}: user {} has the permissions {granted:o} of the wanted {wanted:o} (owner {uid}, \
             group {gid}, mode {mode:04o})",
            who.uid
        ),
    ))
}

/// Renames. A file cannot move between the cluster and the system.
fn rename(
    from_directory: c_int,
    to_directory: c_int,
    (from, to): (NameTarget, NameTarget),
) -> CallResult<c_int> {
    let shared = |from: &str, to: &str| {
        let renamed = process::current()?.cluster().rename(from, to);
        renamed.in_call(ErrnoContext::Open).map(|()| 0)
    };
    let (from, to) = match (from, to) {
        (NameTarget::Shared(from), NameTarget::Shared(to)) => {
            return shared(&from, &to).map_err(|failed| names::with_put_hint(failed, &from));
        }
        (NameTarget::Plain(from), NameTarget::Plain(to)) => (from, to),
        (NameTarget::Shared(from), NameTarget::Plain(to)) => {
            return Err(crosses(&from, &to.to_string_lossy()));
        }
        (NameTarget::Plain(from), NameTarget::Shared(to)) => {
            return Err(crosses(&from.to_string_lossy(), &to));
        }
    };
    // SAFETY: a `CString` is NUL-terminated.
    let renamed =
        unsafe { libc::renameat(from_directory, from.as_ptr(), to_directory, to.as_ptr()) };
    let Err(failed) = plain_files::check_int(renamed) else { return Ok(0) };
    let failed = failed.with_name(&from.to_string_lossy());
    let paths = (
        any_shared_path(from_directory, &from, &failed)?,
        any_shared_path(to_directory, &to, &failed)?,
    );
    match paths {
        (Some(from), Some(to)) => match shared(&from, &to) {
            Err(missing) if missing.number == libc::ENOENT => Err(failed),
            done => done,
        },
        _ => Err(failed),
    }
}

fn crosses(from: &str, to: &str) -> ErrnoError {
    ErrnoError::new(
        libc::EXDEV,
        format!(
            "{from} to {to}: one of the names is that of a shared file, the other that of a plain \
             file: copy the file, and remove the old one"
        ),
    )
}

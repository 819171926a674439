//! System calls that change permissions, owners and times of shared files, by name and by
//! descriptor.

use std::ffi::CStr;
use std::time::{SystemTime, UNIX_EPOCH};

use libc::{c_char, c_int, gid_t, mode_t, timespec, timeval, uid_t, utimbuf};
use pario::{Cluster, FileKind};

use crate::boundary::return_errno;
use crate::by_name::{by_name, check_flags};
use crate::descriptors::{self, DescriptorEntry};
use crate::errors::{CallResult, ErrnoContext, ErrnoError, IntoCallResult};
use crate::plain_files;

/// `chmod`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_chmod(name: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_fchmodat(libc::AT_FDCWD, name, mode, 0) }
}

/// `fchmodat`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_fchmodat(
    directory: c_int,
    name: *const c_char,
    mode: mode_t,
    flags: c_int,
) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated.
        plain_files::check_int(unsafe { libc::fchmodat(directory, own.as_ptr(), mode, flags) })
    };
    let shared = |cluster: &Cluster, path: &str| {
        check_flags(path, flags, libc::AT_SYMLINK_NOFOLLOW)?;
        set_mode(cluster, path, mode)
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(directory, name, plain, shared) })
}

/// `fchmod`.
#[unsafe(no_mangle)]
pub extern "C" fn pario_fchmod(fd: c_int, mode: mode_t) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => set_mode(open.files.cluster(), current_path(&open)?, mode),
        // SAFETY: the call takes no memory.
        None => plain_files::check_int(unsafe { libc::fchmod(fd, mode) }),
    })
}

/// `chown`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_chown(name: *const c_char, uid: uid_t, gid: gid_t) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_fchownat(libc::AT_FDCWD, name, uid, gid, 0) }
}

/// `lchown`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_lchown(name: *const c_char, uid: uid_t, gid: gid_t) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { pario_fchownat(libc::AT_FDCWD, name, uid, gid, libc::AT_SYMLINK_NOFOLLOW) }
}

/// `fchownat`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_fchownat(
    directory: c_int,
    name: *const c_char,
    uid: uid_t,
    gid: gid_t,
    flags: c_int,
) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated.
        let done = unsafe { libc::fchownat(directory, own.as_ptr(), uid, gid, flags) };
        plain_files::check_int(done)
    };
    let shared = |cluster: &Cluster, path: &str| {
        check_flags(path, flags, libc::AT_SYMLINK_NOFOLLOW)?;
        set_owner(cluster, path, uid, gid)
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(directory, name, plain, shared) })
}

/// `fchown`.
#[unsafe(no_mangle)]
pub extern "C" fn pario_fchown(fd: c_int, uid: uid_t, gid: gid_t) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => set_owner(open.files.cluster(), current_path(&open)?, uid, gid),
        // SAFETY: the call takes no memory.
        None => plain_files::check_int(unsafe { libc::fchown(fd, uid, gid) }),
    })
}

/// `utimensat`: sets the time of the last change. A cluster has no time of the last access.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `times` is null or points to two times.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_utimensat(
    directory: c_int,
    name: *const c_char,
    times: *const timespec,
    flags: c_int,
) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated, and the caller guarantees the times.
        plain_files::check_int(unsafe { libc::utimensat(directory, own.as_ptr(), times, flags) })
    };
    let shared = |cluster: &Cluster, path: &str| {
        check_flags(path, flags, libc::AT_SYMLINK_NOFOLLOW)?;
        // SAFETY: the caller guarantees it.
        set_modified(cluster, path, unsafe { modified_ns(times) }?)
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(directory, name, plain, shared) })
}

/// `futimens`.
///
/// # Safety
/// `times` is null or points to two times.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_futimens(fd: c_int, times: *const timespec) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => {
            // SAFETY: the caller guarantees it.
            let modified_ns = unsafe { modified_ns(times) }?;
            match modified_ns {
                Some(to_ns) if open.flags & libc::O_ACCMODE != libc::O_RDONLY => {
                    let set = open.file()?.file().set_modified(to_ns);
                    set.in_call(ErrnoContext::Open).map(|()| 0)
                }
                _ => set_modified(open.files.cluster(), current_path(&open)?, modified_ns),
            }
        }
        // SAFETY: the caller guarantees it.
        None => plain_files::check_int(unsafe { libc::futimens(fd, times) }),
    })
}

/// `utimes`.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `times` is null or points to two times.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_utimes(name: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: it is null, or the caller guarantees two times.
    match unsafe { times.cast::<[timeval; 2]>().as_ref() } {
        Some(known) => {
            let converted = known.map(|time| timespec {
                tv_sec: time.tv_sec,
                // An invalid number of microseconds stays invalid.
                tv_nsec: time.tv_usec.saturating_mul(1000),
            });
            let is_valid = |time: &timeval| (0..1_000_000).contains(&time.tv_usec);
            if !known.iter().all(is_valid) {
                return return_errno(|| Err(invalid_time()));
            }
            // SAFETY: the caller guarantees the name; the times are local.
            unsafe { pario_utimensat(libc::AT_FDCWD, name, converted.as_ptr(), 0) }
        }
        // SAFETY: the caller guarantees it.
        None => unsafe { pario_utimensat(libc::AT_FDCWD, name, std::ptr::null(), 0) },
    }
}

/// `utime`.
///
/// # Safety
/// `name` is null or a NUL-terminated string; `times` is null or points to a `struct utimbuf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_utime(name: *const c_char, times: *const utimbuf) -> c_int {
    // SAFETY: it is null, or the caller guarantees a `struct utimbuf`.
    match unsafe { times.as_ref() } {
        Some(known) => {
            let converted =
                [known.actime, known.modtime].map(|tv_sec| timespec { tv_sec, tv_nsec: 0 });
            // SAFETY: the caller guarantees the name; the times are local.
            unsafe { pario_utimensat(libc::AT_FDCWD, name, converted.as_ptr(), 0) }
        }
        // SAFETY: the caller guarantees it.
        None => unsafe { pario_utimensat(libc::AT_FDCWD, name, std::ptr::null(), 0) },
    }
}

/// Returns the path of an open file or directory. Fails if it is not there any more.
fn current_path(open: &DescriptorEntry) -> CallResult<&str> {
    if open.is_directory() {
        return Ok(&open.path);
    }
    let file = open.file()?;
    let known = open.files.cluster().record(&open.path);
    if known.is_ok_and(|record| record.id == file.file().record().id) {
        return Ok(&open.path);
    }
    let why = "the open file was renamed or deleted since: use its new name";
    Err(ErrnoError::new(libc::ENOENT, format!("{}: {why}", open.path)))
}

fn set_mode(cluster: &Cluster, path: &str, mode: mode_t) -> CallResult<c_int> {
    owner_only(cluster.set_mode(path, mode & 0o7777).in_call(ErrnoContext::Open))
}

fn set_owner(cluster: &Cluster, path: &str, uid: uid_t, gid: gid_t) -> CallResult<c_int> {
    // -1 keeps the old value.
    let changed = |id: u32| (id != u32::MAX).then_some(id);
    let set = cluster.set_owner(path, changed(uid), changed(gid));
    owner_only(set.in_call(ErrnoContext::Open))
}

/// POSIX reports calls that only the owner may make with `EPERM`.
fn owner_only<T>(done: CallResult<T>) -> CallResult<c_int> {
    done.map(|_| 0).map_err(|failed| match failed.number {
        libc::EACCES => ErrnoError::new(libc::EPERM, failed.text),
        _ => failed,
    })
}

/// Sets the time of the last change; none leaves it.
fn set_modified(cluster: &Cluster, path: &str, modified_ns: Option<u64>) -> CallResult<c_int> {
    let record = cluster.record(path).in_call(ErrnoContext::Open)?;
    let Some(modified_ns) = modified_ns else { return Ok(0) };
    if record.kind == FileKind::Directory {
        return owner_only(
            cluster.set_directory_time(path, modified_ns).in_call(ErrnoContext::Open),
        );
    }
    let file = cluster.options().write(true).open(path).in_call(ErrnoContext::Open)?;
    file.set_modified(modified_ns).in_call(ErrnoContext::Open).map(|()| 0)
}

/// Returns the second of two times, which is that of the last change; none for `UTIME_OMIT`.
///
/// # Safety
/// `times` is null or points to two times.
unsafe fn modified_ns(times: *const timespec) -> CallResult<Option<u64>> {
    // SAFETY: it is null, or the caller guarantees two times.
    let Some(known) = (unsafe { times.cast::<[timespec; 2]>().as_ref() }) else {
        return Ok(Some(now_ns()));
    };
    let is_special = |ns: i64| ns == libc::UTIME_NOW || ns == libc::UTIME_OMIT;
    let is_valid = |ns: i64| (0..1_000_000_000).contains(&ns) || is_special(ns);
    if !known.iter().all(|time| is_valid(time.tv_nsec)) {
        return Err(invalid_time());
    }
    let modified = known[1];
    match modified.tv_nsec {
        libc::UTIME_NOW => Ok(Some(now_ns())),
        libc::UTIME_OMIT => Ok(None),
        rest_ns => {
            let seconds_ns = u64::try_from(modified.tv_sec).ok();
            let seconds_ns = seconds_ns.and_then(|seconds| seconds.checked_mul(1_000_000_000));
            let rest_ns = u64::try_from(rest_ns).ok();
            let whole = seconds_ns.zip(rest_ns).and_then(|(ns, rest)| ns.checked_add(rest));
            whole.map(Some).ok_or_else(invalid_time)
        }
    }
}

fn invalid_time() -> ErrnoError {
    let why = "a time must lie between 1970 and 2554, with less than a second beside the seconds";
    ErrnoError::new(libc::EINVAL, why)
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

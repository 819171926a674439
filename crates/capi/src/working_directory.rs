//! The working directory, which may be a shared one: `chdir`, `fchdir` and `getcwd`.
//!
//! Only this library knows a shared working directory. Programs that the process starts begin in the
//! working directory that the system knows.

use std::ffi::CStr;

use libc::{c_char, c_int, size_t};
use pario::{Cluster, FileKind};

use crate::boundary::return_errno;
use crate::by_name::{by_name, check_access};
use crate::errors::{CallResult, ErrnoContext, ErrnoError, IntoCallResult};
use crate::{descriptors, names, plain_files};

/// `chdir`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_chdir(name: *const c_char) -> c_int {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated.
        plain_files::check_int(unsafe { libc::chdir(own.as_ptr()) })?;
        names::set_shared_directory(None);
        Ok(0)
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name(libc::AT_FDCWD, name, plain, enter) })
}

/// `fchdir`.
#[unsafe(no_mangle)]
pub extern "C" fn pario_fchdir(fd: c_int) -> c_int {
    return_errno(|| match descriptors::find(fd)? {
        Some(open) => enter(open.files.cluster(), &open.path),
        None => {
            // SAFETY: the call takes no memory.
            plain_files::check_int(unsafe { libc::fchdir(fd) })?;
            names::set_shared_directory(None);
            Ok(0)
        }
    })
}

/// `getcwd`. As with the C library, it allocates memory if `to` is null.
///
/// # Safety
/// `to` is null or points to `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_getcwd(to: *mut c_char, room: size_t) -> *mut c_char {
    let Some(here) = names::shared_directory() else {
        // SAFETY: the caller guarantees it.
        return unsafe { libc::getcwd(to, room) };
    };
    return_errno(|| {
        let needed = here.len() + 1;
        if room < needed && !(to.is_null() && room == 0) {
            let (number, why) = match room {
                0 => (libc::EINVAL, "no room for a path".to_owned()),
                _ => (libc::ERANGE, format!("{room} bytes are too few for the path {here}")),
            };
            return Err(ErrnoError::new(number, why));
        }
        let to = if to.is_null() {
            // SAFETY: the size is not 0.
            unsafe { libc::malloc(needed.max(room)) }.cast::<c_char>()
        } else {
            to
        };
        if to.is_null() {
            return Err(ErrnoError::new(libc::ENOMEM, format!("{needed} bytes for a path")));
        }
        // SAFETY: there is room for all bytes and the NUL.
        unsafe {
            std::ptr::copy_nonoverlapping(here.as_ptr().cast(), to, here.len());
            to.add(here.len()).write(0);
        }
        Ok(to)
    })
}

/// Makes a shared directory the working directory.
fn enter(cluster: &Cluster, path: &str) -> CallResult<c_int> {
    let record = cluster.record(path).in_call(ErrnoContext::Open)?;
    if record.kind != FileKind::Directory {
        return Err(ErrnoError::new(libc::ENOTDIR, format!("{path}: it is not a directory")));
    }
    check_access(cluster, path, libc::X_OK)?;
    names::set_shared_directory(Some(path.to_owned()));
    Ok(0)
}

//! The calls as Fortran 77 compilers name and pass them: an underscore after the name, every
//! argument by address, and the length of a character argument after all others.
//!
//! A subroutine has no result: on failure it prints the error and ends the process. A function
//! returns -1.

use libc::{c_char, c_double, c_int, c_long, c_void, size_t};

use crate::boundary::{exit_on_error, return_errno};
use crate::errors::{CallResult, ErrnoError};
use crate::{donio, nx, team};

/// All symbols of this file; a test compares them with the library's exports.
pub const NAMES: [&str; 15] = [
    "donio_",
    "doopen_",
    "dolsize_",
    "dolseek_",
    "doread_",
    "dowrite_",
    "doflush_",
    "doclose_",
    "dogsync_",
    "mynode_",
    "numnodes_",
    "gsync_",
    "gisum_",
    "gdsum_",
    "dclock_",
];

/// `call donio(myid, nproc)`
///
/// # Safety
/// Each address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn donio_(rank: *const c_int, size: *const c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("donio", || unsafe { team::init(value(rank)?, value(size)?) });
}

/// `fd = doopen(path, flags, mode)`
///
/// # Safety
/// `path` is null or has `path_len` characters. Each other address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doopen_(
    path: *const c_char,
    flags: *const c_int,
    mode: *const c_int,
    path_len: size_t,
) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe {
        let numbers = value(flags).and_then(|flags| Ok((flags, value(mode)?)));
        let (flags, mode) = team::or_fail_round(numbers)?;
        donio::open(text(path, path_len), flags, mode, None)
    })
}

/// `call dolsize(fd, nbytes)`
///
/// # Safety
/// Each address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dolsize_(fd: *const c_int, bytes: *const c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("dolsize", || unsafe {
        let numbers = value(fd).and_then(|fd| Ok((fd, value(bytes)?)));
        let (fd, bytes) = team::or_fail_round(numbers)?;
        donio::reserve(fd, bytes.into())
    });
}

/// `position = dolseek(fd, offset, whence)`
///
/// # Safety
/// Each address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dolseek_(
    fd: *const c_int,
    offset: *const c_int,
    whence: *const c_int,
) -> c_int {
    return_errno(|| {
        // SAFETY: the caller guarantees it.
        let (fd, offset, whence) = unsafe { (value(fd)?, value(offset)?, value(whence)?) };
        donio::seek(fd, offset.into(), whence, c_int::MAX.into()).map(int)
    })
}

/// `call doread(fd, buf, nbytes)`; a function form returns the number of bytes.
///
/// # Safety
/// `buffer` has room for `bytes` bytes. Each other address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doread_(
    fd: *const c_int,
    buffer: *mut c_void,
    bytes: *const c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    exit_on_error("doread", || unsafe {
        donio::read(value(fd)?, buffer, value(bytes)?.into()).map(int)
    })
}

/// `call dowrite(fd, buf, nbytes)`; a function form returns the number of bytes.
///
/// # Safety
/// `buffer` points to `bytes` bytes. Each other address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dowrite_(
    fd: *const c_int,
    buffer: *const c_void,
    bytes: *const c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    exit_on_error("dowrite", || unsafe {
        donio::write(value(fd)?, buffer, value(bytes)?.into()).map(int)
    })
}

/// `call doflush(fd)`
///
/// # Safety
/// The address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doflush_(fd: *const c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("doflush", || unsafe { donio::flush(team::or_fail_round(value(fd))?) });
}

/// `call doclose(fd)`
///
/// # Safety
/// The address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doclose_(fd: *const c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("doclose", || unsafe { donio::close(team::or_fail_round(value(fd))?) });
}

/// `call dogsync()`
#[unsafe(no_mangle)]
pub extern "C" fn dogsync_() {
    exit_on_error("dogsync", || team::team_result(team::current()?.barrier()));
}

/// `me = mynode()`
#[unsafe(no_mangle)]
pub extern "C" fn mynode_() -> c_int {
    int(nx::mynode())
}

/// `n = numnodes()`
#[unsafe(no_mangle)]
pub extern "C" fn numnodes_() -> c_int {
    int(nx::numnodes())
}

/// `call gsync()`
#[unsafe(no_mangle)]
pub extern "C" fn gsync_() {
    nx::gsync();
}

/// `call gisum(x, n, work)` with four-byte integers
///
/// # Safety
/// `numbers` points to `count` integers. `count` is null or the address of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gisum_(numbers: *mut c_int, count: *const c_int, _work: *mut c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("gisum", || unsafe {
        nx::sum(numbers, c_long::from(team::or_fail_round(value(count))?))
    });
}

/// `call gdsum(x, n, work)` with double-precision numbers
///
/// # Safety
/// `numbers` points to `count` numbers. `count` is null or the address of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gdsum_(numbers: *mut c_double, count: *const c_int, _work: *mut c_double) {
    // SAFETY: the caller guarantees it.
    exit_on_error("gdsum", || unsafe {
        nx::sum(numbers, c_long::from(team::or_fail_round(value(count))?))
    });
}

/// `t = dclock()`
#[unsafe(no_mangle)]
pub extern "C" fn dclock_() -> c_double {
    nx::dclock()
}

/// Reads an integer argument.
///
/// # Safety
/// The address is null or that of an integer.
pub unsafe fn value(address: *const c_int) -> CallResult<c_int> {
    if address.is_null() {
        return Err(ErrnoError::null_pointer("the address of an argument"));
    }
    // SAFETY: it is not null, and the caller guarantees an integer.
    Ok(unsafe { address.read_unaligned() })
}

/// Copies a Fortran character argument: a NUL ends it, and trailing blanks do not count.
///
/// # Safety
/// `start` is null or has `len` characters.
pub unsafe fn text(start: *const c_char, len: size_t) -> CallResult<String> {
    if start.is_null() {
        return Err(ErrnoError::null_pointer("the file name"));
    }
    // SAFETY: it is not null, and the caller guarantees `len` characters.
    let letters = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len) };
    let letters = letters.split(|letter| *letter == 0).next().unwrap_or_default();
    match str::from_utf8(letters).map(|text| text.trim_end_matches(' ')) {
        Ok("") => Err(ErrnoError::new(libc::ENOENT, "the file name is empty")),
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(ErrnoError::invalid("the file name is not UTF-8")),
    }
}

fn int(value: i64) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_end_at_a_nul_or_before_trailing_blanks() {
        let text = |letters: &[u8]| {
            // SAFETY: the slice has that many bytes.
            unsafe { super::text(letters.as_ptr().cast(), letters.len()) }
        };
        assert_eq!(text(b"/pfs/ex.bin\0      ").unwrap(), "/pfs/ex.bin");
        assert_eq!(text(b"a name   ").unwrap(), "a name");
        assert_eq!(text(b"  \0").unwrap_err().number, libc::ENOENT);
        assert!(text(b"\xff").is_err());
    }
}

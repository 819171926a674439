//! The calls of NX on files, as Fortran 77 programs make them: the first argument is a *unit*.
//!
//! A unit is connected by `gopen`, or by the statement OPEN. For the latter the run-time library of
//! GNU Fortran says which descriptor the unit has. If OPEN has opened a shared file, through the
//! preload library, the calls work on that file; otherwise they work on the plain file.
//!
//! A failed call prints the error and ends the process, except `lseek`, which returns -1.

use std::collections::HashMap;
use std::ffi::CString;

use libc::{c_char, c_int, c_void, size_t};
use parking_lot::Mutex;

use crate::boundary::{exit_on_error, return_errno};
use crate::errors::{CallResult, EPFSLBADF, ErrnoError};
use crate::fortran::{text, value};
use crate::{opening, pfslib};

/// All symbols of this file; a test compares them with the library's exports.
pub const NAMES: [&str; 13] = [
    "gopen_",
    "gclose_",
    "cread_",
    "cwrite_",
    "iread_",
    "iwrite_",
    "iodone_",
    "iowait_",
    "iseof_",
    "iomode_",
    "setiomode_",
    "lseek_",
    "lsize_",
];

/// The permissions of a new file, without those of the mask.
const NEW_FILE_PERMISSIONS: libc::mode_t = 0o666;

/// The descriptors of units that `gopen` has connected.
static UNITS: Mutex<Option<HashMap<c_int, c_int>>> = Mutex::new(None);

/// `call gopen(unit, path, iomode)`: opens a file for reading and writing, collectively, and
/// creates a missing one. A unit that `gopen` has connected before is closed first.
///
/// # Safety
/// `path` is null or has `path_len` characters. Each other address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gopen_(
    unit: *const c_int,
    path: *const c_char,
    io_mode: *const c_int,
    path_len: size_t,
) {
    exit_on_error("gopen", || {
        // SAFETY: the caller guarantees it.
        let (unit, io_mode, path) =
            unsafe { (value(unit)?, value(io_mode)?, text(path, path_len)?) };
        close_unit(unit)?;
        let path = CString::new(path).map_err(|_| ErrnoError::invalid("the name has a NUL"))?;
        let flags = libc::O_RDWR | libc::O_CREAT;
        // SAFETY: it is a NUL-terminated string.
        let fd = unsafe {
            opening::open_collective(path.as_ptr(), flags, io_mode, NEW_FILE_PERMISSIONS)?
        };
        UNITS.lock().get_or_insert_default().insert(unit, fd);
        Ok(())
    });
}

/// `call gclose(unit)`: closes the file of a unit that `gopen` has connected.
///
/// # Safety
/// The address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gclose_(unit: *const c_int) {
    exit_on_error("gclose", || {
        // SAFETY: the caller guarantees it.
        let unit = unsafe { value(unit)? };
        match close_unit(unit)? {
            true => Ok(()),
            false => Err(ErrnoError::new(
                EPFSLBADF,
                format!("gopen has not connected unit {unit}: use CLOSE for units of OPEN"),
            )),
        }
    });
}

/// Closes the file of a unit. Returns whether `gopen` had connected it.
fn close_unit(unit: c_int) -> CallResult<bool> {
    let fd = UNITS.lock().as_mut().and_then(|units| units.remove(&unit));
    let Some(fd) = fd else { return Ok(false) };
    match pfslib::pfslib_close(fd) {
        0 => Ok(true),
        _ => Err(ErrnoError::last_os_error()),
    }
}

/// Returns the descriptor of a unit.
///
/// # Safety
/// The address is null or that of an integer.
unsafe fn descriptor(unit: *const c_int) -> CallResult<c_int> {
    // SAFETY: the caller guarantees it.
    let unit = unsafe { value(unit)? };
    if let Some(fd) = UNITS.lock().as_ref().and_then(|units| units.get(&unit)) {
        return Ok(*fd);
    }
    opened_by_statement(unit).ok_or_else(|| {
        ErrnoError::new(
            EPFSLBADF,
            format!("unit {unit} is not connected: call gopen, or OPEN it, before this call"),
        )
    })
}

/// Returns the descriptor of a unit that the statement OPEN has connected, if the program is
/// compiled by GNU Fortran.
fn opened_by_statement(unit: c_int) -> Option<c_int> {
    type Fnum = unsafe extern "C" fn(*const c_int) -> c_int;
    // SAFETY: the name is NUL-terminated.
    let fnum = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_gfortran_fnum_i4".as_ptr()) };
    if fnum.is_null() {
        return None;
    }
    // SAFETY: the run-time library documents this as the function behind FNUM, with a four-byte
    // integer by address; it returns a descriptor, or -1.
    let fd = unsafe { std::mem::transmute::<*mut c_void, Fnum>(fnum)(&raw const unit) };
    (fd >= 0).then_some(fd)
}

/// Defines calls that transfer bytes: subroutines, and functions that return the id of a request.
macro_rules! transfers {
    ($($(#[$doc:meta])* $fortran:ident, $call:path, $name:literal -> $result:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `buffer` has `bytes` bytes, which belong to a started request until it is over. Each
        /// other address is null or that of an integer.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran(
            unit: *const c_int,
            buffer: *mut c_void,
            bytes: *const c_int,
        ) -> $result {
            // SAFETY: the caller guarantees it.
            let (fd, bytes) = exit_on_error($name, || unsafe {
                Ok((descriptor(unit)?, byte_count(value(bytes)?)?))
            });
            // SAFETY: as above. A failure ends the process.
            <$result>::of(unsafe { $call(fd, buffer.cast(), bytes) })
        }
    )*};
}

transfers! {
    /// `call cread(unit, buffer, nbytes)`
    cread_, pfslib::cread, "cread" -> ();
    /// `call cwrite(unit, buffer, nbytes)`
    cwrite_, pfslib::cwrite, "cwrite" -> ();
    /// `id = iread(unit, buffer, nbytes)`
    iread_, pfslib::iread, "iread" -> c_int;
    /// `id = iwrite(unit, buffer, nbytes)`
    iwrite_, pfslib::iwrite, "iwrite" -> c_int;
}

/// A result of a call, as Fortran gets it.
trait FortranResult<T> {
    fn of(result: T) -> Self;
}

impl FortranResult<()> for () {
    fn of((): ()) {}
}

impl FortranResult<i64> for c_int {
    fn of(result: i64) -> Self {
        Self::try_from(result).unwrap_or(Self::MAX)
    }
}

fn byte_count(bytes: c_int) -> CallResult<u32> {
    u32::try_from(bytes)
        .map_err(|_| ErrnoError::invalid(format!("{bytes} bytes: the number must not be negative")))
}

/// `done = iodone(id)`: 1 if the request is over, otherwise 0.
///
/// # Safety
/// The address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iodone_(id: *const c_int) -> c_int {
    // SAFETY: the caller guarantees it.
    let id = exit_on_error("iodone", || unsafe { value(id) });
    // SAFETY: the call takes no memory.
    c_int::of(unsafe { pfslib::iodone(id.into()) })
}

/// `call iowait(id)`
///
/// # Safety
/// The address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iowait_(id: *const c_int) {
    // SAFETY: the caller guarantees it.
    let id = exit_on_error("iowait", || unsafe { value(id) });
    // SAFETY: the call takes no memory.
    unsafe { pfslib::iowait(id.into()) };
}

/// `at_end = iseof(unit)`: 1 at the end of the file, otherwise 0.
///
/// # Safety
/// The address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iseof_(unit: *const c_int) -> c_int {
    // SAFETY: the caller guarantees it.
    let fd = exit_on_error("iseof", || unsafe { descriptor(unit) });
    // SAFETY: the call takes no memory.
    c_int::of(unsafe { pfslib::iseof(fd) })
}

/// `mode = iomode(unit)`
///
/// # Safety
/// The address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iomode_(unit: *const c_int) -> c_int {
    // SAFETY: the caller guarantees it.
    let fd = exit_on_error("iomode", || unsafe { descriptor(unit) });
    // SAFETY: the call takes no memory.
    c_int::of(unsafe { pfslib::iomode(fd) })
}

/// `call setiomode(unit, iomode)`
///
/// # Safety
/// Each address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setiomode_(unit: *const c_int, io_mode: *const c_int) {
    // SAFETY: the caller guarantees it.
    let (fd, io_mode) =
        exit_on_error("setiomode", || unsafe { Ok((descriptor(unit)?, value(io_mode)?)) });
    // SAFETY: the call takes no memory.
    unsafe { pfslib::setiomode(fd, io_mode) };
}

/// `position = lseek(unit, offset, whence)`: -1 on failure, also if the position needs more than
/// four bytes.
///
/// # Safety
/// Each address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lseek_(
    unit: *const c_int,
    offset: *const c_int,
    whence: *const c_int,
) -> c_int {
    return_errno(|| {
        // SAFETY: the caller guarantees it.
        let (fd, offset, whence) = unsafe { (descriptor(unit)?, value(offset)?, value(whence)?) };
        match pfslib::pfslib_lseek(fd, offset.into(), whence) {
            -1 => Err(ErrnoError::last_os_error()),
            position => four_bytes(position),
        }
    })
}

/// `bytes = lsize(unit, offset, whence)`: extends the file and returns its size.
///
/// # Safety
/// Each address is null or that of an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsize_(
    unit: *const c_int,
    offset: *const c_int,
    whence: *const c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    let (fd, offset, whence) = exit_on_error("lsize", || unsafe {
        Ok((descriptor(unit)?, value(offset)?, value(whence)?))
    });
    // SAFETY: the call takes no memory.
    let size = unsafe { pfslib::lsize(fd, offset.into(), whence) };
    exit_on_error("lsize", || four_bytes(size))
}

fn four_bytes(position: i64) -> CallResult<c_int> {
    c_int::try_from(position).map_err(|_| {
        ErrnoError::new(
            libc::EOVERFLOW,
            format!("byte {position} does not fit into a four-byte integer: use the calls of C"),
        )
    })
}

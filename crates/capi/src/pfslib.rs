//! The calls of `pfslib.h`, each in two forms.

use libc::{c_char, c_int, c_long, c_uint, c_void, iovec, mode_t, off_t};

use crate::boundary::{exit_on_error, return_errno};
use crate::buffers::CallerBuffers;
use crate::descriptors;
use crate::errors::{self, CallResult, EPFSLNBYTES, ErrnoContext, ErrnoError, IntoCallResult};
use crate::requests::{self, StartedIo};
use crate::{inheritance, names, opening, plain_files, process, shared_io};

/// Defines the two forms of a call: one ends the process on failure, the other returns -1. The
/// `then` expression converts the second form's result to the first form's.
macro_rules! forms {
    ($(
        $(#[$doc:meta])*
        $exiting:ident, $returning:ident($($name:ident: $type:ty),*) -> $value:ty {
            $body:expr
        } then $all:ty { $then:expr }
    )*) => {$(
        $(#[$doc])*
        ///
        /// On failure this form prints the error and ends the process.
        ///
        /// # Safety
        /// Each pointer is null or points to as much memory as the other arguments say.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $exiting($($name: $type),*) -> $all {
            exit_on_error(stringify!($exiting), || $body.and_then($then))
        }

        $(#[$doc])*
        ///
        /// On failure this form returns -1 and sets `errno`.
        ///
        /// # Safety
        /// Each pointer is null or points to as much memory as the other arguments say.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $returning($($name: $type),*) -> $value {
            return_errno(|| $body)
        }
    )*};
}

forms! {
    /// Reads and waits for the bytes.
    cread, _cread(fd: c_int, buffer: *mut c_void, bytes: c_uint) -> c_long {
        // SAFETY: the caller guarantees that many bytes.
        unsafe { transfer_one(fd, buffer, bytes, false) }
    } then () { |moved| check_all(moved, i64::from(bytes)) }

    /// Writes and waits for completion.
    cwrite, _cwrite(fd: c_int, buffer: *const c_void, bytes: c_uint) -> c_long {
        // SAFETY: the caller guarantees `bytes` bytes; they are only read.
        unsafe { transfer_one(fd, buffer.cast_mut(), bytes, true) }
    } then () { |moved| check_all(moved, i64::from(bytes)) }

    /// Reads into several buffers and waits for the bytes.
    creadv, _creadv(fd: c_int, pieces: *const iovec, count: c_int) -> c_long {
        // SAFETY: the caller guarantees `count` buffers.
        unsafe { transfer_vectored(fd, pieces, count, false) }
    } then () { |moved| {
        // SAFETY: as above.
        check_all(moved, unsafe { len_of(pieces, count) }?)
    } }

    /// Writes several buffers and waits for completion.
    cwritev, _cwritev(fd: c_int, pieces: *const iovec, count: c_int) -> c_long {
        // SAFETY: the caller guarantees `count` buffers.
        unsafe { transfer_vectored(fd, pieces, count, true) }
    } then () { |moved| {
        // SAFETY: as above.
        check_all(moved, unsafe { len_of(pieces, count) }?)
    } }

    /// Starts a read. Returns the request's id.
    iread, _iread(fd: c_int, buffer: *mut c_void, bytes: c_uint) -> c_long {
        // SAFETY: the caller guarantees `bytes` bytes, and leaves them alone until the request is
        // over.
        start(fd, unsafe { CallerBuffers::single(buffer, bytes as usize) }, false)
    } then c_long { Ok }

    /// Starts a write. Returns the request's id.
    iwrite, _iwrite(fd: c_int, buffer: *const c_void, bytes: c_uint) -> c_long {
        // SAFETY: the caller guarantees `bytes` bytes, and leaves them alone until the request is
        // over.
        start(fd, unsafe { CallerBuffers::single(buffer.cast_mut(), bytes as usize) }, true)
    } then c_long { Ok }

    /// Starts a read into several buffers. Returns the request's id.
    ireadv, _ireadv(fd: c_int, pieces: *const iovec, count: c_int) -> c_long {
        // SAFETY: the caller guarantees `count` buffers.
        start(fd, unsafe { CallerBuffers::vectored(pieces, count) }, false)
    } then c_long { Ok }

    /// Starts a write of several buffers. Returns the request's id.
    iwritev, _iwritev(fd: c_int, pieces: *const iovec, count: c_int) -> c_long {
        // SAFETY: the caller guarantees `count` buffers.
        start(fd, unsafe { CallerBuffers::vectored(pieces, count) }, true)
    } then c_long { Ok }

    /// Returns 1 and frees the id if the request is over, otherwise 0.
    iodone, _iodone(id: c_long) -> c_long {
        requests::is_done(id).map(c_long::from)
    } then c_long { Ok }

    /// Waits until a request is over, and frees its id.
    iowait, _iowait(id: c_long) -> c_long {
        requests::wait(id).map(|()| 0)
    } then () { |_| Ok(()) }

    /// Returns 1 if the pointer is at the end of the file, after all started requests of this
    /// process.
    iseof, _iseof(fd: c_int) -> c_long {
        is_at_end(fd).map(c_long::from)
    } then c_long { Ok }

    /// Returns the mode of a shared file.
    iomode, _iomode(fd: c_int) -> c_long {
        iomode_of(fd)
    } then c_long { Ok }

    /// Sets the mode of a shared file, collectively.
    setiomode, _setiomode(fd: c_int, io_mode: c_int) -> c_long {
        set_iomode(fd, io_mode)
    } then () { |_| Ok(()) }

    /// Extends a file. Returns its size.
    lsize, _lsize(fd: c_int, offset: off_t, whence: c_int) -> c_long {
        grow(fd, offset, whence)
    } then c_long { Ok }

    /// Opens a shared file in a mode, collectively.
    gopen, _gopen(name: *const c_char, flags: c_int, io_mode: c_int, mode: mode_t) -> c_int {
        // SAFETY: the caller guarantees a NUL-terminated name.
        unsafe { opening::open_collective(name, flags, io_mode, mode) }
    } then c_int { Ok }
}

/// Opens the file that the name stands for: a plain or a shared one. `mode` matters only for new
/// files, and C programs may omit it: on this platform the ABI passes optional arguments like
/// others.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfslib_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { opening::open(libc::AT_FDCWD, name, flags, mode) })
}

/// Opens a shared file of `size` processes, collectively if `is_collective` is not 0.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _pfslib_open(
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
    io_mode: c_int,
    size: c_int,
    rank: c_int,
    is_collective: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe {
        opening::open_subgroup(name, flags, mode, io_mode, size, rank, is_collective != 0)
    })
}

/// Closes a descriptor, of a shared file or any other.
#[unsafe(no_mangle)]
pub extern "C" fn pfslib_close(fd: c_int) -> c_int {
    return_errno(|| {
        if descriptors::close(fd)? {
            return Ok(0);
        }
        // SAFETY: the descriptor belongs to the caller.
        plain_files::with_pfslib_errno(plain_files::check_int(unsafe { libc::close(fd) }))
    })
}

/// Moves the pointer of a descriptor, of a shared file or any other.
#[unsafe(no_mangle)]
pub extern "C" fn pfslib_lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t {
    return_errno(|| {
        if let Some(open) = descriptors::find(fd)? {
            let _pointer = inheritance::take_pointer(fd, &open)?;
            return shared_io::seek(&open, offset, whence);
        }
        // SAFETY: the call takes no memory.
        let at = unsafe { libc::lseek(fd, offset, whence) };
        if at < 0 {
            plain_files::with_pfslib_errno(Err(ErrnoError::last_os_error()))
        } else {
            Ok(at)
        }
    })
}

/// Sets rank, size and the cluster's address. Prints the error and ends the process on failure.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfslib_init(host: *const c_char, size: c_int, rank: c_int) {
    // SAFETY: the caller guarantees it.
    exit_on_error("pfslib_init", || unsafe { init(host, size, rank) });
}

/// Does the same as `pfslib_init`. The thresholds are ignored: started requests never wait, and
/// there is no daemon to choose.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _pfslib_init(
    host: *const c_char,
    size: c_int,
    rank: c_int,
    _server_threshold: c_int,
    _client_threshold: c_int,
) {
    // SAFETY: the caller guarantees it.
    exit_on_error("_pfslib_init", || unsafe { init(host, size, rank) });
}

/// Prints the text, then the description of `errno`, on standard error.
///
/// # Safety
/// `text` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pfslib_perror(text: *const c_char) {
    let message = errors::last_error_message();
    if text.is_null() {
        errors::print_line(&message);
    } else {
        // SAFETY: it is not null, and the caller guarantees a NUL at its end.
        let text = unsafe { std::ffi::CStr::from_ptr(text) };
        errors::print_line(&format!("{}: {message}", text.to_string_lossy()));
    }
}

unsafe fn init(host: *const c_char, size: c_int, rank: c_int) -> CallResult<()> {
    // SAFETY: the caller guarantees it.
    let host = if host.is_null() { Ok(String::new()) } else { unsafe { names::from_c(host) } };
    let host = host.unwrap_or_default();
    process::init(&host, size, rank)
}

unsafe fn transfer_one(
    fd: c_int,
    memory: *mut c_void,
    len: c_uint,
    is_write: bool,
) -> CallResult<c_long> {
    // SAFETY: the caller guarantees that many bytes.
    let pieces = unsafe { CallerBuffers::single(memory, len as usize) };
    let Some(open) = descriptors::find(fd)? else {
        drop(pieces?);
        // SAFETY: the caller guarantees that many bytes.
        let moved = unsafe { plain_files::transfer(fd, memory, len as usize, is_write) };
        return plain_files::with_pfslib_errno(moved).and_then(long);
    };
    let pieces = requests::check_limit().and(pieces);
    let moved =
        if is_write { shared_io::write(&open, pieces) } else { shared_io::read(&open, pieces) };
    moved.and_then(long)
}

unsafe fn transfer_vectored(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    is_write: bool,
) -> CallResult<c_long> {
    // SAFETY: the caller guarantees `count` buffers.
    let pieces = unsafe { CallerBuffers::vectored(list, count) };
    let Some(open) = descriptors::find(fd)? else {
        drop(pieces?);
        // SAFETY: as above.
        let moved = unsafe { plain_files::transfer_vectored(fd, list, count, is_write) };
        return plain_files::with_pfslib_errno(moved).and_then(long);
    };
    let pieces = requests::check_limit().and(pieces);
    let moved =
        if is_write { shared_io::write(&open, pieces) } else { shared_io::read(&open, pieces) };
    moved.and_then(long)
}

unsafe fn len_of(list: *const iovec, count: c_int) -> CallResult<i64> {
    // SAFETY: the caller guarantees `count` buffers.
    let pieces = unsafe { CallerBuffers::vectored(list, count) }?;
    long(pieces.len())
}

fn check_all(moved: c_long, wanted: i64) -> CallResult<()> {
    if moved < wanted {
        return Err(ErrnoError::new(
            EPFSLNBYTES,
            format!("{moved} of {wanted} bytes were transferred"),
        ));
    }
    Ok(())
}

/// Starts a request. On a plain descriptor it is complete at once.
fn start(fd: c_int, pieces: CallResult<CallerBuffers>, is_write: bool) -> CallResult<c_long> {
    let slot = requests::reserve().map_err(|failed| shared_io::fail_start(fd, failed))?;
    requests::start(slot, fd, |id| {
        let Some(open) = descriptors::find(fd)? else {
            let mut pieces = pieces?;
            let moved = if is_write {
                let bytes = pieces.gather();
                // SAFETY: `bytes` is a valid slice, and it is only read.
                unsafe {
                    plain_files::transfer(fd, bytes.as_ptr().cast_mut().cast(), bytes.len(), true)
                }
            } else {
                pieces.fill(|bytes| {
                    // SAFETY: `bytes` is a valid slice.
                    unsafe {
                        plain_files::transfer(fd, bytes.as_mut_ptr().cast(), bytes.len(), false)
                    }
                })
            };
            let moved = plain_files::with_pfslib_errno(moved);
            return moved.map(|_| (StartedIo::Over(Ok(())), None));
        };
        let len = pieces.as_ref().map_or(0, CallerBuffers::len) as u64;
        let started = match is_write {
            true => shared_io::start_write(&open, pieces),
            false => shared_io::start_read(&open, pieces),
        }?;
        let shown = open.file()?.show_request(id.unsigned_abs(), is_write, len);
        Ok((started, shown))
    })
}

fn is_at_end(fd: c_int) -> CallResult<bool> {
    let Some(open) = descriptors::find(fd)? else {
        return plain_files::with_pfslib_errno(plain_files::is_at_end(fd));
    };
    requests::wait_for_file(fd);
    open.file()?.is_at_end().in_call(ErrnoContext::Other)
}

fn iomode_of(fd: c_int) -> CallResult<c_long> {
    let open = descriptors::require(fd)?;
    Ok(open.file()?.mode().number().into())
}

fn set_iomode(fd: c_int, io_mode: c_int) -> CallResult<c_long> {
    let open = descriptors::require(fd)?;
    let io_mode =
        opening::mode_of(io_mode).inspect_err(|failed| shared_io::fail_set_mode(&open, failed))?;
    shared_io::set_mode(&open, io_mode)?;
    Ok(0)
}

fn grow(fd: c_int, offset: off_t, whence: c_int) -> CallResult<c_long> {
    match descriptors::find(fd)? {
        Some(open) => shared_io::grow(&open, offset, whence),
        None => plain_files::with_pfslib_errno(plain_files::grow(fd, offset, whence)),
    }
}

fn long(count: usize) -> CallResult<c_long> {
    c_long::try_from(count).map_err(|_| {
        ErrnoError::new(libc::EOVERFLOW, format!("{count} bytes do not fit into a long"))
    })
}

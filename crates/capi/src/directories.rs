//! Directory streams (`DIR`) over shared directories: `opendir`, `readdir` and the calls around
//! them.
//!
//! A stream of this library and one of the system have the same type in C. The table of streams
//! tells them apart by their address; a process without such streams takes no lock for that.

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{DIR, c_char, c_int, c_long, dirent};
use pario::{Cluster, FileKind, FileRecord, Listing};
use parking_lot::Mutex;

use crate::boundary::return_errno;
use crate::errors::{CallResult, EPFSLFORK, ErrnoContext, ErrnoError, IntoCallResult};
use crate::{by_name, descriptors, file_status, opening};

/// A stream over a shared directory.
#[derive(Debug)]
struct DirectoryStream {
    cluster: Cluster,
    /// The process that has the connection to the cluster.
    process: u32,
    path: String,
    fd: c_int,
    /// The record of the directory itself.
    record: FileRecord,
    listing: Listing,
    /// The entries returned so far, `.` and `..` included.
    position: c_long,
    /// The entry that the last call returned. The caller uses it until the next call.
    entry: Box<dirent>,
}

// SAFETY: `dirent` has no pointers; the listing is used under the lock of the stream.
unsafe impl Send for DirectoryStream {}

static STREAMS: Mutex<Option<HashMap<usize, Arc<Mutex<DirectoryStream>>>>> = Mutex::new(None);
static STREAM_COUNT: AtomicUsize = AtomicUsize::new(0);

/// `opendir`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_opendir(name: *const c_char) -> *mut DIR {
    let plain = |own: &CStr| {
        // SAFETY: a `CStr` is NUL-terminated.
        let stream = unsafe { libc::opendir(own.as_ptr()) };
        if stream.is_null() { Err(ErrnoError::last_os_error()) } else { Ok(stream) }
    };
    let shared = |_: &Cluster, path: &str| {
        let fd = opening::open_directory(path.to_owned(), libc::O_RDONLY | libc::O_DIRECTORY)?;
        open_stream(fd).inspect_err(|_| {
            // The error of the listing says more than that of the close.
            let _ = descriptors::close(fd);
        })
    };
    // SAFETY: the caller guarantees it.
    return_errno(|| unsafe { by_name::by_name(libc::AT_FDCWD, name, plain, shared) })
}

/// `fdopendir`. The stream owns the descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn pario_fdopendir(fd: c_int) -> *mut DIR {
    return_errno(|| {
        if descriptors::find(fd)?.is_some() {
            return open_stream(fd);
        }
        // SAFETY: the call takes no memory.
        let stream = unsafe { libc::fdopendir(fd) };
        if stream.is_null() { Err(ErrnoError::last_os_error()) } else { Ok(stream) }
    })
}

/// `readdir`: the next entry, or null at the end, where `errno` stays as it is.
///
/// # Safety
/// `stream` comes from `pario_opendir` or `pario_fdopendir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_readdir(stream: *mut DIR) -> *mut dirent {
    let Some(open) = find(stream) else {
        // SAFETY: the caller guarantees a stream, which is the system's.
        return unsafe { libc::readdir(stream) };
    };
    // SAFETY: the address is that of this thread's `errno`, which lives as long as the thread.
    let before = unsafe { *libc::__errno_location() };
    return_errno(|| {
        let mut open = open.lock();
        if open.advance()? {
            return Ok(std::ptr::from_mut(&mut *open.entry));
        }
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = before };
        Ok(std::ptr::null_mut())
    })
}

/// `closedir`.
///
/// # Safety
/// `stream` comes from `pario_opendir` or `pario_fdopendir`, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_closedir(stream: *mut DIR) -> c_int {
    let closed = STREAMS.lock().as_mut().and_then(|streams| streams.remove(&stream.addr()));
    let Some(closed) = closed else {
        // SAFETY: the caller guarantees a stream, which is the system's.
        return unsafe { libc::closedir(stream) };
    };
    STREAM_COUNT.fetch_sub(1, Ordering::Relaxed);
    return_errno(|| descriptors::close(closed.lock().fd).map(|_| 0))
}

/// `rewinddir`.
///
/// # Safety
/// `stream` comes from `pario_opendir` or `pario_fdopendir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_rewinddir(stream: *mut DIR) {
    match find(stream) {
        Some(open) => return_errno(|| open.lock().seek(0)),
        // SAFETY: the caller guarantees a stream, which is the system's.
        None => unsafe { libc::rewinddir(stream) },
    }
}

/// `telldir`: the number of entries before the next one.
///
/// # Safety
/// `stream` comes from `pario_opendir` or `pario_fdopendir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_telldir(stream: *mut DIR) -> c_long {
    match find(stream) {
        Some(open) => open.lock().position,
        // SAFETY: the caller guarantees a stream, which is the system's.
        None => unsafe { libc::telldir(stream) },
    }
}

/// `seekdir`.
///
/// # Safety
/// `stream` comes from `pario_opendir` or `pario_fdopendir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_seekdir(stream: *mut DIR, position: c_long) {
    match find(stream) {
        Some(open) => return_errno(|| open.lock().seek(position)),
        // SAFETY: the caller guarantees a stream, which is the system's.
        None => unsafe { libc::seekdir(stream, position) },
    }
}

/// `dirfd`.
///
/// # Safety
/// `stream` comes from `pario_opendir` or `pario_fdopendir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pario_dirfd(stream: *mut DIR) -> c_int {
    match find(stream) {
        Some(open) => open.lock().fd,
        // SAFETY: the caller guarantees a stream, which is the system's.
        None => unsafe { libc::dirfd(stream) },
    }
}

/// Returns whether a stream is that of a shared directory.
#[unsafe(no_mangle)]
pub extern "C" fn pario_is_shared_stream(stream: *const DIR) -> c_int {
    find(stream.cast_mut()).is_some().into()
}

fn find(stream: *mut DIR) -> Option<Arc<Mutex<DirectoryStream>>> {
    if STREAM_COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    STREAMS.lock().as_ref().and_then(|streams| streams.get(&stream.addr()).cloned())
}

/// Opens a stream over the descriptor of a shared directory.
fn open_stream(fd: c_int) -> CallResult<*mut DIR> {
    let open = descriptors::require(fd)?;
    if !open.is_directory() {
        let why = format!("{}: it is not a directory", open.path);
        return Err(ErrnoError::new(libc::ENOTDIR, why));
    }
    let (cluster, path) = (open.files.cluster().clone(), open.path.clone());
    let record = cluster.record(&path).in_call(ErrnoContext::Open)?;
    let listing = cluster.list_names(&path).in_call(ErrnoContext::Open)?;
    // SAFETY: all-zero bytes are a valid `struct dirent`.
    let entry = Box::new(unsafe { std::mem::zeroed::<dirent>() });
    let (process, position) = (std::process::id(), 0);
    let stream = DirectoryStream { cluster, process, path, fd, record, listing, position, entry };
    let stream = Arc::new(Mutex::new(stream));
    let address = Arc::as_ptr(&stream).cast::<DIR>().cast_mut();
    STREAMS.lock().get_or_insert_default().insert(address.addr(), stream);
    STREAM_COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(address)
}

impl DirectoryStream {
    /// Stores the next entry. Returns false at the end.
    fn advance(&mut self) -> CallResult<bool> {
        self.check_process()?;
        let (name, record) = match self.position {
            0 => (".".to_owned(), self.record.clone()),
            1 => ("..".to_owned(), self.parent()),
            _ => match self.listing.next() {
                Some(listed) => {
                    let listed = listed.in_call(ErrnoContext::Open)?;
                    (listed.name, listed.record)
                }
                None => return Ok(false),
            },
        };
        self.position += 1;
        self.store(&name, &record);
        Ok(true)
    }

    /// Fails in a process that was forked from the one that opened the stream.
    fn check_process(&self) -> CallResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let why = "the parent of this process has opened the directory: open it again";
        Err(ErrnoError::new(EPFSLFORK, format!("{}: {why}", self.path)))
    }

    /// Returns the record of the directory above; of this one if this user may not see that.
    fn parent(&self) -> FileRecord {
        let above = self.path.rsplit_once('/').map_or("/", |(above, _)| above);
        let above = if above.is_empty() { "/" } else { above };
        self.cluster.record(above).unwrap_or_else(|_| self.record.clone())
    }

    fn store(&mut self, name: &str, record: &FileRecord) {
        let entry = &mut *self.entry;
        entry.d_ino = file_status::inode_of(record);
        entry.d_off = self.position;
        entry.d_reclen = u16::try_from(size_of::<dirent>()).unwrap_or(u16::MAX);
        entry.d_type = match record.kind {
            FileKind::Directory => libc::DT_DIR,
            FileKind::Flat | FileKind::Extents => libc::DT_REG,
        };
        // A name has at most 255 bytes, so the last byte stays 0.
        entry.d_name = [0; 256];
        for (to, byte) in entry.d_name.iter_mut().take(255).zip(name.bytes()) {
            *to = c_char::from_ne_bytes([byte]);
        }
    }

    /// Makes the entry with this number the next one.
    fn seek(&mut self, position: c_long) -> CallResult<()> {
        if position == self.position {
            return Ok(());
        }
        self.check_process()?;
        self.listing = self.cluster.list_names(&self.path).in_call(ErrnoContext::Open)?;
        self.position = 0;
        while self.position < position && self.advance()? {}
        Ok(())
    }
}

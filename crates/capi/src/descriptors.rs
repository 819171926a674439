//! Which descriptors are shared files.
//!
//! A shared file has a descriptor of the kernel, so that its number is nobody else's: one through
//! which nothing can be read or written, so that a call which did not come here fails and is noticed.
//! Whether a number is one of ours is asked without locks, since every call of a preloaded program
//! asks it.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::c_int;
use pario::{Group, SharedFile};
use parking_lot::{Mutex, RwLock};
use rustix::fs::{Mode, OFlags};

use crate::errors::{CallError, CallKind, CallResult, EPFSLBADF, EPFSLMFILE, IntoCallResult};
use crate::{process, record_locks};

/// A shared file that is open.
#[derive(Debug)]
pub struct OpenFile {
    /// Its path in the cluster.
    pub path: String,
    /// The flags of the open.
    pub flags: c_int,
    /// Those who share it.
    pub group: Group,
    /// Where the last bytes end that were appended while it was this process' own.
    pub appended: Mutex<u64>,
    /// Whether a request was started: the first one makes a thread.
    has_started: AtomicBool,
    handle: RwLock<Option<FileHandle>>,
}

/// How it is open.
#[derive(Clone, Debug)]
pub struct FileHandle {
    /// The file.
    pub file: Arc<SharedFile>,
    /// Whether this process has it open for itself; the others come when they set a mode.
    pub is_single: bool,
}

/// One past the largest number that a descriptor of a shared file can have.
const DESCRIPTOR_LIMIT: usize = 1 << 20;

static SHARED_BITS: [AtomicU64; DESCRIPTOR_LIMIT / 64] =
    [const { AtomicU64::new(0) }; DESCRIPTOR_LIMIT / 64];
static FILES: Mutex<Option<HashMap<c_int, Arc<OpenFile>>>> = Mutex::new(None);

/// Gives a file its descriptor.
pub fn add(open: OpenFile) -> CallResult<c_int> {
    let full = |text: &str| CallError::new(EPFSLMFILE, format!("{}: {text}", open.path));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let held = match rustix::fs::open("/dev/null", flags, Mode::empty()) {
        Ok(held) => held,
        Err(rustix::io::Errno::MFILE) => return Err(full("this process has no descriptors left")),
        Err(rustix::io::Errno::NFILE) => return Err(full("the system has no descriptors left")),
        Err(errno) => return Err(errno.into()),
    };
    let number = held.into_raw_fd();
    if bit_of(number).is_none() {
        close_placeholder(number);
        return Err(full("its descriptor would be too large"));
    }
    // A number that is in use here was closed behind our back.
    let before = FILES.lock().get_or_insert_default().insert(number, Arc::new(open));
    drop(before);
    set_shared(number, true);
    Ok(number)
}

/// The shared file of a descriptor; none if it is something else.
pub fn find(fd: c_int) -> CallResult<Option<Arc<OpenFile>>> {
    if !is_shared(fd) {
        return Ok(None);
    }
    process::check_fork()?;
    if !is_placeholder_open(fd) {
        // Closed behind our back; the number may be another file's.
        set_shared(fd, false);
        let closed = FILES.lock().as_mut().and_then(|files| files.remove(&fd));
        drop(closed);
        return Ok(None);
    }
    Ok(FILES.lock().as_ref().and_then(|files| files.get(&fd).cloned()))
}

/// The shared file of a descriptor; an error if it is something else.
pub fn require(fd: c_int) -> CallResult<Arc<OpenFile>> {
    find(fd)?
        .ok_or_else(|| CallError::new(EPFSLBADF, format!("{fd} is no descriptor of a shared file")))
}

/// Closes the shared file of a descriptor, if it is one, and says whether it was.
pub fn close(fd: c_int) -> CallResult<bool> {
    if is_shared(fd) && process::check_fork().is_err() {
        // The file is the other process'.
        set_shared(fd, false);
        close_placeholder(fd);
        return Ok(true);
    }
    let Some(open) = find(fd)? else { return Ok(false) };
    let file = open.take()?;
    FILES.lock().as_mut().and_then(|files| files.remove(&fd));
    record_locks::release_all(&file);
    let closed = file.close().in_call(CallKind::Other);
    set_shared(fd, false);
    close_placeholder(fd);
    closed.map(|()| true)
}

/// Whether a number is that of a shared file, as far as is known here.
pub fn is_shared(fd: c_int) -> bool {
    bit_of(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

impl OpenFile {
    /// A file that was opened.
    pub fn new(path: String, flags: c_int, group: Group, handle: FileHandle) -> Self {
        let handle = RwLock::new(Some(handle));
        let (appended, has_started) = (Mutex::default(), AtomicBool::new(false));
        Self { path, flags, group, appended, has_started, handle }
    }

    /// How it is open now.
    pub fn handle(&self) -> CallResult<FileHandle> {
        let closed = || CallError::new(EPFSLBADF, format!("{}: it is being closed", self.path));
        self.handle.read().clone().ok_or_else(closed)
    }

    /// The file.
    pub fn file(&self) -> CallResult<Arc<SharedFile>> {
        self.handle().map(|handle| handle.file)
    }

    /// From now on it is open in another way.
    pub fn replace(&self, handle: FileHandle) -> Option<FileHandle> {
        self.has_started.store(false, Ordering::Relaxed);
        self.handle.write().replace(handle)
    }

    /// Starts a request. The first one makes a thread, and waits for nobody; others may have to wait
    /// for other processes.
    pub fn start_request<T>(&self, start: impl FnOnce() -> T) -> T {
        if self.has_started.swap(true, Ordering::Relaxed) {
            start()
        } else {
            process::with_signals_blocked(start)
        }
    }

    /// The file, for its end.
    fn take(&self) -> CallResult<SharedFile> {
        let mut shared = self.handle.write();
        let Some(FileHandle { file, is_single }) = shared.take() else {
            return Err(CallError::new(EPFSLBADF, format!("{}: it is being closed", self.path)));
        };
        Arc::try_unwrap(file).map_err(|file| {
            *shared = Some(FileHandle { file, is_single });
            CallError::new(libc::EBUSY, format!("{}: another thread uses it", self.path))
        })
    }
}

fn bit_of(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    SHARED_BITS.get(number / 64).map(|word| (word, 1 << (number % 64)))
}

fn set_shared(fd: c_int, yes: bool) {
    if let Some((word, bit)) = bit_of(fd) {
        if yes {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// Whether the kernel still has what was put there.
fn is_placeholder_open(fd: c_int) -> bool {
    // SAFETY: the number is only looked at: whatever it is, it is not closed here.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::fs::fcntl_getfl(borrowed).is_ok_and(|flags| flags.contains(OFlags::PATH))
}

fn close_placeholder(fd: c_int) {
    // SAFETY: the number is that of a descriptor which was made here and given to nobody but the
    // caller, who is closing it.
    unsafe { rustix::io::close(fd) };
}

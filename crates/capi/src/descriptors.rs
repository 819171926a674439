//! Descriptors of shared files.
//!
//! Each shared file occupies a kernel descriptor (an O_PATH placeholder), so that no other file
//! gets its number. Reads and writes through the placeholder fail, so a call that bypasses this
//! library is noticed. Testing whether a number is that of a shared file takes no lock, because
//! every call of a preloaded program does it.

use std::collections::HashMap;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::c_int;
use pario::{JobFiles, SharedFile};
use parking_lot::{Mutex, RwLock};
use rustix::fs::{Mode, OFlags};

use crate::errors::{CallResult, EPFSLBADF, EPFSLMFILE, ErrnoContext, ErrnoError, IntoCallResult};
use crate::{misdirected_calls, process, record_locks};

/// An open shared file.
#[derive(Debug)]
pub struct DescriptorEntry {
    /// The path in the cluster.
    pub path: String,
    /// The flags of the open.
    pub flags: c_int,
    /// The processes that share it.
    pub files: JobFiles,
    /// Whether a request was started: the first one creates a thread.
    has_started: AtomicBool,
    handle: RwLock<Option<FileHandle>>,
    /// Whether it is a directory, which has no handle.
    is_directory: bool,
}

/// How a shared file is open.
#[derive(Clone, Debug)]
pub struct FileHandle {
    /// The file.
    pub file: Arc<SharedFile>,
    /// Whether only this process has it open so far. The others join with `setiomode`.
    pub is_single: bool,
}

/// Limit of descriptor numbers of shared files.
const DESCRIPTOR_LIMIT: usize = 1 << 20;
const BEYOND_LIMIT: &str = "the descriptor number is beyond the limit of 1048576";

static SHARED_BITS: [AtomicU64; DESCRIPTOR_LIMIT / 64] =
    [const { AtomicU64::new(0) }; DESCRIPTOR_LIMIT / 64];
static FILES: Mutex<Option<HashMap<c_int, Arc<DescriptorEntry>>>> = Mutex::new(None);

/// A descriptor for a shared file that is being opened.
#[derive(Debug)]
pub struct Placeholder(OwnedFd);

/// Takes a descriptor for the file of a path. Fails if none is left.
pub fn reserve(path: &str) -> CallResult<Placeholder> {
    let full = |text: &str| ErrnoError::new(EPFSLMFILE, format!("{path}: {text}"));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let held = match rustix::fs::open("/dev/null", flags, Mode::empty()) {
        Ok(held) => held,
        Err(rustix::io::Errno::MFILE) => {
            return Err(full(
                "this process has no descriptor left: close files, or raise `ulimit -n`",
            ));
        }
        Err(rustix::io::Errno::NFILE) => {
            return Err(full("the system has no descriptor left (fs.file-max)"));
        }
        Err(errno) => return Err(errno.into()),
    };
    if bit_of(held.as_raw_fd()).is_none() {
        return Err(full(BEYOND_LIMIT));
    }
    Ok(Placeholder(held))
}

/// Gives a file or directory its descriptor.
pub fn add(placeholder: Placeholder, open: DescriptorEntry) -> c_int {
    register(placeholder.0.into_raw_fd(), Arc::new(open))
}

/// Gives an open file or directory a second descriptor, the lowest free one from `minimum` on. Both
/// share everything; the file is closed with the last one.
pub fn duplicate(fd: c_int, open: &Arc<DescriptorEntry>, minimum: c_int) -> CallResult<c_int> {
    // SAFETY: the call takes no memory.
    let number = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, minimum) };
    if number < 0 {
        return Err(ErrnoError::last_os_error().with_name(&open.path));
    }
    if bit_of(number).is_none() {
        close_placeholder(number);
        return Err(ErrnoError::new(EPFSLMFILE, format!("{}: {BEYOND_LIMIT}", open.path)));
    }
    Ok(register(number, open.clone()))
}

/// Gives an open file or directory a second descriptor with a given number. A file that has the
/// number is closed.
pub fn duplicate_to(fd: c_int, open: &Arc<DescriptorEntry>, number: c_int) -> CallResult<c_int> {
    if bit_of(number).is_none() {
        let why = format!("{}: {number} is no number of a descriptor", open.path);
        return Err(ErrnoError::new(libc::EBADF, why));
    }
    // As with the system, an error of this close is lost.
    let _ = close(number);
    // SAFETY: the call takes no memory.
    if unsafe { libc::dup3(fd, number, libc::O_CLOEXEC) } < 0 {
        return Err(ErrnoError::last_os_error().with_name(&open.path));
    }
    Ok(register(number, open.clone()))
}

/// Records the file or directory of a placeholder.
fn register(number: c_int, open: Arc<DescriptorEntry>) -> c_int {
    // An entry with this number was closed without this library.
    let before = FILES.lock().get_or_insert_default().insert(number, open);
    drop(before);
    set_shared(number, true);
    number
}

/// Returns the shared file of a descriptor; none if it is not one.
pub fn find(fd: c_int) -> CallResult<Option<Arc<DescriptorEntry>>> {
    if !is_shared(fd) {
        return Ok(None);
    }
    process::check_fork()?;
    if !is_placeholder_open(fd) {
        // Closed without this library: the number may belong to another file now.
        set_shared(fd, false);
        let closed = FILES.lock().as_mut().and_then(|files| files.remove(&fd));
        drop(closed);
        return Ok(None);
    }
    Ok(FILES.lock().as_ref().and_then(|files| files.get(&fd).cloned()))
}

/// Returns the shared file of a descriptor. Fails if it is not one.
pub fn require(fd: c_int) -> CallResult<Arc<DescriptorEntry>> {
    find(fd)?.ok_or_else(|| {
        ErrnoError::new(EPFSLBADF, format!("descriptor {fd} is not that of a shared file"))
    })
}

/// Returns the open shared files and directories, each once.
pub fn open_files() -> Vec<Arc<DescriptorEntry>> {
    let mut files: Vec<Arc<DescriptorEntry>> = Vec::new();
    for open in FILES.lock().iter().flat_map(HashMap::values) {
        if !files.iter().any(|known| Arc::ptr_eq(known, open)) {
            files.push(open.clone());
        }
    }
    files
}

/// Closes the shared file of a descriptor. Returns false if it is not one.
pub fn close(fd: c_int) -> CallResult<bool> {
    if is_shared(fd) && process::check_fork().is_err() {
        // The file belongs to the parent: only the placeholder is closed.
        set_shared(fd, false);
        close_placeholder(fd);
        return Ok(true);
    }
    let Some(open) = find(fd)? else { return Ok(false) };
    if open.is_directory || has_other_number(fd, &open) {
        if let Ok(file) = open.file() {
            // The close of any descriptor of a file releases all locks of the process.
            record_locks::release_all(&file);
        }
        FILES.lock().as_mut().and_then(|files| files.remove(&fd));
        set_shared(fd, false);
        close_placeholder(fd);
        return Ok(true);
    }
    let file = open.take()?;
    FILES.lock().as_mut().and_then(|files| files.remove(&fd));
    record_locks::release_all(&file);
    let closed = misdirected_calls::while_waiting(|| file.close()).in_call(ErrnoContext::Other);
    set_shared(fd, false);
    close_placeholder(fd);
    closed.map(|()| true)
}

/// Returns whether an open file has a second descriptor.
fn has_other_number(fd: c_int, open: &Arc<DescriptorEntry>) -> bool {
    let is_other = |(number, known): (&c_int, &Arc<DescriptorEntry>)| {
        *number != fd && Arc::ptr_eq(known, open)
    };
    FILES.lock().as_ref().is_some_and(|files| files.iter().any(is_other))
}

/// Returns whether a number is that of a shared file. A descriptor that was closed without this
/// library still counts.
pub fn is_shared(fd: c_int) -> bool {
    bit_of(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

impl DescriptorEntry {
    /// Creates the entry of a file that was opened.
    pub fn new(path: String, flags: c_int, files: JobFiles, handle: FileHandle) -> Self {
        let handle = RwLock::new(Some(handle));
        let has_started = AtomicBool::new(false);
        Self { path, flags, files, has_started, handle, is_directory: false }
    }

    /// Creates the entry of a directory.
    pub fn directory(path: String, flags: c_int, files: JobFiles) -> Self {
        let (has_started, handle) = (AtomicBool::new(false), RwLock::new(None));
        Self { path, flags, files, has_started, handle, is_directory: true }
    }

    /// Returns whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Returns how the file is open. Fails while it is being closed, and for a directory.
    pub fn handle(&self) -> CallResult<FileHandle> {
        if self.is_directory {
            return Err(ErrnoError::new(libc::EISDIR, format!("{}: it is a directory", self.path)));
        }
        let closed =
            || ErrnoError::new(EPFSLBADF, format!("{}: another thread is closing it", self.path));
        self.handle.read().clone().ok_or_else(closed)
    }

    /// Returns the file.
    pub fn file(&self) -> CallResult<Arc<SharedFile>> {
        self.handle().map(|handle| handle.file)
    }

    /// Replaces how the file is open. Returns the former handle.
    pub fn replace(&self, handle: FileHandle) -> Option<FileHandle> {
        self.has_started.store(false, Ordering::Relaxed);
        self.handle.write().replace(handle)
    }

    /// Starts a request. The first one creates a thread and does not wait, so signals can be
    /// blocked. Later ones may wait for other processes.
    pub fn start_request<T>(&self, start: impl FnOnce() -> T) -> T {
        if self.has_started.swap(true, Ordering::Relaxed) {
            start()
        } else {
            process::with_signals_blocked(start)
        }
    }

    /// Takes the file out for closing. Fails while another thread uses it.
    fn take(&self) -> CallResult<SharedFile> {
        let mut shared = self.handle.write();
        let Some(FileHandle { file, is_single }) = shared.take() else {
            return Err(ErrnoError::new(
                EPFSLBADF,
                format!("{}: another thread is closing it", self.path),
            ));
        };
        Arc::try_unwrap(file).map_err(|file| {
            *shared = Some(FileHandle { file, is_single });
            ErrnoError::new(libc::EBUSY, format!("{}: another thread is using it", self.path))
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

/// Returns whether the descriptor is still this library's placeholder.
fn is_placeholder_open(fd: c_int) -> bool {
    // SAFETY: the descriptor is only inspected, never closed here.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::fs::fcntl_getfl(borrowed).is_ok_and(|flags| flags.contains(OFlags::PATH))
}

fn close_placeholder(fd: c_int) {
    // SAFETY: this module created the descriptor and gave it only to the caller, who is closing it.
    unsafe { rustix::io::close(fd) };
}

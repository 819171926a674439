//! Descriptors of shared files.
//!
//! Each shared file occupies a kernel descriptor (a placeholder), so that no other file gets its
//! number. Reads and writes through the placeholder fail, so a call that bypasses this library is
//! noticed. [`inheritance`] has the placeholders that other processes inherit. Testing whether a number
//! is that of a shared file takes no lock, because every call of a preloaded program does it.

use std::collections::HashMap;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::c_int;
use pario::{JobFiles, SharedFile};
use parking_lot::{Mutex, RwLock};
use rustix::fs::{Mode, OFlags};

use crate::errors::{CallResult, EPFSLBADF, EPFSLMFILE, ErrnoContext, ErrnoError, IntoCallResult};
use crate::inheritance::{InheritableFile, PointerSharing};
use crate::{inheritance, process, record_locks};

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
    /// Whether other processes share its pointer.
    pub pointer: PointerSharing,
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

/// Takes a descriptor for a file that is opened with some flags. Fails if none is left.
pub fn reserve(file: &InheritableFile, flags: c_int) -> CallResult<Placeholder> {
    let full = |text: &str| ErrnoError::new(EPFSLMFILE, format!("{}: {text}", file.path));
    let held = match inheritance::is_on() {
        true => inheritance::placeholder(file, flags & libc::O_CLOEXEC != 0),
        false => {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            rustix::fs::open("/dev/null", flags, Mode::empty()).map_err(std::io::Error::from)
        }
    };
    let held = held.map_err(|error| match error.raw_os_error() {
        Some(libc::EMFILE) => {
            full("this process has no descriptor left: close files, or raise `ulimit -n`")
        }
        Some(libc::ENFILE) => full("the system has no descriptor left (fs.file-max)"),
        Some(number) => ErrnoError::new(number, format!("{}: {error}", file.path)),
        None => ErrnoError::new(libc::EIO, format!("{}: {error}", file.path)),
    })?;
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
pub fn duplicate(
    fd: c_int,
    open: &Arc<DescriptorEntry>,
    minimum: c_int,
    is_closed_on_exec: bool,
) -> CallResult<c_int> {
    let is_inheritable = prepare_inheritance(fd, open, is_closed_on_exec);
    let command = if is_inheritable { libc::F_DUPFD } else { libc::F_DUPFD_CLOEXEC };
    // SAFETY: the call takes no memory.
    let number = unsafe { libc::fcntl(fd, command, minimum) };
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
pub fn duplicate_to(
    fd: c_int,
    open: &Arc<DescriptorEntry>,
    number: c_int,
    is_closed_on_exec: bool,
) -> CallResult<c_int> {
    if bit_of(number).is_none() {
        let why = format!("{}: {number} is no number of a descriptor", open.path);
        return Err(ErrnoError::new(libc::EBADF, why));
    }
    // As with the system, an error of this close is lost.
    let _ = close(number);
    let is_inheritable = prepare_inheritance(fd, open, is_closed_on_exec);
    let flags = if is_inheritable { 0 } else { libc::O_CLOEXEC };
    // SAFETY: the call takes no memory.
    if unsafe { libc::dup3(fd, number, flags) } < 0 {
        return Err(ErrnoError::last_os_error().with_name(&open.path));
    }
    Ok(register(number, open.clone()))
}

/// Sets or clears the flag that closes a descriptor on exec.
pub fn set_closed_on_exec(fd: c_int, open: &DescriptorEntry, wanted: bool) -> CallResult<()> {
    let is_inheritable = prepare_inheritance(fd, open, wanted);
    let flags = if is_inheritable { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: the call takes no memory.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, flags) } {
        ..0 => Err(ErrnoError::last_os_error().with_name(&open.path)),
        _ => Ok(()),
    }
}

/// Returns whether a descriptor that is not closed on exec can be inherited; it shares its pointer
/// from then on.
fn prepare_inheritance(fd: c_int, open: &DescriptorEntry, is_closed_on_exec: bool) -> bool {
    let is_inheritable = inheritance::is_on() && !is_closed_on_exec;
    if is_inheritable {
        inheritance::share_pointer(fd, open);
    }
    is_inheritable
}

/// Records a descriptor that this process has inherited; its file is opened when it is used.
pub fn mark_inherited(fd: c_int) {
    set_shared(fd, true);
}

/// Keeps other threads from the table of files until the fork is over, and shares the pointers of
/// all files with the child.
pub fn lock_before_fork() {
    let files = FILES.lock();
    for (fd, open) in files.iter().flatten() {
        inheritance::share_pointer(*fd, open);
    }
    std::mem::forget(files);
}

/// Releases the table of files. In the child it is empty: the child opens the files that it uses.
///
/// # Safety
/// This thread called [`lock_before_fork`] before the fork, and has not called this since.
pub unsafe fn unlock_after_fork(is_child: bool) {
    // SAFETY: this thread has the lock; its guard was forgotten.
    let mut files = unsafe { FILES.make_guard_unchecked() };
    if is_child {
        // They belong to the parent: closing them here would send messages on its connections.
        std::mem::forget(files.take());
    }
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
    let known = FILES.lock().as_ref().and_then(|files| files.get(&fd).cloned());
    if known.is_some() || !inheritance::is_on() {
        return Ok(known);
    }
    let open = Arc::new(inheritance::open(fd)?);
    register(fd, open.clone());
    Ok(Some(open))
}

/// Returns whether this process has inherited a descriptor and not used it yet.
pub fn is_unused(fd: c_int) -> bool {
    let is_known = || FILES.lock().as_ref().is_some_and(|files| files.contains_key(&fd));
    inheritance::is_on() && is_shared(fd) && is_placeholder_open(fd) && !is_known()
}

/// Returns the shared file of a descriptor. Fails if it is not one.
pub fn require(fd: c_int) -> CallResult<Arc<DescriptorEntry>> {
    find(fd)?.ok_or_else(|| {
        ErrnoError::new(EPFSLBADF, format!("descriptor {fd} is not that of a shared file"))
    })
}

/// Makes a system call that duplicates a descriptor which this process has inherited and not used:
/// nor does it use the duplicate.
pub fn duplicate_unused(duplicate: impl FnOnce() -> c_int) -> CallResult<c_int> {
    match duplicate() {
        ..0 => Err(ErrnoError::last_os_error()),
        number => {
            set_shared(number, true);
            Ok(number)
        }
    }
}

/// Closes the shared file of a descriptor. Returns false if it is not one.
pub fn close(fd: c_int) -> CallResult<bool> {
    if is_shared(fd) && process::check_fork().is_err() {
        // The file belongs to the parent: only the placeholder is closed.
        set_shared(fd, false);
        close_placeholder(fd);
        return Ok(true);
    }
    if is_unused(fd) {
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
    let closed = file.close().in_call(ErrnoContext::Other);
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
        let (has_started, pointer) = (AtomicBool::new(false), pointer_of(flags));
        Self { path, flags, files, has_started, handle, is_directory: false, pointer }
    }

    /// Creates the entry of a directory.
    pub fn directory(path: String, flags: c_int, files: JobFiles) -> Self {
        let (has_started, handle) = (AtomicBool::new(false), RwLock::new(None));
        let pointer = PointerSharing::default();
        Self { path, flags, files, has_started, handle, is_directory: true, pointer }
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

/// Returns how a file that is opened with some flags shares its pointer.
fn pointer_of(flags: c_int) -> PointerSharing {
    match inheritance::is_on() && flags & libc::O_CLOEXEC == 0 {
        true => PointerSharing::shared(),
        false => PointerSharing::default(),
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
    if inheritance::is_on() {
        return inheritance::is_placeholder(borrowed);
    }
    rustix::fs::fcntl_getfl(borrowed).is_ok_and(|flags| flags.contains(OFlags::PATH))
}

fn close_placeholder(fd: c_int) {
    // SAFETY: this module created the descriptor and gave it only to the caller, who is closing it.
    unsafe { rustix::io::close(fd) };
}

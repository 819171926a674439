//! Descriptors of shared files that processes inherit, by a fork or an exec: shells redirect their
//! commands so. The preload library turns it on.
//!
//! The placeholder of an inheritable descriptor is a sealed memory file that names the shared file.
//! The kernel passes it on like any descriptor. A process that finds such a placeholder without a
//! file of its own opens the file when it first uses the descriptor.
//!
//! *Pointer.* The offset that the kernel keeps for the placeholder is the pointer of the file: dup,
//! fork and exec share it, as they share that of a plain file. A read or write locks the placeholder
//! against other processes, takes the offset and stores it again. A descriptor that is closed on exec
//! keeps its pointer in the process until the first fork.
//!
//! *Programs without the library* cannot read or write through a placeholder: reads fail with EBADF,
//! writes with EPERM.

use std::fs::File;
use std::io::{self, Read as _, SeekFrom, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, off_t};
use pario::SharedFile;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};

use crate::descriptors::{self, DescriptorEntry};
use crate::errors::{self, CallResult, ErrnoContext, ErrnoError, IntoCallResult};
use crate::{opening, plain_files};

/// The name of the memory file of a placeholder.
const MEMORY_FILE: &str = "pario-shared-file";
/// What `/proc/self/fd` says about such a descriptor.
const LINK: &str = "/memfd:pario-shared-file (deleted)";
/// No process can change a placeholder.
const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

static IS_ON: AtomicBool = AtomicBool::new(false);

/// What a placeholder says about its shared file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritableFile {
    /// How it was opened.
    pub kind: OpenKind,
    /// The flags that a further open of it needs.
    pub flags: c_int,
    /// Its path in the cluster.
    pub path: String,
}

/// How a shared file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenKind {
    /// By a process alone.
    Single,
    /// A directory.
    Directory,
    /// By the processes of a job together.
    Collective,
    /// Without a name.
    Unnamed,
}

/// The pointer of a descriptor whose pointer is shared with other processes. Dropping it stores the
/// pointer and lets other processes and threads use it.
#[derive(Debug)]
#[must_use = "other processes move the pointer at once"]
pub struct SharedPointer<'e> {
    fd: c_int,
    file: Arc<SharedFile>,
    _threads: MutexGuard<'e, ()>,
}

/// Whether and how a descriptor shares its pointer with other processes.
#[derive(Debug, Default)]
pub struct PointerSharing {
    is_shared: AtomicBool,
    /// Locks of the system do not exclude threads of one process.
    threads: Mutex<()>,
}

/// Makes descriptors inheritable, and finds those that this process has inherited. Returns a bit for
/// each of the descriptors 0 to 2 that is one.
#[unsafe(no_mangle)]
pub extern "C" fn pario_inherit_descriptors() -> c_int {
    IS_ON.store(true, Ordering::Relaxed);
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return 0 };
    let is_inherited = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == LINK)
    };
    let numbers = entries.flatten().filter(is_inherited);
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<c_int>().ok());
    let mut standard = 0;
    for fd in numbers {
        descriptors::mark_inherited(fd);
        standard |= if (0..3).contains(&fd) { 1 << fd } else { 0 };
    }
    standard
}

/// Returns whether descriptors are inheritable.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Creates the placeholder of an inheritable descriptor.
pub fn placeholder(file: &InheritableFile, is_closed_on_exec: bool) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut memory = File::from(rustix::fs::memfd_create(MEMORY_FILE, flags)?);
    memory.write_all(file.to_text().as_bytes())?;
    rustix::fs::fcntl_add_seals(&memory, SEALS)?;
    let flags = if is_closed_on_exec { OFlags::CLOEXEC } else { OFlags::empty() };
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::WRONLY | flags, Mode::empty())?)
}

/// Returns whether a descriptor is a placeholder of this module.
pub fn is_placeholder(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals == SEALS)
}

/// Opens the shared file of a descriptor that this process has inherited. Says on stderr why it
/// cannot, because programs show only the number of the error.
pub fn open(fd: c_int) -> CallResult<DescriptorEntry> {
    let file = InheritableFile::of(fd)?;
    opening::open_inherited(&file).inspect_err(|failed| {
        errors::print_line(&format!(
            "pario: process {}: the inherited descriptor {fd} of {} cannot be used: {}",
            std::process::id(),
            file.path,
            failed.cause()
        ));
    })
}

impl InheritableFile {
    /// Reads what a placeholder says.
    fn of(fd: c_int) -> CallResult<Self> {
        let unreadable = |why: &str| {
            ErrnoError::new(libc::EBADF, format!("the inherited descriptor {fd}: {why}"))
        };
        let mut text = String::new();
        File::open(format!("/proc/self/fd/{fd}"))
            .and_then(|mut file| file.read_to_string(&mut text))
            .map_err(|error| unreadable(&error.to_string()))?;
        Self::from_text(&text).ok_or_else(|| unreadable("it names no shared file"))
    }

    fn to_text(&self) -> String {
        let kind = match self.kind {
            OpenKind::Single => "single",
            OpenKind::Directory => "directory",
            OpenKind::Collective => "collective",
            OpenKind::Unnamed => "unnamed",
        };
        format!("{kind}\n{}\n{}", self.flags, self.path)
    }

    fn from_text(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('\n')?;
        let (flags, path) = rest.split_once('\n')?;
        let kind = match kind {
            "single" => OpenKind::Single,
            "directory" => OpenKind::Directory,
            "collective" => OpenKind::Collective,
            "unnamed" => OpenKind::Unnamed,
            _ => return None,
        };
        Some(Self { kind, flags: flags.parse().ok()?, path: path.to_owned() })
    }
}

impl PointerSharing {
    /// The pointer of a descriptor that other processes have, or that they get by an exec.
    pub fn shared() -> Self {
        let sharing = Self::default();
        sharing.is_shared.store(true, Ordering::Relaxed);
        sharing
    }
}

/// Stores the pointer of an open file in its placeholder, from where other processes take it.
pub fn share_pointer(fd: c_int, open: &DescriptorEntry) {
    let Ok(handle) = open.handle() else { return };
    if !handle.is_single || open.pointer.is_shared.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Ok(at) = handle.file.position() {
        store_offset(fd, at);
    }
}

/// Takes the pointer of a descriptor, if it shares one with other processes.
pub fn take_pointer<'e>(
    fd: c_int,
    open: &'e DescriptorEntry,
) -> CallResult<Option<SharedPointer<'e>>> {
    if !open.pointer.is_shared.load(Ordering::Relaxed) || open.is_directory() {
        return Ok(None);
    }
    let handle = open.handle()?;
    if !handle.is_single {
        return Ok(None);
    }
    let threads = open.pointer.threads.lock();
    lock(fd, libc::F_WRLCK).map_err(|failed| failed.with_name(&open.path))?;
    // From here on, dropping it releases the lock.
    let pointer = SharedPointer { fd, file: handle.file, _threads: threads };
    // SAFETY: the call takes no memory.
    let at = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
    let at = u64::try_from(at).map_err(|_| ErrnoError::last_os_error().with_name(&open.path))?;
    pointer.file.seek(SeekFrom::Start(at)).in_call(ErrnoContext::Other)?;
    Ok(Some(pointer))
}

impl Drop for SharedPointer<'_> {
    fn drop(&mut self) {
        // A private pointer is always known.
        if let Ok(at) = self.file.position() {
            store_offset(self.fd, at);
        }
        // Unlocking cannot fail: the descriptor is open, and the range is valid.
        let _ = lock(self.fd, libc::F_UNLCK);
    }
}

fn store_offset(fd: c_int, at: u64) {
    let at = off_t::try_from(at).unwrap_or(off_t::MAX);
    // SAFETY: the call takes no memory. Any offset is valid for a memory file.
    unsafe { libc::lseek(fd, at, libc::SEEK_SET) };
}

/// Locks or unlocks the first byte of a placeholder for this process.
fn lock(fd: c_int, kind: c_int) -> CallResult<()> {
    // SAFETY: zero is valid for each of its fields.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    range.l_len = 1;
    loop {
        // SAFETY: `range` is valid for the call.
        let locked = unsafe { libc::fcntl(fd, libc::F_SETLKW, &raw const range) };
        match plain_files::check_int(locked) {
            Err(failed) if failed.number == libc::EINTR => {}
            locked => return locked.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    fn file() -> InheritableFile {
        let path = "/pfs/a\nb".to_owned();
        InheritableFile { kind: OpenKind::Single, flags: libc::O_WRONLY | libc::O_APPEND, path }
    }

    #[test]
    fn a_placeholder_names_its_file_and_moves_no_bytes() {
        let placeholder = placeholder(&file(), true).unwrap();
        assert!(is_placeholder(placeholder.as_fd()));
        assert_eq!(InheritableFile::of(placeholder.as_raw_fd()).unwrap(), file());
        let mut buffer = [0; 4];
        assert_eq!(rustix::io::read(&placeholder, &mut buffer), Err(rustix::io::Errno::BADF));
        assert_eq!(rustix::io::write(&placeholder, b"x"), Err(rustix::io::Errno::PERM));
        let far = off_t::MAX / 2;
        store_offset(placeholder.as_raw_fd(), far.unsigned_abs());
        let duplicate = placeholder.try_clone().unwrap();
        // SAFETY: the call takes no memory.
        assert_eq!(unsafe { libc::lseek(duplicate.as_raw_fd(), 0, libc::SEEK_CUR) }, far);
    }

    #[test]
    fn other_files_are_no_placeholders() {
        let null = File::open("/dev/null").unwrap();
        assert!(!is_placeholder(null.as_fd()));
        assert!(InheritableFile::of(null.as_raw_fd()).is_err());
        assert_eq!(InheritableFile::from_text("strange\n0\n/x"), None);
    }
}

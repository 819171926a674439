//! Record locks of `fcntl` and `lockf`. Locks belong to the process; closing any descriptor of a
//! file releases all its locks on the file.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use libc::{c_int, c_short, off_t};
use pario::status::LOCK_END;
use pario::{File, LockKind, SharedFile};
use rustix::io::Errno;
use rustix::thread::futex;

use crate::descriptors::DescriptorEntry;
use crate::errors::{CallResult, ErrnoContext, ErrnoError, IntoCallResult};
use crate::{process, shared_io};

/// Whether this process has locked anything; if not, closing a file has no locks to release.
static HAS_LOCKED: AtomicBool = AtomicBool::new(false);

/// Implements the lock commands of `fcntl`.
pub fn fcntl_lock(
    open: &DescriptorEntry,
    command: c_int,
    lock: &mut libc::flock,
) -> CallResult<c_int> {
    let bytes = byte_range(open, lock.l_whence.into(), lock.l_start, lock.l_len)?;
    let kind = match c_int::from(lock.l_type) {
        libc::F_RDLCK => Some(LockKind::Shared),
        libc::F_WRLCK => Some(LockKind::Exclusive),
        libc::F_UNLCK if command != libc::F_GETLK => None,
        other => {
            return Err(invalid(
                open,
                &format!("lock type {other} is not possible with fcntl command {command}"),
            ));
        }
    };
    match (command, kind) {
        (libc::F_GETLK, Some(kind)) => get_lock(open, bytes, kind, lock)?,
        (_, None) => unlock(open, bytes)?,
        (libc::F_SETLKW, Some(kind)) => lock_and_wait(open, bytes, kind)?,
        (_, Some(kind)) => try_lock(open, bytes, kind)?,
    }
    Ok(0)
}

/// Implements `lockf`: exclusive locks of bytes after the pointer, or before it.
pub fn lockf(open: &DescriptorEntry, command: c_int, len: off_t) -> CallResult<c_int> {
    let bytes = byte_range(open, libc::SEEK_CUR, 0, len)?;
    match command {
        libc::F_ULOCK => unlock(open, bytes)?,
        libc::F_LOCK => lock_and_wait(open, bytes, LockKind::Exclusive)?,
        libc::F_TLOCK => try_lock(open, bytes, LockKind::Exclusive)?,
        libc::F_TEST => {
            let file = open.file()?;
            let held = file.file().test_lock(bytes.0..bytes.1, LockKind::Exclusive);
            if held.in_call(ErrnoContext::Other)?.is_some() {
                return Err(ErrnoError::new(libc::EACCES, held_by_another(open)));
            }
        }
        _ => return Err(invalid(open, &format!("lockf command {command} is unknown"))),
    }
    Ok(0)
}

fn invalid(open: &DescriptorEntry, why: &str) -> ErrnoError {
    ErrnoError::new(libc::EINVAL, format!("{}: {why}", open.path))
}

fn held_by_another(open: &DescriptorEntry) -> String {
    format!(
        "{path}: another process holds a lock on some of these bytes; `pario status --file {path}` \
         shows which one",
        path = open.path
    )
}

/// Releases all locks of this process on a file; called when a descriptor of it is closed.
pub fn release_all(file: &SharedFile) {
    if HAS_LOCKED.load(Ordering::Relaxed) {
        // A node that does not know the file holds no locks on it.
        let _ = file.file().unlock(..);
    }
}

/// Returns the range of a lock: first byte, and one past the last.
fn byte_range(
    open: &DescriptorEntry,
    whence: c_int,
    start: off_t,
    len: off_t,
) -> CallResult<(u64, u64)> {
    let base = match whence {
        libc::SEEK_SET => Ok(0),
        libc::SEEK_CUR => open.file()?.position(),
        libc::SEEK_END => open.file()?.len(),
        _ => {
            return Err(invalid(
                open,
                &format!("whence {whence} is unknown: use SEEK_SET, SEEK_CUR or SEEK_END"),
            ));
        }
    };
    let start = i128::from(base.in_call(ErrnoContext::Other)?) + i128::from(start);
    let (from, to) = match len {
        0 => (start, LOCK_END.into()),
        1.. => (start, start + i128::from(len)),
        ..0 => (start + i128::from(len), start),
    };
    let before = |_| invalid(open, "the lock starts before byte 0");
    let from = u64::try_from(from).map_err(before)?;
    let to = u64::try_from(to).ok().filter(|to| from < *to && *to <= LOCK_END);
    let beyond = || format!("{}: the lock ends beyond the largest file offset", open.path);
    to.map(|to| (from, to)).ok_or_else(|| ErrnoError::new(libc::EOVERFLOW, beyond()))
}

fn unlock(open: &DescriptorEntry, (from, to): (u64, u64)) -> CallResult<()> {
    open.file()?.file().unlock(from..to).in_call(ErrnoContext::Other)
}

fn try_lock(open: &DescriptorEntry, (from, to): (u64, u64), kind: LockKind) -> CallResult<()> {
    shared_io::check_access(open, kind == LockKind::Exclusive)?;
    let is_locked = open.file()?.file().try_lock(from..to, kind).in_call(ErrnoContext::Other)?;
    if !is_locked {
        return Err(ErrnoError::new(libc::EAGAIN, held_by_another(open)));
    }
    HAS_LOCKED.store(true, Ordering::Relaxed);
    Ok(())
}

fn lock_and_wait(open: &DescriptorEntry, bytes: (u64, u64), kind: LockKind) -> CallResult<()> {
    shared_io::check_access(open, kind == LockKind::Exclusive)?;
    wait_for_lock(open.file()?.file(), bytes, kind)?;
    HAS_LOCKED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Implements F_GETLK: describes the first conflicting lock; if there is none, changes only the
/// type.
fn get_lock(
    open: &DescriptorEntry,
    (from, to): (u64, u64),
    kind: LockKind,
    lock: &mut libc::flock,
) -> CallResult<()> {
    let held = open.file()?.file().test_lock(from..to, kind).in_call(ErrnoContext::Other)?;
    let Some(held) = held else {
        lock.l_type = to_short(libc::F_UNLCK);
        return Ok(());
    };
    let offset = |at: u64| {
        off_t::try_from(at).map_err(|_| {
            ErrnoError::new(
                libc::EOVERFLOW,
                format!(
                    "{}: a conflicting lock at byte {at} is beyond what an off_t holds",
                    open.path
                ),
            )
        })
    };
    let len = if held.range.to == LOCK_END { 0 } else { held.range.to - held.range.from };
    lock.l_type = to_short(match held.kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
    });
    lock.l_whence = to_short(libc::SEEK_SET);
    (lock.l_start, lock.l_len) = (offset(held.range.from)?, offset(len)?);
    lock.l_pid = libc::pid_t::try_from(held.pid).unwrap_or(0);
    Ok(())
}

fn to_short(number: c_int) -> c_short {
    c_short::try_from(number).unwrap_or_default()
}

/// Waits until the lock is granted or a signal handler has run. As with system calls, a handler
/// that was set with SA_RESTART does not end the wait.
fn wait_for_lock(file: &File, (from, to): (u64, u64), kind: LockKind) -> CallResult<()> {
    let woken = Arc::new(FutexWaker(AtomicU32::new(0)));
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let request = process::with_signals_blocked(|| file.start_lock(from..to, kind));
    let mut request = request.in_call(ErrnoContext::Other)?;
    loop {
        // Polling starts the thread that receives the reply, and does not wait.
        let polled = process::with_signals_blocked(|| Pin::new(&mut request).poll(&mut context));
        if let Poll::Ready(locked) = polled {
            return locked.in_call(ErrnoContext::Other);
        }
        while woken.0.swap(0, Ordering::SeqCst) == 0 {
            if futex::wait(&woken.0, futex::Flags::PRIVATE, 0, None) == Err(Errno::INTR) {
                return match request.cancel().in_call(ErrnoContext::Other)? {
                    Some(()) => Ok(()),
                    None => Err(ErrnoError::new(
                        libc::EINTR,
                        "a signal handler ended the wait for the lock",
                    )),
                };
            }
        }
    }
}

/// Wakes the thread that waits for a lock.
struct FutexWaker(AtomicU32);

impl Wake for FutexWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(1, Ordering::SeqCst);
        // The thread may be awake already.
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }
}

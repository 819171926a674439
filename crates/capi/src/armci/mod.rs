//! The calls of `armci.h`: one-sided access to the memory of all processes of a job, and callbacks.
//!
//! A program addresses other processes' memory by pointers from `ARMCI_Malloc`. On the same machine
//! such a pointer is real memory. For another machine it is a reserved address that cannot be
//! accessed. [`allocations`] maps pointers to segments and refuses all others.

pub mod access;
pub mod allocations;
pub mod callbacks;
pub mod collectives;
pub mod domains;
pub mod groups;
pub mod lists;
pub mod message_layer;
pub mod messages;
pub mod nonblocking;
pub mod strided;
pub mod values;

use std::ffi::CStr;
use std::sync::Arc;

use libc::{c_char, c_int};
use pario::memory::{Mutexes, Team};
use parking_lot::{Mutex, RwLock};

use crate::boundary::{exit_failed, exit_on_error, is_failing, return_errno};
use crate::errors::{CallResult, ErrnoError, print_line};
use crate::process;
use crate::team::{self, team_result};
use allocations::Allocation;
use callbacks::CallbackTable;
use nonblocking::NbRequests;

/// The ARMCI state of this process.
pub struct Armci {
    /// The team of the job.
    pub team: Team,
    /// Memory that all processes have allocated collectively.
    pub allocations: RwLock<Vec<Arc<Allocation>>>,
    /// The mutexes of all processes.
    pub mutexes: Mutex<Option<Mutexes>>,
    /// Requests under way.
    pub requests: Mutex<NbRequests>,
    /// Registered callbacks, and calls of them.
    pub callbacks: CallbackTable,
}

static ARMCI: RwLock<Option<Arc<Armci>>> = RwLock::new(None);

/// Returns the ARMCI state. Fails before `ARMCI_Init`.
pub fn current() -> CallResult<Arc<Armci>> {
    process::check_fork()?;
    ARMCI.read().clone().ok_or_else(|| {
        ErrnoError::invalid("ARMCI_Init has not been called: call it first, on all processes")
    })
}

/// Drops the ARMCI state at the exit of the process, unless a call is using it. A process that ends
/// because of an error keeps it, and so ends at once: a machine leader that leaves would wait for
/// the others. They report it as lost.
pub fn forget() {
    if is_failing() {
        return;
    }
    let armci = ARMCI.try_write().and_then(|mut armci| armci.take());
    armci.inspect(|armci| armci.end_requests());
    message_layer::forget();
}

impl Armci {
    /// Converts the number of a process to a rank.
    pub fn rank(&self, proc: c_int) -> CallResult<u32> {
        let size = self.team.size();
        u32::try_from(proc).ok().filter(|rank| *rank < size).ok_or_else(|| {
            ErrnoError::invalid(format!(
                "process {proc} does not exist: the job has {size} processes"
            ))
        })
    }
}

/// Converts a number of bytes.
pub fn byte_count(bytes: c_int) -> CallResult<usize> {
    usize::try_from(bytes)
        .map_err(|_| ErrnoError::invalid(format!("{bytes} bytes: the number must not be negative")))
}

/// Initialises ARMCI, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Init() -> c_int {
    return_errno(|| {
        let mut armci = ARMCI.write();
        if armci.is_none() {
            let team = message_layer::start()?.team.clone();
            *armci = Some(Arc::new(Armci {
                team,
                allocations: RwLock::default(),
                mutexes: Mutex::default(),
                requests: Mutex::default(),
                callbacks: CallbackTable::default(),
            }));
        }
        Ok(0)
    })
}

/// Does the same as `ARMCI_Init`; the arguments are ignored.
///
/// # Safety
/// None: the pointers are not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Init_args(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    ARMCI_Init()
}

/// Returns 1 after `ARMCI_Init`, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Initialized() -> c_int {
    c_int::from(ARMCI.read().is_some())
}

/// Ends ARMCI and frees all its memory, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Finalize() {
    exit_on_error("ARMCI_Finalize", || {
        let Some(armci) = ARMCI.write().take() else { return Ok(()) };
        armci.end_requests();
        // No process frees memory that another still uses.
        team_result(armci.team.barrier())?;
        drop(armci);
        message_layer::end_implicit();
        Ok(())
    });
}

/// Drops the ARMCI state at once, not collectively.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Cleanup() {
    let armci = ARMCI.write().take();
    armci.inspect(|armci| armci.end_requests());
}

/// Prints a message and ends the process.
///
/// # Safety
/// `message` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Error(message: *const c_char, code: c_int) {
    let text = match message.is_null() {
        true => "an error".into(),
        // SAFETY: the caller guarantees a string.
        false => unsafe { CStr::from_ptr(message) }.to_string_lossy(),
    };
    print_line(&format!("pario: {}: {text} ({code})", process::describe()));
    exit_failed(if code == 0 { 1 } else { code });
}

/// Waits until all puts to a process are complete.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Fence(proc: c_int) {
    exit_on_error("ARMCI_Fence", || {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        armci.finish(|own| own == rank)
    });
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Waits until the puts to all processes are complete.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_AllFence() {
    exit_on_error("ARMCI_AllFence", || current()?.finish(|_| true));
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Waits for all processes and for the completion of their puts.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Barrier() {
    exit_on_error("ARMCI_Barrier", || {
        let armci = current()?;
        armci.finish(|_| true)?;
        team_result(armci.team.barrier())
    });
}

/// Creates `count` mutexes at this process, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Create_mutexes(count: c_int) -> c_int {
    return_errno(|| {
        let armci = current()?;
        let counted = u32::try_from(count).map_err(|_| {
            ErrnoError::invalid(format!("{count} mutexes: the number must not be negative"))
        });
        let counted = team::check_all_ranks(&armci.team, counted)?;
        let mutexes = team_result(armci.team.mutexes(counted))?;
        *armci.mutexes.lock() = Some(mutexes);
        Ok(0)
    })
}

/// Removes all mutexes, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Destroy_mutexes() -> c_int {
    return_errno(|| {
        let armci = current()?;
        team_result(armci.team.barrier())?;
        armci.mutexes.lock().take();
        Ok(0)
    })
}

fn mutexes(armci: &Armci) -> CallResult<Mutexes> {
    let mutexes = armci.mutexes.lock().clone();
    mutexes.ok_or_else(|| {
        ErrnoError::invalid(
            "there are no mutexes: call ARMCI_Create_mutexes first, on all processes",
        )
    })
}

/// Locks a mutex of a process.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Lock(mutex: c_int, proc: c_int) {
    exit_on_error("ARMCI_Lock", || {
        let armci = current()?;
        let (rank, mutexes) = (armci.rank(proc)?, mutexes(&armci)?);
        team_result(mutexes.lock(rank, number(mutex)?).map(pario::memory::TeamMutexGuard::keep))
    });
}

/// Unlocks a mutex of a process.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Unlock(mutex: c_int, proc: c_int) {
    exit_on_error("ARMCI_Unlock", || {
        let armci = current()?;
        let (rank, mutexes) = (armci.rank(proc)?, mutexes(&armci)?);
        team_result(mutexes.unlock(rank, number(mutex)?))
    });
}

fn number(mutex: c_int) -> CallResult<u32> {
    u32::try_from(mutex).map_err(|_| {
        ErrnoError::invalid(format!("mutex {mutex} does not exist: mutexes are numbered from 0"))
    })
}

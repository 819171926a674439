//! What `armci.h` declares: one-sided access to the memory of all processes, and callbacks.
//!
//! A program names memory of others by pointers that `ARMCI_Malloc` has given it. Those of processes
//! of the same machine are memory; those of other machines are places that nobody can touch, and only
//! say what is meant. [`memory`] knows what each means, and refuses what none was given for.

pub mod access;
pub mod callbacks;
pub mod memory;
pub mod messages;
pub mod started;
pub mod strided;
pub mod vectors;

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;

use libc::{c_char, c_int};
use pario::team::{Mutexes, Team};
use parking_lot::{Mutex, RwLock};

use crate::border::{ending, returning};
use crate::errors::{Done, Failed, say};
use crate::process;
use crate::team::{self, done};
use callbacks::Callbacks;
use memory::Allocation;
use started::Request;

/// What this process has of ARMCI.
pub struct Armci {
    /// The processes of the job.
    pub team: Team,
    /// Memory that all have allocated together.
    pub allocations: RwLock<Vec<Arc<Allocation>>>,
    /// Mutexes that all have made.
    pub mutexes: Mutex<Option<Mutexes>>,
    /// What was started, by the number in its handle.
    pub requests: Mutex<HashMap<c_int, Request>>,
    /// Functions that run elsewhere.
    pub callbacks: Callbacks,
}

static ARMCI: RwLock<Option<Arc<Armci>>> = RwLock::new(None);

/// What this process has, after `ARMCI_Init`.
pub fn current() -> Done<Arc<Armci>> {
    process::check_fork()?;
    ARMCI.read().clone().ok_or_else(|| Failed::invalid("ARMCI_Init must be called before"))
}

impl Armci {
    /// The rank that a program means.
    pub fn rank(&self, proc: c_int) -> Done<u32> {
        let size = self.team.size();
        u32::try_from(proc).ok().filter(|rank| *rank < size).ok_or_else(|| {
            Failed::invalid(format!("there are {size} processes, and so no process {proc}"))
        })
    }
}

/// How many bytes a program means.
pub fn length(bytes: c_int) -> Done<usize> {
    usize::try_from(bytes).map_err(|_| Failed::invalid(format!("{bytes} bytes cannot be")))
}

/// Begins: all processes call it.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Init() -> c_int {
    returning(|| {
        let mut armci = ARMCI.write();
        if armci.is_none() {
            let team = team::current()?;
            *armci = Some(Arc::new(Armci {
                team,
                allocations: RwLock::default(),
                mutexes: Mutex::default(),
                requests: Mutex::default(),
                callbacks: Callbacks::default(),
            }));
        }
        Ok(0)
    })
}

/// The same; nothing of ours is in the arguments.
///
/// # Safety
/// Any pointers will do: they are not looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Init_args(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    ARMCI_Init()
}

/// Whether it has begun.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Initialized() -> c_int {
    c_int::from(ARMCI.read().is_some())
}

/// Ends: all processes call it, and all memory is gone afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Finalize() {
    ending("ARMCI_Finalize", || {
        let Some(armci) = ARMCI.write().take() else { return Ok(()) };
        armci.requests.lock().clear();
        // Nobody takes away what others still use.
        done(armci.team.barrier())?;
        drop(armci);
        team::leave();
        Ok(())
    });
}

/// Forgets everything at once, without the others.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Cleanup() {
    drop(ARMCI.write().take());
}

/// Says something, and ends the process.
///
/// # Safety
/// The message must be a string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ARMCI_Error(message: *const c_char, code: c_int) {
    let text = match message.is_null() {
        true => "an error".into(),
        // SAFETY: the caller says that it is a string.
        false => unsafe { CStr::from_ptr(message) }.to_string_lossy(),
    };
    say(&format!("pario: {}: {text} ({code})", process::who()));
    std::process::exit(if code == 0 { 1 } else { code });
}

/// Waits until what was put into the memory of a process is there.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Fence(proc: c_int) {
    ending("ARMCI_Fence", || {
        let armci = current()?;
        let rank = armci.rank(proc)?;
        armci.finish(|request| request.rank == rank && request.is_implicit)
    });
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// The same for all.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_AllFence() {
    ending("ARMCI_AllFence", || current()?.finish(|request| request.is_implicit));
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Waits until all processes are here, and what they have put is there.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Barrier() {
    ending("ARMCI_Barrier", || {
        let armci = current()?;
        armci.finish(|request| request.is_implicit)?;
        done(armci.team.barrier())
    });
}

/// Makes mutexes, together with all others: so many of this process.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Create_mutexes(count: c_int) -> c_int {
    returning(|| {
        let armci = current()?;
        let counted =
            u32::try_from(count).map_err(|_| Failed::invalid(format!("{count} mutexes cannot be")));
        let counted = team::all_fine(&armci.team, counted)?;
        let mutexes = done(armci.team.mutexes(counted))?;
        *armci.mutexes.lock() = Some(mutexes);
        Ok(0)
    })
}

/// Removes them, together with all others.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Destroy_mutexes() -> c_int {
    returning(|| {
        let armci = current()?;
        done(armci.team.barrier())?;
        armci.mutexes.lock().take();
        Ok(0)
    })
}

fn mutexes(armci: &Armci) -> Done<Mutexes> {
    let mutexes = armci.mutexes.lock().clone();
    mutexes.ok_or_else(|| Failed::invalid("ARMCI_Create_mutexes must be called before"))
}

/// Takes a mutex of a process.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Lock(mutex: c_int, proc: c_int) {
    ending("ARMCI_Lock", || {
        let armci = current()?;
        let (rank, mutexes) = (armci.rank(proc)?, mutexes(&armci)?);
        done(mutexes.lock(rank, number(mutex)?).map(pario::team::TeamMutexGuard::keep))
    });
}

/// Gives it back.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Unlock(mutex: c_int, proc: c_int) {
    ending("ARMCI_Unlock", || {
        let armci = current()?;
        let (rank, mutexes) = (armci.rank(proc)?, mutexes(&armci)?);
        done(mutexes.unlock(rank, number(mutex)?))
    });
}

fn number(mutex: c_int) -> Done<u32> {
    u32::try_from(mutex).map_err(|_| Failed::invalid(format!("there is no mutex {mutex}")))
}

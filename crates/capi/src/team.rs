//! The processes of the job, for what needs no cluster: they meet when the first call needs it.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;
use pario::team::{Team, TeamError};
use parking_lot::Mutex;

use crate::errors::{Done, EPFSLFORK, Failed};
use crate::process::without_signals;

static TEAM: Mutex<Option<Team>> = Mutex::new(None);
/// The process that has met the others: one that it forks has not.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The team of this process; the first call meets the others.
pub fn current() -> Done<Team> {
    check_fork()?;
    let mut team = TEAM.lock();
    if let Some(team) = &*team {
        return Ok(team.clone());
    }
    // The threads of a team get none of the signals of the program, and who waits for others can be
    // interrupted: so another thread meets them.
    let meeting = without_signals(|| std::thread::Builder::new().spawn(pario::team::from_env));
    let meeting = meeting.map_err(|_| Failed::new(libc::EAGAIN, "there are no threads left"))?;
    let met = meeting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let met = met.map_err(|error| match &error {
        pario::Error::Team(team) => Failed::new(number_of(team), error.to_string()),
        _ => Failed::new(libc::EINVAL, error.to_string()),
    })?;
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        // SAFETY: the function takes nothing and lets no panic out. If it cannot be registered, the
        // others take this process for lost when it ends.
        let _ = unsafe { libc::atexit(leave) };
    });
    *team = Some(met.clone());
    Ok(met)
}

/// Whether this process was forked from one that has met the others.
pub fn check_fork() -> Done<()> {
    let process = PROCESS.load(Ordering::Relaxed);
    if process != 0 && process != std::process::id() {
        let text = "it was forked from one that has met the others of its job, and is none of them: \
                    fork before the first call, or start a program";
        return Err(Failed::new(EPFSLFORK, text));
    }
    Ok(())
}

/// A process that ends in peace says so: otherwise the others would take it for lost.
extern "C" fn leave() {
    let _ = std::panic::catch_unwind(|| {
        if check_fork().is_ok() {
            crate::record_files::forget();
            drop(TEAM.try_lock().and_then(|mut team| team.take()));
        }
    });
}

/// What goes to `errno` for an error of the team.
pub fn number_of(error: &TeamError) -> c_int {
    match error {
        TeamError::Lost { .. } | TeamError::Left { .. } => libc::ECONNABORTED,
        TeamError::Missing { .. } => libc::ETIMEDOUT,
        TeamError::Disagree { .. } | TeamError::Invalid(_) => libc::EINVAL,
        TeamError::Memory(_) => libc::ENOMEM,
        _ => libc::EIO,
    }
}

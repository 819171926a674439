//! The team of this process: the ranks of its job that share memory. Needs no cluster.
//!
//! Once joined, a process stays in the team until it leaves or ends. A process that exits leaves the
//! team: ranks that still need it get an error. A process that is killed is reported as lost.

use std::sync::Once;

use libc::c_int;
use pario::memory::{Team, TeamError};
use pario::{Error, Job};
use parking_lot::Mutex;

use crate::errors::{CallResult, ErrnoContext, ErrnoError, IntoCallResult};
use crate::process;

/// The job whose ranks have met.
static JOB: Mutex<Option<Job>> = Mutex::new(None);

/// Returns the team, if this process has joined it.
pub fn joined() -> Option<Team> {
    JOB.lock().as_ref()?.team().ok()
}

/// Returns whether this process has joined a team, or is about to. Takes no lock.
pub fn has_joined() -> bool {
    JOB.try_lock().is_none_or(|job| job.is_some())
}

/// Sets rank and size and joins the team: implements `do_nio`.
pub fn init(rank: c_int, size: c_int) -> CallResult<()> {
    process::check_fork()?;
    let wrong = || {
        ErrnoError::invalid(format!(
            "process {rank} of {size}: the size must be at least 1, and the rank from 0 to size - 1"
        ))
    };
    let (Ok(rank), Ok(size)) = (u32::try_from(rank), u32::try_from(size)) else {
        return Err(wrong());
    };
    if rank >= size {
        return Err(wrong());
    }
    let mut job = JOB.lock();
    match &*job {
        Some(known) if (known.rank(), known.size()) == (rank, size) => Ok(()),
        Some(known) => Err(ErrnoError::invalid(format!(
            "this process is already rank {} of {}: do_nio accepts no other numbers",
            known.rank(),
            known.size()
        ))),
        None => {
            // A process that has called `pfslib_init` has said which job it means.
            let connected = process::joined();
            let connected = connected.filter(|job| (job.rank(), job.size()) == (rank, size));
            let new = match connected {
                Some(job) => job,
                None => {
                    let options = Job::options().size_and_rank(size, rank);
                    options.from_env().in_call(ErrnoContext::Open)?
                }
            };
            join(&new)?;
            *job = Some(new);
            Ok(())
        }
    }
}

/// Returns the team. Joins it first if necessary, with the launcher's rank and size.
pub fn current() -> CallResult<Team> {
    process::check_fork()?;
    let mut job = JOB.lock();
    if let Some(known) = &*job {
        return known.team().in_call(ErrnoContext::Open);
    }
    let new = match process::joined() {
        Some(job) => job,
        None => Job::from_env().in_call(ErrnoContext::Open)?,
    };
    let team = join(&new)?;
    *job = Some(new);
    Ok(team)
}

/// Leaves the team at exit: otherwise the other ranks report this process as lost.
extern "C" fn leave_at_exit() {
    let _ = std::panic::catch_unwind(|| {
        if process::check_fork().is_ok() {
            // A new thread: this one's thread-local storage is gone, and leaving can send messages
            // to other machines.
            let leaving = process::with_signals_blocked(|| {
                std::thread::Builder::new().name("team-leave".to_owned()).spawn(|| {
                    crate::record_files::forget();
                    crate::armci::forget();
                    let job = JOB.try_lock().and_then(|mut job| job.take());
                    job.inspect(Job::leave_memory);
                })
            });
            if let Ok(leaving) = leaving {
                // A panic has printed its message; the other ranks report this process as lost.
                let _ = leaving.join();
            }
        }
    });
}

/// Returns the number for an error of the team.
pub fn errno_of(error: &TeamError) -> c_int {
    match error {
        TeamError::Lost { .. } | TeamError::Left { .. } => libc::ECONNABORTED,
        TeamError::Missing { .. } => libc::ETIMEDOUT,
        TeamError::Disagree { .. }
        | TeamError::GroupDisagree { .. }
        | TeamError::RankFailed { .. }
        | TeamError::Invalid(_) => libc::EINVAL,
        TeamError::Memory(_) => libc::ENOMEM,
        _ => libc::EIO,
    }
}

/// Leaves the team.
pub fn leave() {
    let job = JOB.lock().take();
    job.inspect(Job::leave_memory);
}

/// Returns the job. Fails before `do_nio`.
pub fn require_initialized() -> CallResult<Job> {
    process::check_fork()?;
    JOB.lock().clone().ok_or_else(|| {
        ErrnoError::invalid("do_nio has not been called: call it first, on all processes")
    })
}

/// Joins the team of a job.
fn join(job: &Job) -> CallResult<Team> {
    static AT_EXIT: Once = Once::new();
    process::register_fork_handler();
    AT_EXIT.call_once(|| {
        // SAFETY: the handler takes no arguments and catches panics. If registration fails, the
        // other ranks report this process as lost when it ends.
        let _ = unsafe { libc::atexit(leave_at_exit) };
    });
    // A new thread joins, with signals blocked for the team's threads; the waiting caller still
    // handles signals.
    let job = job.clone();
    let joined = process::with_signals_blocked(|| {
        std::thread::Builder::new().name("team-join".to_owned()).spawn(move || job.team())
    });
    let joined = joined.map_err(|error| ErrnoError::new(libc::EAGAIN, error.to_string()))?.join();
    let failed =
        || TeamError::System("the thread that joins the other processes panicked".to_owned());
    joined.unwrap_or_else(|_| Err(failed().into())).in_call(ErrnoContext::Open)
}

/// Converts a result of the team to the result of a call.
pub fn team_result<T>(result: Result<T, TeamError>) -> CallResult<T> {
    result.map_err(Error::from).in_call(ErrnoContext::Other)
}

/// Returns what a process has prepared for a collective call of the team. If it cannot make the call,
/// the call fails on all processes, with its rank and the reason. A call that may be the first one of
/// a process joins the team before.
pub fn or_fail_round<T>(prepared: CallResult<T>) -> CallResult<T> {
    if let Err(failed) = &prepared
        && let Some(team) = joined()
    {
        drop(team.fail_call(&failed.cause()));
    }
    prepared
}

/// Exchanges argument errors before a collective call: fails on every rank if any rank has an
/// error. A rank with an invalid argument still takes part, so no other rank waits for it.
pub fn check_all_ranks<T>(team: &Team, prepared: CallResult<T>) -> CallResult<T> {
    let ranks: Vec<u32> = (0..team.size()).collect();
    check_reports(prepared, &ranks, |report| team.gather(report))
}

/// Exchanges argument errors among some ranks by their gather.
pub fn check_reports<T>(
    prepared: CallResult<T>,
    ranks: &[u32],
    gather: impl FnOnce(&[u8]) -> Result<Vec<Vec<u8>>, TeamError>,
) -> CallResult<T> {
    let report = match &prepared {
        Ok(_) => Vec::new(),
        Err(ErrnoError { number, text }) => [&number.to_le_bytes()[..], text.as_bytes()].concat(),
    };
    for (rank, report) in ranks.iter().zip(team_result(gather(&report))?) {
        if let Some((number, text)) = report.split_first_chunk::<4>() {
            let text = String::from_utf8_lossy(text);
            let theirs =
                ErrnoError::new(i32::from_le_bytes(*number), format!("process {rank}: {text}"));
            // A rank's own error is more specific than another rank's.
            return Err(prepared.err().unwrap_or(theirs));
        }
    }
    prepared
}

//! The processes of the job that have met for their memory. No cluster is needed for it.
//!
//! Once they have met, they stay together until they end. A process that ends in peace leaves the
//! others, who hear of it if they still need it; one that is killed is lost to them.

use std::sync::Once;

use libc::c_int;
use pario::team::{Team, TeamError};
use pario::{Error, Group, Member};
use parking_lot::Mutex;

use crate::errors::{Doing, Done, Failed, While};
use crate::process;

static TEAM: Mutex<Option<Team>> = Mutex::new(None);

/// Those who have met already.
pub fn known() -> Option<Team> {
    TEAM.lock().clone()
}

/// Says which process this is and meets the others: what `do_nio` does.
pub fn init(rank: c_int, size: c_int) -> Done<()> {
    process::check_fork()?;
    let wrong = || {
        Failed::invalid(format!(
            "process {rank} of {size}: there must be at least one process, and their numbers go \
             from 0 to one below how many there are"
        ))
    };
    let (Ok(rank), Ok(size)) = (u32::try_from(rank), u32::try_from(size)) else {
        return Err(wrong());
    };
    if rank >= size {
        return Err(wrong());
    }
    let mut team = TEAM.lock();
    match &*team {
        Some(known) if (known.rank(), known.size()) == (rank, size) => Ok(()),
        Some(known) => Err(Failed::invalid(format!(
            "this process is {} of {} already: say so once",
            known.rank(),
            known.size()
        ))),
        None => {
            *team = Some(meet(Member { job: Group::job_of_environment(), size, rank })?);
            Ok(())
        }
    }
}

/// Those who have met; if they have not, they meet now, as their launcher has said.
pub fn current() -> Done<Team> {
    process::check_fork()?;
    let mut team = TEAM.lock();
    if let Some(known) = &*team {
        return Ok(known.clone());
    }
    let met = meet(Group::member_of_environment().while_doing(Doing::Opening)?)?;
    *team = Some(met.clone());
    Ok(met)
}

/// A process that ends in peace says so: otherwise the others would take it for lost.
extern "C" fn leave_at_exit() {
    let _ = std::panic::catch_unwind(|| {
        if process::check_fork().is_ok() {
            // What this thread had of its own is gone by now, and other machines may have to be told.
            let leaving = process::without_signals(|| {
                std::thread::Builder::new().name("leaving".to_owned()).spawn(|| {
                    crate::record_files::forget();
                    drop(TEAM.try_lock().and_then(|mut team| team.take()));
                })
            });
            if let Ok(leaving) = leaving {
                // Its panic has told what is wrong; the others take this process for lost.
                let _ = leaving.join();
            }
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

/// Leaves the others.
pub fn leave() {
    drop(TEAM.lock().take());
}

/// Those who have met with `do_nio`, without which nothing of it works.
pub fn ready() -> Done<Team> {
    process::check_fork()?;
    known().ok_or_else(|| Failed::invalid("do_nio must be called before"))
}

fn meet(member: Member) -> Done<Team> {
    static AT_EXIT: Once = Once::new();
    process::watch_forks();
    AT_EXIT.call_once(|| {
        // SAFETY: the function takes nothing and lets no panic out. If it cannot be registered, the
        // others take this process for lost when it ends.
        let _ = unsafe { libc::atexit(leave_at_exit) };
    });
    // The threads of the team get no signals of the program; the caller, who waits, does.
    let met = process::without_signals(|| {
        std::thread::Builder::new()
            .name("meeting".to_owned())
            .spawn(move || pario::team::meet(&member.job, member.size, member.rank))
    });
    let met = met.map_err(|error| Failed::new(libc::EAGAIN, error.to_string()))?.join();
    let failed = || TeamError::System("meeting the others failed".to_owned());
    met.unwrap_or_else(|_| Err(failed().into())).while_doing(Doing::Opening)
}

/// What a team says, as C programs know it.
pub fn done<T>(result: Result<T, TeamError>) -> Done<T> {
    result.map_err(Error::from).while_doing(Doing::Else)
}

/// Hears whether something is wrong with the call of any process before all make it together: who
/// has given a wrong argument still comes, so that nobody waits for it.
pub fn all_fine<T>(team: &Team, prepared: Done<T>) -> Done<T> {
    let told = match &prepared {
        Ok(_) => Vec::new(),
        Err(Failed { number, text }) => [&number.to_le_bytes()[..], text.as_bytes()].concat(),
    };
    for (rank, told) in done(team.gather(&told))?.into_iter().enumerate() {
        if let Some((number, text)) = told.split_first_chunk::<4>() {
            let text = String::from_utf8_lossy(text);
            let theirs =
                Failed::new(i32::from_le_bytes(*number), format!("process {rank}: {text}"));
            // Its own error says more to who has one.
            return Err(prepared.err().unwrap_or(theirs));
        }
    }
    prepared
}

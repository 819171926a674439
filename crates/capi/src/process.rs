//! Which process of which job this is, and the cluster that it uses.
//!
//! A program says so with `pfslib_init`; one that does not is asked for nothing: the launcher has
//! init_arguments it in the environment. A process that was forked from one that uses a cluster cannot go on
//! with it, since the threads are not there any more: it is told so.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use libc::c_int;
use pario::{Cluster, Group, Seat};
use parking_lot::Mutex;

use crate::errors::{CallError, CallKind, CallResult, EPFSLFORK, IntoCallResult};

/// This process, as the cluster knows it.
#[derive(Debug)]
pub struct Process {
    /// The processes of the job.
    pub group: Group,
    /// This process alone, for files that nobody opens together with it.
    pub alone: Group,
    /// What `pfslib_init` was called with, if it was.
    init_arguments: Option<(String, u32, u32)>,
}

static PROCESS: Mutex<Option<Arc<Process>>> = Mutex::new(None);
static IS_FORKED: AtomicBool = AtomicBool::new(false);
static FORK_HANDLER: Once = Once::new();

/// Says which process this is: what `pfslib_init` does.
pub fn init(host: &str, size: c_int, rank: c_int) -> CallResult<()> {
    check_fork()?;
    let wrong = || {
        CallError::invalid(format!(
            "process {rank} of {size}: there must be at least one process, and their numbers go \
             from 0 to one below how many there are"
        ))
    };
    let (Ok(size), Ok(rank)) = (u32::try_from(size), u32::try_from(rank)) else {
        return Err(wrong());
    };
    if rank >= size {
        return Err(wrong());
    }
    let init_arguments = (host.to_owned(), size, rank);
    let mut process = PROCESS.lock();
    match &*process {
        Some(known) if known.init_arguments.as_ref() == Some(&init_arguments) => return Ok(()),
        Some(known) => {
            let (size, rank) = (known.group.size(), known.group.rank());
            return Err(CallError::invalid(format!(
                "this process is {rank} of {size} already: call pfslib_init once, and before any \
                 other call"
            )));
        }
        None => {}
    }
    let cluster = connect(host)?;
    let seat = Seat { job: Group::job_of_environment(), size, rank };
    *process = Some(Arc::new(Process::new(&cluster, &seat, Some(init_arguments))?));
    Ok(())
}

/// This process; the first call looks for the cluster.
pub fn current() -> CallResult<Arc<Process>> {
    check_fork()?;
    let mut process = PROCESS.lock();
    if let Some(known) = &*process {
        return Ok(known.clone());
    }
    let seat = Group::seat_of_environment().in_call(CallKind::Open)?;
    let cluster = connect("")?;
    let known = Arc::new(Process::new(&cluster, &seat, None)?);
    *process = Some(known.clone());
    Ok(known)
}

/// Whether this process uses a cluster.
pub fn is_connected() -> bool {
    check_fork().is_ok() && PROCESS.lock().is_some()
}

/// How many processes there are, and which one this is. No cluster is needed for it.
pub fn size_and_rank() -> CallResult<(u32, u32)> {
    check_fork()?;
    if let Some(team) = crate::team::joined() {
        return Ok((team.size(), team.rank()));
    }
    if let Some(known) = &*PROCESS.lock() {
        return Ok((known.group.size(), known.group.rank()));
    }
    let seat = Group::seat_of_environment().in_call(CallKind::Open)?;
    Ok((seat.size, seat.rank))
}

/// This process, for people.
pub fn describe() -> String {
    match size_and_rank() {
        Ok((size, rank)) => format!("process {rank} of {size}"),
        Err(_) => format!("process with id {}", std::process::id()),
    }
}

/// Whether this process was forked from one that uses a cluster.
pub fn check_fork() -> CallResult<()> {
    if IS_FORKED.load(Ordering::Relaxed) {
        return Err(CallError::new(
            EPFSLFORK,
            "it was forked from one that shares files, and cannot go on with them: fork before the \
             first call, or start a program",
        ));
    }
    Ok(())
}

impl Process {
    fn new(
        cluster: &Cluster,
        seat: &Seat,
        init_arguments: Option<(String, u32, u32)>,
    ) -> CallResult<Self> {
        let Seat { job, size, rank } = seat;
        let group = Group::new(cluster, job, *size, *rank).in_call(CallKind::Open)?;
        let own = format!("{}, process {rank} alone ({})", job_prefix(job), std::process::id());
        let alone = Group::new(cluster, &own, 1, 0).in_call(CallKind::Open)?;
        Ok(Self { group, alone, init_arguments })
    }

    /// Those of the job that open a file together, if they are others than all: what they are called
    /// follows from the file.
    pub fn subgroup(&self, path: &str, size: u32, rank: u32) -> CallResult<Group> {
        if (size, rank) == (self.group.size(), self.group.rank()) {
            return Ok(self.group.clone());
        }
        let job = format!("{}, {size} at {:016x}", job_prefix(self.group.job()), hash_of(path));
        Group::new(self.group.cluster(), &job, size, rank).in_call(CallKind::Open)
    }
}

/// The cluster at an address; otherwise the one that the environment names. A mere name of a host
/// says nothing, since a host may have any number of nodes.
fn connect(host: &str) -> CallResult<Cluster> {
    register_fork_handler();
    let is_address = host.contains([':', '/', '=']);
    let connected =
        with_signals_blocked(
            || if is_address { Cluster::connect(host) } else { Cluster::from_env() },
        );
    connected.in_call(CallKind::Open)
}

/// From now on a process that is forked from this one knows it.
pub fn register_fork_handler() {
    FORK_HANDLER.call_once(|| {
        // SAFETY: the function only sets a flag. If it cannot be registered, forks are not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

extern "C" fn forked() {
    IS_FORKED.store(true, Ordering::Relaxed);
}

/// Does something that starts threads: they get none of the signals of the program. Nor does the
/// caller meanwhile, so that it must not be something that waits for other processes.
pub fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are ours; the first is filled before it is used, the second by the call.
    let is_blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    if is_blocked {
        // SAFETY: the set was filled by the call that has succeeded.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
    }
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A name of a job to which something can be added.
fn job_prefix(job: &str) -> String {
    if job.len() <= 100 { job.to_owned() } else { format!("job {:016x}", hash_of(job)) }
}

/// A number that follows from a text, for all processes alike (FNV-1a).
pub fn hash_of(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

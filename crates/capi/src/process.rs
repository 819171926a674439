//! This process: its rank in its job, and its connection to the cluster.
//!
//! A program may say its rank and size with `pfslib_init`; otherwise the launcher's environment
//! variables say them. Processes of a job without a name find each other at the cluster's node.
//!
//! A process that was forked from one with a connection cannot use it, because the connection's
//! threads exist only in the parent: calls there fail with `EPFSLFORK`. With the preload library the
//! child makes a connection of its own instead, and is a job of one process.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use libc::c_int;
use pario::{Cluster, ClusterOptions, Job, JobFiles};
use parking_lot::Mutex;

use crate::errors::{CallResult, EPFSLFORK, ErrnoContext, ErrnoError, IntoCallResult};
use crate::{descriptors, inheritance};

/// The connection of this process to the cluster.
#[derive(Debug)]
pub struct ProcessState {
    /// The files that all processes of the job open together.
    pub files: JobFiles,
    /// The files that this process, as a job of one, opens without the others.
    pub single_files: JobFiles,
    /// The host, size and rank that `pfslib_init` was called with, if it was.
    init_arguments: Option<(String, u32, u32)>,
}

static PROCESS: Mutex<Option<Arc<ProcessState>>> = Mutex::new(None);
/// Whether this process was forked and cannot use the connection of its parent.
static IS_FORKED: AtomicBool = AtomicBool::new(false);
/// Whether this process was forked and makes a connection of its own.
static IS_CHILD: AtomicBool = AtomicBool::new(false);
static FORK_HANDLER: Once = Once::new();

/// Sets host, size and rank, and connects: implements `pfslib_init`.
pub fn init(host: &str, size: c_int, rank: c_int) -> CallResult<()> {
    check_fork()?;
    let wrong = || {
        ErrnoError::invalid(format!(
            "process {rank} of {size}: the size must be at least 1, and the rank from 0 to size - 1"
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
            let (size, rank) = (known.job().size(), known.job().rank());
            return Err(ErrnoError::invalid(format!(
                "this process is already rank {rank} of {size}: call pfslib_init once, before any \
                 other call"
            )));
        }
        None => {}
    }
    let cluster = connect(host)?;
    let job = Job::options().size_and_rank(size, rank).join_at(&cluster);
    let job = job.in_call(ErrnoContext::Open)?;
    *process = Some(Arc::new(ProcessState::new(&cluster, &job, Some(init_arguments))?));
    Ok(())
}

/// Returns the connection of this process; the first call connects.
pub fn current() -> CallResult<Arc<ProcessState>> {
    check_fork()?;
    let mut process = PROCESS.lock();
    if let Some(known) = &*process {
        return Ok(known.clone());
    }
    let cluster = connect("")?;
    let job = match IS_CHILD.load(Ordering::Relaxed) {
        // The rank of the environment is that of the parent.
        true => Job::new(&format!("child process {}", std::process::id()), 1, 0),
        false => Job::options().join_at(&cluster),
    };
    let known = Arc::new(ProcessState::new(&cluster, &job.in_call(ErrnoContext::Open)?, None)?);
    *process = Some(known.clone());
    Ok(known)
}

/// Returns whether this process is connected to a cluster.
pub fn is_connected() -> bool {
    check_fork().is_ok() && PROCESS.lock().is_some()
}

/// Returns the job of this process, if it is connected to a cluster.
pub fn joined() -> Option<Job> {
    PROCESS.lock().as_ref().map(|known| known.job().clone())
}

/// Returns the size of the job and the rank of this process. Needs no cluster.
pub fn size_and_rank() -> CallResult<(u32, u32)> {
    check_fork()?;
    if let Some(team) = crate::team::joined() {
        return Ok((team.size(), team.rank()));
    }
    if let Some(known) = &*PROCESS.lock() {
        return Ok((known.job().size(), known.job().rank()));
    }
    let job = Job::from_env().in_call(ErrnoContext::Open)?;
    Ok((job.size(), job.rank()))
}

/// Describes this process in messages.
pub fn describe() -> String {
    match size_and_rank() {
        Ok((size, rank)) => format!("process {rank} of {size}"),
        Err(_) => format!("process with id {}", std::process::id()),
    }
}

/// Fails in a process that was forked from one with a connection or a team.
pub fn check_fork() -> CallResult<()> {
    if IS_FORKED.load(Ordering::Relaxed) {
        return Err(ErrnoError::new(
            EPFSLFORK,
            "a forked process cannot use files and memory that its parent shares: fork before the \
             first call, or exec a program",
        ));
    }
    Ok(())
}

impl ProcessState {
    fn new(
        cluster: &Cluster,
        job: &Job,
        init_arguments: Option<(String, u32, u32)>,
    ) -> CallResult<Self> {
        let (name, rank) = (job_prefix(job.name()), job.rank());
        let own = format!("{name}, process {rank} alone ({})", std::process::id());
        let single = Job::new(&own, 1, 0).in_call(ErrnoContext::Open)?;
        let (files, single_files) = (job.files(cluster), single.files(cluster));
        Ok(Self { files, single_files, init_arguments })
    }

    /// Returns the job of this process.
    pub fn job(&self) -> &Job {
        self.files.job()
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &Cluster {
        self.files.cluster()
    }

    /// Returns the files of `size` processes of the job that open a file together. The name of their
    /// job follows from the path, so that all of them derive the same one.
    pub fn subgroup_files(&self, path: &str, size: u32, rank: u32) -> CallResult<JobFiles> {
        if (size, rank) == (self.job().size(), self.job().rank()) {
            return Ok(self.files.clone());
        }
        let prefix = job_prefix(self.job().name());
        let name = format!("{prefix}, {size} at {:016x}", hash_of(path));
        let job = Job::new(&name, size, rank).in_call(ErrnoContext::Open)?;
        Ok(job.files(self.cluster()))
    }
}

/// Connects to the cluster on a host or at an address; to the one that the environment names if the
/// program names none.
fn connect(host: &str) -> CallResult<Cluster> {
    register_fork_handler();
    let connected = with_signals_blocked(|| {
        let cluster = match host {
            "" => Cluster::from_env(),
            address if address.contains([':', '/', '=']) => Cluster::connect(address),
            host => Cluster::connect_to_host(host, ClusterOptions::default()),
        }?;
        cluster.start_callback_thread()?;
        Ok::<Cluster, pario::Error>(cluster)
    });
    connected.in_call(ErrnoContext::Open)
}

/// Makes every process that is forked from now on know that it was forked.
pub fn register_fork_handler() {
    FORK_HANDLER.call_once(|| {
        // If registration fails, forks go unnoticed.
        match inheritance::is_on() {
            // SAFETY: each fork calls the first handler, and then one of the others.
            true => unsafe {
                libc::pthread_atfork(
                    Some(lock_before_fork),
                    Some(unlock_in_parent),
                    Some(unlock_in_child),
                )
            },
            // SAFETY: the handler only sets a flag.
            false => unsafe { libc::pthread_atfork(None, None, Some(forked)) },
        };
    });
}

extern "C" fn forked() {
    IS_FORKED.store(true, Ordering::Relaxed);
}

extern "C" fn lock_before_fork() {
    std::mem::forget(PROCESS.lock());
    descriptors::lock_before_fork();
    pario::fork::lock_before_fork();
}

extern "C" fn unlock_in_parent() {
    unlock_after_fork(false);
}

extern "C" fn unlock_in_child() {
    unlock_after_fork(true);
    IS_CHILD.store(true, Ordering::Relaxed);
    // The memory of a job cannot be left behind like a connection.
    IS_FORKED.store(crate::team::has_joined(), Ordering::Relaxed);
}

fn unlock_after_fork(is_child: bool) {
    // SAFETY: `lock_before_fork` ran in this thread before the fork.
    unsafe { pario::fork::unlock_after_fork(is_child) };
    // SAFETY: as above.
    unsafe { descriptors::unlock_after_fork(is_child) };
    // SAFETY: this thread has the lock; its guard was forgotten.
    let mut process = unsafe { PROCESS.make_guard_unchecked() };
    if is_child {
        // It belongs to the parent: dropping it would wait for threads that do not exist here.
        std::mem::forget(process.take());
    }
}

/// Runs `body` with all signals blocked, so that the threads that it starts never handle signals of
/// the program. The caller handles none either, so `body` must not wait for other processes.
pub fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are local; `all` is filled before it is used, `before` by the call.
    let is_blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    if is_blocked {
        // SAFETY: the call that succeeded has filled the set.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
    }
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns a job name that is short enough for a suffix.
fn job_prefix(job: &str) -> String {
    if job.len() <= 100 { job.to_owned() } else { format!("job {:016x}", hash_of(job)) }
}

/// Hashes a text, equally in all processes (FNV-1a).
pub fn hash_of(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

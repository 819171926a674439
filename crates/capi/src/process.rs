//! Which process of which job this is, and the cluster that it uses.
//!
//! A program says so with `pfslib_init`; one that does not is asked for nothing: the launcher has
//! said it in the environment. A process that was forked from one that uses a cluster cannot go on
//! with it, since the threads are not there any more: it is told so.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use libc::c_int;
use pario::{Cluster, Group, Member};
use parking_lot::Mutex;

use crate::errors::{Doing, Done, EPFSLFORK, Failed, While};

/// This process, as the cluster knows it.
#[derive(Debug)]
pub struct Process {
    /// The processes of the job.
    pub group: Group,
    /// This process alone, for files that nobody opens together with it.
    pub alone: Group,
    /// What `pfslib_init` was called with, if it was.
    said: Option<(String, u32, u32)>,
}

static PROCESS: Mutex<Option<Arc<Process>>> = Mutex::new(None);
static IS_FORKED: AtomicBool = AtomicBool::new(false);
static WATCH_FORKS: Once = Once::new();

/// Says which process this is: what `pfslib_init` does.
pub fn init(host: &str, size: c_int, rank: c_int) -> Done<()> {
    check_fork()?;
    let wrong = || {
        Failed::invalid(format!(
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
    let said = (host.to_owned(), size, rank);
    let mut process = PROCESS.lock();
    match &*process {
        Some(known) if known.said.as_ref() == Some(&said) => return Ok(()),
        Some(known) => {
            let (size, rank) = (known.group.size(), known.group.rank());
            return Err(Failed::invalid(format!(
                "this process is {rank} of {size} already: call pfslib_init once, and before any \
                 other call"
            )));
        }
        None => {}
    }
    let cluster = connect(host)?;
    let member = Member { job: Group::job_of_environment(), size, rank };
    *process = Some(Arc::new(Process::new(&cluster, &member, Some(said))?));
    Ok(())
}

/// This process; the first call looks for the cluster.
pub fn current() -> Done<Arc<Process>> {
    check_fork()?;
    let mut process = PROCESS.lock();
    if let Some(known) = &*process {
        return Ok(known.clone());
    }
    let member = Group::member_of_environment().while_doing(Doing::Opening)?;
    let cluster = connect("")?;
    let known = Arc::new(Process::new(&cluster, &member, None)?);
    *process = Some(known.clone());
    Ok(known)
}

/// Whether this process uses a cluster.
pub fn is_known() -> bool {
    check_fork().is_ok() && PROCESS.lock().is_some()
}

/// How many processes there are, and which one this is. No cluster is needed for it.
pub fn size_and_rank() -> Done<(u32, u32)> {
    check_fork()?;
    if let Some(team) = crate::team::known() {
        return Ok((team.size(), team.rank()));
    }
    if let Some(known) = &*PROCESS.lock() {
        return Ok((known.group.size(), known.group.rank()));
    }
    let member = Group::member_of_environment().while_doing(Doing::Opening)?;
    Ok((member.size, member.rank))
}

/// This process, for people.
pub fn who() -> String {
    match size_and_rank() {
        Ok((size, rank)) => format!("process {rank} of {size}"),
        Err(_) => format!("process with id {}", std::process::id()),
    }
}

/// Whether this process was forked from one that uses a cluster.
pub fn check_fork() -> Done<()> {
    if IS_FORKED.load(Ordering::Relaxed) {
        return Err(Failed::new(
            EPFSLFORK,
            "it was forked from one that shares files, and cannot go on with them: fork before the \
             first call, or start a program",
        ));
    }
    Ok(())
}

impl Process {
    fn new(cluster: &Cluster, member: &Member, said: Option<(String, u32, u32)>) -> Done<Self> {
        let Member { job, size, rank } = member;
        let group = Group::new(cluster, job, *size, *rank).while_doing(Doing::Opening)?;
        let own = format!("{}, process {rank} alone ({})", short(job), std::process::id());
        let alone = Group::new(cluster, &own, 1, 0).while_doing(Doing::Opening)?;
        Ok(Self { group, alone, said })
    }

    /// Those of the job that open a file together, if they are others than all: what they are called
    /// follows from the file.
    pub fn some(&self, path: &str, size: u32, rank: u32) -> Done<Group> {
        if (size, rank) == (self.group.size(), self.group.rank()) {
            return Ok(self.group.clone());
        }
        let job = format!("{}, {size} at {:016x}", short(self.group.job()), number_of(path));
        Group::new(self.group.cluster(), &job, size, rank).while_doing(Doing::Opening)
    }
}

/// The cluster at an address; otherwise the one that the environment names. A mere name of a host
/// says nothing, since a host may have any number of nodes.
fn connect(host: &str) -> Done<Cluster> {
    watch_forks();
    let is_address = host.contains([':', '/', '=']);
    let connected =
        without_signals(|| if is_address { Cluster::connect(host) } else { Cluster::from_env() });
    connected.while_doing(Doing::Opening)
}

/// From now on a process that is forked from this one knows it.
pub fn watch_forks() {
    WATCH_FORKS.call_once(|| {
        // SAFETY: the function only sets a flag. If it cannot be registered, forks are not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

extern "C" fn forked() {
    IS_FORKED.store(true, Ordering::Relaxed);
}

/// Does something that starts threads: they get none of the signals of the program. Nor does the
/// caller meanwhile, so that it must not be something that waits for other processes.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
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
fn short(job: &str) -> String {
    if job.len() <= 100 { job.to_owned() } else { format!("job {:016x}", number_of(job)) }
}

/// A number that follows from a text, for all processes alike (FNV-1a).
pub fn number_of(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

//! Collective calls that this process has made with a number that is no descriptor of a shared file.
//!
//! The number does not say which file the other processes mean. Two rules end their wait:
//!
//! 1. A call that only this library has counts as the call on the one file that this process has open
//!    for it, and fails there.
//! 2. Any other call is remembered: `close` of a number that is no descriptor is common, and must not
//!    disturb the other processes. While this process waits in a later collective call, it looks
//!    whether the others wait for it in a call of the remembered kind, on a file at which it has made
//!    no call since. That call fails.
//!
//! Both fail the call on all processes, with the rank and the reason.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use libc::c_int;
use pario::status::JobStatus;
use pario::{CallKind, JobFiles, SharedFile};
use parking_lot::{Condvar, Mutex};

use crate::descriptors::{self, FileHandle};
use crate::errors::{CallResult, ErrnoError};
use crate::process;

/// How often a process that waits looks whether others wait for it.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// The last call that rule 2 concerns.
static REMEMBERED: Mutex<Option<MisdirectedCall>> = Mutex::new(None);
/// Whether there is one: calls of correct programs take no lock.
static IS_REMEMBERED: AtomicBool = AtomicBool::new(false);

/// A call whose file is not known.
#[derive(Debug)]
struct MisdirectedCall {
    kind: CallKind,
    why: String,
    sites: Vec<CallSite>,
}

/// Where the other processes may wait for the call, and how many collective calls this process had
/// made there.
#[derive(Debug)]
enum CallSite {
    /// An open file.
    File(Weak<SharedFile>, u64),
    /// The job: its processes open a file together first.
    Job(JobFiles, u64),
}

/// How a call fails on the other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdirection {
    /// Only this library has the call, which waits for the other processes.
    Waiting,
    /// Only this library has the call, which is started.
    Started,
    /// The system has the call too.
    System,
}

/// Handles a call of a kind that has failed because of its number.
pub fn fail(kind: CallKind, misdirection: Misdirection, why: &str) {
    let mut sites = sites_of(kind);
    let found = match misdirection {
        Misdirection::System => None,
        Misdirection::Waiting | Misdirection::Started if sites.len() == 1 => sites.pop(),
        Misdirection::Waiting | Misdirection::Started => None,
    };
    if let (CallKind::SetMode, Some(CallSite::File(..))) = (kind, &found) {
        // The others may have opened a file that this process could not open.
        sites.extend(job_site());
    }
    remember(MisdirectedCall { kind, why: why.to_owned(), sites });
    match found {
        Some(site) if misdirection == Misdirection::Started => site.start_failed(kind, why),
        Some(site) => watched(|| site.fail(kind, why)),
        None => {}
    }
}

/// Returns the result of a call of a kind on a number that is not that of a shared file. If it is no
/// open descriptor at all, the other processes may wait for the same call on a shared file.
pub fn or_fail<T>(
    fd: c_int,
    (kind, misdirection): (CallKind, Misdirection),
    result: CallResult<T>,
) -> CallResult<T> {
    if result.as_ref().is_err_and(ErrnoError::is_bad_descriptor) && is_unused(fd) {
        fail(kind, misdirection, &format!("descriptor {fd} is not open"));
    }
    result
}

/// Whether a number is no open descriptor of this process.
fn is_unused(fd: c_int) -> bool {
    // SAFETY: the call takes no memory.
    unsafe { libc::fcntl(fd, libc::F_GETFD) < 0 }
}

/// Makes a collective call of the job. While it waits, the call that is remembered fails if others
/// wait for it elsewhere.
pub fn while_waiting<T>(call: impl FnOnce() -> T) -> T {
    if !IS_REMEMBERED.load(Ordering::Relaxed) {
        return call();
    }
    forget(|site| matches!(site, CallSite::Job(..)));
    watched(call)
}

/// Makes a collective call on a file, which is only compared. While it waits, the call that is
/// remembered fails if others wait for it elsewhere.
pub fn while_waiting_at<T>(file: *const SharedFile, call: impl FnOnce() -> T) -> T {
    if !IS_REMEMBERED.load(Ordering::Relaxed) {
        return call();
    }
    let is_it = |known: &Weak<SharedFile>| std::ptr::eq(known.as_ptr(), file);
    forget(|site| matches!(site, CallSite::File(known, _) if is_it(known)));
    watched(call)
}

/// Forgets places at which this process makes a call.
fn forget(is_over: impl Fn(&CallSite) -> bool) {
    let mut remembered = REMEMBERED.lock();
    if let Some(call) = remembered.as_mut() {
        call.sites.retain(|site| !is_over(site));
    }
    let is_known = remembered.as_ref().is_some_and(|call| !call.sites.is_empty());
    IS_REMEMBERED.store(is_known, Ordering::Relaxed);
}

/// Makes a call while a thread looks for others that wait for this process.
fn watched<T>(call: impl FnOnce() -> T) -> T {
    let end = CallEnd::default();
    std::thread::scope(|scope| {
        // Without the thread, the others wait as long as this process does.
        let _watching = process::with_signals_blocked(|| {
            let thread = std::thread::Builder::new().name("pario-watch".to_owned());
            thread.spawn_scoped(scope, || end.watch())
        });
        let _over = CallOver(&end);
        call()
    })
}

/// Tells the watching thread that a call is over.
#[derive(Default)]
struct CallEnd {
    is_over: Mutex<bool>,
    changed: Condvar,
}

/// Ends the watch when it is dropped.
struct CallOver<'e>(&'e CallEnd);

impl CallEnd {
    fn watch(&self) {
        let mut is_over = self.is_over.lock();
        while !*is_over {
            if self.changed.wait_for(&mut is_over, LOOK_PERIOD).timed_out() && fail_if_awaited() {
                return;
            }
        }
    }
}

impl Drop for CallOver<'_> {
    fn drop(&mut self) {
        *self.0.is_over.lock() = true;
        self.0.changed.notify_all();
    }
}

fn remember(call: MisdirectedCall) {
    let is_known = !call.sites.is_empty();
    *REMEMBERED.lock() = is_known.then_some(call);
    IS_REMEMBERED.store(is_known, Ordering::Relaxed);
}

/// Fails the remembered call if other processes wait for it. Returns whether none is left.
fn fail_if_awaited() -> bool {
    let mut remembered = REMEMBERED.lock();
    let Some(call) = remembered.as_mut() else { return true };
    call.sites.retain(CallSite::is_unchanged);
    if call.sites.is_empty() {
        *remembered = None;
        IS_REMEMBERED.store(false, Ordering::Relaxed);
        return true;
    }
    let Some(process) = process::connected() else { return true };
    // If the node does not answer, the call that waits fails.
    let Ok(jobs) = process.cluster().jobs() else { return false };
    let awaited = call.sites.iter().position(|site| site.is_awaited(call.kind, &jobs));
    let Some(awaited) = awaited else { return false };
    let (site, kind, why) = (call.sites.swap_remove(awaited), call.kind, call.why.clone());
    *remembered = None;
    IS_REMEMBERED.store(false, Ordering::Relaxed);
    drop(remembered);
    site.start_failed(kind, &why);
    true
}

/// The places at which a call of a kind is collective for this process.
fn sites_of(kind: CallKind) -> Vec<CallSite> {
    let (mut sites, mut has_single) = (Vec::new(), false);
    for entry in descriptors::open_files() {
        match entry.handle() {
            Ok(FileHandle { is_single: true, .. }) => has_single |= entry.files.job().size() > 1,
            Ok(FileHandle { file, .. }) => {
                if file.files().job().size() > 1 && file.mode().is_collective(kind) {
                    sites.push(CallSite::File(Arc::downgrade(&file), file.collective_calls()));
                }
            }
            Err(_) => {}
        }
    }
    if kind == CallKind::SetMode && (has_single || sites.is_empty()) {
        sites.extend(job_site());
    }
    sites
}

/// The job of this process, if it has other processes.
fn job_site() -> Option<CallSite> {
    let files = process::connected()?.files.clone();
    let calls = files.collective_calls();
    (files.job().size() > 1).then_some(CallSite::Job(files, calls))
}

impl CallSite {
    /// Whether this process has made no collective call there since.
    fn is_unchanged(&self) -> bool {
        match self {
            Self::File(file, calls) => {
                file.upgrade().is_some_and(|file| file.collective_calls() == *calls)
            }
            Self::Job(files, calls) => files.collective_calls() == *calls,
        }
    }

    /// Whether other processes wait there for a call of a kind.
    fn is_awaited(&self, kind: CallKind, jobs: &[JobStatus]) -> bool {
        match self {
            Self::File(file, _) => {
                file.upgrade().is_some_and(|file| file.awaited_call(jobs) == Some(kind))
            }
            Self::Job(files, _) => files.is_awaited(jobs),
        }
    }

    /// Fails the call of all processes, and waits for them.
    fn fail(&self, kind: CallKind, why: &str) {
        match self {
            Self::File(file, _) => {
                if let Some(file) = file.upgrade() {
                    file.fail_call(kind, why);
                }
            }
            Self::Job(files, _) => drop(files.fail_call(why)),
        }
    }

    /// Fails the call of all processes, and does not wait for them.
    fn start_failed(&self, kind: CallKind, why: &str) {
        match self {
            Self::File(file, _) => {
                if let Some(file) = file.upgrade() {
                    process::with_signals_blocked(|| file.start_failed_call(kind, why));
                }
            }
            Self::Job(files, _) => {
                let (files, why) = (files.clone(), why.to_owned());
                // Without the thread, the others wait until this process ends.
                let _started = process::with_signals_blocked(|| {
                    let thread = std::thread::Builder::new().name("pario-fail".to_owned());
                    thread.spawn(move || drop(files.fail_call(&why)))
                });
            }
        }
    }
}

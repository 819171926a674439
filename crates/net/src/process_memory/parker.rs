//! The seam for waiting: how a thread passes time, sleeps and wakes others.

use std::fmt::Debug;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// How the processes that share a memory wait for each other. A simulator puts its scheduler here
/// ([`SharedMemory::set_parker`](crate::SharedMemory::set_parker)).
pub trait Parker: Debug + Send + Sync {
    /// The time since a fixed moment, by a clock that all processes share.
    fn now(&self) -> Duration;
    /// Lets a moment pass between two checks. `is_yield`: another thread may need this core.
    fn pause(&self, is_yield: bool);
    /// Sleeps while the word has the value `seen`, until a process calls [`wake`](Self::wake), and
    /// for this time at most. May return earlier.
    fn park(&self, word: SharedWord<'_>, seen: u32, limit: Duration);
    /// Wakes up to `count` threads that sleep on a word.
    fn wake(&self, word: SharedWord<'_>, count: u32);
    /// A point between two steps at which another process may run, or this one may die.
    fn reach(&self, point: SwitchPoint, word: SharedWord<'_>);
    /// The number of this process.
    fn process_id(&self) -> u32;
    /// Whether a process runs.
    fn is_running(&self, process: u32) -> bool;
}

/// A word of shared memory.
#[derive(Clone, Copy, Debug)]
pub struct SharedWord<'m> {
    /// The number of the part.
    pub part: usize,
    /// The index of the word in the part.
    pub index: usize,
    /// The word.
    pub value: &'m AtomicU32,
}

/// Where a thread is when it calls [`Parker::reach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchPoint {
    /// It has taken the lock.
    Locked,
    /// It is about to release the lock.
    Unlocking,
    /// It has released the lock and has not woken the next thread.
    Unlocked,
    /// It has counted a change and has not woken the threads that wait for it.
    Changed,
    /// It has checked its condition and is about to sleep.
    Parking,
}

/// The kernel of the machine.
#[derive(Debug)]
pub struct FutexParker;

impl Parker for FutexParker {
    fn now(&self) -> Duration {
        let now = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
    }

    fn pause(&self, is_yield: bool) {
        if is_yield {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }

    fn park(&self, word: SharedWord<'_>, seen: u32, limit: Duration) {
        let tv_sec = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        let limit = Timespec { tv_sec, tv_nsec: limit.subsec_nanos().into() };
        // The caller checks again, whatever has woken it.
        let _ = futex::wait(word.value, futex::Flags::empty(), seen, Some(&limit));
    }

    fn wake(&self, word: SharedWord<'_>, count: u32) {
        let _ = futex::wake(word.value, futex::Flags::empty(), count);
    }

    fn reach(&self, _: SwitchPoint, _: SharedWord<'_>) {}

    fn process_id(&self) -> u32 {
        getpid().as_raw_nonzero().get().unsigned_abs()
    }

    fn is_running(&self, process: u32) -> bool {
        let process = Pid::from_raw(process.cast_signed());
        process.is_none_or(|process| test_kill_process(process) != Err(Errno::SRCH))
    }
}

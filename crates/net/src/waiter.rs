//! A waiting thread, and how other threads wake it.
//!
//! A waiting thread either sleeps or leads (polls for its space, see `poller`). The thread that
//! produces what it waits for wakes it: a sleeper by unparking it, a leader by interrupting its
//! poll.
//!
//! Objects that threads wait for keep a list of waiters beside their state, under the same lock. A
//! stale entry does no harm: its thread checks once more than needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::Thread;
use std::time::Instant;

use parking_lot::Mutex;

use crate::poller::PollInterrupt;

const RUNNING: u8 = 0;
const ASLEEP: u8 = 1;
const LEADING: u8 = 2;
const WOKEN: u8 = 3;

pub(crate) struct Waiter {
    state: AtomicU8,
    /// Whether the thread leads, from one poll to the next. Only its own thread reads this.
    leads: AtomicBool,
    /// Interrupts that poll. The waking thread may belong to another space, where this thread has
    /// waited before.
    interrupt: Mutex<Option<PollInterrupt>>,
    thread: Thread,
}

thread_local! {
    static CURRENT: Arc<Waiter> =
        Arc::new(Waiter {
            state: AtomicU8::new(RUNNING),
            leads: AtomicBool::new(false),
            interrupt: Mutex::new(None),
            thread: std::thread::current(),
        });
}

impl Waiter {
    /// The waiter of this thread.
    pub fn current() -> Arc<Self> {
        CURRENT.with(Arc::clone)
    }

    /// Whether this thread leads.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    /// Makes this thread the leader.
    pub fn lead(&self, interrupt: PollInterrupt) {
        *self.interrupt.lock() = Some(interrupt);
        self.leads.store(true, Ordering::Relaxed);
    }

    /// Ends the lead of this thread.
    pub fn resign(&self) {
        self.leads.store(false, Ordering::Relaxed);
        *self.interrupt.lock() = None;
    }

    /// Call this before checking whether to wait.
    pub fn prepare(&self) {
        self.state.store(RUNNING, Ordering::SeqCst);
    }

    /// Sleeps until woken. Returns false if the deadline came first.
    pub fn sleep(&self, deadline: Option<Instant>) -> bool {
        let change =
            self.state.compare_exchange(RUNNING, ASLEEP, Ordering::SeqCst, Ordering::SeqCst);
        if change.is_err() {
            return true;
        }
        loop {
            match deadline {
                None => std::thread::park(),
                Some(deadline) => {
                    let now = Instant::now();
                    if now < deadline {
                        std::thread::park_timeout(deadline - now);
                    }
                    if Instant::now() >= deadline {
                        return self.state.swap(RUNNING, Ordering::SeqCst) == WOKEN;
                    }
                }
            }
            if self.state.load(Ordering::SeqCst) == WOKEN {
                return true;
            }
        }
    }

    /// Announces that the thread is going to poll. Returns false if it was woken before.
    pub fn begin_leading(&self) -> bool {
        self.state.compare_exchange(RUNNING, LEADING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Wakes the thread, or interrupts its poll.
    pub fn wake(&self) {
        match self.state.swap(WOKEN, Ordering::SeqCst) {
            ASLEEP => self.thread.unpark(),
            LEADING if !self.is_current() => {
                if let Some(interrupt) = &*self.interrupt.lock() {
                    interrupt.trigger();
                }
            }
            _ => {}
        }
    }

    fn is_current(&self) -> bool {
        CURRENT.try_with(|current| std::ptr::eq(&raw const **current, self)).unwrap_or(false)
    }
}

/// The waiters of an object.
#[derive(Default)]
pub(crate) struct Waiters(Vec<Arc<Waiter>>);

impl Waiters {
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a waiter, once.
    pub fn add(&mut self, waiter: &Arc<Waiter>) {
        if !self.0.iter().any(|known| Arc::ptr_eq(known, waiter)) {
            self.0.push(waiter.clone());
        }
    }

    /// Takes all waiters, to be woken after the lock is released.
    pub fn take(&mut self) -> Self {
        if self.0.is_empty() { Self::new() } else { std::mem::take(self) }
    }

    pub fn into_vec(self) -> Vec<Arc<Waiter>> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::poller::Poller;

    #[test]
    fn a_leader_is_interrupted_in_the_space_where_it_leads() {
        let poller = Poller::new().unwrap();
        let waiter = Waiter::current();
        waiter.prepare();
        waiter.lead(poller.interrupter());
        assert!(waiter.begin_leading());
        // The waking thread belongs to a space where this thread waited before.
        let known = waiter.clone();
        std::thread::spawn(move || known.wake()).join().unwrap();
        let mut events = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        poller.poll(Some(deadline), &mut events);
        assert!(Instant::now() < deadline && events.is_empty(), "the interrupt has ended the poll");
        waiter.resign();
        waiter.prepare();
    }
}

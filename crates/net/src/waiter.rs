//! A thread that waits, and how it is woken.
//!
//! A waiting thread either sleeps or leads (sits in the poll of its space, see `hub`). Who makes
//! happen what it waits for wakes it: from sleep by unparking it, from the poll by a kick.
//!
//! Objects that are waited for keep a list of waiters beside their state, under the same lock. An
//! entry that is no longer waiting does no harm: its thread looks once more in vain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::Thread;
use std::time::Instant;

use parking_lot::Mutex;

use crate::hub::Kick;

const RUNNING: u8 = 0;
const ASLEEP: u8 = 1;
const LEADING: u8 = 2;
const WOKEN: u8 = 3;

pub(crate) struct Waiter {
    state: AtomicU8,
    /// Whether it polls for all, from one poll to the next. Only its own thread looks.
    leads: AtomicBool,
    /// What gets it out of that poll. Whoever wakes it may belong to another space, where the thread
    /// has waited before.
    kick: Mutex<Option<Kick>>,
    thread: Thread,
}

thread_local! {
    static CURRENT: Arc<Waiter> =
        Arc::new(Waiter {
            state: AtomicU8::new(RUNNING),
            leads: AtomicBool::new(false),
            kick: Mutex::new(None),
            thread: std::thread::current(),
        });
}

impl Waiter {
    /// The waiter of this thread.
    pub fn current() -> Arc<Self> {
        CURRENT.with(Arc::clone)
    }

    /// Whether this thread polls for all.
    pub fn leads(&self) -> bool {
        self.leads.load(Ordering::Relaxed)
    }

    /// It polls for all from now on.
    pub fn lead(&self, kick: Kick) {
        *self.kick.lock() = Some(kick);
        self.leads.store(true, Ordering::Relaxed);
    }

    /// It polls no more.
    pub fn resign(&self) {
        self.leads.store(false, Ordering::Relaxed);
        *self.kick.lock() = None;
    }

    /// To be called before looking whether there is need to wait.
    pub fn prepare(&self) {
        self.state.store(RUNNING, Ordering::SeqCst);
    }

    /// Sleeps until woken; false if the deadline came first.
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

    /// Says that the thread is going to poll; false if it was woken before.
    pub fn begin_leading(&self) -> bool {
        self.state.compare_exchange(RUNNING, LEADING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Wakes the thread, or gets it out of its poll.
    pub fn wake(&self) {
        match self.state.swap(WOKEN, Ordering::SeqCst) {
            ASLEEP => self.thread.unpark(),
            LEADING if !self.is_current() => {
                if let Some(kick) = &*self.kick.lock() {
                    kick.give();
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

    /// Takes all out, to be woken when the lock is released.
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
    use crate::hub::Hub;

    #[test]
    fn who_leads_is_kicked_where_it_leads_whoever_wakes_it() {
        let hub = Hub::new().unwrap();
        let waiter = Waiter::current();
        waiter.prepare();
        waiter.lead(hub.kick_to_give());
        assert!(waiter.begin_leading());
        // By somebody in a space where this thread waited before.
        let known = waiter.clone();
        std::thread::spawn(move || known.wake()).join().unwrap();
        let mut events = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        hub.poll(Some(deadline), &mut events);
        assert!(Instant::now() < deadline && events.is_empty(), "the kick has ended the poll");
        waiter.resign();
        waiter.prepare();
    }
}

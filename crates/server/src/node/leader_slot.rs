//! The leader slot: which thread of the dispatcher receives requests.
//!
//! Of several threads one *leads*: it receives requests, and serves short ones itself, because it
//! has their bytes in its processor cache. This takes no longer than waking another thread. If a
//! request takes long because a disk blocks, the *standby* notices within a few milliseconds and
//! takes over the lead; the former leader waits to be the standby when it is done. A leader without
//! a standby begins no request that can block.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;

/// The period at which the standby polls.
const POLL_PERIOD: Duration = Duration::from_millis(1);
/// The standby parks after this number of polls without a change.
const IDLE_POLLS: u32 = 50;

/// The state that the threads share.
#[derive(Default)]
pub struct LeaderSlot {
    /// Odd while the leader does long work. Every change increments it, so that the standby can
    /// tell one piece of work from the next.
    count: AtomicU64,
    /// The number of threads that do not lead and could.
    waiting: AtomicUsize,
    /// The standby holds this lock; further threads wait for it.
    standby: Mutex<()>,
    /// The standby, while it is parked.
    parked: Mutex<Option<Thread>>,
    is_parked: AtomicBool,
    is_closed: AtomicBool,
}

/// The lead, as its thread sees it.
pub struct Leadership<'a> {
    leader_slot: &'a LeaderSlot,
    is_held: Cell<bool>,
}

/// Work of the leader that can block. It ends when this is dropped, also by a panic.
#[must_use = "the work ends when this is dropped"]
pub struct LongWork<'a> {
    leadership: &'a Leadership<'a>,
    count: u64,
}

impl Leadership<'_> {
    /// Begins work that can block; `None` if no other thread could take over the lead.
    pub fn begin(&self) -> Option<LongWork<'_>> {
        let count = self.leader_slot.begin()?;
        Some(LongWork { leadership: self, count })
    }

    /// Returns whether the thread still leads.
    pub fn is_held(&self) -> bool {
        self.is_held.get()
    }
}

impl Drop for LongWork<'_> {
    fn drop(&mut self) {
        self.leadership.is_held.set(self.leadership.leader_slot.advance(self.count));
    }
}

impl LeaderSlot {
    /// Waits until this thread leads; `false` after [`close`](Self::close).
    pub fn wait(&self) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _one_at_a_time = self.standby.lock();
        let mut seen = self.count.load(Ordering::SeqCst);
        let mut idle_polls = 0;
        let is_leader = loop {
            if self.is_closed.load(Ordering::SeqCst) {
                break false;
            }
            if idle_polls < IDLE_POLLS {
                std::thread::park_timeout(POLL_PERIOD);
            } else {
                self.park(seen);
                idle_polls = 0;
            }
            let count = self.count.load(Ordering::SeqCst);
            if count != seen {
                (seen, idle_polls) = (count, 0);
            } else if count.is_multiple_of(2) {
                idle_polls += 1;
            } else if self.advance(count) {
                break true;
            }
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        is_leader
    }

    /// Returns the lead, for the thread that has it.
    pub fn leadership(&self) -> Leadership<'_> {
        Leadership { leader_slot: self, is_held: Cell::new(true) }
    }

    fn begin(&self) -> Option<u64> {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if self.is_parked.load(Ordering::SeqCst) {
            self.wake();
        }
        Some(count)
    }

    /// Ends the lead: all threads return from [`wait`](Self::wait).
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn advance(&self, count: u64) -> bool {
        let (order, next) = (Ordering::SeqCst, count + 1);
        self.count.compare_exchange(count, next, order, order).is_ok()
    }

    /// Parks, unless something has changed.
    fn park(&self, seen: u64) {
        *self.parked.lock() = Some(std::thread::current());
        self.is_parked.store(true, Ordering::SeqCst);
        let is_closed = || self.is_closed.load(Ordering::SeqCst);
        while self.is_parked.load(Ordering::SeqCst)
            && self.count.load(Ordering::SeqCst) == seen
            && !is_closed()
        {
            std::thread::park();
        }
        self.is_parked.store(false, Ordering::SeqCst);
    }

    fn wake(&self) {
        self.is_parked.store(false, Ordering::SeqCst);
        if let Some(standby) = self.parked.lock().take() {
            standby.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_leader_loses_the_lead_only_by_long_work() {
        let leader_slot = Arc::new(LeaderSlot::default());
        assert!(leader_slot.begin().is_none(), "no other thread could lead");
        let (is_leader, leadership) = channel();
        let standby = {
            let leader_slot = leader_slot.clone();
            std::thread::spawn(move || {
                while leader_slot.wait() {
                    is_leader.send(()).unwrap();
                }
            })
        };
        while leader_slot.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let held = leader_slot.leadership();
        let long = held.begin().expect("there is a standby");
        leadership.recv().unwrap();
        drop(long);
        assert!(!held.is_held(), "the standby leads");
        leader_slot.close();
        standby.join().unwrap();
    }

    #[test]
    fn work_that_panics_has_ended() {
        let leader_slot = LeaderSlot::default();
        leader_slot.waiting.fetch_add(1, Ordering::SeqCst);
        let leadership = leader_slot.leadership();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _working = leadership.begin().expect("another thread waits");
            panic!("in the middle of the work");
        }));
        assert!(panicked.is_err() && leadership.is_held());
        assert!(leader_slot.count.load(Ordering::SeqCst).is_multiple_of(2), "nothing is under way");
    }

    #[test]
    fn one_thread_of_many_leads() {
        let leader_slot = Arc::new(LeaderSlot::default());
        let is_held = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..3)
            .map(|_| {
                let (leader_slot, is_held) = (leader_slot.clone(), is_held.clone());
                std::thread::spawn(move || {
                    while leader_slot.wait() {
                        hold(&leader_slot, &is_held);
                    }
                })
            })
            .collect();
        for _ in 0..10 {
            hold(&leader_slot, &is_held);
            assert!(leader_slot.wait());
        }
        leader_slot.close();
        others.into_iter().for_each(|other| other.join().unwrap());
    }

    /// Leads, does short and long work, and loses the lead.
    fn hold(leader_slot: &LeaderSlot, is_held: &AtomicBool) {
        assert!(!is_held.swap(true, Ordering::SeqCst), "two threads lead");
        let leadership = leader_slot.leadership();
        let is_closed = || leader_slot.is_closed.load(Ordering::SeqCst);
        let begin = || loop {
            match leadership.begin() {
                Some(working) => break Some(working),
                None if is_closed() => break None,
                None => std::thread::yield_now(),
            }
        };
        drop(begin());
        is_held.store(false, Ordering::SeqCst);
        let Some(long) = begin() else { return };
        while leader_slot.count.load(Ordering::SeqCst) == long.count && !is_closed() {
            std::thread::yield_now();
        }
        drop(long);
        assert!(!leadership.is_held() || is_closed());
    }
}

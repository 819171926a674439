//! Whose turn it is to receive questions.
//!
//! Of several threads one receives, and does itself what is done soonest by the thread that has the
//! bytes in its cache. Nearly always that takes no longer than waking another thread would, so
//! nobody is woken for it. If it does take long, because a disk lets it wait, the *deputy* finds out
//! within a few milliseconds and receives in its place; the other one becomes a deputy when it is
//! done. Who finds no deputy does not begin anything that could take long.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::Mutex;

/// How often the deputy looks.
const LOOK: Duration = Duration::from_millis(1);
/// After so many looks at nothing it sleeps until it is called.
const VAIN_LOOKS: u32 = 50;

/// Whose turn it is.
#[derive(Default)]
pub struct Turns {
    /// Odd while who has the turn works. It grows with every change, so that the deputy can tell
    /// one piece of work from the next.
    count: AtomicU64,
    /// Threads that do not have the turn and could.
    waiting: AtomicUsize,
    /// The deputy holds it; others wait to be deputy.
    deputy: Mutex<()>,
    /// The deputy, while it sleeps.
    asleep: Mutex<Option<Thread>>,
    is_asleep: AtomicBool,
    is_over: AtomicBool,
}

/// The turn of the thread that receives.
pub struct Turn<'a> {
    turns: &'a Turns,
    is_held: Cell<bool>,
}

/// A piece of work of the thread that has the turn. It ends when this is dropped, also by a panic.
#[must_use = "work ends"]
pub struct Working<'a> {
    turn: &'a Turn<'a>,
    count: u64,
}

impl Turn<'_> {
    /// Begins something that may take long; none if no other thread could receive in the meantime.
    pub fn begin(&self) -> Option<Working<'_>> {
        let count = self.turns.begin()?;
        Some(Working { turn: self, count })
    }

    /// Whether the thread still has the turn.
    pub fn is_held(&self) -> bool {
        self.is_held.get()
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.turn.is_held.set(self.turn.turns.change(self.count));
    }
}

impl Turns {
    /// Waits until this thread has the turn; false when there are no more turns.
    pub fn wait(&self) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _one_at_a_time = self.deputy.lock();
        let mut seen = self.count.load(Ordering::SeqCst);
        let mut vain_looks = 0;
        let has_turn = loop {
            if self.is_over.load(Ordering::SeqCst) {
                break false;
            }
            if vain_looks < VAIN_LOOKS {
                std::thread::park_timeout(LOOK);
            } else {
                self.sleep(seen);
                vain_looks = 0;
            }
            let count = self.count.load(Ordering::SeqCst);
            if count != seen {
                (seen, vain_looks) = (count, 0);
            } else if count.is_multiple_of(2) {
                vain_looks += 1;
            } else if self.change(count) {
                break true;
            }
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        has_turn
    }

    /// The turn, for the thread that has it.
    pub fn held(&self) -> Turn<'_> {
        Turn { turns: self, is_held: Cell::new(true) }
    }

    fn begin(&self) -> Option<u64> {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if self.is_asleep.load(Ordering::SeqCst) {
            self.call();
        }
        Some(count)
    }

    /// There are no more turns.
    pub fn close(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.call();
    }

    fn change(&self, count: u64) -> bool {
        let (order, next) = (Ordering::SeqCst, count + 1);
        self.count.compare_exchange(count, next, order, order).is_ok()
    }

    /// Sleeps, unless something has changed.
    fn sleep(&self, seen: u64) {
        *self.asleep.lock() = Some(std::thread::current());
        self.is_asleep.store(true, Ordering::SeqCst);
        let is_over = || self.is_over.load(Ordering::SeqCst);
        while self.is_asleep.load(Ordering::SeqCst)
            && self.count.load(Ordering::SeqCst) == seen
            && !is_over()
        {
            std::thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    fn call(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
        if let Some(deputy) = self.asleep.lock().take() {
            deputy.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_works_long_loses_the_turn_and_who_does_not_keeps_it() {
        let turns = Arc::new(Turns::default());
        assert!(turns.begin().is_none(), "nobody could receive meanwhile");
        let (has_turn, turn) = channel();
        let deputy = {
            let turns = turns.clone();
            std::thread::spawn(move || {
                while turns.wait() {
                    has_turn.send(()).unwrap();
                }
            })
        };
        while turns.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let held = turns.held();
        let long = held.begin().expect("there is a deputy");
        turn.recv().unwrap();
        drop(long);
        assert!(!held.is_held(), "the deputy has it");
        turns.close();
        deputy.join().unwrap();
    }

    #[test]
    fn work_that_panics_has_ended() {
        let turns = Turns::default();
        turns.waiting.fetch_add(1, Ordering::SeqCst);
        let turn = turns.held();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _working = turn.begin().expect("another thread waits");
            panic!("in the middle of the work");
        }));
        assert!(panicked.is_err() && turn.is_held());
        assert!(turns.count.load(Ordering::SeqCst).is_multiple_of(2), "nothing is under way");
    }

    #[test]
    fn one_of_many_has_the_turn() {
        let turns = Arc::new(Turns::default());
        let is_held = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..3)
            .map(|_| {
                let (turns, is_held) = (turns.clone(), is_held.clone());
                std::thread::spawn(move || {
                    while turns.wait() {
                        hold(&turns, &is_held);
                    }
                })
            })
            .collect();
        for _ in 0..10 {
            hold(&turns, &is_held);
            assert!(turns.wait());
        }
        turns.close();
        others.into_iter().for_each(|other| other.join().unwrap());
    }

    /// Has the turn, works for a short time and for a long one, and has lost it.
    fn hold(turns: &Turns, is_held: &AtomicBool) {
        assert!(!is_held.swap(true, Ordering::SeqCst), "two have the turn");
        let turn = turns.held();
        let is_over = || turns.is_over.load(Ordering::SeqCst);
        let begin = || loop {
            match turn.begin() {
                Some(working) => break Some(working),
                None if is_over() => break None,
                None => std::thread::yield_now(),
            }
        };
        drop(begin());
        is_held.store(false, Ordering::SeqCst);
        let Some(long) = begin() else { return };
        while turns.count.load(Ordering::SeqCst) == long.count && !is_over() {
            std::thread::yield_now();
        }
        drop(long);
        assert!(!turn.is_held() || is_over());
    }
}

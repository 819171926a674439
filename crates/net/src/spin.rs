//! Looking again for a moment before sleeping.
//!
//! To wake a thread on another core that sleeps takes some 40 µs; a token that comes sooner is had
//! sooner by looking. Between two looks the core is offered to others: if the peer is on the same
//! one, it answers at once. Where tokens do not come that soon, looking is a waste: so whoever
//! looked in vain does not look the next times, twice as many after each vain look.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long to look: longer than a peer that sleeps takes to wake and answer, or else its sleep would
/// send this thread to sleep as well, whose sleep would send the peer to sleep, and so on.
const MOMENT: Duration = Duration::from_micros(80);
/// After a vain look, so many waits go without one, and up to so many.
const FEWEST_SKIPPED: u32 = 2;
const MOST_SKIPPED: u32 = 512;

#[derive(Default)]
pub(crate) struct Spin {
    /// Waits that go without a look.
    skip: AtomicU32,
    /// How many the last vain look cost.
    cost: AtomicU32,
}

impl Spin {
    /// Looks until something was there or the moment is over; whether something was there. `look`
    /// is told how often it was called. Called by one thread at a time.
    pub fn look(&self, look: impl FnMut(u32) -> bool) -> bool {
        let mut end = None;
        self.look_while(look, || {
            let now = Instant::now();
            now >= *end.get_or_insert(now + MOMENT)
        })
    }

    /// Looks until something was there or it is late. `is_late` is asked once before the first look.
    fn look_while(
        &self,
        mut look: impl FnMut(u32) -> bool,
        mut is_late: impl FnMut() -> bool,
    ) -> bool {
        let skip = self.skip.load(Ordering::Relaxed);
        if skip > 0 {
            self.skip.store(skip - 1, Ordering::Relaxed);
            return false;
        }
        is_late();
        for round in 1.. {
            // The peer may need this very core to answer.
            std::thread::yield_now();
            let is_there = look(round);
            // What took longer has come in spite of looking: others need the core.
            let is_late = is_late();
            if is_there && !is_late {
                self.cost.store(0, Ordering::Relaxed);
                return true;
            }
            if is_late {
                self.vain();
                return is_there;
            }
        }
        false
    }

    fn vain(&self) {
        let cost = (2 * self.cost.load(Ordering::Relaxed)).clamp(FEWEST_SKIPPED, MOST_SKIPPED);
        self.cost.store(cost, Ordering::Relaxed);
        self.skip.store(cost, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn vain_looks_become_rare_and_one_that_helps_makes_them_frequent() {
        let spin = Spin::default();
        let mut looks = 0;
        for _ in 0..1_000 {
            let looked = Cell::new(0);
            let in_vain = |round| {
                looked.set(round);
                false
            };
            spin.look_while(in_vain, || looked.get() == 3);
            looks += u32::from(looked.get() > 0);
        }
        assert!((5..15).contains(&looks), "{looks} of 1000 waits looked");
        while !spin.look_while(|_| true, || false) {}
        assert!((0..100).all(|_| spin.look_while(|_| true, || false)));
        assert!(spin.look_while(|_| true, || true), "late, but there");
        assert!(!spin.look_while(|_| true, || false), "what comes late makes looks rarer as well");
    }
}

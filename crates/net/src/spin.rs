//! Spinning briefly before sleeping.
//!
//! Waking a sleeping thread on another core takes some 40 µs; a token that comes sooner is received
//! sooner by spinning. Between two checks the core is offered to others: if the peer is on the same
//! one, it answers at once. Where tokens do not come that soon, spinning is a waste: after a miss
//! the next waits do not spin, twice as many after each further miss.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The time limit of spinning: longer than a sleeping peer takes to wake and answer. Otherwise its
/// sleep would send this thread to sleep, whose sleep would send the peer to sleep, and so on.
const SPIN_LIMIT: Duration = Duration::from_micros(80);
/// The number of waits that do not spin after a miss, at least and at most.
const MIN_SKIPPED_WAITS: u32 = 2;
const MAX_SKIPPED_WAITS: u32 = 512;

#[derive(Default)]
pub(crate) struct AdaptiveSpin {
    /// Waits left that do not spin.
    skipped_waits: AtomicU32,
    /// Waits that the last miss has cost.
    last_penalty: AtomicU32,
}

impl AdaptiveSpin {
    /// Checks until `look` finds something or the limit is over. Returns whether it found
    /// something. `look` gets the number of its call. Only one thread may call this at a time.
    pub fn spin(&self, look: impl FnMut(u32) -> bool) -> bool {
        let mut end = None;
        self.spin_while(look, || {
            let now = Instant::now();
            now >= *end.get_or_insert(now + SPIN_LIMIT)
        })
    }

    /// Checks until `look` finds something or it is late. Calls `is_late` once before the first
    /// check.
    fn spin_while(
        &self,
        mut look: impl FnMut(u32) -> bool,
        mut is_late: impl FnMut() -> bool,
    ) -> bool {
        let skipped_waits = self.skipped_waits.load(Ordering::Relaxed);
        if skipped_waits > 0 {
            self.skipped_waits.store(skipped_waits - 1, Ordering::Relaxed);
            return false;
        }
        is_late();
        for round in 1.. {
            // The peer may need this very core to answer.
            std::thread::yield_now();
            let is_there = look(round);
            // A token that took longer has come in spite of spinning: other threads need the core.
            let is_late = is_late();
            if is_there && !is_late {
                self.last_penalty.store(0, Ordering::Relaxed);
                return true;
            }
            if is_late {
                self.note_miss();
                return is_there;
            }
        }
        false
    }

    fn note_miss(&self) {
        let last_penalty = (2 * self.last_penalty.load(Ordering::Relaxed))
            .clamp(MIN_SKIPPED_WAITS, MAX_SKIPPED_WAITS);
        self.last_penalty.store(last_penalty, Ordering::Relaxed);
        self.skipped_waits.store(last_penalty, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn misses_make_spinning_rare_and_a_hit_makes_it_frequent() {
        let spin = AdaptiveSpin::default();
        let mut looks = 0;
        for _ in 0..1_000 {
            let looked = Cell::new(0);
            let miss = |round| {
                looked.set(round);
                false
            };
            spin.spin_while(miss, || looked.get() == 3);
            looks += u32::from(looked.get() > 0);
        }
        assert!((5..15).contains(&looks), "{looks} of 1000 waits looked");
        while !spin.spin_while(|_| true, || false) {}
        assert!((0..100).all(|_| spin.spin_while(|_| true, || false)));
        assert!(spin.spin_while(|_| true, || true), "late, but there");
        assert!(!spin.spin_while(|_| true, || false), "a late token makes spinning rarer as well");
    }
}

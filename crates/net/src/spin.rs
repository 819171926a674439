//! Looking again for a moment before sleeping.
//!
//! To wake a thread on another core that sleeps takes some 40 µs; a token that comes sooner is had
//! sooner by looking. Where tokens do not come that soon, or the peer needs the very core that
//! looks, it is a waste: so whoever looked in vain does not look the next times, twice as many
//! after each vain look.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long to look.
const MOMENT: Duration = Duration::from_micros(25);
/// After a vain look, so many waits go without one, and up to so many.
const FEWEST_SKIPPED: u32 = 2;
const MOST_SKIPPED: u32 = 512;

static HAS_CORES: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1));

#[derive(Default)]
pub(crate) struct Spin {
    /// Waits that go without a look.
    skip: AtomicU32,
    /// How many the last vain look cost.
    cost: AtomicU32,
}

impl Spin {
    /// Looks until something was there or the moment is over; whether something was there.
    /// Called by one thread at a time.
    pub fn look(&self, mut look: impl FnMut() -> bool) -> bool {
        let skip = self.skip.load(Ordering::Relaxed);
        if skip > 0 || !*HAS_CORES {
            self.skip.store(skip.saturating_sub(1), Ordering::Relaxed);
            return false;
        }
        let end = Instant::now() + MOMENT;
        loop {
            if look() {
                self.cost.store(0, Ordering::Relaxed);
                return true;
            }
            if Instant::now() >= end {
                break;
            }
            std::hint::spin_loop();
        }
        let cost = (2 * self.cost.load(Ordering::Relaxed)).clamp(FEWEST_SKIPPED, MOST_SKIPPED);
        self.cost.store(cost, Ordering::Relaxed);
        self.skip.store(cost, Ordering::Relaxed);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vain_looks_become_rare_and_one_that_helps_makes_them_frequent() {
        if !*HAS_CORES {
            return;
        }
        let spin = Spin::default();
        let mut looks = 0;
        for _ in 0..1_000 {
            let mut looked = false;
            spin.look(|| {
                looked = true;
                false
            });
            looks += u32::from(looked);
        }
        assert!((5..15).contains(&looks), "{looks} of 1000 waits looked");
        while !spin.look(|| true) {}
        assert!((0..100).all(|_| spin.look(|| true)));
    }
}

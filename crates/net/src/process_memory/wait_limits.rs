//! How long a thread spins and sleeps.

use std::time::Duration;

use crate::SharedMemoryPart;

/// How a thread waits: it spins, then lets other threads run, then sleeps.
#[derive(Clone, Copy, Debug)]
pub struct WaitLimits {
    /// Checks with a pause of the processor in between.
    pub spins: u32,
    /// The time of further checks that let other threads of the machine run in between.
    pub yield_time: Duration,
    /// The longest first sleep. Each further sleep may be twice as long.
    pub first_park: Duration,
    /// The longest sleep. A thread notices within this time what no process signals.
    pub longest_park: Duration,
}

/// The checks of one wait before it sleeps.
pub(super) struct Spinning<'m> {
    part: &'m SharedMemoryPart,
    spins: u32,
    yield_time: Duration,
    yields_until: Option<Duration>,
}

impl<'m> Spinning<'m> {
    pub fn new(part: &'m SharedMemoryPart, limits: &WaitLimits) -> Self {
        Self { part, spins: limits.spins, yield_time: limits.yield_time, yields_until: None }
    }

    /// Pauses. Returns false if it is time to sleep.
    pub fn pause(&mut self) -> bool {
        let parker = self.part.parker();
        if let Some(spins) = self.spins.checked_sub(1) {
            self.spins = spins;
            parker.pause(false);
            return true;
        }
        if self.yield_time.is_zero() {
            return false;
        }
        let now = parker.now();
        let is_early = now < *self.yields_until.get_or_insert(now + self.yield_time);
        if is_early {
            parker.pause(true);
        }
        is_early
    }
}

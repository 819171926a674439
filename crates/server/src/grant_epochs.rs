//! When the interface node begins a new grant epoch: a state machine without I/O, with time passed
//! in.
//!
//! Invariants:
//! - An epoch is used only after [`GrantEpochs::begun`] has said that it is durable; numbers never
//!   fall and never skip one, except where a node knows a higher one.
//! - One epoch at a time is on its way to the namespace.
//! - An epoch ends early when many revocations fall into it. So the revocations of a lifetime are
//!   bounded, whatever clients do.
//! - When no valid grant is left, no epoch begins: an idle cluster writes nothing.

use std::time::{Duration, Instant};

use pario_proto::GRANT_LIFETIME_EPOCHS;

/// Revocations after which an epoch ends early.
pub const REVOCATIONS_PER_EPOCH: u64 = 1 << 16;

/// The grant epochs, as the interface node counts them.
#[derive(Debug)]
pub struct GrantEpochs {
    period: Duration,
    current: u64,
    began: Instant,
    /// Revocations in the current epoch.
    revocations: u64,
    /// The last epoch in which a grant was issued.
    last_issued: u64,
    /// Whether the next epoch is being made durable.
    is_advancing: bool,
}

impl GrantEpochs {
    /// Begins with an epoch that is durable. Grants of the epochs before it may be in use.
    pub fn new(current: u64, period: Duration, now: Instant) -> Self {
        Self {
            period,
            current,
            began: now,
            revocations: 0,
            last_issued: current,
            is_advancing: false,
        }
    }

    /// The epoch for a grant that is issued now. It must be read before the record of the file is:
    /// then a revocation that the record does not show yet is of this epoch or of a later one.
    pub fn issue(&mut self) -> u64 {
        self.last_issued = self.current;
        self.current
    }

    /// The current epoch.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// Notes a revocation.
    pub fn note_revocation(&mut self) {
        self.revocations += 1;
    }

    /// The milliseconds after which a client renews a grant: a third of its lifetime.
    pub fn renew_after_ms(&self) -> u64 {
        let lifetime =
            self.period.saturating_mul(u32::try_from(GRANT_LIFETIME_EPOCHS).unwrap_or(1));
        u64::try_from((lifetime / 3).as_millis()).unwrap_or(u64::MAX)
    }

    /// The epoch that is to be made durable now, if one is due. The caller reports the outcome with
    /// [`begun`](Self::begun) or [`failed`](Self::failed).
    pub fn next_due(&mut self, now: Instant) -> Option<u64> {
        let is_over = now.saturating_duration_since(self.began) >= self.period;
        let is_full = self.revocations >= REVOCATIONS_PER_EPOCH;
        let has_valid = self.current <= self.last_issued.saturating_add(GRANT_LIFETIME_EPOCHS);
        if self.is_advancing || !(is_full || is_over && has_valid) {
            return None;
        }
        self.is_advancing = true;
        self.current.checked_add(1)
    }

    /// An epoch is durable and begins.
    pub fn begun(&mut self, epoch: u64, now: Instant) {
        self.is_advancing = false;
        if epoch > self.current {
            self.current = epoch;
            self.began = now;
            self.revocations = 0;
        }
    }

    /// The epoch could not be made durable: it is tried again after another period.
    pub fn failed(&mut self, now: Instant) {
        self.is_advancing = false;
        self.began = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(30);

    #[test]
    fn an_epoch_begins_when_its_time_has_come_and_it_is_durable() {
        let start = Instant::now();
        let mut epochs = GrantEpochs::new(7, PERIOD, start);
        assert_eq!(epochs.renew_after_ms(), 100_000);
        assert_eq!(epochs.next_due(start + PERIOD - Duration::from_millis(1)), None);
        assert_eq!(epochs.next_due(start + PERIOD), Some(8));
        assert_eq!(epochs.next_due(start + PERIOD * 2), None, "it is on its way already");
        assert_eq!(epochs.issue(), 7, "it is not durable yet");
        epochs.begun(8, start + PERIOD * 2);
        assert_eq!(epochs.issue(), 8);
        assert_eq!(epochs.next_due(start + PERIOD * 3), Some(9));
        epochs.failed(start + PERIOD * 3);
        assert_eq!(epochs.issue(), 8);
        assert_eq!(epochs.next_due(start + PERIOD * 4), Some(9));
        // A node knows a higher one than this one does.
        epochs.begun(20, start + PERIOD * 4);
        epochs.begun(9, start + PERIOD * 4);
        assert_eq!(epochs.current(), 20);
    }

    #[test]
    fn many_revocations_end_an_epoch_early() {
        let start = Instant::now();
        let mut epochs = GrantEpochs::new(1, PERIOD, start);
        (1..REVOCATIONS_PER_EPOCH).for_each(|_| epochs.note_revocation());
        assert_eq!(epochs.next_due(start), None);
        epochs.note_revocation();
        assert_eq!(epochs.next_due(start), Some(2));
        epochs.begun(2, start);
        assert_eq!(epochs.next_due(start), None);
    }

    #[test]
    fn without_valid_grants_time_stands_still() {
        let mut now = Instant::now();
        let mut epochs = GrantEpochs::new(1, PERIOD, now);
        let mut advance = |epochs: &mut GrantEpochs| {
            now += PERIOD;
            let due = epochs.next_due(now);
            due.into_iter().for_each(|epoch| epochs.begun(epoch, now));
            due.is_some()
        };
        for _ in 0..=GRANT_LIFETIME_EPOCHS {
            assert!(advance(&mut epochs), "grants of before the start are valid");
        }
        assert_eq!(epochs.current(), 2 + GRANT_LIFETIME_EPOCHS, "those of epoch 1 have expired");
        assert!(!advance(&mut epochs));
        epochs.issue();
        assert!(advance(&mut epochs));
    }
}

//! Decides when the interface node begins a new grant epoch: a state machine without I/O, with time
//! passed in.
//!
//! Invariants:
//! - An epoch is used only after [`GrantEpochs::begun`] has confirmed that it is durable. Numbers
//!   never fall, and skip one only where a node knows a higher one.
//! - At most one epoch at a time is being made durable.
//! - An epoch ends early when it has many revocations. So the number of revocations in the lifetime
//!   of a grant is bounded, whatever clients do.
//! - No epoch begins while no valid grant is left: an idle cluster writes nothing.

use std::time::{Duration, Instant};

use pario_proto::GRANT_LIFETIME_EPOCHS;

/// Revocations after which an epoch ends early.
pub const REVOCATIONS_PER_EPOCH: u64 = 1 << 16;

/// The grant epochs of the interface node.
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
    /// Starts in a durable epoch. Clients may still use grants of earlier epochs.
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

    /// Returns the epoch for a grant that is issued now. The caller must read it before the record of
    /// the file: then a revocation that the record does not show yet is of this epoch or a later one.
    pub fn issue(&mut self) -> u64 {
        self.last_issued = self.current;
        self.current
    }

    /// Returns the current epoch.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// Counts a revocation.
    pub fn note_revocation(&mut self) {
        self.revocations += 1;
    }

    /// Returns the milliseconds after which a client renews a grant: a third of its lifetime.
    pub fn renew_after_ms(&self) -> u64 {
        let lifetime =
            self.period.saturating_mul(u32::try_from(GRANT_LIFETIME_EPOCHS).unwrap_or(1));
        u64::try_from((lifetime / 3).as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the epoch to make durable now, if one is due. The caller reports the outcome with
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

    /// Begins an epoch that is durable.
    pub fn begun(&mut self, epoch: u64, now: Instant) {
        self.is_advancing = false;
        if epoch > self.current {
            self.current = epoch;
            self.began = now;
            self.revocations = 0;
        }
    }

    /// Reports that an epoch could not be made durable; the next attempt is due after a period.
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
        assert_eq!(epochs.next_due(start + PERIOD * 2), None, "it is being made durable already");
        assert_eq!(epochs.issue(), 7, "it is not durable yet");
        epochs.begun(8, start + PERIOD * 2);
        assert_eq!(epochs.issue(), 8);
        assert_eq!(epochs.next_due(start + PERIOD * 3), Some(9));
        epochs.failed(start + PERIOD * 3);
        assert_eq!(epochs.issue(), 8);
        assert_eq!(epochs.next_due(start + PERIOD * 4), Some(9));
        // Another node knows a higher epoch.
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
            assert!(advance(&mut epochs), "grants from before the start are valid");
        }
        assert_eq!(epochs.current(), 2 + GRANT_LIFETIME_EPOCHS, "those of epoch 1 have expired");
        assert!(!advance(&mut epochs));
        epochs.issue();
        assert!(advance(&mut epochs));
    }
}

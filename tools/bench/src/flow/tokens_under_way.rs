//! How many tokens are between a split and its merge.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the tokens between split and merge.
#[derive(Debug, Default)]
pub struct UnderWay {
    now: AtomicU64,
    most: AtomicU64,
}

impl UnderWay {
    /// A token was split off.
    pub fn enter(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    /// A token was merged.
    pub fn leave(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    /// The most that were there at once.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Forgets what was the most.
    pub fn reset(&self) {
        self.most.store(0, Ordering::Relaxed);
    }
}

//! The number of tokens between a split and its merge.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the tokens between split and merge.
#[derive(Debug, Default)]
pub struct TokensUnderWay {
    now: AtomicU64,
    most: AtomicU64,
}

impl TokensUnderWay {
    /// Counts a token that was split off.
    pub fn enter(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    /// Counts a token that was merged.
    pub fn leave(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    /// The most tokens at once.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Resets the maximum.
    pub fn reset(&self) {
        self.most.store(0, Ordering::Relaxed);
    }
}

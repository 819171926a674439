//! Windows: limits of the tokens of a split under way.

mod automatic;

pub(crate) use automatic::{AutomaticWindow, TripReport};

/// The flow control of a split-merge: the limit of its tokens under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The smallest number that keeps the slowest stage busy, found at run time, at most `limit`.
    Automatic {
        /// The largest window.
        limit: usize,
    },
    /// Always this many tokens.
    Fixed(usize),
    /// Tokens leave in batches; after all tokens of a batch are merged, the next batch leaves. The
    /// merging thread sends fewer messages to the splitting thread.
    Batches {
        /// The number of batches under way.
        batches: usize,
        /// The number of tokens in a batch.
        size: usize,
    },
}

impl Window {
    /// The default: found at run time, up to 256 tokens.
    pub const fn automatic() -> Self {
        Self::Automatic { limit: 256 }
    }

    /// Found at run time, up to `limit` tokens.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub const fn automatic_up_to(limit: usize) -> Self {
        assert!(limit > 0, "a window must be at least one token");
        Self::Automatic { limit }
    }

    /// `tokens` under way.
    ///
    /// # Panics
    /// If `tokens` is 0.
    pub const fn fixed(tokens: usize) -> Self {
        assert!(tokens > 0, "a window must be at least one token");
        Self::Fixed(tokens)
    }

    /// `batches` of `size` tokens under way.
    ///
    /// # Panics
    /// If one of them is 0.
    pub const fn batches(batches: usize, size: usize) -> Self {
        assert!(batches > 0 && size > 0, "a window must be at least one token");
        Self::Batches { batches, size }
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::automatic()
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Automatic { .. } => f.write_str("automatic"),
            Self::Fixed(tokens) => write!(f, "{tokens}"),
            Self::Batches { batches, size } => write!(f, "{batches} × {size}"),
        }
    }
}

//! How many tokens of a split may be under way.

mod automatic;

pub(crate) use automatic::{Automatic, Trip};

/// The flow control of a split-merge: how many of its tokens may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The smallest number that keeps the slowest stage busy, found while the program runs, and
    /// never more than `limit`.
    Automatic {
        /// The most tokens that may be under way.
        limit: usize,
    },
    /// Always this many.
    Fixed(usize),
    /// Tokens leave in bunches; when a bunch has been merged as a whole, the next leaves. Fewer
    /// messages go back from the merging to the splitting thread.
    Bunches {
        /// How many bunches are under way.
        bunches: usize,
        /// How many tokens a bunch has.
        size: usize,
    },
}

impl Window {
    /// Found at run time, up to 256 tokens. This is the default.
    pub const fn automatic() -> Self {
        Self::Automatic { limit: 256 }
    }

    /// Found at run time, up to `limit` tokens.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub const fn automatic_up_to(limit: usize) -> Self {
        assert!(limit > 0, "a window needs room for one token");
        Self::Automatic { limit }
    }

    /// `tokens` under way.
    ///
    /// # Panics
    /// If `tokens` is 0.
    pub const fn fixed(tokens: usize) -> Self {
        assert!(tokens > 0, "a window needs room for one token");
        Self::Fixed(tokens)
    }

    /// `bunches` of `size` tokens under way.
    ///
    /// # Panics
    /// If one of them is 0.
    pub const fn bunches(bunches: usize, size: usize) -> Self {
        assert!(bunches > 0 && size > 0, "a window needs room for one token");
        Self::Bunches { bunches, size }
    }

    /// The most tokens that can be under way.
    pub const fn limit(self) -> usize {
        match self {
            Self::Automatic { limit } => limit,
            Self::Fixed(tokens) => tokens,
            Self::Bunches { bunches, size } => bunches.saturating_mul(size),
        }
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
            Self::Bunches { bunches, size } => write!(f, "{bunches} × {size}"),
        }
    }
}

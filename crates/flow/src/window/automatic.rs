//! The window that finds its own size.
//!
//! Every token notes at which of its hops it had to wait because the thread there was busy, and
//! for how long. From a round of such notes two things follow without any model of the stages:
//!
//! - *Is the slowest stage busy all the time?* It is if there is a hop at which nearly every token
//!   waits: whenever that thread finished something, the next token was there already. If there is
//!   no such hop, every stage is idle at times, and one more token under way helps.
//! - *How many tokens are under way for nothing?* A token that waits for a share of its trip stands
//!   for that share of a token too many; summed over the window this is how many wait on average.
//!   The smallest window that keeps the slowest stage busy has less than one (equation 3-2 of the
//!   thesis, solved for the whole number above it); if it is clearly more, one token fewer will do.
//!
//! Where a trip takes less than a few milliseconds, putting threads to sleep and waking them costs
//! as much as what they do, and a larger window saves more of that than any model would say. There
//! the window climbs: it tries larger ones as long as they bring more tokens through, and smaller
//! ones as long as they do not bring fewer.
//!
//! Tokens that overtake each other, stages that are pools, other calls on the same threads, splits
//! inside splits: all show up as waiting or as idle threads in the same way. Time on the wire and
//! time to wake a thread are not waiting, so a far stage gets the larger window that it needs.

/// What a merged token tells about its trip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Trip {
    /// When it was split off, in the splitting process's time.
    pub(crate) split_ns: u64,
    /// How long it waited for busy threads.
    pub(crate) waited_ns: u64,
    /// At which hops it waited: bit 0 for the first.
    pub(crate) waits: u64,
}

/// The number of tokens that may be under way, found at run time.
#[derive(Debug)]
pub(crate) struct Automatic {
    window: usize,
    limit: usize,
    /// Tokens that left under an earlier window and say nothing about this one.
    stale: usize,
    round: Round,
    /// While nothing has been found to be busy yet, rounds are short.
    is_starting: bool,
    /// A smaller window was tried and was too small; rounds until it may be tried again.
    rest: u32,
    /// How long to rest the next time.
    next_rest: u32,
    /// A window that is being tried, where trips are short.
    attempt: Option<Attempt>,
    /// Whether a smaller one is tried next.
    tries_smaller: bool,
}

#[derive(Debug)]
struct Attempt {
    /// The window before, and the tokens per second with it.
    from: usize,
    rate: f64,
}

#[derive(Debug)]
struct Round {
    tokens: usize,
    began_ns: u64,
    waited_ns: u64,
    trip_ns: u64,
    /// How many tokens waited at each hop.
    waits: [u32; 64],
    /// Whether the window kept a token back in this round; otherwise its size does not matter.
    was_full: bool,
}

impl Round {
    const EMPTY: Self =
        Self { tokens: 0, began_ns: 0, waited_ns: 0, trip_ns: 0, waits: [0; 64], was_full: false };
}

/// The window that every split begins with.
const FIRST: usize = 3;
/// The slowest stage counts as busy if this share of the tokens finds it so.
const BUSY: f64 = 0.9;
/// Only if nearly all tokens find it busy may the window shrink.
const SURELY_BUSY: f64 = 0.98;
/// More tokens waiting than this are too many; a whole number of tokens leaves up to one.
const TOO_MANY_WAIT: f64 = 1.3;

/// Below this, waking threads may cost as much as what they do.
const SHORT_TRIP_NS: u64 = 2_000_000;
/// A round lasts at least so long, so that it says something.
const SHORTEST_ROUND_NS: u64 = 1_000_000;
/// So much more must come through for a larger window to be worth it.
const BETTER: f64 = 1.1;
/// A smaller window is as good if so much still comes through.
const AS_GOOD: f64 = 0.95;
/// If this share of the window waits, it is far too large, whatever was tried before.
const NEARLY_ALL_WAIT: f64 = 0.8;
/// With fewer than these, no stage is nearly busy, and the window is far too small.
const HARDLY_BUSY: f64 = 0.3;
const HARDLY_ANY_WAIT: f64 = 0.25;

impl Automatic {
    pub(crate) fn new(limit: usize) -> Self {
        Self::after(limit, FIRST)
    }

    /// For a split like one whose window was found to be `window`.
    pub(crate) fn after(limit: usize, window: usize) -> Self {
        Self {
            window: window.clamp(1, limit),
            limit,
            stale: 0,
            round: Round::EMPTY,
            is_starting: true,
            rest: 0,
            next_rest: 4,
            attempt: None,
            tries_smaller: false,
        }
    }

    pub(crate) fn window(&self) -> usize {
        self.window
    }

    /// The window keeps a token back.
    pub(crate) fn note_full(&mut self) {
        self.round.was_full = true;
    }

    /// A token has been merged.
    pub(crate) fn merged(&mut self, trip: Trip, now_ns: u64) {
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        let round = &mut self.round;
        if round.tokens == 0 {
            round.began_ns = now_ns;
        }
        round.tokens += 1;
        round.waited_ns += trip.waited_ns;
        round.trip_ns += now_ns.saturating_sub(trip.split_ns);
        let mut waits = trip.waits;
        while waits != 0 {
            let hop = waits.trailing_zeros() as usize;
            round.waits[hop] += 1;
            waits &= waits - 1;
        }
        let enough = if self.is_starting { self.window } else { (2 * self.window).max(8) };
        let lasted_ns = now_ns.saturating_sub(self.round.began_ns);
        if self.round.tokens >= enough && lasted_ns >= SHORTEST_ROUND_NS {
            self.judge(lasted_ns);
        }
    }

    fn judge(&mut self, lasted_ns: u64) {
        let round = std::mem::replace(&mut self.round, Round::EMPTY);
        if !round.was_full {
            return;
        }
        if round.trip_ns / (round.tokens as u64) < SHORT_TRIP_NS {
            return self.climb(round.tokens as f64 / lasted_ns as f64);
        }
        self.attempt = None;
        let most_waits = round.waits.iter().copied().max().unwrap_or(0);
        let busy = f64::from(most_waits) / round.tokens as f64;
        let waiting = self.window as f64 * round.waited_ns as f64 / (round.trip_ns.max(1)) as f64;
        if busy < BUSY {
            self.grow(busy, waiting);
        } else {
            self.is_starting = false;
            self.rest = self.rest.saturating_sub(1);
            let is_far = waiting > NEARLY_ALL_WAIT * self.window as f64;
            if busy >= SURELY_BUSY && waiting > TOO_MANY_WAIT && (self.rest == 0 || is_far) {
                self.shrink(is_far);
            }
        }
    }

    /// Looks for the smallest window with which nearly as many tokens come through as with any.
    fn climb(&mut self, rate: f64) {
        match self.attempt.take() {
            Some(Attempt { from, rate: before }) => {
                let is_larger = self.window > from;
                let is_worth_it =
                    if is_larger { rate > before * BETTER } else { rate > before * AS_GOOD };
                if is_worth_it {
                    (self.rest, self.next_rest) = (0, 4);
                } else {
                    self.change(from);
                    self.tries_smaller = is_larger;
                    self.rest = self.next_rest;
                    self.next_rest = (self.next_rest * 2).min(256);
                }
            }
            None if self.rest > 0 => self.rest -= 1,
            None => {
                let next = if self.tries_smaller {
                    (self.window * 3 / 4).max(1)
                } else {
                    (self.window * 2).min(self.limit)
                };
                if next == self.window {
                    self.tries_smaller = !self.tries_smaller;
                    return;
                }
                self.attempt = Some(Attempt { from: self.window, rate });
                self.change(next);
            }
        }
    }

    fn grow(&mut self, busy: f64, waiting: f64) {
        if self.window == self.limit {
            return;
        }
        // While hardly anything waits anywhere, the distance may be large.
        let is_far = busy < HARDLY_BUSY && waiting < HARDLY_ANY_WAIT;
        let step = if is_far { self.window } else { 1 };
        if is_far {
            self.is_starting = true;
        } else if !self.is_starting {
            // A smaller window does not do: leave this one alone for a while.
            self.rest = self.next_rest;
            self.next_rest = (self.next_rest * 2).min(256);
        }
        self.change((self.window + step).min(self.limit));
    }

    fn shrink(&mut self, is_far: bool) {
        let step = if is_far { (self.window / 2).max(1) } else { 1 };
        self.change(self.window.saturating_sub(step).max(1));
    }

    /// Changes the window. What is under way now, and what leaves at once because of the change,
    /// says nothing about the new one.
    fn change(&mut self, window: usize) {
        self.stale = self.window.max(window);
        self.window = window;
    }
}

#[cfg(test)]
mod tests;

//! The automatic window, which finds its size at run time.
//!
//! Every token notes at which hops it waited for a busy thread, and how long. A round of such notes
//! answers two questions without a model of the stages:
//!
//! - *Is the slowest stage always busy?* Yes, if nearly every token waits at one hop: whenever that
//!   thread finished a token, the next one was queued. If there is no such hop, every stage is idle
//!   at times, and one more token under way helps.
//! - *How many tokens only wait?* The waiting share of the trips, times the window, is the average
//!   number of waiting tokens. The smallest window that keeps the slowest stage busy has less than
//!   one: it is the smallest whole `w` with `(w - 1) * slowest >= round_trip - slowest`. If the
//!   number is clearly above one, the window can shrink.
//!
//! If a trip takes less than [`SHORT_TRIP_NS`], waking threads costs as much as their work, and a
//! larger window saves wake-ups. There the window climbs: it tries larger windows as long as they
//! raise the throughput, and smaller ones as long as they do not lower it.
//!
//! Tokens that overtake each other, pools as stages, other calls on the same threads and nested
//! splits all appear as waits or as idle threads. Network time and the time to wake a thread are not
//! waits, so a remote stage gets the larger window that it needs.

/// The report of a merged token about its trip from split to merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct TripReport {
    /// When the token was split off, on the clock of the splitting process.
    pub(crate) split_ns: u64,
    /// The time that it waited for busy threads.
    pub(crate) waited_ns: u64,
    /// The hops at which it waited: bit 0 for the first.
    pub(crate) waits: u64,
}

/// A window whose size is found at run time.
#[derive(Debug)]
pub(crate) struct AutomaticWindow {
    window: usize,
    limit: usize,
    /// Tokens that left under an earlier window and do not count for this one.
    stale: usize,
    round: ObservationRound,
    /// Rounds are short until a busy stage has been found.
    is_starting: bool,
    /// Rounds until a window that proved wrong may be tried again.
    rest: u32,
    /// The value of `rest` after the next wrong window.
    next_rest: u32,
    /// The window under trial, if trips are short.
    attempt: Option<WindowTrial>,
    /// Whether the next trial is a smaller window.
    tries_smaller: bool,
}

#[derive(Debug)]
struct WindowTrial {
    /// The previous window, and its rate in tokens per nanosecond.
    from: usize,
    rate: f64,
}

#[derive(Debug)]
struct ObservationRound {
    tokens: usize,
    began_ns: u64,
    waited_ns: u64,
    trip_ns: u64,
    /// The number of tokens that waited at each hop.
    waits: [u32; 64],
    /// Whether the window held a token back in this round; otherwise its size does not matter.
    was_full: bool,
}

impl ObservationRound {
    const EMPTY: Self =
        Self { tokens: 0, began_ns: 0, waited_ns: 0, trip_ns: 0, waits: [0; 64], was_full: false };
}

/// The initial window.
const INITIAL_WINDOW: usize = 3;
/// The slowest stage counts as busy if this share of the tokens waits for it.
const BUSY_SHARE: f64 = 0.9;
/// The window may shrink only if this share of the tokens waits for the slowest stage.
const SURELY_BUSY_SHARE: f64 = 0.98;
/// The window may shrink only if more tokens wait on average; the best window has up to one.
const TOO_MANY_WAITING: f64 = 1.3;

/// Below this trip time, waking threads may cost as much as their work.
const SHORT_TRIP_NS: u64 = 2_000_000;
/// The shortest round.
const SHORTEST_ROUND_NS: u64 = 1_000_000;
/// A larger window stays if it raises the throughput by this factor.
const WORTHWHILE_GAIN: f64 = 1.1;
/// A smaller window stays if it keeps this share of the throughput.
const KEPT_THROUGHPUT: f64 = 0.95;
/// If this share of the window waits, the window is far too large and shrinks despite `rest`.
const NEARLY_ALL_WAITING: f64 = 0.8;
/// Below both of these, no stage is nearly busy and the window is far too small.
const HARDLY_BUSY_SHARE: f64 = 0.3;
const HARDLY_ANY_WAITING: f64 = 0.25;

impl AutomaticWindow {
    pub(crate) fn new(limit: usize) -> Self {
        Self::after(limit, INITIAL_WINDOW)
    }

    /// Continues with the window of a previous split.
    pub(crate) fn after(limit: usize, window: usize) -> Self {
        Self {
            window: window.clamp(1, limit),
            limit,
            stale: 0,
            round: ObservationRound::EMPTY,
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

    /// Notes that the window holds a token back.
    pub(crate) fn note_full(&mut self) {
        self.round.was_full = true;
    }

    /// Adds the report of a merged token; at the end of a round, adjusts the window.
    pub(crate) fn merged(&mut self, trip: TripReport, now_ns: u64) {
        if self.stale > 0 {
            self.stale -= 1;
            return;
        }
        let round = &mut self.round;
        if round.tokens == 0 {
            round.began_ns = now_ns;
        }
        round.tokens += 1;
        round.waited_ns = round.waited_ns.saturating_add(trip.waited_ns);
        round.trip_ns = round.trip_ns.saturating_add(now_ns.saturating_sub(trip.split_ns));
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
        let round = std::mem::replace(&mut self.round, ObservationRound::EMPTY);
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
        if busy < BUSY_SHARE {
            self.grow(busy, waiting);
        } else {
            self.is_starting = false;
            self.rest = self.rest.saturating_sub(1);
            let is_far = waiting > NEARLY_ALL_WAITING * self.window as f64;
            if busy >= SURELY_BUSY_SHARE && waiting > TOO_MANY_WAITING && (self.rest == 0 || is_far)
            {
                self.shrink(is_far);
            }
        }
    }

    /// Searches for the smallest window with nearly the best throughput.
    fn climb(&mut self, rate: f64) {
        match self.attempt.take() {
            Some(WindowTrial { from, rate: before }) => {
                let is_larger = self.window > from;
                let is_worth_it = if is_larger {
                    rate > before * WORTHWHILE_GAIN
                } else {
                    rate > before * KEPT_THROUGHPUT
                };
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
                self.attempt = Some(WindowTrial { from: self.window, rate });
                self.change(next);
            }
        }
    }

    fn grow(&mut self, busy: f64, waiting: f64) {
        if self.window == self.limit {
            return;
        }
        // If hardly any token waits, the best window may be far away.
        let is_far = busy < HARDLY_BUSY_SHARE && waiting < HARDLY_ANY_WAITING;
        let step = if is_far { self.window } else { 1 };
        if is_far {
            self.is_starting = true;
        } else if !self.is_starting {
            // A smaller window was too small: keep the new one for a while.
            self.rest = self.next_rest;
            self.next_rest = (self.next_rest * 2).min(256);
        }
        self.change((self.window + step).min(self.limit));
    }

    fn shrink(&mut self, is_far: bool) {
        let step = if is_far { (self.window / 2).max(1) } else { 1 };
        self.change(self.window.saturating_sub(step).max(1));
    }

    /// Changes the window. Tokens under way now, and those that leave at once because of the change,
    /// do not count for the new window.
    fn change(&mut self, window: usize) {
        self.stale = self.window.max(window);
        self.window = window;
    }
}

#[cfg(test)]
mod tests;

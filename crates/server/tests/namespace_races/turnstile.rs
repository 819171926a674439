//! One thread at a time, and a seed decides which.

use std::cell::Cell;

use fastrand::Rng;
use parking_lot::{Condvar, Mutex};

thread_local! {
    /// The number of this thread among those that pass the turnstile.
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Threads stop at every step until all others have stopped too or are gone; then the seed picks
/// the one that goes on. So the same seed gives the same run.
pub struct Turnstile {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    rng: Rng,
    /// Threads that have not left.
    present: usize,
    waiting: Vec<usize>,
    chosen: Option<usize>,
}

impl Turnstile {
    pub fn new(seed: u64, threads: usize) -> Turnstile {
        let (rng, waiting) = (Rng::with_seed(seed), Vec::new());
        let state = State { rng, present: threads, waiting, chosen: None };
        Turnstile { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// From now on this thread stops at every step.
    pub fn enter(&self, number: usize) {
        NUMBER.set(Some(number));
        self.step();
    }

    /// Waits for its turn. Threads that have not entered are not held up.
    pub fn step(&self) {
        let Some(number) = NUMBER.get() else { return };
        let mut state = self.state.lock();
        state.waiting.push(number);
        self.choose(&mut state);
        while state.chosen != Some(number) {
            self.changed.wait(&mut state);
        }
        state.chosen = None;
        state.waiting.retain(|&other| other != number);
    }

    pub fn leave(&self) {
        NUMBER.set(None);
        let mut state = self.state.lock();
        state.present -= 1;
        self.choose(&mut state);
    }

    fn choose(&self, state: &mut State) {
        if state.waiting.len() == state.present && state.present > 0 {
            // The order of arrival must not matter.
            state.waiting.sort_unstable();
            let place = state.rng.usize(..state.waiting.len());
            state.chosen = Some(state.waiting[place]);
            self.changed.notify_all();
        }
    }
}

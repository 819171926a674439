//! A scheduler that runs one thread at a time, chosen by a seed.

use std::cell::Cell;

use fastrand::Rng;
use parking_lot::{Condvar, Mutex};

thread_local! {
    /// The number of this thread among those that pass the turnstile.
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Threads stop at every step until all others have stopped or left; then the seed chooses the
/// thread that continues. So the same seed gives the same run.
pub struct Turnstile {
    state: Mutex<TurnState>,
    changed: Condvar,
}

struct TurnState {
    rng: Rng,
    /// Threads that have not left.
    present: usize,
    waiting: Vec<usize>,
    chosen: Option<usize>,
}

impl Turnstile {
    pub fn new(seed: u64, threads: usize) -> Turnstile {
        let (rng, waiting) = (Rng::with_seed(seed), Vec::new());
        let state = TurnState { rng, present: threads, waiting, chosen: None };
        Turnstile { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Makes this thread stop at every step.
    pub fn enter(&self, number: usize) {
        NUMBER.set(Some(number));
        self.step();
    }

    /// Waits for the turn of this thread. A thread that has not entered does not wait.
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

    fn choose(&self, state: &mut TurnState) {
        if state.waiting.len() == state.present && state.present > 0 {
            // The order of arrival must not matter.
            state.waiting.sort_unstable();
            let index = state.rng.usize(..state.waiting.len());
            state.chosen = Some(state.waiting[index]);
            self.changed.notify_all();
        }
    }
}

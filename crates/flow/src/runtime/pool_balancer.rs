//! The pool balancer: sends each token to the first free thread of a pool.
//!
//! Each sending process has a balancer per pool, which counts the tokens that each thread has not
//! finished. A thread of the same process holds one token at a time. A thread of another process
//! holds a second one in advance, so that it does not wait for the network. Further tokens wait in
//! the balancer; the window of the split around them bounds their number.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::ids::ThreadNumber;
use super::message::Envelope;

pub(crate) struct PoolBalancer {
    state: Mutex<BalancerState>,
}

struct BalancerState {
    threads: Vec<ThreadLoad>,
    waiting: VecDeque<Envelope>,
    /// The thread at which the next search begins, so that equally loaded threads alternate.
    next: usize,
}

struct ThreadLoad {
    number: ThreadNumber,
    /// Tokens sent and not finished.
    sent: usize,
    /// The limit of `sent`; 0 for a lost thread.
    limit: usize,
}

impl PoolBalancer {
    /// Creates a balancer for the threads of a pool and the limit of tokens that each may hold.
    pub(crate) fn new(threads: impl Iterator<Item = (ThreadNumber, usize)>) -> Self {
        let threads =
            threads.map(|(number, limit)| ThreadLoad { number, sent: 0, limit }).collect();
        Self { state: Mutex::new(BalancerState { threads, waiting: VecDeque::new(), next: 0 }) }
    }

    /// Returns the thread for a token, or `None` if the token waits for a free thread.
    pub(crate) fn assign(&self, envelope: Envelope) -> Option<(ThreadNumber, Envelope)> {
        let mut state = self.state.lock();
        match state.least_loaded() {
            Some(thread) => {
                state.threads[thread].sent += 1;
                state.next = thread + 1;
                Some((state.threads[thread].number, envelope))
            }
            None => {
                state.waiting.push_back(envelope);
                None
            }
        }
    }

    /// Notes that a thread has finished a token; returns its next token.
    pub(crate) fn thread_done(&self, thread: ThreadNumber) -> Option<Envelope> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        let load = state.threads.iter_mut().find(|load| load.number == thread)?;
        if next.is_none() {
            load.sent = load.sent.saturating_sub(1);
        }
        next
    }

    /// Excludes lost threads. If no thread is left, returns the tokens that waited.
    pub(crate) fn exclude(&self, is_lost: impl Fn(ThreadNumber) -> bool) -> Vec<Envelope> {
        let mut state = self.state.lock();
        for load in state.threads.iter_mut().filter(|load| is_lost(load.number)) {
            load.limit = 0;
        }
        if state.threads.iter().any(|load| load.limit > 0) {
            return Vec::new();
        }
        state.waiting.drain(..).collect()
    }

    /// Drops the waiting tokens for which `keep` is false.
    pub(crate) fn retain(&self, keep: impl Fn(&Envelope) -> bool) {
        self.state.lock().waiting.retain(keep);
    }

    /// Returns the number of waiting tokens.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

impl BalancerState {
    /// Returns the thread with the fewest tokens below its limit.
    fn least_loaded(&self) -> Option<usize> {
        let count = self.threads.len();
        (0..count)
            .map(|step| (self.next + step) % count)
            .filter(|thread| self.threads[*thread].sent < self.threads[*thread].limit)
            .min_by_key(|thread| self.threads[*thread].sent)
    }
}

//! Handing tokens to whichever thread of a pool is free first.
//!
//! Each process that sends tokens to a pool in this way knows how many it has sent to each thread
//! and not heard of again. A thread in the same process gets one at a time; one in another process
//! gets a second in advance, so that it need not wait for the wire. The rest waits here: the window
//! of the split around it bounds how much that can be.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::ids::ThreadNumber;
use super::message::Envelope;

pub(crate) struct Balance {
    state: Mutex<State>,
}

struct State {
    threads: Vec<Worker>,
    waiting: VecDeque<Envelope>,
    /// Where the search for a free thread begins, so that equal threads take turns.
    turn: usize,
}

struct Worker {
    number: ThreadNumber,
    sent: usize,
    room: usize,
}

impl Balance {
    /// For the threads of a pool, with the number of tokens each may have at once.
    pub(crate) fn new(threads: impl Iterator<Item = (ThreadNumber, usize)>) -> Self {
        let threads = threads.map(|(number, room)| Worker { number, sent: 0, room }).collect();
        Self { state: Mutex::new(State { threads, waiting: VecDeque::new(), turn: 0 }) }
    }

    /// The thread that takes the token now, or nothing: then it is kept.
    pub(crate) fn send(&self, envelope: Envelope) -> Option<(ThreadNumber, Envelope)> {
        let mut state = self.state.lock();
        match state.freest() {
            Some(thread) => {
                state.threads[thread].sent += 1;
                state.turn = thread + 1;
                Some((state.threads[thread].number, envelope))
            }
            None => {
                state.waiting.push_back(envelope);
                None
            }
        }
    }

    /// A thread has finished a token: the next one that it takes.
    pub(crate) fn settled(&self, thread: ThreadNumber) -> Option<Envelope> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        let worker = state.threads.iter_mut().find(|worker| worker.number == thread)?;
        if next.is_none() {
            worker.sent = worker.sent.saturating_sub(1);
        }
        next
    }

    /// Threads that are gone take nothing more. Tokens that can go nowhere now come back.
    pub(crate) fn lose(&self, is_lost: impl Fn(ThreadNumber) -> bool) -> Vec<Envelope> {
        let mut state = self.state.lock();
        for worker in state.threads.iter_mut().filter(|worker| is_lost(worker.number)) {
            worker.room = 0;
        }
        if state.threads.iter().any(|worker| worker.room > 0) {
            return Vec::new();
        }
        state.waiting.drain(..).collect()
    }

    /// Drops the tokens that nobody wants any more.
    pub(crate) fn retain(&self, keep: impl Fn(&Envelope) -> bool) {
        self.state.lock().waiting.retain(keep);
    }

    /// How many tokens wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }
}

impl State {
    /// The thread with the fewest tokens that has room for one more.
    fn freest(&self) -> Option<usize> {
        let count = self.threads.len();
        (0..count)
            .map(|step| (self.turn + step) % count)
            .filter(|thread| self.threads[*thread].sent < self.threads[*thread].room)
            .min_by_key(|thread| self.threads[*thread].sent)
    }
}

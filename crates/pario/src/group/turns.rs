//! Accesses of one process that must move their bytes in the order in which they got their places,
//! whichever threads do it.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Who is next.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Turns given out.
    given: u64,
    /// All before this one are over.
    next: u64,
    /// Those behind it that are over too.
    over: BTreeSet<u64>,
}

/// A turn; it is over when it is dropped, whether it came or not.
#[derive(Debug)]
pub(super) struct Turn {
    of: Turns,
    number: u64,
}

impl Turns {
    /// The next turn.
    pub fn give(&self) -> Turn {
        let mut state = self.0.state.lock();
        let number = state.given;
        state.given += 1;
        Turn { of: self.clone(), number }
    }
}

impl Turn {
    /// Waits until all before it are over.
    pub fn wait(&self) {
        let mut state = self.of.0.state.lock();
        while state.next < self.number {
            self.of.0.changed.wait(&mut state);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.of.0.state.lock();
        state.over.insert(self.number);
        loop {
            let next = state.next;
            if !state.over.remove(&next) {
                break;
            }
            state.next += 1;
        }
        self.of.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_one_after_the_other_and_one_that_is_given_up_is_over() {
        let turns = Turns::default();
        let (first, second, third) = (turns.give(), turns.give(), turns.give());
        drop(second);
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                third.wait();
                send.send(()).unwrap();
            });
            first.wait();
            assert!(receive.try_recv().is_err());
            drop(first);
            receive.recv().unwrap();
        });
        turns.give().wait();
    }
}

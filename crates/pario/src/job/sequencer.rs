//! A sequencer: accesses of one process move their bytes in the order in which they were placed,
//! whichever threads perform them.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// Gives out tickets, and lets them run one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequencer(Arc<SequencerState>);

#[derive(Debug, Default)]
struct SequencerState {
    state: Mutex<TicketCounts>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TicketCounts {
    /// Tickets given out.
    given: u64,
    /// The first ticket that is not finished.
    next: u64,
    /// Later tickets that are finished.
    finished: BTreeSet<u64>,
}

/// A ticket; dropping it finishes it, whether its turn has come or not.
#[derive(Debug)]
pub(super) struct SequenceTicket {
    of: Sequencer,
    number: u64,
}

impl Sequencer {
    /// Returns the next ticket.
    pub fn next_ticket(&self) -> SequenceTicket {
        let mut state = self.0.state.lock();
        let number = state.given;
        state.given += 1;
        SequenceTicket { of: self.clone(), number }
    }
}

impl SequenceTicket {
    /// Whether all earlier tickets are finished.
    pub fn is_next(&self) -> bool {
        self.of.0.state.lock().next >= self.number
    }

    /// Waits until all earlier tickets are finished.
    pub fn wait(&self) {
        let mut state = self.of.0.state.lock();
        while state.next < self.number {
            self.of.0.changed.wait(&mut state);
        }
    }
}

impl Drop for SequenceTicket {
    fn drop(&mut self) {
        let mut state = self.of.0.state.lock();
        state.finished.insert(self.number);
        loop {
            let next = state.next;
            if !state.finished.remove(&next) {
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
    fn tickets_run_in_order_and_a_dropped_ticket_is_finished() {
        let sequencer = Sequencer::default();
        let (first, second, third) =
            (sequencer.next_ticket(), sequencer.next_ticket(), sequencer.next_ticket());
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
        sequencer.next_ticket().wait();
    }
}

//! The waiting requests of a disk, in turns of their callers.

use std::collections::{HashMap, VecDeque};

use super::Request;

/// Waiting requests: one of each caller in turn, those of a caller in order. A caller with a million
/// requests therefore delays another one by one request at a time.
#[derive(Default)]
pub(crate) struct FairWaiting {
    /// The callers that have requests, in the order of their turns.
    turns: VecDeque<u64>,
    by_caller: HashMap<u64, VecDeque<(u64, Request)>>,
    len: usize,
}

impl FairWaiting {
    pub(crate) fn push(&mut self, caller: u64, tag: u64, request: Request) {
        let turns = &mut self.turns;
        let requests = self.by_caller.entry(caller).or_insert_with(|| {
            turns.push_back(caller);
            VecDeque::new()
        });
        requests.push_back((tag, request));
        self.len += 1;
    }

    /// Takes the next request.
    pub(crate) fn pop(&mut self) -> Option<(u64, Request)> {
        let caller = self.turns.pop_front()?;
        let requests = self.by_caller.get_mut(&caller)?;
        let next = requests.pop_front()?;
        if requests.is_empty() {
            self.by_caller.remove(&caller);
        } else {
            self.turns.push_back(caller);
        }
        self.len -= 1;
        Some(next)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

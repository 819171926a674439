//! Fair turns between the senders of a port: round robin over one queue per sender, without I/O.
//!
//! Invariants: the items of one sender come out in the order in which they went in. While several
//! senders have items, none takes more than [`STEPS_PER_TURN`] steps before the next one has its
//! turn: so a sender waits for at most [`STEPS_PER_TURN`] steps of each other, however much one of
//! them sends.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The steps that a sender takes in one turn. A step is one token.
pub(crate) const STEPS_PER_TURN: u32 = 16;

/// Empty lines that are kept for the next senders.
const SPARE_LINES: usize = 8;

/// Waiting items by sender. An item may take several steps.
pub(crate) struct FairQueue<K, T> {
    /// The sender whose turn it is. Its line is never empty.
    current: Option<(K, VecDeque<T>)>,
    steps_left: u32,
    /// The others, in the order of their turns.
    ring: VecDeque<K>,
    lines: HashMap<K, VecDeque<T>>,
    spare: Vec<VecDeque<T>>,
}

impl<K: Copy + Eq + Hash, T> FairQueue<K, T> {
    pub fn new() -> Self {
        Self {
            current: None,
            steps_left: 0,
            ring: VecDeque::new(),
            lines: HashMap::new(),
            spare: Vec::new(),
        }
    }

    /// Puts an item at the end of a sender's line.
    pub fn push(&mut self, sender: K, item: T) {
        match &mut self.current {
            Some((known, line)) if *known == sender => return line.push_back(item),
            Some(_) => {}
            None => {
                let mut line = self.spare.pop().unwrap_or_default();
                line.push_back(item);
                self.current = Some((sender, line));
                self.steps_left = STEPS_PER_TURN;
                return;
            }
        }
        let (ring, spare) = (&mut self.ring, &mut self.spare);
        let line = self.lines.entry(sender).or_insert_with(|| {
            ring.push_back(sender);
            spare.pop().unwrap_or_default()
        });
        line.push_back(item);
    }

    /// The item whose step is next.
    #[inline]
    pub fn front(&mut self) -> Option<&mut T> {
        self.current.as_mut().and_then(|(_, line)| line.front_mut())
    }

    /// Takes the item whose step is next, which has no further steps.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let item = self.current.as_mut().and_then(|(_, line)| line.pop_front());
        self.step();
        item
    }

    /// A step of the item in front was taken, and it has more.
    #[inline]
    pub fn step(&mut self) {
        self.steps_left = self.steps_left.saturating_sub(1);
        let is_empty = self.current.as_ref().is_some_and(|(_, line)| line.is_empty());
        if is_empty || self.steps_left == 0 {
            self.next_turn();
        }
    }

    /// Whether a turn has just begun: the time to add items from elsewhere.
    #[inline]
    pub fn is_between_turns(&self) -> bool {
        self.steps_left == STEPS_PER_TURN || self.current.is_none()
    }

    fn next_turn(&mut self) {
        self.steps_left = STEPS_PER_TURN;
        if let Some((sender, line)) = self.current.take() {
            if !line.is_empty() {
                self.ring.push_back(sender);
                self.lines.insert(sender, line);
            } else if self.spare.len() < SPARE_LINES {
                self.spare.push(line);
            }
        }
        let next = self.ring.pop_front();
        self.current = next.and_then(|sender| Some((sender, self.lines.remove(&sender)?)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An item of a sender: its number, and its steps that are left.
    type Item = (u32, u32);

    /// What happens to the lines.
    #[derive(Clone, Debug)]
    enum FairEvent {
        Arrive { sender: u8, steps: u32 },
        Take { steps: u32 },
    }

    fn events() -> impl Strategy<Value = Vec<FairEvent>> {
        let arrive =
            (0u8..5, 1u32..60).prop_map(|(sender, steps)| FairEvent::Arrive { sender, steps });
        let take = (1u32..80).prop_map(|steps| FairEvent::Take { steps });
        proptest::collection::vec(prop_oneof![2 => arrive, 1 => take], 1..80)
    }

    proptest! {
        /// Every sender's items come in order, none is lost, and no sender that has something waits
        /// for more than a turn of each other one.
        #[test]
        fn no_sender_waits_for_more_than_a_turn_of_each_other(events in events()) {
            let mut lines: FairQueue<u8, (u8, Item)> = FairQueue::new();
            let mut expected: HashMap<u8, VecDeque<Item>> = HashMap::new();
            // For each sender that waits: the steps of each other one since it waits.
            let mut waited: HashMap<u8, HashMap<u8, u32>> = HashMap::new();
            let mut number = 0;
            let drain = FairEvent::Take { steps: u32::MAX };
            for event in events.into_iter().chain([drain]) {
                match event {
                    FairEvent::Arrive { sender, steps } => {
                        number += 1;
                        lines.push(sender, (sender, (number, steps)));
                        expected.entry(sender).or_default().push_back((number, steps));
                        waited.entry(sender).or_default();
                    }
                    FairEvent::Take { steps } => {
                        for _ in 0..steps {
                            let Some((sender, item)) = lines.front() else { break };
                            let sender = *sender;
                            let line = expected.get_mut(&sender).unwrap();
                            prop_assert_eq!(&*item, line.front().unwrap());
                            item.1 -= 1;
                            line.front_mut().unwrap().1 -= 1;
                            if item.1 == 0 {
                                lines.pop();
                                line.pop_front();
                            } else {
                                lines.step();
                            }
                            let is_done = line.is_empty();
                            waited.insert(sender, HashMap::new());
                            if is_done {
                                waited.remove(&sender);
                            }
                            for (other, steps) in &mut waited {
                                if *other != sender {
                                    let steps = steps.entry(sender).or_default();
                                    *steps += 1;
                                    prop_assert!(*steps <= STEPS_PER_TURN, "{} waits for {}", other, sender);
                                }
                            }
                        }
                    }
                }
            }
            prop_assert!(lines.front().is_none());
            prop_assert!(expected.values().all(VecDeque::is_empty));
        }
    }

    #[test]
    fn a_flood_of_one_does_not_hold_up_another() {
        let mut lines = FairQueue::new();
        for number in 0..100_000 {
            lines.push("flood", number);
        }
        for _ in 0..5 {
            lines.pop();
        }
        lines.push("honest", -1);
        let before = std::iter::from_fn(|| lines.pop()).position(|item| item == -1).unwrap();
        assert!(before <= STEPS_PER_TURN as usize, "{before} were before it");
    }
}

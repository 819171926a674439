//! An engine for simulations: it performs all operations in the calling thread, in an order drawn
//! from a seed.

use std::collections::VecDeque;

use super::engine::{Engine, Io, IoDone, Waker, run};

/// Each `collect` draws one of the submitted operations at random and performs it.
pub(crate) struct Seeded {
    waiting: Vec<(usize, Io)>,
    random: u64,
}

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self { waiting: Vec::new(), random: seed }
    }

    /// SplitMix64.
    fn draw(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ mixed >> 31) % below as u64).expect("below a usize")
    }
}

impl Engine for Seeded {
    fn submit(&mut self, slot: usize, _disk: u64, io: Io) {
        self.waiting.push((slot, io));
    }

    fn flush(&mut self) {}

    fn collect(&mut self, wait: bool, done: &mut VecDeque<(usize, IoDone)>) -> bool {
        if wait && !self.waiting.is_empty() {
            let at = self.draw(self.waiting.len());
            let (slot, io) = self.waiting.swap_remove(at);
            done.push_back((slot, run(io)));
        }
        false
    }

    fn waker(&self) -> Waker {
        // `collect` never blocks.
        Waker::new(|| {})
    }

    fn name(&self) -> &'static str {
        "seeded"
    }
}

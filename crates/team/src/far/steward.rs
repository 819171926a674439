//! What the captain of a machine tells the host, and what becomes of the answers: a state machine
//! without I/O.
//!
//! The steward looks at the board of its machine, again whenever the board has news for it. The end
//! of a rank is told once. A round is told once, when all ranks of the machine have come to it.

use std::collections::VecDeque;

use super::message::{FromHost, News, Slot, ToHost};
use crate::board::Board;

/// What the steward of a machine knows.
pub struct Steward {
    /// Of whose end the host was told.
    told: Vec<bool>,
    /// The round to which this machine has come, as the host was told.
    sent: Option<u32>,
}

impl Steward {
    /// The steward of a machine of a team of this size.
    pub fn new(size: u32) -> Self {
        Self { told: vec![false; size as usize], sent: None }
    }

    /// The ends that the host is to be told of.
    pub fn look_for_ends(&mut self, board: &Board) -> Option<ToHost> {
        let near = board.near_ranks();
        let mut news = Vec::new();
        // A loss is why others leave, and of those the first one counts.
        if let Some(rank) = board.lost()
            && !std::mem::replace(&mut self.told[rank as usize], true)
        {
            news.push(News::Lost { rank });
        }
        for rank in board.first_left().iter().filter(|rank| near.contains(rank)).chain(&near) {
            if board.has_left(*rank) && !std::mem::replace(&mut self.told[*rank as usize], true) {
                news.push(News::Left { rank: *rank, before: board.left_before() });
            }
        }
        (!news.is_empty()).then_some(ToHost::Tell { news })
    }

    /// The round that the host is to be told of: its number, and the question, which is answered
    /// when it is over.
    pub fn look_for_round(&mut self, board: &Board) -> Option<(u32, ToHost)> {
        let number = board.full_round().filter(|round| self.sent != Some(*round))?;
        self.sent = Some(number);
        let slot = |rank: u32| {
            let (call, bytes) = board.read_of(rank, number);
            Slot { rank, call, bytes: bytes.into() }
        };
        let slots = board.near_ranks().into_iter().map(slot).collect();
        Some((number, ToHost::Round { number, slots }))
    }
}

/// The end of a round, as it comes to the board of a machine.
pub struct RoundEnd {
    number: u32,
    slots: VecDeque<Slot>,
}

impl RoundEnd {
    /// What the host has answered to a round; nothing if that is not its end.
    pub fn new(number: u32, answer: FromHost) -> Option<Self> {
        match answer {
            FromHost::Round(slots) => Some(Self { number, slots: slots.into() }),
            _ => None,
        }
    }

    /// Writes what one more rank of other machines has told; after the last one the round is over.
    /// Whether it is not over yet.
    pub fn go_on(&mut self, board: &Board) -> bool {
        match self.slots.pop_front() {
            Some(Slot { rank, call, bytes }) => board.write_of(rank, self.number, &call, &bytes),
            None => {
                board.end_round();
                return false;
            }
        }
        true
    }
}

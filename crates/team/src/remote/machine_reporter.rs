//! What the leader of a machine tells the host, and what becomes of the answers: a state machine
//! without I/O.
//!
//! The steward looks at the board of its machine, again whenever the board has news for it. The end
//! of a rank is told once. A round is told once, when all ranks of the machine have come to it.

use std::collections::VecDeque;

use super::message::{CoordinatorReply, CoordinatorRequest, News, RoundSlot};
use crate::board::Board;

/// What the steward of a machine knows.
pub struct MachineReporter {
    /// Of whose end the host was told.
    told: Vec<bool>,
    /// The round to which this machine has come, as the host was told.
    sent: Option<u32>,
}

impl MachineReporter {
    /// The steward of a machine of a team of this size.
    pub fn new(size: u32) -> Self {
        Self { told: vec![false; size as usize], sent: None }
    }

    /// The ends that the host is to be told of.
    pub fn look_for_ends(&mut self, board: &Board) -> Option<CoordinatorRequest> {
        let near = board.machine_ranks();
        let left: Vec<u32> = near.iter().copied().filter(|rank| board.has_left(*rank)).collect();
        // Others leave because of whoever left first, and all because of a loss. So these are looked
        // for after the others, lest they are missed, and told before them, since the first counts.
        let first = board.first_left().filter(|rank| near.contains(rank));
        let lost = board.lost().map(|rank| News::Lost { rank });
        let before = board.left_before();
        let mut news: Vec<News> = lost.into_iter().collect();
        news.extend(first.into_iter().chain(left).map(|rank| News::Left { rank, before }));
        news.retain(
            |(News::Joined { rank, .. } | News::Left { rank, .. } | News::Lost { rank })| {
                !std::mem::replace(&mut self.told[*rank as usize], true)
            },
        );
        (!news.is_empty()).then_some(CoordinatorRequest::Report { news })
    }

    /// The round that the host is to be told of: its number, and the question, which is check_reply
    /// when it is over.
    pub fn look_for_round(&mut self, board: &Board) -> Option<(u32, CoordinatorRequest)> {
        let number = board.machine_round().filter(|round| self.sent != Some(*round))?;
        self.sent = Some(number);
        let slot = |rank: u32| {
            let (call, bytes) = board.read_slot(rank, number);
            RoundSlot { rank, call, bytes: bytes.into() }
        };
        let slots = board.machine_ranks().into_iter().map(slot).collect();
        Some((number, CoordinatorRequest::Round { number, slots }))
    }
}

/// The end of a round, as it comes to the board of a machine.
pub struct RoundEnd {
    number: u32,
    slots: VecDeque<RoundSlot>,
}

impl RoundEnd {
    /// What the host has check_reply to a round; nothing if that is not its end.
    pub fn new(number: u32, answer: CoordinatorReply) -> Option<Self> {
        match answer {
            CoordinatorReply::Round(slots) => Some(Self { number, slots: slots.into() }),
            _ => None,
        }
    }

    /// Writes what one more rank of other machines has told; after the last one the round is over.
    /// Whether it is not over yet.
    pub fn go_on(&mut self, board: &Board) -> bool {
        match self.slots.pop_front() {
            Some(RoundSlot { rank, call, bytes }) => {
                board.write_slot(rank, self.number, &call, &bytes)
            }
            None => {
                board.end_round();
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pario_net::SharedMemory;

    use super::*;
    use crate::board::shape;

    #[test]
    fn ends_are_told_once_and_their_causes_first() {
        let memory = Arc::new(SharedMemory::new(shape(4)).unwrap());
        let boards = [0, 1, 2, 3].map(|rank| Board::new(memory.part(0), 4, rank));
        boards[0].lead(true);
        (1..3).for_each(|rank| boards[0].admit(rank));
        boards[0].joined_elsewhere(3, 3);
        let mut steward = MachineReporter::new(4);
        assert!(steward.look_for_ends(&boards[0]).is_none());
        for rank in [2, 0, 3] {
            boards[rank].leave();
        }
        boards[0].on_process_gone(1);
        let Some(CoordinatorRequest::Report { news }) = steward.look_for_ends(&boards[0]) else {
            panic!("there is something to tell")
        };
        let left = |rank| News::Left { rank, before: 0 };
        assert_eq!(news, [News::Lost { rank: 1 }, left(2), left(0)]);
        assert!(steward.look_for_ends(&boards[0]).is_none());
    }
}

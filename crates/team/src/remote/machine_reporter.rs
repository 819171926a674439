//! The reports of a machine leader to the coordinator, and the ends of rounds: a state machine
//! without I/O.
//!
//! The reporter reads the board of its machine whenever the board has news. It reports the end of a
//! rank once, and a round once, when all ranks of the machine have arrived.

use std::collections::VecDeque;

use super::message::{CoordinatorReply, CoordinatorRequest, News, RoundSlot};
use crate::board::Board;

/// The reporter of a machine.
pub struct MachineReporter {
    /// The ranks whose end was reported.
    reported: Vec<bool>,
    /// The last reported round.
    sent: Option<u32>,
}

impl MachineReporter {
    /// Creates the reporter of a machine in a team of this size.
    pub fn new(size: u32) -> Self {
        Self { reported: vec![false; size as usize], sent: None }
    }

    /// Returns the ends of ranks to report.
    pub fn take_ends(&mut self, board: &Board) -> Option<CoordinatorRequest> {
        let near = board.machine_ranks();
        let left: Vec<u32> = near.iter().copied().filter(|rank| board.has_left(*rank)).collect();
        // Ranks leave because of the rank that left first, and all because of a loss. Read these
        // last so that none is missed; report them first, because the first report wins.
        let first = board.first_left().filter(|rank| near.contains(rank));
        let lost = board.lost().map(|rank| News::Lost { rank });
        let before = board.left_before();
        let mut news: Vec<News> = lost.into_iter().collect();
        news.extend(first.into_iter().chain(left).map(|rank| News::Left { rank, before }));
        news.retain(
            |(News::Joined { rank, .. } | News::Left { rank, .. } | News::Lost { rank })| {
                !std::mem::replace(&mut self.reported[*rank as usize], true)
            },
        );
        (!news.is_empty()).then_some(CoordinatorRequest::Report { news })
    }

    /// Returns the round to report: its number, and the request, whose reply comes when the round
    /// is over.
    pub fn take_round(&mut self, board: &Board) -> Option<(u32, CoordinatorRequest)> {
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

/// The end of a round on the board of a machine.
pub struct RoundEnd {
    number: u32,
    slots: VecDeque<RoundSlot>,
}

impl RoundEnd {
    /// Creates it from the coordinator's reply; none if that is not the end of a round.
    pub fn new(number: u32, answer: CoordinatorReply) -> Option<Self> {
        match answer {
            CoordinatorReply::Round(slots) => Some(Self { number, slots: slots.into() }),
            _ => None,
        }
    }

    /// Writes the slot of one more rank of other machines; after the last one ends the round.
    /// Returns whether more is left.
    pub fn write_next(&mut self, board: &Board) -> bool {
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
    fn ends_are_reported_once_and_their_causes_first() {
        let memory = Arc::new(SharedMemory::new(shape(4)).unwrap());
        let boards = [0, 1, 2, 3].map(|rank| Board::new(memory.part(0), 4, rank));
        boards[0].lead(true);
        (1..3).for_each(|rank| boards[0].admit(rank));
        boards[0].joined_elsewhere(3, 3);
        let mut reporter = MachineReporter::new(4);
        assert!(reporter.take_ends(&boards[0]).is_none());
        for rank in [2, 0, 3] {
            boards[rank].leave();
        }
        boards[0].on_process_gone(1);
        let Some(CoordinatorRequest::Report { news }) = reporter.take_ends(&boards[0]) else {
            panic!("there are ends to report")
        };
        let left = |rank| News::Left { rank, before: 0 };
        assert_eq!(news, [News::Lost { rank: 1 }, left(2), left(0)]);
        assert!(reporter.take_ends(&boards[0]).is_none());
    }
}

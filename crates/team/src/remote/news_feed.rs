//! The news that a machine leader gets from the coordinator: a state machine without I/O.
//!
//! The feed copies the list of news to the board, in order. It asks the coordinator for more only
//! when all known news are on the board: so the coordinator knows which machine knows what.

use super::message::{CoordinatorRequest, News};
use crate::board::Board;

/// The news feed of a machine.
pub struct NewsFeed {
    /// The leader of this machine.
    own: u32,
    /// The leader at the coordinator.
    host: u32,
    /// The number of news on the board.
    known: u64,
}

impl NewsFeed {
    /// Creates the feed of a machine; `host` is the leader at the coordinator.
    pub fn new(own: u32, host: u32) -> Self {
        Self { own, host, known: 0 }
    }

    /// The next request to the coordinator.
    pub fn request(&self) -> CoordinatorRequest {
        CoordinatorRequest::Follow { from: self.known }
    }

    /// Writes the next news on the board. Ranks of this machine write their own.
    pub fn note(&mut self, board: &Board, news: News) {
        self.known += 1;
        match news {
            News::Joined { rank, leader } if leader != self.own => {
                board.joined_elsewhere(rank, leader);
            }
            News::Joined { .. } => {}
            News::Left { rank, before } => board.mark_left(rank, before),
            News::Lost { rank } => board.mark_lost(rank),
        }
    }

    /// Handles the loss of the coordinator: its leader is lost, unless all ranks have left.
    pub fn on_coordinator_gone(&self, board: &Board) {
        if !board.have_all_left() {
            board.mark_lost(self.host);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pario_net::SharedMemory;

    use super::*;
    use crate::board::shape;

    #[test]
    fn a_coordinator_that_is_gone_before_any_news_is_the_lost_rank() {
        let memory = Arc::new(SharedMemory::new(shape(2)).unwrap());
        let board = Board::new(memory.part(0), 2, 1);
        board.lead(true);
        NewsFeed::new(1, 0).on_coordinator_gone(&board);
        assert_eq!(board.lost(), Some(0));
    }
}

//! What the leader of a machine hears from the host: a state machine without I/O.
//!
//! The list of news is followed to its end, in order, and written on the board. The host is asked for
//! more only when all that was heard is written there: it knows by that who has heard what.

use super::message::{CoordinatorRequest, News};
use crate::board::Board;

/// What the follower of a machine knows.
pub struct NewsFeed {
    /// The leader of this machine.
    own: u32,
    /// The leader at the host.
    host: u32,
    /// How many of the news are on the board.
    known: u64,
}

impl NewsFeed {
    /// The follower of the machine of a leader; which one is at the host.
    pub fn new(own: u32, host: u32) -> Self {
        Self { own, host, known: 0 }
    }

    /// What the host is to be asked.
    pub fn question(&self) -> CoordinatorRequest {
        CoordinatorRequest::Follow { from: self.known }
    }

    /// Writes the next one of the news on the board. What ranks of this machine do, they write
    /// themselves.
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

    /// The host is gone: with it its leader is lost, unless all have left.
    pub fn host_gone(&self, board: &Board) {
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
    fn a_host_that_is_gone_before_it_has_told_anything_is_who_is_lost() {
        let memory = Arc::new(SharedMemory::new(shape(2)).unwrap());
        let board = Board::new(memory.part(0), 2, 1);
        board.lead(true);
        NewsFeed::new(1, 0).host_gone(&board);
        assert_eq!(board.lost(), Some(0));
    }
}

//! What the captain of a machine hears from the host: a state machine without I/O.
//!
//! The list of news is followed to its end, in order, and written on the board. The host is asked for
//! more only when all that was heard is written there: it knows by that who has heard what.

use super::message::{News, ToHost};
use crate::board::Board;

/// What the follower of a machine knows.
pub struct Follower {
    /// The captain of this machine.
    own: u32,
    /// The captain at the host.
    host: u32,
    /// How many of the news are on the board.
    known: u64,
}

impl Follower {
    /// The follower of the machine of a captain; which one is at the host.
    pub fn new(own: u32, host: u32) -> Self {
        Self { own, host, known: 0 }
    }

    /// What the host is to be asked.
    pub fn question(&self) -> ToHost {
        ToHost::Follow { from: self.known }
    }

    /// Writes the next one of the news on the board. What ranks of this machine do, they write
    /// themselves.
    pub fn note(&mut self, board: &Board, news: News) {
        self.known += 1;
        match news {
            News::Came { rank, captain } if captain != self.own => {
                board.came_elsewhere(rank, captain);
            }
            News::Came { .. } => {}
            News::Left { rank, before } => board.left(rank, before),
            News::Lost { rank } => board.lose(rank),
        }
    }

    /// The host is gone: with it its captain is lost, unless all have left.
    pub fn host_gone(&self, board: &Board) {
        if !board.have_all_left() {
            board.lose(self.host);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pario_net::CommonMemory;

    use super::*;
    use crate::board::shape;

    #[test]
    fn a_host_that_is_gone_before_it_has_told_anything_is_who_is_lost() {
        let memory = Arc::new(CommonMemory::new(shape(2)).unwrap());
        let board = Board::new(memory.part(0), 2, 1);
        board.lead(true);
        Follower::new(1, 0).host_gone(&board);
        assert_eq!(board.lost(), Some(0));
    }
}

//! What must hold when nothing is under way any more.

use anyhow::{Result, ensure};

use super::{Action, HOST, World};
use crate::team::machine::Duty;
use crate::team::process::Stage;

impl World {
    /// Nothing can happen by itself: whoever waits must wait for somebody who can still come. What
    /// happens then, if anything.
    pub(super) fn rest(&mut self) -> Result<Option<Action>> {
        self.check_stewards()?;
        let numbers = 0..self.processes.len();
        let stalled: Vec<usize> =
            numbers.clone().filter(|number| self.processes[*number].is_stalled()).collect();
        let mut gathering = Vec::new();
        for number in numbers {
            let rank = self.rank_of(number);
            match self.processes[number].stage {
                Stage::Waiting(_) => {
                    let is_stalled = |rank: &u32| {
                        let awaited = self.model.process_of(*rank);
                        awaited.is_some_and(|process| stalled.contains(&process))
                    };
                    let awaited = self.model.awaited_by(rank);
                    let is_right = awaited.iter().any(is_stalled);
                    ensure!(is_right, "rank {rank} waits for ever, and {awaited:?} have not come");
                }
                Stage::Gathering => gathering.push(number),
                _ => {}
            }
        }
        if !stalled.is_empty() {
            return Ok(Some(Action::Wake(stalled[self.rng.usize(0..stalled.len())])));
        }
        if gathering.is_empty() {
            return Ok(None);
        }
        let absent = (0..self.size).find(|rank| self.model.process_of(*rank).is_none());
        ensure!(absent.is_some(), "all have come, and {gathering:?} wait for them");
        Ok(Some(Action::GiveUp(gathering[self.rng.usize(0..gathering.len())])))
    }

    /// A steward that sleeps has nothing to tell.
    fn check_stewards(&mut self) -> Result<()> {
        for (number, machine) in self.machines.iter_mut().enumerate() {
            if machine.is_serving() {
                let before = machine.link.up.len();
                machine.look();
                machine.look();
                let is_idle = machine.link.is_cut || machine.link.up.len() == before;
                ensure!(is_idle, "nobody has woken the steward of machine {number}");
            }
        }
        Ok(())
    }

    /// All is over: nobody is left behind, and all boards of those who were not lost say the same.
    pub(super) fn check_end(&self) -> Result<()> {
        for process in &self.processes {
            let rank = process.place.rank;
            let is_over = !process.is_there() && process.stage != Stage::Away;
            ensure!(is_over, "rank {rank} is left behind: {:?}", process.stage);
        }
        let is_host_lost = self.machines[HOST].duty == Duty::Killed;
        for (number, machine) in self.machines.iter().enumerate() {
            let duty = machine.duty;
            ensure!(!machine.is_serving(), "the captain of machine {number} waits for ever");
            if duty != Duty::Ended {
                continue;
            }
            let board = &machine.board;
            let left: Vec<u32> = (0..self.size).filter(|rank| board.has_left(*rank)).collect();
            self.model.check_board(number, board.lost(), &left)?;
            if !is_host_lost && self.run.cuts == 0 && self.model.is_loss_told() {
                ensure!(board.lost().is_some(), "machine {number} does not know of a loss");
            }
        }
        Ok(())
    }
}

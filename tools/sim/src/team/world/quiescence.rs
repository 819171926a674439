//! Quiescence: what must hold when nothing is under way any more.

use anyhow::{Result, bail, ensure};

use super::{COORDINATOR_MACHINE, TeamEvent, TeamWorld};
use crate::sim_thread::{SimReply, Stop};
use crate::team::machine::LeaderStage;
use crate::team::process::ProcessStage;

impl TeamWorld {
    /// Checks that every waiting rank waits for a rank that can still come, when nothing happens by
    /// itself. Returns the event that ends this state, if any.
    pub(super) fn rest(&mut self) -> Result<Option<TeamEvent>> {
        self.check_reporters()?;
        if let Some(waiting) = self.check_wake_ups()? {
            return Ok(Some(TeamEvent::EndSleep(waiting)));
        }
        let numbers = 0..self.processes.len();
        let stalled: Vec<usize> =
            numbers.clone().filter(|number| self.processes[*number].is_stalled()).collect();
        let mut gathering = Vec::new();
        for number in numbers {
            let rank = self.rank_of(number);
            match self.processes[number].stage {
                ProcessStage::Waiting(_) => {
                    let is_stalled = |rank: &u32| {
                        let awaited = self.model.process_of(*rank);
                        awaited.is_some_and(|process| stalled.contains(&process))
                    };
                    let awaited = self.model.awaited_by(rank);
                    let is_right = awaited.iter().any(is_stalled);
                    ensure!(is_right, "rank {rank} waits for ever, and {awaited:?} have not come");
                }
                ProcessStage::Gathering => gathering.push(number),
                _ => {}
            }
        }
        if !stalled.is_empty() {
            return Ok(Some(TeamEvent::Wake(stalled[self.rng.usize(0..stalled.len())])));
        }
        if gathering.is_empty() {
            return Ok(None);
        }
        let absent = (0..self.size).find(|rank| self.model.process_of(*rank).is_none());
        ensure!(absent.is_some(), "all have come, and {gathering:?} wait for them");
        Ok(Some(TeamEvent::GiveUp(gathering[self.rng.usize(0..gathering.len())])))
    }

    /// Fails if a process sleeps although its wait is over: this check ends its sleep. Returns a process
    /// that waits for a lock after another process was killed, because nothing wakes it.
    fn check_wake_ups(&mut self) -> Result<Option<usize>> {
        let is_lost = self.processes.iter().any(|process| process.stage == ProcessStage::Killed);
        let asleep =
            self.processes.iter_mut().enumerate().filter(|(_, process)| process.is_asleep());
        for (number, process) in asleep {
            if is_lost && matches!(process.stage, ProcessStage::Locking(_)) {
                return Ok(Some(number));
            }
            let rank = process.spec.rank;
            while let Some(thread) = &mut process.thread {
                match thread.run(SimReply::None) {
                    Stop::Between(_) => {}
                    Stop::Parked => break,
                    stop => bail!("rank {rank} was not woken, {:?}: {stop:?}", process.stage),
                }
            }
        }
        Ok(None)
    }

    /// Checks that sleeping reporters have nothing to report.
    fn check_reporters(&mut self) -> Result<()> {
        for (number, machine) in self.machines.iter_mut().enumerate() {
            if machine.is_serving() {
                let before = machine.link.up.len();
                machine.look();
                machine.look();
                let is_idle = machine.link.is_cut || machine.link.up.len() == before;
                ensure!(is_idle, "the reporter of machine {number} was not woken");
            }
        }
        Ok(())
    }

    /// Checks the end of a run: no process is left behind, and the boards of all machines that were
    /// not lost agree.
    pub(super) fn check_end(&self) -> Result<()> {
        for process in &self.processes {
            let rank = process.spec.rank;
            let is_over = !process.is_alive() && process.stage != ProcessStage::NotStarted;
            ensure!(is_over, "rank {rank} is left behind: {:?}", process.stage);
        }
        let is_coordinator_lost = self.machines[COORDINATOR_MACHINE].state == LeaderStage::Killed;
        for (number, machine) in self.machines.iter().enumerate() {
            let state = machine.state;
            ensure!(!machine.is_serving(), "the leader of machine {number} waits for ever");
            if state != LeaderStage::Ended {
                continue;
            }
            let board = &machine.board;
            let left: Vec<u32> = (0..self.size).filter(|rank| board.has_left(*rank)).collect();
            self.model.check_board(number, board.lost(), &left)?;
            if !is_coordinator_lost && self.run.cuts == 0 && self.model.is_loss_reported() {
                ensure!(board.lost().is_some(), "machine {number} does not know of a loss");
            }
        }
        Ok(())
    }
}

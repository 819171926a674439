//! Accidents: ranks, leaders and the coordinator are killed, and links are cut.

use super::ranks::process_id;
use super::{COORDINATOR_MACHINE, TeamEvent, TeamWorld};
use crate::team::machine::LeaderStage;
use crate::team::process::{ProcessStage, SimulatedProcess};

impl TeamWorld {
    /// Chooses an accident; `None` if that one is not possible now.
    pub(super) fn accident(&mut self) -> Option<TeamEvent> {
        match self.rng.u8(0..8) {
            0 => {
                let machine = self.rng.usize(0..self.machines.len());
                let can_be = machine != COORDINATOR_MACHINE && self.machines[machine].is_serving();
                (can_be && !self.machines[machine].link.is_cut).then_some(TeamEvent::Cut(machine))
            }
            1..3 => {
                let machine = self.rng.usize(0..self.machines.len());
                let is_coordinator = machine == COORDINATOR_MACHINE;
                let leader = &self.processes[self.machines[machine].leader_process];
                let is_joining = leader.stage == ProcessStage::Joining;
                let is_alive = is_joining || self.machines[machine].is_serving();
                // Kills of the coordinator's machine are rarer than those of others.
                let is_spared = is_coordinator && self.rng.bool();
                (is_alive && !is_spared).then_some(TeamEvent::KillLeader(machine))
            }
            _ => {
                let any = self.rng.usize(0..self.processes.len());
                // Often one that holds a lock.
                let owner = self.model.owners().find(|owner| self.processes[*owner].is_alive());
                let process = owner.filter(|_| self.rng.u8(0..4) > 0).unwrap_or(any);
                let SimulatedProcess { spec, .. } = &self.processes[process];
                let is_alive = self.processes[process].is_alive();
                (is_alive && !spec.is_leader).then_some(TeamEvent::Kill(process))
            }
        }
    }

    /// Kills a process that is not a leader. Its leader notices later.
    pub(super) fn kill(&mut self, number: usize) {
        self.run.ranks_lost += 1;
        let is_joining = self.processes[number].stage == ProcessStage::Joining;
        self.end_process(number);
        let spec = self.processes[number].spec;
        if !is_joining {
            self.machines[spec.machine].closed.push_back(spec.rank);
        }
        self.lose(spec.rank);
    }

    /// Ends a process where it is.
    fn end_process(&mut self, number: usize) {
        let machine = self.processes[number].spec.machine;
        self.machines[machine].parker.end(process_id(number));
        self.set(number, ProcessStage::Killed);
    }

    /// Kills a leader, and with it all ranks of its machine. Other machines may not know which of
    /// them had left.
    pub(super) fn kill_leader(&mut self, number: usize) {
        if number == COORDINATOR_MACHINE {
            self.run.coordinators_lost += 1;
        } else {
            self.run.machines_lost += 1;
        }
        for rank in self.ranks_of(number) {
            let knows = |machine: &usize| *machine == number && self.model.has_left(rank);
            let others: Vec<usize> =
                (0..self.machines.len()).filter(|machine| !knows(machine)).collect();
            others.into_iter().for_each(|machine| self.model.lose(machine, rank));
        }
        let machine = &mut self.machines[number];
        let process = machine.leader_process;
        machine.link.lose_leader(&mut self.rng);
        self.after_leader_end(number, LeaderStage::Killed);
        if self.processes[process].is_alive() {
            self.end_process(process);
        }
        if number == COORDINATOR_MACHINE {
            self.lose_coordinator();
        }
    }

    /// Cuts the link between a leader and the coordinator: each loses the other.
    pub(super) fn cut(&mut self, number: usize) {
        self.run.cuts += 1;
        self.machines[number].link.cut(&mut self.rng);
        for rank in self.ranks_of(number) {
            for other in (0..self.machines.len()).filter(|other| *other != number) {
                self.model.lose(other, rank);
            }
        }
        self.model.lose(number, self.machines[COORDINATOR_MACHINE].leader);
    }
}

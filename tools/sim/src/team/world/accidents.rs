//! What goes wrong: ranks, captains and the host are killed, and links are cut.

use super::ranks::process_id;
use super::{Action, HOST, World};
use crate::team::machine::Duty;
use crate::team::process::{Process, Stage};

impl World {
    /// An accident that can happen now, perhaps.
    pub(super) fn accident(&mut self) -> Option<Action> {
        match self.rng.u8(0..8) {
            0 => {
                let machine = self.rng.usize(0..self.machines.len());
                let can_be = machine != HOST && self.machines[machine].is_serving();
                (can_be && !self.machines[machine].link.is_cut).then_some(Action::Cut(machine))
            }
            1..3 => {
                let machine = self.rng.usize(0..self.machines.len());
                let is_host = machine == HOST;
                let captain = &self.processes[self.machines[machine].captain_process];
                let is_asking = captain.stage == Stage::Asking;
                let is_there = is_asking || self.machines[machine].is_serving();
                // The host is not killed as often as all others together.
                let is_spared = is_host && self.rng.bool();
                (is_there && !is_spared).then_some(Action::KillCaptain(machine))
            }
            _ => {
                let any = self.rng.usize(0..self.processes.len());
                // Often one that has a lock.
                let owner = self.model.owners().find(|owner| self.processes[*owner].is_there());
                let process = owner.filter(|_| self.rng.u8(0..4) > 0).unwrap_or(any);
                let Process { place, .. } = &self.processes[process];
                let is_there = self.processes[process].is_there();
                (is_there && !place.is_captain).then_some(Action::Kill(process))
            }
        }
    }

    /// A process that is no captain is killed; its captain notices later.
    pub(super) fn kill(&mut self, number: usize) {
        self.run.ranks_lost += 1;
        let is_asking = self.processes[number].stage == Stage::Asking;
        self.end_process(number);
        let place = self.processes[number].place;
        if !is_asking {
            self.machines[place.machine].closed.push_back(place.rank);
        }
        self.lose(place.rank);
    }

    /// A process ends where it is.
    fn end_process(&mut self, number: usize) {
        let machine = self.processes[number].place.machine;
        self.machines[machine].parker.end(process_id(number));
        self.set(number, Stage::Killed);
    }

    /// A captain is killed, and its machine is lost. Elsewhere nobody may know who has left.
    pub(super) fn kill_captain(&mut self, number: usize) {
        if number == HOST {
            self.run.hosts_lost += 1;
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
        let process = machine.captain_process;
        machine.link.lose_captain(&mut self.rng);
        self.without_captain(number, Duty::Killed);
        if self.processes[process].is_there() {
            self.end_process(process);
        }
        if number == HOST {
            self.lose_host();
        }
    }

    /// The link between a captain and the host is cut: each misses the other.
    pub(super) fn cut(&mut self, number: usize) {
        self.run.cuts += 1;
        self.machines[number].link.cut(&mut self.rng);
        for rank in self.ranks_of(number) {
            for other in (0..self.machines.len()).filter(|other| *other != number) {
                self.model.lose(other, rank);
            }
        }
        self.model.lose(number, self.machines[HOST].captain);
    }
}

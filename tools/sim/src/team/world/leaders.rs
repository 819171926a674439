//! The events of machine leaders and of the coordinator.

use anyhow::{Context, Result, bail, ensure};
use pario_team::simulation::{CoordinatorReply, CoordinatorRequest, RoundEnd};

use super::{COORDINATOR_MACHINE, TeamWorld};
use crate::team::machine::{
    LeaderStage, RequestPurpose, SimulatedMachine, ToCoordinator, ToLeader,
};
use crate::team::process::ProcessStage;

impl TeamWorld {
    /// Delivers the next message of a machine to the coordinator, and sends its replies.
    pub(super) fn deliver_to_coordinator(&mut self, machine: usize) -> Result<()> {
        let coordinator = self.coordinator.as_mut().context("the coordinator is there")?;
        let Some(up) = self.machines[machine].link.up.pop_front() else { return Ok(()) };
        let replies = match up {
            ToCoordinator::Request(purpose, request) => {
                let join = match &request {
                    CoordinatorRequest::Join { rank, leader, .. } => Some((*rank, *leader)),
                    _ => None,
                };
                self.machines[machine].has_all_news |= purpose == RequestPurpose::News;
                let replies = coordinator.handle(machine, request, (machine, purpose));
                if let (Some((rank, leader)), RequestPurpose::Join(process)) = (join, purpose) {
                    let of_join = replies.iter().find(|(ticket, _)| *ticket == (machine, purpose));
                    let is_accepted = match of_join {
                        Some((_, CoordinatorReply::Accepted { .. })) => true,
                        Some(_) => false,
                        None => bail!("process {process} gets no reply"),
                    };
                    self.model.decide(rank, (process, leader), is_accepted)?;
                    self.machines[machine].has_joined |= is_accepted;
                }
                replies
            }
            ToCoordinator::LeaderGone => {
                self.machines[machine].is_gone = true;
                coordinator.gone(&machine)
            }
        };
        for ((number, purpose), reply) in replies {
            let machine = &mut self.machines[number];
            ensure!(!machine.is_gone, "machine {number} is gone, and gets a reply: {reply:?}");
            if let CoordinatorReply::News(news) = &reply {
                machine.receive_news(news);
            }
            machine.link.reply(purpose, reply);
        }
        Ok(())
    }

    /// Delivers the next message of the coordinator to a leader.
    pub(super) fn deliver_to_leader(&mut self, number: usize) -> Result<()> {
        let machine = &mut self.machines[number];
        match machine.link.down.pop_front() {
            Some(ToLeader::Reply(RequestPurpose::Join(process), answer)) => {
                self.receive_join_reply(process, &answer)
            }
            Some(ToLeader::Reply(RequestPurpose::News, CoordinatorReply::News(news))) => {
                ensure!(machine.received.is_empty(), "machine {number} gets two replies");
                machine.received = news.into();
                Ok(())
            }
            Some(ToLeader::Reply(RequestPurpose::Round(round), reply)) => {
                ensure!(machine.ending.is_none(), "machine {number} ends two rounds at once");
                machine.ending = RoundEnd::new(round, reply);
                ensure!(machine.ending.is_some(), "the reply to a round is its end");
                Ok(())
            }
            Some(ToLeader::Reply(RequestPurpose::Ends, CoordinatorReply::Done)) | None => Ok(()),
            Some(ToLeader::Reply(purpose, reply)) => bail!("{purpose:?} gets the reply {reply:?}"),
            Some(ToLeader::CoordinatorGone) => {
                if let Some(news_feed) = &machine.news_feed {
                    news_feed.on_coordinator_gone(&machine.board);
                    if let Some(process) = machine.joining.take() {
                        self.set(process, ProcessStage::Refused);
                    }
                } else {
                    machine.state = LeaderStage::Refused;
                    let process = machine.leader_process;
                    self.set(process, ProcessStage::Refused);
                }
                Ok(())
            }
        }
    }

    fn receive_join_reply(&mut self, process: usize, reply: &CoordinatorReply) -> Result<()> {
        let spec = self.processes[process].spec;
        let coordinator = match reply {
            CoordinatorReply::Accepted { coordinator } => *coordinator,
            CoordinatorReply::Refused(_) => {
                self.run.refused += 1;
                return self.refuse(process);
            }
            other => bail!("process {process} gets the reply {other:?}"),
        };
        let machine = &mut self.machines[spec.machine];
        if spec.is_leader {
            return self.accept_leader(process, coordinator);
        }
        machine.joining = None;
        machine.board.admit(spec.rank);
        if self.processes[process].stage == ProcessStage::Killed {
            // The process has died before it was admitted.
            machine.closed.push_back(spec.rank);
            return Ok(());
        }
        self.processes[process].board = Some(machine.board_of(spec.rank));
        self.set(process, ProcessStage::Admitted);
        Ok(())
    }

    /// Refuses a process.
    fn refuse(&mut self, process: usize) -> Result<()> {
        let spec = self.processes[process].spec;
        let machine = &mut self.machines[spec.machine];
        if spec.is_leader {
            machine.state = LeaderStage::Refused;
            machine.link.close();
        } else {
            machine.joining = None;
        }
        self.set(process, ProcessStage::Refused);
        Ok(())
    }

    /// Lets a news feed copy one of the news to the board, and request more after the last one.
    pub(super) fn note(&mut self, number: usize) -> Result<()> {
        let machine = &mut self.machines[number];
        let Some(news) = machine.received.pop_front() else { return Ok(()) };
        self.model.check_news(number, machine.noted, news)?;
        let news_feed = machine.news_feed.as_mut().context("it was accepted")?;
        news_feed.note(&machine.board, news);
        machine.noted += 1;
        if machine.received.is_empty() {
            machine.request_news();
        }
        Ok(())
    }

    /// Whether a leader that has left is needed no longer.
    pub(super) fn can_end(&self, number: usize) -> bool {
        let machine = &self.machines[number];
        let has_left = self.processes[machine.leader_process].stage == ProcessStage::Left;
        let is_over = || match &self.coordinator {
            Some(coordinator) if number == COORDINATOR_MACHINE => {
                coordinator.is_over(&COORDINATOR_MACHINE)
                    || coordinator.is_loss_known(&COORDINATOR_MACHINE)
            }
            _ => true,
        };
        machine.is_serving() && has_left && machine.board.is_end() && is_over()
    }

    /// Ends a leader: its reporter reports everything first.
    pub(super) fn end_leader(&mut self, number: usize, state: LeaderStage) {
        let machine = &mut self.machines[number];
        machine.is_looking = false;
        machine.look();
        machine.look();
        machine.link.close();
        let ranks = self.ranks_of(number);
        self.after_leader_end(number, state);
        for rank in ranks {
            // No report of these ranks reaches the coordinator any more.
            if !self.model.has_left(rank) {
                self.lose(rank);
            }
        }
        if number == COORDINATOR_MACHINE {
            self.lose_coordinator();
        }
    }

    /// Stops the leader of a machine. Its ranks notice later.
    pub(super) fn after_leader_end(&mut self, number: usize, state: LeaderStage) {
        let machine = &mut self.machines[number];
        machine.state = state;
        machine.received.clear();
        machine.ending = None;
        machine.closed.clear();
        if let Some(process) = machine.joining.take() {
            self.set(process, ProcessStage::Refused);
        }
        for process in &mut self.processes {
            let spec = process.spec;
            process.is_orphan |= spec.machine == number && !spec.is_leader && process.is_alive();
        }
    }

    /// The ranks of a machine, also those that are joining.
    pub(super) fn ranks_of(&self, machine: usize) -> Vec<u32> {
        let here = self.processes.iter().filter(|process| {
            let was_let_in = process.board.is_some() || process.stage == ProcessStage::Joining;
            process.spec.machine == machine && was_let_in
        });
        here.map(|process| process.spec.rank).collect()
    }

    /// Allows all machines to report a rank as lost from now on.
    pub(super) fn lose(&mut self, rank: u32) {
        for machine in 0..self.machines.len() {
            self.model.lose(machine, rank);
        }
    }

    /// Ends the coordinator with its leader.
    pub(super) fn lose_coordinator(&mut self) {
        self.coordinator = None;
        for machine in &mut self.machines {
            machine.link.lose_coordinator(&mut self.rng);
        }
    }

    /// Checks that the coordinator may end when all remaining leaders have the last news, and then at
    /// once.
    pub(super) fn check_coordinator(&self) -> Result<()> {
        let Some(coordinator) = &self.coordinator else { return Ok(()) };
        let others = self.machines.iter().enumerate().skip(COORDINATOR_MACHINE + 1);
        let others: Vec<(usize, &SimulatedMachine)> =
            others.filter(|(_, machine)| machine.has_joined && !machine.is_gone).collect();
        let Some((_, first)) = others.first() else { return Ok(()) };
        let (is_over, is_loss_known) = (
            coordinator.is_over(&COORDINATOR_MACHINE),
            coordinator.is_loss_known(&COORDINATOR_MACHINE),
        );
        let have_all_news = others.iter().all(|(_, machine)| machine.has_all_news);
        let should_be = have_all_news && first.ends_reported == self.size;
        ensure!(
            is_over == should_be,
            "it is over for the coordinator: {is_over}, all know: {should_be}"
        );
        let should_be = have_all_news && first.is_loss_reported;
        ensure!(is_loss_known == should_be, "a loss is known to all: {is_loss_known}, {should_be}");
        if !is_over && !is_loss_known {
            return Ok(());
        }
        for (number, machine) in &others {
            let knows_loss = machine.board.lost().is_some();
            ensure!(knows_loss || !is_loss_known, "machine {number} does not know the loss");
            let knows_end = knows_loss || machine.board.have_all_left();
            ensure!(knows_end, "machine {number} does not know that all have left");
            let (noted, other) = (machine.noted, first.noted);
            ensure!(noted == other, "machine {number} knows {noted} news, another one {other}");
        }
        Ok(())
    }
}

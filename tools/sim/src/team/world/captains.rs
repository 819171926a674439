//! What captains and the host do.

use anyhow::{Context, Result, bail, ensure};
use pario_team::simulation::{CoordinatorReply, CoordinatorRequest, RoundEnd};

use super::{HOST, World};
use crate::team::machine::{Down, Duty, Machine, Up, What};
use crate::team::process::Stage;

impl World {
    /// The host hears the next thing from a machine, and answers.
    pub(super) fn tell_host(&mut self, machine: usize) -> Result<()> {
        let host = self.host.as_mut().context("the host is there")?;
        let Some(up) = self.machines[machine].link.up.pop_front() else { return Ok(()) };
        let answers = match up {
            Up::Ask(what, question) => {
                let come = match &question {
                    CoordinatorRequest::Join { rank, leader: captain, .. } => {
                        Some((*rank, *captain))
                    }
                    _ => None,
                };
                self.machines[machine].is_following |= what == What::Follow;
                let answers = host.handle(machine, question, (machine, what));
                if let (Some((rank, captain)), What::Come(process)) = (come, what) {
                    let of_come = answers.iter().find(|(ticket, _)| *ticket == (machine, what));
                    let is_accepted = match of_come {
                        Some((_, CoordinatorReply::Accepted { .. })) => true,
                        Some(_) => false,
                        None => bail!("process {process} is not answered"),
                    };
                    self.model.decide(rank, (process, captain), is_accepted)?;
                    self.machines[machine].has_joined |= is_accepted;
                }
                answers
            }
            Up::Gone => {
                self.machines[machine].is_gone = true;
                host.gone(&machine)
            }
        };
        for ((number, what), answer) in answers {
            let machine = &mut self.machines[number];
            ensure!(!machine.is_gone, "machine {number} is gone, and answered: {answer:?}");
            if let CoordinatorReply::News(news) = &answer {
                machine.is_told(news);
            }
            machine.link.answer(what, answer);
        }
        Ok(())
    }

    /// A captain hears the next thing from the host.
    pub(super) fn tell_captain(&mut self, number: usize) -> Result<()> {
        let machine = &mut self.machines[number];
        match machine.link.down.pop_front() {
            Some(Down::Answer(What::Come(process), answer)) => self.answer_come(process, &answer),
            Some(Down::Answer(What::Follow, CoordinatorReply::News(news))) => {
                ensure!(machine.heard.is_empty(), "machine {number} is answered twice");
                machine.heard = news.into();
                Ok(())
            }
            Some(Down::Answer(What::Round(round), answer)) => {
                ensure!(machine.ending.is_none(), "machine {number} ends two rounds at once");
                machine.ending = RoundEnd::new(round, answer);
                ensure!(machine.ending.is_some(), "the answer to a round is its end");
                Ok(())
            }
            Some(Down::Answer(What::Tell, CoordinatorReply::Done)) | None => Ok(()),
            Some(Down::Answer(what, answer)) => bail!("{answer:?} is the answer to {what:?}"),
            Some(Down::Broken) => {
                if let Some(follower) = &machine.follower {
                    follower.on_coordinator_gone(&machine.board);
                    if let Some(process) = machine.gate.take() {
                        self.set(process, Stage::Absent);
                    }
                } else {
                    machine.duty = Duty::Refused;
                    let process = machine.captain_process;
                    self.set(process, Stage::Absent);
                }
                Ok(())
            }
        }
    }

    fn answer_come(&mut self, process: usize, answer: &CoordinatorReply) -> Result<()> {
        let place = self.processes[process].place;
        let host = match answer {
            CoordinatorReply::Accepted { coordinator: host } => *host,
            CoordinatorReply::Refused(_) => {
                self.run.refused += 1;
                return self.refuse(process);
            }
            other => bail!("{other:?} is the answer to process {process}"),
        };
        let machine = &mut self.machines[place.machine];
        if place.is_captain {
            return self.accept_captain(process, host);
        }
        machine.gate = None;
        machine.board.admit(place.rank);
        if self.processes[process].stage == Stage::Killed {
            // It is gone before it is let in.
            machine.closed.push_back(place.rank);
            return Ok(());
        }
        self.processes[process].board = Some(machine.board_of(place.rank));
        self.set(process, Stage::Invited);
        Ok(())
    }

    /// A process is not let in.
    fn refuse(&mut self, process: usize) -> Result<()> {
        let place = self.processes[process].place;
        let machine = &mut self.machines[place.machine];
        if place.is_captain {
            machine.duty = Duty::Refused;
            machine.link.close();
        } else {
            machine.gate = None;
        }
        self.set(process, Stage::Absent);
        Ok(())
    }

    /// A follower notes one of the news, and asks for more after the last one.
    pub(super) fn note(&mut self, number: usize) -> Result<()> {
        let machine = &mut self.machines[number];
        let Some(news) = machine.heard.pop_front() else { return Ok(()) };
        self.model.hear(number, machine.noted, news)?;
        let follower = machine.follower.as_mut().context("it was accepted")?;
        follower.note(&machine.board, news);
        machine.noted += 1;
        if machine.heard.is_empty() {
            machine.follow();
        }
        Ok(())
    }

    /// Whether a captain that has left has nobody to serve any more.
    pub(super) fn can_end(&self, number: usize) -> bool {
        let machine = &self.machines[number];
        let has_left = self.processes[machine.captain_process].stage == Stage::Left;
        let is_over = || match &self.host {
            Some(host) if number == HOST => host.is_over(&HOST) || host.is_loss_known(&HOST),
            _ => true,
        };
        machine.is_serving() && has_left && machine.board.is_end() && is_over()
    }

    /// A captain ends: what it has to tell is told first.
    pub(super) fn end_captain(&mut self, number: usize, duty: Duty) {
        let machine = &mut self.machines[number];
        machine.is_looking = false;
        machine.look();
        machine.look();
        machine.link.close();
        let ranks = self.ranks_of(number);
        self.without_captain(number, duty);
        for rank in ranks {
            // Nobody hears any more what becomes of them.
            if !self.model.has_left(rank) {
                self.lose(rank);
            }
        }
        if number == HOST {
            self.lose_host();
        }
    }

    /// The captain of a machine does nothing any more; those of its machine have not noticed.
    pub(super) fn without_captain(&mut self, number: usize, duty: Duty) {
        let machine = &mut self.machines[number];
        machine.duty = duty;
        machine.heard.clear();
        machine.ending = None;
        machine.closed.clear();
        if let Some(process) = machine.gate.take() {
            self.set(process, Stage::Absent);
        }
        for process in &mut self.processes {
            let place = process.place;
            process.is_orphan |= place.machine == number && !place.is_captain && process.is_there();
        }
    }

    /// The ranks of a machine, those about whom the host is asked included.
    pub(super) fn ranks_of(&self, machine: usize) -> Vec<u32> {
        let here = self.processes.iter().filter(|process| {
            let was_let_in = process.board.is_some() || process.stage == Stage::Asking;
            process.place.machine == machine && was_let_in
        });
        here.map(|process| process.place.rank).collect()
    }

    /// From now on all may miss a rank.
    pub(super) fn lose(&mut self, rank: u32) {
        for machine in 0..self.machines.len() {
            self.model.lose(machine, rank);
        }
    }

    /// The host is gone with its captain.
    pub(super) fn lose_host(&mut self) {
        self.host = None;
        for machine in &mut self.machines {
            machine.link.lose_host(&mut self.rng);
        }
    }

    /// The host may end when all who are still there have heard what they must, and then at once.
    pub(super) fn check_host(&self) -> Result<()> {
        let Some(host) = &self.host else { return Ok(()) };
        let others = self.machines.iter().enumerate().skip(HOST + 1);
        let others: Vec<(usize, &Machine)> =
            others.filter(|(_, machine)| machine.has_joined && !machine.is_gone).collect();
        let Some((_, first)) = others.first() else { return Ok(()) };
        let (is_over, is_loss_known) = (host.is_over(&HOST), host.is_loss_known(&HOST));
        let have_heard = others.iter().all(|(_, machine)| machine.is_following);
        let should_be = have_heard && first.ends_told == self.size;
        ensure!(is_over == should_be, "it is over for the host: {is_over}, all know: {should_be}");
        let should_be = have_heard && first.is_loss_told;
        ensure!(is_loss_known == should_be, "a loss is known to all: {is_loss_known}, {should_be}");
        if !is_over && !is_loss_known {
            return Ok(());
        }
        for (number, machine) in &others {
            let knows_loss = machine.board.lost().is_some();
            ensure!(knows_loss || !is_loss_known, "machine {number} has not heard of the loss");
            let knows_end = knows_loss || machine.board.have_all_left();
            ensure!(knows_end, "machine {number} has not heard that all have left");
            let (noted, other) = (machine.noted, first.noted);
            ensure!(noted == other, "machine {number} knows {noted} news, another one {other}");
        }
        Ok(())
    }
}

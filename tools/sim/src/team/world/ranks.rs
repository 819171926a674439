//! The events of processes: they start, join, make rounds and leave.

use anyhow::{Context, Result, ensure};
use pario_team::simulation::{CoordinatorRequest, MissingRank, NewsFeed, TeamCoordinator};

use super::{COORDINATOR_MACHINE, TeamWorld};
use crate::team::machine::{LeaderStage, RequestPurpose};
use crate::team::process::{ProcessStage, SimulatedProcess};

impl TeamWorld {
    pub(super) fn can_start(&self, process: &SimulatedProcess) -> bool {
        let machine = &self.machines[process.spec.machine];
        let is_coordinator = process.spec.machine == COORDINATOR_MACHINE;
        process.stage == ProcessStage::NotStarted
            && !process.is_stalled()
            && if process.spec.is_leader {
                // Leaders of other machines wait for the coordinator.
                is_coordinator || self.machines[COORDINATOR_MACHINE].state != LeaderStage::Joining
            } else {
                machine.state != LeaderStage::Joining && machine.joining.is_none()
            }
    }

    /// Starts a process.
    pub(super) fn start(&mut self, process: usize) -> Result<()> {
        let spec = self.processes[process].spec;
        let size = self.size;
        if spec.is_leader && spec.machine == COORDINATOR_MACHINE {
            let mut coordinator = TeamCoordinator::new(size);
            let ticket = (COORDINATOR_MACHINE, RequestPurpose::Join(process));
            coordinator.join(COORDINATOR_MACHINE, (spec.rank, spec.rank), size, ticket);
            self.coordinator = Some(coordinator);
            return self.accept_leader(process, spec.rank);
        }
        let machine = &mut self.machines[spec.machine];
        let is_refused = if spec.is_leader {
            self.coordinator.is_none()
        } else {
            let board = &machine.board;
            let can_join = machine.is_serving() && !machine.link.is_cut;
            // A rank is on a machine once.
            let is_taken = board.machine_ranks().contains(&spec.rank);
            !can_join || is_taken || board.has_left(spec.rank) || board.lost().is_some()
        };
        if is_refused {
            if spec.is_leader {
                machine.state = LeaderStage::Refused;
            }
            self.set(process, ProcessStage::Refused);
            return Ok(());
        }
        if spec.is_leader {
            machine.board.lead(true);
        } else {
            machine.joining = Some(process);
        }
        let (leader, rank) = (machine.leader, spec.rank);
        machine.link.request(
            RequestPurpose::Join(process),
            CoordinatorRequest::Join { leader, rank, size },
        );
        self.set(process, ProcessStage::Joining);
        Ok(())
    }

    /// Lets an accepted leader serve, and join as a rank.
    pub(super) fn accept_leader(&mut self, process: usize, coordinator: u32) -> Result<()> {
        let spec = self.processes[process].spec;
        let machine = &mut self.machines[spec.machine];
        if spec.machine == COORDINATOR_MACHINE {
            machine.board.lead(true);
            machine.has_joined = true;
            self.model.decide(spec.rank, (process, spec.rank), true)?;
        }
        machine.state = LeaderStage::Serving;
        machine.news_feed = Some(NewsFeed::new(spec.rank, coordinator));
        machine.request_news();
        self.processes[process].board = Some(machine.board_of(spec.rank));
        self.set(process, ProcessStage::Admitted);
        Ok(())
    }

    pub(super) fn can_go(&self, process: &SimulatedProcess) -> bool {
        let Some(board) = &process.board else { return false };
        match process.stage {
            ProcessStage::Admitted | ProcessStage::Written(_) | ProcessStage::Reading(..) => true,
            ProcessStage::Ready => !process.is_stalled(),
            ProcessStage::Gathering => board.check_all_here().is_some(),
            ProcessStage::Waiting(round) => board.check_round(round).is_some(),
            ProcessStage::NotStarted
            | ProcessStage::Joining
            | ProcessStage::Left
            | ProcessStage::Killed
            | ProcessStage::Refused => false,
        }
    }

    /// Makes the next step of a process.
    pub(super) fn go_on(&mut self, number: usize) -> Result<()> {
        let process = &mut self.processes[number];
        let (rank, machine) = (process.spec.rank, process.spec.machine);
        let board = process.board.as_ref().context("it was let in")?;
        match process.stage {
            ProcessStage::Admitted => {
                board.mark_here();
                process.stage = ProcessStage::Gathering;
            }
            ProcessStage::Gathering => match board.check_all_here() {
                Some(Ok(())) => {
                    self.model.check_gathered()?;
                    process.stage = ProcessStage::Ready;
                }
                Some(Err(missing)) => {
                    self.model.fail(rank, machine, missing)?;
                    self.run.failures += 1;
                    match missing {
                        MissingRank::Lost(_) => self.leave(number),
                        // A leader does not stay for a team that has not begun.
                        MissingRank::Left(_) => self.give_up(number),
                    }
                }
                None => {}
            },
            ProcessStage::Ready => match process.program.get(process.next) {
                Some(said) => match board.enter() {
                    Ok(round) => {
                        board.write(round, said.call, &said.bytes);
                        process.stage = ProcessStage::Written(round);
                    }
                    Err(missing) => self.fail(number, missing)?,
                },
                None => self.leave(number),
            },
            ProcessStage::Written(round) => {
                let arrived = board.arrive();
                ensure!(arrived == round, "rank {rank} wrote for {round} and comes to {arrived}");
                let said = &process.program[process.next];
                self.model.come(rank, round, said)?;
                process.stage = ProcessStage::Waiting(round);
            }
            ProcessStage::Waiting(round) => match board.check_round(round) {
                Some(Ok(())) => {
                    self.model.pass(rank)?;
                    process.stage = ProcessStage::Reading(round, 0);
                }
                Some(Err(missing)) => self.fail(number, missing)?,
                None => {}
            },
            ProcessStage::Reading(round, other) => {
                let (call, bytes) = board.read_slot(other, round);
                let said = self.model.sent(rank, other)?;
                let is_same = said.call.to_bytes(said.bytes.len()) == call && said.bytes == bytes;
                ensure!(is_same, "rank {rank} reads other bytes than rank {other} has sent");
                if other + 1 < self.size {
                    process.stage = ProcessStage::Reading(round, other + 1);
                } else {
                    self.run.rounds += 1;
                    process.next += 1;
                    process.stage = ProcessStage::Ready;
                }
            }
            ProcessStage::NotStarted
            | ProcessStage::Joining
            | ProcessStage::Left
            | ProcessStage::Killed
            | ProcessStage::Refused => {}
        }
        Ok(())
    }

    /// Fails the call of a rank: it calls again, or leaves.
    fn fail(&mut self, number: usize, missing: MissingRank) -> Result<()> {
        self.run.failures += 1;
        let process = &mut self.processes[number];
        let (rank, machine) = (process.spec.rank, process.spec.machine);
        self.model.fail(rank, machine, missing)?;
        if process.retries == 0 {
            self.leave(number);
            return Ok(());
        }
        process.retries -= 1;
        // It goes on with its next call.
        process.next = (process.next + 1) % process.program.len().max(1);
        process.stage = ProcessStage::Ready;
        Ok(())
    }

    /// Lets a process leave. Its connection to its leader is closed; a leader stays until all other
    /// ranks have left as well.
    pub(super) fn leave(&mut self, number: usize) {
        let process = &mut self.processes[number];
        if let Some(board) = &process.board {
            board.leave();
        }
        process.stage = ProcessStage::Left;
        let spec = process.spec;
        self.model.leave(spec.rank);
        if !spec.is_leader {
            self.machines[spec.machine].closed.push_back(spec.rank);
        }
    }

    /// Ends a process at the time limit, because not all ranks have come. A leader does not stay.
    pub(super) fn give_up(&mut self, number: usize) {
        let spec = self.processes[number].spec;
        if spec.is_leader {
            self.end_leader(spec.machine, LeaderStage::GivenUp);
        }
        self.leave(number);
    }
}

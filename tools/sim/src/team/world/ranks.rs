//! The events of processes: they start, join, make rounds and leave.

use anyhow::{Context, Result, bail, ensure};
use pario_net::SwitchPoint;
use pario_team::simulation::{CoordinatorRequest, DepartedRank, NewsFeed, TeamCoordinator};

use super::{COORDINATOR_MACHINE, TeamWorld};
use crate::sim_thread::{SimReply, SimRequest, Stop};
use crate::team::machine::{LeaderStage, RequestPurpose};
use crate::team::process::{ProcessStage, SimulatedProcess, WaitEnd};

/// The process id by which the parker of a machine knows a process.
pub(super) fn process_id(number: usize) -> u32 {
    u32::try_from(number + 1).unwrap_or(u32::MAX)
}

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
            machine.board.lead(self.is_multi_machine);
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
        match process.stage {
            ProcessStage::Admitted | ProcessStage::Written(_) | ProcessStage::Reading(..) => true,
            ProcessStage::Ready => !process.is_stalled(),
            ProcessStage::Gathering | ProcessStage::Waiting(_) | ProcessStage::Locking(_) => {
                !process.is_asleep()
            }
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
        let board = process.board.clone().context("it was let in")?;
        match process.stage {
            ProcessStage::Admitted => {
                self.machines[machine].parker.act_as(process_id(number));
                board.mark_here();
                process.stage = ProcessStage::Gathering;
                process.wait_for_all();
            }
            ProcessStage::Ready if process.lock_turns > 0 && self.rng.bool() => {
                process.lock_turns -= 1;
                // Few locks, so that processes wait for each other.
                let lock = (self.rng.u32(0..self.size.min(2)), 0);
                process.stage = ProcessStage::Locking(lock);
                process.take_lock(lock);
            }
            ProcessStage::Ready => match process.program.get(process.next) {
                Some(sent) => match board.enter() {
                    Ok(round) => {
                        board.write(round, sent.call, &sent.bytes);
                        process.stage = ProcessStage::Written(round);
                    }
                    Err(departed) => self.fail(number, departed)?,
                },
                None => self.leave(number),
            },
            ProcessStage::Written(round) => {
                let sent = &process.program[process.next];
                self.model.come(rank, round, sent)?;
                process.stage = ProcessStage::Waiting(round);
                process.complete_round();
                // It arrives before any other process makes a step.
                return self.run_thread(number);
            }
            ProcessStage::Gathering | ProcessStage::Waiting(_) | ProcessStage::Locking(_) => {
                return self.run_thread(number);
            }
            ProcessStage::Reading(round, other) => {
                let (call, bytes) = board.read_slot(other, round);
                let sent = self.model.sent(rank, other)?;
                let is_same = sent.call.to_bytes(sent.bytes.len()) == call && sent.bytes == bytes;
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

    /// Runs the thread of a process until it stops.
    fn run_thread(&mut self, number: usize) -> Result<()> {
        let process = &mut self.processes[number];
        let (rank, machine) = (process.spec.rank, process.spec.machine);
        let lock = match process.stage {
            ProcessStage::Locking((of, number)) => Some((machine, of, number)),
            _ => None,
        };
        if let Some(lock) = lock.filter(|_| std::mem::take(&mut process.is_unlocking)) {
            self.model.unlock(lock);
        }
        let thread = process.thread.as_mut().context("the process waits at the board")?;
        let end = match thread.run(SimReply::None) {
            Stop::Between(Some((SwitchPoint::Unlocking, _))) => {
                process.is_unlocking = true;
                return Ok(());
            }
            Stop::Between(Some((SwitchPoint::Locked, _))) => {
                return self
                    .model
                    .lock(lock.context("the process waits for a lock")?, (number, rank));
            }
            Stop::Between(_) | Stop::Parked => return Ok(()),
            Stop::Requested(SimRequest::Hold) => {
                self.run.locks += 1;
                return self
                    .model
                    .lock(lock.context("the process waits for a lock")?, (number, rank));
            }
            Stop::Requested(request) => bail!("rank {rank} asks: {request:?}"),
            Stop::Ended(end) => end,
        };
        process.thread = None;
        match (process.stage.clone(), end) {
            (ProcessStage::Gathering, WaitEnd::AllHere(Ok(()))) => {
                self.model.check_gathered()?;
                process.stage = ProcessStage::Ready;
            }
            (ProcessStage::Gathering, WaitEnd::AllHere(Err(absent))) => {
                let departed = process.board.as_ref().and_then(|board| board.check_all_here());
                let Some(Err(departed)) = departed else {
                    bail!("rank {rank} does not wait for {absent:?}, and no rank has departed");
                };
                self.model.fail(rank, machine, departed)?;
                self.run.failures += 1;
                match departed {
                    DepartedRank::Lost(_) => self.leave(number),
                    // A leader does not stay for a team that has not begun.
                    DepartedRank::Left(_) => self.give_up(number),
                }
            }
            (ProcessStage::Waiting(round), WaitEnd::Round(Ok(over))) => {
                ensure!(over == round, "rank {rank} wrote for {round} and passes {over}");
                self.model.pass(rank)?;
                process.stage = ProcessStage::Reading(round, 0);
            }
            (ProcessStage::Waiting(_), WaitEnd::Round(Err(departed))) => {
                self.fail(number, departed)?
            }
            (ProcessStage::Locking(_), WaitEnd::Lock(Ok(()))) => {
                process.stage = ProcessStage::Ready
            }
            (ProcessStage::Locking(_), WaitEnd::Lock(Err(departed))) => {
                process.stage = ProcessStage::Ready;
                self.run.lock_failures += 1;
                let owner = self.model.owner(lock.context("the process waits for a lock")?);
                let (owner, owner_rank) = owner.context("no process holds the lock")?;
                let is_killed = self.processes[owner].stage == ProcessStage::Killed;
                ensure!(
                    is_killed && departed == DepartedRank::Lost(owner_rank),
                    "rank {rank} fails with {departed:?}, and rank {owner_rank} holds the lock"
                );
            }
            (stage, end) => bail!("rank {rank} in {stage:?} waits for {end:?}"),
        }
        Ok(())
    }

    /// Fails the call of a rank: it calls again, or leaves.
    fn fail(&mut self, number: usize, departed: DepartedRank) -> Result<()> {
        self.run.failures += 1;
        let process = &mut self.processes[number];
        let (rank, machine) = (process.spec.rank, process.spec.machine);
        self.model.fail(rank, machine, departed)?;
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
        process.thread = None;
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

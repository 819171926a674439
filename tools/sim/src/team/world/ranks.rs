//! What processes do: they come, meet and leave.

use anyhow::{Context, Result, bail, ensure};
use pario_net::SwitchPoint;
use pario_team::simulation::{CoordinatorRequest, MissingRank, NewsFeed, TeamCoordinator};

use super::{HOST, World};
use crate::sim_thread::{Question, Reply, Stop};
use crate::team::machine::{Duty, What};
use crate::team::process::{Process, Stage, WaitEnd};

/// The number by which the machine knows a process.
pub(super) fn process_id(number: usize) -> u32 {
    u32::try_from(number + 1).unwrap_or(u32::MAX)
}

impl World {
    pub(super) fn can_start(&self, process: &Process) -> bool {
        let machine = &self.machines[process.place.machine];
        let is_host = process.place.machine == HOST;
        process.stage == Stage::Away
            && !process.is_stalled()
            && if process.place.is_captain {
                // Whoever comes first waits for the host.
                is_host || self.machines[HOST].duty != Duty::Coming
            } else {
                machine.duty != Duty::Coming && machine.gate.is_none()
            }
    }

    /// A process looks for the others.
    pub(super) fn start(&mut self, process: usize) -> Result<()> {
        let place = self.processes[process].place;
        let size = self.size;
        if place.is_captain && place.machine == HOST {
            let mut host = TeamCoordinator::new(size);
            let ticket = (HOST, What::Come(process));
            host.join(HOST, (place.rank, place.rank), size, ticket);
            self.host = Some(host);
            return self.accept_captain(process, place.rank);
        }
        let machine = &mut self.machines[place.machine];
        let is_refused = if place.is_captain {
            self.host.is_none()
        } else {
            let board = &machine.board;
            let has_place = machine.is_serving() && !machine.link.is_cut;
            // A machine has each rank once.
            let is_taken = board.machine_ranks().contains(&place.rank);
            !has_place || is_taken || board.has_left(place.rank) || board.lost().is_some()
        };
        if is_refused {
            if place.is_captain {
                machine.duty = Duty::Refused;
            }
            self.set(process, Stage::Absent);
            return Ok(());
        }
        if place.is_captain {
            machine.board.lead(true);
        } else {
            machine.gate = Some(process);
        }
        let (captain, rank) = (machine.captain, place.rank);
        machine
            .link
            .ask(What::Come(process), CoordinatorRequest::Join { leader: captain, rank, size });
        self.set(process, Stage::Asking);
        Ok(())
    }

    /// The host has accepted a captain: it serves, and is a rank like all others.
    pub(super) fn accept_captain(&mut self, process: usize, host: u32) -> Result<()> {
        let place = self.processes[process].place;
        let machine = &mut self.machines[place.machine];
        if place.machine == HOST {
            machine.board.lead(self.is_multi_machine);
            machine.has_joined = true;
            self.model.decide(place.rank, (process, place.rank), true)?;
        }
        machine.duty = Duty::Serving;
        machine.follower = Some(NewsFeed::new(place.rank, host));
        machine.follow();
        self.processes[process].board = Some(machine.board_of(place.rank));
        self.set(process, Stage::Invited);
        Ok(())
    }

    pub(super) fn can_go(&self, process: &Process) -> bool {
        match process.stage {
            Stage::Invited | Stage::Written(_) | Stage::Reading(..) => true,
            Stage::Ready => !process.is_stalled(),
            Stage::Gathering | Stage::Waiting(_) | Stage::Locking(_) => !process.is_asleep(),
            Stage::Away | Stage::Asking | Stage::Left | Stage::Killed | Stage::Absent => false,
        }
    }

    /// A process does its next step.
    pub(super) fn go_on(&mut self, number: usize) -> Result<()> {
        let process = &mut self.processes[number];
        let (rank, machine) = (process.place.rank, process.place.machine);
        let board = process.board.clone().context("it was let in")?;
        match process.stage {
            Stage::Invited => {
                self.machines[machine].parker.act_as(process_id(number));
                board.mark_here();
                process.stage = Stage::Gathering;
                process.wait_for_all();
            }
            Stage::Ready if process.lock_turns > 0 && self.rng.bool() => {
                process.lock_turns -= 1;
                // Few locks, so that processes wait for each other.
                let place = (self.rng.u32(0..self.size.min(2)), 0);
                process.stage = Stage::Locking(place);
                process.take_lock(place);
            }
            Stage::Ready => match process.program.get(process.next) {
                Some(said) => match board.enter() {
                    Ok(round) => {
                        board.write(round, said.call, &said.bytes);
                        process.stage = Stage::Written(round);
                    }
                    Err(missing) => self.fail(number, missing)?,
                },
                None => self.leave(number),
            },
            Stage::Written(round) => {
                let said = &process.program[process.next];
                self.model.come(rank, round, said)?;
                process.stage = Stage::Waiting(round);
                process.complete_round();
                // It arrives before any other process does something.
                return self.run_thread(number);
            }
            Stage::Gathering | Stage::Waiting(_) | Stage::Locking(_) => {
                return self.run_thread(number);
            }
            Stage::Reading(round, other) => {
                let (call, bytes) = board.read_slot(other, round);
                let said = self.model.told(rank, other)?;
                let is_same = said.call.to_bytes(said.bytes.len()) == call && said.bytes == bytes;
                ensure!(is_same, "rank {rank} reads something else than rank {other} has told");
                if other + 1 < self.size {
                    process.stage = Stage::Reading(round, other + 1);
                } else {
                    self.run.rounds += 1;
                    process.next += 1;
                    process.stage = Stage::Ready;
                }
            }
            Stage::Away | Stage::Asking | Stage::Left | Stage::Killed | Stage::Absent => {}
        }
        Ok(())
    }

    /// Runs the thread of a process until it stops.
    fn run_thread(&mut self, number: usize) -> Result<()> {
        let process = &mut self.processes[number];
        let (rank, machine) = (process.place.rank, process.place.machine);
        let lock = match process.stage {
            Stage::Locking((of, number)) => Some((machine, of, number)),
            _ => None,
        };
        if let Some(lock) = lock.filter(|_| std::mem::take(&mut process.is_unlocking)) {
            self.model.unlock(lock);
        }
        let thread = process.thread.as_mut().context("it waits at the board")?;
        let end = match thread.run(Reply::None) {
            Stop::Between(Some((SwitchPoint::Unlocking, _))) => {
                process.is_unlocking = true;
                return Ok(());
            }
            Stop::Between(Some((SwitchPoint::Locked, _))) => {
                return self.model.lock(lock.context("it waits for a lock")?, (number, rank));
            }
            Stop::Between(_) | Stop::Parked => return Ok(()),
            Stop::Asked(Question::Hold) => {
                self.run.locks += 1;
                return self.model.lock(lock.context("it waits for a lock")?, (number, rank));
            }
            Stop::Asked(question) => bail!("rank {rank} asks: {question:?}"),
            Stop::Ended(end) => end,
        };
        process.thread = None;
        match (process.stage.clone(), end) {
            (Stage::Gathering, WaitEnd::AllHere(Ok(()))) => {
                self.model.gathered()?;
                process.stage = Stage::Ready;
            }
            (Stage::Gathering, WaitEnd::AllHere(Err(absent))) => {
                let missing = process.board.as_ref().and_then(|board| board.check_all_here());
                let Some(Err(missing)) = missing else {
                    bail!("rank {rank} does not wait for {absent:?}, and no rank is missing");
                };
                self.model.fail(rank, machine, missing)?;
                self.run.failures += 1;
                match missing {
                    MissingRank::Lost(_) => self.leave(number),
                    // Nobody waits for the end of a team that has not begun.
                    MissingRank::Left(_) => self.give_up(number),
                }
            }
            (Stage::Waiting(round), WaitEnd::Round(Ok(over))) => {
                ensure!(over == round, "rank {rank} wrote for {round} and passes {over}");
                self.model.pass(rank)?;
                process.stage = Stage::Reading(round, 0);
            }
            (Stage::Waiting(_), WaitEnd::Round(Err(missing))) => self.fail(number, missing)?,
            (Stage::Locking(_), WaitEnd::Lock(Ok(()))) => process.stage = Stage::Ready,
            (Stage::Locking(_), WaitEnd::Lock(Err(missing))) => {
                process.stage = Stage::Ready;
                self.run.lock_failures += 1;
                let owner = self.model.owner(lock.context("it waits for a lock")?);
                let (owner, owner_rank) = owner.context("no process has the lock")?;
                let is_killed = self.processes[owner].stage == Stage::Killed;
                ensure!(
                    is_killed && missing == MissingRank::Lost(owner_rank),
                    "rank {rank} is told of {missing:?}, and rank {owner_rank} has the lock"
                );
            }
            (stage, end) => bail!("rank {rank} in {stage:?} waits for {end:?}"),
        }
        Ok(())
    }

    /// A rank waits in vain: it calls again, or leaves.
    fn fail(&mut self, number: usize, missing: MissingRank) -> Result<()> {
        self.run.failures += 1;
        let process = &mut self.processes[number];
        let (rank, machine) = (process.place.rank, process.place.machine);
        self.model.fail(rank, machine, missing)?;
        if process.retries == 0 {
            self.leave(number);
            return Ok(());
        }
        process.retries -= 1;
        // The next call is another one.
        process.next = (process.next + 1) % process.program.len().max(1);
        process.stage = Stage::Ready;
        Ok(())
    }

    /// A process leaves. Its connection to its captain is closed; a captain stays until all others
    /// have left as well.
    pub(super) fn leave(&mut self, number: usize) {
        let process = &mut self.processes[number];
        if let Some(board) = &process.board {
            board.leave();
        }
        process.stage = Stage::Left;
        process.thread = None;
        let place = process.place;
        self.model.leave(place.rank);
        if !place.is_captain {
            self.machines[place.machine].closed.push_back(place.rank);
        }
    }

    /// The patience of a process ends before all have come: a captain does not stay.
    pub(super) fn give_up(&mut self, number: usize) {
        let place = self.processes[number].place;
        if place.is_captain {
            self.end_captain(place.machine, Duty::GivenUp);
        }
        self.leave(number);
    }
}

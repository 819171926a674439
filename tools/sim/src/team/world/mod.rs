//! Machines, processes and the host, moved by one source of chance.

mod accidents;
mod captains;
mod ranks;
mod rest;

use std::collections::VecDeque;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use pario_team::simulation::TeamCoordinator;

use super::TeamRun;
use super::machine::{Down, Duty, Machine, What};
use super::model::Model;
use super::plan::Plan;
use super::process::{Process, Stage, Stall};

/// Events that a run may have, far more than any has.
const STEPS_LIMIT: u64 = 100_000;

/// Events that are told when something is wrong.
const RECENT: usize = 40;

/// The machine at which the host is.
const HOST: usize = 0;

/// By what an answer finds who asked.
type Ticket = (usize, What);

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A process is started.
    Start(usize),
    /// A process does its next step.
    Go(usize),
    /// A process notices that its captain is gone.
    Orphan(usize),
    /// The host hears something from a machine.
    Up(usize),
    /// A captain hears something from the host.
    Down(usize),
    /// A follower notes one of the news.
    Note(usize),
    /// A steward looks.
    Look(usize),
    /// The end of a round goes on at a machine.
    Finish(usize),
    /// A captain notices that a guest's connection is closed.
    Notice(usize),
    /// A captain ends.
    End(usize),
    /// A process is killed.
    Kill(usize),
    /// A captain is killed.
    KillCaptain(usize),
    /// The link of a captain is cut.
    Cut(usize),
    /// The patience of a process ends.
    GiveUp(usize),
    /// A process does not keep the others waiting any more.
    Wake(usize),
    /// The sleep of a process that waits for a lock ends by itself.
    EndSleep(usize),
}

struct World {
    rng: Rng,
    size: u32,
    machines: Vec<Machine>,
    processes: Vec<Process>,
    host: Option<TeamCoordinator<usize, Ticket>>,
    model: Model,
    /// Whether rounds go over several machines, even if there is one only.
    is_multi_machine: bool,
    /// How many of a thousand steps are accidents.
    accidents: u32,
    /// What has less time than everything else.
    slow: Option<Action>,
    recent: VecDeque<Action>,
    run: TeamRun,
}

/// Runs a seed to its end.
pub fn run(seed: u64) -> Result<TeamRun> {
    let mut world = World::new(Rng::with_seed(seed))?;
    world.go().with_context(|| {
        let (size, run) = (world.size, world.run);
        let places: Vec<_> = world.processes.iter().map(|process| process.place).collect();
        format!(
            "team, seed {seed}, {size} ranks, {run:?}\nprocesses: {places:?}\nthe last events: \
             {:?}\nto see it again: cargo run --release -p pario-sim -- --seed {seed}",
            world.recent
        )
    })?;
    Ok(world.run)
}

impl World {
    fn new(mut rng: Rng) -> Result<Self> {
        let Plan { size, machines: count, places, programs, first_round } = Plan::random(&mut rng);
        let mut machines = Vec::new();
        for machine in 0..count {
            let is_captain =
                |place: &super::plan::Place| place.machine == machine && place.is_captain;
            let process = places.iter().position(is_captain).context("a machine has a captain")?;
            let captain = (places[process].rank, process);
            machines.push(Machine::new(captain, size, first_round, rng.fork())?);
        }
        let (stalls, has_locks) = (rng.u8(0..4) == 0, rng.bool());
        let mut processes = Vec::new();
        for place in places {
            let program = programs[place.rank as usize].clone();
            let mut process = Process::new(place, program);
            process.retries = if rng.u8(0..4) == 0 { rng.u32(1..5) } else { 0 };
            process.lock_turns = if has_locks { rng.u32(0..8) } else { 0 };
            if stalls && rng.u8(0..3) == 0 {
                let next = rng.usize(0..=process.program.len());
                let is_late = rng.u8(0..4) == 0;
                process.stall = Some(if is_late { Stall::Start } else { Stall::Call(next) });
            }
            processes.push(process);
        }
        let slow = match rng.u8(0..10) {
            0 => Some(Action::Up(rng.usize(0..count))),
            1 => Some(Action::Down(rng.usize(0..count))),
            2 => Some(Action::Note(rng.usize(0..count))),
            3 => Some(Action::Look(rng.usize(0..count))),
            4 => Some(Action::Finish(rng.usize(0..count))),
            5 => Some(Action::Go(rng.usize(0..processes.len()))),
            6 => Some(Action::Notice(rng.usize(0..count))),
            _ => None,
        };
        let accidents = [0, 2, 8][rng.usize(0..3)];
        let is_multi_machine = count > 1 || rng.bool();
        Ok(Self {
            rng,
            size,
            machines,
            processes,
            host: None,
            model: Model::new(size, count, first_round),
            is_multi_machine,
            accidents,
            slow,
            recent: VecDeque::new(),
            run: TeamRun::default(),
        })
    }

    fn go(&mut self) -> Result<()> {
        let mut possible = Vec::new();
        loop {
            ensure!(self.run.steps < STEPS_LIMIT, "it does not come to an end");
            if self.rng.u32(0..1000) < self.accidents
                && let Some(accident) = self.accident()
            {
                self.happen(accident)?;
            }
            possible.clear();
            self.possible(&mut possible);
            let action =
                if possible.is_empty() { self.rest()? } else { Some(self.pick(&possible)) };
            let Some(action) = action else { return self.check_end() };
            self.happen(action)?;
        }
    }

    fn pick(&mut self, possible: &[Action]) -> Action {
        let any = possible[self.rng.usize(0..possible.len())];
        if self.slow == Some(any) && self.rng.u8(0..16) > 0 {
            return possible[self.rng.usize(0..possible.len())];
        }
        any
    }

    /// All that can happen next.
    fn possible(&self, possible: &mut Vec<Action>) {
        for (number, process) in self.processes.iter().enumerate() {
            if self.can_start(process) {
                possible.push(Action::Start(number));
            }
            if self.can_go(process) {
                possible.push(Action::Go(number));
            }
            if process.is_orphan && process.is_there() {
                possible.push(Action::Orphan(number));
            }
        }
        for (number, machine) in self.machines.iter().enumerate() {
            if self.host.is_some() && !machine.link.up.is_empty() {
                possible.push(Action::Up(number));
            }
            let is_noting = !machine.heard.is_empty();
            match machine.link.down.front() {
                // Only when it asks again does a follower see that nobody answers.
                Some(Down::Broken) if is_noting => {}
                Some(_) => possible.push(Action::Down(number)),
                None => {}
            }
            if !machine.is_serving() {
                continue;
            }
            if is_noting {
                possible.push(Action::Note(number));
            }
            if machine.is_steward_awake() {
                possible.push(Action::Look(number));
            }
            if machine.ending.is_some() {
                possible.push(Action::Finish(number));
            }
            // While the host is asked about one, the others are not watched.
            if machine.gate.is_none() && !machine.closed.is_empty() {
                possible.push(Action::Notice(number));
            }
            if self.can_end(number) {
                possible.push(Action::End(number));
            }
        }
    }

    fn happen(&mut self, action: Action) -> Result<()> {
        self.run.steps += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(action);
        match action {
            Action::Start(process) => self.start(process)?,
            Action::Go(process) => self.go_on(process)?,
            Action::EndSleep(number) => {
                self.go_on(number)?;
                let process = &self.processes[number];
                let (rank, stage) = (process.place.rank, &process.stage);
                ensure!(!process.is_asleep(), "rank {rank} waits for ever: {stage:?}");
            }
            Action::Orphan(process) => {
                let process = &mut self.processes[process];
                process.is_orphan = false;
                if let Some(board) = &process.board {
                    board.on_leader_gone();
                }
            }
            Action::Up(machine) => self.tell_host(machine)?,
            Action::Down(machine) => self.tell_captain(machine)?,
            Action::Note(machine) => self.note(machine)?,
            Action::Look(machine) => self.machines[machine].look(),
            Action::Finish(number) => {
                let machine = &mut self.machines[number];
                if let Some(ending) = &mut machine.ending
                    && !ending.write_next(&machine.board)
                {
                    machine.ending = None;
                    self.model.end_round(number);
                }
            }
            Action::Notice(machine) => {
                let machine = &mut self.machines[machine];
                if let Some(rank) = machine.closed.pop_front() {
                    machine.board.on_process_gone(rank);
                }
            }
            Action::End(machine) => self.end_captain(machine, Duty::Ended),
            Action::Kill(process) => self.kill(process),
            Action::KillCaptain(machine) => self.kill_captain(machine),
            Action::Cut(machine) => self.cut(machine),
            Action::GiveUp(process) => self.give_up(process),
            Action::Wake(process) => self.processes[process].stall = None,
        }
        self.check_host()
    }

    fn rank_of(&self, process: usize) -> u32 {
        self.processes[process].place.rank
    }

    fn set(&mut self, process: usize, stage: Stage) {
        let process = &mut self.processes[process];
        process.stage = stage;
        if !process.is_there() {
            process.thread = None;
        }
    }
}

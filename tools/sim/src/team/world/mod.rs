//! The simulated world of a team: machines, processes and the coordinator, driven by one random
//! generator.

mod accidents;
mod leaders;
mod quiescence;
mod ranks;

use std::collections::VecDeque;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use pario_team::simulation::TeamCoordinator;

use super::TeamRun;
use super::machine::{LeaderStage, RequestPurpose, SimulatedMachine, ToLeader};
use super::model::TeamModel;
use super::plan::TeamPlan;
use super::process::{ProcessStage, SimulatedProcess, Stall};

/// Steps of a run, far more than any needs.
const STEPS_LIMIT: u64 = 100_000;

/// Events that an error lists.
const RECENT_EVENTS: usize = 40;

/// The machine on which the coordinator runs.
const COORDINATOR_MACHINE: usize = 0;

/// Routes a reply: the machine that has sent the request, and its purpose.
type RequestTicket = (usize, RequestPurpose);

/// A possible next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TeamEvent {
    /// A process is started.
    Start(usize),
    /// A process makes its next step.
    Step(usize),
    /// A process notices that its leader is gone.
    Orphan(usize),
    /// The coordinator receives a message from a machine.
    ToCoordinator(usize),
    /// A leader receives a message from the coordinator.
    ToLeader(usize),
    /// A news feed copies one of the news to the board.
    Note(usize),
    /// A reporter looks at the board.
    Look(usize),
    /// A leader writes the next slot of a round's end to the board.
    Finish(usize),
    /// A leader notices that the connection of a rank is closed.
    Notice(usize),
    /// A leader ends.
    End(usize),
    /// A process is killed.
    Kill(usize),
    /// A leader is killed.
    KillLeader(usize),
    /// The link of a leader is cut.
    Cut(usize),
    /// The time limit of a process passes.
    GiveUp(usize),
    /// A process stalls no longer.
    Wake(usize),
    /// The sleep of a process that waits for a lock ends by itself.
    EndSleep(usize),
}

struct TeamWorld {
    rng: Rng,
    size: u32,
    machines: Vec<SimulatedMachine>,
    processes: Vec<SimulatedProcess>,
    coordinator: Option<TeamCoordinator<usize, RequestTicket>>,
    model: TeamModel,
    /// Whether rounds go through the coordinator, even on one machine.
    is_multi_machine: bool,
    /// Accidents per thousand steps.
    accidents: u32,
    /// The event that happens less often than the others.
    slow: Option<TeamEvent>,
    recent: VecDeque<TeamEvent>,
    run: TeamRun,
}

/// Runs a seed to its end.
pub fn run(seed: u64) -> Result<TeamRun> {
    let mut world = TeamWorld::new(Rng::with_seed(seed))?;
    world.go().with_context(|| {
        let (size, run) = (world.size, world.run);
        let specs: Vec<_> = world.processes.iter().map(|process| process.spec).collect();
        format!(
            "team, seed {seed}, {size} ranks, {run:?}\nprocesses: {specs:?}\nthe last events: \
             {:?}\nto see it again: cargo run --release -p pario-sim -- --seed {seed}",
            world.recent
        )
    })?;
    Ok(world.run)
}

impl TeamWorld {
    fn new(mut rng: Rng) -> Result<Self> {
        let TeamPlan { size, machines: count, processes: specs, programs, first_round } =
            TeamPlan::random(&mut rng);
        let mut machines = Vec::new();
        for machine in 0..count {
            let is_leader =
                |spec: &super::plan::PlannedProcess| spec.machine == machine && spec.is_leader;
            let process = specs.iter().position(is_leader).context("a machine has a leader")?;
            let leader = (specs[process].rank, process);
            machines.push(SimulatedMachine::new(leader, size, first_round, rng.fork())?);
        }
        let (stalls, has_locks) = (rng.u8(0..4) == 0, rng.bool());
        let mut processes = Vec::new();
        for spec in specs {
            let program = programs[spec.rank as usize].clone();
            let mut process = SimulatedProcess::new(spec, program);
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
            0 => Some(TeamEvent::ToCoordinator(rng.usize(0..count))),
            1 => Some(TeamEvent::ToLeader(rng.usize(0..count))),
            2 => Some(TeamEvent::Note(rng.usize(0..count))),
            3 => Some(TeamEvent::Look(rng.usize(0..count))),
            4 => Some(TeamEvent::Finish(rng.usize(0..count))),
            5 => Some(TeamEvent::Step(rng.usize(0..processes.len()))),
            6 => Some(TeamEvent::Notice(rng.usize(0..count))),
            _ => None,
        };
        let accidents = [0, 2, 8][rng.usize(0..3)];
        let is_multi_machine = count > 1 || rng.bool();
        Ok(Self {
            rng,
            size,
            machines,
            processes,
            coordinator: None,
            model: TeamModel::new(size, count, first_round),
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
            ensure!(self.run.steps < STEPS_LIMIT, "the run does not end");
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

    fn pick(&mut self, possible: &[TeamEvent]) -> TeamEvent {
        let any = possible[self.rng.usize(0..possible.len())];
        if self.slow == Some(any) && self.rng.u8(0..16) > 0 {
            return possible[self.rng.usize(0..possible.len())];
        }
        any
    }

    /// Lists the possible next events.
    fn possible(&self, possible: &mut Vec<TeamEvent>) {
        for (number, process) in self.processes.iter().enumerate() {
            if self.can_start(process) {
                possible.push(TeamEvent::Start(number));
            }
            if self.can_go(process) {
                possible.push(TeamEvent::Step(number));
            }
            if process.is_orphan && process.is_alive() {
                possible.push(TeamEvent::Orphan(number));
            }
        }
        for (number, machine) in self.machines.iter().enumerate() {
            if self.coordinator.is_some() && !machine.link.up.is_empty() {
                possible.push(TeamEvent::ToCoordinator(number));
            }
            let is_noting = !machine.received.is_empty();
            match machine.link.down.front() {
                // A news feed notices a lost coordinator only at its next request.
                Some(ToLeader::CoordinatorGone) if is_noting => {}
                Some(_) => possible.push(TeamEvent::ToLeader(number)),
                None => {}
            }
            if !machine.is_serving() {
                continue;
            }
            if is_noting {
                possible.push(TeamEvent::Note(number));
            }
            if machine.is_reporter_awake() {
                possible.push(TeamEvent::Look(number));
            }
            if machine.ending.is_some() {
                possible.push(TeamEvent::Finish(number));
            }
            // While a leader asks the coordinator about one process, it does not watch the others.
            if machine.joining.is_none() && !machine.closed.is_empty() {
                possible.push(TeamEvent::Notice(number));
            }
            if self.can_end(number) {
                possible.push(TeamEvent::End(number));
            }
        }
    }

    fn happen(&mut self, action: TeamEvent) -> Result<()> {
        self.run.steps += 1;
        if self.recent.len() == RECENT_EVENTS {
            self.recent.pop_front();
        }
        self.recent.push_back(action);
        match action {
            TeamEvent::Start(process) => self.start(process)?,
            TeamEvent::Step(process) => self.go_on(process)?,
            TeamEvent::EndSleep(number) => {
                self.go_on(number)?;
                let process = &self.processes[number];
                let (rank, stage) = (process.spec.rank, &process.stage);
                ensure!(!process.is_asleep(), "rank {rank} waits for ever: {stage:?}");
            }
            TeamEvent::Orphan(process) => {
                let process = &mut self.processes[process];
                process.is_orphan = false;
                if let Some(board) = &process.board {
                    board.on_leader_gone();
                }
            }
            TeamEvent::ToCoordinator(machine) => self.deliver_to_coordinator(machine)?,
            TeamEvent::ToLeader(machine) => self.deliver_to_leader(machine)?,
            TeamEvent::Note(machine) => self.note(machine)?,
            TeamEvent::Look(machine) => self.machines[machine].look(),
            TeamEvent::Finish(number) => {
                let machine = &mut self.machines[number];
                if let Some(ending) = &mut machine.ending
                    && !ending.write_next(&machine.board)
                {
                    machine.ending = None;
                    self.model.end_round(number);
                }
            }
            TeamEvent::Notice(machine) => {
                let machine = &mut self.machines[machine];
                if let Some(rank) = machine.closed.pop_front() {
                    machine.board.on_process_gone(rank);
                }
            }
            TeamEvent::End(machine) => self.end_leader(machine, LeaderStage::Ended),
            TeamEvent::Kill(process) => self.kill(process),
            TeamEvent::KillLeader(machine) => self.kill_leader(machine),
            TeamEvent::Cut(machine) => self.cut(machine),
            TeamEvent::GiveUp(process) => self.give_up(process),
            TeamEvent::Wake(process) => self.processes[process].stall = None,
        }
        self.check_coordinator()
    }

    fn rank_of(&self, process: usize) -> u32 {
        self.processes[process].spec.rank
    }

    fn set(&mut self, process: usize, stage: ProcessStage) {
        let process = &mut self.processes[process];
        process.stage = stage;
        if !process.is_alive() {
            process.thread = None;
        }
    }
}

//! The simulated world: ranks, their network, the node and the file, driven by one random
//! generator.

mod accidents;
mod answers;
mod calls;
mod moving;

use std::fmt;
use std::ops::AddAssign;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use pario_proto::{CallOutcome, CollectiveError, SharedCall, SharedFileId};

use crate::bytes::Bytes;
use crate::home_node::HomeNode;
use crate::model::Contents;
use crate::program::Plan;
use crate::rank::{Rank, Stage};
use crate::shared_file::{CoordinationState, OpenedFile};
use crate::sim_thread::SimParker;

/// Calls under way of a rank that runs ahead: more than a table has slots for.
const FAR_AHEAD: usize = 60;

/// The statistics of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRun {
    /// Events that happened.
    pub steps: u64,
    /// Calls that were answered.
    pub answers: u64,
    /// Calls that failed as expected.
    pub failures: u64,
    /// Bytes that were read and compared.
    pub bytes_read: u64,
    /// Ranks that were lost.
    pub lost: u64,
    /// Restarts of the node.
    pub restarts: u64,
}

/// Where the ranks coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinationKind {
    /// At a node, by messages.
    Node,
    /// In shared memory.
    Table,
}

/// Identifies a call, to route its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The rank.
    pub rank: u32,
    /// The step of its program.
    pub step: usize,
    /// The purpose.
    pub what: TicketPurpose,
    /// The number of the open.
    pub opening: usize,
    /// The number of its connection.
    pub connection: u64,
}

/// The purpose of a call in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TicketPurpose {
    /// The step itself.
    Call,
    /// A claim of bytes.
    Lock,
    /// The report of an access that was performed for all.
    Report,
    /// A notification without a reply.
    Notify,
}

enum NetworkEvent {
    /// To the node, or to the table.
    Ask {
        rank: u32,
        number: u64,
    },
    Call {
        ticket: Ticket,
        id: SharedFileId,
        call: SharedCall,
        data: Vec<u8>,
        is_for_node: bool,
    },
    Loss(u32),
    /// At the node.
    Names(Vec<u32>),
    Measured,
    /// To a rank.
    Answer {
        ticket: Ticket,
        result: Result<CallOutcome, CollectiveError>,
        data: Vec<u8>,
    },
    Opened {
        rank: u32,
        result: Result<(), CollectiveError>,
    },
    Broken(u32),
}

struct World {
    rng: Rng,
    kind: CoordinationKind,
    size: u32,
    ranks: Vec<Rank>,
    home: HomeNode,
    /// The number of restarts of the node.
    incarnation: u64,
    /// Messages under way; messages in one direction between a rank and the node stay in order.
    network: Vec<NetworkEvent>,
    file: Bytes,
    contents: Contents,
    /// The programs for the remaining opens.
    plans: Vec<Plan>,
    opened: usize,
    opening: Option<OpenedFile>,
    /// Accidents per thousand steps.
    accidents: u32,
    /// A rank that gets less time than the others.
    slow: Option<u32>,
    run: FileRun,
}

/// Runs a seed to its end. Fails if the coordination does something that it must not, or does not
/// do something that it must.
pub fn run(seed: u64, kind: CoordinationKind) -> Result<FileRun> {
    let mut world = World::new(Rng::with_seed(seed), kind);
    world.go().with_context(|| {
        let (size, run) = (world.size, world.run);
        format!(
            "seed {seed}, {kind:?}, {size} ranks, {run:?}; to see it again: \
             cargo run --release -p pario-sim -- --seed {seed}"
        )
    })?;
    Ok(world.run)
}

impl World {
    fn new(mut rng: Rng, kind: CoordinationKind) -> Self {
        let size = rng.u32(1..6);
        let can_disagree = rng.u8(0..3) == 0;
        let plans: Vec<Plan> =
            (0..rng.usize(1..4)).map(|_| Plan::random(&mut rng, size, can_disagree)).collect();
        let mut file = Bytes::default();
        let len = if rng.bool() { rng.usize(0..300) } else { 0 };
        let bytes: Vec<u8> = (0..len).map(|_| rng.u8(1..)).collect();
        file.write(0, &bytes);
        let accidents = [0, 2, 8][rng.usize(0..3)];
        let slow = rng.bool().then(|| rng.u32(0..size));
        let contents = Contents::new(&file);
        let parker = SimParker::new(rng.fork());
        let mut world = Self {
            rng,
            kind,
            size,
            ranks: Vec::new(),
            home: HomeNode::new(size, parker),
            incarnation: 0,
            network: Vec::new(),
            file,
            contents,
            plans,
            opened: 0,
            opening: None,
            accidents,
            slow,
            run: FileRun::default(),
        };
        world.launch();
        world
    }

    /// Starts the processes of the job.
    fn launch(&mut self) {
        self.home.launch();
        let size = self.size;
        let most = if self.rng.u8(0..3) == 0 { FAR_AHEAD } else { 4 };
        self.ranks = (0..size).map(|rank| Rank::new((rank, size), most)).collect();
    }

    fn go(&mut self) -> Result<()> {
        loop {
            let is_any = self.step()?;
            if is_any {
                self.run.steps += 1;
                continue;
            }
            self.check_rest()?;
            let has_lost = self.ranks.iter().any(|rank| rank.stage == Stage::Lost);
            if has_lost && self.opened < self.plans.len() {
                // The job is started again.
                self.launch();
                continue;
            }
            break;
        }
        self.check_file()?;
        self.home.check_empty()
    }

    /// Makes a random step. Returns false if none is possible.
    fn step(&mut self) -> Result<bool> {
        if self.rng.u32(0..1000) < self.accidents {
            self.accident()?;
        }
        let ranks = 0..self.size;
        let ready: Vec<u32> = ranks.clone().filter(|rank| self.is_ready(*rank)).collect();
        let moving: Vec<u32> = ranks.filter(|rank| self.can_move(*rank)).collect();
        let kinds = [ready.len(), moving.len(), self.network.len()];
        if kinds == [0; 3] {
            return Ok(self.look(true)? || self.end_lock_wait()? || self.end_orphans()?);
        }
        let kind = loop {
            let kind = self.rng.usize(0..3);
            if kinds[kind] > 0 {
                break kind;
            }
        };
        match kind {
            0 => {
                let rank = self.any(&ready);
                self.go_on(rank)?;
            }
            1 => {
                let rank = self.any(&moving);
                self.move_bytes(rank)?;
            }
            _ => {
                let event = self.pick();
                self.happen(event)?;
            }
        }
        self.look(false)?;
        if self.rng.u8(0..16) == 0 && self.is_quiet() {
            self.contents.stabilize(&self.file, self.run.steps)?;
        }
        Ok(true)
    }

    /// Chooses one of some ranks.
    fn any(&mut self, ranks: &[u32]) -> u32 {
        let any = ranks[self.rng.usize(0..ranks.len())];
        if self.slow == Some(any) && self.rng.u8(0..16) > 0 {
            return ranks[self.rng.usize(0..ranks.len())];
        }
        any
    }

    /// Removes the first event of a randomly chosen direction, since links keep the order.
    fn pick(&mut self) -> NetworkEvent {
        let direction = |event: &NetworkEvent| match event {
            NetworkEvent::Ask { rank, .. } | NetworkEvent::Loss(rank) => (0, *rank),
            NetworkEvent::Call { ticket, .. } => (0, ticket.rank),
            NetworkEvent::Answer { ticket, .. } => (1, ticket.rank),
            NetworkEvent::Opened { rank, .. } => (1, *rank),
            NetworkEvent::Broken(rank) => (2, *rank),
            NetworkEvent::Names(_) => (3, 0),
            NetworkEvent::Measured => (4, 0),
        };
        let at = self.rng.usize(0..self.network.len());
        let chosen = direction(&self.network[at]);
        let first = self.network.iter().position(|event| direction(event) == chosen);
        self.network.remove(first.unwrap_or(at))
    }

    fn happen(&mut self, event: NetworkEvent) -> Result<()> {
        match event {
            NetworkEvent::Ask { rank, number } => self.ask_home(rank, number),
            NetworkEvent::Call { ticket, id, call, data, is_for_node } => {
                self.arrive(ticket, id, call, data, is_for_node)
            }
            NetworkEvent::Loss(rank) => self.home_loses(rank),
            NetworkEvent::Names(callers) => self.open(&callers),
            NetworkEvent::Measured => self.measured(),
            NetworkEvent::Answer { ticket, result, data } => self.deliver(ticket, result, data),
            NetworkEvent::Opened { rank, result } => self.deliver_opened(rank, result),
            NetworkEvent::Broken(rank) => self.broken(rank),
        }
    }

    /// Lets threads at a table run that can, some of them or all. Returns whether any did.
    fn look(&mut self, all: bool) -> Result<bool> {
        let Some(OpenedFile { coordination: CoordinationState::Table(table), .. }) = &self.opening
        else {
            return Ok(false);
        };
        let calls = table.runnable(&mut self.rng, all);
        for call in &calls {
            self.run_at_table(*call)?;
        }
        Ok(!calls.is_empty())
    }

    /// Runs the thread of a call at a table until it stops.
    fn run_at_table(&mut self, call: u64) -> Result<()> {
        if let Some(OpenedFile { coordination: CoordinationState::Table(table), .. }) =
            &mut self.opening
        {
            let outputs = table.run(call, &mut self.rng, &self.file)?;
            self.process(outputs, &[])?;
        }
        Ok(())
    }

    /// Ends the sleep of a rank that waits for the lock of a table after a rank was lost: the lost
    /// one may have had the lock, or died before it took the lock for which it was woken. Nothing
    /// else can happen. Returns whether a rank waits for the lock.
    fn end_lock_wait(&mut self) -> Result<bool> {
        let Some(call) = self.waiting_for_lock().first().copied() else { return Ok(false) };
        self.run_at_table(call)?;
        // No rank that lives has the lock: it could go on.
        let waits_on = self.waiting_for_lock().contains(&call);
        ensure!(!waits_on, "a rank waits for ever for the lock of a lost one");
        Ok(true)
    }

    /// Calls that wait for the lock of a table at which a rank was lost.
    fn waiting_for_lock(&self) -> Vec<u64> {
        match &self.opening {
            Some(OpenedFile { coordination: CoordinationState::Table(table), left, .. })
                if !left.is_empty() =>
            {
                table.waiting_for_lock()
            }
            _ => Vec::new(),
        }
    }

    /// Fails if a rank waits although nothing can happen any more.
    fn check_rest(&mut self) -> Result<()> {
        if let Some(OpenedFile { coordination: CoordinationState::Table(table), .. }) =
            &mut self.opening
        {
            table.check_wake_ups()?;
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            let (stage, step) = (rank.stage, rank.next);
            ensure!(!rank.is_alive(), "rank {number} waits for ever, {stage:?}, in step {step}");
        }
        self.home.check_closed()
    }

    /// Fails if the file differs from the model. No rank has it open.
    fn check_file(&mut self) -> Result<()> {
        ensure!(self.is_quiet(), "a rank still writes");
        self.contents.stabilize(&self.file, self.run.steps)?;
        self.contents.compare(&self.file)
    }
}

impl AddAssign for FileRun {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.answers += other.answers;
        self.failures += other.failures;
        self.bytes_read += other.bytes_read;
        self.lost += other.lost;
        self.restarts += other.restarts;
    }
}

impl fmt::Display for FileRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, answers, failures, bytes_read, lost, restarts } = self;
        write!(
            f,
            "{steps} steps, {answers} calls answered, {failures} with an expected failure, \
             {bytes_read} bytes read, {lost} ranks lost, {restarts} restarts of the node"
        )
    }
}

impl Ticket {
    /// The rank and step of the call.
    pub fn key(&self) -> (u32, usize) {
        (self.rank, self.step)
    }
}

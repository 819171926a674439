//! RankList, their network, the node and the file around the coordination, moved by one source of
//! chance.

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

/// Calls that a rank may have under way that runs ahead: more than a table has room for.
const FAR_AHEAD: usize = 60;

/// TicketPurpose a run was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRun {
    /// Events that happened.
    pub steps: u64,
    /// Calls that were answered.
    pub answers: u64,
    /// Calls that failed, as they had to.
    pub failures: u64,
    /// Bytes that were read and compared.
    pub bytes_read: u64,
    /// RankList that were lost.
    pub lost: u64,
    /// How often the node was started again.
    pub restarts: u64,
}

/// CoordinationKind the ranks meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinationKind {
    /// At a node, by messages.
    Node,
    /// In common memory.
    Table,
}

/// By what an answer finds who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Who.
    pub rank: u32,
    /// In which step of its program.
    pub step: usize,
    /// TicketPurpose for.
    pub what: TicketPurpose,
    /// In which opening.
    pub opening: usize,
    /// Over which of its connections.
    pub connection: u64,
}

/// TicketPurpose is asked in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TicketPurpose {
    /// TicketPurpose the step is about.
    Call,
    /// Bytes for itself.
    Lock,
    /// That it has done something for all.
    Report,
    /// Nothing: somebody is told.
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
    place: CoordinationKind,
    size: u32,
    ranks: Vec<Rank>,
    home: HomeNode,
    /// How often that was started.
    incarnation: u64,
    /// TicketPurpose is under way; what goes one way between a rank and the node stays in order.
    network: Vec<NetworkEvent>,
    file: Bytes,
    contents: Contents,
    /// TicketPurpose is left to be done with it.
    plans: Vec<Plan>,
    opened: usize,
    opening: Option<OpenedFile>,
    /// How many of a thousand steps are accidents.
    accidents: u32,
    /// A rank that has less time than the others.
    slow: Option<u32>,
    run: FileRun,
}

/// Runs a seed to its end; fails when something comes out that must not, or nothing comes where
/// something must.
pub fn run(seed: u64, place: CoordinationKind) -> Result<FileRun> {
    let mut world = World::new(Rng::with_seed(seed), place);
    world.go().with_context(|| {
        let (size, run) = (world.size, world.run);
        format!(
            "seed {seed}, {place:?}, {size} ranks, {run:?}; to see it again: \
             cargo run --release -p pario-sim -- --seed {seed}"
        )
    })?;
    Ok(world.run)
}

impl World {
    fn new(mut rng: Rng, place: CoordinationKind) -> Self {
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
        let mut world = Self {
            rng,
            place,
            size,
            ranks: Vec::new(),
            home: HomeNode::new(size),
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

    /// The processes of the job are started.
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

    /// Something happens, if anything can.
    fn step(&mut self) -> Result<bool> {
        if self.rng.u32(0..1000) < self.accidents {
            self.accident()?;
        }
        let ranks = 0..self.size;
        let ready: Vec<u32> = ranks.clone().filter(|rank| self.is_ready(*rank)).collect();
        let moving: Vec<u32> = ranks.filter(|rank| self.can_move(*rank)).collect();
        let kinds = [ready.len(), moving.len(), self.network.len()];
        if kinds == [0; 3] {
            return Ok(self.look(true)? || self.end_orphans()?);
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

    /// One of some ranks.
    fn any(&mut self, ranks: &[u32]) -> u32 {
        let any = ranks[self.rng.usize(0..ranks.len())];
        if self.slow == Some(any) && self.rng.u8(0..16) > 0 {
            return ranks[self.rng.usize(0..ranks.len())];
        }
        any
    }

    /// The first event that goes the same way as one that chance has chosen, since links keep the
    /// order.
    fn pick(&mut self) -> NetworkEvent {
        let way = |event: &NetworkEvent| match event {
            NetworkEvent::Ask { rank, .. } | NetworkEvent::Loss(rank) => (0, *rank),
            NetworkEvent::Call { ticket, .. } => (0, ticket.rank),
            NetworkEvent::Answer { ticket, .. } => (1, ticket.rank),
            NetworkEvent::Opened { rank, .. } => (1, *rank),
            NetworkEvent::Broken(rank) => (2, *rank),
            NetworkEvent::Names(_) => (3, 0),
            NetworkEvent::Measured => (4, 0),
        };
        let at = self.rng.usize(0..self.network.len());
        let chosen = way(&self.network[at]);
        let first = self.network.iter().position(|event| way(event) == chosen);
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

    /// RankList at a table that were woken look, some of them or all; whether any did.
    fn look(&mut self, all: bool) -> Result<bool> {
        let Some(OpenedFile { place: CoordinationState::Table(table), .. }) = &mut self.opening
        else {
            return Ok(false);
        };
        let mut outputs = Vec::new();
        let is_any = table.look(&mut self.rng, all, self.file.len(), &mut outputs);
        self.process(outputs, &[])?;
        Ok(is_any)
    }

    /// Nothing can happen any more: nobody may wait.
    fn check_rest(&mut self) -> Result<()> {
        let len = self.file.len();
        for rank in 0..self.size {
            self.check_lane(rank)?;
        }
        if let Some(OpenedFile { place: CoordinationState::Table(table), .. }) = &mut self.opening {
            table.check_wake_ups(len)?;
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            let (stage, step) = (rank.stage, rank.next);
            ensure!(!rank.is_alive(), "rank {number} waits for ever, {stage:?}, in step {step}");
        }
        self.home.check_closed()
    }

    /// Nobody has the file open: it must be as the model says, all of it.
    fn check_file(&mut self) -> Result<()> {
        ensure!(self.is_quiet(), "somebody still writes");
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
            "{steps} steps, {answers} calls answered, {failures} with a failure that had to be, \
             {bytes_read} bytes read, {lost} ranks lost, {restarts} restarts of the node"
        )
    }
}

impl Ticket {
    /// The step of a rank that it belongs to.
    pub fn key(&self) -> (u32, usize) {
        (self.rank, self.step)
    }
}

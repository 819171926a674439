//! Ranks, network and file around the state machine, moved by one source of chance.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use pario_proto::{Call, Outcome, Step as Kind, Transfer, Trouble};
use pario_server::coordination::{Action, Assembly, Fate};

use crate::at_table::AtTable;
use crate::model::{Expected, Model};
use crate::program::{Plan, Step};

/// Calls that a rank may have under way.
const UNDER_WAY: usize = 4;

/// What a run was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Events that happened.
    pub steps: u64,
    /// Calls that were answered.
    pub answers: u64,
    /// Calls that failed, as they had to.
    pub failures: u64,
    /// Ranks that were lost.
    pub lost: u64,
}

/// By whom an answer goes back: the rank, and which of its steps it was.
pub type Ticket = (u32, usize);

/// Where the ranks meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// At a node, by messages.
    Node,
    /// In common memory.
    Table,
}

enum Place {
    Node(Assembly<Ticket>),
    Table(AtTable),
}

struct Rank {
    program: Vec<Step>,
    next: usize,
    rounds: u64,
    under_way: usize,
    /// A step after which it waits.
    waits_for: Option<usize>,
    is_lost: bool,
    is_closed: bool,
}

enum Event {
    Call { rank: u32, step: usize, number: u64 },
    Loss(u32),
    Measured,
    Performed { rank: u32, number: u64, len: u64 },
}

struct World {
    rng: Rng,
    ranks: Vec<Rank>,
    place: Place,
    model: Model,
    /// What is under way; what comes from one rank stays in order.
    network: Vec<Event>,
    /// What each call must give; those that are decided and not answered.
    expected: HashMap<Ticket, Expected>,
    /// Calls of rounds that are not decided.
    rounds: BTreeMap<u64, BTreeMap<u32, (Call, usize)>>,
    first_round: u64,
    /// Accesses and seeks that have arrived and wait for the size of the file, in order.
    line: VecDeque<Waiting>,
    is_measuring: bool,
    file_len: u64,
    performers: HashMap<u64, u32>,
    is_ended: bool,
    run: Run,
}

enum Waiting {
    One(Ticket, Step),
    Round(u64),
}

/// Runs a seed to its end; fails when something comes out that must not, or nothing comes where
/// something must.
pub fn run(seed: u64, place: Where) -> Result<Run> {
    let mut rng = Rng::with_seed(seed);
    let size = rng.u32(1..6);
    let can_disagree = rng.u8(0..3) == 0;
    let plan = Plan::random(&mut rng, size, can_disagree);
    let file_len = rng.u64(0..300);
    let mut world = World::new(rng, plan, file_len, place);
    world.go().with_context(|| format!("seed {seed}, {place:?}, {size} ranks, {:?}", world.run))?;
    Ok(world.run)
}

impl World {
    fn new(rng: Rng, plan: Plan, file_len: u64, place: Where) -> Self {
        let known_len = plan.programs.len().is_multiple_of(2).then_some(file_len);
        let size = plan.programs.len().try_into().unwrap_or(0);
        let place = match place {
            Where::Table => Place::Table(AtTable::new(size, plan.mode, known_len)),
            Where::Node => {
                let mut assembly = Assembly::new(size, plan.mode, known_len);
                for rank in 0..size {
                    assembly.enter(rank).expect("every seat is free");
                }
                Place::Node(assembly)
            }
        };
        let rank = |program| Rank {
            program,
            next: 0,
            rounds: 0,
            under_way: 0,
            waits_for: None,
            is_lost: false,
            is_closed: false,
        };
        let ranks: Vec<Rank> = plan.programs.into_iter().map(rank).collect();
        Self {
            rng,
            ranks,
            place,
            model: Model::new(plan.mode, known_len.unwrap_or(0)),
            network: Vec::new(),
            expected: HashMap::new(),
            rounds: BTreeMap::new(),
            first_round: 0,
            line: VecDeque::new(),
            is_measuring: false,
            file_len,
            performers: HashMap::new(),
            is_ended: false,
            run: Run::default(),
        }
    }

    fn go(&mut self) -> Result<()> {
        loop {
            let ready: Vec<u32> = (0..)
                .zip(&self.ranks)
                .filter(|(_, rank)| rank.can_go_on())
                .map(|(n, _)| n)
                .collect();
            if ready.is_empty() && self.network.is_empty() {
                if self.look(true)? {
                    continue;
                }
                break;
            }
            self.run.steps += 1;
            if self.rng.u32(0..1000) == 0 {
                self.lose_somebody();
            } else if !ready.is_empty() && (self.network.is_empty() || self.rng.bool()) {
                let rank = ready[self.rng.usize(0..ready.len())];
                self.depart(rank);
            } else if !self.network.is_empty() {
                let event = self.pick();
                self.arrive(event)?;
            }
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            if rank.is_lost {
                continue;
            }
            ensure!(rank.under_way == 0, "rank {number} waits for ever in step {}", rank.next);
            ensure!(rank.next == rank.program.len() || rank.is_closed, "rank {number} has stopped");
        }
        ensure!(self.is_ended, "the file was never closed");
        match &self.place {
            Place::Node(assembly) => {
                ensure!(assembly.waits().is_empty(), "somebody is said to wait");
                Ok(())
            }
            Place::Table(table) => table.check_end(),
        }
    }

    /// Ranks at a table look for their answers, some of them or all; whether there was any.
    fn look(&mut self, all: bool) -> Result<bool> {
        let Place::Table(table) = &mut self.place else { return Ok(false) };
        let mut actions = Vec::new();
        let is_any = table.look(&mut self.rng, all, &mut |action| actions.push(action))?;
        for action in actions {
            self.check(action)?;
        }
        Ok(is_any)
    }

    /// A rank takes its next step.
    fn depart(&mut self, number: u32) {
        let rank = &mut self.ranks[number as usize];
        let step = rank.next;
        rank.next += 1;
        rank.under_way += 1;
        let round = rank.rounds;
        let can_go_on = match &rank.program[step] {
            Step::Meet(call) => {
                rank.rounds += 1;
                matches!(call, Call::Transfer(_))
            }
            Step::Transfer(_) => true,
            Step::Seek(_) | Step::Close => false,
        };
        if !can_go_on {
            rank.waits_for = Some(step);
        }
        self.network.push(Event::Call { rank: number, step, number: round });
    }

    fn lose_somebody(&mut self) {
        let number = self.rng.usize(0..self.ranks.len());
        let rank = &mut self.ranks[number];
        if !rank.is_lost && !rank.is_closed {
            rank.is_lost = true;
            self.run.lost += 1;
            self.network.push(Event::Loss(number.try_into().unwrap_or(0)));
        }
    }

    /// The first event of any rank, since links keep the order; or another one.
    fn pick(&mut self) -> Event {
        let at = self.rng.usize(0..self.network.len());
        let rank_of = |event: &Event| match event {
            Event::Call { rank, .. } | Event::Performed { rank, .. } | Event::Loss(rank) => {
                Some(*rank)
            }
            Event::Measured => None,
        };
        let rank = rank_of(&self.network[at]);
        let first = self.network.iter().position(|event| rank_of(event) == rank);
        self.network.remove(first.unwrap_or(at))
    }

    fn arrive(&mut self, event: Event) -> Result<()> {
        let mut actions = Vec::new();
        let act = &mut |action| actions.push(action);
        match &mut self.place {
            Place::Node(assembly) => match event {
                Event::Call { rank, step, number } => {
                    let ticket = (rank, step);
                    match self.ranks[rank as usize].program[step].clone() {
                        Step::Meet(call) => {
                            let called = (call.clone(), step);
                            self.rounds.entry(number).or_default().insert(rank, called);
                            assembly.meet(rank, number, call, ticket, self.run.steps, act);
                        }
                        Step::Transfer(transfer) => {
                            self.line.push_back(Waiting::One(ticket, Step::Transfer(transfer)));
                            assembly.transfer(rank, transfer, ticket, act);
                        }
                        Step::Seek(seek) => {
                            self.line.push_back(Waiting::One(ticket, Step::Seek(seek)));
                            assembly.seek(rank, seek, ticket, act);
                        }
                        Step::Close => {
                            self.expected.insert(ticket, Expected::Done);
                            self.ranks[rank as usize].is_closed = true;
                            assembly.close(rank, ticket, act);
                        }
                    }
                }
                Event::Loss(rank) => assembly.leave(rank, Fate::Gone, act),
                Event::Measured => {
                    self.is_measuring = false;
                    self.model.measured(self.file_len);
                    assembly.measured(Ok(self.file_len), act);
                }
                Event::Performed { rank, number, len } => {
                    assembly.performed(rank, number, &Ok(len), act);
                }
            },
            Place::Table(table) => {
                let is_measured = Cell::new(false);
                let measure = || {
                    is_measured.set(true);
                    self.file_len
                };
                match event {
                    Event::Call { rank, step, number } => {
                        let ticket = (rank, step);
                        match self.ranks[rank as usize].program[step].clone() {
                            Step::Meet(call) => {
                                if table.meet(rank, number, &call, ticket, measure, act)? {
                                    self.rounds
                                        .entry(number)
                                        .or_default()
                                        .insert(rank, (call, step));
                                }
                            }
                            Step::Transfer(transfer) => {
                                self.line.push_back(Waiting::One(ticket, Step::Transfer(transfer)));
                                table.transfer(transfer, ticket, measure, act);
                            }
                            Step::Seek(seek) => {
                                self.line.push_back(Waiting::One(ticket, Step::Seek(seek)));
                                table.seek(seek, ticket, measure, act);
                            }
                            Step::Close => {
                                self.expected.insert(ticket, Expected::Done);
                                self.ranks[rank as usize].is_closed = true;
                                table.close(rank, ticket, act);
                            }
                        }
                    }
                    Event::Loss(rank) => table.lose(rank, act),
                    Event::Measured => {}
                    Event::Performed { number, len, .. } => table.performed(number, len),
                }
                if is_measured.get() {
                    self.model.measured(self.file_len);
                }
            }
        }
        self.model_decides();
        if matches!(self.place, Place::Table(_)) {
            // Nothing waits in line at a table.
            while !self.line.is_empty() {
                self.model_answers();
            }
        }
        for action in actions {
            self.check(action)?;
        }
        self.look(false)?;
        Ok(())
    }

    /// The model decides what the machine must have decided as well, in the same order: the line
    /// first, then rounds that are complete.
    fn model_decides(&mut self) {
        while let Some(calls) = self.rounds.get(&self.first_round)
            && calls.len() == self.ranks.len()
        {
            self.line.push_back(Waiting::Round(self.first_round));
            self.first_round += 1;
        }
    }

    fn model_answers(&mut self) {
        let Some(first) = self.line.pop_front() else { return };
        match first {
            Waiting::One(ticket, Step::Transfer(transfer)) => {
                let expected = self.model.transfer(transfer);
                self.expected.insert(ticket, expected);
            }
            Waiting::One(ticket, Step::Seek(seek)) => {
                let expected = self.model.seek(seek);
                self.expected.insert(ticket, expected);
            }
            Waiting::One(..) => {}
            Waiting::Round(number) => {
                let calls = self.rounds.remove(&number).unwrap_or_default();
                let plain = calls.iter().map(|(rank, (call, _))| (*rank, call.clone())).collect();
                let expected = self.model.round(&plain);
                for ((rank, (_, step)), expected) in calls.into_iter().zip(expected) {
                    self.expected.insert((rank, step), expected);
                }
            }
        }
    }

    fn check(&mut self, action: Action<Ticket>) -> Result<()> {
        match action {
            Action::Measure => {
                ensure!(!self.is_measuring, "the file is measured twice at a time");
                self.is_measuring = true;
                self.network.push(Event::Measured);
            }
            Action::End => {
                ensure!(!self.is_ended, "the file is closed twice");
                self.is_ended = true;
            }
            Action::Answer(ticket, result) => self.answered(ticket, result)?,
        }
        Ok(())
    }

    fn answered(&mut self, ticket: Ticket, result: Result<Outcome, Trouble>) -> Result<()> {
        let (rank, step) = ticket;
        self.run.answers += 1;
        let what = self.ranks[rank as usize].program[step].clone();
        if let Err(Trouble::Gone { rank: lost } | Trouble::Closed { rank: lost }) = &result {
            return self.told_of_leaver(ticket, *lost);
        }
        while !self.expected.contains_key(&ticket) {
            ensure!(!self.line.is_empty(), "rank {rank} got {result:?} for {what:?} out of turn");
            self.model_answers();
        }
        let expected = self.expected.remove(&ticket).context("it was looked for")?;
        let place = |placement: pario_proto::Placement| {
            Expected::Place(placement.offset.into(), placement.len.into())
        };
        let given = match &result {
            Ok(Outcome::Done) => Expected::Done,
            Ok(Outcome::At(offset)) => Expected::At((*offset).into()),
            Ok(Outcome::Placed(placement)) => place(*placement),
            Ok(Outcome::Perform { number, placement }) => {
                ensure!(
                    self.performers.insert(*number, rank).is_none(),
                    "two ranks do round {number}"
                );
                if !self.ranks[rank as usize].is_lost {
                    let (number, len) = (*number, placement.len);
                    self.network.push(Event::Performed { rank, number, len });
                }
                place(*placement)
            }
            Ok(Outcome::Performed { number, placement }) => {
                ensure!(self.performers.contains_key(number), "nobody has done round {number}");
                place(*placement)
            }
            Err(Trouble::OutOfRange(_)) => Expected::Refused,
            Err(Trouble::Disagreement(_)) => Expected::Disagree,
            Err(Trouble::WrongMode { .. }) => Expected::NotNow,
            Err(other) => bail!("rank {rank} was told {other} in {what:?}"),
        };
        ensure!(given == expected, "rank {rank} got {given:?} for {what:?} and not {expected:?}");
        if let (Ok(_), Expected::Place(offset, len)) = (&result, given)
            && is_write(&what)
        {
            self.file_len = self.file_len.max(u64::try_from(offset + len)?);
        }
        self.finish(ticket, result.is_err());
        Ok(())
    }

    /// It waited for somebody who has left: that must be so.
    fn told_of_leaver(&mut self, ticket: Ticket, lost: u32) -> Result<()> {
        let leaver = &self.ranks[lost as usize];
        ensure!(
            leaver.is_lost || leaver.is_closed,
            "rank {lost} is said to have left, and has not"
        );
        self.expected.remove(&ticket);
        self.finish(ticket, true);
        let (rank, step) = ticket;
        let rank = &mut self.ranks[rank as usize];
        let is_close = |step: &Step| matches!(step, Step::Close | Step::Meet(Call::Close));
        if is_close(&rank.program[step]) {
            // Who wanted to close has closed.
            rank.is_closed = true;
            rank.program.truncate(rank.next);
        } else if !rank.is_closed
            && !rank.waits_for.is_some_and(|step| is_close(&rank.program[step]))
        {
            // There is nothing left to do together.
            let close = if self.model.mode.meets_in(Kind::Close) {
                Step::Meet(Call::Close)
            } else {
                Step::Close
            };
            rank.program.truncate(rank.next);
            rank.program.push(close);
        }
        Ok(())
    }

    fn finish(&mut self, (rank, step): Ticket, is_failure: bool) {
        self.run.failures += u64::from(is_failure);
        let rank = &mut self.ranks[rank as usize];
        rank.under_way -= 1;
        if rank.waits_for == Some(step) {
            rank.waits_for = None;
        }
        let is_close = matches!(rank.program[step], Step::Close | Step::Meet(Call::Close));
        if is_close && !is_failure {
            rank.is_closed = true;
        }
    }
}

impl Rank {
    fn can_go_on(&self) -> bool {
        !self.is_lost
            && self.waits_for.is_none()
            && self.under_way < UNDER_WAY
            && self.next < self.program.len()
    }
}

fn is_write(step: &Step) -> bool {
    let (Step::Transfer(transfer) | Step::Meet(Call::Transfer(transfer))) = step else {
        return false;
    };
    matches!(transfer, Transfer { is_write: true, .. })
}

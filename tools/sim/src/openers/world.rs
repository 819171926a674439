//! The world of atomic access: processes, the home node, the messages between them, and accidents.

use anyhow::{Result, ensure};
use fastrand::Rng;
use pario::simulation::ClaimStep;
use pario_proto::{AtomicOutcome, BytesUse, DELEGATION_LEASE_MS, FileId, FilePath, SharedFileId};
use pario_server::coordination::{AtomicOpeners, NewOpener, OpenerAnswers, OpenerRefusal};

use super::OpenersRun;
use super::model::{AccessKind, File};
use super::process::{Access, Life, Message, Process, Registration, Stage, claimed};

const FILE: FileId = FileId(7);
/// Steps in which processes begin accesses.
const STEPS: u64 = 500;
/// Steps after which a run that does not end is stuck.
const LAST_STEP: u64 = 20_000;
/// The largest file.
const FILE_LIMIT: u64 = 200;
/// The time that a recall may take to a process that runs. A process that is stopped for the rest of
/// a lease may be taken for stopped.
const MESSAGE_LIMIT_MS: u64 = DELEGATION_LEASE_MS / 2;

/// Where a reply goes: the process, its connection, its opener, and the message.
type Ticket = (usize, u8, u64, Message);

struct World {
    rng: Rng,
    home: AtomicOpeners<Ticket>,
    processes: Vec<Process>,
    /// The claims of ranks at their coordination table, oldest first: process and access.
    table: Vec<(usize, u64, BytesUse)>,
    file: File,
    clock_ms: u64,
    next_access: u64,
    run: OpenersRun,
}

/// Runs a seed to its end.
pub fn run(seed: u64) -> Result<OpenersRun> {
    let mut rng = Rng::with_seed(seed);
    let ranks = rng.usize(0..3);
    let alone = rng.usize(usize::from(ranks == 0)..3);
    let ranks = (0..ranks).map(|_| Process::new(true, 0));
    let processes = ranks.chain((0..alone).map(|_| Process::new(false, rng.u32(0..2)))).collect();
    let mut world = World {
        rng,
        home: AtomicOpeners::default(),
        processes,
        table: Vec::new(),
        file: File::default(),
        clock_ms: 0,
        next_access: 0,
        run: OpenersRun::default(),
    };
    world.run().map_err(|error| error.context(format!("openers, seed {seed}")))?;
    Ok(world.run)
}

impl World {
    fn run(&mut self) -> Result<()> {
        while self.run.steps < STEPS {
            self.advance_clock()?;
            match self.rng.u32(0..100) {
                0 => self.accident(),
                1..=2 => self.continue_one()?,
                3..=17 => self.begin_access(),
                _ => {
                    self.step()?;
                }
            }
            self.run.steps += 1;
        }
        // No process begins anything any more, and all go on.
        for number in 0..self.processes.len() {
            self.continue_process(number)?;
        }
        while self.is_anything_left() {
            self.run.steps += 1;
            ensure!(self.run.steps < LAST_STEP, "the run does not end: {:?}", self.processes);
            self.clock_ms += 1;
            if !self.step()? {
                self.expire()?;
            }
        }
        for number in 0..self.processes.len() {
            if self.processes[number].is_running() {
                self.send(number, Message::Close);
            }
        }
        while self.step()? {}
        ensure!(self.home.is_empty(), "the home node has forgotten nobody: {:?}", self.home);
        Ok(())
    }

    fn is_anything_left(&self) -> bool {
        let has_work = |process: &Process| {
            process.life != Life::Dead
                && !(process.accesses.is_empty()
                    && process.requests.is_empty()
                    && process.replies.is_empty())
        };
        self.processes.iter().any(has_work)
    }

    /// Lets some time pass. Messages to processes that run take far less than a lease.
    fn advance_clock(&mut self) -> Result<()> {
        let is_quiet = self.processes.iter().all(|process| {
            !process.is_running() || process.requests.is_empty() && process.replies.is_empty()
        });
        let leap = is_quiet && self.rng.u32(0..20) == 0;
        self.clock_ms +=
            if leap { self.rng.u64(0..DELEGATION_LEASE_MS) } else { self.rng.u64(0..3) };
        self.expire()
    }

    fn expire(&mut self) -> Result<()> {
        let late = |process: &Process| match process.life {
            Life::Stopped(since) => {
                self.clock_ms.saturating_sub(since) + MESSAGE_LIMIT_MS >= DELEGATION_LEASE_MS
            }
            _ => false,
        };
        let late: Vec<bool> = self.processes.iter().map(late).collect();
        self.file.exempt(|process| late[process]);
        let answers = self.home.expire(self.clock_ms);
        self.deliver(answers);
        for wait in self.home.waits(self.clock_ms).iter().filter(|wait| wait.bytes.is_none()) {
            let waited_ms = self.clock_ms - wait.since_ms;
            ensure!(waited_ms <= DELEGATION_LEASE_MS, "an open waits for {waited_ms} ms");
        }
        Ok(())
    }

    /// Does one thing that can happen now. Returns false if there is nothing.
    fn step(&mut self) -> Result<bool> {
        let count = self.processes.len();
        let first = self.rng.usize(0..count);
        for offset in 0..count {
            let number = (first + offset) % count;
            let order = self.rng.u32(0..6);
            for what in 0..3 {
                let done = match (order + what) % 3 {
                    0 => self.receive_at_home(number),
                    1 => self.receive_reply(number)?,
                    _ => self.advance_accesses(number)?,
                };
                if done {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn send(&mut self, number: usize, message: Message) {
        self.processes[number].send(message);
    }

    /// The home node takes the next message of a process, also of one that has ended since.
    fn receive_at_home(&mut self, number: usize) -> bool {
        let process = &mut self.processes[number];
        let Some((opener, message)) = process.requests.pop_front() else { return false };
        let (id, now_ms) = (process.id(number, opener), self.clock_ms);
        let ticket = (number, process.connection, opener, message.clone());
        let answers = match message {
            Message::Open => {
                let path = FilePath::new("/file").expect("a valid path");
                let shared_file = process.is_rank.then_some(SharedFileId(1));
                let who = NewOpener { id, uid: process.uid, path, shared_file };
                self.home.open(FILE, who, ticket, now_ms)
            }
            Message::Claim(claim, bytes) => {
                self.home.claim(FILE, id, (claim, bytes), ticket, now_ms)
            }
            Message::Release(claim) => self.home.release(FILE, id, claim, ticket, now_ms),
            Message::AwaitRecall(delegation) => {
                self.home.await_recall(FILE, id, delegation, ticket)
            }
            Message::GiveBack(delegation, claims) => {
                self.run.recalls += 1;
                self.home.give_back(FILE, id, (delegation, claims), ticket, now_ms)
            }
            Message::Close => self.home.close(FILE, id, ticket, now_ms),
            Message::Lost => self.home.lose(id.space, now_ms),
        };
        self.deliver(answers);
        true
    }

    fn deliver(&mut self, answers: OpenerAnswers<Ticket>) {
        for ((number, connection, opener, message), outcome) in answers {
            let process = &mut self.processes[number];
            if process.connection == connection && process.life != Life::Dead {
                process.replies.push_back((opener, message, outcome));
            }
        }
    }

    /// A process takes the next reply.
    fn receive_reply(&mut self, number: usize) -> Result<bool> {
        let process = &mut self.processes[number];
        if !process.is_running() {
            return Ok(false);
        }
        let Some((opener, message, outcome)) = process.replies.pop_front() else {
            return Ok(false);
        };
        if opener != process.opener {
            return Ok(true);
        }
        let mut delegation = None;
        match (message, outcome) {
            (Message::Open, Ok(outcome)) => {
                let Registration::Opening(asked_ms) = process.registration else {
                    return Ok(true);
                };
                process.registration = Registration::Yes;
                delegation = process.claims.opened(outcome, asked_ms);
                if outcome == AtomicOutcome::AtHome {
                    let claims = process.claims.report_under_way();
                    if !claims.is_empty() {
                        self.send(number, Message::GiveBack(0, claims));
                    }
                }
            }
            (Message::Claim(claim, _), Ok(outcome)) => {
                let asked = process.accesses.iter_mut().find_map(|access| match access.stage {
                    Stage::Asked(known, at) if known == claim => Some((access, at)),
                    _ => None,
                });
                if let Some((access, asked_ms)) = asked {
                    access.stage = Stage::Queued(claim);
                    delegation = process.claims.answered(claim, outcome, asked_ms);
                }
            }
            (Message::Claim(claim, _), Err(OpenerRefusal::Unknown)) => {
                for access in &mut process.accesses {
                    if matches!(access.stage, Stage::Asked(known, _) if known == claim) {
                        access.stage = Stage::Unasked(claim);
                    }
                }
                process.registration = Registration::No;
            }
            (_, Err(OpenerRefusal::Reset)) => {
                let failed = process.reset();
                self.table.retain(|(_, id, _)| !failed.contains(id));
                // Those that have begun since the reset.
                self.file.exempt(|process| process == number);
                return Ok(true);
            }
            (Message::AwaitRecall(recalled), Ok(AtomicOutcome::Recalled)) => {
                process.awaited = process.awaited.filter(|awaited| *awaited != recalled);
                let claims = process.claims.recalled(recalled);
                self.send(number, Message::GiveBack(recalled, claims));
            }
            _ => {}
        }
        let process = &mut self.processes[number];
        if let Some(delegation) = delegation.filter(|one| process.awaited != Some(*one)) {
            process.awaited = Some(delegation);
            self.send(number, Message::AwaitRecall(delegation));
        }
        Ok(true)
    }

    /// A process begins an access.
    fn begin_access(&mut self) {
        let number = self.rng.usize(0..self.processes.len());
        if !self.processes[number].is_running() || self.processes[number].accesses.len() >= 3 {
            return;
        }
        let (from, len) = (self.rng.u64(0..60), self.rng.u64(1..30));
        let kind = match self.rng.u32(0..10) {
            0..=3 => AccessKind::Read(from, len),
            4..=6 => AccessKind::Write(from, len),
            7 if self.file.len() < FILE_LIMIT => AccessKind::Append(len),
            8 => AccessKind::Measure,
            _ => AccessKind::SetLen(self.rng.u64(0..60)),
        };
        let process = &mut self.processes[number];
        let bytes = claimed(kind, process.append_hint);
        let id = self.next_access;
        self.next_access += 1;
        let opener = process.opener;
        process.accesses.push(Access { id, opener, kind, stage: Stage::AtTable, bytes });
        if process.is_rank {
            self.table.push((number, id, bytes));
        }
    }

    /// Takes a step of one access of a process.
    fn advance_accesses(&mut self, number: usize) -> Result<bool> {
        if !self.processes[number].is_running() || self.processes[number].accesses.is_empty() {
            return Ok(false);
        }
        let count = self.processes[number].accesses.len();
        let first = self.rng.usize(0..count);
        for offset in 0..count {
            if self.advance_access(number, (first + offset) % count)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn advance_access(&mut self, number: usize, index: usize) -> Result<bool> {
        let now_ms = self.clock_ms;
        let process = &mut self.processes[number];
        let Access { id, kind, stage, bytes, .. } = process.accesses[index];
        let is_shorter = matches!(kind, AccessKind::Append(_)) && self.file.len() < bytes.from;
        let next = match stage {
            Stage::AtTable => {
                if process.is_rank && !has_turn(&self.table, id) {
                    return Ok(false);
                }
                Stage::Queued(process.claims.add(bytes))
            }
            Stage::Asked(..) => return Ok(false),
            Stage::Unasked(claim) => match process.registration {
                Registration::Yes => {
                    process.send(Message::Claim(claim, bytes));
                    Stage::Asked(claim, now_ms)
                }
                Registration::Opening(_) => return Ok(false),
                Registration::No => {
                    process.send(Message::Open);
                    process.registration = Registration::Opening(now_ms);
                    return Ok(true);
                }
            },
            Stage::Queued(claim) => match process.claims.step(claim, now_ms) {
                ClaimStep::Wait => return Ok(false),
                ClaimStep::Ask => Stage::Unasked(claim),
                ClaimStep::Go if is_shorter => {
                    // The file ends before the bytes that were claimed.
                    let end = self.file.len();
                    self.end_access(number, index, claim);
                    self.processes[number].append_hint = end;
                    return Ok(true);
                }
                ClaimStep::Go => {
                    self.file.begin(id, number, kind, process.has_stale_claims())?;
                    if let AccessKind::Append(len) = kind {
                        process.append_hint = self.file.len() + len;
                    }
                    Stage::Performing(claim)
                }
            },
            Stage::Performing(claim) => {
                if self.file.perform_part(id)? {
                    self.run.accesses += 1;
                    self.end_access(number, index, claim);
                }
                return Ok(true);
            }
        };
        self.processes[number].accesses[index].stage = next;
        Ok(true)
    }

    fn end_access(&mut self, number: usize, index: usize, claim: u64) {
        let process = &mut self.processes[number];
        let access = process.accesses.remove(index);
        if access.opener != process.opener {
            // The opener was reset.
        } else if process.claims.remove(claim) {
            process.send(Message::Release(claim));
        } else {
            self.run.delegated += 1;
        }
        self.table.retain(|(_, id, _)| *id != access.id);
    }

    /// Kills or stops a process, restarts the home node, or resets the openers of a user.
    fn accident(&mut self) {
        let number = self.rng.usize(0..self.processes.len());
        let process = &mut self.processes[number];
        match self.rng.u32(0..10) {
            0 if process.life != Life::Dead => {
                process.life = Life::Dead;
                process.accesses.clear();
                process.replies.clear();
                process.send(Message::Lost);
                self.file.abandon(number);
                self.table.retain(|(owner, ..)| *owner != number);
                self.run.killed += 1;
            }
            1 => {
                self.home = AtomicOpeners::default();
                self.processes.iter_mut().for_each(Process::lose_home);
                self.file.exempt(|_| true);
                self.run.restarts += 1;
            }
            2 => {
                let uid = self.rng.u32(0..2);
                let reset: Vec<bool> =
                    self.processes.iter().map(|process| process.uid == uid).collect();
                let (_, answers) = self.home.reset(Some(uid), &[], self.clock_ms);
                self.file.exempt(|process| reset[process]);
                for process in self.processes.iter_mut().filter(|process| process.uid == uid) {
                    let is_known = process.registration == Registration::Yes;
                    process.reset_opener = is_known.then_some(process.opener);
                }
                self.deliver(answers);
                self.run.resets += 1;
            }
            3..=6 if process.is_running() => {
                process.life = Life::Stopped(self.clock_ms);
                self.run.stopped += 1;
            }
            _ => {}
        }
    }

    fn continue_one(&mut self) -> Result<()> {
        let number = self.rng.usize(0..self.processes.len());
        self.continue_process(number)
    }

    fn continue_process(&mut self, number: usize) -> Result<()> {
        self.expire()?;
        if let Life::Stopped(_) = self.processes[number].life {
            self.processes[number].life = Life::Runs;
        }
        Ok(())
    }
}

/// Whether no earlier claim at the table conflicts.
fn has_turn(table: &[(usize, u64, BytesUse)], access: u64) -> bool {
    let Some(index) = table.iter().position(|(_, id, _)| *id == access) else { return true };
    !table[..index].iter().any(|(_, _, earlier)| earlier.clashes(&table[index].2))
}

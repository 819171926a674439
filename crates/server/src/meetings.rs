//! The jobs whose processes are connected here, and the files that they have open together.
//!
//! Invariants: one lock, held for moments; what comes out is done after it is released. A process is
//! known by its address space, and is one rank of one job.

mod overview;
mod reset;

use std::collections::HashMap;
use std::sync::Arc;

use pario_net::{SharedMemory, SpaceId};
use pario_proto::{
    AssemblyId, BytesUse, BytesWish, Call, Disagreement, Failure, FilePath, GROUP_LIMIT,
    JOB_NAME_LIMIT_BYTES, MemoryId, Mode, Opened, Outcome, Seat, SharedCall, TablePlace, Trouble,
};
use parking_lot::Mutex;

use overview::LastCalls;

use crate::coordination::{Action, Assembly, Decided, Fate, Gathering};
use crate::job_memory::{JobMemory, SharedTable};
use crate::limits::{Quotas, Resource};

/// Jobs and files. `J` is who asks something of a job, `T` who asks something of a file.
#[derive(Debug)]
pub struct Meetings<J, T> {
    state: Mutex<State<J, T>>,
    /// How many jobs a user can have; without it, there is no limit.
    quotas: Option<Arc<Quotas>>,
}

/// A job: jobs of different users are different ones, whatever their names.
pub type JobKey = (u32, String);

#[derive(Debug)]
struct State<J, T> {
    jobs: HashMap<JobKey, Job<J>>,
    files: HashMap<AssemblyId, SharedFile<T>>,
    last: u128,
}

#[derive(Debug)]
struct Job<J> {
    gathering: Gathering<J>,
    ranks: HashMap<SpaceId, u32>,
    /// Where they meet without this node, if they do.
    memory: Option<JobMemory>,
    last: LastCalls,
}

#[derive(Debug)]
struct SharedFile<T> {
    assembly: Assembly<T>,
    job: JobKey,
    path: FilePath,
    ranks: HashMap<SpaceId, u32>,
    last: LastCalls,
    /// To find out its size. Its handle is that of rank 0; those of the others follow.
    opened: Opened,
    /// If all meet in common memory, where the assembly only knows who is there.
    table: Option<(TablePlace, SharedTable)>,
    /// Nobody was lost or sent away, who might still use the table.
    is_whole: bool,
}

/// What is to be done for the processes of a job.
#[derive(Debug)]
pub enum JobAction<J> {
    /// All have asked the same.
    Together(Vec<J>),
    /// One is told why not.
    Fail(J, Failure),
}

/// What is to be done for those who have a file open together.
pub type FileActions<T> = Vec<FileAction<T>>;

/// One such thing.
#[derive(Debug)]
pub enum FileAction<T> {
    /// An answer.
    Answer(T, Result<Outcome, Failure>),
    /// The size of this file is to be found out.
    Measure(AssemblyId, Box<Opened>),
    /// A process needs its handle no more.
    Close(u64, SpaceId),
}

impl<J, T> Default for Meetings<J, T> {
    /// No job is known.
    fn default() -> Self {
        let state = State { jobs: HashMap::new(), files: HashMap::new(), last: 0 };
        Self { state: Mutex::new(state), quotas: None }
    }
}

impl<J, T> Meetings<J, T> {
    /// No job is known, and a user has as many as it can have.
    pub(crate) fn with_quotas(quotas: Arc<Quotas>) -> Self {
        Self { quotas: Some(quotas), ..Self::default() }
    }

    /// Whether a job has memory in common already.
    pub(crate) fn has_memory(&self, job: &JobKey) -> bool {
        self.state.lock().jobs.get(job).is_some_and(|job| job.memory.is_some())
    }

    /// How many files the jobs of a user have open, and those of all users.
    pub(crate) fn file_count(&self, uid: u32) -> (u64, u64) {
        let state = self.state.lock();
        let own = state.files.values().filter(|file| file.job.0 == uid).count();
        (own as u64, state.files.len() as u64)
    }
}

impl<J, T> Meetings<J, T> {
    /// A process of a job asks something together with the others.
    pub fn ask(
        &self,
        uid: u32,
        space: SpaceId,
        seat: &Seat,
        (number, call): (u64, Call),
        caller: J,
        now_ms: u64,
    ) -> Vec<JobAction<J>> {
        let fail = |caller, trouble| {
            let (what, job) = (call.to_string(), seat.job.clone());
            vec![JobAction::Fail(caller, Failure::Group { what, job, trouble })]
        };
        if let Err(why) = check_seat(seat) {
            return vec![JobAction::Fail(caller, Failure::Invalid(why))];
        }
        let key = (uid, seat.job.clone());
        let mut state = self.state.lock();
        // Whoever has called before and is not known met the others before this node was started.
        let is_known = state.jobs.get(&key).is_some_and(|job| job.ranks.contains_key(&space));
        if number > 0 && !is_known {
            return fail(caller, Trouble::Unknown);
        }
        if !state.jobs.contains_key(&key)
            && let Some(quotas) = &self.quotas
        {
            let own = state.jobs.keys().filter(|(of, _)| *of == uid).count() as u64;
            let all = state.jobs.len() as u64;
            if let Err(failure) = quotas.check(uid, Resource::Jobs, own, all) {
                return vec![JobAction::Fail(caller, failure)];
            }
        }
        let job = state.jobs.entry(key.clone()).or_insert_with(|| Job::new(seat.size));
        let size = job.gathering.size();
        if size != seat.size {
            let trouble = Trouble::WrongSize { rank: seat.rank, size, said: seat.size };
            return fail(caller, trouble);
        }
        let entered = match job.ranks.get(&space) {
            Some(&rank) if rank == seat.rank => Ok(()),
            Some(_) => Err(Trouble::RankTaken { rank: seat.rank }),
            None => job.gathering.enter(seat.rank),
        };
        if let Err(trouble) = entered {
            return fail(caller, trouble);
        }
        job.ranks.insert(space, seat.rank);
        job.last.insert(seat.rank, (call.clone(), now_ms, None));
        match job.gathering.call(seat.rank, number, call.clone(), caller, now_ms) {
            Ok(()) => decide(&seat.job, job),
            Err((caller, trouble)) => fail(caller, trouble),
        }
    }

    /// Memory for the processes of a job, the same each time; None if there can be none.
    pub fn memory_of(&self, job: &JobKey, now_ns: u64) -> Option<(MemoryId, Arc<SharedMemory>)> {
        let mut state = self.state.lock();
        let AssemblyId(id) = state.new_id(now_ns);
        let job = state.jobs.get_mut(job)?;
        if job.memory.is_none() {
            let size = job.gathering.size();
            let memory = JobMemory::new(MemoryId(id), size)?;
            // Who has called and gone is gone there too.
            for rank in 0..size {
                if !job.gathering.is_here(rank) {
                    memory.own().lose(rank);
                }
            }
            job.memory = Some(memory);
        }
        job.memory.as_ref().map(|memory| (memory.id(), memory.memory().clone()))
    }

    /// The processes of a job that all meet in common memory, in the order of ranks, if one of them
    /// may speak for all.
    pub fn all_of(&self, uid: u32, space: SpaceId, seat: &Seat) -> Result<Vec<SpaceId>, Trouble> {
        let state = self.state.lock();
        let job = state.jobs.get(&(uid, seat.job.clone())).ok_or(Trouble::Unknown)?;
        let is_its = job.ranks.get(&space) == Some(&seat.rank) && job.memory.is_some();
        if !is_its || job.gathering.size() != seat.size {
            return Err(Trouble::Unknown);
        }
        let mut spaces = vec![None; seat.size as usize];
        for (space, rank) in &job.ranks {
            spaces[*rank as usize] = Some(*space);
        }
        let space = |(rank, space): (u32, Option<SpaceId>)| space.ok_or(Trouble::Gone { rank });
        (0..).zip(spaces).map(space).collect()
    }

    /// The processes of a job have opened a file; where they meet, if they do so in the memory of
    /// the job. Handles are theirs in the order of ranks, from that of `opened` on.
    pub fn open(
        &self,
        job: &JobKey,
        path: &FilePath,
        mode: Mode,
        opened: &Opened,
        (spaces, are_near): (&[SpaceId], bool),
        now_ns: u64,
    ) -> (AssemblyId, Option<TablePlace>) {
        let mut state = self.state.lock();
        let id = state.new_id(now_ns);
        let len = opened.is_created.then_some(0);
        let memory = state.jobs.get_mut(job).and_then(|job| job.memory.as_mut());
        let table = memory.filter(|_| are_near).and_then(|memory| memory.take(mode, len));
        let place = table.as_ref().map(|(place, _)| *place);
        let size = u32::try_from(spaces.len()).unwrap_or(u32::MAX);
        let mut assembly = Assembly::new(size, mode, len);
        let ranks: HashMap<SpaceId, u32> = spaces.iter().copied().zip(0..).collect();
        for rank in ranks.values() {
            // Every seat of a new table is free.
            let _ = assembly.enter(*rank);
        }
        let (job, path, opened) = (job.clone(), path.clone(), opened.clone());
        let (last, is_whole) = (LastCalls::new(), true);
        let file = SharedFile { assembly, job, path, ranks, last, opened, table, is_whole };
        state.files.insert(id, file);
        (id, place)
    }

    /// A process does something with a file that it has open with others.
    pub fn call(
        &self,
        space: SpaceId,
        id: AssemblyId,
        call: SharedCall,
        caller: T,
        now_ms: u64,
    ) -> FileActions<T> {
        let mut held = self.state.lock();
        let state = &mut *held;
        let unknown = |job: &str, what: String, caller| {
            let job = job.to_owned();
            let failure = Failure::Group { what, job, trouble: Trouble::Unknown };
            vec![FileAction::Answer(caller, Err(failure))]
        };
        let Some(file) = state.files.get_mut(&id) else {
            return unknown("", "a shared file".to_owned(), caller);
        };
        let Some(&rank) = file.ranks.get(&space) else {
            let (job, path) = (file.job.1.clone(), file.path.to_string());
            return unknown(&job, path, caller);
        };
        if let Some(known) = overview::call_of(&call) {
            // The file is forgotten when it is closed; what was called is not.
            if known == Call::Close
                && let Some(job) = state.jobs.get_mut(&file.job)
            {
                job.last.insert(rank, (known.clone(), now_ms, Some(file.path.clone())));
            }
            file.last.insert(rank, (known, now_ms, None));
        }
        let mut actions = Vec::new();
        let act = &mut |action| actions.push(action);
        let has_left = matches!(call, SharedCall::Close | SharedCall::Leave);
        let handle = file.handle_of(rank);
        // What it has started may still be under way.
        file.is_whole &= !matches!(call, SharedCall::Leave);
        match call {
            SharedCall::Close if file.table.is_some() => {
                file.assembly.leave(rank, Fate::Closed, act);
                act(Action::Answer(caller, Ok(Outcome::Done)));
            }
            SharedCall::CloseForAll => {
                file.leave_all(act);
                act(Action::Answer(caller, Ok(Outcome::Done)));
            }
            SharedCall::Meet { number, call } => {
                file.assembly.meet(rank, number, call, caller, now_ms, act);
            }
            SharedCall::Transfer(transfer) => {
                file.assembly.transfer(rank, transfer, caller, now_ms, act);
            }
            SharedCall::Seek(seek) => file.assembly.seek(rank, seek, caller, now_ms, act),
            SharedCall::Leave => {
                file.assembly.leave(rank, Fate::Closed, act);
                act(Action::Answer(caller, Ok(Outcome::Done)));
            }
            SharedCall::Lock { number, from, len, is_write } => {
                let bytes = BytesUse::new(from, len, is_write);
                let wish = BytesWish { rank, number, bytes, since_ms: now_ms };
                file.assembly.lock(wish, caller, act);
            }
            SharedCall::Unlock { number } => {
                file.assembly.unlock(rank, number, act);
                act(Action::Answer(caller, Ok(Outcome::Done)));
            }
            SharedCall::Tell => file.assembly.tell(rank, caller, now_ms, act),
            SharedCall::Close => file.assembly.close(rank, caller, act),
            SharedCall::Performed { number, done } => {
                file.assembly.performed(rank, number, &done, act);
                act(Action::Answer(caller, Ok(Outcome::Done)));
            }
        }
        let mut done = state.finish(id, actions);
        if has_left {
            done.push(FileAction::Close(handle, space));
        }
        done
    }

    /// The size of a file has been found out, or could not be.
    pub fn measured(&self, id: AssemblyId, len: Result<u64, String>) -> FileActions<T> {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(&id) else { return Vec::new() };
        let mut actions = Vec::new();
        file.assembly.measured(len, &mut |action| actions.push(action));
        state.finish(id, actions)
    }

    /// A process is gone.
    pub fn lose(&self, space: SpaceId) -> (Vec<JobAction<J>>, FileActions<T>) {
        let mut state = self.state.lock();
        let mut told = Vec::new();
        state.jobs.retain(|(_, name), job| {
            if let Some(rank) = job.ranks.remove(&space) {
                job.gathering.leave(rank, Fate::Gone);
                if let Some(memory) = &job.memory {
                    memory.own().lose(rank);
                }
                told.extend(decide(name, job));
            }
            !job.ranks.is_empty()
        });
        let mut actions = Vec::new();
        let ids: Vec<AssemblyId> = state.files.keys().copied().collect();
        for id in ids {
            let mut of_file = Vec::new();
            if let Some(file) = state.files.get_mut(&id)
                && let Some(rank) = file.ranks.remove(&space)
            {
                let act = &mut |action| of_file.push(action);
                file.is_whole = false;
                file.assembly.leave(rank, Fate::Gone, act);
                if let Some((_, table)) = &file.table {
                    table.lose(rank);
                    // It may have been the one to say that all have closed the file.
                    if table.is_over() {
                        file.leave_all(act);
                    }
                }
            }
            actions.extend(state.finish(id, of_file));
        }
        (told, actions)
    }
}

impl<J> Job<J> {
    fn new(size: u32) -> Self {
        let (ranks, last) = (HashMap::new(), LastCalls::new());
        Self { gathering: Gathering::new(size), ranks, memory: None, last }
    }
}

impl<T> SharedFile<T> {
    fn handle_of(&self, rank: u32) -> u64 {
        self.opened.handle.wrapping_add(rank.into())
    }

    /// All have closed it.
    fn leave_all(&mut self, act: &mut impl FnMut(Action<T>)) {
        for rank in self.ranks.values() {
            self.assembly.leave(*rank, Fate::Closed, act);
        }
    }
}

impl<J, T> State<J, T> {
    /// Unlike any other, also after this node was started again.
    fn new_id(&mut self, now_ns: u64) -> AssemblyId {
        self.last = (self.last + 1).max(u128::from(now_ns) << 32);
        AssemblyId(self.last)
    }

    /// What came out of a file's state machine, for those who asked; a file that is over goes.
    fn finish(&mut self, id: AssemblyId, actions: Vec<Action<T>>) -> FileActions<T> {
        let Some(file) = self.files.get(&id) else { return Vec::new() };
        let mut is_over = false;
        let mut done = Vec::with_capacity(actions.len());
        for action in actions {
            match action {
                Action::Answer(caller, result) => {
                    let result = result.map_err(|trouble| Failure::Group {
                        what: file.path.to_string(),
                        job: file.job.1.clone(),
                        trouble,
                    });
                    done.push(FileAction::Answer(caller, result));
                }
                Action::Measure => {
                    done.push(FileAction::Measure(id, Box::new(file.opened.clone())));
                }
                Action::End => is_over = true,
            }
        }
        if is_over && let Some(file) = self.files.remove(&id) {
            let close =
                |(space, rank): (&SpaceId, &u32)| FileAction::Close(file.handle_of(*rank), *space);
            done.extend(file.ranks.iter().map(close));
            let memory = self.jobs.get_mut(&file.job).and_then(|job| job.memory.as_mut());
            if let (Some(memory), Some((place, _)), true) = (memory, &file.table, file.is_whole) {
                memory.give_back(*place);
            }
        }
        done
    }
}

/// What has been decided among the processes of a job.
fn decide<J>(name: &str, job: &mut Job<J>) -> Vec<JobAction<J>> {
    let mut actions = Vec::new();
    let failure = |call: &Call, trouble| Failure::Group {
        what: call.to_string(),
        job: name.to_owned(),
        trouble,
    };
    while let Some(decided) = job.gathering.decide() {
        match decided {
            Decided::Failed(_, call, caller, trouble) => {
                actions.push(JobAction::Fail(caller, failure(&call, trouble)));
            }
            Decided::Met(met) if met.calls.iter().all(|(call, _)| *call == met.calls[0].0) => {
                let callers = met.calls.into_iter().map(|(_, caller)| caller);
                actions.push(JobAction::Together(callers.collect()));
            }
            Decided::Met(met) => {
                let calls = met.calls.iter().map(|(call, _)| call.clone()).collect();
                let trouble = Trouble::Disagreement(Disagreement { calls });
                for (call, caller) in met.calls {
                    actions.push(JobAction::Fail(caller, failure(&call, trouble.clone())));
                }
            }
        }
    }
    actions
}

/// Whether a job can be called so.
pub fn check_job(job: &str) -> Result<(), String> {
    if job.is_empty() || job.len() > JOB_NAME_LIMIT_BYTES || job.chars().any(char::is_control) {
        return Err(format!(
            "{job:?} is not the name of a job: it has 1 to {JOB_NAME_LIMIT_BYTES} bytes, and none \
             that cannot be shown"
        ));
    }
    Ok(())
}

fn check_seat(seat: &Seat) -> Result<(), String> {
    let Seat { job, size, rank } = seat;
    check_job(job)?;
    if *size == 0 || *size > GROUP_LIMIT {
        return Err(format!("a job has 1 to {GROUP_LIMIT} processes, not {size}"));
    }
    if rank >= size {
        return Err(format!("job {job} has ranks 0 to {}, and no rank {rank}", size - 1));
    }
    Ok(())
}

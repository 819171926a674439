//! The job registry: the jobs whose processes are connected to this node, and their shared files.
//!
//! Invariants: one lock, held briefly; the caller performs the returned actions after it is
//! released. A process is known by its address space, and is one rank of one job.

mod members;
mod reset;
mod status;
mod unnamed;

use std::collections::HashMap;
use std::sync::Arc;

use pario_net::{SharedMemory, SpaceId};
use pario_proto::{
    BytesClaim, BytesUse, Call, CallOutcome, CollectiveError, Disagreement, Failure, FilePath,
    JOB_NAME_LIMIT_BYTES, JOB_SIZE_LIMIT, JobMemoryId, Member, Mode, Opened, SharedCall,
    SharedFileId, TableLocation, check_failed,
};
use parking_lot::Mutex;

pub use members::JoinRefusal;
use status::LastCalls;
use unnamed::UnnamedJobs;

use crate::coordination::{
    CoordinatorAction, Departure, RoundCollector, RoundResult, SharedFileCoordinator,
};
use crate::job_memory::{JobMemory, JobTable};
use crate::limits::{Quotas, Resource};

/// Jobs and shared files. `J` identifies the caller of a job call, `T` the caller of a file call.
#[derive(Debug)]
pub struct JobRegistry<J, T> {
    state: Mutex<State<J, T>>,
    /// The limits of a user; `None` for no limits.
    quotas: Option<Arc<Quotas>>,
}

/// Identifies a job: user and name. Jobs of different users are different jobs.
pub type JobKey = (u32, String);

#[derive(Debug)]
struct State<J, T> {
    jobs: HashMap<JobKey, Job<J>>,
    files: HashMap<SharedFileId, RegisteredFile<T>>,
    unnamed_jobs: UnnamedJobs,
    last: u128,
}

#[derive(Debug)]
struct Job<J> {
    rounds: RoundCollector<J>,
    ranks: HashMap<SpaceId, u32>,
    /// The processes that have said which rank they are. They may have made no collective call.
    members: HashMap<u32, SpaceId>,
    /// The memory in which the ranks coordinate without this node, if they do.
    memory: Option<JobMemory>,
    last: LastCalls,
}

#[derive(Debug)]
struct RegisteredFile<T> {
    coordinator: SharedFileCoordinator<T>,
    job: JobKey,
    path: FilePath,
    ranks: HashMap<SpaceId, u32>,
    last: LastCalls,
    /// Used to measure the file. Its handle is that of rank 0; those of the other ranks follow.
    opened: Opened,
    /// The table, if the ranks coordinate in the job memory; then the coordinator only tracks which
    /// ranks have the file open.
    table: Option<(TableLocation, JobTable)>,
    /// Whether no rank was lost or reset that might still use the table.
    is_table_reusable: bool,
}

/// An action for the ranks of a job.
#[derive(Debug)]
pub enum JobAction<J> {
    /// All ranks have made the same call.
    AllCalled(Vec<J>),
    /// The call of a rank has failed.
    Fail(J, Failure),
}

/// Actions for the ranks of a shared file.
pub type FileActions<T> = Vec<FileAction<T>>;

/// An action for the ranks of a shared file.
#[derive(Debug)]
pub enum FileAction<T> {
    /// Send a reply.
    Answer(T, Result<CallOutcome, Failure>),
    /// Measure the size of this file.
    Measure(SharedFileId, Box<Opened>),
    /// Close the handle of a process.
    Close(u64, SpaceId),
}

impl<J, T> Default for JobRegistry<J, T> {
    /// Creates an empty registry without limits.
    fn default() -> Self {
        let state = State {
            jobs: HashMap::new(),
            files: HashMap::new(),
            unnamed_jobs: UnnamedJobs::default(),
            last: 0,
        };
        Self { state: Mutex::new(state), quotas: None }
    }
}

impl<J, T> JobRegistry<J, T> {
    /// Creates an empty registry with the limits of users.
    pub(crate) fn with_quotas(quotas: Arc<Quotas>) -> Self {
        Self { quotas: Some(quotas), ..Self::default() }
    }

    /// Returns whether a job has a memory.
    pub(crate) fn has_memory(&self, job: &JobKey) -> bool {
        self.state.lock().jobs.get(job).is_some_and(|job| job.memory.is_some())
    }

    /// Returns the number of shared files of a user, and of all users.
    pub(crate) fn file_count(&self, uid: u32) -> (u64, u64) {
        let state = self.state.lock();
        let own = state.files.values().filter(|file| file.job.0 == uid).count();
        (own as u64, state.files.len() as u64)
    }
}

impl<J, T> JobRegistry<J, T> {
    /// Handles a collective call of a rank outside of files.
    pub fn job_call(
        &self,
        uid: u32,
        space: SpaceId,
        member: &Member,
        (number, call): (u64, Call),
        caller: J,
        now_ms: u64,
    ) -> Vec<JobAction<J>> {
        let fail = |caller, error| {
            let (what, job) = (call.to_string(), member.job.clone());
            vec![JobAction::Fail(caller, Failure::Collective { what, job, error })]
        };
        if let Err(why) = check_member(member) {
            return vec![JobAction::Fail(caller, Failure::Invalid(why))];
        }
        let key = (uid, member.job.clone());
        let mut state = self.state.lock();
        // A rank that has called before and is not known made these calls before this node was
        // restarted.
        let is_known = state.jobs.get(&key).is_some_and(|job| job.ranks.contains_key(&space));
        if number > 0 && !is_known {
            return fail(caller, CollectiveError::Unknown);
        }
        if let Err(failure) = self.check_new_job(&state, &key) {
            return vec![JobAction::Fail(caller, failure)];
        }
        let job = state.jobs.entry(key.clone()).or_insert_with(|| Job::new(member.size));
        let size = job.rounds.size();
        if size != member.size {
            let error = CollectiveError::WrongSize { rank: member.rank, size, said: member.size };
            return fail(caller, error);
        }
        let entered = match job.ranks.get(&space) {
            Some(&rank) if rank == member.rank => Ok(()),
            Some(_) => Err(CollectiveError::RankTaken { rank: member.rank }),
            None => job.rounds.join(member.rank),
        };
        if let Err(error) = entered {
            return fail(caller, error);
        }
        job.ranks.insert(space, member.rank);
        job.last.insert(member.rank, (call.clone(), now_ms, None));
        match job.rounds.add_call(member.rank, number, call.clone(), caller, now_ms) {
            Ok(()) => decide(&member.job, job),
            Err((caller, error)) => fail(caller, error),
        }
    }

    /// Fails if the job is new and its user has too many.
    fn check_new_job(&self, state: &State<J, T>, key: &JobKey) -> Result<(), Failure> {
        let (Some(quotas), false) = (&self.quotas, state.jobs.contains_key(key)) else {
            return Ok(());
        };
        let own = state.jobs.keys().filter(|(of, _)| *of == key.0).count() as u64;
        quotas.check(key.0, Resource::Jobs, own, state.jobs.len() as u64)
    }

    /// Returns the memory of a job, and creates it at the first call; `None` if it cannot be
    /// created.
    pub fn job_memory(
        &self,
        job: &JobKey,
        now_ns: u64,
    ) -> Option<(JobMemoryId, Arc<SharedMemory>)> {
        let mut state = self.state.lock();
        let SharedFileId(id) = state.new_id(now_ns);
        let job = state.jobs.get_mut(job)?;
        if job.memory.is_none() {
            let size = job.rounds.size();
            let memory = JobMemory::new(JobMemoryId(id), size)?;
            // A rank that has called and left is lost in the memory too.
            for rank in 0..size {
                if !job.rounds.is_here(rank) {
                    memory.job_table().mark_lost(rank);
                }
            }
            job.memory = Some(memory);
        }
        job.memory.as_ref().map(|memory| (memory.id(), memory.memory().clone()))
    }

    /// Returns the processes of a job that coordinates in its memory, in the order of ranks, if
    /// this member may act for all of them.
    pub fn spaces_of_job(
        &self,
        uid: u32,
        space: SpaceId,
        member: &Member,
    ) -> Result<Vec<SpaceId>, CollectiveError> {
        let state = self.state.lock();
        let job = state.jobs.get(&(uid, member.job.clone())).ok_or(CollectiveError::Unknown)?;
        let is_member = job.ranks.get(&space) == Some(&member.rank) && job.memory.is_some();
        if !is_member || job.rounds.size() != member.size {
            return Err(CollectiveError::Unknown);
        }
        let mut spaces = vec![None; member.size as usize];
        for (space, rank) in &job.ranks {
            spaces[*rank as usize] = Some(*space);
        }
        let space =
            |(rank, space): (u32, Option<SpaceId>)| space.ok_or(CollectiveError::Gone { rank });
        (0..).zip(spaces).map(space).collect()
    }

    /// Registers a file that the ranks of a job have opened. Returns its id, and its table if the
    /// ranks coordinate in the job memory. The handles of the ranks follow each other, from that of
    /// `opened` on.
    pub fn register_file(
        &self,
        job: &JobKey,
        path: &FilePath,
        mode: Mode,
        opened: &Opened,
        (spaces, are_near): (&[SpaceId], bool),
        now_ns: u64,
    ) -> (SharedFileId, Option<TableLocation>) {
        let mut state = self.state.lock();
        let id = state.new_id(now_ns);
        let len = opened.is_created.then_some(0);
        let memory = state.jobs.get_mut(job).and_then(|job| job.memory.as_mut());
        let table = memory.filter(|_| are_near).and_then(|memory| memory.allocate_table(mode, len));
        let location = table.as_ref().map(|(location, _)| *location);
        let size = u32::try_from(spaces.len()).unwrap_or(u32::MAX);
        let mut coordinator = SharedFileCoordinator::new(size, mode, len);
        let ranks: HashMap<SpaceId, u32> = spaces.iter().copied().zip(0..).collect();
        for rank in ranks.values() {
            // All ranks of a new coordinator are free.
            let _ = coordinator.join(*rank);
        }
        let (job, path, opened) = (job.clone(), path.clone(), opened.clone());
        let (last, is_table_reusable) = (LastCalls::new(), true);
        let file = RegisteredFile {
            coordinator,
            job,
            path,
            ranks,
            last,
            opened,
            table,
            is_table_reusable,
        };
        state.files.insert(id, file);
        (id, location)
    }

    /// Handles a call of a rank on a shared file.
    pub fn file_call(
        &self,
        space: SpaceId,
        id: SharedFileId,
        call: SharedCall,
        caller: T,
        now_ms: u64,
    ) -> FileActions<T> {
        let mut held = self.state.lock();
        let state = &mut *held;
        let unknown = |job: &str, what: String, caller| {
            let job = job.to_owned();
            let failure = Failure::Collective { what, job, error: CollectiveError::Unknown };
            vec![FileAction::Answer(caller, Err(failure))]
        };
        let Some(file) = state.files.get_mut(&id) else {
            return unknown("", "a shared file".to_owned(), caller);
        };
        let Some(&rank) = file.ranks.get(&space) else {
            let (job, path) = (file.job.1.clone(), file.path.to_string());
            return unknown(&job, path, caller);
        };
        if let Some(known) = status::call_of(&call) {
            // The registry forgets a closed file, but not the last call.
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
        // Accesses that the rank has started may still be under way.
        file.is_table_reusable &= !matches!(call, SharedCall::Leave);
        match call {
            SharedCall::Close if file.table.is_some() => {
                file.coordinator.leave(rank, Departure::Closed, act);
                act(CoordinatorAction::Answer(caller, Ok(CallOutcome::Done)));
            }
            SharedCall::CloseForAll => {
                file.leave_all(act);
                act(CoordinatorAction::Answer(caller, Ok(CallOutcome::Done)));
            }
            SharedCall::Collective { number, call } => {
                file.coordinator.collective_call(rank, number, call, caller, now_ms, act);
            }
            SharedCall::Transfer(transfer) => {
                file.coordinator.transfer(rank, transfer, caller, now_ms, act);
            }
            SharedCall::Seek(seek) => file.coordinator.seek(rank, seek, caller, now_ms, act),
            SharedCall::Leave => {
                file.coordinator.leave(rank, Departure::Closed, act);
                act(CoordinatorAction::Answer(caller, Ok(CallOutcome::Done)));
            }
            SharedCall::Lock { number, from, len, is_write } => {
                let bytes = BytesUse::new(from, len, is_write);
                let claim = BytesClaim { rank, number, bytes, since_ms: now_ms };
                file.coordinator.lock(claim, caller, act);
            }
            SharedCall::Unlock { number } => {
                file.coordinator.unlock(rank, number, act);
                act(CoordinatorAction::Answer(caller, Ok(CallOutcome::Done)));
            }
            SharedCall::Tell => file.coordinator.tell(rank, caller, now_ms, act),
            SharedCall::Close => file.coordinator.close(rank, caller, act),
            SharedCall::Performed { number, done } => {
                file.coordinator.performed(rank, number, &done, act);
                act(CoordinatorAction::Answer(caller, Ok(CallOutcome::Done)));
            }
        }
        let mut done = state.finish(id, actions);
        if has_left {
            done.push(FileAction::Close(handle, space));
        }
        done
    }

    /// Handles the measured size of a file, or why it could not be measured.
    pub fn measured(&self, id: SharedFileId, len: Result<u64, String>) -> FileActions<T> {
        let mut state = self.state.lock();
        let Some(file) = state.files.get_mut(&id) else { return Vec::new() };
        let mut actions = Vec::new();
        file.coordinator.measured(len, &mut |action| actions.push(action));
        state.finish(id, actions)
    }

    /// Removes a lost process.
    pub fn remove_process(&self, space: SpaceId) -> (Vec<JobAction<J>>, FileActions<T>) {
        let mut state = self.state.lock();
        state.unnamed_jobs.remove_process(space);
        let mut job_actions = Vec::new();
        state.jobs.retain(|(_, name), job| {
            if let Some(rank) = job.ranks.remove(&space) {
                job.rounds.leave(rank, Departure::Gone);
                if let Some(memory) = &job.memory {
                    memory.job_table().mark_lost(rank);
                }
                job_actions.extend(decide(name, job));
            }
            job.members.retain(|_, member| *member != space);
            !(job.ranks.is_empty() && job.members.is_empty())
        });
        let mut actions = Vec::new();
        let ids: Vec<SharedFileId> = state.files.keys().copied().collect();
        for id in ids {
            let mut of_file = Vec::new();
            if let Some(file) = state.files.get_mut(&id)
                && let Some(rank) = file.ranks.remove(&space)
            {
                let act = &mut |action| of_file.push(action);
                file.is_table_reusable = false;
                file.coordinator.leave(rank, Departure::Gone, act);
                if let Some((_, table)) = &file.table {
                    table.mark_lost(rank);
                    // The lost rank may have been the one to report that all ranks have closed the
                    // file.
                    if table.is_over() {
                        file.leave_all(act);
                    }
                }
            }
            actions.extend(state.finish(id, of_file));
        }
        (job_actions, actions)
    }
}

impl<J> Job<J> {
    fn new(size: u32) -> Self {
        let (ranks, members, last) = (HashMap::new(), HashMap::new(), LastCalls::new());
        Self { rounds: RoundCollector::new(size), ranks, members, memory: None, last }
    }
}

impl<T> RegisteredFile<T> {
    fn handle_of(&self, rank: u32) -> u64 {
        self.opened.handle.wrapping_add(rank.into())
    }

    /// Makes all ranks leave, because they have closed the file.
    fn leave_all(&mut self, act: &mut impl FnMut(CoordinatorAction<T>)) {
        for rank in self.ranks.values() {
            self.coordinator.leave(*rank, Departure::Closed, act);
        }
    }
}

impl<J, T> State<J, T> {
    /// Returns an id that is unique, also across restarts of this node.
    fn new_id(&mut self, now_ns: u64) -> SharedFileId {
        self.last = (self.last + 1).max(u128::from(now_ns) << 32);
        SharedFileId(self.last)
    }

    /// Translates the actions of a coordinator, and removes the file if it is closed.
    fn finish(&mut self, id: SharedFileId, actions: Vec<CoordinatorAction<T>>) -> FileActions<T> {
        let Some(file) = self.files.get(&id) else { return Vec::new() };
        let mut is_over = false;
        let mut done = Vec::with_capacity(actions.len());
        for action in actions {
            match action {
                CoordinatorAction::Answer(caller, result) => {
                    let result = result.map_err(|error| Failure::Collective {
                        what: file.path.to_string(),
                        job: file.job.1.clone(),
                        error,
                    });
                    done.push(FileAction::Answer(caller, result));
                }
                CoordinatorAction::Measure => {
                    done.push(FileAction::Measure(id, Box::new(file.opened.clone())));
                }
                CoordinatorAction::End => is_over = true,
            }
        }
        if is_over && let Some(file) = self.files.remove(&id) {
            let close =
                |(space, rank): (&SpaceId, &u32)| FileAction::Close(file.handle_of(*rank), *space);
            done.extend(file.ranks.iter().map(close));
            let memory = self.jobs.get_mut(&file.job).and_then(|job| job.memory.as_mut());
            if let (Some(memory), Some((location, _)), true) =
                (memory, &file.table, file.is_table_reusable)
            {
                memory.free_table(*location);
            }
        }
        done
    }
}

/// Returns the actions of all rounds that are decided.
fn decide<J>(name: &str, job: &mut Job<J>) -> Vec<JobAction<J>> {
    let mut actions = Vec::new();
    let failure = |call: &Call, error| Failure::Collective {
        what: call.to_string(),
        job: name.to_owned(),
        error,
    };
    while let Some(decided) = job.rounds.next_result() {
        match decided {
            RoundResult::Failed(_, call, caller, error) => {
                actions.push(JobAction::Fail(caller, failure(&call, error)));
            }
            RoundResult::Complete(round)
                if let Err(error) = check_failed(round.calls.iter().map(|(call, _)| call)) =>
            {
                for (call, caller) in round.calls {
                    actions.push(JobAction::Fail(caller, failure(&call, error.clone())));
                }
            }
            RoundResult::Complete(round)
                if round.calls.iter().all(|(call, _)| *call == round.calls[0].0) =>
            {
                let callers = round.calls.into_iter().map(|(_, caller)| caller);
                actions.push(JobAction::AllCalled(callers.collect()));
            }
            RoundResult::Complete(round) => {
                let calls = round.calls.iter().map(|(call, _)| call.clone()).collect();
                let error = CollectiveError::Disagreement(Disagreement { calls });
                for (call, caller) in round.calls {
                    actions.push(JobAction::Fail(caller, failure(&call, error.clone())));
                }
            }
        }
    }
    actions
}

/// Checks the name of a job.
pub fn check_job_name(job: &str) -> Result<(), String> {
    if job.is_empty() || job.len() > JOB_NAME_LIMIT_BYTES || job.chars().any(char::is_control) {
        return Err(format!(
            "{job:?} is not the name of a job: use 1 to {JOB_NAME_LIMIT_BYTES} bytes without control \
             characters"
        ));
    }
    Ok(())
}

/// Checks a process of a job.
pub fn check_member(member: &Member) -> Result<(), String> {
    let Member { job, size, rank } = member;
    check_job_name(job)?;
    if *size == 0 || *size > JOB_SIZE_LIMIT {
        return Err(format!("a job has 1 to {JOB_SIZE_LIMIT} processes, not {size}"));
    }
    if rank >= size {
        return Err(format!("job {job} has ranks 0 to {}, and no rank {rank}", size - 1));
    }
    Ok(())
}

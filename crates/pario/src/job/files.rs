//! The files of a cluster that the ranks of a job have open together, and the collective calls that
//! the cluster's node coordinates.

use std::collections::BTreeSet;
use std::sync::Arc;

use pario_proto::{
    Call, CallOutcome, CollectiveError, CollectiveOpen, Failure, JobCall, JobMemoryId, JobStatus,
    Member, Mode, OPEN_REPLY_LIMIT_BYTES, Opened, Reply, Request, SharedFileId, TableLocation,
    WaitCause,
};
use parking_lot::Mutex;

use super::sequencer::{SequenceTicket, Sequencer};
use super::table_member::{JobMemory, TableMember};
use super::{Job, SharedFile, SharedOpenOptions};
use crate::cluster::Cluster;
use crate::connection::{Waiting, strange};
use crate::error::Error;

/// The files of a cluster that the ranks of a job have open together; made by [`Job::files`]. Clones
/// are the same.
///
/// A process is a rank at the cluster's node from its first call on. When it ends, the node fails the
/// collective calls of the other ranks.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// use pario::{Job, Mode};
///
/// let job = Job::new("job 7", 1, 0)?; // or `Job::from_env()`
/// let files = job.files(&cluster);
/// let log = files.create("/log", Mode::Log)?; // one pointer for all, first come, first served
/// log.write(format!("rank {} is here\n", job.rank()).as_bytes())?;
/// log.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct JobFiles {
    job: Job,
    pub(super) cluster: Cluster,
    calls: Arc<Mutex<JobCalls>>,
}

/// The collective calls of this process in a job.
#[derive(Default)]
pub(crate) struct JobCalls {
    /// The ranks of this process that the node knows as such.
    joined: BTreeSet<u32>,
    /// The number of calls that it has sent to the node.
    asked: u64,
    /// The job memory in which all ranks coordinate, once they do, and the member that this process
    /// is there.
    memory: Option<(JobMemoryId, Arc<Member>)>,
    rounds: u64,
    /// That memory, attached at its first use.
    job_memory: Option<Arc<JobMemory>>,
    /// Orders the broadcasts of opened files by their rounds, whichever threads wait for them.
    sequencer: Sequencer,
}

/// A decided round at the table of the job.
struct JobRound {
    table: TableMember,
    number: u64,
    ticket: SequenceTicket,
    outcome: CallOutcome,
}

/// A file that all ranks have opened.
pub(super) struct CollectiveOpening {
    pub opened: Opened,
    pub shared_file: SharedFileId,
    pub table: Option<TableLocation>,
}

impl JobFiles {
    pub(super) fn new(job: &Job, cluster: &Cluster) -> Self {
        let calls = cluster.shared.calls_of_job(job.name());
        Self { job: job.clone(), cluster: cluster.clone(), calls }
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Waits until all ranks of the job have called this. The cluster's node coordinates it, so that
    /// the ranks need not have met in memory, as they do in [`Job::barrier`].
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
    /// files.barrier()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn barrier(&self) -> Result<(), Error> {
        if self.round_at_table(&Call::Barrier)?.is_some() {
            return Ok(());
        }
        let is_near = self.cluster.shared.is_near_interface();
        match self.ask(JobCall::Barrier { is_near })? {
            Reply::BarrierDone { memory } => {
                self.use_memory(memory);
                Ok(())
            }
            _ => Err(strange_answer()),
        }
    }

    /// Takes part in the collective call of this kind that the other ranks make (an open, a barrier),
    /// with an error of this rank: the call fails on all ranks, with this rank and the reason, and
    /// the next one works. Returns that error.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
    /// let error = files.fail_call("the parameter file is missing");
    /// assert!(error.to_string().contains("rank 0 could not make the call"));
    /// files.barrier()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fail_call(&self, why: &str) -> Error {
        let call = Call::failed(why);
        let failed = match self.round_at_table(&call) {
            Err(error) => return error,
            Ok(_) => JobCall::Failed(match call {
                Call::Failed(why) => why.into(),
                _ => String::new(),
            }),
        };
        match self.ask(failed) {
            Err(error) => error,
            Ok(_) => strange_answer(),
        }
    }

    /// The number of collective calls of this process in the job, outside of files.
    #[doc(hidden)]
    pub fn collective_calls(&self) -> u64 {
        let calls = self.calls.lock();
        calls.asked + calls.rounds
    }

    /// Whether other ranks wait for this one in a collective call outside of files, according to the
    /// status of the jobs.
    #[doc(hidden)]
    pub fn is_awaited(&self, jobs: &[JobStatus]) -> bool {
        let calls = self.calls.lock();
        let number = if calls.memory.is_some() { calls.rounds } else { calls.asked };
        let own = jobs.iter().filter(|job| job.job == self.job.name());
        let mut waits = own.flat_map(|job| &job.waits);
        waits.any(|wait| {
            wait.opening.is_none() && wait.cause == WaitCause::Absence && wait.number == number
        })
    }

    /// Opens a file for reading and writing, together with all other ranks.
    pub fn open(&self, path: &str, mode: Mode) -> Result<SharedFile, Error> {
        self.options(mode).read(true).write(true).open(path)
    }

    /// Creates a file, or truncates the existing one, and opens it for reading and writing,
    /// together with all other ranks.
    pub fn create(&self, path: &str, mode: Mode) -> Result<SharedFile, Error> {
        self.options(mode).read(true).write(true).create(true).truncate(true).open(path)
    }

    /// As [`create`](Self::create); rank 0 also creates the missing directories above the file.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let files = pario::Job::new("job", 1, 0)?.files(&cluster);
    /// let log = files.create_all("/runs/7/log", pario::Mode::Log)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_all(&self, path: &str, mode: Mode) -> Result<SharedFile, Error> {
        let options = self.options(mode).read(true).write(true).create(true).truncate(true);
        options.create_parents(true).open(path)
    }

    /// Returns options to open a file together with all other ranks.
    pub fn options(&self, mode: Mode) -> SharedOpenOptions<'_> {
        SharedOpenOptions::new(self, mode)
    }

    /// Opens a file together with all other ranks.
    pub(super) fn open_collectively(
        &self,
        open: CollectiveOpen,
    ) -> Result<CollectiveOpening, Error> {
        let call = Call::Open(open.to_string());
        let (reply, is_for_all) = match self.round_at_table(&call)? {
            Some(round) if matches!(round.outcome, CallOutcome::Perform { .. }) => {
                (self.open_for_all(&round, open), true)
            }
            Some(JobRound { table, number, ticket, .. }) => {
                ticket.wait();
                let bytes = table.receive_open(number);
                let bytes = bytes.map_err(|error| self.error_of(call.to_string(), error))?;
                let reply: Result<Result<Reply, Failure>, _> = postcard::from_bytes(&bytes);
                (
                    reply
                        .map_err(|_| strange_answer())?
                        .map_err(|failure| self.noting_loss(failure.into())),
                    true,
                )
            }
            None => (self.ask(JobCall::Open(open)), false),
        };
        self.forget_calls_if_unknown(&reply);
        let Reply::OpenedForAll { mut opened, shared_file, table } = reply? else {
            return Err(strange_answer());
        };
        if is_for_all {
            opened.handle = opened.handle.wrapping_add(self.job.rank().into());
        }
        self.use_memory(table.map(|location| location.memory));
        Ok(CollectiveOpening { opened, shared_file, table })
    }

    /// Opens a file for all ranks, which have agreed on it, and broadcasts the reply.
    fn open_for_all(&self, round: &JobRound, open: CollectiveOpen) -> Result<Reply, Error> {
        let member = Member::clone(self.member());
        let asked = self.start(Request::OpenForAll { member, open });
        let reply = asked.and_then(Waiting::wait).map(|(reply, _)| reply);
        let reply = reply.map_err(|error| self.noting_loss(error));
        let result = match &reply {
            Ok(reply) => Ok(Ok(reply)),
            Err(Error::Failure(failure)) => Ok(Err(failure)),
            Err(error) => Err(error.to_string()),
        };
        let bytes = result.and_then(|result: Result<&Reply, &Failure>| {
            let bytes = postcard::to_allocvec(&result).map_err(|error| error.to_string())?;
            let fits = bytes.len() as u64 <= OPEN_REPLY_LIMIT_BYTES;
            let too_long = || "the reply to the open is too long to broadcast".to_owned();
            fits.then_some(bytes).ok_or_else(too_long)
        });
        round.ticket.wait();
        // A rank that does not get the reply sees that the node is gone.
        let _ = round.table.broadcast_open(round.number, &bytes);
        reply
    }

    /// Makes a collective call at the table of the job. Returns `None` if the call must go to the
    /// node: the ranks coordinate by messages, or the ranks disagree and only the node knows the
    /// texts of their calls.
    fn round_at_table(&self, call: &Call) -> Result<Option<JobRound>, Error> {
        let (table, number, ticket) = {
            let mut calls = self.calls.lock();
            // The node refuses a process that claims another rank.
            let memory = calls.memory.as_ref().filter(|(_, member)| member == self.member());
            let Some(memory) = memory.map(|(memory, _)| *memory) else { return Ok(None) };
            // If the node does not pass the memory any more, it was restarted.
            let job_memory = self.attach_memory(&mut calls, memory);
            let table =
                job_memory.and_then(|job_memory| TableMember::new(job_memory, 0, self.job.rank()));
            let Ok(table) = table else {
                return self.handle_table_error(&mut calls, call, CollectiveError::Unknown);
            };
            let number = calls.rounds;
            if let Err(error) = table.call(number, call, || Ok(0)) {
                return self.handle_table_error(&mut calls, call, error);
            }
            calls.rounds += 1;
            (table, number, calls.sequencer.next_ticket())
        };
        match table.outcome(number) {
            Ok(outcome) => Ok(Some(JobRound { table, number, ticket, outcome })),
            Err(error) => self.handle_table_error(&mut self.calls.lock(), call, error),
        }
    }

    fn handle_table_error(
        &self,
        calls: &mut JobCalls,
        call: &Call,
        error: CollectiveError,
    ) -> Result<Option<JobRound>, Error> {
        match error {
            CollectiveError::Disagreement(_) => return Ok(None),
            // The node was restarted or reset, so all ranks number their calls from 0 again.
            CollectiveError::Unknown | CollectiveError::Reset => *calls = JobCalls::default(),
            _ => {}
        }
        Err(self.error_of(call.to_string(), error))
    }

    /// Converts an error at a table.
    pub(super) fn error_of(&self, what: String, error: CollectiveError) -> Error {
        if error == CollectiveError::Unknown
            && let Err(error) = self.cluster.shared.interface().welcome()
        {
            return error;
        }
        let job = self.job.name().to_owned();
        self.noting_loss(Failure::Collective { what, job, error }.into())
    }

    /// Notes in the job the loss that an error of the node reports, and returns the error.
    pub(super) fn noting_loss(&self, error: Error) -> Error {
        self.job.note_loss(&error);
        error
    }

    fn member(&self) -> &Arc<Member> {
        &self.job.state.member
    }

    /// Lets this rank coordinate in a job memory from now on.
    fn use_memory(&self, memory: Option<JobMemoryId>) {
        let mut calls = self.calls.lock();
        if let (None, Some(memory)) = (&calls.memory, memory) {
            calls.memory = Some((memory, self.member().clone()));
            // Attach it now, to see all events in it; after a failure, the next call tries again.
            let _ = self.attach_memory(&mut calls, memory);
        }
    }

    /// Returns a job memory, attached to this process.
    pub(super) fn job_memory(&self, id: JobMemoryId) -> Result<Arc<JobMemory>, String> {
        self.attach_memory(&mut self.calls.lock(), id)
    }

    fn attach_memory(
        &self,
        calls: &mut JobCalls,
        id: JobMemoryId,
    ) -> Result<Arc<JobMemory>, String> {
        match &calls.job_memory {
            Some(job_memory) if job_memory.has_id(id) => Ok(job_memory.clone()),
            _ => Ok(calls.job_memory.insert(Arc::new(JobMemory::attach(self, id)?)).clone()),
        }
    }

    /// Says to the node that this process is the rank, at the first call. Fails if another process
    /// is.
    pub(super) fn ensure_joined(&self) -> Result<(), Error> {
        let rank = self.job.rank();
        // A node that has named the job knows its ranks.
        if self.job.state.options.is_named_by_node || self.calls.lock().joined.contains(&rank) {
            return Ok(());
        }
        self.cluster.join_job(Member::clone(self.member()))?;
        self.calls.lock().joined.insert(rank);
        Ok(())
    }

    /// Sends a collective call to the node, and waits for the reply.
    fn ask(&self, call: JobCall) -> Result<Reply, Error> {
        self.ensure_joined()?;
        let (waiting, number) = {
            // Calls are numbered in the order in which they are sent.
            let mut calls = self.calls.lock();
            let (member, number) = (Member::clone(self.member()), calls.asked);
            let waiting = self.start(Request::Job { member, number, call })?;
            calls.asked += 1;
            (waiting, number)
        };
        let answered = waiting.wait().map(|(reply, _)| reply);
        let answered = answered.map_err(|error| self.noting_loss(error));
        self.forget_calls_if_unknown(&answered);
        if let Err(Error::Failure(Failure::Collective { error, .. })) = &answered
            && matches!(
                error,
                CollectiveError::WrongSize { .. } | CollectiveError::RankTaken { .. }
            )
        {
            // The node has refused this rank, and the call has no number.
            let mut calls = self.calls.lock();
            if calls.asked == number + 1 {
                calls.asked = number;
            }
        }
        answered
    }

    /// If the node was restarted or reset, all ranks number their calls from 0 again.
    fn forget_calls_if_unknown<R>(&self, answered: &Result<R, Error>) {
        if let Err(Error::Failure(Failure::Collective { error, .. })) = answered
            && matches!(error, CollectiveError::Unknown | CollectiveError::Reset)
        {
            *self.calls.lock() = JobCalls::default();
        }
    }

    /// Sends a request to the node that coordinates the job. Ranks may wait for each other without
    /// a time limit.
    pub(super) fn start(&self, request: Request) -> Result<Waiting, Error> {
        let waiting = self.cluster.shared.interface().start(request, Vec::new())?;
        Ok(waiting.without_limit())
    }
}

impl std::fmt::Debug for JobFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JobFiles({:?})", self.job)
    }
}

/// The error for an unexpected reply of a node.
pub(super) fn strange_answer() -> Error {
    strange("interface")
}

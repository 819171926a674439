//! The processes of a job, and what they do together.

mod at_table;
pub(crate) mod environment;
mod lent;
mod meeting;
mod options;
mod shared_file;
mod size;
mod started;
mod turns;

use std::sync::Arc;

use pario_proto::{
    AssemblyId, Call, Failure, JobCall, MemoryId, Mode, OPENING_LIMIT_BYTES, OpenTogether, Opened,
    Outcome, Reply, Request, Seat, TablePlace, Trouble,
};
use parking_lot::Mutex;

use at_table::{AtTable, Seated};
pub use lent::SharedReadInto;
pub use options::GroupOptions;
pub use shared_file::SharedFile;
pub use started::{SharedRead, SharedWrite};
use turns::{Turn, Turns};

use crate::cluster::Cluster;
use crate::connection::{Waiting, strange};
use crate::error::Error;

/// The processes of one job: this process is one of them, and knows its rank and how many there
/// are. Clones are the same one.
///
/// A process belongs to a job from its first call on; if it ends, those who wait for it are told.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// use pario::{Group, Mode};
///
/// let group = Group::new(&cluster, "job 7", 1, 0)?; // or `Group::from_env()`
/// let log = group.create("/log", Mode::Log)?; // one pointer for all, first come, first served
/// log.write(format!("rank {} is here\n", group.rank()).as_bytes())?;
/// log.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Group {
    cluster: Cluster,
    seat: Arc<Seat>,
    calls: Arc<Mutex<JobCalls>>,
}

/// What this process has called together with the others of a job.
#[derive(Default)]
pub(crate) struct JobCalls {
    /// How often it has asked the node.
    asked: u64,
    /// The memory in which all meet before, once they have some in common, who this process is
    /// there, and how often they have met.
    memory: Option<(MemoryId, Arc<Seat>)>,
    rounds: u64,
    /// That memory, as soon as it is needed.
    seated: Option<Arc<Seated>>,
    /// What one opens for all is told in the order of rounds, whichever threads do it.
    turns: Turns,
}

/// All have met at the table of the job.
struct Met {
    table: AtTable,
    number: u64,
    turn: Turn,
    outcome: Outcome,
}

/// A file that all have opened together.
struct Opening {
    opened: Opened,
    assembly: AssemblyId,
    table: Option<TablePlace>,
}

impl Group {
    /// A process of a job, as its launcher says: `pario run`, mpirun of Open MPI or MPICH, or srun;
    /// on the cluster that [`Cluster::from_env`] finds. A process that nobody has launched is a job
    /// of its own.
    ///
    /// ```no_run
    /// let group = pario::Group::from_env()?;
    /// println!("rank {} of {}", group.rank(), group.size());
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn from_env() -> Result<Self, Error> {
        Self::of_environment(&Cluster::from_env()?)
    }

    /// The same, on a given cluster.
    pub fn of_environment(cluster: &Cluster) -> Result<Self, Error> {
        let seat = Self::seat_of_environment()?;
        Self::new(cluster, &seat.job, seat.size, seat.rank)
    }

    /// What the launcher of this process says: its job, how many processes that has, and which one
    /// this is.
    ///
    /// ```no_run
    /// let seat = pario::Group::seat_of_environment()?;
    /// println!("rank {} of {} in job {}", seat.rank, seat.size, seat.job);
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn seat_of_environment() -> Result<Seat, Error> {
        environment::seat(|name| std::env::var(name).ok())
    }

    /// What the job of this process is called, for those who know rank and size from elsewhere:
    /// without a launcher, the processes of one parent are a job.
    ///
    /// ```
    /// assert!(!pario::Group::job_of_environment().is_empty());
    /// ```
    pub fn job_of_environment() -> String {
        environment::job(|name| std::env::var(name).ok())
    }

    /// A process of a job: the job's name, how many processes it has, and which one this is.
    pub fn new(cluster: &Cluster, job: &str, size: u32, rank: u32) -> Result<Self, Error> {
        if rank >= size {
            return Err(Error::invalid(format!(
                "job {job} has {size} processes, and so no rank {rank}: ranks begin at 0"
            )));
        }
        let seat = Arc::new(Seat { job: job.to_owned(), size, rank });
        let calls = cluster.shared.calls_of_job(job);
        Ok(Self { cluster: cluster.clone(), seat, calls })
    }

    /// Which process this is: 0 is the first.
    pub fn rank(&self) -> u32 {
        self.seat.rank
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        self.seat.size
    }

    /// The name of the job.
    pub fn job(&self) -> &str {
        &self.seat.job
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Waits until all processes of the job are here.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let group = pario::Group::new(&cluster, "job", 1, 0)?;
    /// group.barrier()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn barrier(&self) -> Result<(), Error> {
        if self.meet_at_table(&Call::Barrier)?.is_some() {
            return Ok(());
        }
        let is_near = self.cluster.shared.is_near_interface();
        match self.ask(JobCall::Barrier { is_near })? {
            Reply::Met { memory } => {
                self.meet_in(memory);
                Ok(())
            }
            _ => Err(strange_answer()),
        }
    }

    /// Opens a file for reading and writing, together with all others of the job.
    pub fn open(&self, path: &str, mode: Mode) -> Result<SharedFile, Error> {
        self.options(mode).read(true).write(true).open(path)
    }

    /// Creates a file, or empties the one that is there, and opens it for reading and writing,
    /// together with all others of the job.
    pub fn create(&self, path: &str, mode: Mode) -> Result<SharedFile, Error> {
        self.options(mode).read(true).write(true).create(true).truncate(true).open(path)
    }

    /// The same, and the first process makes the directories above the file that are missing.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// # let group = pario::Group::new(&cluster, "job", 1, 0)?;
    /// let log = group.create_all("/runs/7/log", pario::Mode::Log)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_all(&self, path: &str, mode: Mode) -> Result<SharedFile, Error> {
        let options = self.options(mode).read(true).write(true).create(true).truncate(true);
        options.create_parents(true).open(path)
    }

    /// How a file is to be opened together.
    pub fn options(&self, mode: Mode) -> GroupOptions<'_> {
        GroupOptions::new(self, mode)
    }

    /// Opens a file together with the others.
    fn open_together(&self, open: OpenTogether) -> Result<Opening, Error> {
        let call = Call::Open(open.to_string());
        let (reply, is_for_all) = match self.meet_at_table(&call)? {
            Some(met) if matches!(met.outcome, Outcome::Perform { .. }) => {
                (self.open_for_all(&met, open), true)
            }
            Some(Met { table, number, turn, .. }) => {
                turn.wait();
                let told = table.hear_of_opening(number);
                let told = told.map_err(|trouble| self.error_of(call.to_string(), trouble))?;
                let told: Result<Result<Reply, Failure>, _> = postcard::from_bytes(&told);
                (told.map_err(|_| strange_answer())?.map_err(Error::from), true)
            }
            None => (self.ask(JobCall::Open(open)), false),
        };
        self.note_trouble(&reply);
        let Reply::OpenedTogether { mut opened, assembly, table } = reply? else {
            return Err(strange_answer());
        };
        if is_for_all {
            opened.handle = opened.handle.wrapping_add(self.rank().into());
        }
        self.meet_in(table.map(|place| place.memory));
        Ok(Opening { opened, assembly, table })
    }

    /// Opens a file for all, who have agreed on it, and tells them.
    fn open_for_all(&self, met: &Met, open: OpenTogether) -> Result<Reply, Error> {
        let seat = Seat::clone(&self.seat);
        let asked = self.start(Request::OpenForAll { seat, open });
        let reply = asked.and_then(Waiting::wait).map(|(reply, _)| reply);
        let told = match &reply {
            Ok(reply) => Ok(Ok(reply)),
            Err(Error::Failure(failure)) => Ok(Err(failure)),
            Err(error) => Err(error.to_string()),
        };
        let told = told.and_then(|told: Result<&Reply, &Failure>| {
            let told = postcard::to_allocvec(&told).map_err(|error| error.to_string())?;
            let fits = told.len() as u64 <= OPENING_LIMIT_BYTES;
            if fits { Ok(told) } else { Err("too much is to be told of the file".to_owned()) }
        });
        met.turn.wait();
        // Whoever is not told finds out that the node is gone.
        let _ = met.table.tell_opening(met.number, &told);
        reply
    }

    /// Meets the others in common memory, if that is where they meet. None if the node has to be
    /// asked: all meet there, or it can tell who called what.
    fn meet_at_table(&self, call: &Call) -> Result<Option<Met>, Error> {
        let (table, number, turn) = {
            let mut calls = self.calls.lock();
            // Who says that it is another one is told so by the node.
            let memory = calls.memory.as_ref().filter(|(_, seat)| *seat == self.seat);
            let Some(memory) = memory.map(|(memory, _)| *memory) else { return Ok(None) };
            // If the node gives it no more, it was started again.
            let seated = self.seated(&mut calls, memory);
            let table = seated.and_then(|seated| AtTable::new(seated, 0, self.rank()));
            let Ok(table) = table else {
                return self.told_at_table(&mut calls, call, Trouble::Unknown);
            };
            let number = calls.rounds;
            if let Err(trouble) = table.meet(number, call, || Ok(0)) {
                return self.told_at_table(&mut calls, call, trouble);
            }
            calls.rounds += 1;
            (table, number, calls.turns.give())
        };
        match table.outcome(number) {
            Ok(outcome) => Ok(Some(Met { table, number, turn, outcome })),
            Err(trouble) => self.told_at_table(&mut self.calls.lock(), call, trouble),
        }
    }

    fn told_at_table(
        &self,
        calls: &mut JobCalls,
        call: &Call,
        trouble: Trouble,
    ) -> Result<Option<Met>, Error> {
        match trouble {
            Trouble::Disagreement(_) => return Ok(None),
            // The node was started again, or reset: so are the calls, by all.
            Trouble::Unknown | Trouble::Reset => *calls = JobCalls::default(),
            _ => {}
        }
        Err(self.error_of(call.to_string(), trouble))
    }

    /// What is told of trouble at a table.
    fn error_of(&self, what: String, trouble: Trouble) -> Error {
        if trouble == Trouble::Unknown
            && let Err(error) = self.cluster.shared.interface().welcome()
        {
            return error;
        }
        Failure::Group { what, job: self.job().to_owned(), trouble }.into()
    }

    /// All meet there from now on, if they do not yet.
    fn meet_in(&self, memory: Option<MemoryId>) {
        let mut calls = self.calls.lock();
        if let (None, Some(memory)) = (&calls.memory, memory) {
            calls.memory = Some((memory, self.seat.clone()));
            // Who has it hears of all that happens there; if it is not given now, it is asked for
            // once more.
            let _ = self.seated(&mut calls, memory);
        }
    }

    /// Memory that all have in common.
    fn memory(&self, id: MemoryId) -> Result<Arc<Seated>, String> {
        self.seated(&mut self.calls.lock(), id)
    }

    fn seated(&self, calls: &mut JobCalls, id: MemoryId) -> Result<Arc<Seated>, String> {
        match &calls.seated {
            Some(seated) if seated.is(id) => Ok(seated.clone()),
            _ => Ok(calls.seated.insert(Arc::new(Seated::sit_down(self, id)?)).clone()),
        }
    }

    /// Asks the node something together with the others.
    fn ask(&self, call: JobCall) -> Result<Reply, Error> {
        let (waiting, number) = {
            // Calls get their numbers in the order in which they are sent.
            let mut calls = self.calls.lock();
            let (seat, number) = (Seat::clone(&self.seat), calls.asked);
            let waiting = self.start(Request::Job { seat, number, call })?;
            calls.asked += 1;
            (waiting, number)
        };
        let answered = waiting.wait().map(|(reply, _)| reply);
        self.note_trouble(&answered);
        if let Err(Error::Failure(Failure::Group { trouble, .. })) = &answered
            && matches!(trouble, Trouble::WrongSize { .. } | Trouble::RankTaken { .. })
        {
            // It was not let in, and the call does not count.
            let mut calls = self.calls.lock();
            if calls.asked == number + 1 {
                calls.asked = number;
            }
        }
        answered
    }

    /// If the node was started again, or reset, so are the calls, by all.
    fn note_trouble<R>(&self, answered: &Result<R, Error>) {
        if let Err(Error::Failure(Failure::Group { trouble, .. })) = answered
            && matches!(trouble, Trouble::Unknown | Trouble::Reset)
        {
            *self.calls.lock() = JobCalls::default();
        }
    }

    /// Asks the node at which the processes of the job meet. How long they wait for each other is
    /// their own business.
    fn start(&self, request: Request) -> Result<Waiting, Error> {
        let waiting = self.cluster.shared.interface().start(request, Vec::new())?;
        Ok(waiting.without_limit())
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seat { job, size, rank } = &*self.seat;
        write!(f, "Group(rank {rank} of {size}, job {job:?})")
    }
}

/// A node has answered something else than what was asked.
fn strange_answer() -> Error {
    strange("interface")
}

//! A job: the processes that work together, joined once. Shared files, cached files, record files
//! and memory come from it.

mod cached;
mod coordination;
pub(crate) mod environment;
mod extend;
mod files;
mod issued_accesses;
mod job_opening;
mod machines;
mod memory;
mod node_broker;
mod options;
mod range_claim;
mod read_into;
mod records;
mod registry;
mod sequencer;
mod shared_file;
mod shared_open_options;
mod started_access;
pub(crate) mod table_member;

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use pario_proto::{CollectiveError, Failure, Member};
use pario_team::Team;
use parking_lot::Mutex;

pub(crate) use files::JobCalls;
pub use files::JobFiles;
pub(crate) use issued_accesses::IssuedByFile;
pub use options::JobOptions;
pub use records::JobRecords;
pub use shared_file::SharedFile;
pub use shared_open_options::SharedOpenOptions;
pub use table_member::ShownRequest;

use crate::cached::MemoryPool;
use crate::cluster::{self, Cluster};
use crate::error::Error;

/// A job, as one of its processes sees it: a name, a size, and the rank of this process. Clones are
/// the same job.
///
/// Joining does no I/O and needs no cluster. [`files`](Self::files) gives the files of a cluster
/// that the ranks have open together. Everything else, from [`barrier`](Self::barrier) to
/// [`cache`](Self::cache), rests on the memory of the ranks: they meet at the first of these calls,
/// once for the whole job.
///
/// A process that joins the same name, size and rank again, while the first job or anything that
/// was made from it is alive, gets the same job.
///
/// All ranks make the collective calls of a job in the same order. A process that ends is lost: the
/// calls of the others that need it fail with its rank.
///
/// ```
/// # fn main() -> Result<(), pario::Error> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let cluster = pario::Cluster::embedded(dir.path())?;
/// use pario::{Job, Mode};
///
/// let job = Job::from_env()?; // pario run, mpirun, srun: rank 2 of 8
/// let hits = job.array::<u64>(1_000_000)?; // over the memory of all ranks
/// hits.accumulate(&[1], 7)?;
///
/// let files = job.files(&cluster); // files that the job has open together
/// let log = files.create("/log", Mode::Log)?; // one pointer, first come, first served
/// log.write(format!("rank {} of {}\n", job.rank(), job.size()).as_bytes())?;
/// log.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Job {
    state: Arc<JobState>,
}

/// The state that the clones of a job share.
struct JobState {
    member: Arc<Member>,
    options: JobOptions,
    /// Held while this process meets the others.
    meeting: Mutex<()>,
    /// The memory of closed cached files; dropped before the team.
    memory_pool: MemoryPool,
    /// The team, from the first use of the memory on.
    team: Mutex<Option<Team>>,
    /// The first cluster of which this job uses files: its node can tell machines where to meet. A
    /// job keeps no cluster alive.
    broker: Mutex<Weak<cluster::Shared>>,
    /// Ranks that a node has reported as lost, and those that a team knew when this process left it.
    lost_ranks: Mutex<BTreeSet<u32>>,
}

impl Job {
    /// Joins the job that the launcher of this process says: `pario run`, mpirun of Open MPI or
    /// MPICH, or srun. A process without a launcher is a job of its own.
    ///
    /// ```
    /// let job = pario::Job::from_env()?;
    /// println!("rank {} of {} in job {}", job.rank(), job.size(), job.name());
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn from_env() -> Result<Self, Error> {
        Self::options().from_env()
    }

    /// Joins a job: its name, its number of ranks, and the rank of this process.
    ///
    /// ```
    /// let job = pario::Job::new("simulation 7", 1, 0)?;
    /// assert_eq!((job.name(), job.size(), job.rank()), ("simulation 7", 1, 0));
    /// assert!(pario::Job::new("simulation 7", 4, 4).is_err()); // ranks begin at 0
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn new(name: &str, size: u32, rank: u32) -> Result<Self, Error> {
        Self::options().join(name, size, rank)
    }

    /// Returns options to join a job.
    pub fn options() -> JobOptions {
        JobOptions::default()
    }

    /// Joins a job, or returns the one that this process has joined as this member.
    fn join(member: Member, options: JobOptions) -> Result<Self, Error> {
        let Member { job, size, rank } = &member;
        if rank >= size {
            return Err(Error::invalid(format!(
                "job {job} has {size} processes, and so no rank {rank}: ranks begin at 0"
            )));
        }
        let state = registry::find_or_insert(&member, |team| JobState {
            member: Arc::new(member.clone()),
            options,
            meeting: Mutex::default(),
            memory_pool: MemoryPool::default(),
            team: Mutex::new(team),
            broker: Mutex::default(),
            lost_ranks: Mutex::default(),
        });
        Ok(Self { state })
    }

    /// The rank of this process; the first is 0.
    pub fn rank(&self) -> u32 {
        self.state.member.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.state.member.size
    }

    /// The name of the job.
    pub fn name(&self) -> &str {
        &self.state.member.job
    }

    /// Returns the ranks that are known to be lost, in ascending order: their processes have ended
    /// without leaving the job.
    ///
    /// This is the union of two sources. The memory of the job notices a loss by itself, within two
    /// seconds on all machines, once the ranks have met. A node reports a loss as the error of a call
    /// on its shared files. A rank stays in the list. A rank that leaves the memory or closes a file
    /// is not lost.
    ///
    /// ```
    /// let job = pario::Job::new("complete", 1, 0)?;
    /// assert!(job.lost_ranks().is_empty());
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn lost_ranks(&self) -> Vec<u32> {
        let mut lost = self.state.lost_ranks.lock().clone();
        if let Some(team) = &*self.state.team.lock() {
            lost.extend(team.lost_ranks());
        }
        lost.into_iter().collect()
    }

    /// Returns the files of a cluster that the ranks of the job have open together. The cluster can
    /// also tell the machines of the job where to meet, if no other cluster was named before.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::{Job, Mode};
    ///
    /// let files = Job::new("job 7", 1, 0)?.files(&cluster);
    /// let result = files.create("/result", Mode::Sync)?; // rank order, any sizes
    /// result.write(b"my part")?;
    /// result.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn files(&self, cluster: &Cluster) -> JobFiles {
        self.note_cluster(cluster);
        JobFiles::new(self, cluster)
    }

    /// Lets the machines of the job meet with the help of a cluster, if none was named before.
    fn note_cluster(&self, cluster: &Cluster) {
        let mut broker = self.state.broker.lock();
        if broker.strong_count() == 0 {
            *broker = Arc::downgrade(&cluster.shared);
        }
    }

    /// Notes a loss that a node has reported.
    fn note_loss(&self, error: &Error) {
        if let Error::Failure(Failure::Collective { error, .. })
        | Error::File { failure: Failure::Collective { error, .. }, .. } = error
            && let CollectiveError::Gone { rank } = error
        {
            self.state.lost_ranks.lock().insert(*rank);
        }
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Member { job, size, rank } = &*self.state.member;
        write!(f, "Job(rank {rank} of {size}, job {job:?})")
    }
}

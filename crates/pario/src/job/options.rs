//! Options to join a job.

use std::net::SocketAddr;
use std::time::Duration;

use pario_proto::Member;
use pario_team::{Endpoint, Key, Rendezvous};

use super::Job;
use super::environment::{self, MemberOrigin};
use super::unnamed_on_machine;
use crate::cluster::Cluster;
use crate::error::Error;

/// Options to join a job; made by [`Job::options`]. If this process has joined the same job before,
/// the options of that call count.
///
/// ```
/// use std::time::Duration;
///
/// let job = pario::Job::options().timeout(Duration::from_secs(5)).join("job 7", 1, 0)?;
/// job.barrier()?; // all ranks meet within five seconds, or this fails
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it joins no job until `join`, `join_at` or `from_env` is called"]
pub struct JobOptions {
    size_and_rank: Option<(u32, u32)>,
    pub(super) timeout: Option<Duration>,
    pub(super) machine: Option<String>,
    pub(super) rendezvous: Option<Rendezvous>,
    /// Whether a node has named the job, so that its name is the same on all machines.
    pub(super) is_named_by_node: bool,
}

impl JobOptions {
    /// The longest wait for the other ranks when they meet: 60 seconds by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Size and rank, for programs that know them from elsewhere. [`join_at`](Self::join_at) and
    /// [`from_env`](Self::from_env) then need no launcher and no name: the processes that give the
    /// same size find each other, at the node of a cluster or on this machine.
    ///
    /// ```
    /// let job = pario::Job::options().size_and_rank(1, 0).from_env()?;
    /// assert_eq!((job.size(), job.rank()), (1, 0));
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn size_and_rank(mut self, size: u32, rank: u32) -> Self {
        self.size_and_rank = Some((size, rank));
        self
    }

    /// The name of this machine, if it is treated as several: ranks with different names use the
    /// network. PARIO_MACHINE by default; it counts only in a job that spans machines.
    pub fn machine(mut self, name: impl Into<String>) -> Self {
        self.machine = Some(name.into());
        self
    }

    /// How the machines of the job find each other. By default launcher and variables say it, as
    /// docs/memory.md describes.
    pub fn rendezvous(mut self, rendezvous: Rendezvous) -> Self {
        self.rendezvous = Some(rendezvous);
        self
    }

    /// The machines of the job meet at an address of one of them, and share a key.
    pub fn meet_at(self, address: SocketAddr, key: Key) -> Self {
        self.rendezvous(Rendezvous::Known(Endpoint { address, key }))
    }

    /// Joins a job: its name, its number of ranks, and the rank of this process.
    pub fn join(self, name: &str, size: u32, rank: u32) -> Result<Job, Error> {
        Job::join(Member { job: name.to_owned(), size, rank }, self)
    }

    /// Joins a job that needs no name: the processes that give the same size, each with its own
    /// rank, find each other at the node of a cluster, whatever has started them and wherever they
    /// run. The variable PARIO_JOB, or a launcher that has started exactly this rank, names the job
    /// all the same.
    ///
    /// An unnamed job takes ranks until it is complete; the next process begins another one. While
    /// it is incomplete, a second process with the same rank is refused, with an error that names
    /// both processes: two jobs that begin at the same time need names. Jobs of different users,
    /// and of different sizes, are never confused.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::Job;
    ///
    /// // Two shells, perhaps of two machines: this one has started the program as rank 0 of 2.
    /// let job = Job::options().size_and_rank(2, 0).join_at(&cluster)?;
    /// assert_eq!((job.size(), job.rank()), (2, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn join_at(self, cluster: &Cluster) -> Result<Job, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        let member = match environment::member_origin(variable, self.size_and_rank)? {
            MemberOrigin::Named(member) => member,
            MemberOrigin::Unnamed { size, rank, .. } => {
                let job = cluster.join_unnamed_job(size, rank)?;
                let options = Self { is_named_by_node: true, ..self };
                return Job::join(Member { job, size, rank }, options);
            }
        };
        let job = Job::join(member, self)?;
        if job.size() > 1 {
            job.files(cluster).ensure_joined()?;
        }
        Ok(job)
    }

    /// Joins the job that the launcher of this process says, as [`Job::from_env`] does.
    pub fn from_env(self) -> Result<Job, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        let member = match environment::member_origin(variable, self.size_and_rank)? {
            MemberOrigin::Named(member) => member,
            MemberOrigin::Unnamed { size, rank, on_machine } => {
                let join = || unnamed_on_machine::join(size, rank);
                let job = on_machine.map_or_else(join, Ok)?;
                Member { job, size, rank }
            }
        };
        Job::join(member, self)
    }
}

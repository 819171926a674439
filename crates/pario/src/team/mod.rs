//! The memory of a job's processes, which needs no cluster: a [`Team`] of them, what they allocate
//! together, and what they call together.
//!
//! ```
//! # fn main() -> Result<(), pario::Error> {
//! let team = pario::team::from_env()?; // pario run, mpirun, srun: rank 2 of 8
//! let hits = team.segments(8)?; // eight bytes of each rank
//! hits.fetch_add(1_u64, 0, 0)?; // rank 0 does not have to look
//! team.barrier()?;
//! # Ok(())
//! # }
//! ```

mod node_broker;
mod place;

pub use pario_team::*;

use crate::error::Error;
use crate::group::Group;

/// Meets the other processes of the job, as its launcher says: `pario run`, mpirun of Open MPI or
/// MPICH, or srun. A process that nobody has launched is a team of its own.
///
/// Ranks of one machine find each other by themselves. If the job spans machines, these meet
/// - at the machine that PARIO_TEAM names, by its address (`10.0.0.1`), if the launcher names the
///   job, or by its address and a port that is free there (`10.0.0.1:7777`); PARIO_KEY names the
///   file with the key that all have;
/// - otherwise with the help of the node that PARIO_CLUSTER names, as clients of which all are.
///   PARIO_TEAM is `cluster` where the launcher does not say that there are several machines.
pub fn from_env() -> Result<Team, Error> {
    let seat = Group::member_of_environment()?;
    meet(&seat.job, seat.size, seat.rank)
}

/// The same for who knows job, size and rank.
pub fn meet(job: &str, size: u32, rank: u32) -> Result<Team, Error> {
    let across = place::across(job, |name| std::env::var(name).ok(), None)?;
    let options = TeamOptions { multi_machine: across, ..TeamOptions::default() };
    Ok(Team::meet_with(job, size, rank, &options)?)
}

impl Group {
    /// The memory of the processes of this job. Collective: all call it.
    ///
    /// If the job spans machines, these find each other as [`from_env`] says, or with the help of
    /// the cluster of the group.
    pub fn team(&self) -> Result<Team, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        let across = place::across(self.job(), variable, Some(self.cluster()))?;
        self.meet_as(self.job(), across)
    }

    /// A further team of these processes, which ends on its own. Machines find each other with the
    /// help of the cluster, since an address is there for one team at a time.
    pub(crate) fn further_team(&self, name: &str) -> Result<Team, Error> {
        let across = place::across_cluster(|name| std::env::var(name).ok(), self.cluster());
        self.meet_as(name, across)
    }

    fn meet_as(&self, name: &str, across: Option<MultiMachine>) -> Result<Team, Error> {
        let options = TeamOptions { multi_machine: across, ..TeamOptions::default() };
        Ok(Team::meet_with(name, self.size(), self.rank(), &options)?)
    }
}

//! The memory of a job's processes, which needs no cluster: a [`Team`] of them, what they allocate
//! together, and what they call together.
//!
//! ```
//! # fn main() -> Result<(), pario::Error> {
//! let team = pario::team::from_env()?; // pario run, mpirun, srun: rank 2 of 8
//! let hits = team.segments(8)?; // eight bytes of each rank
//! hits.fetch_add(0, 0, 1_u64)?; // rank 0 does not have to look
//! team.barrier()?;
//! # Ok(())
//! # }
//! ```

pub use pario_team::*;

use crate::error::Error;
use crate::group::Group;

/// Meets the other processes of the job, as its launcher says: `pario run`, mpirun of Open MPI or
/// MPICH, or srun. A process that nobody has launched is a team of its own.
pub fn from_env() -> Result<Team, Error> {
    let seat = Group::seat_of_environment()?;
    Ok(Team::meet(&seat.job, seat.size, seat.rank)?)
}

impl Group {
    /// The memory of the processes of this job. Collective: all call it.
    pub fn team(&self) -> Result<Team, Error> {
        Ok(Team::meet(self.job(), self.size(), self.rank())?)
    }
}

//! The memory of a job's processes: what [`Job`](crate::Job) allocates and calls, without a cluster.
//!
//! The ranks meet once, at the first call that needs memory; the resulting team serves all segments,
//! arrays, mutexes, callbacks, cached files and record files of the job. docs/memory.md describes the
//! protocols and the guarantees.
//!
//! ```
//! # fn main() -> Result<(), pario::Error> {
//! let job = pario::Job::from_env()?; // pario run, mpirun, srun: rank 2 of 8
//! let hits = job.segments(8)?; // eight bytes of each rank
//! hits.fetch_add(1_u64, 0, 0)?; // rank 0 does nothing for it
//! job.barrier()?;
//! # Ok(())
//! # }
//! ```

pub use pario_team::{
    Array, Broker, Bulk, Callback, CallbackCall, CallbackRequest, CollectiveCall, Endpoint, Group,
    Key, LocalMemory, LocalNumbers, LocalPage, Message, Messaging, Mutexes, Number, Pending,
    RawArray, Reduction, Rendezvous, STRIDE_LEVELS, SegmentPiece, Segments, Strided, Team,
    TeamError, TeamMutexGuard, Word,
};

//! The memory of a team: the processes of a job, each with a segment that all can use.
//!
//! A [`Team`] is the processes of one job that have met. They allocate [`Segments`] together; then
//! each puts, gets and accumulates anywhere, without the help of the rank that owns the memory.
//! Processes of one machine share one mapping, so that a put is a copy and an atomic operation an
//! instruction. No further process has to run, and nothing is left behind.
//!
//! `docs/memory.md` describes the protocols and why they are correct.
//!
//! ```
//! use pario_team::Team;
//!
//! # fn main() -> Result<(), pario_team::TeamError> {
//! let team = Team::meet("a job of one", 1, 0)?;
//! let hits = team.segments(8)?;
//! assert_eq!(hits.fetch_add(1_u64, 0, 0)?, 0);
//! team.barrier()?;
//! assert_eq!(hits.fetch_add(1_u64, 0, 0)?, 1);
//! # Ok(())
//! # }
//! ```

mod accumulate;
mod array;
mod board;
mod call;
mod callbacks;
mod collective;
mod error;
mod free_memory;
mod local_rendezvous;
mod machine_memory;
mod messaging;
mod mutexes;
mod number;
mod pending_access;
mod rank_pieces;
mod remote;
mod rendezvous;
mod segments;
#[doc(hidden)]
pub mod simulation;
mod strided;
mod team;

pub use array::{Array, LocalNumbers, LocalPage, RawArray};
pub use call::CollectiveCall;
pub use callbacks::{Callback, CallbackCall, CallbackRequest};
pub use collective::Reduction;
pub use error::TeamError;
pub use free_memory::total_memory;
#[doc(hidden)]
pub use machine_memory::add_numbers;
pub use messaging::group::Group;
pub use messaging::{Message, Messaging};
pub use mutexes::{Mutexes, TeamMutexGuard};
pub use number::{Number, Word};
pub use pario_net::{Bulk, Key};
pub use pending_access::Pending;
pub use rendezvous::{Broker, Endpoint, MultiMachine, Rendezvous};
pub use segments::{LocalMemory, SegmentPiece, Segments};
pub use strided::{STRIDE_LEVELS, Strided};
pub use team::{Team, TeamOptions, WeakTeam};

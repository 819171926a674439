//! The memory of a team: the processes of a job, each with a part that all can use.
//!
//! A [`Team`] is the processes of one job that have met. They allocate [`Segments`] together; then
//! each puts, gets and accumulates wherever it wants, without the help of who gave the memory.
//! Processes of one machine have one mapping in common, so that a put is a copy and an atomic
//! operation an instruction. Nothing else has to run, and nothing is left behind.
//!
//! What is done where, and why it is right, is told in `docs/memory.md`.
//!
//! ```
//! use pario_team::Team;
//!
//! # fn main() -> Result<(), pario_team::TeamError> {
//! let team = Team::meet("a job of one", 1, 0)?;
//! let hits = team.segments(8)?;
//! assert_eq!(hits.fetch_add(0, 0, 1_u64)?, 0);
//! team.barrier()?;
//! assert_eq!(hits.fetch_add(0, 0, 1_u64)?, 1);
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
mod far;
mod meeting;
mod mutexes;
mod near;
mod number;
mod places;
mod rendezvous;
mod room;
mod segments;
#[doc(hidden)]
pub mod simulation;
mod started;
mod strided;
mod team;

pub use array::{Array, LocalNumbers, LocalPage, RawArray};
pub use call::Call;
pub use callbacks::{Callback, CallbackAsked, CallbackCall, CallbackPending};
pub use collective::Reduction;
pub use error::TeamError;
pub use mutexes::{Mutexes, Unlock};
#[doc(hidden)]
pub use near::add_numbers;
pub use number::{Number, Word};
pub use pario_net::Key;
pub use rendezvous::{Across, Broker, Rendezvous, Spot};
pub use segments::{LocalMemory, Piece, Segments};
pub use started::Started;
pub use strided::{STRIDE_LEVELS, Strided};
pub use team::{Team, TeamOptions};

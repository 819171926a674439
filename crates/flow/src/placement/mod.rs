//! Placements: the process of each thread, and how the processes start.
//!
//! A [`Placement`] is read from a TOML file. It names the processes of a program in order, the
//! first being the one that the user starts, and the process of every thread:
//!
//! ```
//! use pario_flow::placement::{Placement, ThreadSlot};
//!
//! let text = r#"
//! [processes]
//! A = "user"
//! B = {}
//!
//! [threads]
//! Master = "A"
//! "Slave[0..3]" = "B"
//! "Slave[3]" = "A"
//! "#;
//! let placement = Placement::parse(text, "sieve.toml")?;
//! let slots = [
//!     ThreadSlot { name: "Master".into(), pool: None },
//!     ThreadSlot { name: "Slave".into(), pool: Some(4) },
//! ];
//! assert_eq!(placement.assign(&slots)?, [vec![0], vec![1, 1, 1, 0]]);
//! # Ok::<(), pario_flow::placement::PlacementError>(())
//! ```
//!
//! The [`ProcessLauncher`] starts the other processes, unless `mpirun` or `srun` has started them;
//! then the environment holds a [`LauncherRank`].

mod assignment;
mod error;
mod file;
mod launcher;
mod pattern;
mod rank;
mod reader;

pub use assignment::ThreadSlot;
pub use error::{PlacementError, PlacementProblem};
pub use file::{Placement, ProcessSpec};
pub use launcher::{ProcessLauncher, SpawnError, StartedProcess};
pub use rank::LauncherRank;

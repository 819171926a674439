//! Which thread lives in which process, and how the processes are started.
//!
//! A [`Placement`] is read from a TOML file. It names the processes of a program in order, the
//! first being the one the user starts, and says for every thread in which of them it lives:
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
//! The other processes are started by the [`Launcher`], or were started already by `mpirun` or
//! `srun`, which a [`Rank`] in the environment tells.

mod assignment;
mod error;
mod file;
mod launcher;
mod pattern;
mod rank;
mod reader;

pub use assignment::ThreadSlot;
pub use error::{PlacementError, Problem};
pub use file::{Placement, Process};
pub use launcher::{LaunchError, Launcher, Started};
pub use rank::Rank;

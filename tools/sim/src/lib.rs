//! The coordination of shared files under a seeded scheduler.
//!
//! A run is a group of ranks, each with a random program, one file that they have open together, and
//! a network that delivers what it is given in any order. Ranks are lost, disagree, and have several
//! calls under way. A model that knows nothing of the state machine's inside says after each event
//! what must have come out. The same seed gives the same run.
#![forbid(unsafe_code)]

mod at_table;
mod model;
mod program;
mod world;

pub use program::{Plan, Step};
pub use world::{Run, Where, run};

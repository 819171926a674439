//! The coordination of shared files, atomic access by unrelated processes, and the protocols of a team
//! on several machines, under seeded schedulers. The same seed gives the same run.
//!
//! *Shared files* ([`run`]). A run is a job of ranks, each with a random program, one file that
//! they open together again and again, and a network that delivers messages in any order. Ranks
//! move real bytes, in parts and at any time. Ranks are killed, disagree, and have several calls
//! under way; the home node is restarted. At coordination tables each call is a thread of the real
//! library, and one of them runs at a time. A model that does not use the code of the coordination
//! checks after each event which replies must have come, which bytes may be read, and which bytes
//! the file may have.
//!
//! *Openers* ([`run_openers`]). A run is a few processes and ranks that have opened one file each for
//! itself, for atomic access, with the real state machines of the home node and of the processes.
//!
//! *Teams* ([`run_team`]). A run is one to four machines with one to four ranks each, and the links
//! between the machine leaders and the team coordinator, which keep the order and take any time.
//! Boards, coordinator, machine reporters and news feeds are the real ones; ranks wait at the board
//! in threads, of which one runs at a time. Ranks join, make rounds, take locks and leave; ranks,
//! leaders and the coordinator are killed, links are cut. A model checks the result of each round,
//! why a wait may fail, what may be news, and that no rank waits for ever.
#![forbid(unsafe_code)]

mod bytes;
mod home_node;
mod model;
mod openers;
mod program;
mod rank;
mod shared_file;
mod sim_thread;
mod table_members;
mod team;
mod world;

pub use openers::{OpenersRun, run_openers};
pub use program::{Plan, Step};
pub use team::{TeamRun, run_team};
pub use world::{CoordinationKind, FileRun, run};

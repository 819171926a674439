//! The coordination of shared files, and the protocols of a team on several machines, under seeded
//! schedulers. The same seed gives the same run.
//!
//! *Shared files* ([`run`]). A run is a group of ranks, each with a random program, one file that they open together again and
//! again, and a network that delivers what it is given in any order. RankList really move bytes, in
//! parts and in their own time; they are killed, disagree, and have several calls under way. The node
//! at which they meet ends and is started again. A model that knows nothing of the coordination's
//! inside says after each event what must have come out, which bytes may be read, and which the file
//! may have.
//!
//! *Teams* ([`run_team`]). A run is one to four machines with one to four ranks each, and the links
//! between their captains and the host, which keep the order and take any time. Boards, host and
//! captains are the real ones, without their threads. RankList come, meet in rounds and leave; ranks,
//! captains and the host are killed, links are cut. A model says what each round must have told, why
//! a wait may fail, what may be news, and that nobody waits for ever.
#![forbid(unsafe_code)]

mod bytes;
mod home_node;
mod model;
mod program;
mod rank;
mod shared_file;
mod table_member;
mod team;
mod world;

pub use program::{Plan, Step};
pub use team::{TeamRun, run_team};
pub use world::{CoordinationKind, FileRun, run};

//! A program at work: threads that take tokens out of their queues, and what holds them together.
//!
//! Each thread of the program is a [`Worker`](worker::Worker) with an input port of the
//! message-passing system. It takes a message, runs the steps of the schedule that are its, and
//! sends the token on, so *the thread that produced a token runs the schedule* until the next hop.
//! Splits live in the thread that splits, merges in the thread that merges; between them go the
//! tokens, and word of how many have been merged. One [`Steward`](steward::Steward) per process
//! hears of results, failures and lost processes.

mod balance;
mod board;
mod calls;
mod clock;
mod ids;
mod launch;
mod merges;
mod message;
mod recorder;
mod role;
mod run;
mod shared;
mod snapshot;
mod splits;
mod stack;
mod steward;
mod successor;
mod worker;

pub use calls::Request;
pub use run::Run;
pub use snapshot::{CallView, Doing, Snapshot, SplitView, StageView, ThreadView};
pub(crate) use stack::Stack;
pub use successor::RawSuccessor;

//! How processes that share memory wait for each other: a lock whose word names its owner, a word
//! that counts changes, and the limits of spinning and sleeping.
//!
//! Both users, the coordination tables of shared files and the board of a team, add what their
//! words mean: who is lost, which round is over.
//!
//! - *No lost wake-up.* A waiting thread reads the change word, checks its condition, and sleeps
//!   only while the word has that value. A thread that changes the condition increments the word
//!   afterwards.
//! - *Every sleep is bounded*, so that a thread also notices what no process signals: a process
//!   that ended between a check and the sleep after it, or a node that ended.
//! - *One seam.* All waiting passes a [`Parker`]: futexes, or the scheduler of a simulator.

mod change_word;
mod owner_lock;
mod parker;
mod wait_limits;

pub use change_word::ChangeWord;
pub use owner_lock::OwnerLock;
pub(crate) use parker::FutexParker;
pub use parker::{Parker, SharedWord, SwitchPoint};
pub use wait_limits::WaitLimits;

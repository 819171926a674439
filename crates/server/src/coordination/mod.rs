//! The coordination of shared files and record locks: state machines without I/O. Events go in,
//! with the time at which they happened; actions come out.
//!
//! A [`RoundCollector`] collects the collective calls of a job or shared file, round after round. A
//! [`SharedFileCoordinator`] adds the course of the file and the claims of byte ranges
//! ([`ByteRangeQueue`]). [`AtomicOpeners`] coordinate processes that have opened a file each for
//! itself. [`FirstOpens`] are the files that the processes of a job open one by one. [`Locks`] are
//! the record locks of all processes. [`OverdueWaits`] finds waits that last too long.

mod atomic_openers;
mod byte_range_queue;
mod first_opens;
mod locks;
mod overdue_waits;
mod round_collector;
mod shared_file;

pub use atomic_openers::{
    AtomicOpeners, NewOpener, OpenerAnswers, OpenerId, OpenerRefusal, OpenerWait,
};
pub use byte_range_queue::ByteRangeQueue;
pub use first_opens::{FirstOpens, ForgottenOpen, OpenTurn, Opener};
pub use locks::{LockAnswers, LockClaim, Locker, Locks, PendingLock};
pub use overdue_waits::OverdueWaits;
pub use round_collector::{CompleteRound, Departure, RankWait, RoundCollector, RoundResult};
pub use shared_file::{CoordinatorAction, PerformResult, SharedFileCoordinator};

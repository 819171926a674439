//! How the processes of a job wait for each other, and get their places in a shared file: state
//! machines without I/O. Events go in, with the time at which they happened; what is to be done
//! comes out.
//!
//! A [`RoundCollector`] is the table at which the ranks of a job sit: it collects the calls in which all
//! of them meet, round after round. An [`SharedFileCoordinator`] is a file that they have open together: a
//! gathering, a mode, and a position. [`Locks`] are those of records, of whoever has a file open.
//! [`OverdueWaits`] finds waits that last too long.

mod byte_range_queue;
mod locks;
mod overdue_waits;
mod round_collector;
mod shared_file;

pub use byte_range_queue::ByteRangeQueue;
pub use locks::{LockAnswers, LockClaim, Locker, Locks, PendingLock};
pub use overdue_waits::OverdueWaits;
pub use round_collector::{CompleteRound, Departure, RankWait, RoundCollector, RoundResult};
pub use shared_file::{CoordinatorAction, PerformResult, SharedFileCoordinator};

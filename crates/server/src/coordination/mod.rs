//! How the processes of a job wait for each other, and get their places in a shared file: state
//! machines without I/O. Events go in, with the time at which they happened; what is to be done
//! comes out.
//!
//! A [`Gathering`] is the table at which the ranks of a job sit: it collects the calls in which all
//! of them meet, round after round. An [`Assembly`] is a file that they have open together: a
//! gathering, a mode, and a position. [`Locks`] are those of records, of whoever has a file open.
//! [`Overdue`] finds waits that last too long.

mod assembly;
mod gathering;
mod locks;
mod overdue;
mod ranges;

pub use assembly::{Action, Assembly, Performed};
pub use gathering::{Decided, Fate, Gathering, Met, Wait};
pub use locks::{Answers, LockWaiting, Locker, Locks, Wish};
pub use overdue::Overdue;
pub use ranges::Ranges;

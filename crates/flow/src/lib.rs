//! Programs made of operations.
//!
//! A [`Program`] has threads with states of their own, and *operations*: a token goes in, a token
//! comes out. A sequential operation is a function that a thread runs. A parallel operation is a
//! schedule of others, written as a [`Chain`] with eight constructs: pipeline, if, if-else, while,
//! for, parallel, parallel-while, indexed-parallel. The same text runs in one process or in many:
//! a [`Placement`] says which thread lives where. How many tokens are under way between a split
//! and its merge is found while the program runs ([`Window`]), so memory is bounded.
//!
//! It is not an actor system (threads exchange nothing but the tokens of operations), not a task
//! scheduler (a step runs on the thread that was named, with its state), and it knows no files and
//! no disks.
//!
//! ```
//! use pario_flow::Program;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Range { next: u64, end: u64 }
//!
//! impl Range {
//!     fn split(&mut self) -> Option<u64> {
//!         let number = self.next;
//!         self.next += 1;
//!         (number < self.end).then_some(number)
//!     }
//! }
//!
//! #[derive(Default)]
//! struct Worker { seen: u64 }
//!
//! impl Worker {
//!     fn is_prime(&mut self, n: u64) -> (u64, bool) {
//!         self.seen += 1;
//!         (n, n > 1 && (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0))
//!     }
//! }
//!
//! let mut program = Program::new("primes");
//! let client = program.thread("Client", || ());
//! let workers = program.pool("Worker", 4, |_| Worker::default());
//!
//! let primes = program.operation("primes", |b| b
//!     .on(client)
//!     .split_while(Range::split)                       // one token per number
//!         .on(workers.any()).run(Worker::is_prime)     // whichever worker is free
//!     .merge(client, |_| Vec::new(), |found: &mut Vec<u64>, (n, is_prime)| {
//!         if is_prime { found.push(n) }
//!     }));
//!
//! let run = program.launch(None)?;                     // all threads in this process
//! let mut found = run.call(primes, Range { next: 0, end: 30 })?;
//! found.sort();
//! assert_eq!(found, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod chain;
mod error;
pub mod graph;
mod place;
pub mod placement;
mod program;
mod runtime;
mod schedule;
mod token;
pub mod trace;
mod window;

pub use chain::{
    Anywhere, At, Branches, Chain, IndexRanges, Inside, NoIndices, Otherwise, Somewhere, Start,
    Successor, Top,
};
pub use error::{CallError, LaunchError};
pub use pario_net::{Bulk, BulkBuffer};
pub use place::{Place, PoolAny, PoolAt, PoolRef, PoolThread, ThreadRef};
pub use placement::{Placement, PlacementError};
pub use program::{FindError, OperationRef, Process, Program};
pub use runtime::{CallView, Doing, Request, Run, Snapshot, SplitView, StageView, ThreadView};
pub use schedule::Context;
pub use token::Token;
pub use window::Window;

//! Dataflow programs: operations on named threads, composed with eight constructs.
//!
//! A [`Program`] has threads, each with a private state, and *operations* from token to token. A
//! sequential operation is a function that a thread runs. A parallel operation is a schedule of
//! operations, written as a [`Chain`] with eight constructs: pipeline, if, if-else, while, for,
//! parallel, parallel-while, indexed-parallel. The same program runs in one process or in many: a
//! [`Placement`] names the process of each thread. A [`Window`] limits the tokens under way between
//! a split and its merge, so memory is bounded; by default the runtime finds its size.
//!
//! It is not an actor system: threads exchange only the tokens of operations. It is not a task
//! scheduler: a step runs on the thread that the program names, with that thread's state. It knows
//! no files and no disks.
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
//!         .on(workers.any()).run(Worker::is_prime)     // the first free worker
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

mod attaching;
mod chain;
pub mod document;
mod error;
pub mod graph;
pub mod placement;
mod program;
mod runtime;
mod schedule;
mod thread_selector;
mod token;
pub mod trace;
mod window;

pub use attaching::{AttachOptions, ResidentAddress};
pub use chain::{
    AnyThread, Branches, Chain, Continuation, HasThread, InSplit, IndexRanges, NoIndices, NoThread,
    OnThread, TopLevel,
};
pub use error::{AttachError, CallError, LaunchError};
pub use pario_net::{Bulk, BulkBuffer, Key, Refusal};
pub use placement::{Placement, PlacementError};
pub use program::{FindError, NameScope, OperationRef, Program};
pub use runtime::{
    CallStatus, CurrentStep, PendingCall, ProgramSnapshot, RunningProgram, SplitStatus, StepStatus,
    ThreadStatus,
};
pub use schedule::StepContext;
pub use thread_selector::{PoolAny, PoolAt, PoolRef, PoolThread, ThreadRef, ThreadSelector};
pub use token::Token;
pub use window::Window;

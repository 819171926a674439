//! What can go wrong with a call.

use serde::{Deserialize, Serialize};

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum CallError {
    /// An operation returned an error.
    #[error("{operation}, step {step} on thread {thread}: {message}")]
    Failed {
        /// The operation that was called, or the one used inside it.
        operation: String,
        /// The step that failed.
        step: String,
        /// The thread that ran it.
        thread: String,
        /// What the step said.
        message: String,
    },
    /// An operation panicked; its thread goes on with the next token.
    #[error("{operation}, step {step} on thread {thread} panicked: {message}")]
    Panicked {
        /// The operation that was called, or the one used inside it.
        operation: String,
        /// The step that panicked.
        step: String,
        /// The thread that ran it.
        thread: String,
        /// The panic's message.
        message: String,
    },
    /// A place function chose a thread that does not exist.
    #[error(
        "{operation}, step {step}: thread {index} of pool {pool} was chosen, but it has {size} threads (0 to {})",
        size.saturating_sub(1)
    )]
    NoSuchThread {
        /// The operation.
        operation: String,
        /// The step after the choice.
        step: String,
        /// The pool.
        pool: String,
        /// What was chosen.
        index: usize,
        /// How many threads the pool has.
        size: usize,
    },
    /// An address space that this call needs is gone.
    #[error(
        "process {space} is gone, and operation {operation} needs it; start it again and call again"
    )]
    SpaceLost {
        /// The operation that was called.
        operation: String,
        /// The name of the address space.
        space: String,
    },
    /// A token could not be encoded, sent or decoded.
    #[error("{operation}: a token could not travel from {from} to {to}: {message}")]
    Transfer {
        /// The operation.
        operation: String,
        /// The thread that sent it.
        from: String,
        /// The thread it was for.
        to: String,
        /// What went wrong.
        message: String,
    },
    /// An asynchronous operation dropped its successor without calling it.
    #[error(
        "{operation}, step {step} on thread {thread} dropped its successor: it must call it or fail it"
    )]
    Dropped {
        /// The operation.
        operation: String,
        /// The step.
        step: String,
        /// The thread.
        thread: String,
    },
    /// The run has ended.
    #[error("the program {program} has stopped")]
    Stopped {
        /// The program.
        program: String,
    },
}

/// Why a program could not be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The placement file is wrong.
    #[error(transparent)]
    Placement(#[from] crate::placement::PlacementError),
    /// A process could not be started.
    #[error("process {process} could not be started: {message}")]
    Start {
        /// Its name in the placement.
        process: String,
        /// What went wrong.
        message: String,
    },
    /// A process ended, or did not report, before the program began.
    #[error("process {process} was not ready after {waited_s:.1} s: {message}")]
    NotReady {
        /// Its name in the placement.
        process: String,
        /// How long was waited.
        waited_s: f64,
        /// What is known.
        message: String,
    },
    /// A process runs another program than this one.
    #[error(
        "process {process} runs another version of program {program}: start the same executable everywhere"
    )]
    OtherProgram {
        /// Its name in the placement.
        process: String,
        /// The program.
        program: String,
    },
    /// The launcher's ranks do not fit the placement.
    #[error(
        "{ranks} ranks were started, but the placement has {processes} processes: start as many"
    )]
    Ranks {
        /// How many ranks the launcher started.
        ranks: usize,
        /// How many processes the placement has.
        processes: usize,
    },
    /// The message-passing system could not be set up.
    #[error("the address space {space} could not be opened: {message}")]
    Space {
        /// Its name.
        space: String,
        /// What went wrong.
        message: String,
    },
    /// A thread could not be started.
    #[error("thread {thread} could not be started: {message}")]
    Thread {
        /// Its name.
        thread: String,
        /// What the system said.
        message: String,
    },
}

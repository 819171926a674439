//! Errors of calls and of the launch.

use serde::{Deserialize, Serialize};

/// The reason why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum CallError {
    /// A step returned an error.
    #[error("{operation}, step {step} on thread {thread}: {message}")]
    Failed {
        /// The operation that was called, or the one used inside it.
        operation: String,
        /// The step that failed.
        step: String,
        /// The thread that ran it.
        thread: String,
        /// The error of the step.
        message: String,
    },
    /// A step panicked; its thread continues with the next token.
    #[error("{operation}, step {step} on thread {thread} panicked: {message}")]
    Panicked {
        /// The operation that was called, or the one used inside it.
        operation: String,
        /// The step that panicked.
        step: String,
        /// The thread that ran it.
        thread: String,
        /// The message of the panic.
        message: String,
    },
    /// The function in `.at` or `.at_indexed` selected a thread that does not exist.
    #[error(
        "{operation}, step {step}: thread {index} of pool {pool} was selected, but the pool has {size} threads (0 to {})",
        size.saturating_sub(1)
    )]
    NoSuchThread {
        /// The operation.
        operation: String,
        /// The step that selects the thread.
        step: String,
        /// The pool.
        pool: String,
        /// The selected number.
        index: usize,
        /// The number of threads in the pool.
        size: usize,
    },
    /// A process that this call needs was lost.
    #[error(
        "process {process} was lost, and operation {operation} needs it; restart the program and call again"
    )]
    ProcessLost {
        /// The operation that was called.
        operation: String,
        /// The name of the process in the placement.
        process: String,
    },
    /// The resident program to which this process was attached ended or was lost.
    #[error(
        "program {program}, to which this process was attached, has ended or was lost; start it again if needed, attach again and call again"
    )]
    ProgramLost {
        /// The program.
        program: String,
    },
    /// A token could not be encoded, sent or decoded.
    #[error("{operation}: cannot transfer a token from {from} to {to}: {message}")]
    Transfer {
        /// The operation.
        operation: String,
        /// The sender: a thread, or a process.
        from: String,
        /// The receiver.
        to: String,
        /// The reason.
        message: String,
    },
    /// An asynchronous step dropped its continuation.
    #[error(
        "{operation}, step {step} on thread {thread} dropped its continuation: the step must call it or fail it"
    )]
    Dropped {
        /// The operation.
        operation: String,
        /// The step.
        step: String,
        /// The thread.
        thread: String,
    },
    /// The program has stopped.
    #[error("program {program} has stopped")]
    Stopped {
        /// The program.
        program: String,
    },
}

/// The reason why a program could not be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The placement file is invalid.
    #[error(transparent)]
    Placement(#[from] crate::placement::PlacementError),
    /// A process could not be started.
    #[error("cannot start process {process}: {message}")]
    Start {
        /// The name of the process in the placement.
        process: String,
        /// The reason.
        message: String,
    },
    /// A process ended, or did not report that it is ready, before the program began.
    #[error("process {process} was not ready after {waited_s:.1} s: {message}")]
    NotReady {
        /// The name of the process in the placement.
        process: String,
        /// The time from the start of the wait.
        waited_s: f64,
        /// The reason.
        message: String,
    },
    /// A process runs another program: its fingerprint differs.
    #[error(
        "process {process} runs another version of program {program}: start the same executable everywhere"
    )]
    OtherProgram {
        /// The name of the process in the placement.
        process: String,
        /// The program.
        program: String,
    },
    /// The number of ranks differs from the number of processes in the placement.
    #[error(
        "the launcher started {ranks} ranks, but the placement has {processes} processes: start {processes} ranks"
    )]
    Ranks {
        /// The number of ranks that the launcher started.
        ranks: usize,
        /// The number of processes in the placement.
        processes: usize,
    },
    /// A process could not open its address space or its ports.
    #[error("process {process} cannot open its address space: {message}")]
    AddressSpace {
        /// The name of the process in the placement.
        process: String,
        /// The reason.
        message: String,
    },
    /// The placement could send a local token to another process.
    #[error(
        "operation {operation} would send a {token} from {from} to {to}, but a {token} cannot leave its process: place both in one process, or derive Serialize and Deserialize for {token}"
    )]
    LocalToken {
        /// The operation.
        operation: String,
        /// The type of the token.
        token: String,
        /// The sender: a thread or the caller, and its process.
        from: String,
        /// The receiver: a thread or the caller, and its process.
        to: String,
    },
    /// Another process of this user runs a program of the same name to which processes may attach.
    #[error(
        "process {process} cannot start program {program}: {other} runs a program of this name already and listens at {path}; stop it, or give this program another name"
    )]
    NameInUse {
        /// The program.
        program: String,
        /// This process.
        process: u32,
        /// The process that has the name, such as `process 4711`.
        other: String,
        /// The socket of that process.
        path: String,
    },
    /// The program cannot listen for processes that attach.
    #[error("program {program} cannot listen for processes that attach: {message}")]
    Entrance {
        /// The program.
        program: String,
        /// The reason.
        message: String,
    },
    /// A thread could not be started.
    #[error("cannot start thread {thread}: {message}")]
    Thread {
        /// The name of the thread.
        thread: String,
        /// The reason.
        message: String,
    },
}

/// The reason why this process could not attach to a resident program.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No process listens where the program was looked for.
    #[error(
        "program {program} was not found at {place}: {message}; start it first, as the same user, and let it call allow_attach"
    )]
    NotFound {
        /// The program.
        program: String,
        /// The socket or the address.
        place: String,
        /// The reason.
        message: String,
    },
    /// The program refused this process, or the connection failed.
    #[error("cannot attach to program {program} at {place}: {message}")]
    Refused {
        /// The program.
        program: String,
        /// The socket or the address.
        place: String,
        /// The reason.
        message: String,
    },
    /// The resident program has another operation of the same name.
    #[error(
        "operation {operation} of this process is not the one of the resident program {program}: its steps, token types or threads differ; build both from the same source"
    )]
    OtherOperation {
        /// The operation.
        operation: String,
        /// The program.
        program: String,
    },
    /// Both programs have a thread of this name, of different kinds.
    #[error(
        "thread {thread} is {here} in this process, but {there} in the resident program {program}; build both from the same source"
    )]
    OtherThread {
        /// The thread or pool.
        thread: String,
        /// Its kind here.
        here: &'static str,
        /// Its kind there.
        there: &'static str,
        /// The program.
        program: String,
    },
    /// An operation that only this process has runs a step on a thread of the resident program.
    #[error(
        "the resident program {program} has no operation {operation}, and cannot run its step {step} on thread {thread}; add the operation there, or use threads of this process and operations of the program as steps"
    )]
    NotOwnThread {
        /// The operation.
        operation: String,
        /// The step.
        step: String,
        /// The thread.
        thread: String,
        /// The program.
        program: String,
    },
    /// An operation that only this process has continues where no thread of this process is known.
    #[error(
        "operation {operation}: no thread of this process is named for step {step}, which follows an operation of the resident program {program}; put .on(thread) before it"
    )]
    ThreadNotNamed {
        /// The operation.
        operation: String,
        /// The step.
        step: String,
        /// The program.
        program: String,
    },
    /// A thread could not be started, or a local token would leave its process.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

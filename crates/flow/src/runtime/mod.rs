//! The runtime: the threads that run the steps, and the coordinators of the processes.
//!
//! Each thread of the program is a [`ThreadWorker`](thread_worker::ThreadWorker) with an input port
//! of the message-passing system. It receives a token, runs the steps of the schedule that belong
//! to it, and sends the token on. *The thread that produced a token runs the schedule* until the
//! next hop. A split is kept by the splitting thread, its merge by the merging thread. The
//! splitting thread sends tokens; the merging thread reports the tokens that it has merged. One
//! [`ProcessCoordinator`](coordinator::ProcessCoordinator) per process receives results, failures
//! and the loss of processes. Processes that attach to a resident program reach it through its
//! [`Entrance`](entrance::Entrance).

mod activity;
mod attach;
mod attach_messages;
mod attached;
#[cfg(test)]
mod attack_tests;
mod calls;
mod construct_stack;
mod continuation;
mod coordinator;
mod entrance;
mod guest_check;
mod ids;
mod launch;
mod locality;
mod merges;
mod message;
mod pool_balancer;
mod process_role;
mod process_runtime;
mod running_program;
mod snapshot;
mod span_recorder;
mod splits;
mod thread_worker;

pub use calls::PendingCall;
pub(crate) use construct_stack::ConstructStack;
pub use continuation::ErasedContinuation;
pub use running_program::RunningProgram;
pub use snapshot::{
    CallStatus, CurrentStep, ProgramSnapshot, SplitStatus, StepStatus, ThreadStatus,
};

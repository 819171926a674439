//! What a process says when it attaches to a resident program, and the reply.

use serde::{Deserialize, Serialize};

use super::ids::ProcessNumber;

/// The entrance of a resident program is the port of this name.
pub(crate) const ENTRANCE: &str = "entrance";

/// A process asks to attach.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AttachRequest {
    /// The name of the program that it looks for.
    pub(crate) program: String,
    /// The names and fingerprints of its operations.
    pub(crate) operations: Vec<(String, u64)>,
    /// The names of its threads and pools.
    pub(crate) slots: Vec<String>,
}

/// The numbers of the resident program, for what the request names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AttachReply {
    /// The number of the attached process.
    pub(crate) process: ProcessNumber,
    /// The names of the program's processes.
    pub(crate) processes: Vec<String>,
    /// The operations of the request, in its order.
    pub(crate) operations: Vec<ResidentOperation>,
    /// The number of operations of the resident program.
    pub(crate) operation_count: u32,
    /// The slots of the request, in its order; none for a slot that the program does not have.
    pub(crate) slots: Vec<Option<ResidentSlot>>,
    pub(crate) slot_count: u32,
    pub(crate) thread_count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ResidentOperation {
    /// The program has the same operation under this number.
    Same(u32),
    /// The program has another operation of this name.
    Differs,
    /// The program has no operation of this name.
    Unknown,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ResidentSlot {
    pub(crate) number: u32,
    /// The number of its first thread.
    pub(crate) first: u32,
    pub(crate) is_pool: bool,
    pub(crate) is_caller: bool,
    /// The process of each thread.
    pub(crate) processes: Vec<ProcessNumber>,
}

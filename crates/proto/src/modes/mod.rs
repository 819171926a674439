//! Shared files: the modes, the collective calls of the ranks of a job, and where each access goes.

pub mod call;
pub mod collective_error;
pub mod coordination_table;
pub mod course;
pub mod mode;
pub mod position;
pub mod waiting;

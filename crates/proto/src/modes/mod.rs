//! Shared files: what the processes of a job may do together, and where each of their accesses goes.

pub mod call;
pub mod collective_error;
pub mod coordination_table;
pub mod course;
pub mod mode;
pub mod position;
pub mod waiting;

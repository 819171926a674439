//! Shared files: what the processes of a job may do together, and where each of their accesses goes.

pub mod call;
pub mod course;
pub mod mode;
pub mod position;
pub mod table;
pub mod trouble;
pub mod waiting;

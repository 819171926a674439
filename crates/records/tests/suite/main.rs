//! Record files: records over the local files of a job's processes.

mod accumulating;
mod crashes;
mod directories;
mod errors;
mod killed_ranks;
mod many_records;
mod model;
mod other_machines;
mod range;
mod read_cache;
mod reopening;
mod requests;

#[path = "../../../team/tests/suite/ranks/mod.rs"]
mod ranks;

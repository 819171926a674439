//! Record files: records over the local files of the processes of a job.

mod accumulating;
mod crashes;
mod errors;
mod far;
mod killed;
mod many;
mod model;
mod range;
mod reopening;
mod requests;

#[path = "../../../team/tests/suite/ranks/mod.rs"]
mod ranks;

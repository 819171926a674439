//! Record files: records over the local files of the processes of a job.

mod accumulating;
mod crashes;
mod errors;
mod killed;
mod many;
mod model;
mod ranks;
mod reopening;
mod requests;

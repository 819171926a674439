//! Cached files: what each rank sees, what is on the disk after a flush, and what is left after a
//! crash.
#![expect(clippy::cast_possible_truncation, reason = "the numbers are small")]

mod content;
mod crashes;
mod job_ranks;
mod model;
mod reused_memory;
mod rules;
mod sizes;
mod write_back;

//! The integration tests of the store, in one binary. The table in CONTRIBUTING.md says what each
//! module shows.

mod compaction;
mod contract;
mod crash;
mod damage;
mod descriptions;
mod first_sync;
mod format;
mod kill;
mod late_syncs;
mod limits;
mod many_syncs;
mod memory_disk;
mod scale;
mod space;
mod stalls;
mod upgrade;

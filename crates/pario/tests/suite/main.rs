//! The tests of `pario`: real clusters, embedded and of several processes, as clients see them.

mod atomic;
mod audit;
mod bad_input;
mod cached;
#[path = "../../../module/tests/suite/clang.rs"]
mod clang;
mod cluster;
mod first_bytes;
mod fsck;
#[path = "../../../net/tests/suite/gate.rs"]
mod gate;
mod grants;
mod job_calls;
mod jobs;
mod large;
mod lent_memory;
mod locks;
mod losses;
mod many_files;
mod missing_namespace;
mod model;
mod model_extents;
mod modules;
mod names;
mod namespaces;
mod processing;
#[path = "../../../team/tests/suite/ranks/mod.rs"]
mod ranks;
mod rebuild;
mod recovery;
mod rights;
mod shared_files;
mod sharing;
mod sites;
mod slow_disks;
mod strangers;

//! The tests of `pario-team`: ranks as threads and as processes, on one machine and on several.

mod arrays;
mod brokers;
mod callbacks;
mod collective;
mod messaging;
mod processes;
mod ranks;
mod segments;
mod squatters;
mod started;

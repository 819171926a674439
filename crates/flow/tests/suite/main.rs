//! Tests of dataflow programs: constructs, failures, processes, placements, pictures.

mod attaching;
mod callbacks;
mod constructs;
mod failures;
mod local_tokens;
mod pictures;
mod placement;
mod processes;
mod random_programs;
mod warnings;
mod wirings;

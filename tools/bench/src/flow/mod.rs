//! Programs made of operations, against what their windows allow, bare hops and timely dataflow.

mod bounded_memory;
mod farm;
mod granularity;
mod hard_windows;
mod hops;
mod memory;
mod metg;
mod pipeline;
mod plain_hops;
mod prediction;
mod stages;
mod timely_graph;
mod twin;
mod under_way;
mod waits;
mod work;

use crate::area::{Area, Family, nothing};
use crate::partner::Role;

/// The area of programs.
pub const AREA: Area = Area {
    name: "flow",
    draw: nothing,
    families: &[
        Family {
            name: "pipeline",
            what: "five stages with windows of 1 to 10 tokens and the automatic one, against theory",
            run: pipeline::run,
        },
        Family {
            name: "hard-windows",
            what: "automatic windows of a split in a split and of a stage that reorders, against theory",
            run: hard_windows::run,
        },
        Family {
            name: "hop-same-thread",
            what: "a token to an empty stage on the same thread, against a call",
            run: hops::run_same_thread,
        },
        Family {
            name: "hop-thread",
            what: "a token to another thread, against a channel of crossbeam",
            run: hops::run_thread,
        },
        Family {
            name: "hop-process",
            what: "a token to another process, against a bare Unix socket",
            run: hops::run_process,
        },
        Family {
            name: "metg-one-process",
            what: "the smallest task that keeps half of two cores busy, against timely dataflow",
            run: metg::run_one,
        },
        Family {
            name: "metg-two-processes",
            what: "the same with one worker in each of two processes",
            run: metg::run_two,
        },
        Family {
            name: "bounded-memory",
            what: "memory of ten million tokens of 4 KiB through a slow merge, against 64 MiB",
            run: bounded_memory::run_one,
        },
        Family {
            name: "bounded-memory-two-processes",
            what: "the same with the merge in another process",
            run: bounded_memory::run_two,
        },
    ],
};

/// What the second processes of these figures are.
pub const ROLES: &[Role] =
    &[bounded_memory::ROLE, bounded_memory::FAR_ROLE, timely_graph::ROLE, twin::ROLE];

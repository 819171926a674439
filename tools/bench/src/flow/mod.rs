//! Dataflow programs, against the limits of their windows, bare hops and timely dataflow.

mod attached_call;
mod bounded_memory;
mod farm;
mod granularity;
mod hard_windows;
mod hops;
mod metg;
mod pipeline;
mod plain_hops;
mod prediction;
mod process_memory;
mod stages;
mod timely_graph;
mod tokens_under_way;
mod twin;
mod waits;
mod work;

use crate::area::{BenchArea, FigureFamily, nothing};
use crate::partner::PartnerRole;

/// The area of dataflow programs.
pub const AREA: BenchArea = BenchArea {
    name: "flow",
    draw: nothing,
    families: &[
        FigureFamily {
            name: "pipeline",
            description: "five stages with windows of 1 to 10 tokens and the automatic one, against theory",
            run: pipeline::run,
        },
        FigureFamily {
            name: "hard-windows",
            description: "automatic windows of a split in a split and of a stage that reorders, against theory",
            run: hard_windows::run,
        },
        FigureFamily {
            name: "hop-same-thread",
            description: "a token to an empty stage on the same thread, against a call",
            run: hops::run_same_thread,
        },
        FigureFamily {
            name: "hop-thread",
            description: "a token to another thread, against a channel of crossbeam",
            run: hops::run_thread,
        },
        FigureFamily {
            name: "hop-process",
            description: "a token to another process, against a bare Unix socket",
            run: hops::run_process,
        },
        FigureFamily {
            name: "attached-call",
            description: "a call of an attached process, against the same call in a launched program",
            run: attached_call::run,
        },
        FigureFamily {
            name: "metg-one-process",
            description: "the smallest task that keeps half of two cores busy, against timely dataflow",
            run: metg::run_one,
        },
        FigureFamily {
            name: "metg-two-processes",
            description: "the same with one worker in each of two processes",
            run: metg::run_two,
        },
        FigureFamily {
            name: "bounded-memory",
            description: "memory of ten million tokens of 4 KiB through a slow merge, against 64 MiB",
            run: bounded_memory::run_one,
        },
        FigureFamily {
            name: "bounded-memory-two-processes",
            description: "the same with the merge in another process",
            run: bounded_memory::run_two,
        },
    ],
};

/// The roles of second processes in these figures.
pub const ROLES: &[PartnerRole] = &[
    attached_call::LAUNCHED_ROLE,
    attached_call::RESIDENT_ROLE,
    bounded_memory::ROLE,
    bounded_memory::FAR_ROLE,
    timely_graph::ROLE,
    twin::ROLE,
];

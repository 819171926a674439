//! Programs made of operations, against what their windows allow, bare hops and timely dataflow.

mod farm;
mod granularity;
mod metg;
mod prediction;
mod timely_graph;
mod waits;
mod work;

use crate::area::{Area, Family};
use crate::partner::Role;

/// The area of programs.
pub const AREA: Area = Area {
    name: "flow",
    families: &[
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
    ],
};

/// What the second processes of these figures are.
pub const ROLES: &[Role] = &[timely_graph::ROLE];

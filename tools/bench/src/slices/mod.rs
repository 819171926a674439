//! Slices through volumes, taken where they lie, against what a Python user would pick.

mod body;
mod disks;
mod extraction;
mod near;
mod near_caller;
mod near_lab;
mod node;
mod pictures;
mod planes;
mod python;
mod scaling;
mod viewer;
mod viewer_user;

use crate::area::{BenchArea, FigureFamily};
use crate::partner::PartnerRole;

/// Processes of their own.
pub const ROLES: &[PartnerRole] = &[node::ROLE, near_lab::ROLE, near_caller::ROLE, scaling::ROLE];

/// The area of slices.
pub const AREA: BenchArea = BenchArea {
    name: "slices",
    draw: pictures::draw,
    families: &[
        FigureFamily {
            name: "disks-3",
            what: "oblique slices from 3 disks of 1 node, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[0]),
        },
        FigureFamily {
            name: "disks-6",
            what: "oblique slices from 6 disks of 1 node, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[1]),
        },
        FigureFamily {
            name: "disks-12",
            what: "oblique slices from 12 disks of 1 node, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[2]),
        },
        FigureFamily {
            name: "disks-24",
            what: "oblique slices from 24 disks of 2 nodes, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[3]),
        },
        FigureFamily {
            name: "disks-36",
            what: "oblique slices from 36 disks of 3 nodes, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[4]),
        },
        FigureFamily {
            name: "disks-60",
            what: "oblique slices from 60 disks of 5 nodes, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[5]),
        },
        FigureFamily {
            name: "cache",
            what: "slices one after the other with 25 MB per node, against the best hit rate",
            run: disks::cached,
        },
        FigureFamily {
            name: "warm",
            what: "oblique slices of 512 x 512 from memory, against TensorStore, zarr and memmap",
            run: planes::warm,
        },
        FigureFamily {
            name: "aligned",
            what: "slices across the axes from memory, against TensorStore",
            run: planes::aligned,
        },
        FigureFamily {
            name: "cold",
            what: "oblique slices from the disk, nothing in memory, against the same three",
            run: planes::cold,
        },
        FigureFamily {
            name: "loop",
            what: "the extraction loop alone against a plain gather, and by two threads against one",
            run: extraction::run,
        },
        FigureFamily {
            name: "cores",
            what: "oblique slices from memory by a cluster on two processors, against one",
            run: scaling::run,
        },
        FigureFamily {
            name: "near",
            what: "a filter at four nodes over 1 Gbit/s, against reading, filtering and writing",
            run: near::run,
        },
        FigureFamily {
            name: "viewer",
            what: "20 users who step through slices over HTTP, against 100 ms",
            run: viewer::run,
        },
    ],
};

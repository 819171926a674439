//! Slices through volumes, extracted where the voxels lie, against the libraries that a Python user
//! would choose.

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

/// The roles of second processes in these figures.
pub const ROLES: &[PartnerRole] = &[node::ROLE, near_lab::ROLE, near_caller::ROLE, scaling::ROLE];

/// The area of slices.
pub const AREA: BenchArea = BenchArea {
    name: "slices",
    draw: pictures::draw,
    families: &[
        FigureFamily {
            name: "disks-3",
            description: "oblique slices from 3 disks of 1 node, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[0]),
        },
        FigureFamily {
            name: "disks-6",
            description: "oblique slices from 6 disks of 1 node, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[1]),
        },
        FigureFamily {
            name: "disks-12",
            description: "oblique slices from 12 disks of 1 node, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[2]),
        },
        FigureFamily {
            name: "disks-24",
            description: "oblique slices from 24 disks of 2 nodes, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[3]),
        },
        FigureFamily {
            name: "disks-36",
            description: "oblique slices from 36 disks of 3 nodes, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[4]),
        },
        FigureFamily {
            name: "disks-60",
            description: "oblique slices from 60 disks of 5 nodes, as slow as the thesis', against their bound",
            run: |setting, report| disks::run(setting, report, disks::SITES[5]),
        },
        FigureFamily {
            name: "cache",
            description: "slices one after the other with 25 MB per node, against the best hit rate",
            run: disks::cached,
        },
        FigureFamily {
            name: "warm",
            description: "oblique slices of 512 x 512 from memory, against TensorStore, zarr and memmap",
            run: planes::warm,
        },
        FigureFamily {
            name: "aligned",
            description: "slices across the axes from memory, against TensorStore",
            run: planes::aligned,
        },
        FigureFamily {
            name: "cold",
            description: "oblique slices from the disk, nothing in memory, against the same three",
            run: planes::cold,
        },
        FigureFamily {
            name: "loop",
            description: "the extraction loop alone against a plain gather, and by two threads against one",
            run: extraction::run,
        },
        FigureFamily {
            name: "cores",
            description: "oblique slices from memory by a cluster on two processors, against one",
            run: scaling::run,
        },
        FigureFamily {
            name: "near",
            description: "a filter at four nodes over 1 Gbit/s, against reading, filtering and writing",
            run: near::run,
        },
        FigureFamily {
            name: "viewer",
            description: "20 users who step through slices over HTTP, against 100 ms",
            run: viewer::run,
        },
    ],
};

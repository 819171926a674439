//! The memory and the local disks of a team: one-sided operations, callbacks, record files and cached
//! files.

mod arrays;
mod callbacks;
mod disk_arrays;
mod donio;
mod far_cache;
mod file_loop;
mod gio;
mod grid;
mod one_sided;
mod records;
mod remote_pair;
mod remote_records;
mod team_member;

use crate::area::{BenchArea, FigureFamily, nothing};
use crate::partner::PartnerRole;

/// The area of the memory of a team.
pub const AREA: BenchArea = BenchArea {
    name: "memory",
    draw: nothing,
    families: &[
        FigureFamily {
            name: "one-sided",
            description: "put, get, accumulate and fetch-and-add, against Global Arrays",
            run: one_sided::run,
        },
        FigureFamily {
            name: "callback",
            description: "a callback at another machine, against a round trip over a bare TCP socket",
            run: callbacks::run,
        },
        FigureFamily {
            name: "records",
            description: "pieces of 1 MiB of a record file, against a plain file",
            run: records::run,
        },
        FigureFamily {
            name: "disk-arrays",
            description: "the memory of two processes to a record file and back, against disk resident arrays",
            run: disk_arrays::run,
        },
        FigureFamily {
            name: "far-records",
            description: "pieces of 1 MiB of a part on another machine, against a bare TCP stream with and without a file",
            run: remote_records::run,
        },
        FigureFamily {
            name: "far-cache",
            description: "records on another machine that are read again and again, with and without a cache",
            run: far_cache::run,
        },
        FigureFamily {
            name: "gio",
            description: "figure 2 of the article on GIO: 1 MB near and far, cold and warm, against a plain file",
            run: gio::run,
        },
        FigureFamily {
            name: "donio",
            description: "tables 6.1 to 6.5 of the report on DONIO: cached files of a cluster by 4 to 128 processes, against cread and cwrite in M_ASYNC",
            run: donio::run,
        },
        FigureFamily {
            name: "grid-disk",
            description: "the element list of a grid by four processes, against pwrite and MPI-IO",
            run: grid::run_on_disk,
        },
        FigureFamily {
            name: "grid-tmpfs",
            description: "the same where files are in memory",
            run: grid::run_on_tmpfs,
        },
        FigureFamily {
            name: "grid-gluster",
            description: "the same, against those on a GlusterFS mount",
            run: grid::run_against_gluster,
        },
    ],
};

/// The roles of second processes in these figures.
pub const ROLES: &[PartnerRole] = &[
    one_sided::ROLE,
    callbacks::ROLE,
    disk_arrays::ROLE,
    remote_records::ROLE,
    far_cache::ROLE,
    gio::ROLE,
    file_loop::ROLE,
    grid::member::ROLE,
    grid::site::ROLE,
];

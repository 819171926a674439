//! The cluster as users have it: a node in its own process and the library, against plain files,
//! bare sockets and GlusterFS.

mod against_gluster;
pub mod content;
mod creates;
pub mod gluster;
mod ior_hard;
mod local;
pub mod measured_file;
pub mod node;
mod over_network;
mod workers;

use crate::area::{BenchArea, FigureFamily, nothing};
use crate::partner::PartnerRole;

/// The area of the cluster.
pub const AREA: BenchArea = BenchArea {
    name: "cluster",
    draw: nothing,
    families: &[
        // First, because the file system creates files slowly after many were deleted.
        FigureFamily {
            name: "durable-creates",
            description: "files made per second by 1 and 16 clients, against what JuiceFS documents",
            run: creates::run,
        },
        FigureFamily {
            name: "local-stream-read",
            description: "1 MiB pieces of a file over four disks by the short cut, against pread",
            run: local::run_stream_read,
        },
        FigureFamily {
            name: "local-stream-write",
            description: "the same written, against pwrite",
            run: local::run_stream_write,
        },
        FigureFamily {
            name: "local-random-4k",
            description: "4 KiB at random by the short cut, against pread and pwrite",
            run: local::run_random,
        },
        FigureFamily {
            name: "unix-stream",
            description: "1 MiB pieces over a Unix socket, against a bare one or a plain file",
            run: over_network::run_unix,
        },
        FigureFamily {
            name: "tcp-stream",
            description: "1 MiB pieces over TCP, against a bare socket or a plain file",
            run: over_network::run_tcp,
        },
        FigureFamily {
            name: "ior-hard",
            description: "47,008-byte records of four processes in one file, against pwrite and pread",
            run: ior_hard::run,
        },
        FigureFamily {
            name: "gluster",
            description: "1 MiB streams and 64 KiB at random, 1 and 4 processes, against GlusterFS",
            run: against_gluster::run,
        },
    ],
};

/// The roles of second processes in these figures.
pub const ROLES: &[PartnerRole] = &[node::ROLE, workers::ROLE, gluster::ROLE];

//! Many processes and one file: the modes of shared files, against MPI-IO and plain calls of the
//! system.

mod across;
mod contest;
mod global;
mod gopen;
mod lab;
pub mod lines;
mod log;
mod machine;
mod member;
pub mod moment;
mod mounted;
pub mod mpi;
mod order;
mod record;
mod rivals;
mod site;
mod sync;
pub mod team;
mod unix;

use crate::area::{Area, Family, nothing};
use crate::partner::Role;

/// The area of the modes.
pub const AREA: Area = Area {
    name: "modes",
    draw: nothing,
    families: &[
        Family {
            name: "log",
            what: "64 KiB and 64 bytes appended by all, against MPI_File_write_shared and pwrite",
            run: log::run,
        },
        Family {
            name: "sync",
            what: "64 KiB in the order of ranks, against MPI_File_write_ordered and pwrite",
            run: sync::run,
        },
        Family {
            name: "record",
            what: "records of 64 KiB and 4 KiB, against MPI_File_write_at and pwrite",
            run: record::run,
        },
        Family {
            name: "global",
            what: "1 MiB read by all, against MPI_File_read_all and pread by everybody",
            run: global::run,
        },
        Family {
            name: "gopen",
            what: "opened and closed by 4 and by 64 processes, against MPI_File_open and _close",
            run: gopen::run,
        },
        Family {
            name: "unix",
            what: "64 KiB that never mix, against MPI's atomic mode and M_ASYNC",
            run: unix::run,
        },
        Family {
            name: "across",
            what: "a rank and a node on each of four machines, against MPI on GlusterFS",
            run: across::run,
        },
    ],
};

/// What the second processes of these figures are.
pub const ROLES: &[Role] = &[member::ROLE, lab::ROLE, lab::NODE_ROLE, mounted::ROLE, machine::ROLE];

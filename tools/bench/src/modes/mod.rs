//! Many processes and one file: the modes of shared files, against MPI-IO and plain system calls.

mod across;
mod contest;
mod global;
mod gopen;
pub mod line_socket;
mod log;
mod member;
mod mode_turn;
pub mod monotonic_time;
mod mounted;
pub mod mpi;
mod node_lab;
mod peer_machine;
mod record;
mod rivals;
mod single_machine;
mod sync;
pub mod turn_processes;
mod unix;

use crate::area::{BenchArea, FigureFamily, nothing};
use crate::partner::PartnerRole;

/// The area of the modes.
pub const AREA: BenchArea = BenchArea {
    name: "modes",
    draw: nothing,
    families: &[
        FigureFamily {
            name: "log",
            description: "64 KiB and 64 bytes appended by all, against MPI_File_write_shared and pwrite",
            run: log::run,
        },
        FigureFamily {
            name: "sync",
            description: "64 KiB in the order of ranks, against MPI_File_write_ordered and pwrite",
            run: sync::run,
        },
        FigureFamily {
            name: "record",
            description: "records of 64 KiB and 4 KiB, against MPI_File_write_at and pwrite",
            run: record::run,
        },
        FigureFamily {
            name: "global",
            description: "1 MiB read by all, against MPI_File_read_all and pread by each process",
            run: global::run,
        },
        FigureFamily {
            name: "gopen",
            description: "opened and closed by 4 and by 64 processes, against MPI_File_open and _close",
            run: gopen::run,
        },
        FigureFamily {
            name: "unix",
            description: "64 KiB that never mix, by four processes and by one, against MPI's atomic mode and M_ASYNC",
            run: unix::run,
        },
        FigureFamily {
            name: "across",
            description: "a rank and a node on each of four machines, against MPI on GlusterFS",
            run: across::run,
        },
    ],
};

/// The roles of second processes in these figures.
pub const ROLES: &[PartnerRole] =
    &[member::ROLE, node_lab::ROLE, node_lab::NODE_ROLE, mounted::ROLE, peer_machine::ROLE];

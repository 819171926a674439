//! Tokens between two processes, against bare sockets and ZeroMQ.
//!
//! The sockets of all sides have the same options: `TCP_NODELAY` and cubic for TCP, a send buffer of
//! 1 MiB for Unix sockets. No process is bound to a core.

pub mod bare_socket;
mod round_trip;
pub mod sockets;
mod spaces;
mod stream;
mod tokens;
mod zero_mq;

pub use sockets::{Transport, widen};

use crate::area::{BenchArea, FigureFamily, nothing};
use crate::partner::PartnerRole;

/// The area of the network.
pub const AREA: BenchArea = BenchArea {
    name: "net",
    draw: nothing,
    families: &[
        FigureFamily {
            name: "tcp-round-trip",
            description: "a token of 64 bytes to another process and back, against a bare TCP socket",
            run: round_trip::run_tcp,
        },
        FigureFamily {
            name: "unix-round-trip",
            description: "the same over a Unix socket, against a bare one",
            run: round_trip::run_unix,
        },
        FigureFamily {
            name: "tcp-stream",
            description: "tokens of 64 KiB and 1 MiB one way, against write and read on a bare TCP socket",
            run: stream::run_tcp,
        },
        FigureFamily {
            name: "unix-stream",
            description: "the same over a Unix socket, against a bare one",
            run: stream::run_unix,
        },
        FigureFamily {
            name: "tcp-tokens-1k",
            description: "tokens of 1 KiB one way, against one write for each on a bare TCP socket",
            run: tokens::run_1k,
        },
        FigureFamily {
            name: "tokens-64",
            description: "tokens of 64 bytes one way over TCP, against ZeroMQ with PUSH and PULL",
            run: tokens::run_64,
        },
    ],
};

/// The roles of second processes in these figures.
pub const ROLES: &[PartnerRole] = &[bare_socket::ROLE, spaces::ROLE];

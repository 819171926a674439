//! M_LOG: everybody appends to one file, first come, first served.
//!
//! Against `MPI_File_write_shared`, and for 64 KiB against processes that need no pointer, because
//! they know their places beforehand: `pwrite` of blocks that are interleaved by rank.

use anyhow::Result;

use super::contest::Contest;
use super::order::What;
use super::rivals::Kind;
use super::site;
use crate::area::Setting;
use crate::report::Report;

/// Measures `log-64k-mpi`, `log-64k-pwrite` and `log-64-mpi`.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let large = Contest {
        label: "log-64k",
        what: What::Log,
        piece_bytes: 64 << 10,
        calls: setting.choose(2048, 512),
        is_mounted: false,
        goals: &[(Kind::Mpi, Some(1.0)), (Kind::Plain, Some(0.95))],
    };
    let small = Contest {
        label: "log-64",
        piece_bytes: 64,
        calls: setting.choose(40_000, 8_000),
        goals: &[(Kind::Mpi, Some(3.0))],
        ..large
    };
    site::run(setting, report, "log", &[large, small])
}

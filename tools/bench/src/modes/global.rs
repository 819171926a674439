//! M_GLOBAL: all read the same, and it is read once; against `MPI_File_read_all` of the same bytes by
//! all, and against everybody calling `pread`, where nobody waits for anybody.
//!
//! What counts are the bytes that all processes get together.

use anyhow::Result;

use super::contest::Contest;
use super::order::What;
use super::rivals::Kind;
use super::site;
use crate::area::Setting;
use crate::report::Report;

/// Measures `global-1m-mpi` and `global-1m-pread`.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let contest = Contest {
        label: "global-1m",
        what: What::Global,
        piece_bytes: 1 << 20,
        calls: setting.choose(256, 128),
        is_mounted: false,
        goals: &[(Kind::Mpi, Some(2.0)), (Kind::Plain, Some(1.0))],
    };
    site::run(setting, report, "global", &[contest])
}

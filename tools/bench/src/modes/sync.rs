//! M_SYNC: all write in the order of their ranks, against `MPI_File_write_ordered` and against
//! `pwrite` at the same places, where nobody waits for anybody.

use anyhow::Result;

use super::contest::Contest;
use super::order::What;
use super::rivals::Kind;
use super::site;
use crate::area::Setting;
use crate::report::Report;

/// Measures `sync-64k-mpi` and `sync-64k-pwrite`.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let contest = Contest {
        label: "sync-64k",
        what: What::Sync,
        piece_bytes: 64 << 10,
        calls: setting.choose(2048, 512),
        is_mounted: false,
        goals: &[(Kind::Mpi, Some(1.3)), (Kind::Plain, Some(0.9))],
    };
    site::run(setting, report, "sync", &[contest])
}

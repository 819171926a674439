//! M_UNIX: accesses that never mix, at blocks interleaved by rank; against the same in MPI's atomic
//! mode, and against ours in M_ASYNC, which promises nothing.
//!
//! OMPIO takes no part: it accepts the mode and locks nothing.
//!
//! Interleaved blocks never meet; what it costs where all write the same blocks, one after the other,
//! is measured as well.

use anyhow::Result;

use super::contest::{Contest, PROCESSES};
use super::mpi::Mpi;
use super::order::What;
use super::rivals::{Kind, Rivals};
use super::site::Site;
use crate::area::Setting;
use crate::report::Report;

/// Measures `unix-64k-mpi`, `unix-64k-async` and `unix-same-64k-mpi`.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let contest = Contest {
        label: "unix-64k",
        what: What::Unix,
        piece_bytes: 64 << 10,
        calls: setting.choose(2048, 512),
        is_mounted: false,
        goals: &[(Kind::Mpi, Some(5.0)), (Kind::Async, Some(0.7))],
    };
    let same = Contest {
        label: "unix-same-64k",
        what: What::Same,
        goals: &[(Kind::Mpi, None)],
        ..contest
    };
    let mut site = Site::start(setting, "unix")?;
    let mut ours = site.start_ours("ours", PROCESSES)?;
    let mut rivals = Rivals { all: vec![site.start_async(PROCESSES)?], ..Rivals::default() };
    rivals.start_mpi(&Mpi::ATOMIC, site.dir(), PROCESSES)?;
    contest.run(setting, report, &mut site, &mut ours, &mut rivals)?;
    same.run(setting, report, &mut site, &mut ours, &mut rivals)
}

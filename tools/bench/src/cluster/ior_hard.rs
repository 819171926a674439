//! The hard pattern of IOR: four processes, interleaved records of 47,008 bytes in one file,
//! against the same on a plain file.
//!
//! On both sides the file exists, is in the page cache, and is overwritten. As in IOR, each process
//! reads records that another one has written. Nothing is made durable, because that would measure
//! the disk.

use anyhow::Result;

use super::measured_file::Direction;
use super::node::NodeProcess;
use super::workers::{PieceOrder, WorkerJob, WorkerProcesses};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

const GOAL: f64 = 0.9;
const RECORD_BYTES: usize = 47_008;
const PROCESSES: u64 = 4;

/// Measures `ior-hard-write` and `ior-hard-read`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    // Records per process.
    let records: u64 = setting.choose(1_000, 500);
    let turns = setting.choose(101, 21);
    let file_bytes = PROCESSES * records * RECORD_BYTES as u64;
    if let Some(reason) = setting.lacks_space(4 * file_bytes)? {
        report.skipped("ior-hard-write", reason.clone());
        report.skipped("ior-hard-read", reason);
        return Ok(());
    }
    let dir = setting.subdir("ior-hard")?;
    let node = NodeProcess::start(&dir.join("node"))?;
    let mut ours = WorkerProcesses::of_cluster(&node.unix_address()?, 4)?;
    let mut theirs = WorkerProcesses::of_directory(&dir, 4)?;
    let prepare = |direction| WorkerJob {
        is_preparation: true,
        direction,
        order: PieceOrder::Stream,
        piece_bytes: RECORD_BYTES,
        first: 0,
        step: 1,
        count: PROCESSES * records,
        is_synced: false,
        is_forgotten: false,
        path: "/shared".to_owned(),
    };
    ours.work(&[prepare(Direction::Write)])?;
    theirs.work(&[prepare(Direction::Write)])?;
    for direction in [Direction::Write, Direction::Read] {
        let job = |process: u64| WorkerJob {
            is_preparation: false,
            direction,
            first: match direction {
                Direction::Write => process,
                Direction::Read => (process + 1) % PROCESSES,
            },
            step: PROCESSES,
            count: records,
            ..prepare(direction)
        };
        let jobs: Vec<WorkerJob> = (0..PROCESSES).map(job).collect();
        let comparison = alternate(turns, &mut || ours.work(&jobs), &mut || theirs.work(&jobs))?;
        let name = format!("ior-hard-{}", direction.name());
        report.measured(&name, comparison, Quantity::Megabytes(file_bytes as f64), GOAL);
        ours.work(&[prepare(Direction::Read)])?;
        theirs.work(&[prepare(Direction::Read)])?;
    }
    Ok(())
}

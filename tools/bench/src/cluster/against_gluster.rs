//! GlusterFS, which a user could mount instead: streams of 1 MiB and random accesses of 64 KiB, by
//! 1 and 4 processes.
//!
//! As with fio, each process has its own file and visits each piece once, and the mount drops its
//! client cache before each turn; the page cache of the bricks and of our disks stays. Writes go
//! over existing bytes and end with a sync, which counts. Our side uses a node with the short cut,
//! as users do. One more figure shows how fast the mount reads from its own cache.

use anyhow::Result;

use super::gluster::Gluster;
use super::measured_file::Direction;
use super::node::NodeProcess;
use super::workers::{PieceOrder, WorkerJob, WorkerProcesses};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

const GOAL: f64 = 3.0;
const PROCESSES: u64 = 4;
/// One size for all figures of a file, because its content consists of pieces of this size.
const STREAM_BYTES: usize = 1 << 20;
const RANDOM_BYTES: usize = 64 << 10;

/// Measures all `gluster-*` figures.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let turn_bytes: u64 = setting.choose(128 << 20, 32 << 20);
    if let Some(reason) = setting.lacks_space(16 * turn_bytes)? {
        report.skipped("gluster", reason);
        return Ok(());
    }
    let dir = setting.subdir("gluster")?;
    let mut theirs = match Gluster::start(&dir, 4)? {
        Ok(theirs) => theirs,
        Err(reason) => {
            report.skipped("gluster", reason);
            return Ok(());
        }
    };
    let node = NodeProcess::start(&dir.join("node"))?;
    let mut ours = WorkerProcesses::of_cluster(&node.unix_address()?, 4)?;
    for (order, piece_bytes) in
        [(PieceOrder::Stream, STREAM_BYTES), (PieceOrder::Random, RANDOM_BYTES)]
    {
        let word = if order == PieceOrder::Stream { "stream" } else { "random-64k" };
        let base = |process: u64, processes: u64| WorkerJob {
            is_preparation: true,
            direction: Direction::Write,
            order,
            piece_bytes,
            first: 0,
            step: 1,
            count: turn_bytes / processes / piece_bytes as u64,
            is_synced: false,
            is_forgotten: true,
            path: format!("/{word}-{processes}-{process}"),
        };
        for processes in [1, PROCESSES] {
            let jobs = |change: &dyn Fn(&mut WorkerJob)| -> Vec<WorkerJob> {
                let mut jobs: Vec<WorkerJob> = (0..processes).map(|n| base(n, processes)).collect();
                jobs.iter_mut().for_each(change);
                jobs
            };
            let make = jobs(&|_| ());
            ours.work(&make)?;
            theirs.work(&make)?;
            let check = jobs(&|job| job.direction = Direction::Read);
            let bytes = Quantity::Megabytes(turn_bytes as f64);
            for direction in Direction::BOTH {
                let turn = jobs(&|job| {
                    job.is_preparation = false;
                    job.direction = direction;
                    job.is_synced = direction == Direction::Write;
                });
                let comparison =
                    alternate(setting.choose(21, 15), &mut || ours.work(&turn), &mut || {
                        theirs.work(&turn)
                    })?;
                let name = format!("gluster-{word}-{}-{processes}", direction.name());
                report.measured(&name, comparison, bytes, GOAL);
                ours.work(&check)?;
                theirs.work(&check)?;
            }
            if processes == 1 {
                let turn = jobs(&|job| {
                    job.is_preparation = false;
                    job.direction = Direction::Read;
                    job.is_forgotten = false;
                });
                let comparison =
                    alternate(15, &mut || ours.work(&turn), &mut || theirs.work(&turn))?;
                report.measured(&format!("gluster-{word}-cached-read-1"), comparison, bytes, None);
            }
        }
    }
    Ok(())
}

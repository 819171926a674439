//! What a user would mount instead: 1 MiB streams and 64 KiB at random, by 1 and 4 processes,
//! against GlusterFS.
//!
//! As with fio, each process has a file of its own, visits each piece once, and the mount forgets
//! before each turn what it has cached in the client; what the bricks and our disks have in the page
//! cache stays there. Writes go over existing bytes and end with a sync, which counts. Ours goes
//! over a node with the short cut, as users get it. How fast the mount reads what it has in its
//! own cache is shown as well.

use anyhow::Result;

use super::gluster::Gluster;
use super::node::NodeProcess;
use super::target::Direction;
use super::workers::{Job, Order, Workers};
use crate::area::Setting;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

const GOAL: f64 = 3.0;
const PROCESSES: u64 = 4;
/// One size for all figures of a file: contents are made of pieces as large.
const STREAM_BYTES: usize = 1 << 20;
const RANDOM_BYTES: usize = 64 << 10;

/// Measures all `gluster-*` figures.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
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
    let mut ours = Workers::of_cluster(&node.unix_address()?, 4)?;
    for (order, piece_bytes) in [(Order::Stream, STREAM_BYTES), (Order::Random, RANDOM_BYTES)] {
        let word = if order == Order::Stream { "stream" } else { "random-64k" };
        let base = |process: u64, processes: u64| Job {
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
            let jobs = |change: &dyn Fn(&mut Job)| -> Vec<Job> {
                let mut jobs: Vec<Job> = (0..processes).map(|n| base(n, processes)).collect();
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

//! Durable creates: the files per second that some clients create, against the rate that JuiceFS
//! documents for its fastest durable engine, or the rate that the disk's syncs allow if that is
//! less.
//!
//! Each client has its own connection and creates one file after the other: it opens it with
//! `create_new`, which returns when the file is durable in the namespace, and closes it. The bound
//! of the disk is a plain file to which 4 KiB are appended before each `fdatasync`, measured in the
//! same turns; before each turn the file system finishes the work that the other side has left.
//! With group commit one sync can carry one create of each client, so with 16 clients the disk
//! allows 16 times as many.
//!
//! No file is removed before the end: for half a minute ext4 does not reuse the inodes of deleted
//! files, and inspects each of them at every create.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use pario::Cluster;

use super::node::NodeProcess;
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::{Comparison, rotate};

/// The creates per second that JuiceFS documents, with 1 and 16 clients.
const DOCUMENTED: [(u32, f64); 2] = [(1, 1_400.0), (16, 5_500.0)];
/// Syncs of a turn.
const SYNCS: u32 = 100;

/// Measures `durable-creates-1` and `durable-creates-16`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    for (clients, documented) in DOCUMENTED {
        run_with(setting, report, clients, documented)?;
    }
    Ok(())
}

fn run_with(
    setting: &RunSettings,
    report: &mut Report,
    clients: u32,
    documented: f64,
) -> Result<()> {
    let name = format!("durable-creates-{clients}");
    let turns = setting.choose(31, 15);
    let creates = if clients == 1 { setting.choose(200, 100) } else { setting.choose(640, 320) };
    let dir = setting.subdir(&name)?;
    let node = NodeProcess::start(&dir.join("node"))?;
    let connections: Vec<Cluster> =
        (0..clients).map(|number| node.connect_as(number)).collect::<Result<_>>()?;
    connections[0].make_directory("/made")?;
    let appended = RefCell::new(File::create_new(dir.join("appended"))?);
    let mut turn = 0;
    let seconds = rotate(
        turns,
        &mut [
            &mut || {
                turn += 1;
                setting.flush_file_system()?;
                create(&connections, turn, creates / clients)
            },
            &mut || {
                setting.flush_file_system()?;
                append_and_sync(&mut appended.borrow_mut())
            },
        ],
    )?;
    let [ours_s, syncs_s] = &seconds[..] else { bail!("two sides took turns") };
    check(&connections[0], (turn * creates) as usize)?;
    let by_disk = f64::from(clients * SYNCS) / median(syncs_s);
    eprintln!(
        "  {name}: documented {documented:.0} creates/s, {:.0} syncs/s allow {by_disk:.0}",
        by_disk / f64::from(clients)
    );
    let theirs_s: Vec<f64> = if documented <= by_disk {
        vec![f64::from(creates) / documented; turns]
    } else {
        let share = f64::from(creates) / f64::from(clients * SYNCS);
        syncs_s.iter().map(|seconds| seconds * share).collect()
    };
    let comparison = Comparison::new(ours_s, &theirs_s);
    report.measured(&name, comparison, Quantity::Events(f64::from(creates)), 1.0);
    Ok(())
}

/// Our side: each client creates `each` files.
fn create(clients: &[Cluster], turn: u32, each: u32) -> Result<Duration> {
    let begin = Barrier::new(clients.len() + 1);
    thread::scope(|scope| {
        let client = |(number, cluster): (usize, &Cluster)| -> Result<()> {
            begin.wait();
            for file in 0..each {
                let path = format!("/made/{turn}-{number}-{file}");
                drop(cluster.options().write(true).create_new(true).open(&path)?);
            }
            Ok(())
        };
        let threads: Vec<_> =
            clients.iter().enumerate().map(|one| scope.spawn(move || client(one))).collect();
        begin.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().ok().context("a client panicked")??;
        }
        Ok(start.elapsed())
    })
}

/// The bound of the disk.
fn append_and_sync(file: &mut File) -> Result<Duration> {
    let block = [7; 4096];
    let start = Instant::now();
    for _ in 0..SYNCS {
        file.write_all(&block)?;
        file.sync_data()?;
    }
    Ok(start.elapsed())
}

/// Checks that all files exist.
fn check(cluster: &Cluster, expected: usize) -> Result<()> {
    let found = cluster.list_names("/made")?.count();
    anyhow::ensure!(found == expected, "{found} files are there instead of {expected}");
    Ok(())
}

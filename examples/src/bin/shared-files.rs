//! Shared files in every mode.
//!
//! Each process writes at the position that the mode of the file assigns; then all check that every
//! byte is where it belongs. Start it as a job of four:
//!
//! ```text
//! cargo build -p pario-examples
//! pario run -n 4 target/debug/shared-files
//! mpirun -n 4 target/debug/shared-files   # uses your running node: pario serve
//! ```

use std::io::SeekFrom;

use anyhow::{Context, ensure};
use pario::{Cluster, Job, JobFiles, Mode};

/// Bytes of a record.
const RECORD: usize = 100;

fn main() -> anyhow::Result<()> {
    let files = Job::from_env()?.files(&Cluster::from_env()?);
    work(&files)?;
    if files.job().rank() == 0 {
        println!(
            "ranks 0 to {}, six modes: every byte is where it belongs",
            files.job().size() - 1
        );
    }
    Ok(())
}

/// Runs the example as one process of a job.
pub fn work(files: &JobFiles) -> anyhow::Result<()> {
    log(files).context("M_LOG")?;
    sync(files).context("M_SYNC")?;
    record(files).context("M_RECORD")?;
    global(files).context("M_GLOBAL")?;
    private(files, Mode::Unix).context("M_UNIX")?;
    private(files, Mode::Async).context("M_ASYNC")
}

/// M_LOG: one pointer for all ranks, first come, first served: all append, and no line is lost.
fn log(files: &JobFiles) -> anyhow::Result<()> {
    let line = |rank: u32, number: u32| format!("rank {rank} was here, {number}\n");
    let path = path_of(files, "log");
    let file = files.create(&path, Mode::Log)?;
    for number in 0..3 {
        file.write(line(files.job().rank(), number).as_bytes())?;
    }
    file.close()?;
    let text = String::from_utf8(content(files, &path)?)?;
    let mut found: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let expected =
        (0..files.job().size()).flat_map(|rank| (0..3).map(move |number| line(rank, number)));
    let mut expected: Vec<String> = expected.collect();
    found.sort();
    expected.sort();
    ensure!(found == expected, "the lines are not those that were written:\n{text}");
    remove(files, &path)
}

/// M_SYNC: one pointer for all ranks, in rank order, with any sizes.
fn sync(files: &JobFiles) -> anyhow::Result<()> {
    let part = |rank: u32| vec![byte_of(rank); rank as usize % 7 + 1];
    let path = path_of(files, "result");
    let file = files.create(&path, Mode::Sync)?;
    for _ in 0..2 {
        file.write(&part(files.job().rank()))?;
    }
    file.seek(SeekFrom::Start(0))?;
    let mut own = part(files.job().rank());
    own.fill(0);
    file.read(&mut own)?;
    ensure!(own == part(files.job().rank()), "rank {} has read {own:?}", files.job().rank());
    file.close()?;
    let round = || (0..files.job().size()).flat_map(part);
    let expected: Vec<u8> = round().chain(round()).collect();
    ensure!(content(files, &path)? == expected, "the parts are not in the order of ranks");
    remove(files, &path)
}

/// M_RECORD: records side by side, one per rank; no rank waits for another.
fn record(files: &JobFiles) -> anyhow::Result<()> {
    let path = path_of(files, "state");
    let file = files.create(&path, Mode::Record)?;
    for round in 0..2 {
        file.write(&[byte_of(files.job().rank()).wrapping_add(round); RECORD])?;
    }
    file.close()?;
    let of = |round| (0..files.job().size()).map(move |rank| byte_of(rank).wrapping_add(round));
    let records = of(0).chain(of(1)).flat_map(|byte| [byte; RECORD]);
    let expected: Vec<u8> = records.collect();
    ensure!(content(files, &path)? == expected, "the records are not where they belong");
    remove(files, &path)
}

/// M_GLOBAL: all ranks make the same call; the file is accessed once.
fn global(files: &JobFiles) -> anyhow::Result<()> {
    let path = path_of(files, "head");
    let file = files.create(&path, Mode::Global)?;
    file.write(b"everybody writes this, and it is there once")?;
    ensure!(file.len()? == 43, "{} bytes were written", file.len()?);
    file.seek(SeekFrom::Start(10))?;
    let mut word = [0; 6];
    file.read(&mut word)?;
    ensure!(&word == b"writes", "rank {} has read {word:?}", files.job().rank());
    file.close()?;
    remove(files, &path)
}

/// M_UNIX and M_ASYNC: each rank has a private pointer.
fn private(files: &JobFiles, mode: Mode) -> anyhow::Result<()> {
    let path = path_of(files, "private");
    let file = files.create(&path, mode)?;
    file.seek(SeekFrom::Start(u64::from(files.job().rank()) * RECORD as u64))?;
    file.write(&[byte_of(files.job().rank()); RECORD])?;
    files.barrier()?;
    let next = (files.job().rank() + 1) % files.job().size();
    file.seek(SeekFrom::Start(u64::from(next) * RECORD as u64))?;
    let mut record = [0; RECORD];
    file.read(&mut record)?;
    ensure!(record == [byte_of(next); RECORD], "rank {next} has written {record:?}");
    file.close()?;
    remove(files, &path)
}

/// Returns a path that no other job uses.
fn path_of(files: &JobFiles, name: &str) -> String {
    format!("/{name} of {}", files.job().name().replace('/', "-"))
}

fn byte_of(rank: u32) -> u8 {
    b"abcdefghijklmnopqrstuvwxyz"[rank as usize % 26]
}

fn content(files: &JobFiles, path: &str) -> anyhow::Result<Vec<u8>> {
    let file = files.cluster().open(path)?;
    let mut bytes = vec![0; usize::try_from(file.len()?)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Removes a file after all ranks are done with it.
fn remove(files: &JobFiles, path: &str) -> anyhow::Result<()> {
    files.barrier()?;
    if files.job().rank() == 0 {
        files.cluster().remove(path)?;
    }
    Ok(())
}

//! Random reads of extents with a fixed number under way, against the same from a plain file.
//!
//! Both sides read 52 KiB per request past the page cache and count 51 KiB of it. Our side looks
//! the extent up, verifies its checksum and returns its header and body; the peer does nothing with
//! the bytes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pario_store::{Caching, ExtentFile, NewSubfile, Queue, Reply, Request, SubfileId};

use super::direct_reads::DirectReads;
use super::stream::{start_queue, stream};
use super::{
    EXTENT_BYTES, EXTENT_ON_DISK_BYTES, UNDER_WAY, fill_pool, make_disk, plain_file,
    random_sources, stamped_extent,
};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

const GOAL: f64 = 0.95;

/// Measures `random-read`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let set_bytes: u64 = setting.choose(2 << 30, 512 << 20);
    let reads: u64 = setting.choose(6_000, 2_000);
    let turns = setting.choose(61, 25);
    if let Some(reason) = setting.lacks_space(3 * set_bytes)? {
        report.skipped("random-read", reason);
        return Ok(());
    }
    if let Err(error) = DirectReads::ring(UNDER_WAY) {
        report.skipped("random-read", format!("no io_uring here: {error}"));
        return Ok(());
    }

    let extents = set_bytes / EXTENT_ON_DISK_BYTES as u64 + 1;
    let disk = make_disk(setting, "random-read.disk", 0)?;
    let file = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0)))?;
    let mut queue = start_queue(UNDER_WAY)?;
    fill_pool(&disk, EXTENT_BYTES, 2 * UNDER_WAY)?;
    fill(&mut queue, &file, extents)?;
    let plain_path = setting.dir.join("random-read.plain");
    let mut plain = make_plain(&plain_path, extents * EXTENT_ON_DISK_BYTES as u64)?;
    setting.flush_file_system()?;

    let mut our_random = fastrand::Rng::with_seed(3);
    let mut their_random = fastrand::Rng::with_seed(3);
    let comparison = alternate(
        turns,
        &mut || read(&mut queue, &file, extents, reads, &mut our_random),
        &mut || {
            let start = Instant::now();
            plain.run(reads, &mut their_random)?;
            Ok(start.elapsed())
        },
    )?;
    let bytes = Quantity::Megabytes((reads * EXTENT_BYTES as u64) as f64);
    report.measured("random-read", comparison, bytes, GOAL);
    drop((queue, file, disk, plain));
    std::fs::remove_file(plain_path)?;
    std::fs::remove_dir_all(setting.dir.join("random-read.disk"))?;
    Ok(())
}

/// Our side: reads extents at random, past the cache.
fn read(
    queue: &mut Queue,
    file: &ExtentFile,
    extents: u64,
    reads: u64,
    random: &mut fastrand::Rng,
) -> Result<Duration> {
    let mut payload_bytes = 0;
    let request = |_| {
        Ok(Request::ReadExtent {
            file: file.clone(),
            index: random.u64(..extents),
            caching: Caching::Bypass,
            prefetch_index: false,
        })
    };
    let answered = |_, reply| {
        if let Reply::Extent(Some(extent)) = reply {
            payload_bytes += (extent.header().len() + extent.body().len()) as u64;
        }
    };
    let start = Instant::now();
    stream(queue, UNDER_WAY, reads, request, answered)?;
    let elapsed = start.elapsed();
    ensure!(payload_bytes == reads * EXTENT_BYTES as u64, "extents are missing");
    Ok(elapsed)
}

/// Writes the extents 0 to `extents`.
fn fill(queue: &mut Queue, file: &ExtentFile, extents: u64) -> Result<()> {
    let request = |index| {
        Ok(Request::WriteExtent {
            file: file.clone(),
            index,
            extent: stamped_extent(file, index)?,
            caching: Caching::Bypass,
        })
    };
    stream(queue, UNDER_WAY, extents, request, |_, _| {})?;
    file.clone().close().context("closing the subfile")
}

/// Writes a plain file of `bytes` and prepares the peer's reads from it.
pub fn make_plain(path: &std::path::Path, bytes: u64) -> Result<DirectReads> {
    let pieces = bytes.div_ceil(EXTENT_BYTES as u64);
    let file = plain_file::create(path)?;
    plain_file::write_and_sync(&file, &random_sources(UNDER_WAY), pieces)?;
    // Direct reads would also look for bytes in the page cache.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    DirectReads::open(path, UNDER_WAY, u32::try_from(EXTENT_ON_DISK_BYTES)?)
}

//! Cached reads by two threads, against copying the same bytes from memory to memory.
//!
//! The set is larger than any cache of a processor, and both sides visit it in the same random
//! order. Each thread copies the bytes into one buffer of its own.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pario_store::{Buffer, BufferPool, Caching, ExtentFile, NewSubfile, SubfileId};

use super::{EXTENT_BYTES, EXTENT_ON_DISK_BYTES, HEADER_BYTES, make_disk};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

const GOAL: f64 = 0.6;
const THREADS: u64 = 2;
const SET_BYTES: u64 = 256 << 20;

/// Measures `cached-read`.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let reads: u64 = setting.choose(4_000, 2_000);
    let turns = setting.choose(61, 31);
    if let Some(reason) = setting.lacks_space(2 * SET_BYTES)? {
        report.skipped("cached-read", reason);
        return Ok(());
    }
    let extents = SET_BYTES / EXTENT_ON_DISK_BYTES as u64;
    let disk = make_disk(setting, "cached-read.disk", 2 * SET_BYTES)?;
    let file = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0)))?;
    // Every byte is written, because untouched memory is one page of zeros, over and over.
    let mut random = fastrand::Rng::with_seed(5);
    for index in 0..extents {
        let mut extent = file.buffer(HEADER_BYTES, EXTENT_BYTES - HEADER_BYTES)?;
        random.fill(extent.header_mut());
        random.fill(extent.body_mut());
        file.write_buffer(index, extent, Caching::Use)?;
    }
    file.sync()?;
    let sources = source_buffers(extents);
    let misses_before = disk.cache().stat().misses;

    let (mut our_turn, mut their_turn) = (0, 0);
    let comparison = alternate(
        turns,
        &mut || {
            our_turn += 1;
            in_threads(our_turn, |random, own| {
                for _ in 0..reads {
                    copy_extent(&file, random.u64(..extents), own)?;
                }
                Ok(())
            })
        },
        &mut || {
            their_turn += 1;
            in_threads(their_turn, |random, own| {
                for _ in 0..reads {
                    let index = usize::try_from(random.u64(..extents))?;
                    own.copy_from_slice(&sources[index][..EXTENT_BYTES]);
                    black_box(&mut *own);
                }
                Ok(())
            })
        },
    )?;
    let misses = disk.cache().stat().misses - misses_before;
    ensure!(misses == 0, "{misses} reads were not answered by the cache");
    let bytes = Quantity::Gigabytes((THREADS * reads * EXTENT_BYTES as u64) as f64);
    report.measured("cached-read", comparison, bytes, GOAL);
    Ok(())
}

/// Reads an extent and copies header and body.
fn copy_extent(file: &ExtentFile, index: u64, own: &mut [u8]) -> Result<()> {
    let extent = file.read(index)?.context("an extent is missing")?;
    let (header, body) = own.split_at_mut(extent.header().len());
    header.copy_from_slice(extent.header());
    body.copy_from_slice(extent.body());
    black_box(&mut *own);
    Ok(())
}

/// Memory of the same kind as the cache's, with random bytes.
fn source_buffers(count: u64) -> Vec<Buffer> {
    let pool = BufferPool::new(0);
    let mut random = fastrand::Rng::with_seed(4);
    let source = |_| {
        let mut buffer = pool.get(EXTENT_ON_DISK_BYTES);
        random.fill(&mut buffer);
        buffer
    };
    (0..count).map(source).collect()
}

/// Lets all threads work at once, each with its own random order and buffer. Returns the time from
/// the first start to the last end.
fn in_threads(
    turn: u64,
    work: impl Fn(&mut fastrand::Rng, &mut [u8]) -> Result<()> + Sync,
) -> Result<Duration> {
    let barrier = Barrier::new(usize::try_from(THREADS)?);
    let one = |thread: u64| {
        let mut random = fastrand::Rng::with_seed(turn * THREADS + thread);
        let mut own = vec![1; EXTENT_BYTES];
        barrier.wait();
        let start = Instant::now();
        work(&mut random, &mut own)?;
        Ok((start, Instant::now()))
    };
    let times: Result<Vec<(Instant, Instant)>> = thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || one(thread))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().expect("threads that copy do not panic")
        };
        threads.into_iter().map(join).collect()
    });
    let times = times?;
    let start = times.iter().map(|time| time.0).min();
    let end = times.iter().map(|time| time.1).max();
    let (start, end) = start.zip(end).context("there are threads")?;
    Ok(end - start)
}

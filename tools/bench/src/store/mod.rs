//! The store of one disk, against plain files and plain memory.

mod cached_read;
mod direct_reads;
mod flat;
mod growth;
mod plain_file;
mod population;
mod random_read;
mod stream;
mod write_sync;

use anyhow::{Context, Result};
use pario_store::{Disk, DiskOptions, ExtentBuffer, ExtentCache, ExtentFile};

use crate::area::{BenchArea, FigureFamily, RunSettings, nothing};

/// The area of the store.
pub const AREA: BenchArea = BenchArea {
    name: "store",
    draw: nothing,
    families: &[
        FigureFamily {
            name: "random-read",
            description: "random reads of 51 KiB extents, 16 under way, against io_uring on a plain file",
            run: random_read::run,
        },
        FigureFamily {
            name: "write-sync",
            description: "writing 51 KiB extents, then sync, against pwrite, then fdatasync",
            run: write_sync::run_new,
        },
        FigureFamily {
            name: "rewrite-sync",
            description: "replacing 51 KiB extents, then sync, against pwrite in place, then fdatasync",
            run: write_sync::run_again,
        },
        FigureFamily {
            name: "cached-read",
            description: "cached reads of 51 KiB extents by two threads, against memcpy",
            run: cached_read::run,
        },
        FigureFamily {
            name: "flat-read-1m",
            description: "read_at of 1 MiB on warm data, against pread",
            run: flat::run_read_1m,
        },
        FigureFamily {
            name: "flat-write-1m",
            description: "write_at of 1 MiB on warm data, against pwrite",
            run: flat::run_write_1m,
        },
        FigureFamily {
            name: "flat-read-4k",
            description: "read_at of 4 KiB on warm data, against pread",
            run: flat::run_read_4k,
        },
        FigureFamily {
            name: "flat-write-4k",
            description: "write_at of 4 KiB on warm data, against pwrite",
            run: flat::run_write_4k,
        },
        FigureFamily {
            name: "growth",
            description: "time per write in ever larger subfiles, against one of 10,000 extents",
            run: growth::run,
        },
    ],
};

/// Header and body of the extents that are measured: 51 KiB.
const EXTENT_BYTES: usize = 51 << 10;

/// The part of it that is the header.
const HEADER_BYTES: usize = 64;

/// The size of such an extent on the disk; plain files are read in pieces of the same size.
const EXTENT_ON_DISK_BYTES: usize = 52 << 10;

/// Requests under way on the disk.
const UNDER_WAY: usize = 16;

/// Creates a disk in a directory of its own.
fn make_disk(setting: &RunSettings, name: &str, cache_bytes: u64) -> Result<Disk> {
    let options = DiskOptions { cache: ExtentCache::new(cache_bytes), ..DiskOptions::default() };
    Disk::create(setting.dir.join(name), options).context("creating a disk")
}

/// An extent of 51 KiB whose header carries its index. Its other bytes are those of its memory: see
/// [`fill_pool`].
fn stamped_extent(file: &ExtentFile, index: u64) -> Result<ExtentBuffer> {
    let mut extent = file.buffer(HEADER_BYTES, EXTENT_BYTES - HEADER_BYTES)?;
    extent.header_mut()[..8].copy_from_slice(&index.to_le_bytes());
    Ok(extent)
}

/// Puts memory with random bytes for `count` extents of a size into the pool of a disk, so that its
/// users need not fill it; [`random_sources`] are not filled again either.
fn fill_pool(disk: &Disk, extent_bytes: usize, count: usize) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut extents = Vec::new();
    for _ in 0..count {
        let mut extent = ExtentBuffer::new(disk.pool(), 0, extent_bytes)?;
        random.fill(extent.body_mut());
        extents.push(extent);
    }
    Ok(())
}

/// Buffers of 51 KiB with random bytes.
fn random_sources(count: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(2);
    let source = |_| {
        let mut bytes = vec![0; EXTENT_BYTES];
        random.fill(&mut bytes);
        bytes
    };
    (0..count).map(source).collect()
}

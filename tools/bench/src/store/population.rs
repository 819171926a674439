//! A subfile filled to a given number of extents.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pario_store::{Caching, Disk, ExtentFile, NewSubfile, Queue, Request, SubfileId};

use super::stream::stream;

/// The distance between neighbouring indices at the beginning, which leaves space for new extents.
const STEP: u64 = 8;

/// The size of the extents of a subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentShape {
    /// Bytes of the body; there is no header.
    pub body_bytes: usize,
    /// The bytes of an extent on the disk.
    pub granule_bytes: u32,
}

impl ExtentShape {
    /// An extent takes 4 KiB.
    pub const USUAL: Self = Self { body_bytes: 4_000, granule_bytes: 4_096 };
    /// An extent takes 512 bytes, for disks without much space and for quick runs.
    pub const SMALL: Self = Self { body_bytes: 400, granule_bytes: 512 };

    /// The space for `extents` extents, with index and journal.
    pub fn bytes_for(self, extents: u64) -> u64 {
        extents * (u64::from(self.granule_bytes) + 100)
    }
}

/// A subfile with extents at every eighth index.
pub struct Population {
    /// The number of extents between turns.
    pub extents: u64,
    file: ExtentFile,
    shape: ExtentShape,
    random: fastrand::Rng,
}

impl Population {
    /// Creates and fills a subfile, with `depth` writes under way.
    pub fn fill(
        disk: &Disk,
        queue: &mut Queue,
        depth: usize,
        shape: ExtentShape,
        extents: u64,
    ) -> Result<Self> {
        let mut new = NewSubfile::new(SubfileId::data(1, u32::try_from(extents)?));
        new.granule_bytes = shape.granule_bytes;
        let population = Self {
            extents,
            file: disk.create_extents(new)?,
            shape,
            random: fastrand::Rng::with_seed(extents),
        };
        let start = Instant::now();
        let mut told = start;
        let request = |number| {
            if number % 1_000 == 0 && told.elapsed() > Duration::from_secs(5) {
                told = Instant::now();
                eprintln!("  {number} of {extents} extents after {:.0?}", start.elapsed());
            }
            population.write_request(number * STEP)
        };
        stream(queue, depth, extents, request, |_, _| {})?;
        population.file.clone().close()?;
        eprintln!("  filled {extents} extents in {:.1?}", start.elapsed());
        Ok(population)
    }

    /// Replaces `count` extents chosen at random.
    pub fn rewrite(&mut self, queue: &mut Queue, depth: usize, count: u64) -> Result<Duration> {
        let (random, extents) = (&mut self.random, self.extents);
        let indices: Vec<u64> = (0..count).map(|_| random.u64(..extents) * STEP).collect();
        self.write(queue, depth, &indices)
    }

    /// Writes `count` extents to unused indices chosen at random, and writes a checkpoint. The
    /// extents are deleted outside of the measured time.
    pub fn insert(&mut self, queue: &mut Queue, depth: usize, count: u64) -> Result<Duration> {
        let room = self.extents * (STEP - 1);
        ensure!(
            count <= room / 2,
            "{count} new extents are too many where there are {room} places"
        );
        let mut unused = HashSet::new();
        let mut indices = Vec::new();
        while (indices.len() as u64) < count {
            let index = self.random.u64(..self.extents) * STEP + self.random.u64(1..STEP);
            if unused.insert(index) {
                indices.push(index);
            }
        }
        let start = Instant::now();
        self.write(queue, depth, &indices)?;
        self.file.clone().close()?;
        let time = start.elapsed();
        let file = self.file.clone();
        let request = |number| {
            Ok(Request::DeleteExtent {
                file: file.clone(),
                index: indices[usize::try_from(number)?],
            })
        };
        stream(queue, depth, count, request, |_, _| {})?;
        self.file.clone().close()?;
        Ok(time)
    }

    fn write(&mut self, queue: &mut Queue, depth: usize, indices: &[u64]) -> Result<Duration> {
        let start = Instant::now();
        let request = |number| self.write_request(indices[usize::try_from(number)?]);
        stream(queue, depth, indices.len() as u64, request, |_, _| {})?;
        self.file.sync()?;
        Ok(start.elapsed())
    }

    fn write_request(&self, index: u64) -> Result<Request> {
        let file = self.file.clone();
        let mut extent = file.buffer(0, self.shape.body_bytes)?;
        extent.body_mut()[..8].copy_from_slice(&index.to_le_bytes());
        let caching = Caching::Bypass;
        Ok(Request::WriteExtent { file, index, extent, caching })
    }
}

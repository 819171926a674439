//! Four disks and one parallel file over them: a subfile of extents on each. Extent `n` of the
//! file is number `n / 4` on disk `n % 4`.

use std::path::Path;

use anyhow::{Context, bail};
use indicatif::DecimalBytes;
use pario_store::{
    BufferPool, Caching, Disk, DiskOptions, ExtentCache, ExtentFile, NewSubfile, Request,
    StoreError, SubfileId,
};

use super::content::{Content, HEADER_LEN, Version};
use super::report::DiskSpace;

/// How many there are.
pub const DISKS: u32 = 4;

/// The parallel file of the demo.
const FILE: u128 = u128::from_be_bytes(*b"pario demo file.");

/// Idle buffers, for all disks together.
const POOL_BYTES: usize = 64 << 20;

/// The disks of a demo.
#[derive(Debug)]
pub struct Disks {
    subfiles: Vec<ExtentFile>,
    disks: Vec<Disk>,
    cache: ExtentCache,
}

/// Where an extent of the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the disk.
    pub disk: usize,
    /// The index in the disk's subfile.
    pub index: u64,
}

impl Disks {
    /// Makes the disks in a directory, with one cache for all of them.
    pub fn create(dir: &Path, cache_bytes: u64) -> anyhow::Result<Self> {
        let cache = ExtentCache::new(cache_bytes);
        let options = DiskOptions {
            cache: cache.clone(),
            pool: BufferPool::new(POOL_BYTES),
            ..DiskOptions::default()
        };
        let (mut disks, mut subfiles) = (Vec::new(), Vec::new());
        for number in 0..DISKS {
            let disk = Disk::create(dir.join(format!("disk{number}")), options.clone())?;
            let mut subfile = NewSubfile::new(SubfileId::data(FILE, number));
            subfile.path = "/demo".into();
            subfiles.push(disk.create_extents(subfile)?);
            disks.push(disk);
        }
        Ok(Self { subfiles, disks, cache })
    }

    /// Refuses what would not fit. All disks are on one file system: each of them has all of its
    /// free space, and they share it.
    pub fn check_space(&self, dir: &Path, size_bytes: u64) -> anyhow::Result<()> {
        let needed = needed_bytes(size_bytes);
        for disk in &self.disks {
            let free = disk.space()?.free_bytes;
            if free < needed {
                bail!(
                    "not enough space in {}: {} are free, the demo needs about {}; ask for less \
                     with --size, or name a directory on a larger disk with --dir",
                    dir.display(),
                    DecimalBytes(free),
                    DecimalBytes(needed)
                );
            }
        }
        Ok(())
    }

    /// The cache of all disks.
    pub fn cache(&self) -> &ExtentCache {
        &self.cache
    }

    /// The subfiles, disk by disk.
    pub fn subfiles(&self) -> &[ExtentFile] {
        &self.subfiles
    }

    /// Where an extent is.
    pub fn place(&self, extent: u64) -> Place {
        let disk = extent % u64::from(DISKS);
        Place {
            disk: usize::try_from(disk).expect("there are few disks"),
            index: extent / u64::from(DISKS),
        }
    }

    /// The request to read an extent.
    pub fn read(&self, extent: u64, caching: Caching) -> Request {
        let (file, index) = self.find(extent);
        Request::ReadExtent { file, index, caching }
    }

    /// The request to write a version of an extent, past the cache.
    pub fn write(
        &self,
        extent: u64,
        version: Version,
        content: &Content,
    ) -> Result<Request, StoreError> {
        let (file, index) = self.find(extent);
        let mut buffer = file.buffer(HEADER_LEN, version.body_len as usize)?;
        let header = content.header(extent, version);
        buffer.header_mut().copy_from_slice(&header);
        let body = content.body(extent, version);
        buffer.body_mut().copy_from_slice(body);
        Ok(Request::WriteExtent { file, index, extent: buffer, caching: Caching::Bypass })
    }

    /// The request to delete an extent.
    pub fn delete(&self, extent: u64) -> Request {
        let (file, index) = self.find(extent);
        Request::DeleteExtent { file, index }
    }

    /// The requests to make everything durable.
    pub fn sync(&self) -> impl Iterator<Item = Request> {
        let subfiles = self.subfiles.iter().cloned();
        subfiles.map(|file| Request::SyncExtents { file })
    }

    /// What each disk holds and takes.
    pub fn space(&self) -> anyhow::Result<Vec<DiskSpace>> {
        let numbered = self.subfiles.iter().enumerate();
        numbered
            .map(|(number, subfile)| {
                let stat =
                    subfile.stat().with_context(|| format!("cannot measure disk{number}"))?;
                Ok(DiskSpace {
                    disk: format!("disk{number}"),
                    extents: stat.extents,
                    live_bytes: stat.live_bytes,
                    disk_bytes: stat.disk_bytes,
                })
            })
            .collect()
    }

    fn find(&self, extent: u64) -> (ExtentFile, u64) {
        let Place { disk, index } = self.place(extent);
        (self.subfiles[disk].clone(), index)
    }
}

/// Space for everything at once: what is stored, rewritten extents beside the old ones, what a
/// compaction moves out of its way, space that is reserved ahead, indices and journals.
fn needed_bytes(size_bytes: u64) -> u64 {
    const COMPACTION_BYTES: u64 = DISKS as u64 * (16 << 20);
    const RESERVED_BYTES: u64 = 16 << 20;
    size_bytes
        .saturating_add(size_bytes / 2)
        .saturating_add(size_bytes.min(COMPACTION_BYTES))
        .saturating_add(RESERVED_BYTES)
}

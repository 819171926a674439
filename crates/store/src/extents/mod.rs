//! Extent subfiles: extents of any size under indices, each replaced as a whole.

mod block;
mod check;
mod checkpoint;
mod compaction;
mod free_space;
mod journal;
mod open_file;
mod recovery;
mod reservation;

use std::ops::RangeInclusive;
use std::sync::Arc;

pub(crate) use block::ExtentEntry;
pub use block::{EXTENT_LIMIT_BYTES, Extent, ExtentBuffer, MAX_EXTENT_INDEX};
pub use check::CheckDepth;
pub use compaction::{CompactionCursor, CompactionStep};
pub(crate) use open_file::{ExtentFileLimits, IndexLookup, OpenExtentFile, next_open_id};
pub(crate) use recovery::{DESCRIPTION, Recovery, create_files};
pub(crate) use reservation::Reservation;

use crate::error::StoreError;
use crate::index::PageLoad;
use crate::subfile::SubfileId;
use open_file::ExtentFileState;

/// Whether a request may use the extent cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// Look the extent up in the cache, and put it there after a read or write.
    #[default]
    Use,
    /// Access the disk, and leave the cache unchanged.
    Bypass,
}

/// An open extent subfile. Clones are the same subfile; any number of threads may use them.
///
/// These calls block the calling thread until the disk has answered. A [`crate::Queue`] keeps many
/// requests in flight from one thread.
///
/// ```
/// # fn main() -> Result<(), pario_store::StoreError> {
/// # let dir = tempfile::tempdir().unwrap();
/// use pario_store::{Disk, DiskOptions, NewSubfile, SubfileId};
///
/// let disk = Disk::create(dir.path(), DiskOptions::default())?;
/// let tiles = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0)))?;
/// tiles.write(7, b"jpeg 32x32", &[1, 2, 3])?;
/// let tile = tiles.read(7)?.expect("just written");
/// assert_eq!((tile.header(), tile.body()), (&b"jpeg 32x32"[..], &[1, 2, 3][..]));
/// assert!(tiles.read(8)?.is_none());
/// tiles.sync()?; // now it survives a power loss, too
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ExtentFile {
    pub(crate) inner: Arc<OpenExtentFile>,
}

/// What [`ExtentFile::peek`] finds without disk I/O.
#[derive(Clone, Debug)]
pub enum ExtentPeek {
    /// The cache holds the extent.
    Extent(Extent),
    /// There is no such extent.
    Absent,
    /// Only the disk can tell.
    Unknown,
}

/// An entry of [`ExtentFile::list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentInfo {
    /// Its index.
    pub index: u64,
    /// Length of the header.
    pub header_len: u32,
    /// Length of the body.
    pub body_len: u32,
}

/// The content and the disk space of an extent subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentStat {
    /// Number of extents.
    pub extents: u64,
    /// Sum of the lengths of their headers and bodies.
    pub live_bytes: u64,
    /// Bytes that the subfile occupies on the disk: data, index and journal.
    pub disk_bytes: u64,
    /// Bytes of replaced extents that the next sync frees.
    pub waiting_bytes: u64,
    /// When the files on the disk last changed, in nanoseconds since 1970.
    pub modified_ns: u64,
}

impl ExtentFile {
    /// The identity of the subfile.
    pub fn id(&self) -> SubfileId {
        self.inner.context.subfile
    }

    /// Reads an extent; `None` if there is none at the index.
    pub fn read(&self, index: u64) -> Result<Option<Extent>, StoreError> {
        self.read_with(index, Caching::Use)
    }

    /// Reads an extent, with or without the cache.
    pub fn read_with(&self, index: u64, caching: Caching) -> Result<Option<Extent>, StoreError> {
        self.inner.read(index, caching, OpenExtentFile::find_waiting)
    }

    /// Reads an extent like [`ExtentFile::read`], and prefetches the index around its entry: for
    /// callers that read many extents.
    pub fn read_prefetching_index(&self, index: u64) -> Result<Option<Extent>, StoreError> {
        self.inner.read(index, Caching::Use, OpenExtentFile::find_prefetching_index)
    }

    /// Looks for an extent in memory, without disk I/O.
    ///
    /// ```
    /// # fn main() -> Result<(), pario_store::StoreError> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use pario_store::{ExtentPeek, Disk, DiskOptions, ExtentCache, NewSubfile, SubfileId};
    ///
    /// let options = DiskOptions { cache: ExtentCache::new(1 << 20), ..DiskOptions::default() };
    /// let disk = Disk::create(dir.path(), options)?;
    /// let tiles = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0)))?;
    /// tiles.write(7, b"", b"pixels")?;
    /// assert!(matches!(tiles.peek(7)?, ExtentPeek::Extent(tile) if tile.body() == b"pixels"));
    /// assert!(matches!(tiles.peek(8)?, ExtentPeek::Absent));
    /// # Ok(())
    /// # }
    /// ```
    pub fn peek(&self, index: u64) -> Result<ExtentPeek, StoreError> {
        OpenExtentFile::check_index(index)?;
        Ok(match self.inner.find(index)? {
            IndexLookup::Absent => ExtentPeek::Absent,
            IndexLookup::NeedsPage(_) => ExtentPeek::Unknown,
            IndexLookup::At(entry) => match self.inner.peek_cache(entry) {
                Some(extent) => ExtentPeek::Extent(extent),
                None => ExtentPeek::Unknown,
            },
        })
    }

    /// Writes an extent and replaces the one that has the index. After a crash the subfile has the
    /// old extent or the new one, whole. The next sync frees the space of the old one. If too much
    /// space waits for a sync, or the disk is full, the write waits for that sync.
    pub fn write(&self, index: u64, header: &[u8], body: &[u8]) -> Result<(), StoreError> {
        let extent = ExtentBuffer::copy_of(&self.inner.pool, header, body)?;
        self.write_buffer(index, extent, Caching::Use)
    }

    /// Writes an extent from its buffer without a copy. Otherwise like [`ExtentFile::write`].
    pub fn write_buffer(
        &self,
        index: u64,
        mut extent: ExtentBuffer,
        caching: Caching,
    ) -> Result<(), StoreError> {
        let inner = &self.inner;
        OpenExtentFile::check_index(index)?;
        // Reads the index pages without the lock of the state, so that other threads go on.
        inner.find_waiting(index)?;
        let reservation = inner.reserve(index, extent.payload_bytes())?;
        let entry = inner.seal(&reservation, &mut extent);
        let bytes = inner.disk_bytes(extent.payload_bytes());
        let buffer = extent.into_buffer();
        let position = inner.byte_position(entry.position);
        if let Err(error) = inner.data.write_all_at(&buffer[..bytes], position) {
            inner.cancel(&reservation);
            let action = format!("write extent {index} of {}", self.id());
            return Err(inner.context.disk.io(error, action));
        }
        inner.commit(&reservation, entry, None)?;
        inner.cache_extent(Extent::trusted(buffer, entry), entry, caching);
        inner.request_maintenance();
        Ok(())
    }

    /// Memory for [`ExtentFile::write_buffer`].
    pub fn buffer(&self, header_len: usize, body_len: usize) -> Result<ExtentBuffer, StoreError> {
        ExtentBuffer::new(&self.inner.pool, header_len, body_len)
    }

    /// Deletes an extent; returns whether it existed.
    pub fn delete(&self, index: u64) -> Result<bool, StoreError> {
        OpenExtentFile::check_index(index)?;
        // Reads the index pages without the lock of the state, so that other threads go on.
        self.inner.find_waiting(index)?;
        let deleted = self.inner.delete(index)?;
        self.inner.request_maintenance();
        Ok(deleted)
    }

    /// The extents with indices in a range, in order. A concurrent change may or may not show.
    pub fn list(
        &self,
        range: RangeInclusive<u64>,
    ) -> impl Iterator<Item = Result<ExtentInfo, StoreError>> + '_ {
        const BATCH: usize = 256;
        let (mut next, last) = (Some(*range.start()), *range.end());
        let mut batch = Vec::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(info) = batch.next() {
                    return Some(Ok(info));
                }
                let from = next.take().filter(|&from| from <= last)?;
                match self.inner.list_some(from, last, BATCH) {
                    Ok((infos, more)) => {
                        batch = infos.into_iter();
                        next = more;
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    /// The number of extents, and the sum of their header and body lengths; without disk I/O.
    pub fn live(&self) -> (u64, u64) {
        let state = self.inner.state.lock();
        (state.count, state.live_bytes)
    }

    /// The content and the disk space of the subfile.
    pub fn stat(&self) -> Result<ExtentStat, StoreError> {
        let inner = &self.inner;
        let (extents, live_bytes, waiting, mut files) = {
            let state = inner.state.lock();
            (state.count, state.live_bytes, state.limbo_granules, state.segment_files())
        };
        files.extend([inner.data.clone(), inner.index_file.clone()]);
        let (mut disk_bytes, mut modified_ns) = (0, 0);
        for file in files {
            let measured =
                file.allocated_bytes().and_then(|bytes| Ok((bytes, file.modified_ns()?)));
            let (bytes, time) = measured.map_err(|error| inner.context.io(error, "measure"))?;
            disk_bytes += bytes;
            modified_ns = modified_ns.max(time);
        }
        let waiting_bytes = inner.byte_position(waiting);
        Ok(ExtentStat { extents, live_bytes, disk_bytes, waiting_bytes, modified_ns })
    }

    /// Makes all changes durable that were acknowledged before the call. If it fails, the subfile
    /// accepts no changes until the caller opens it again.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()?;
        self.inner.request_maintenance();
        Ok(())
    }

    /// Syncs the subfile and writes a checkpoint, so that the next opening has no journal to replay.
    /// Other clones stay usable.
    pub fn close(self) -> Result<(), StoreError> {
        self.inner.checkpoint()?;
        self.inner.trim_to_end(&mut self.inner.state.lock());
        Ok(())
    }

    /// Moves extents together until no free space is left between them, and returns that space to the
    /// file system. Other threads may read and write the subfile at the same time.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.inner.compact()
    }

    /// Runs one step of a compaction, which moves at most a few megabytes: `None` begins one, and the
    /// cursor of a step continues it. A caller may stop after any step.
    ///
    /// ```
    /// # fn main() -> Result<(), pario_store::StoreError> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use pario_store::{Disk, DiskOptions, NewSubfile, SubfileId};
    ///
    /// let disk = Disk::create(dir.path(), DiskOptions::default())?;
    /// let tiles = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0)))?;
    /// for index in 0..100 {
    ///     tiles.write(index, b"", &[1; 50_000])?;
    /// }
    /// for index in 0..90 {
    ///     tiles.delete(index)?;
    /// }
    /// let mut cursor = None;
    /// loop {
    ///     let step = tiles.compact_step(cursor)?;
    ///     println!("{} of {} bytes", step.compact_bytes, step.data_bytes);
    ///     cursor = step.next;
    ///     if cursor.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert!(tiles.stat()?.disk_bytes < 1_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compact_step(
        &self,
        cursor: Option<CompactionCursor>,
    ) -> Result<CompactionStep, StoreError> {
        self.inner.compact_step(cursor)
    }
}

impl std::fmt::Debug for ExtentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExtentFile({})", self.id())
    }
}

impl OpenExtentFile {
    /// Reads an extent with the lookup `find`.
    fn read(
        &self,
        index: u64,
        caching: Caching,
        find: impl Fn(&Self, u64) -> Result<Option<ExtentEntry>, StoreError>,
    ) -> Result<Option<Extent>, StoreError> {
        Self::check_index(index)?;
        let mut failed: Option<(ExtentEntry, &'static str)> = None;
        loop {
            let Some(entry) = find(self, index)? else {
                return Ok(None);
            };
            match failed {
                // No other thread has replaced it since: the block itself is damaged.
                Some((tried, why)) if tried == entry => {
                    return Err(self.context.damaged(Some(index), why));
                }
                _ => {}
            }
            if let Some(extent) = self.cached(entry, caching) {
                return Ok(Some(extent));
            }
            let bytes = self.disk_bytes(entry.payload_bytes());
            let mut buffer = self.pool.get(bytes);
            let position = self.byte_position(entry.position);
            let read = self.data.read_at(&mut buffer[..bytes], position).map_err(|error| {
                let action = format!("read extent {index} of {}", self.context.subfile);
                self.context.disk.io(error, action)
            })?;
            match Extent::verify(buffer, read, self.context.subfile, index, entry) {
                Ok(extent) => {
                    self.cache_extent(extent.clone(), entry, caching);
                    return Ok(Some(extent));
                }
                Err((_, why)) => failed = Some((entry, why)),
            }
        }
    }

    /// An extent from the cache. A miss is not counted: the read that follows counts it.
    fn peek_cache(&self, entry: ExtentEntry) -> Option<Extent> {
        self.cache.peek(self.open_id, entry.position, entry.checksum)
    }

    /// An extent from the cache, unless `caching` bypasses it.
    pub(crate) fn cached(&self, entry: ExtentEntry, caching: Caching) -> Option<Extent> {
        match caching {
            Caching::Use => self.cache.get(self.open_id, entry.position, entry.checksum),
            Caching::Bypass => None,
        }
    }

    /// Puts an extent into the cache, unless `caching` bypasses it.
    pub(crate) fn cache_extent(&self, extent: Extent, entry: ExtentEntry, caching: Caching) {
        if caching == Caching::Use {
            self.cache.put(self.open_id, entry.position, extent);
        }
    }

    /// Up to `limit` extents from an index on, and the index to continue with.
    fn list_some(
        &self,
        from: u64,
        last: u64,
        limit: usize,
    ) -> Result<(Vec<ExtentInfo>, Option<u64>), StoreError> {
        let mut infos = Vec::with_capacity(limit);
        let mut more = None;
        let mut each = |index, value| {
            if index > last {
                return false;
            }
            if infos.len() == limit {
                more = Some(index);
                return false;
            }
            let ExtentEntry { header_len, body_len, .. } = ExtentEntry::from_value(value);
            infos.push(ExtentInfo { index, header_len, body_len });
            true
        };
        let mut state = self.state.lock();
        let ExtentFileState { pages, extents, .. } = &mut *state;
        let listed = extents.scan(pages, from, PageLoad::Wait, &mut each);
        listed.map_err(|fault| self.fault(fault, None))?;
        Ok((infos, more))
    }
}

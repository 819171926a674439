//! Extent subfiles: extents of any size under indices, each replaced as a whole.

mod block;
mod check;
mod checkpoint;
mod compaction;
mod journal;
mod recovery;
mod room;
mod shared;
mod space;

use std::ops::RangeInclusive;
use std::sync::Arc;

pub(crate) use block::Entry;
pub use block::{EXTENT_LIMIT_BYTES, Extent, ExtentBuffer, MAX_EXTENT_INDEX};
pub use check::CheckDepth;
pub(crate) use recovery::{DESCRIPTION, Opening, create_files};
pub(crate) use room::{Need, Patience, Reservation, Room};
pub(crate) use shared::{Found, Limits, Shared, next_opening};

use crate::error::StoreError;
use crate::index::Load;
use crate::subfile::SubfileId;
use shared::State;

/// Whether a request may use the extent cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// Look into the cache, and keep there what is read or written.
    #[default]
    Use,
    /// Go to the disk, and leave the cache to others.
    Bypass,
}

/// An open extent subfile. Clones are the same subfile; any number of threads may use them.
///
/// These calls wait for the disk in the calling thread. To have many requests under way from one
/// thread, see [`crate::Queue`].
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
    pub(crate) shared: Arc<Shared>,
}

/// What [`ExtentFile::at_hand`] knows of an extent.
#[derive(Clone, Debug)]
pub enum AtHand {
    /// It is in the cache.
    Extent(Extent),
    /// There is none.
    Absent,
    /// The disk has to be asked.
    Unknown,
}

/// An extent as [`ExtentFile::list`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentInfo {
    /// Its index.
    pub index: u64,
    /// Length of the header.
    pub header_len: u32,
    /// Length of the body.
    pub body_len: u32,
}

/// What an extent subfile holds and takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentStat {
    /// Number of extents.
    pub extents: u64,
    /// Their headers and bodies.
    pub live_bytes: u64,
    /// Bytes that the subfile occupies on the disk: data, index and journal.
    pub disk_bytes: u64,
    /// Bytes of replaced extents that are free after the next sync.
    pub waiting_bytes: u64,
    /// When the files on the disk last changed, in nanoseconds since 1970.
    pub modified_ns: u64,
}

impl ExtentFile {
    /// Whose subfile it is.
    pub fn id(&self) -> SubfileId {
        self.shared.place.subfile
    }

    /// Reads an extent. One that is not there is `None`.
    pub fn read(&self, index: u64) -> Result<Option<Extent>, StoreError> {
        self.read_with(index, Caching::Use)
    }

    /// Reads an extent, with or without the cache.
    pub fn read_with(&self, index: u64, caching: Caching) -> Result<Option<Extent>, StoreError> {
        self.shared.read(index, caching, Shared::find_waiting)
    }

    /// Reads an extent, for somebody who will read many: of the index, more is read than is needed.
    pub fn read_of_many(&self, index: u64) -> Result<Option<Extent>, StoreError> {
        self.shared.read(index, Caching::Use, Shared::find_of_many)
    }

    /// What is known of an extent without touching the disk.
    ///
    /// ```
    /// # fn main() -> Result<(), pario_store::StoreError> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use pario_store::{AtHand, Disk, DiskOptions, ExtentCache, NewSubfile, SubfileId};
    ///
    /// let options = DiskOptions { cache: ExtentCache::new(1 << 20), ..DiskOptions::default() };
    /// let disk = Disk::create(dir.path(), options)?;
    /// let tiles = disk.create_extents(NewSubfile::new(SubfileId::data(1, 0)))?;
    /// tiles.write(7, b"", b"pixels")?;
    /// assert!(matches!(tiles.at_hand(7)?, AtHand::Extent(tile) if tile.body() == b"pixels"));
    /// assert!(matches!(tiles.at_hand(8)?, AtHand::Absent));
    /// # Ok(())
    /// # }
    /// ```
    pub fn at_hand(&self, index: u64) -> Result<AtHand, StoreError> {
        Shared::check_index(index)?;
        Ok(match self.shared.find(index)? {
            Found::Absent => AtHand::Absent,
            Found::Wants(_) => AtHand::Unknown,
            Found::At(entry) => match self.shared.peek(entry) {
                Some(extent) => AtHand::Extent(extent),
                None => AtHand::Unknown,
            },
        })
    }

    /// Writes an extent, in place of what was there before. After a crash it is there whole or
    /// not at all. The place of what was there is free after a sync; if too much waits for one, or
    /// the disk is full, a write waits for it.
    pub fn write(&self, index: u64, header: &[u8], body: &[u8]) -> Result<(), StoreError> {
        let extent = ExtentBuffer::copy_of(&self.shared.pool, header, body)?;
        self.write_buffer(index, extent, Caching::Use)
    }

    /// Writes an extent that was put together in place: its bytes are not copied.
    pub fn write_buffer(
        &self,
        index: u64,
        mut extent: ExtentBuffer,
        caching: Caching,
    ) -> Result<(), StoreError> {
        let shared = &self.shared;
        Shared::check_index(index)?;
        // Brings the pages of the index into memory without holding others up.
        shared.find_waiting(index)?;
        let reservation = shared.reserve(index, extent.payload_bytes())?;
        let entry = shared.seal(&reservation, &mut extent);
        let bytes = shared.disk_bytes(extent.payload_bytes());
        let buffer = extent.into_buffer();
        let position = shared.byte_position(entry.position);
        if let Err(error) = shared.data.write_all_at(&buffer[..bytes], position) {
            shared.cancel(&reservation);
            let action = format!("write extent {index} of {}", self.id());
            return Err(shared.place.disk.io(error, action));
        }
        shared.commit(&reservation, entry, None)?;
        shared.keep(Extent::trusted(buffer, entry), entry, caching);
        shared.after_change();
        Ok(())
    }

    /// Memory for [`ExtentFile::write_buffer`].
    pub fn buffer(&self, header_len: usize, body_len: usize) -> Result<ExtentBuffer, StoreError> {
        ExtentBuffer::new(&self.shared.pool, header_len, body_len)
    }

    /// Deletes an extent; the answer says whether it was there.
    pub fn delete(&self, index: u64) -> Result<bool, StoreError> {
        Shared::check_index(index)?;
        // Brings the pages of the index into memory without holding others up.
        self.shared.find_waiting(index)?;
        let deleted = self.shared.delete(index)?;
        self.shared.after_change();
        Ok(deleted)
    }

    /// The extents with indices in a range, in order. What is changed meanwhile may or may not
    /// be among them.
    pub fn list(
        &self,
        range: RangeInclusive<u64>,
    ) -> impl Iterator<Item = Result<ExtentInfo, StoreError>> + '_ {
        const AT_ONCE: usize = 256;
        let (mut next, last) = (Some(*range.start()), *range.end());
        let mut some = Vec::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(info) = some.next() {
                    return Some(Ok(info));
                }
                let from = next.take().filter(|&from| from <= last)?;
                match self.shared.list_some(from, last, AT_ONCE) {
                    Ok((infos, more)) => {
                        some = infos.into_iter();
                        next = more;
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    /// How many extents there are, and how many bytes their headers and bodies have together; without
    /// touching the disk.
    pub fn live(&self) -> (u64, u64) {
        let state = self.shared.state.lock();
        (state.count, state.live_bytes)
    }

    /// What the subfile holds and takes.
    pub fn stat(&self) -> Result<ExtentStat, StoreError> {
        let shared = &self.shared;
        let (extents, live_bytes, waiting, mut files) = {
            let state = shared.state.lock();
            (state.count, state.live_bytes, state.limbo_granules, state.segment_files())
        };
        files.extend([shared.data.clone(), shared.index_file.clone()]);
        let (mut disk_bytes, mut modified_ns) = (0, 0);
        for file in files {
            let measured =
                file.allocated_bytes().and_then(|bytes| Ok((bytes, file.modified_ns()?)));
            let (bytes, time) = measured.map_err(|error| shared.place.io(error, "measuring"))?;
            disk_bytes += bytes;
            modified_ns = modified_ns.max(time);
        }
        let waiting_bytes = shared.byte_position(waiting);
        Ok(ExtentStat { extents, live_bytes, disk_bytes, waiting_bytes, modified_ns })
    }

    /// Makes everything durable that was acknowledged before the call. If it fails, the subfile
    /// takes no more changes until it is opened again.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.shared.sync()
    }

    /// Syncs, and brings the index up to date, so that the next opening has nothing to do. Other
    /// clones stay usable.
    pub fn close(self) -> Result<(), StoreError> {
        self.shared.checkpoint()?;
        self.shared.trim_to_end(&mut self.shared.state.lock());
        Ok(())
    }

    /// Moves extents together until no space is lost between them. Others may use the subfile
    /// meanwhile.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.shared.compact()
    }
}

impl std::fmt::Debug for ExtentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExtentFile({})", self.id())
    }
}

impl Shared {
    /// Reads an extent, in the calling thread.
    fn read(
        &self,
        index: u64,
        caching: Caching,
        find: impl Fn(&Self, u64) -> Result<Option<Entry>, StoreError>,
    ) -> Result<Option<Extent>, StoreError> {
        Self::check_index(index)?;
        let mut failed: Option<(Entry, &'static str)> = None;
        loop {
            let Some(entry) = find(self, index)? else {
                return Ok(None);
            };
            match failed {
                // Nobody has replaced it meanwhile: what was read is what there is.
                Some((tried, why)) if tried == entry => {
                    return Err(self.place.damaged(Some(index), why));
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
                let action = format!("read extent {index} of {}", self.place.subfile);
                self.place.disk.io(error, action)
            })?;
            match Extent::verify(buffer, read, self.place.subfile, index, entry) {
                Ok(extent) => {
                    self.keep(extent.clone(), entry, caching);
                    return Ok(Some(extent));
                }
                Err((_, why)) => failed = Some((entry, why)),
            }
        }
    }

    /// An extent from the cache, if it has it; who finds none will come again to read it, and is
    /// counted then.
    fn peek(&self, entry: Entry) -> Option<Extent> {
        self.cache.peek(self.opening, entry.position, entry.checksum)
    }

    /// An extent from the cache, if it may be used and has it.
    pub(crate) fn cached(&self, entry: Entry, caching: Caching) -> Option<Extent> {
        match caching {
            Caching::Use => self.cache.get(self.opening, entry.position, entry.checksum),
            Caching::Bypass => None,
        }
    }

    /// Puts an extent into the cache, if it may be used.
    pub(crate) fn keep(&self, extent: Extent, entry: Entry, caching: Caching) {
        if caching == Caching::Use {
            self.cache.put(self.opening, entry.position, extent);
        }
    }

    /// Up to `limit` extents from an index on, and where to go on.
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
            let Entry { header_len, body_len, .. } = Entry::from_value(value);
            infos.push(ExtentInfo { index, header_len, body_len });
            true
        };
        let mut state = self.state.lock();
        let State { pages, extents, .. } = &mut *state;
        let listed = extents.scan(pages, from, Load::Wait, &mut each);
        listed.map_err(|fault| self.fault(fault, None))?;
        Ok((infos, more))
    }
}

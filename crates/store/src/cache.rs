//! Extents kept in memory.
//!
//! An extent is found under its opening and position, and only if its checksum is the one in the
//! index: the index decides what is current, so the cache can never answer with old content.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::extents::Extent;

/// The most shards: enough for all threads of a large machine.
const SHARDS_MAX: usize = 256;

/// A cache of extents, bounded in bytes, which any number of disks can share. Clones are the same
/// cache. Large scans do not displace what is used often.
#[derive(Clone)]
pub struct ExtentCache {
    /// Absent in a cache of zero bytes.
    inner: Option<Arc<Inner>>,
}

struct Inner {
    extents: Cache<(u64, u64), Extent, ByMemory>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What a cache has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Reads that were answered from memory.
    pub hits: u64,
    /// Reads that had to go to the disk.
    pub misses: u64,
    /// Bytes in use.
    pub bytes: u64,
    /// The limit.
    pub limit_bytes: u64,
}

#[derive(Clone)]
struct ByMemory;

impl Weighter<(u64, u64), Extent> for ByMemory {
    fn weight(&self, _key: &(u64, u64), extent: &Extent) -> u64 {
        extent.memory_bytes()
    }
}

impl ExtentCache {
    /// A cache of at most `limit_bytes`; zero for none.
    pub fn new(limit_bytes: u64) -> Self {
        /// What an extent is expected to have; only sizes of tables follow from it.
        const TYPICAL_BYTES: u64 = 32 << 10;
        /// Each shard has its own share of the limit. With little in each, some overflow while others
        /// have room.
        const SHARD_BYTES: u64 = 64 << 20;
        /// Room for extents that were read once; those that are read again soon stay. In a small
        /// cache the usual share of it would hold so few that they go before that.
        const NEWCOMERS_BYTES: f64 = (4 << 20) as f64;
        if limit_bytes == 0 {
            return Self { inner: None };
        }
        #[expect(clippy::cast_precision_loss, reason = "a share of memory")]
        let newcomers = (NEWCOMERS_BYTES / limit_bytes as f64).clamp(0.03, 0.25);
        let number = |bytes: u64| usize::try_from(limit_bytes / bytes).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(number(SHARD_BYTES).clamp(1, SHARDS_MAX))
            .estimated_items_capacity(number(TYPICAL_BYTES).max(16))
            .weight_capacity(limit_bytes)
            .hot_allocation(1.0 - newcomers)
            .build();
        let Ok(options) = options else { unreachable!("items and weight are given") };
        let extents = Cache::with_options(
            options,
            ByMemory,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        );
        let (hits, misses) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { inner: Some(Arc::new(Inner { extents, hits, misses })) }
    }

    /// What it has done so far.
    pub fn stat(&self) -> CacheStat {
        self.inner.as_ref().map_or_else(CacheStat::default, |inner| CacheStat {
            hits: inner.hits.load(Ordering::Relaxed),
            misses: inner.misses.load(Ordering::Relaxed),
            bytes: inner.extents.weight(),
            limit_bytes: inner.extents.capacity(),
        })
    }

    pub(crate) fn get(&self, opening: u64, position: u64, checksum: u64) -> Option<Extent> {
        let inner = self.inner.as_ref()?;
        let found = inner.extents.get(&(opening, position));
        let found = found.filter(|extent| extent.checksum() == checksum);
        let counter = if found.is_some() { &inner.hits } else { &inner.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// The same, but an extent that is not there is not counted as missed.
    pub(crate) fn peek(&self, opening: u64, position: u64, checksum: u64) -> Option<Extent> {
        let inner = self.inner.as_ref()?;
        let found = inner.extents.get(&(opening, position));
        let found = found.filter(|extent| extent.checksum() == checksum)?;
        inner.hits.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    pub(crate) fn put(&self, opening: u64, position: u64, extent: Extent) {
        if let Some(inner) = &self.inner {
            inner.extents.insert((opening, position), extent);
        }
    }

    pub(crate) fn forget(&self, opening: u64, position: u64) {
        if let Some(inner) = &self.inner {
            inner.extents.remove(&(opening, position));
        }
    }
}

impl fmt::Debug for ExtentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stat().fmt(f)
    }
}

//! The cache of extents.
//!
//! The key of an extent is the id of its open subfile and its position. A lookup succeeds only if the
//! checksum is the one in the index, so that the cache never returns old content.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::extents::Extent;

/// The limit of shards: enough for all threads of a large machine.
const SHARDS_MAX: usize = 256;

/// A cache of extents with a limit in bytes, which any number of disks can share. Clones are the same
/// cache. Large scans do not displace extents that are read often.
#[derive(Clone)]
pub struct ExtentCache {
    /// `None` in a cache of zero bytes.
    inner: Option<Arc<CacheInner>>,
}

struct CacheInner {
    extents: Cache<(u64, u64), Extent, ByMemory>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Reads that the cache has served.
    pub hits: u64,
    /// Reads that needed the disk.
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
        /// The expected size of an extent, from which the sizes of tables follow.
        const TYPICAL_BYTES: u64 = 32 << 10;
        /// The smallest share of the limit per shard. Small shards overflow while others have space.
        const SHARD_BYTES: u64 = 64 << 20;
        /// Space for extents that were read once, so that those read again soon stay. In a small cache
        /// the default share would hold too few of them.
        const RECENT_BYTES: f64 = (4 << 20) as f64;
        if limit_bytes == 0 {
            return Self { inner: None };
        }
        #[expect(clippy::cast_precision_loss, reason = "a share of memory")]
        let recent = (RECENT_BYTES / limit_bytes as f64).clamp(0.03, 0.25);
        let number = |bytes: u64| usize::try_from(limit_bytes / bytes).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(number(SHARD_BYTES).clamp(1, SHARDS_MAX))
            .estimated_items_capacity(number(TYPICAL_BYTES).max(16))
            .weight_capacity(limit_bytes)
            .hot_allocation(1.0 - recent)
            .build();
        let Ok(options) = options else { unreachable!("capacity and weight are set") };
        let extents = Cache::with_options(
            options,
            ByMemory,
            DefaultHashBuilder::default(),
            DefaultLifecycle::default(),
        );
        let (hits, misses) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { inner: Some(Arc::new(CacheInner { extents, hits, misses })) }
    }

    /// The counters so far.
    pub fn stat(&self) -> CacheStat {
        self.inner.as_ref().map_or_else(CacheStat::default, |inner| CacheStat {
            hits: inner.hits.load(Ordering::Relaxed),
            misses: inner.misses.load(Ordering::Relaxed),
            bytes: inner.extents.weight(),
            limit_bytes: inner.extents.capacity(),
        })
    }

    pub(crate) fn get(&self, open_id: u64, position: u64, checksum: u64) -> Option<Extent> {
        let inner = self.inner.as_ref()?;
        let found = inner.extents.get(&(open_id, position));
        let found = found.filter(|extent| extent.checksum() == checksum);
        let counter = if found.is_some() { &inner.hits } else { &inner.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Like [`Self::get`], but does not count a miss.
    pub(crate) fn peek(&self, open_id: u64, position: u64, checksum: u64) -> Option<Extent> {
        let inner = self.inner.as_ref()?;
        let found = inner.extents.get(&(open_id, position));
        let found = found.filter(|extent| extent.checksum() == checksum)?;
        inner.hits.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    pub(crate) fn put(&self, open_id: u64, position: u64, extent: Extent) {
        if let Some(inner) = &self.inner {
            inner.extents.insert((open_id, position), extent);
        }
    }

    pub(crate) fn forget(&self, open_id: u64, position: u64) {
        if let Some(inner) = &self.inner {
            inner.extents.remove(&(open_id, position));
        }
    }
}

impl fmt::Debug for ExtentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stat().fmt(f)
    }
}

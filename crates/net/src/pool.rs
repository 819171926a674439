//! A pool of page-aligned memory.
//!
//! First touch of fresh memory is several times slower than reuse, and page-aligned memory can go
//! to a disk as it is. All spaces of a process share one pool. It keeps at most
//! [`IDLE_LIMIT_BYTES`], and hands out the memory that came back last, because that is still in the
//! processor's cache.
//!
//! `pario_store::BufferPool` is a second pool of such memory: neither crate depends on the
//! other, and a pool that the server injected into both would put a trait with an unsafe contract
//! between every buffer and its memory.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::Bulk;

/// Alignment of all bulk memory.
pub const BULK_ALIGNMENT: usize = 4096;

/// Idle memory that a process keeps for bulk data.
pub const IDLE_LIMIT_BYTES: usize = 64 << 20;

/// From this size on memory is mapped, so that it is zeroed only where it is touched.
const MAPPED_BYTES: usize = 64 << 10;

static POOL: Pool = Pool { idle: Mutex::new(IdleSlabs { by_capacity: BTreeMap::new(), bytes: 0 }) };

struct Pool {
    idle: Mutex<IdleSlabs>,
}

struct IdleSlabs {
    by_capacity: BTreeMap<usize, Vec<PoolMemory>>,
    bytes: usize,
}

impl Pool {
    fn get(&self, len: usize) -> PoolMemory {
        let capacity = capacity_for(len);
        {
            let mut idle = self.idle.lock();
            if let Some(memory) = idle.by_capacity.get_mut(&capacity).and_then(Vec::pop) {
                idle.bytes -= capacity;
                return memory;
            }
        }
        PoolMemory::allocate(capacity)
    }

    fn put_back(&self, memory: PoolMemory) {
        let mut idle = self.idle.lock();
        if idle.bytes + memory.capacity <= IDLE_LIMIT_BYTES {
            idle.bytes += memory.capacity;
            idle.by_capacity.entry(memory.capacity).or_default().push(memory);
        }
    }
}

/// Takes the lock of the pool and keeps it.
pub(crate) fn lock_before_fork() {
    std::mem::forget(POOL.idle.lock());
}

/// Releases the lock of the pool.
///
/// # Safety
/// This thread has the lock by [`lock_before_fork`].
pub(crate) unsafe fn unlock_after_fork() {
    // SAFETY: the caller guarantees it; the guard was forgotten.
    unsafe { POOL.idle.force_unlock() };
}

/// Capacities come in eight steps per power of two, of at least a page.
fn capacity_for(len: usize) -> usize {
    let len = len.max(1);
    let step = (len.next_power_of_two() / 16).max(BULK_ALIGNMENT);
    len.next_multiple_of(step)
}

/// Initialised memory with one owner.
struct PoolMemory {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the memory is owned by this value alone and bound to no thread.
unsafe impl Send for PoolMemory {}
// SAFETY: shared access only reads it.
unsafe impl Sync for PoolMemory {}

impl PoolMemory {
    fn allocate(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        let start = if capacity >= MAPPED_BYTES {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping at a place the kernel chooses touches nothing that exists.
            match unsafe { mmap_anonymous(ptr::null_mut(), capacity, access, MapFlags::PRIVATE) } {
                Ok(start) => start.cast(),
                Err(_) => handle_alloc_error(layout),
            }
        } else {
            // SAFETY: the capacity is not zero.
            unsafe { alloc_zeroed(layout) }
        };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, capacity }
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, BULK_ALIGNMENT).expect("a capacity is below isize::MAX")
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        if self.capacity >= MAPPED_BYTES {
            // SAFETY: mapped in `allocate`, and no reference to it is left.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.capacity) };
        } else {
            // SAFETY: allocated in `allocate` with this layout.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) };
        }
    }
}

/// Mutable, page-aligned memory from the pool. Bulk data made in it is sent without a copy.
///
/// ```
/// use pario_net::{Bulk, BulkBuffer};
///
/// let mut buffer = BulkBuffer::new(10_000);
/// buffer.fill(7);
/// let bulk: Bulk = buffer.freeze();
/// assert_eq!(bulk.len(), 10_000);
/// ```
pub struct BulkBuffer {
    /// Present until the buffer is dropped.
    memory: Option<PoolMemory>,
    len: usize,
}

impl BulkBuffer {
    /// Creates a buffer of `len` bytes with unspecified contents.
    pub fn new(len: usize) -> Self {
        Self { memory: Some(POOL.get(len)), len }
    }

    /// Shortens the buffer; it cannot grow.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Ends writing: from then on the bytes are shared and never change.
    pub fn freeze(self) -> Bulk {
        Bulk::from(Bytes::from_owner(self))
    }

    fn start(&self) -> *mut u8 {
        self.memory.as_ref().expect("a buffer has its memory until it is dropped").start.as_ptr()
    }
}

impl Deref for BulkBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` is within the capacity, all of which is initialised and owned.
        unsafe { std::slice::from_raw_parts(self.start(), self.len) }
    }
}

impl DerefMut for BulkBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len) }
    }
}

impl AsRef<[u8]> for BulkBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for BulkBuffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            POOL.put_back(memory);
        }
    }
}

impl fmt::Debug for BulkBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BulkBuffer({} bytes)", self.len)
    }
}

/// Memory that is filled from the front while its front is already being read: the unfilled rest
/// belongs to the slab, the filled front to the [`Bytes`] cut from it.
pub(crate) struct PoolSlab {
    memory: Arc<SlabMemory>,
    /// Where the rest begins.
    given: usize,
    capacity: usize,
}

struct SlabMemory(BulkBuffer);

/// A part of a slab that never changes again.
struct SlabPart {
    memory: Arc<SlabMemory>,
    start: usize,
    len: usize,
}

impl PoolSlab {
    pub fn new(capacity: usize) -> Self {
        let buffer = BulkBuffer::new(capacity);
        Self { memory: Arc::new(SlabMemory(buffer)), given: 0, capacity }
    }

    /// Bytes of the rest.
    pub fn room(&self) -> usize {
        self.capacity - self.given
    }

    /// The rest.
    pub fn rest(&self) -> &[u8] {
        // SAFETY: within the capacity; `SlabPart`s lie before `given`, so there is no other reference to it.
        unsafe { std::slice::from_raw_parts(self.memory.0.start().add(self.given), self.room()) }
    }

    /// The same, to be filled.
    pub fn rest_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `rest`, and `&mut self` makes the access exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.0.start().add(self.given), self.room())
        }
    }

    /// Cuts the first `len` bytes off the rest for good.
    pub fn give(&mut self, len: usize) -> Bytes {
        assert!(len <= self.room(), "the slab has no such rest");
        let part = SlabPart { memory: self.memory.clone(), start: self.given, len };
        self.given += len;
        Bytes::from_owner(part)
    }
}

impl AsRef<[u8]> for SlabPart {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the part lies before its slab's `given`, where nothing is written any more.
        unsafe { std::slice::from_raw_parts(self.memory.0.start().add(self.start), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_fit_and_waste_little() {
        for len in (1..300_000).step_by(97) {
            let capacity = capacity_for(len);
            assert!(capacity >= len && capacity.is_multiple_of(BULK_ALIGNMENT));
            assert!(capacity - len < BULK_ALIGNMENT || capacity <= len + len / 8 + 1, "{len}");
        }
    }

    #[test]
    fn buffers_are_aligned_and_used_again() {
        for len in [1, 5_000, 777_777, 3 << 20] {
            let mut first = BulkBuffer::new(len);
            assert!(first.start().addr().is_multiple_of(BULK_ALIGNMENT) && first.len() == len);
            first.fill(9);
            let bulk = first.freeze();
            assert!(bulk.iter().all(|&byte| byte == 9));
        }
    }

    #[test]
    fn a_slab_is_read_while_it_is_filled() {
        let mut slab = PoolSlab::new(8192);
        slab.rest_mut()[..10].fill(1);
        let first = slab.give(10);
        slab.rest_mut()[..10].fill(2);
        let second = slab.give(10);
        slab.rest_mut().fill(3);
        drop(slab);
        assert!(first.iter().all(|&byte| byte == 1) && second.iter().all(|&byte| byte == 2));
    }
}

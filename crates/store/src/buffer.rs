//! Aligned memory that comes from a pool and goes back to it.
//!
//! First touch of fresh memory is several times slower than using it again, and direct I/O needs
//! alignment; both are settled here once. A [`BufferPool`] keeps at most its limit of idle bytes.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

/// Alignment of every buffer, and the step of their sizes.
pub const BUFFER_ALIGNMENT: usize = 4096;

/// A source of [`Buffer`]s; clones share the same idle memory.
#[derive(Clone, Debug)]
pub struct BufferPool {
    idle: Arc<Mutex<Idle>>,
}

#[derive(Debug)]
struct Idle {
    by_capacity: BTreeMap<usize, Vec<Memory>>,
    bytes: usize,
    limit_bytes: usize,
}

impl BufferPool {
    /// A pool that keeps at most `limit_bytes` of idle memory.
    pub fn new(limit_bytes: usize) -> Self {
        let idle = Idle { by_capacity: BTreeMap::new(), bytes: 0, limit_bytes };
        Self { idle: Arc::new(Mutex::new(idle)) }
    }

    /// A buffer of at least `len` bytes. What it contains is unspecified.
    pub fn get(&self, len: usize) -> Buffer {
        let capacity = capacity_for(len);
        let reused = {
            let mut idle = self.idle.lock();
            let memory = idle.by_capacity.get_mut(&capacity).and_then(Vec::pop);
            if memory.is_some() {
                idle.bytes -= capacity;
            }
            memory
        };
        let memory = reused.unwrap_or_else(|| Memory::new(capacity));
        Buffer { memory: Some(memory), pool: self.clone() }
    }

    /// Bytes that wait to be used again.
    pub fn idle_bytes(&self) -> usize {
        self.idle.lock().bytes
    }

    fn put_back(&self, memory: Memory) {
        let mut idle = self.idle.lock();
        if idle.bytes + memory.capacity <= idle.limit_bytes {
            idle.bytes += memory.capacity;
            idle.by_capacity.entry(memory.capacity).or_default().push(memory);
        }
    }
}

/// Aligned memory of one owner; dropping it gives it back to its pool.
///
/// It dereferences to its whole capacity.
pub struct Buffer {
    /// Present until the buffer is dropped.
    memory: Option<Memory>,
    pool: BufferPool,
}

impl Buffer {
    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("a buffer has its memory until it is dropped")
    }

    /// Where the bytes are: they stay there as long as the buffer lives.
    pub(crate) fn as_raw(&self) -> *mut u8 {
        self.memory().start.as_ptr()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let memory = self.memory();
        // SAFETY: `start` points to `capacity` initialised bytes that this buffer alone owns.
        unsafe { std::slice::from_raw_parts(memory.start.as_ptr(), memory.capacity) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let memory = self.memory();
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(memory.start.as_ptr(), memory.capacity) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.put_back(memory);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the memory is owned by this value alone and bound to no thread.
unsafe impl Send for Memory {}
// SAFETY: shared access only reads it.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(capacity: usize) -> Self {
        let layout = layout(capacity);
        // SAFETY: `capacity_for` never answers zero, so the layout has a size.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, capacity },
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.as_ptr(), layout(self.capacity)) }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, BUFFER_ALIGNMENT).expect("buffers are far below isize::MAX")
}

/// Capacities come in eight steps per power of two above 32 KiB, in steps of 4 KiB below: at most
/// an eighth is unused.
fn capacity_for(len: usize) -> usize {
    let len = len.max(1);
    let step = (len.next_power_of_two() / 16).max(BUFFER_ALIGNMENT);
    len.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_fit_and_waste_little() {
        for len in (1..300_000).step_by(97) {
            let capacity = capacity_for(len);
            assert!(capacity >= len && capacity.is_multiple_of(BUFFER_ALIGNMENT));
            assert!(capacity - len < BUFFER_ALIGNMENT || capacity <= len + len / 8 + 1, "{len}");
        }
    }

    #[test]
    fn memory_is_used_again_up_to_the_limit() {
        let pool = BufferPool::new(64 << 10);
        let first = pool.get(50_000);
        let place = first.as_raw();
        assert!(place.addr().is_multiple_of(BUFFER_ALIGNMENT));
        drop(first);
        assert_eq!(pool.get(51_000).as_raw(), place);
        let many: Vec<_> = (0..4).map(|_| pool.get(30_000)).collect();
        drop(many);
        assert!(pool.idle_bytes() <= 64 << 10 && pool.idle_bytes() > 0);
    }
}

//! A pool of aligned buffers.
//!
//! The first access to fresh memory is several times slower than later ones, and direct I/O needs
//! alignment. The pool provides both: it keeps used memory, up to a limit of idle bytes, and aligns
//! it. It maps memory in slabs, cut into pieces of one size, and unmaps a slab when all its pieces
//! are dropped.
//!
//! `pario_net::BulkBuffer` comes from a second pool of such memory: neither crate depends on the
//! other, and a pool that the server injected into both would put a trait with an unsafe contract
//! between every buffer and its memory.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::{fmt, io};

use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Alignment of every buffer, and the step of their sizes.
pub const BUFFER_ALIGNMENT: usize = 4096;

/// A source of [`Buffer`]s; clones share the same idle memory.
#[derive(Clone, Debug)]
pub struct BufferPool {
    idle: Arc<Mutex<IdleMemory>>,
}

#[derive(Debug)]
struct IdleMemory {
    by_capacity: BTreeMap<usize, Vec<BufferMemory>>,
    bytes: usize,
    limit_bytes: usize,
}

impl BufferPool {
    /// A pool that keeps at most `limit_bytes` of idle memory.
    pub fn new(limit_bytes: usize) -> Self {
        let idle = IdleMemory { by_capacity: BTreeMap::new(), bytes: 0, limit_bytes };
        Self { idle: Arc::new(Mutex::new(idle)) }
    }

    /// A buffer of at least `len` bytes with unspecified content.
    ///
    /// # Panics
    /// If the system has no memory left.
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
        let memory = reused.unwrap_or_else(|| self.map(capacity));
        Buffer { memory: Some(memory), pool: self.clone() }
    }

    /// Maps new memory. It cuts a slab into pieces and puts all but one into the pool.
    fn map(&self, capacity: usize) -> BufferMemory {
        let in_pieces = capacity <= SLAB_BYTES / 4 && self.idle.lock().limit_bytes >= SLAB_BYTES;
        let slab = MappedSlab::map(if in_pieces { SLAB_BYTES } else { capacity });
        let slab = slab.unwrap_or_else(|error| panic!("no memory for a buffer: {error}"));
        let mut pieces = slab.cut(capacity);
        let first = pieces.next().expect("a slab has room for a piece");
        pieces.for_each(|piece| self.put_back(piece));
        first
    }

    /// Bytes that wait to be used again.
    pub fn idle_bytes(&self) -> usize {
        self.idle.lock().bytes
    }

    fn put_back(&self, memory: BufferMemory) {
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
    memory: Option<BufferMemory>,
    pool: BufferPool,
}

impl Buffer {
    fn memory(&self) -> &BufferMemory {
        self.memory.as_ref().expect("a buffer has its memory until it is dropped")
    }

    /// The address of the bytes, which stays the same until the buffer is dropped.
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

/// A piece of a slab.
#[derive(Debug)]
struct BufferMemory {
    start: NonNull<u8>,
    capacity: usize,
    /// Keeps the memory mapped.
    _slab: Arc<MappedSlab>,
}

// SAFETY: the memory is owned by this value alone and bound to no thread.
unsafe impl Send for BufferMemory {}
// SAFETY: shared access only reads it.
unsafe impl Sync for BufferMemory {}

/// Memory from the kernel, zeroed by it.
#[derive(Debug)]
struct MappedSlab {
    start: *mut c_void,
    len: usize,
}

// SAFETY: a mapping is bound to no thread, and unmapped only after its last reference.
unsafe impl Send for MappedSlab {}
// SAFETY: the slab itself is never accessed, only its pieces, each by its owner.
unsafe impl Sync for MappedSlab {}

/// The size of the slabs from which small pieces are cut.
const SLAB_BYTES: usize = 2 << 20;

impl MappedSlab {
    fn map(len: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no other memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, access, flags)? };
        Ok(Self { start, len })
    }

    /// Pieces of equal capacity.
    fn cut(self, capacity: usize) -> impl Iterator<Item = BufferMemory> {
        let slab = Arc::new(self);
        (0..slab.len / capacity).map(move |i| {
            // SAFETY: the piece ends within the slab.
            let start = unsafe { slab.start.byte_add(i * capacity) };
            let start = NonNull::new(start.cast()).expect("a mapping is not at address zero");
            BufferMemory { start, capacity, _slab: slab.clone() }
        })
    }
}

impl Drop for MappedSlab {
    fn drop(&mut self) {
        // SAFETY: the last piece is dropped, so that no reference to the mapping exists.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

/// Rounds a length up to a capacity: eight steps per power of two above 32 KiB, steps of 4 KiB below.
/// At most an eighth stays unused.
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
        for limit in [64 << 10, 4 << 20] {
            let pool = BufferPool::new(limit);
            let first = pool.get(50_000);
            let place = first.as_raw();
            assert!(place.addr().is_multiple_of(BUFFER_ALIGNMENT));
            drop(first);
            assert_eq!(pool.get(51_000).as_raw(), place);
            let mut many: Vec<_> = (0..200).map(|_| pool.get(30_000)).collect();
            many.iter_mut().zip(0..).for_each(|(buffer, i): (_, u8)| buffer.fill(i));
            assert!(many.iter().zip(0..).all(|(buffer, i)| buffer.iter().all(|&byte| byte == i)));
            drop(many);
            assert!(pool.idle_bytes() <= limit && pool.idle_bytes() > 0);
            assert!(pool.get(5 << 20).iter().all(|&byte| byte == 0));
        }
    }
}

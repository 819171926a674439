//! Memory that several processes of a machine share: atomic words, and bytes behind them.
//! `process_memory` has the locks and waits in the words.
//!
//! Its size is sealed, so that no process can shrink it and make others crash.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::process_memory::{FutexParker, Parker, SharedWord, SwitchPoint};

/// Mappings begin at a multiple of this.
const PAGE_BYTES: usize = 4096;
/// A huge page.
const HUGE_BYTES: usize = 2 << 20;
/// Bytes allocated in huge pages by one call.
const TAKEN_AT_ONCE: usize = 64 << 20;
/// If one call takes longer, single pages are faster.
const SLOW_STEP: Duration = Duration::from_millis(64);

/// Memory shared with other processes, in one or more equal parts.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::Ordering;
///
/// use pario_net::{SharedMemory, SharedMemoryShape};
///
/// # fn main() -> std::io::Result<()> {
/// let shape = SharedMemoryShape { parts: 2, words: 16, bytes: 1000 };
/// let ours = Arc::new(SharedMemory::new(shape)?);
/// // Another process gets the descriptor, over a `DescriptorServer` for example.
/// let theirs = Arc::new(SharedMemory::from_descriptor(ours.descriptor().try_clone_to_owned()?, shape)?);
/// let (ours, theirs) = (ours.part(1), theirs.part(1));
/// ours.words()[3].store(7, Ordering::Release);
/// assert_eq!(theirs.words()[3].load(Ordering::Acquire), 7);
/// ours.put(990, b"ten bytes!");
/// let mut bytes = [0; 4];
/// theirs.get(996, &mut bytes);
/// assert_eq!(&bytes, b"tes!");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedMemory {
    descriptor: OwnedFd,
    start: NonNull<AtomicU32>,
    shape: SharedMemoryShape,
    /// How processes wait for each other, if not by futexes.
    parker: OnceLock<Arc<dyn Parker>>,
}

/// The division of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemoryShape {
    /// The number of parts.
    pub parts: usize,
    /// Words of each part.
    pub words: usize,
    /// Bytes of each part.
    pub bytes: usize,
}

/// A part of shared memory.
#[derive(Clone, Debug)]
pub struct SharedMemoryPart {
    memory: Arc<SharedMemory>,
    number: usize,
}

// SAFETY: the mapping is bound to no thread; its numbers are atomic, and its bytes are copied.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; `put` and `get` only ever copy, and hand out no references.
unsafe impl Sync for SharedMemory {}

impl SharedMemoryShape {
    /// The total size in bytes: first the words of all parts, then the bytes of all parts.
    fn size_bytes(&self) -> Option<usize> {
        let words = self.words.checked_mul(4)?;
        words.checked_add(self.bytes)?.checked_mul(self.parts)
    }
}

impl SharedMemory {
    /// Creates zeroed memory. Unused memory costs nothing.
    pub fn new(shape: SharedMemoryShape) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = memfd_create("pario", flags)?;
        let size = shape.size_bytes().ok_or(io::ErrorKind::OutOfMemory)?;
        rustix::fs::ftruncate(&descriptor, size as u64)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::from_descriptor(descriptor, shape)
    }

    /// Maps the memory of a descriptor that another process has created in this shape.
    pub fn from_descriptor(descriptor: OwnedFd, shape: SharedMemoryShape) -> io::Result<Self> {
        let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if !fcntl_get_seals(&descriptor)?.contains(SealFlags::SHRINK) {
            return wrong("memory that could become smaller is not shared");
        }
        let size = usize::try_from(rustix::fs::fstat(&descriptor)?.st_size).unwrap_or(0);
        let Some(size) = shape.size_bytes().filter(|wanted| (1..=size).contains(wanted)) else {
            return wrong("the memory is smaller than it should be");
        };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let place = aligned_place(size)?;
        let flags = match place.is_null() {
            true => MapFlags::SHARED,
            false => MapFlags::SHARED | MapFlags::FIXED,
        };
        // SAFETY: a new mapping at a place that the kernel chooses, or that is kept free for it,
        // touches nothing that exists. It can never be shortened, so that using it does not fail.
        let start = unsafe { mmap(place, size, access, flags, &descriptor, 0)? };
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Self { descriptor, start, shape, parker: OnceLock::new() }),
            None => wrong("the memory cannot be used"),
        }
    }

    /// The descriptor that another process needs to map it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Replaces futexes by another way to wait, for this mapping and once. For simulators.
    pub fn set_parker(&self, parker: Arc<dyn Parker>) {
        let _ = self.parker.set(parker);
    }

    /// A part of it.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn part(self: &Arc<Self>, number: usize) -> SharedMemoryPart {
        let parts = self.shape.parts;
        assert!(number < parts, "there are {parts} parts, so there is no part {number}");
        SharedMemoryPart { memory: self.clone(), number }
    }
}

impl SharedMemoryPart {
    /// The number of threads to wake: all.
    pub(crate) const ALL: u32 = i32::MAX.unsigned_abs();

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU32] {
        let SharedMemoryShape { words, .. } = self.memory.shape;
        // SAFETY: the mapping is aligned to pages, has `words` words for each part, and lives as
        // long as this.
        unsafe {
            let start = self.memory.start.add(self.number * words);
            std::slice::from_raw_parts(start.as_ptr(), words)
        }
    }

    /// The bytes as counters of 64 bits. Use them either by this or by [`put`](Self::put) and
    /// [`get`](Self::get).
    ///
    /// # Panics
    /// If the shape puts the room at no multiple of 8 bytes.
    pub fn counters(&self) -> &[AtomicU64] {
        let SharedMemoryShape { bytes, .. } = self.memory.shape;
        let place = self.pointer(0, bytes).cast::<AtomicU64>();
        assert!(place.is_aligned(), "counters begin at a multiple of 8 bytes");
        // SAFETY: the place is aligned, inside of the mapping, and lives as long as this; every value
        // of the bytes is a counter.
        unsafe { std::slice::from_raw_parts(place, bytes / 8) }
    }

    /// Copies bytes to an offset. The processes must coordinate access to the range by the words.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        let place = self.pointer(offset, bytes.len());
        // SAFETY: `place` is inside of the mapping, which no reference leads to.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) }
    }

    /// Copies bytes to an offset with a system call. In memory that was never used this is faster
    /// than [`put`](Self::put), which faults page by page.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn fill(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let SharedMemoryShape { parts, words, bytes: room } = self.memory.shape;
        let fits = offset.checked_add(bytes.len()).is_some_and(|end| end <= room);
        assert!(fits, "{} bytes at {offset} do not fit into {room}", bytes.len());
        let mut at = (parts * words * 4 + self.number * room + offset) as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::pwrite(&self.memory.descriptor, rest, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    rest = &rest[count..];
                    at += count as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Allocates a range now, in huge pages, which are several times faster to allocate and use
    /// than single ones; contents stay. Returns for how many bytes from the beginning it did: none
    /// if the system cannot do it or the range is short, and less than all if it becomes slow
    /// because the memory of the machine is fragmented.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn take_huge(&self, offset: usize, len: usize) -> usize {
        let place = self.pointer(offset, len);
        let first = place.addr().next_multiple_of(HUGE_BYTES) - place.addr();
        let end = (place.addr() + len) / HUGE_BYTES * HUGE_BYTES;
        // Huge pages begin where they begin in the memory itself.
        let is_aligned = self.memory.start.addr().get().is_multiple_of(HUGE_BYTES);
        if !is_aligned || end <= place.addr() + first {
            return 0;
        }
        let mut taken = first;
        while place.addr() + taken < end {
            let step = TAKEN_AT_ONCE.min(end - place.addr() - taken);
            let began = Instant::now();
            if !take_huge(place.wrapping_add(taken), step) {
                break;
            }
            taken += step;
            if began.elapsed() > SLOW_STEP {
                break;
            }
        }
        if taken == first {
            return 0;
        }
        let rest = len - taken;
        // What is before the first huge page and behind the last one.
        self.populate(offset, first);
        if rest < HUGE_BYTES {
            self.populate(offset + taken, rest);
            taken = len;
        }
        taken
    }

    /// Allocates a range in single pages; contents stay.
    fn populate(&self, offset: usize, len: usize) {
        self.advise(offset, len, Advice::LinuxPopulateWrite);
    }

    /// Maps a range into this process: pages that any process has used cost no page fault here
    /// afterwards. On older systems this does nothing.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn make_ready(&self, offset: usize, len: usize) {
        self.advise(offset, len, Advice::LinuxPopulateRead);
    }

    /// Advises the system about a range without changing its bytes.
    fn advise(&self, offset: usize, len: usize, advice: Advice) {
        let place = self.pointer(offset, len);
        let before = place.addr() % PAGE_BYTES;
        let start = place.wrapping_sub(before);
        // SAFETY: the pages are those of the place, which is inside of the mapping, and what is in
        // them is not changed.
        let _ = unsafe { madvise(start.cast(), len + before, advice) };
    }

    /// Copies bytes from an offset.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn get(&self, offset: usize, bytes: &mut [u8]) {
        let place = self.pointer(offset, bytes.len());
        // SAFETY: `place` is inside of the mapping, which no reference leads to.
        unsafe { std::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Returns the address of `len` bytes at an offset. The memory stays mapped while this part, or
    /// another one of it, exists.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn pointer(&self, offset: usize, len: usize) -> *mut u8 {
        let SharedMemoryShape { parts, words, bytes } = self.memory.shape;
        let fits = offset.checked_add(len).is_some_and(|end| end <= bytes);
        assert!(fits, "{len} bytes at {offset} do not fit into {bytes}");
        let offset = self.number * bytes + offset;
        // SAFETY: the place was checked to be inside of the part, and so of the mapping.
        unsafe { self.memory.start.add(parts * words).cast::<u8>().add(offset).as_ptr() }
    }

    pub(crate) fn parker(&self) -> &dyn Parker {
        self.memory.parker.get().map_or(&FutexParker, |parker| &**parker)
    }

    fn word(&self, index: usize) -> SharedWord<'_> {
        SharedWord { part: self.number, index, value: &self.words()[index] }
    }

    /// The time since a fixed moment, by a clock that all processes of the machine share.
    pub fn now(&self) -> Duration {
        self.parker().now()
    }

    /// The number of this process.
    pub fn process_id(&self) -> u32 {
        self.parker().process_id()
    }

    /// Whether a process of this machine runs.
    pub fn is_running(&self, process: u32) -> bool {
        self.parker().is_running(process)
    }

    pub(crate) fn park(&self, index: usize, seen: u32, limit: Duration) {
        self.parker().park(self.word(index), seen, limit);
    }

    pub(crate) fn wake(&self, index: usize, count: u32) {
        self.parker().wake(self.word(index), count);
    }

    /// A point at which a simulator may let another process run; otherwise it costs one load.
    #[inline]
    pub(crate) fn reach(&self, point: SwitchPoint, index: usize) {
        if let Some(parker) = self.memory.parker.get() {
            parker.reach(point, self.word(index));
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let size = self.shape.size_bytes().unwrap_or(0);
        // SAFETY: mapped in `from_descriptor`, and no reference to it is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), size) };
    }
}

/// Reserves an address range for a mapping that begins at a huge page; null for short mappings,
/// which may begin anywhere.
fn aligned_place(size: usize) -> io::Result<*mut std::ffi::c_void> {
    if size < 2 * HUGE_BYTES {
        return Ok(std::ptr::null_mut());
    }
    let room = size.checked_add(HUGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists.
    let start = unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        mmap_anonymous(std::ptr::null_mut(), room, ProtFlags::empty(), flags)?
    };
    let before = start.addr().next_multiple_of(HUGE_BYTES) - start.addr();
    let end = before + size.next_multiple_of(PAGE_BYTES);
    let place = start.wrapping_byte_add(before);
    // SAFETY: these are the ends of the mapping that was just made, which no other code knows.
    unsafe {
        if before > 0 {
            munmap(start, before)?;
        }
        if end < room {
            munmap(start.wrapping_byte_add(end), room - end)?;
        }
    }
    Ok(place)
}

/// Collapses a range that begins and ends with huge pages. Returns whether the system did. Each
/// huge page must hold at least one page.
fn take_huge(place: *mut u8, len: usize) -> bool {
    for offset in (0..len).step_by(HUGE_BYTES) {
        // SAFETY: the place is inside of a mapping. What the byte is does not matter; volatile, so
        // that it is really read, and the system gives a page for it.
        let _ = unsafe { place.wrapping_add(offset).read_volatile() };
    }
    // SAFETY: as above; the call changes no byte.
    unsafe { libc::madvise(place.cast(), len, libc::MADV_COLLAPSE) == 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn memory(parts: usize, words: usize, bytes: usize) -> Arc<SharedMemory> {
        Arc::new(SharedMemory::new(SharedMemoryShape { parts, words, bytes }).unwrap())
    }

    fn theirs(ours: &SharedMemory) -> Arc<SharedMemory> {
        let descriptor = ours.descriptor().try_clone_to_owned().unwrap();
        Arc::new(SharedMemory::from_descriptor(descriptor, ours.shape).unwrap())
    }

    #[test]
    fn a_sleeping_thread_is_woken_through_another_mapping() {
        let ours = memory(2, 4, 0);
        let theirs = theirs(&ours).part(1);
        let ours = ours.part(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while ours.words()[2].load(Ordering::Acquire) == 0 {
                    ours.park(2, 0, Duration::from_secs(60));
                }
            });
            theirs.words()[2].store(1, Ordering::Release);
            theirs.wake(2, 1);
        });
        ours.park(2, 0, Duration::from_secs(60));
    }

    #[test]
    fn parts_do_not_touch_each_other() {
        let ours = memory(3, 5, 7);
        let theirs = theirs(&ours);
        for number in 0..3_u8 {
            let part = ours.part(number.into());
            part.words().iter().for_each(|word| word.store(number.into(), Ordering::Relaxed));
            part.put(0, &[number; 7]);
        }
        for number in 0..3_u8 {
            let part = theirs.part(number.into());
            let is_its = |word: &AtomicU32| word.load(Ordering::Relaxed) == u32::from(number);
            assert!(part.words().len() == 5 && part.words().iter().all(is_its));
            let mut bytes = [9; 7];
            part.get(0, &mut bytes);
            assert_eq!(bytes, [number; 7]);
        }
    }

    #[test]
    fn counters_are_seen_by_all() {
        let ours = memory(2, 4, 24);
        let theirs = theirs(&ours);
        let counters = ours.part(1);
        assert_eq!(counters.counters().len(), 3);
        counters.counters()[2].fetch_add(1 << 40, Ordering::Relaxed);
        assert_eq!(theirs.part(1).counters()[2].load(Ordering::Relaxed), 1 << 40);
        assert_eq!(theirs.part(0).counters()[2].load(Ordering::Relaxed), 0);
    }

    #[test]
    #[should_panic(expected = "a multiple of 8 bytes")]
    fn counters_that_are_not_aligned_are_refused() {
        memory(1, 1, 8).part(0).counters();
    }

    #[test]
    fn what_is_filled_is_seen_by_all() {
        let ours = memory(2, 5, 10_000);
        let theirs = SharedMemory::from_descriptor(
            ours.descriptor().try_clone_to_owned().unwrap(),
            ours.shape,
        );
        let theirs = Arc::new(theirs.unwrap()).part(1);
        ours.part(1).fill(9_990, b"ten bytes!").unwrap();
        theirs.make_ready(9_000, 1_000);
        let mut bytes = [0; 11];
        theirs.get(9_989, &mut bytes);
        assert_eq!(&bytes, b"\0ten bytes!");
        ours.part(0).get(9_989, &mut bytes);
        assert_eq!(bytes, [0; 11]);
    }

    #[test]
    fn memory_that_is_taken_in_huge_pages_keeps_what_is_there() {
        let len = 9 * HUGE_BYTES + 5_000;
        let ours = memory(1, 1024, len);
        let theirs = theirs(&ours).part(0);
        let ours = ours.part(0);
        let places = [0, 4_095, HUGE_BYTES, 3 * HUGE_BYTES + 77, len - 10];
        for place in places {
            ours.put(place, b"ten bytes!");
        }
        // Systems that cannot do it take nothing.
        let taken = ours.take_huge(100, len - 100);
        assert!(taken <= len - 100);
        assert!(taken == 0 || taken >= HUGE_BYTES, "{taken}");
        let mut bytes = vec![1; len];
        theirs.get(0, &mut bytes);
        for place in places {
            assert_eq!(&bytes[place..][..10], b"ten bytes!");
            bytes[place..][..10].fill(0);
        }
        assert!(bytes.iter().all(|byte| *byte == 0));
        assert_eq!(ours.take_huge(0, HUGE_BYTES / 2), 0, "it is too short");
    }

    #[test]
    fn what_could_become_smaller_is_refused() {
        let shape = SharedMemoryShape { parts: 1, words: 16, bytes: 0 };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let loose = memfd_create("loose", flags).unwrap();
        rustix::fs::ftruncate(&loose, 4096).unwrap();
        assert!(SharedMemory::from_descriptor(loose, shape).is_err());
        let small = memory(1, 4, 0);
        assert!(
            SharedMemory::from_descriptor(small.descriptor().try_clone_to_owned().unwrap(), shape)
                .is_err()
        );
        assert!(rustix::fs::ftruncate(small.descriptor(), 0).is_err());
    }

    #[test]
    #[should_panic(expected = "do not fit")]
    fn bytes_beyond_the_room_are_refused() {
        memory(2, 4, 8).part(0).put(1, &[0; 8]);
    }
}

//! Memory that several processes of a machine have in common: numbers that are read and written
//! atomically, behind them room for bytes, and a way to sleep until a number changes.
//!
//! Its size is sealed, so that nobody who has it can make it smaller and let others stumble.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use rustix::time::ClockId;

/// Memory in common with other processes.
///
/// ```
/// use std::sync::atomic::Ordering;
///
/// use pario_net::CommonMemory;
///
/// # fn main() -> std::io::Result<()> {
/// let ours = CommonMemory::new(16, 1000)?;
/// // Another process gets the descriptor, over a `DescriptorDoor` for example.
/// let theirs = CommonMemory::of(ours.descriptor().try_clone_to_owned()?, 16)?;
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
pub struct CommonMemory {
    descriptor: OwnedFd,
    start: NonNull<AtomicU32>,
    words: usize,
    bytes: usize,
}

// SAFETY: the mapping is bound to no thread; its numbers are atomic, and its bytes are copied.
unsafe impl Send for CommonMemory {}
// SAFETY: as above; `put` and `get` only ever copy, and hand out no references.
unsafe impl Sync for CommonMemory {}

impl CommonMemory {
    /// New memory, all of it zero: so many numbers, and room for so many bytes.
    pub fn new(words: usize, bytes: usize) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = memfd_create("pario", flags)?;
        rustix::fs::ftruncate(&descriptor, 4 * words as u64 + bytes as u64)?;
        fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::of(descriptor, words)
    }

    /// The memory of a descriptor that another process has made, with so many numbers.
    pub fn of(descriptor: OwnedFd, words: usize) -> io::Result<Self> {
        let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if !fcntl_get_seals(&descriptor)?.contains(SealFlags::SHRINK) {
            return wrong("memory that could become smaller is not shared");
        }
        let size = usize::try_from(rustix::fs::fstat(&descriptor)?.st_size).unwrap_or(0);
        let Some(bytes) = size.checked_sub(4 * words).filter(|_| size > 0) else {
            return wrong("the memory is smaller than it should be");
        };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists. It
        // can never be shortened, so that using it does not fail.
        let start =
            unsafe { mmap(std::ptr::null_mut(), size, access, MapFlags::SHARED, &descriptor, 0)? };
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Self { descriptor, start, words, bytes }),
            None => wrong("the memory cannot be used"),
        }
    }

    /// What another process needs to have it too.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The numbers.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is aligned to pages, has so many numbers, and lives as long as this.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Copies bytes to a place behind the numbers. Who else uses the place at this moment must be
    /// settled with the numbers.
    ///
    /// # Panics
    /// If they do not fit there.
    pub fn put(&self, offset: usize, bytes: &[u8]) {
        let place = self.place(offset, bytes.len());
        // SAFETY: `place` is inside of the mapping, which no reference leads to.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) }
    }

    /// Copies bytes from a place behind the numbers.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn get(&self, offset: usize, bytes: &mut [u8]) {
        let place = self.place(offset, bytes.len());
        // SAFETY: `place` is inside of the mapping, which no reference leads to.
        unsafe { std::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) }
    }

    fn place(&self, offset: usize, len: usize) -> *mut u8 {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.bytes);
        assert!(fits, "{len} bytes at {offset} do not fit into {}", self.bytes);
        // SAFETY: the place was checked to be inside of the mapping.
        unsafe { self.start.add(self.words).cast::<u8>().add(offset).as_ptr() }
    }

    /// Sleeps until the number is another one and somebody calls [`wake`](Self::wake), but not
    /// longer than this. It may wake earlier.
    pub fn sleep(&self, word: usize, seen: u32, limit: Duration) {
        let tv_sec = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        let limit = rustix::time::Timespec { tv_sec, tv_nsec: limit.subsec_nanos().into() };
        // Whoever sleeps looks again afterwards, whatever has woken it.
        let _ = futex::wait(&self.words()[word], futex::Flags::empty(), seen, Some(&limit));
    }

    /// Wakes so many of those who sleep because of a number.
    pub fn wake(&self, word: usize, count: u32) {
        let _ = futex::wake(&self.words()[word], futex::Flags::empty(), count);
    }

    /// Raises a number, and wakes all who sleep because of it.
    pub fn raise(&self, word: usize) {
        self.words()[word].fetch_add(1, Ordering::AcqRel);
        self.wake(word, i32::MAX.unsigned_abs());
    }
}

impl Drop for CommonMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`, and nobody refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), 4 * self.words + self.bytes) };
    }
}

/// Milliseconds by the clock of the machine: all its processes read the same.
pub fn machine_ms() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_is_woken_by_another_mapping() {
        let ours = CommonMemory::new(4, 0).unwrap();
        let theirs = CommonMemory::of(ours.descriptor().try_clone_to_owned().unwrap(), 4).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while ours.words()[2].load(Ordering::Acquire) == 0 {
                    ours.sleep(2, 0, Duration::from_secs(60));
                }
            });
            theirs.raise(2);
        });
        ours.sleep(2, 0, Duration::from_secs(60));
    }

    #[test]
    fn what_could_become_smaller_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let loose = memfd_create("loose", flags).unwrap();
        rustix::fs::ftruncate(&loose, 4096).unwrap();
        assert!(CommonMemory::of(loose, 16).is_err());
        let small = CommonMemory::new(4, 0).unwrap();
        assert!(CommonMemory::of(small.descriptor().try_clone_to_owned().unwrap(), 5).is_err());
        assert!(rustix::fs::ftruncate(small.descriptor(), 0).is_err());
    }

    #[test]
    #[should_panic(expected = "do not fit")]
    fn bytes_beyond_the_room_are_refused() {
        CommonMemory::new(4, 8).unwrap().put(1, &[0; 8]);
    }
}

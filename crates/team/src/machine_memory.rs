//! The shared memory of the ranks of this machine, as every process of the machine maps it.

use pario_net::SharedMemoryPart;

use crate::board::{Board, DepartedRank, LOCKS_PER_RANK};
use crate::number::{Number, Word, with_kind};

/// Bytes of a segment under one lock; the locks repeat.
const CLASS_BYTES: usize = 16 << 10;
/// The word that counts the ranks that have released the memory.
const RELEASED: usize = 0;
/// Words in front of the bytes: a page of them, so that the bytes begin at a page.
pub const MACHINE_MEMORY_WORDS: usize = 1024;

/// The memory of ranks of this machine.
pub struct MachineMemory {
    part: SharedMemoryPart,
    /// Where the segment of each rank begins and its length; none for other machines.
    places: Vec<Option<(usize, usize)>>,
}

impl MachineMemory {
    /// Wraps memory with these segments.
    pub fn new(part: SharedMemoryPart, places: Vec<Option<(usize, usize)>>) -> Self {
        Self { part, places }
    }

    /// Returns the address of bytes of a rank; none if they are not here.
    #[inline]
    pub fn pointer(&self, rank: u32, offset: usize, len: usize) -> Option<*mut u8> {
        let (start, all) = (*self.places.get(rank as usize)?)?;
        let end = offset.checked_add(len)?;
        (end <= all).then(|| self.part.pointer(start + offset, len))
    }

    /// Copies bytes to a segment. Returns false if it is not here.
    #[inline]
    pub fn put(&self, rank: u32, offset: usize, bytes: &[u8]) -> bool {
        let Some(place) = self.pointer(rank, offset, bytes.len()) else { return false };
        // SAFETY: the range was checked to be inside of the mapping, which stays while this exists;
        // the bytes may be part of the mapping as well, so the two may overlap.
        unsafe { std::ptr::copy(bytes.as_ptr(), place, bytes.len()) }
        true
    }

    /// Like `put`, with a system call, which is faster in memory that was never used.
    pub fn fill(&self, rank: u32, offset: usize, bytes: &[u8]) -> Result<bool, String> {
        let place = self.places.get(rank as usize).copied().flatten();
        let end = offset.checked_add(bytes.len());
        match (place, end) {
            (Some((start, all)), Some(end)) if end <= all => {
                let filled = self.part.fill(start + offset, bytes);
                filled.map(|()| true).map_err(|error| error.to_string())
            }
            _ => Ok(false),
        }
    }

    /// Allocates the memory of a rank now, in huge pages. Returns for how many bytes.
    pub fn take_huge(&self, rank: u32) -> usize {
        let place = self.places.get(rank as usize).copied().flatten();
        place.map_or(0, |(start, len)| self.part.take_huge(start, len))
    }

    /// Maps all used pages into this process.
    pub fn make_ready(&self) {
        for (start, len) in self.places.iter().flatten() {
            self.part.make_ready(*start, *len);
        }
    }

    /// Copies bytes from a segment. Returns false if it is not here.
    #[inline]
    pub fn get(&self, rank: u32, offset: usize, bytes: &mut [u8]) -> bool {
        let Some(place) = self.pointer(rank, offset, bytes.len()) else { return false };
        // SAFETY: as in `put`.
        unsafe { std::ptr::copy(place, bytes.as_mut_ptr(), bytes.len()) }
        true
    }

    /// Adds numbers, each times a factor, to numbers of a segment. Returns false if they are not
    /// here. The locks of the board exclude other accumulating ranks.
    pub fn accumulate<T: Number>(
        &self,
        board: &Board,
        rank: u32,
        offset: usize,
        factor: T,
        numbers: Numbers<'_, T>,
    ) -> Result<bool, DepartedRank> {
        let each = size_of::<T>();
        if self.pointer(rank, offset, numbers.len() * each).is_none() {
            return Ok(false);
        }
        let mut done = 0;
        while done < numbers.len() {
            let place = offset + done * each;
            // Numbers that begin under one lock: also the one that ends under the next.
            let left = CLASS_BYTES - place % CLASS_BYTES;
            let count = left.div_ceil(each).min(numbers.len() - done);
            let Some(pointer) = self.pointer(rank, place, count * each) else { return Ok(false) };
            let lock = board.lock_of(rank, place / CLASS_BYTES % LOCKS_PER_RANK);
            lock.lock()?;
            // SAFETY: the address is mapped while this exists, and has room for `count` numbers,
            // which need no alignment; the lock excludes other accumulating ranks.
            unsafe { numbers.add_to(done, count, factor, pointer.cast()) };
            lock.unlock();
            done += count;
        }
        Ok(true)
    }

    /// Changes a number of a segment by one instruction; none if it is not here or not aligned.
    #[inline]
    pub fn change<T: Word>(
        &self,
        rank: u32,
        offset: usize,
        change: impl FnOnce(*mut u8) -> T,
    ) -> Option<T> {
        let place = self.pointer(rank, offset, size_of::<T>())?;
        place.addr().is_multiple_of(size_of::<T>()).then(|| change(place))
    }

    /// The shared memory itself.
    pub fn part(&self) -> &SharedMemoryPart {
        &self.part
    }

    /// Releases the memory for a rank. Returns how many ranks have released it.
    pub fn release(&self) -> u32 {
        self.part.words()[RELEASED].fetch_add(1, std::sync::atomic::Ordering::AcqRel) + 1
    }

    /// The number of ranks that have released it.
    pub fn released_by(&self) -> u32 {
        self.part.words()[RELEASED].load(std::sync::atomic::Ordering::Acquire)
    }
}

/// Numbers to add: a slice, or bytes at any address.
#[derive(Clone, Copy)]
pub struct Numbers<'a, T> {
    start: *const T,
    count: usize,
    borrowed: std::marker::PhantomData<&'a [T]>,
}

impl<'a, T: Number> Numbers<'a, T> {
    /// Those of a slice.
    pub fn of(numbers: &'a [T]) -> Self {
        Self { start: numbers.as_ptr(), count: numbers.len(), borrowed: std::marker::PhantomData }
    }

    /// Those that bytes are.
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        let count = bytes.len() / size_of::<T>();
        Self { start: bytes.as_ptr().cast(), count, borrowed: std::marker::PhantomData }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds some of them to numbers at an address, with the widest instructions that the processor
    /// has.
    ///
    /// # Safety
    /// There must be `count` numbers at `place`, which no other thread adds to during the call.
    unsafe fn add_to(&self, first: usize, count: usize, factor: T, place: *mut T) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has them, and the caller says the rest.
            return unsafe { self.add_to_by_avx2(first, count, factor, place) };
        }
        // SAFETY: the caller says so.
        unsafe { self.add_each_to(first, count, factor, place) }
    }

    /// Like `add_to`, for processors with AVX2.
    ///
    /// # Safety
    /// As of `add_to`; and this processor must have it.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn add_to_by_avx2(&self, first: usize, count: usize, factor: T, place: *mut T) {
        // SAFETY: the caller says so.
        unsafe { self.add_each_to(first, count, factor, place) }
    }

    /// # Safety
    /// As of `add_to`.
    #[inline(always)]
    unsafe fn add_each_to(&self, first: usize, count: usize, factor: T, place: *mut T) {
        debug_assert!(first + count <= self.count, "no more than there are");
        let is_one = factor == T::one();
        for number in 0..count {
            // SAFETY: `first + number` is one of the numbers, and the caller says that there are so
            // many at the place; neither needs to be aligned.
            unsafe {
                let value = self.start.add(first + number).read_unaligned();
                let value = if is_one { value } else { value.times(factor) };
                let place = place.add(number);
                place.write_unaligned(place.read_unaligned().plus(value));
            }
        }
    }
}

/// Adds numbers of a type, given as bytes, each times a factor, to numbers in other bytes. Returns
/// whether the type exists and both have the same length.
pub fn add_numbers(kind: u32, factor: &[u8; 8], numbers: &[u8], to: &mut [u8]) -> bool {
    let added = with_kind!(kind, T => {
        let is_whole = numbers.len() == to.len() && numbers.len().is_multiple_of(size_of::<T>());
        if is_whole {
            let numbers = Numbers::<T>::of_bytes(numbers);
            // SAFETY: both have the same length, and `to` is borrowed exclusively.
            unsafe {
                numbers.add_to(0, numbers.len(), T::of_bytes(factor), to.as_mut_ptr().cast());
            }
        }
        is_whole
    });
    added.unwrap_or(false)
}

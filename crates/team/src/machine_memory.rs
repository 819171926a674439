//! Memory that ranks of this machine have given, as every process of the machine has it.

use pario_net::SharedMemoryPart;

use crate::board::{Board, LOCKS_PER_RANK, MissingRank};
use crate::number::{Number, Word, with_kind};

/// Places of a segment that share a lock: as long as this, and then again after all locks.
const CLASS_BYTES: usize = 16 << 10;
/// The number that counts who has no use for the memory any more.
const RELEASED: usize = 0;
/// Numbers in front of the bytes: a page of them, so that bytes begin with a page.
pub const MACHINE_MEMORY_WORDS: usize = 1024;

/// Memory of ranks of this machine. Who uses it has checked that what it wants is there.
pub struct MachineMemory {
    part: SharedMemoryPart,
    /// Where the segment of each rank begins and how long it is; nothing for those of other machines.
    places: Vec<Option<(usize, usize)>>,
}

impl MachineMemory {
    /// The memory that has these places.
    pub fn new(part: SharedMemoryPart, places: Vec<Option<(usize, usize)>>) -> Self {
        Self { part, places }
    }

    /// Where so many bytes of a rank are; nothing if they are not here.
    #[inline]
    pub fn pointer(&self, rank: u32, offset: usize, len: usize) -> Option<*mut u8> {
        let (start, all) = (*self.places.get(rank as usize)?)?;
        let end = offset.checked_add(len)?;
        (end <= all).then(|| self.part.pointer(start + offset, len))
    }

    /// Copies bytes to a place of a rank; false if it is not here.
    #[inline]
    pub fn put(&self, rank: u32, offset: usize, bytes: &[u8]) -> bool {
        let Some(place) = self.pointer(rank, offset, bytes.len()) else { return false };
        // SAFETY: the place was checked to be inside of the mapping, which stays while this is here;
        // memory that is lent to the call may be there as well, so that the two may overlap.
        unsafe { std::ptr::copy(bytes.as_ptr(), place, bytes.len()) }
        true
    }

    /// The same with a call of the system, which is faster where the memory was never used.
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

    /// Takes the memory of a rank from the machine now, in huge pages; for how many bytes that was
    /// done.
    pub fn take_huge(&self, rank: u32) -> usize {
        let place = self.places.get(rank as usize).copied().flatten();
        place.map_or(0, |(start, len)| self.part.take_huge(start, len))
    }

    /// Makes what was used of all this memory ready for this process.
    pub fn make_ready(&self) {
        for (start, len) in self.places.iter().flatten() {
            self.part.make_ready(*start, *len);
        }
    }

    /// Copies bytes from a place of a rank; false if it is not here.
    #[inline]
    pub fn get(&self, rank: u32, offset: usize, bytes: &mut [u8]) -> bool {
        let Some(place) = self.pointer(rank, offset, bytes.len()) else { return false };
        // SAFETY: as in `put`.
        unsafe { std::ptr::copy(place, bytes.as_mut_ptr(), bytes.len()) }
        true
    }

    /// Adds numbers, each times a factor, to those at a place of a rank; false if it is not here. The
    /// locks of the board keep others who accumulate away.
    pub fn accumulate<T: Number>(
        &self,
        board: &Board,
        rank: u32,
        offset: usize,
        factor: T,
        numbers: Numbers<'_, T>,
    ) -> Result<bool, MissingRank> {
        let each = size_of::<T>();
        if self.pointer(rank, offset, numbers.len() * each).is_none() {
            return Ok(false);
        }
        let mut done = 0;
        while done < numbers.len() {
            let place = offset + done * each;
            // Numbers that begin in one class: also the one that ends in the next.
            let left = CLASS_BYTES - place % CLASS_BYTES;
            let count = left.div_ceil(each).min(numbers.len() - done);
            let Some(pointer) = self.pointer(rank, place, count * each) else { return Ok(false) };
            let lock = board.lock_of(rank, place / CLASS_BYTES % LOCKS_PER_RANK);
            lock.lock()?;
            // SAFETY: the place is mapped while this is here, and there are so many numbers in it,
            // which may lie anywhere; the lock keeps others who accumulate away.
            unsafe { numbers.add_to(done, count, factor, pointer.cast()) };
            lock.unlock();
            done += count;
        }
        Ok(true)
    }

    /// Changes a number of a rank by one instruction; nothing if it is not here or not aligned.
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

    /// The part of memory itself.
    pub fn part(&self) -> &SharedMemoryPart {
        &self.part
    }

    /// A rank has no use for it any more; how many that are now.
    pub fn release(&self) -> u32 {
        self.part.words()[RELEASED].fetch_add(1, std::sync::atomic::Ordering::AcqRel) + 1
    }

    /// How many ranks have no use for it any more.
    pub fn released_by(&self) -> u32 {
        self.part.words()[RELEASED].load(std::sync::atomic::Ordering::Acquire)
    }
}

/// Numbers to be added: as a slice, or as bytes that may lie anywhere.
#[derive(Clone, Copy)]
pub struct Numbers<'a, T> {
    start: *const T,
    count: usize,
    lent: std::marker::PhantomData<&'a [T]>,
}

impl<'a, T: Number> Numbers<'a, T> {
    /// Those of a slice.
    pub fn of(numbers: &'a [T]) -> Self {
        Self { start: numbers.as_ptr(), count: numbers.len(), lent: std::marker::PhantomData }
    }

    /// Those that bytes are.
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        let count = bytes.len() / size_of::<T>();
        Self { start: bytes.as_ptr().cast(), count, lent: std::marker::PhantomData }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds some of them to those at a place, with the widest instructions that the processor has.
    ///
    /// # Safety
    /// There must be so many numbers behind the place, which nobody else adds to meanwhile.
    unsafe fn add_to(&self, first: usize, count: usize, factor: T, place: *mut T) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has them, and the caller says the rest.
            return unsafe { self.add_to_by_avx2(first, count, factor, place) };
        }
        // SAFETY: the caller says so.
        unsafe { self.add_each_to(first, count, factor, place) }
    }

    /// The same for processors that have AVX2.
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

/// Adds numbers of a kind, which are bytes, each times a factor, to those in other bytes. Whether
/// there is such a kind, and as many of the ones as of the others.
pub fn add_numbers(kind: u32, factor: &[u8; 8], numbers: &[u8], to: &mut [u8]) -> bool {
    let added = with_kind!(kind, T => {
        let is_whole = numbers.len() == to.len() && numbers.len().is_multiple_of(size_of::<T>());
        if is_whole {
            let numbers = Numbers::<T>::of_bytes(numbers);
            // SAFETY: there are as many bytes, which are lent to this alone.
            unsafe {
                numbers.add_to(0, numbers.len(), T::of_bytes(factor), to.as_mut_ptr().cast());
            }
        }
        is_whole
    });
    added.unwrap_or(false)
}

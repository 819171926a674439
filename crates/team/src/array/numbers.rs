//! Arrays of numbers.

use std::fmt;
use std::marker::PhantomData;

use super::{LocalPage, RawArray};
use crate::error::TeamError;
use crate::number::{Number, name_of};
use crate::pending_access::Pending;
use crate::team::Team;

/// An array of numbers in the memory of all ranks, by pages; see [`RawArray`]. Clones are the same.
///
/// ```
/// # let team = pario_team::Team::meet("array", 1, 0)?;
/// let hits = team.array::<u64>(1_000_000)?; // collective; all of them are zero
/// hits.accumulate(&[1, 1], 7)?;
/// hits.accumulate_at(&[1, 1, 1], &[999_999, 7, 7])?;
/// let mut counted = [0; 3];
/// hits.gather(&mut counted, &[7, 8, 999_999])?;
/// assert_eq!(counted, [3, 1, 1]);
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct Array<T> {
    raw: RawArray,
    numbers: PhantomData<T>,
}

/// Numbers of an array that are in the memory of this rank, one behind the other.
pub struct LocalNumbers<T> {
    page: LocalPage,
    numbers: PhantomData<T>,
}

impl Team {
    /// Creates an array of `len` numbers, together with all ranks. They are zero.
    pub fn array<T: Number>(&self, len: u64) -> Result<Array<T>, TeamError> {
        let raw = self.array_of(len, size_of::<T>(), T::KIND, name_of(T::KIND))?;
        Ok(Array { raw, numbers: PhantomData })
    }
}

impl<T: Number> Array<T> {
    /// How many numbers there are.
    pub fn len(&self) -> u64 {
        self.raw.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The same array as one of elements.
    pub fn raw(&self) -> &RawArray {
        &self.raw
    }

    /// The rank of a number.
    pub fn owner(&self, index: u64) -> Result<u32, TeamError> {
        self.raw.owner(index)
    }

    /// Copies numbers from the array, from an index on.
    pub fn get(&self, numbers: &mut [T], first: u64) -> Result<(), TeamError> {
        self.raw.get(bytes_mut(numbers), first)
    }

    /// Copies numbers to the array, from an index on.
    pub fn put(&self, numbers: &[T], first: u64) -> Result<(), TeamError> {
        self.raw.put(bytes(numbers), first)
    }

    /// Copies the numbers with these indices. An index may come twice.
    pub fn gather(&self, numbers: &mut [T], indices: &[u64]) -> Result<(), TeamError> {
        self.raw.gather(bytes_mut(numbers), indices)
    }

    /// Copies numbers to these indices. If an index comes twice, the last one stays.
    pub fn scatter(&self, numbers: &[T], indices: &[u64]) -> Result<(), TeamError> {
        self.raw.scatter(bytes(numbers), indices)
    }

    /// Adds numbers to those from an index on. Concurrent additions lose nothing.
    pub fn accumulate(&self, numbers: &[T], first: u64) -> Result<(), TeamError> {
        self.raw.accumulate(numbers, first)
    }

    /// Starts to copy numbers from the array to a buffer, from an index on. The buffer is the
    /// result.
    pub fn start_get(&self, mut numbers: Vec<T>, first: u64) -> Result<Pending<Vec<T>>, TeamError> {
        let (start, count) = (numbers.as_mut_ptr().cast(), numbers.len() as u64);
        // SAFETY: the pending request keeps the numbers, which do not move, until no access uses
        // them; every pattern of bits is a number.
        unsafe { self.raw.start_get_into(start, first, count, numbers) }
    }

    /// Starts to copy numbers to the array, from an index on. Takes them at once: the caller may
    /// reuse their memory before it waits.
    pub fn start_put(&self, numbers: &[T], first: u64) -> Result<Pending<()>, TeamError> {
        self.raw.start_put(bytes(numbers), first)
    }

    /// Starts to add numbers to those from an index on. Takes them at once.
    pub fn start_accumulate(&self, numbers: &[T], first: u64) -> Result<Pending<()>, TeamError> {
        self.raw.start_accumulate(numbers, first)
    }

    /// Adds numbers to those with these indices. An index may come twice.
    pub fn accumulate_at(&self, numbers: &[T], indices: &[u64]) -> Result<(), TeamError> {
        self.raw.accumulate_at(numbers, indices)
    }

    /// Waits until all earlier puts are in place.
    pub fn fence(&self) -> Result<(), TeamError> {
        self.raw.fence()
    }

    /// The numbers of this rank, to be used directly: some indices, then others further on.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("local", 1, 0)?;
    /// let squares = team.array::<f64>(100_000)?;
    /// for some in squares.local() {
    ///     for number in 0..some.len() {
    ///         let index = (some.first() + number as u64) as f64;
    ///         // SAFETY: no other rank uses the array before the barrier.
    ///         unsafe { some.pointer().add(number).write(index * index) };
    ///     }
    /// }
    /// team.barrier()?;
    /// # let mut last = [0.0];
    /// # squares.get(&mut last, 99_999)?;
    /// # assert_eq!(last, [99_999.0 * 99_999.0]);
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn local(&self) -> impl Iterator<Item = LocalNumbers<T>> {
        self.raw.local().map(|page| LocalNumbers { page, numbers: PhantomData })
    }
}

impl<T: Number> LocalNumbers<T> {
    /// The index of the first one.
    pub fn first(&self) -> u64 {
        self.page.first()
    }

    /// Where they begin. Other ranks may read and write there at any time.
    pub fn pointer(&self) -> *mut T {
        self.page.pointer().cast()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.page.len() / size_of::<T>()
    }

    /// Whether there are none; that is never so.
    pub fn is_empty(&self) -> bool {
        self.page.is_empty()
    }
}

impl<T: Number> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} {})", self.len(), name_of(T::KIND))
    }
}

fn bytes<T: Number>(numbers: &[T]) -> &[u8] {
    // SAFETY: numbers have no padding, so all their bytes can be read.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

fn bytes_mut<T: Number>(numbers: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and every pattern of bits is a number.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}

//! Arrays of numbers.

use std::fmt;
use std::marker::PhantomData;

use super::{LocalPage, RawArray};
use crate::error::TeamError;
use crate::number::{Number, name_of};
use crate::team::Team;

/// An array of numbers in the memory of all ranks, by pages; see [`RawArray`]. Clones are the same.
///
/// ```
/// # let team = pario_team::Team::meet("array", 1, 0)?;
/// let hits = team.array::<u64>(1_000_000)?; // collective; all of them are zero
/// hits.accumulate(7, &[1, 1])?;
/// hits.accumulate_at(&[999_999, 7, 7], &[1, 1, 1])?;
/// let mut counted = [0; 3];
/// hits.gather(&[7, 8, 999_999], &mut counted)?;
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
    pub fn get(&self, first: u64, numbers: &mut [T]) -> Result<(), TeamError> {
        self.raw.get(first, bytes_mut(numbers))
    }

    /// Copies numbers to the array, from an index on.
    pub fn put(&self, first: u64, numbers: &[T]) -> Result<(), TeamError> {
        self.raw.put(first, bytes(numbers))
    }

    /// Copies the numbers with these indices. An index may come twice.
    pub fn gather(&self, indices: &[u64], numbers: &mut [T]) -> Result<(), TeamError> {
        self.raw.gather(indices, bytes_mut(numbers))
    }

    /// Copies numbers to these indices. If an index comes twice, the last one stays.
    pub fn scatter(&self, indices: &[u64], numbers: &[T]) -> Result<(), TeamError> {
        self.raw.scatter(indices, bytes(numbers))
    }

    /// Adds numbers to those from an index on. Concurrent additions lose nothing.
    pub fn accumulate(&self, first: u64, numbers: &[T]) -> Result<(), TeamError> {
        self.raw.accumulate(first, numbers)
    }

    /// Adds numbers to those with these indices. An index may come twice.
    pub fn accumulate_at(&self, indices: &[u64], numbers: &[T]) -> Result<(), TeamError> {
        self.raw.accumulate_at(indices, numbers)
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
    /// # squares.get(99_999, &mut last)?;
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

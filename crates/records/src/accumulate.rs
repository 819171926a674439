//! Accumulation, as callers see it: adds to numbers of a record without losing a concurrent update.

use std::ops::Range;

use pario_team::Number;

use super::access::check_stride;
use super::caller_memory::CallerMemory;
use super::error::RecordError;
use super::file::RecordFile;
use super::part_request::Addend;
use super::record::RecordId;
use super::request::Pending;

impl RecordFile {
    /// Adds numbers, each times a factor, to the numbers in a byte range of a record. No update is
    /// lost when several ranks accumulate numbers of one type at the same offsets.
    ///
    /// ```
    /// # use pario_records::RecordFile;
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario_team::Team::meet("accumulating", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let forces = file.create_record(8 * 100)?;
    /// file.accumulate(&[1.5_f64, 4.0], 2.0, forces, 16..32)?;
    /// let mut third = [0; 8];
    /// file.read(&mut third, forces, 16..24)?;
    /// assert_eq!(f64::from_ne_bytes(third), 3.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accumulate<T: Number>(
        &self,
        numbers: &[T],
        factor: T,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        self.accumulate_strided(numbers, 1, factor, record, range)
    }

    /// Adds numbers from memory with gaps: number `i` is `numbers[stride * i]`.
    pub fn accumulate_strided<T: Number>(
        &self,
        numbers: &[T],
        stride: usize,
        factor: T,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        check_room::<T>(&range, numbers.len(), stride)?;
        // SAFETY: the slice holds numbers for the whole range and is borrowed until the call returns.
        unsafe { self.accumulate_from(numbers.as_ptr(), stride, factor, record, range) }
    }

    /// Starts to add numbers. The numbers are the result.
    pub fn start_accumulate<T: Number>(
        &self,
        numbers: Vec<T>,
        factor: T,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<Pending<Vec<T>>, RecordError> {
        check_room::<T>(&range, numbers.len(), 1)?;
        let from = memory(numbers.as_ptr(), 1);
        // SAFETY: the request keeps the numbers at their address until the access is complete.
        unsafe { self.start_add(record, range, addend(factor), from, numbers) }
    }

    /// Adds numbers behind a pointer, which may have gaps between them and need not be aligned.
    ///
    /// # Safety
    /// The number at `stride * i` is readable for every number `i` of the range.
    pub unsafe fn accumulate_from<T: Number>(
        &self,
        numbers: *const T,
        stride: usize,
        factor: T,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<(), RecordError> {
        check_stride(stride)?;
        check_whole::<T>(&range)?;
        // SAFETY: the caller guarantees it.
        unsafe { self.add(record, range, addend(factor), memory(numbers, stride)) }
    }

    /// Starts to add numbers behind a pointer, which may have gaps between them and need not be
    /// aligned.
    ///
    /// # Safety
    /// The number at `stride * i` is readable for every number `i` of the range, and does not change
    /// until the request is complete: until its result was taken, or it was dropped.
    pub unsafe fn start_accumulate_from<T: Number>(
        &self,
        numbers: *const T,
        stride: usize,
        factor: T,
        record: RecordId,
        range: Range<u64>,
    ) -> Result<Pending<()>, RecordError> {
        check_stride(stride)?;
        check_whole::<T>(&range)?;
        let from = memory(numbers, stride);
        // SAFETY: the caller guarantees it.
        unsafe { self.start_add(record, range, addend(factor), from, ()) }
    }
}

/// The numbers of a caller, which are only read.
fn memory<T: Number>(numbers: *const T, stride: usize) -> CallerMemory {
    CallerMemory { start: numbers.cast_mut().cast(), each: size_of::<T>(), stride }
}

fn addend<T: Number>(factor: T) -> Addend {
    Addend { kind: T::KIND, each: size_of::<T>(), factor: factor.to_bytes() }
}

/// Checks that a caller's memory holds the numbers of a range.
fn check_room<T>(range: &Range<u64>, room: usize, stride: usize) -> Result<(), RecordError> {
    check_stride(stride)?;
    let count = check_whole::<T>(range)?;
    let needed = match count {
        0 => 0,
        count => (count - 1) * stride as u128 + 1,
    };
    let is_right = if stride == 1 { needed == room as u128 } else { needed <= room as u128 };
    if is_right {
        return Ok(());
    }
    Err(RecordError::Invalid(format!(
        "bytes {} to {} of the record are {count} numbers of {} bytes, for which a stride of {stride} \
         needs {needed} numbers in memory; the caller gave {room}",
        range.start,
        range.end.saturating_sub(1),
        size_of::<T>()
    )))
}

/// Counts the numbers of a range; fails if the range does not consist of whole numbers.
fn check_whole<T>(range: &Range<u64>) -> Result<u128, RecordError> {
    let each = size_of::<T>() as u128;
    let bytes = u128::from(range.end.saturating_sub(range.start));
    if bytes.is_multiple_of(each) {
        return Ok(bytes / each);
    }
    Err(RecordError::Invalid(format!(
        "bytes {} to {} of the record are {bytes} bytes, which is not a multiple of {each}, the size \
         of a number; give a range of whole numbers",
        range.start,
        range.end.saturating_sub(1)
    )))
}

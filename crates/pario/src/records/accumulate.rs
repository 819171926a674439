//! Adding to numbers of a record, without losing what others add at the same time.

use std::ops::RangeInclusive;
use std::sync::Arc;

use pario_team::Number;
use parking_lot::Mutex;

use super::access::check_stride;
use super::error::RecordError;
use super::file::{LOCKS, RecordFile, Shared};
use super::record::{Record, RecordId};
use super::request::{Progress, Request};
use super::workers::submit;

/// Numbers of a record that begin in such a stretch share a mutex.
const CLASS_BYTES: u64 = 64 << 10;
/// What one thread adds: a whole number of stretches.
const TASK_BYTES: u64 = 16 * CLASS_BYTES;

/// Numbers of a caller: number `i` of an access is `stride * i` numbers behind the first. They need
/// not be aligned.
struct Numbers<T> {
    start: *const T,
    stride: usize,
}

// SAFETY: who makes it hands the memory over until the access is over; it is only read.
unsafe impl<T> Send for Numbers<T> {}

impl<T> Clone for Numbers<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Numbers<T> {}

/// Numbers that are added by one task: where the first one is in the record, which one of the
/// access it is, and how many they are.
#[derive(Clone, Copy)]
struct Run {
    at: u64,
    first: usize,
    count: usize,
}

impl RecordFile {
    /// Adds numbers, each times a factor, to those in a range of bytes of a record. However many
    /// ranks accumulate numbers of one type at the same places, nothing is lost.
    ///
    /// ```
    /// # use pario::records::RecordFile;
    /// # let dir = tempfile::tempdir()?;
    /// # let team = pario::team::Team::meet("accumulating", 1, 0)?;
    /// # let file = RecordFile::create(&team, dir.path().join("state"))?;
    /// let forces = file.create_record(8 * 100)?;
    /// file.accumulate(forces, 16..=31, 2.0, &[1.5_f64, 4.0])?;
    /// let mut third = [0; 8];
    /// file.read(forces, 16..=23, &mut third)?;
    /// assert_eq!(f64::from_ne_bytes(third), 3.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accumulate<T: Number>(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        factor: T,
        numbers: &[T],
    ) -> Result<(), RecordError> {
        self.accumulate_strided(record, range, factor, numbers, 1)
    }

    /// Adds numbers from memory with gaps: number `i` is `numbers[stride * i]`.
    pub fn accumulate_strided<T: Number>(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        factor: T,
        numbers: &[T],
        stride: usize,
    ) -> Result<(), RecordError> {
        check_room::<T>(&range, numbers.len(), stride)?;
        // SAFETY: there are numbers for the whole range, and they are lent until it is over.
        unsafe { self.accumulate_from(record, range, factor, numbers.as_ptr(), stride) }
    }

    /// Starts to add numbers. They come back when it is waited for.
    pub fn start_accumulate<T: Number>(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        factor: T,
        numbers: Vec<T>,
    ) -> Result<Request<Vec<T>>, RecordError> {
        check_room::<T>(&range, numbers.len(), 1)?;
        let from = Numbers { start: numbers.as_ptr(), stride: 1 };
        // SAFETY: the request keeps the numbers, which do not move, until it is over.
        unsafe { self.start_adding(record, range, factor, from, numbers) }
    }

    /// Adds numbers of the caller, which may have gaps between them and need not be aligned.
    ///
    /// # Safety
    /// The number at `stride * i` is there for every number `i` of the range.
    pub unsafe fn accumulate_from<T: Number>(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        factor: T,
        numbers: *const T,
        stride: usize,
    ) -> Result<(), RecordError> {
        check_stride(stride)?;
        let from = Numbers { start: numbers, stride };
        let (record, _passage) = self.shared.enter(record)?;
        let runs = runs::<T>(&record, &range)?;
        if let [run] = runs[..] {
            // SAFETY: the caller says so.
            return unsafe { self.shared.add(&record, run, factor, from) };
        }
        let progress = Progress::new();
        for run in runs {
            // SAFETY: the caller says so, and this waits.
            unsafe { self.shared.submit_adding(&progress, &record, run, factor, from, ()) };
        }
        progress.wait()
    }

    /// Starts to add numbers of the caller, which may have gaps between them and need not be
    /// aligned.
    ///
    /// # Safety
    /// The number at `stride * i` is there for every number `i` of the range, and is changed by
    /// nobody until the request is over.
    pub unsafe fn start_accumulate_from<T: Number>(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        factor: T,
        numbers: *const T,
        stride: usize,
    ) -> Result<Request<()>, RecordError> {
        check_stride(stride)?;
        // SAFETY: the caller says so.
        unsafe { self.start_adding(record, range, factor, Numbers { start: numbers, stride }, ()) }
    }

    /// # Safety
    /// The numbers are there until the request is over, or as long as what is kept.
    unsafe fn start_adding<T: Number, M: Send + 'static>(
        &self,
        record: RecordId,
        range: RangeInclusive<u64>,
        factor: T,
        from: Numbers<T>,
        kept: M,
    ) -> Result<Request<M>, RecordError> {
        let (record, passage) = self.shared.enter(record)?;
        let runs = runs::<T>(&record, &range)?;
        let kept = Arc::new(Mutex::new(Some(kept)));
        let keeping = Arc::new((passage, kept.clone()));
        let progress = Progress::new();
        let starting = progress.task();
        for run in runs {
            let keeping = keeping.clone();
            // SAFETY: the caller says so, and what is kept is kept until the task is over.
            unsafe { self.shared.submit_adding(&progress, &record, run, factor, from, keeping) };
        }
        starting.over(Ok(()));
        Ok(Request::new(progress, kept))
    }
}

/// Cuts an access into what tasks do: numbers that begin in the same stretches.
fn runs<T>(record: &Record, range: &RangeInclusive<u64>) -> Result<Vec<Run>, RecordError> {
    let (lo, bytes) = record.check(range)?;
    check_whole::<T>(range)?;
    let each = size_of::<T>();
    let mut runs = Vec::new();
    let (mut first, count) = (0, bytes / each);
    while first < count {
        let at = lo + (first * each) as u64;
        let now = beginning_before::<T>(at, TASK_BYTES).min(count - first);
        runs.push(Run { at, first, count: now });
        first += now;
    }
    Ok(runs)
}

/// How many numbers begin before the next border, if one begins here.
fn beginning_before<T>(at: u64, distance: u64) -> usize {
    let left = distance - at % distance;
    // No more than the distance.
    usize::try_from(left).unwrap_or(usize::MAX).div_ceil(size_of::<T>())
}

impl Shared {
    /// Lets a thread add numbers.
    ///
    /// # Safety
    /// The numbers are there until the task is over, or as long as what is kept.
    unsafe fn submit_adding<T: Number, K: Send + 'static>(
        self: &Arc<Self>,
        progress: &Arc<Progress>,
        record: &Arc<Record>,
        run: Run,
        factor: T,
        from: Numbers<T>,
        kept: K,
    ) {
        let (shared, record, task) = (self.clone(), record.clone(), progress.task());
        let progress = progress.clone();
        submit(move || {
            // All of it, and not the pointer alone.
            let from = from;
            let added = match progress.has_failed() {
                true => Ok(()),
                // SAFETY: the caller says so.
                false => unsafe { shared.add(&record, run, factor, from) },
            };
            // Who waits until nothing is under way finds every request over.
            task.over(added);
            drop(kept);
        });
    }

    /// Adds numbers, stretch by stretch.
    ///
    /// # Safety
    /// The numbers are there.
    unsafe fn add<T: Number>(
        &self,
        record: &Record,
        run: Run,
        factor: T,
        from: Numbers<T>,
    ) -> Result<(), RecordError> {
        let Run { mut at, mut first, mut count } = run;
        let mut bytes = Vec::new();
        while count > 0 {
            let now = beginning_before::<T>(at, CLASS_BYTES).min(count);
            bytes.resize(now * size_of::<T>(), 0);
            // The mutex is that of where numbers begin: also those that end in the next stretch, or
            // in another part, have one.
            let (rank, number) = self.mutex_of(record.info.id, at / CLASS_BYTES);
            let unlock = self.mutexes.lock(rank, number)?;
            let pieces = record.pieces(at, bytes.len());
            for piece in &pieces {
                let place = &mut bytes[piece.here..piece.here + piece.len];
                self.owners[piece.part].read_at(place, piece.at)?;
            }
            let numbers = bytes.as_mut_ptr().cast::<T>();
            let is_one = factor == T::one();
            for number in 0..now {
                // SAFETY: there are so many numbers here and there, which may lie anywhere, and of
                // which every pattern of bits is one.
                unsafe {
                    let value = from.start.add((first + number) * from.stride).read_unaligned();
                    let value = if is_one { value } else { value.times(factor) };
                    let place = numbers.add(number);
                    place.write_unaligned(place.read_unaligned().plus(value));
                }
            }
            for piece in &pieces {
                let place = &bytes[piece.here..piece.here + piece.len];
                self.owners[piece.part].write_at(place, piece.at)?;
            }
            drop(unlock);
            at += bytes.len() as u64;
            first += now;
            count -= now;
        }
        Ok(())
    }

    /// The mutex of a stretch: whose it is, and its number there.
    fn mutex_of(&self, record: RecordId, class: u64) -> (u32, u32) {
        let mixed = (record.number() ^ class.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = u32::try_from(mixed >> 32).unwrap_or(0);
        let size = self.team.size();
        (mixed % size, mixed / size % LOCKS)
    }
}

/// Whether there are numbers for a range.
fn check_room<T>(
    range: &RangeInclusive<u64>,
    room: usize,
    stride: usize,
) -> Result<(), RecordError> {
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
        "bytes {} to {} of a record are {count} numbers of {} bytes, with a stride of {stride} \
         {needed} places of memory, and {room} were given",
        range.start(),
        range.end(),
        size_of::<T>()
    )))
}

/// How many numbers a range has, if these are whole.
fn check_whole<T>(range: &RangeInclusive<u64>) -> Result<u128, RecordError> {
    let each = size_of::<T>() as u128;
    let bytes = match range.is_empty() {
        true => 0,
        false => u128::from(range.end() - range.start()) + 1,
    };
    if bytes.is_multiple_of(each) {
        return Ok(bytes / each);
    }
    Err(RecordError::Invalid(format!(
        "bytes {} to {} are {bytes}, which is no whole number of numbers of {each} bytes",
        range.start(),
        range.end()
    )))
}

//! Arrays whose elements lie in the memory of all ranks.

mod layout;
mod lists;
mod numbers;

use std::fmt;
use std::ops::Range;

use crate::call::CollectiveCall;
use crate::error::TeamError;
use crate::number::Number;
use crate::pending_access::{Pending, PendingAccesses, pending_group};
use crate::segments::{LocalMemory, Segments};
use crate::team::Team;
use layout::{ArrayLayout, ElementRun};
pub use numbers::{Array, LocalNumbers};

/// An array of elements of any one size, spread over the memory of all ranks by pages. Clones are
/// the same; the memory is freed when no rank has it any more.
///
/// Page `p` belongs to rank `p` modulo the number of ranks. Memory that was never written is zero
/// and costs nothing. No access needs another rank to do anything; ranks see each other's puts as
/// with [`Segments`]. [`Array`] is the same for numbers.
///
/// ```
/// # let team = pario_team::Team::meet("raw array", 1, 0)?;
/// let points = team.raw_array(1000, 24)?; // collective: a thousand elements of 24 bytes
/// points.put(&[1; 48], 7)?; // the eighth and the ninth
/// let mut bytes = [0; 48];
/// points.gather(&mut bytes, &[8, 999])?;
/// assert_eq!((&bytes[..24], &bytes[24..]), (&[1; 24][..], &[0; 24][..]));
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct RawArray {
    segments: Segments,
    layout: ArrayLayout,
    /// The name of an element in errors.
    name: &'static str,
}

/// A page of an array that is in the memory of this rank.
pub struct LocalPage {
    memory: LocalMemory,
    offset: usize,
    first: u64,
    len: usize,
}

impl Team {
    /// Creates an array of `len` elements of `element_bytes` each, together with all ranks. They
    /// are zero.
    pub fn raw_array(&self, len: u64, element_bytes: usize) -> Result<RawArray, TeamError> {
        self.array_of(len, element_bytes, 0, "elements")
    }

    fn array_of(
        &self,
        len: u64,
        element: usize,
        kind: u32,
        name: &'static str,
    ) -> Result<RawArray, TeamError> {
        // A rank with invalid arguments still makes the call, so that the others learn of it.
        let told = u32::try_from(element).unwrap_or(u32::MAX);
        drop(self.call(CollectiveCall::Array { kind, element: told, len }, &[])?);
        let layout = ArrayLayout::new(len, element, self.size())?;
        let segments = self.segments(layout.bytes_of(self.rank()))?;
        Ok(RawArray { segments, layout, name })
    }
}

impl RawArray {
    /// How many elements there are.
    pub fn len(&self) -> u64 {
        self.layout.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> usize {
        self.layout.element()
    }

    /// Elements of a page.
    pub fn page_len(&self) -> u64 {
        self.layout.per_page()
    }

    /// The team.
    pub fn team(&self) -> &Team {
        self.segments.team()
    }

    /// The rank of an element.
    pub fn owner(&self, index: u64) -> Result<u32, TeamError> {
        self.check(index, 1)?;
        Ok(self.layout.place(index).rank)
    }

    /// Copies elements from the array: as many as the buffer has room for, from the given one on.
    pub fn get(&self, buffer: &mut [u8], first: u64) -> Result<(), TeamError> {
        let count = self.count(buffer.len())?;
        let (mut rest, mut under_way) = (buffer, PendingAccesses::default());
        for run in self.checked_runs(first, count)? {
            let (now, later) = rest.split_at_mut(run.bytes);
            if !self.segments.near().get(run.rank, run.offset, now) {
                under_way.add(self.segments.begin_get(now, run.rank, run.offset)?)?;
            }
            rest = later;
        }
        under_way.wait()
    }

    /// Copies elements to the array: as many as the bytes are, from the given one on.
    pub fn put(&self, bytes: &[u8], first: u64) -> Result<(), TeamError> {
        let count = self.count(bytes.len())?;
        let (mut rest, mut under_way) = (bytes, PendingAccesses::default());
        for run in self.checked_runs(first, count)? {
            let (now, later) = rest.split_at(run.bytes);
            if !self.segments.near().put(run.rank, run.offset, now) {
                under_way.add(self.segments.begin_put(now, run.rank, run.offset)?)?;
            }
            rest = later;
        }
        under_way.wait()
    }

    /// Starts to copy elements from the array to a buffer, as many as it has room for, from the
    /// given one on. The buffer is the result.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("started array", 1, 0)?;
    /// let points = team.raw_array(1000, 4)?;
    /// let pending = points.start_put(b"abcd", 7)?;
    /// // ... do something else ...
    /// pending.wait()?;
    /// assert_eq!(points.start_get(vec![0; 4], 7)?.wait()?, b"abcd");
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn start_get(
        &self,
        mut buffer: Vec<u8>,
        first: u64,
    ) -> Result<Pending<Vec<u8>>, TeamError> {
        let count = self.count(buffer.len())?;
        let start = buffer.as_mut_ptr();
        // SAFETY: the pending request keeps the buffer, whose bytes do not move, until no access
        // uses it.
        unsafe { self.start_get_into(start, first, count, buffer) }
    }

    /// Starts to copy elements to memory that is kept for the caller.
    ///
    /// # Safety
    /// The memory at `start` has room for the elements, and nothing else uses it while `kept`
    /// exists.
    unsafe fn start_get_into<K: Send + 'static>(
        &self,
        start: *mut u8,
        first: u64,
        count: u64,
        kept: K,
    ) -> Result<Pending<K>, TeamError> {
        let (mut begun, mut done) = (Vec::new(), 0);
        for run in self.checked_runs(first, count)? {
            // SAFETY: the runs are as long together as the elements, and do not overlap.
            let access = unsafe {
                let now = start.add(done);
                self.segments.begin_get_into(now, run.bytes, run.rank, run.offset)
            };
            begun.extend(Some(access?).filter(|access| !access.is_over()));
            done += run.bytes;
        }
        Ok(pending_group(begun, kept))
    }

    /// Starts to copy elements to the array: as many as the bytes are, from the given one on. Takes
    /// the bytes at once: the caller may reuse their memory before it waits.
    pub fn start_put(&self, bytes: &[u8], first: u64) -> Result<Pending<()>, TeamError> {
        let count = self.count(bytes.len())?;
        let (mut rest, mut begun) = (bytes, Vec::new());
        for run in self.checked_runs(first, count)? {
            let (now, later) = rest.split_at(run.bytes);
            if !self.segments.near().put(run.rank, run.offset, now) {
                begun.push(self.segments.begin_put(now, run.rank, run.offset)?);
            }
            rest = later;
        }
        Ok(pending_group(begun, ()))
    }

    /// Starts to add numbers to the elements from one on, which must be numbers of this type. Takes
    /// the numbers at once.
    pub fn start_accumulate<T: Number>(
        &self,
        numbers: &[T],
        first: u64,
    ) -> Result<Pending<()>, TeamError> {
        self.check_type::<T>()?;
        let (mut rest, mut begun) = (numbers, Vec::new());
        for run in self.checked_runs(first, numbers.len() as u64)? {
            let (now, later) = rest.split_at(run.bytes / size_of::<T>());
            let access = self.segments.begin_accumulate(now, T::one(), run.rank, run.offset)?;
            begun.extend(Some(access).filter(|access| !access.is_over()));
            rest = later;
        }
        Ok(pending_group(begun, ()))
    }

    /// Copies elements to a part of the array that was never used: faster than [`put`](Self::put)
    /// there, and slower elsewhere.
    pub fn fill(&self, bytes: &[u8], first: u64) -> Result<(), TeamError> {
        let count = self.count(bytes.len())?;
        let mut rest = bytes;
        for run in self.checked_runs(first, count)? {
            let (now, later) = rest.split_at(run.bytes);
            self.segments.fill(now, run.rank, run.offset)?;
            rest = later;
        }
        Ok(())
    }

    /// Allocates all memory now, together with all ranks; see [`Segments::prefault`].
    pub fn prefault(&self) -> Result<(), TeamError> {
        self.segments.prefault()
    }

    /// Allocates the memory of this rank's pages now, if that is fast; see [`Segments::take_huge`].
    pub fn take_huge(&self) -> bool {
        self.segments.take_huge()
    }

    /// Maps all used pages of this machine into this process; see [`Segments::make_ready`].
    pub fn make_ready(&self) {
        self.segments.make_ready();
    }

    /// Waits until all earlier puts are in place.
    pub fn fence(&self) -> Result<(), TeamError> {
        self.segments.fence_all()
    }

    /// The pages of this rank, to be used directly, in order.
    pub fn local(&self) -> impl Iterator<Item = LocalPage> {
        let team = self.team();
        let (rank, size) = (u64::from(team.rank()), team.size() as usize);
        (rank..self.layout.pages()).step_by(size).map(|page| {
            let first = page * self.layout.per_page();
            let count = self.layout.per_page().min(self.len() - first);
            let len = usize::try_from(count).unwrap_or(0) * self.element_bytes();
            LocalPage {
                memory: self.segments.local(),
                offset: self.layout.page(page).1,
                first,
                len,
            }
        })
    }

    /// Returns the address of consecutive elements of one page; none if their rank is on another
    /// machine, or if they lie in several pages. It is valid while the array exists; other ranks
    /// may read and write there at any time.
    pub fn in_memory(&self, elements: Range<u64>) -> Option<*mut u8> {
        let count = elements.end.checked_sub(elements.start)?;
        let mut runs = self.checked_runs(elements.start, count).ok()?;
        match (runs.next(), runs.next()) {
            (Some(run), None) => {
                self.segments.place(run.rank, run.offset..run.offset + run.bytes).ok()?
            }
            _ => None,
        }
    }

    /// The number of elements in this many bytes.
    fn count(&self, bytes: usize) -> Result<u64, TeamError> {
        let element = self.element_bytes();
        if !bytes.is_multiple_of(element) {
            return Err(TeamError::Invalid(format!(
                "{self}: {bytes} bytes are no whole number of elements, which have {element} each"
            )));
        }
        Ok((bytes / element) as u64)
    }

    fn check(&self, first: u64, count: u64) -> Result<(), TeamError> {
        let len = self.len();
        if count == 0 || first.checked_add(count).is_some_and(|end| end <= len) {
            return Ok(());
        }
        let what = if first >= len || count == 1 {
            format!("{self} has no element {first}: its indices go from 0 to below {len}")
        } else {
            format!("{self} has no {count} elements from {first} on: it ends at index {len}")
        };
        Err(TeamError::Invalid(what))
    }

    fn checked_runs(
        &self,
        first: u64,
        count: u64,
    ) -> Result<impl Iterator<Item = ElementRun>, TeamError> {
        self.check(first, count)?;
        Ok(self.layout.runs(first.min(self.len()), count))
    }
}

impl LocalPage {
    /// The index of its first element.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Where it begins. Other ranks may read and write there at any time.
    pub fn pointer(&self) -> *mut u8 {
        // The page was laid out within the segment, so the place is inside of it.
        self.memory.pointer().wrapping_add(self.offset)
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none; no page is like that.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Display for RawArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (job, len, name) = (self.team().job(), self.len(), self.name);
        write!(f, "job {job}: the array of {len} {name}")
    }
}

impl fmt::Debug for RawArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawArray({} {} of {} bytes)", self.len(), self.name, self.element_bytes())
    }
}

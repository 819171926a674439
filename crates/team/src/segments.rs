//! Segments: memory of all ranks, and how each accesses it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pario_net::SharedMemoryShape;
use serde::{Deserialize, Serialize};

use crate::call::CollectiveCall;
use crate::error::TeamError;
use crate::machine_memory::{MACHINE_MEMORY_WORDS, MachineMemory};
use crate::number::Word;
use crate::pending_access::{Pending, PendingAccess, pending_group};
use crate::rank_pieces::on_rank;
use crate::remote::message::{AtomicChange, DataReply, DataRequest};
use crate::strided::Strided;
use crate::team::Team;

/// Alignment of each rank's memory.
const PAGE: usize = 4096;
/// Bytes filled at once: within a processor's cache.
const FILLED_AT_ONCE: usize = 256 << 10;

/// Memory of all ranks: each rank has a segment, and all can access all of them. Clones are the
/// same. The memory is freed when no rank has it any more.
///
/// Ranks access the memory of their own machine directly, and that of others through the data
/// server of its machine. Neither needs another rank to do anything, and bytes are in place when a
/// put returns.
///
/// A rank sees the bytes that another has put after both have passed a barrier, or after it has
/// learnt of them by a mutex or an atomic operation. Ranks that put and get the same bytes at the
/// same time may see a mixture.
///
/// ```
/// # let team = pario_team::Team::meet("segments", 1, 0)?;
/// let segments = team.segments(1000)?; // collective; each rank may give another size
/// segments.put(b"ten bytes!", 0, 990)?;
/// let mut bytes = [0; 4];
/// segments.get(&mut bytes, 0, 996)?;
/// assert_eq!(&bytes, b"tes!");
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct Segments {
    shared: Arc<SharedSegments>,
}

struct SharedSegments {
    team: Team,
    number: u64,
    near: Arc<MachineMemory>,
    /// The length of each segment.
    lens: Vec<usize>,
}

/// A piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentPiece {
    /// Where it begins.
    pub offset: usize,
    /// How long it is.
    pub len: usize,
}

/// The segment of this rank in the memory of this process. It stays while this exists.
pub struct LocalMemory {
    segments: Segments,
}

impl Team {
    /// Allocates segments, together with all ranks: this many bytes of this rank. They are zero.
    pub fn segments(&self, bytes: usize) -> Result<Segments, TeamError> {
        let met = self.call(CollectiveCall::Allocate, &(bytes as u64).to_le_bytes())?;
        let len_of = |rank| {
            let mut told = [0; 8];
            told.copy_from_slice(&met.of(rank, 8));
            usize::try_from(u64::from_le_bytes(told)).unwrap_or(usize::MAX)
        };
        let lens: Vec<usize> = (0..self.size()).map(len_of).collect();
        let (places, shape) = self.segment_places(&lens);
        let (number, near) = self.allocate_shared(met, shape, places)?;
        Ok(Segments::new(self, number, near, lens))
    }

    /// Returns where the segment of each rank of this machine begins and its length, and the shape
    /// of the memory.
    pub(crate) fn segment_places(
        &self,
        lens: &[usize],
    ) -> (Vec<Option<(usize, usize)>>, SharedMemoryShape) {
        let (mut places, mut end) = (Vec::new(), 0_usize);
        for (rank, len) in (0..).zip(lens.iter().copied()) {
            places.push(self.is_near(rank).then_some((end, len)));
            if self.is_near(rank) {
                let next = len.checked_next_multiple_of(PAGE).and_then(|len| end.checked_add(len));
                // More than any machine has: the allocation fails.
                end = next.unwrap_or(usize::MAX / 2).min(usize::MAX / 2);
            }
        }
        let shape =
            SharedMemoryShape { parts: 1, words: MACHINE_MEMORY_WORDS, bytes: end.max(PAGE) };
        (places, shape)
    }
}

impl Segments {
    pub(crate) fn new(
        team: &Team,
        number: u64,
        near: Arc<MachineMemory>,
        lens: Vec<usize>,
    ) -> Self {
        Self { shared: Arc::new(SharedSegments { team: team.clone(), number, near, lens }) }
    }

    /// The length of a rank's segment.
    pub fn len_of(&self, rank: u32) -> Result<usize, TeamError> {
        let lens = &self.shared.lens;
        lens.get(rank as usize).copied().ok_or_else(|| {
            TeamError::Invalid(format!("there are {} ranks, and so no rank {rank}", lens.len()))
        })
    }

    /// The team.
    pub fn team(&self) -> &Team {
        &self.shared.team
    }

    pub(crate) fn near(&self) -> &MachineMemory {
        &self.shared.near
    }

    pub(crate) fn number(&self) -> u64 {
        self.shared.number
    }

    /// Fails if the bytes are not in the segment of a rank.
    pub(crate) fn check(&self, rank: u32, offset: usize, len: usize) -> Result<(), TeamError> {
        let all = self.len_of(rank)?;
        if offset.checked_add(len).is_none_or(|end| end > all) {
            return Err(TeamError::Invalid(format!(
                "{len} bytes at byte {offset} are not in the segment of rank {rank}, which has {all}"
            )));
        }
        Ok(())
    }

    /// Returns the address of bytes of a rank of this machine, for direct access; none if the rank
    /// is on another machine. Other ranks may read and write there at any time. The memory stays
    /// while these segments, or clones of them, exist.
    pub fn place(&self, rank: u32, bytes: Range<usize>) -> Result<Option<*mut u8>, TeamError> {
        let Range { start: offset, end } = bytes;
        let Some(len) = end.checked_sub(offset) else {
            let what = format!("bytes {offset}..{end} end before they begin");
            return Err(TeamError::Invalid(what));
        };
        self.check(rank, offset, len)?;
        Ok(self.near().pointer(rank, offset, len))
    }

    /// Copies bytes to a place in the segment of a rank.
    #[inline]
    pub fn put(&self, bytes: &[u8], rank: u32, offset: usize) -> Result<(), TeamError> {
        if self.near().put(rank, offset, bytes) {
            return Ok(());
        }
        self.begin_put(bytes, rank, offset)?.wait()
    }

    /// Copies bytes from a place in the segment of a rank.
    #[inline]
    pub fn get(&self, buffer: &mut [u8], rank: u32, offset: usize) -> Result<(), TeamError> {
        if self.near().get(rank, offset, buffer) {
            return Ok(());
        }
        self.begin_get(buffer, rank, offset)?.wait()
    }

    /// Starts to copy bytes to the segment of a rank. Takes the bytes at once: the caller may reuse
    /// their memory before it waits.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("started", 1, 0)?;
    /// let segments = team.segments(100)?;
    /// let pending = segments.start_put(b"on its way", 0, 10)?;
    /// // ... do something else ...
    /// pending.wait()?;
    /// assert_eq!(segments.start_get(vec![0; 3], 0, 13)?.wait()?, b"its");
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn start_put(
        &self,
        bytes: &[u8],
        rank: u32,
        offset: usize,
    ) -> Result<Pending<()>, TeamError> {
        Ok(self.begin_put(bytes, rank, offset)?.into_pending())
    }

    /// Starts to copy bytes from the segment of a rank to a buffer, as many as it has. The buffer
    /// is the result.
    pub fn start_get(
        &self,
        mut buffer: Vec<u8>,
        rank: u32,
        offset: usize,
    ) -> Result<Pending<Vec<u8>>, TeamError> {
        let (start, len) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: the pending request keeps the buffer, whose bytes do not move, until no access
        // uses it.
        let access = unsafe { self.begin_get_into(start, len, rank, offset) }?;
        Ok(match access.is_over() {
            true => Pending::ready(Ok(buffer)),
            false => pending_group(vec![access], buffer),
        })
    }

    /// Starts to copy bytes from the segment of a rank to memory of the caller.
    ///
    /// # Safety
    /// `len` bytes at `start` are writable, and nothing else uses them until the request is over:
    /// until the result was taken, or the returned value was dropped.
    pub unsafe fn start_get_into(
        &self,
        start: *mut u8,
        len: usize,
        rank: u32,
        offset: usize,
    ) -> Result<Pending<()>, TeamError> {
        // SAFETY: as the caller guarantees.
        Ok(unsafe { self.begin_get_into(start, len, rank, offset) }?.into_pending())
    }

    /// # Safety
    /// `len` bytes at `start` are writable, and nothing else uses them until the access is dropped.
    pub(crate) unsafe fn begin_get_into(
        &self,
        start: *mut u8,
        len: usize,
        rank: u32,
        offset: usize,
    ) -> Result<PendingAccess<'static>, TeamError> {
        if len == 0 {
            return self.begin_get(&mut [], rank, offset);
        }
        // SAFETY: as the caller guarantees.
        let buffer: &'static mut [u8] = unsafe { std::slice::from_raw_parts_mut(start, len) };
        self.begin_get(buffer, rank, offset)
    }

    pub(crate) fn begin_put(
        &self,
        bytes: &[u8],
        rank: u32,
        offset: usize,
    ) -> Result<PendingAccess<'static>, TeamError> {
        self.check(rank, offset, bytes.len())?;
        if self.near().put(rank, offset, bytes) {
            return Ok(PendingAccess::done());
        }
        PendingAccess::put(self, rank, &[SegmentPiece { offset, len: bytes.len() }.of(rank)], bytes)
    }

    pub(crate) fn begin_get<'a>(
        &self,
        buffer: &'a mut [u8],
        rank: u32,
        offset: usize,
    ) -> Result<PendingAccess<'a>, TeamError> {
        self.check(rank, offset, buffer.len())?;
        if self.near().get(rank, offset, buffer) {
            return Ok(PendingAccess::done());
        }
        let piece = SegmentPiece { offset, len: buffer.len() }.of(rank);
        PendingAccess::get(self, rank, &[piece], buffer)
    }

    /// Copies a region with gaps to the segment of a rank.
    ///
    /// ```
    /// use pario_team::Strided;
    ///
    /// # let team = pario_team::Team::meet("strided", 1, 0)?;
    /// let matrix = team.segments(4 * 10)?; // 4 rows of 10 bytes
    /// let region = Strided { row: 2, counts: &[3], here: &[2], there: &[10] };
    /// matrix.put_strided(b"aabbcc", 0, 14, &region)?; // from column 4 of row 1 on
    /// let mut row = [0; 10];
    /// matrix.get(&mut row, 0, 20)?;
    /// assert_eq!(&row, b"\0\0\0\0bb\0\0\0\0");
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn put_strided(
        &self,
        bytes: &[u8],
        rank: u32,
        offset: usize,
        region: &Strided<'_>,
    ) -> Result<(), TeamError> {
        self.check_strided(rank, offset, region, bytes.len())?;
        if self.team().is_near(rank) {
            for (here, there) in region.rows() {
                self.near().put(rank, offset + there, &bytes[here..here + region.row]);
            }
            return Ok(());
        }
        let (pieces, rows) = (region.places(rank, offset), region.rows());
        let packed: Vec<u8> =
            rows.flat_map(|(here, _)| &bytes[here..here + region.row]).copied().collect();
        PendingAccess::put(self, rank, &pieces, &packed)?.wait()
    }

    /// Copies a region with gaps from the segment of a rank.
    pub fn get_strided(
        &self,
        bytes: &mut [u8],
        rank: u32,
        offset: usize,
        region: &Strided<'_>,
    ) -> Result<(), TeamError> {
        self.check_strided(rank, offset, region, bytes.len())?;
        if self.team().is_near(rank) {
            for (here, there) in region.rows() {
                self.near().get(rank, offset + there, &mut bytes[here..here + region.row]);
            }
            return Ok(());
        }
        let pieces = region.places(rank, offset);
        let mut packed = vec![0; pieces.len() * region.row];
        PendingAccess::get(self, rank, &pieces, &mut packed)?.wait()?;
        for ((here, _), row) in region.rows().zip(packed.chunks(region.row)) {
            bytes[here..here + region.row].copy_from_slice(row);
        }
        Ok(())
    }

    pub(crate) fn check_strided(
        &self,
        rank: u32,
        offset: usize,
        region: &Strided<'_>,
        len: usize,
    ) -> Result<(), TeamError> {
        self.check(rank, offset, region.extent_there()?)?;
        let extent = region.extent_here()?;
        if extent > len {
            let what = format!("a region of {extent} bytes does not fit into {len}");
            return Err(TeamError::Invalid(what));
        }
        Ok(())
    }

    /// Copies bytes to pieces of the segment of a rank, one behind the other.
    pub fn put_list(
        &self,
        bytes: &[u8],
        rank: u32,
        pieces: &[SegmentPiece],
    ) -> Result<(), TeamError> {
        self.check_list(rank, pieces, bytes.len())?;
        if !self.team().is_near(rank) {
            return PendingAccess::put(self, rank, &on_rank(rank, pieces), bytes)?.wait();
        }
        self.put_near(pieces.iter().map(|piece| piece.of(rank)), bytes);
        Ok(())
    }

    /// Copies pieces of the segment of a rank, one behind the other.
    pub fn get_list(
        &self,
        bytes: &mut [u8],
        rank: u32,
        pieces: &[SegmentPiece],
    ) -> Result<(), TeamError> {
        self.check_list(rank, pieces, bytes.len())?;
        if !self.team().is_near(rank) {
            return PendingAccess::get(self, rank, &on_rank(rank, pieces), bytes)?.wait();
        }
        self.get_near(pieces.iter().map(|piece| piece.of(rank)), bytes);
        Ok(())
    }

    pub(crate) fn check_list(
        &self,
        rank: u32,
        pieces: &[SegmentPiece],
        len: usize,
    ) -> Result<(), TeamError> {
        let mut total = 0_usize;
        for piece in pieces {
            self.check(rank, piece.offset, piece.len)?;
            total = total.saturating_add(piece.len);
        }
        if total != len {
            let what = format!("pieces of {total} bytes together, and {len} bytes for them");
            return Err(TeamError::Invalid(what));
        }
        Ok(())
    }

    /// Adds to a whole number of a rank atomically; returns the previous value. The number must be
    /// aligned to its size.
    #[inline]
    pub fn fetch_add<T: Word>(&self, value: T, rank: u32, offset: usize) -> Result<T, TeamError> {
        // SAFETY: memory gives places that are aligned and mapped while this is here.
        let was = self.near().change(rank, offset, |place| unsafe { T::fetch_add(place, value) });
        match was {
            Some(was) => Ok(was),
            None => self.change(rank, offset, T::ADD, value),
        }
    }

    /// Replaces a whole number of a rank atomically; returns the previous value.
    #[inline]
    pub fn swap<T: Word>(&self, value: T, rank: u32, offset: usize) -> Result<T, TeamError> {
        // SAFETY: as in `fetch_add`.
        let was = self.near().change(rank, offset, |place| unsafe { T::swap(place, value) });
        match was {
            Some(was) => Ok(was),
            None => self.change(rank, offset, T::SWAP, value),
        }
    }

    /// Changes a number of another machine, or returns why it cannot.
    fn change<T: Word>(
        &self,
        rank: u32,
        offset: usize,
        change: fn(u64) -> AtomicChange,
        value: T,
    ) -> Result<T, TeamError> {
        let size = size_of::<T>();
        if !offset.is_multiple_of(size) {
            return Err(TeamError::Invalid(format!(
                "a number of {size} bytes cannot be at byte {offset}: that is no multiple of {size}"
            )));
        }
        self.check(rank, offset, size)?;
        let change = change(value.to_bits());
        let request = DataRequest::Change { memory: self.number(), rank, offset, change };
        match self.team().request_data(rank, request)? {
            DataReply::Previous(bits) => Ok(T::of_bits(bits)),
            other => Err(self.team().unexpected_reply(rank, other)),
        }
    }

    /// Copies bytes to memory that was never used: faster than [`put`](Self::put) there, and slower
    /// elsewhere.
    pub fn fill(&self, bytes: &[u8], rank: u32, offset: usize) -> Result<(), TeamError> {
        match self.near().fill(rank, offset, bytes) {
            Ok(true) => Ok(()),
            Ok(false) => self.put(bytes, rank, offset),
            Err(error) => Err(TeamError::system("filling memory", error)),
        }
    }

    /// Allocates all memory now, together with all ranks, instead of on first use. Call it before
    /// anything is put.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("prefault", 1, 0)?;
    /// let segments = team.segments(1 << 20)?;
    /// segments.prefault()?; // no rank is slowed down later
    /// segments.put(b"at the speed of memory", 0, 0)?;
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn prefault(&self) -> Result<(), TeamError> {
        let (rank, zeros) = (self.team().rank(), vec![0; FILLED_AT_ONCE]);
        let len = self.len_of(rank)?;
        let mut offset = self.near().take_huge(rank);
        while offset < len {
            let zeros = &zeros[..FILLED_AT_ONCE.min(len - offset)];
            self.fill(zeros, rank, offset)?;
            offset += zeros.len();
        }
        self.team().barrier()?;
        self.make_ready();
        Ok(())
    }

    /// Allocates the memory of this rank now, in huge pages where the system has them, several
    /// times faster than otherwise. Returns whether it could. Contents stay.
    pub fn take_huge(&self) -> bool {
        let rank = self.team().rank();
        self.len_of(rank).is_ok_and(|len| len == self.near().take_huge(rank))
    }

    /// Maps all used pages of this machine into this process, so that their first use here is as
    /// fast as later ones.
    pub fn make_ready(&self) {
        self.near().make_ready();
    }

    /// Waits until all earlier puts to the segment of a rank are in place.
    pub fn fence(&self, rank: u32) -> Result<(), TeamError> {
        self.len_of(rank)?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    /// Waits until all earlier puts are in place.
    pub fn fence_all(&self) -> Result<(), TeamError> {
        self.fence(self.team().rank())
    }

    /// The segment of this rank, to be used directly.
    pub fn local(&self) -> LocalMemory {
        LocalMemory { segments: self.clone() }
    }
}

impl LocalMemory {
    /// The address of the segment. Other ranks may read and write there at any time.
    pub fn pointer(&self) -> *mut u8 {
        let place = self.segments.near().pointer(self.segments.team().rank(), 0, 0);
        place.unwrap_or(std::ptr::null_mut())
    }

    /// How long it is.
    pub fn len(&self) -> usize {
        self.segments.len_of(self.segments.team().rank()).unwrap_or(0)
    }

    /// Whether this rank has given nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for SharedSegments {
    fn drop(&mut self) {
        self.team.release(self.number, &self.near);
    }
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens = &self.shared.lens;
        let bytes = lens.iter().fold(0_usize, |sum, len| sum.saturating_add(*len));
        write!(f, "Segments({bytes} bytes of {} ranks)", lens.len())
    }
}

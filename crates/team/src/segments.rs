//! Memory that all ranks have given, and what each does with it.

use std::fmt;
use std::sync::Arc;

use pario_net::{CommonMemory, MemoryPart, MemoryShape};

use crate::call::Call;
use crate::error::TeamError;
use crate::number::Word;
use crate::strided::Strided;
use crate::team::Team;

/// Each rank's memory begins at a multiple of this.
const PAGE: usize = 4096;

/// Memory that all ranks have given: each rank has a segment, and all can use all of them. Clones
/// are the same. The memory is freed when no rank has it any more.
///
/// Nothing here needs another rank to do anything. What one has put, another sees after both have
/// come to a barrier, or as soon as it has learnt of it by a mutex or an atomic operation. Ranks that
/// put and get at the same place at the same time may see a mixture.
///
/// ```
/// # let team = pario_team::Team::meet("segments", 1, 0)?;
/// let segments = team.segments(1000)?; // collective; each rank may give another size
/// segments.put(0, 990, b"ten bytes!")?;
/// let mut bytes = [0; 4];
/// segments.get(0, 996, &mut bytes)?;
/// assert_eq!(&bytes, b"tes!");
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct Segments {
    pub(crate) team: Team,
    part: MemoryPart,
    /// Where the segment of each rank begins, and how long it is.
    places: Arc<[(usize, usize)]>,
}

/// A piece of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub offset: usize,
    /// How long it is.
    pub len: usize,
}

/// The memory of one rank, where this process has it. It stays while this is there.
pub struct LocalMemory {
    segments: Segments,
    rank: u32,
}

impl Team {
    /// Allocates memory, together with all others: so many bytes of this rank. They are zero.
    pub fn segments(&self, bytes: usize) -> Result<Segments, TeamError> {
        let met = self.call(Call::Allocate, &(bytes as u64).to_le_bytes())?;
        let mut places = Vec::new();
        let mut end = 0_usize;
        for rank in 0..self.size() {
            let mut told = [0; 8];
            told.copy_from_slice(&met.of(rank, 8));
            let len = usize::try_from(u64::from_le_bytes(told)).unwrap_or(usize::MAX);
            places.push((end, len));
            let next = len.checked_next_multiple_of(PAGE).and_then(|len| end.checked_add(len));
            // As much as no machine has: it is refused where the memory is made.
            end = next.unwrap_or(usize::MAX / 2).min(usize::MAX / 2);
        }
        let shape = MemoryShape { parts: 1, words: 0, bytes: end.max(PAGE) };
        let memory: Arc<CommonMemory> = self.share(met, shape)?;
        Ok(Segments { team: self.clone(), part: memory.part(0), places: places.into() })
    }
}

impl Segments {
    /// How many bytes a rank has given.
    pub fn len_of(&self, rank: u32) -> Result<usize, TeamError> {
        self.place_of(rank).map(|(_, len)| len)
    }

    /// The team.
    pub fn team(&self) -> &Team {
        &self.team
    }

    fn place_of(&self, rank: u32) -> Result<(usize, usize), TeamError> {
        self.places.get(rank as usize).copied().ok_or_else(|| {
            TeamError::Invalid(format!(
                "there are {} ranks, and so no rank {rank}",
                self.places.len()
            ))
        })
    }

    /// Where so many bytes of a rank are.
    pub(crate) fn pointer(
        &self,
        rank: u32,
        offset: usize,
        len: usize,
    ) -> Result<*mut u8, TeamError> {
        let (start, all) = self.place_of(rank)?;
        if offset.checked_add(len).is_none_or(|end| end > all) {
            return Err(TeamError::Invalid(format!(
                "{len} bytes at byte {offset} are not in the segment of rank {rank}, which has {all}"
            )));
        }
        Ok(self.part.place(start + offset, len))
    }

    /// Copies bytes to a place in the segment of a rank.
    pub fn put(&self, rank: u32, offset: usize, bytes: &[u8]) -> Result<(), TeamError> {
        let place = self.pointer(rank, offset, bytes.len())?;
        // SAFETY: the place was checked to be inside of the mapping, which stays while this is here;
        // own memory that is lent to the call is elsewhere.
        unsafe { std::ptr::copy(bytes.as_ptr(), place, bytes.len()) }
        Ok(())
    }

    /// Copies bytes from a place in the segment of a rank.
    pub fn get(&self, rank: u32, offset: usize, bytes: &mut [u8]) -> Result<(), TeamError> {
        let place = self.pointer(rank, offset, bytes.len())?;
        // SAFETY: as in `put`.
        unsafe { std::ptr::copy(place, bytes.as_mut_ptr(), bytes.len()) }
        Ok(())
    }

    /// Copies a region with gaps to the segment of a rank.
    ///
    /// ```
    /// use pario_team::Strided;
    ///
    /// # let team = pario_team::Team::meet("strided", 1, 0)?;
    /// let matrix = team.segments(4 * 10)?; // 4 rows of 10 bytes
    /// let region = Strided { row: 2, counts: &[3], here: &[2], there: &[10] };
    /// matrix.put_strided(0, 14, &region, b"aabbcc")?; // from column 4 of row 1 on
    /// let mut row = [0; 10];
    /// matrix.get(0, 20, &mut row)?;
    /// assert_eq!(&row, b"\0\0\0\0bb\0\0\0\0");
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn put_strided(
        &self,
        rank: u32,
        offset: usize,
        region: &Strided<'_>,
        bytes: &[u8],
    ) -> Result<(), TeamError> {
        self.check_strided(rank, offset, region, bytes.len())?;
        for (here, there) in region.rows() {
            self.put(rank, offset + there, &bytes[here..here + region.row])?;
        }
        Ok(())
    }

    /// Copies a region with gaps from the segment of a rank.
    pub fn get_strided(
        &self,
        rank: u32,
        offset: usize,
        region: &Strided<'_>,
        bytes: &mut [u8],
    ) -> Result<(), TeamError> {
        self.check_strided(rank, offset, region, bytes.len())?;
        for (here, there) in region.rows() {
            self.get(rank, offset + there, &mut bytes[here..here + region.row])?;
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
        self.pointer(rank, offset, region.extent_there()?)?;
        let extent = region.extent_here()?;
        if extent > len {
            let what = format!("a region of {extent} bytes does not fit into {len}");
            return Err(TeamError::Invalid(what));
        }
        Ok(())
    }

    /// Copies bytes to pieces of the segment of a rank, one behind the other.
    pub fn put_list(&self, rank: u32, pieces: &[Piece], bytes: &[u8]) -> Result<(), TeamError> {
        self.check_list(rank, pieces, bytes.len())?;
        let mut rest = bytes;
        for piece in pieces {
            let (now, later) = rest.split_at(piece.len);
            self.put(rank, piece.offset, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Copies pieces of the segment of a rank, one behind the other.
    pub fn get_list(&self, rank: u32, pieces: &[Piece], bytes: &mut [u8]) -> Result<(), TeamError> {
        self.check_list(rank, pieces, bytes.len())?;
        let mut rest = bytes;
        for piece in pieces {
            let (now, later) = rest.split_at_mut(piece.len);
            self.get(rank, piece.offset, now)?;
            rest = later;
        }
        Ok(())
    }

    pub(crate) fn check_list(
        &self,
        rank: u32,
        pieces: &[Piece],
        len: usize,
    ) -> Result<(), TeamError> {
        let mut total = 0_usize;
        for piece in pieces {
            self.pointer(rank, piece.offset, piece.len)?;
            total = total.saturating_add(piece.len);
        }
        if total != len {
            let what = format!("pieces of {total} bytes together, and {len} bytes for them");
            return Err(TeamError::Invalid(what));
        }
        Ok(())
    }

    /// Adds to a whole number of a rank by one instruction; what was there before. The number is
    /// aligned to its size.
    pub fn fetch_add<T: Word>(&self, rank: u32, offset: usize, value: T) -> Result<T, TeamError> {
        let place = self.word::<T>(rank, offset)?;
        // SAFETY: the place is mapped while this is here, and was checked to be aligned.
        Ok(unsafe { T::fetch_add(place, value) })
    }

    /// Replaces a whole number of a rank by one instruction; what was there before.
    pub fn swap<T: Word>(&self, rank: u32, offset: usize, value: T) -> Result<T, TeamError> {
        let place = self.word::<T>(rank, offset)?;
        // SAFETY: as in `fetch_add`.
        Ok(unsafe { T::swap(place, value) })
    }

    fn word<T: Word>(&self, rank: u32, offset: usize) -> Result<*mut u8, TeamError> {
        let size = size_of::<T>();
        if !offset.is_multiple_of(size) {
            return Err(TeamError::Invalid(format!(
                "a number of {size} bytes cannot be at byte {offset}: that is no multiple of {size}"
            )));
        }
        self.pointer(rank, offset, size)
    }

    /// What was put into the segment of a rank before is there when this returns.
    pub fn fence(&self, rank: u32) -> Result<(), TeamError> {
        self.place_of(rank)?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    /// What was put anywhere before is there when this returns.
    pub fn fence_all(&self) -> Result<(), TeamError> {
        self.fence(self.team.rank())
    }

    /// The segment of this rank, to be used directly.
    pub fn local(&self) -> LocalMemory {
        LocalMemory { segments: self.clone(), rank: self.team.rank() }
    }
}

impl LocalMemory {
    /// Where it begins. Other ranks may read and write there at any time.
    pub fn pointer(&self) -> *mut u8 {
        let place = self.segments.pointer(self.rank, 0, 0);
        place.unwrap_or(std::ptr::null_mut())
    }

    /// How long it is.
    pub fn len(&self) -> usize {
        self.segments.len_of(self.rank).unwrap_or(0)
    }

    /// Whether this rank has given nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: usize = self.places.iter().map(|(_, len)| len).sum();
        write!(f, "Segments({bytes} bytes of {} ranks)", self.places.len())
    }
}

//! Striping: the bytes of a file are dealt out in units to the subfiles, round-robin.
//!
//! ```text
//! file       | unit 0 | unit 1 | unit 2 | unit 3 | unit 4 | unit 5 | unit 6 ..
//! subfile 0  | unit 0 | unit 3 | unit 6 ..
//! subfile 1  | unit 1 | unit 4 ..
//! subfile 2  | unit 2 | unit 5 ..
//! ```
//!
//! Invariants: the unit is at least one byte; an offset in a subfile is never larger than the
//! file's byte it stands for, so the way from file to subfile cannot overflow, while the way back
//! can and is checked. Neighbouring units of a subfile lie next to each other in it, so any range
//! of the file is at most one run of each subfile.

mod runs;

use thiserror::Error;

pub use runs::{BufferSegment, BufferSegments, SubfileRun, SubfileRuns};

use super::disks::Disks;
use super::range::ByteRange;
use crate::ids::SubfileIndex;

/// Striping unit of files whose creator does not choose one.
pub const DEFAULT_UNIT_BYTES: u64 = 64 << 10;

/// A file in units of fixed size over a list of disks.
///
/// ```
/// use pario_proto::{BytePlacement, ByteRange, DiskId, Disks, Striped, SubfileIndex};
///
/// let striped = Striped::new(4, Disks::new([DiskId(0), DiskId(1), DiskId(2)])?)?;
/// let placement = striped.locate(14);
/// assert_eq!(placement, BytePlacement { subfile: SubfileIndex(0), offset_bytes: 6 });
/// assert_eq!(striped.byte_at(placement)?, 14);
///
/// // One request per disk, however long the range is.
/// for run in striped.runs(ByteRange::new(2, 1 << 40)?) {
///     println!("{}: {} bytes at {}", run.subfile(), run.len_bytes(), run.offset_bytes());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Striped {
    unit_bytes: u64,
    disks: Disks,
}

/// Where a byte of a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BytePlacement {
    /// The subfile.
    pub subfile: SubfileIndex,
    /// The byte of the subfile.
    pub offset_bytes: u64,
}

/// An error of striping.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StripedError {
    /// The unit was zero bytes.
    #[error("the striping unit is 0 bytes: choose at least 1")]
    ZeroUnit,
    /// The file has fewer subfiles.
    #[error("{subfile} does not exist: the file has {subfiles}, numbered from 0")]
    NoSuchSubfile {
        /// The subfile asked for.
        subfile: SubfileIndex,
        /// The number of subfiles of the file.
        subfiles: u32,
    },
    /// The byte of the subfile stands for a byte no file can have.
    #[error(
        "byte {} of {} lies beyond the largest file size, 2^64 - 1 bytes: the subfile is damaged, or \
         belongs to another layout",
        placement.offset_bytes, placement.subfile
    )]
    BeyondLargestFile {
        /// The placement.
        placement: BytePlacement,
    },
    /// Not one length for each subfile.
    #[error("{given} subfile lengths were given for {subfiles} subfiles: give one for each")]
    WrongNumberOfLengths {
        /// The number of lengths differs from the number of subfiles.
        given: usize,
        /// The number of subfiles of the file.
        subfiles: u32,
    },
}

impl Striped {
    /// A layout that deals out units of `unit_bytes` bytes to the disks in their order.
    pub fn new(unit_bytes: u64, disks: Disks) -> Result<Striped, StripedError> {
        if unit_bytes == 0 {
            return Err(StripedError::ZeroUnit);
        }
        Ok(Striped { unit_bytes, disks })
    }

    /// The size of a unit.
    pub fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    /// The disks of the subfiles.
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// The placement of byte `byte` of the file. O(1).
    pub fn locate(&self, byte: u64) -> BytePlacement {
        let unit = byte / self.unit_bytes;
        BytePlacement {
            subfile: self.subfile_of_unit(unit),
            offset_bytes: unit / self.subfiles() * self.unit_bytes + byte % self.unit_bytes,
        }
    }

    /// The byte of the file at a placement: the inverse of [`locate`](Striped::locate). O(1).
    pub fn byte_at(&self, placement: BytePlacement) -> Result<u64, StripedError> {
        self.check(placement.subfile)?;
        let row = placement.offset_bytes / self.unit_bytes;
        row.checked_mul(self.subfiles())
            .and_then(|unit| unit.checked_add(u64::from(placement.subfile.0)))
            .and_then(|unit| unit.checked_mul(self.unit_bytes))
            .and_then(|start| start.checked_add(placement.offset_bytes % self.unit_bytes))
            .ok_or(StripedError::BeyondLargestFile { placement })
    }

    /// The range as one run per subfile it touches, in the order in which it touches them. O(1)
    /// per run, whatever the length of the range.
    ///
    /// ```
    /// use pario_proto::{ByteRange, DiskId, Disks, BufferSegment, Striped};
    ///
    /// let striped = Striped::new(4, Disks::new([DiskId(0), DiskId(1)])?)?;
    /// let first = striped.runs(ByteRange::new(3, 9)?).next().unwrap();
    /// // Subfile 0 holds bytes 3 and 8 to 11 of the file, side by side.
    /// assert_eq!((first.offset_bytes(), first.len_bytes()), (3, 5));
    /// let segments: Vec<BufferSegment> = first.segments().collect();
    /// assert_eq!(segments, [
    ///     BufferSegment { buffer_offset_bytes: 0, len_bytes: 1 },
    ///     BufferSegment { buffer_offset_bytes: 5, len_bytes: 4 },
    /// ]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runs(&self, range: ByteRange) -> SubfileRuns<'_> {
        SubfileRuns::new(self, range)
    }

    /// The part of a range on one subfile; `None` if it has none of it. O(1).
    ///
    /// ```
    /// use pario_proto::{ByteRange, DiskId, Disks, Striped, SubfileIndex};
    ///
    /// let striped = Striped::new(4, Disks::new([DiskId(0), DiskId(1)])?)?;
    /// let range = ByteRange::new(9, 2)?;
    /// let run = striped.run_on(SubfileIndex(0), range)?.unwrap();
    /// assert_eq!((run.offset_bytes(), run.len_bytes()), (5, 2));
    /// assert_eq!(striped.run_on(SubfileIndex(1), range)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_on(
        &self,
        subfile: SubfileIndex,
        range: ByteRange,
    ) -> Result<Option<SubfileRun>, StripedError> {
        self.check(subfile)?;
        Ok(SubfileRun::new(self, subfile, range))
    }

    /// The length of a subfile once all `file_size_bytes` bytes of the file are written. O(1).
    pub fn subfile_len_bytes(
        &self,
        subfile: SubfileIndex,
        file_size_bytes: u64,
    ) -> Result<u64, StripedError> {
        self.check(subfile)?;
        Ok(self.dense_len_bytes(subfile, file_size_bytes))
    }

    /// The lengths of all subfiles, in their order, once all `file_size_bytes` bytes of the file
    /// are written.
    ///
    /// ```
    /// use pario_proto::{DiskId, Disks, Striped};
    ///
    /// let striped = Striped::new(4, Disks::new([DiskId(0), DiskId(1), DiskId(2)])?)?;
    /// assert!(striped.subfile_lens_bytes(17).eq([8, 5, 4]));
    /// assert_eq!(striped.file_size_bytes(&[8, 5, 4])?, 17);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subfile_lens_bytes(&self, file_size_bytes: u64) -> impl Iterator<Item = u64> {
        (0..self.disks.count())
            .map(move |subfile| self.dense_len_bytes(SubfileIndex(subfile), file_size_bytes))
    }

    /// The size of the file whose subfiles have these lengths: one past the last byte of any
    /// subfile. Gaps in front of it do not matter.
    pub fn file_size_bytes(&self, subfile_lens_bytes: &[u64]) -> Result<u64, StripedError> {
        if subfile_lens_bytes.len() != self.disks.as_slice().len() {
            return Err(StripedError::WrongNumberOfLengths {
                given: subfile_lens_bytes.len(),
                subfiles: self.disks.count(),
            });
        }
        let mut size_bytes = 0;
        for (subfile, &len_bytes) in (0..).map(SubfileIndex).zip(subfile_lens_bytes) {
            let Some(offset_bytes) = len_bytes.checked_sub(1) else {
                continue;
            };
            let placement = BytePlacement { subfile, offset_bytes };
            let end = self.byte_at(placement)?.checked_add(1);
            size_bytes = size_bytes.max(end.ok_or(StripedError::BeyondLargestFile { placement })?);
        }
        Ok(size_bytes)
    }

    fn dense_len_bytes(&self, subfile: SubfileIndex, file_size_bytes: u64) -> u64 {
        let full_units = file_size_bytes / self.unit_bytes;
        let last_row_bytes = match u64::from(subfile.0).cmp(&(full_units % self.subfiles())) {
            std::cmp::Ordering::Less => self.unit_bytes,
            std::cmp::Ordering::Equal => file_size_bytes % self.unit_bytes,
            std::cmp::Ordering::Greater => 0,
        };
        full_units / self.subfiles() * self.unit_bytes + last_row_bytes
    }

    fn subfiles(&self) -> u64 {
        u64::from(self.disks.count())
    }

    #[expect(clippy::cast_possible_truncation, reason = "a residue of the number of disks, a u32")]
    fn subfile_of_unit(&self, unit: u64) -> SubfileIndex {
        SubfileIndex((unit % self.subfiles()) as u32)
    }

    fn check(&self, subfile: SubfileIndex) -> Result<(), StripedError> {
        if self.disks.has_subfile(subfile) {
            Ok(())
        } else {
            Err(StripedError::NoSuchSubfile { subfile, subfiles: self.disks.count() })
        }
    }
}

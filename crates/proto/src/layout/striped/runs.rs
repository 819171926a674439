//! A range of a file in the order of the disks: one run per subfile, and where its bytes lie in
//! memory.
//!
//! Invariants: a run is contiguous in its subfile and never empty; its segments are in the order
//! of the subfile and of the memory at once, do not overlap, and their lengths add up to the
//! run's. The segments of all runs of a range tile the memory of the range.

use super::{BytePlacement, Striped};
use crate::ids::SubfileIndex;
use crate::layout::range::ByteRange;

/// The part of a range that lies in one subfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubfileRun {
    placement: BytePlacement,
    len_bytes: u64,
    first: BufferSegment,
    unit_bytes: u64,
    /// The bytes of other subfiles in memory between two segments; unused if there is one segment.
    gap_bytes: u64,
}

/// A part of a run that is contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferSegment {
    /// Where it starts in the memory that holds the whole range.
    pub buffer_offset_bytes: u64,
    /// How long it is.
    pub len_bytes: u64,
}

/// The runs of a range; see [`Striped::runs`].
#[derive(Clone, Debug)]
pub struct SubfileRuns<'a> {
    striped: &'a Striped,
    range: ByteRange,
    first_subfile: u32,
    given: u32,
}

/// The segments of a run, for a vectored read or write.
#[derive(Clone, Debug)]
pub struct BufferSegments {
    next: BufferSegment,
    left_bytes: u64,
    unit_bytes: u64,
    gap_bytes: u64,
}

impl SubfileRun {
    /// The part of `range` on `subfile`, which must exist.
    pub(super) fn new(
        striped: &Striped,
        subfile: SubfileIndex,
        range: ByteRange,
    ) -> Option<SubfileRun> {
        let (unit_bytes, subfiles) = (striped.unit_bytes, striped.subfiles());
        let last_byte = range.end_bytes().checked_sub(1).filter(|_| !range.is_empty())?;
        let (range_first, range_last) = (range.start_bytes() / unit_bytes, last_byte / unit_bytes);
        // The first and the last unit of the range that this subfile holds.
        let wanted = u64::from(subfile.0);
        let first =
            range_first.checked_add((wanted + subfiles - range_first % subfiles) % subfiles)?;
        if first > range_last {
            return None;
        }
        let last = range_last - (range_last % subfiles + subfiles - wanted) % subfiles;

        let first_byte =
            if first == range_first { range.start_bytes() } else { first * unit_bytes };
        let last_byte =
            if last == range_last { last_byte } else { last * unit_bytes + (unit_bytes - 1) };
        let placement = striped.locate(first_byte);
        let len_bytes = striped.locate(last_byte).offset_bytes - placement.offset_bytes + 1;
        // A single subfile is contiguous in memory as well: one segment.
        let until_gap_bytes = match subfiles {
            1 => len_bytes,
            _ => len_bytes.min(unit_bytes - first_byte % unit_bytes),
        };
        Some(SubfileRun {
            placement,
            len_bytes,
            first: BufferSegment {
                buffer_offset_bytes: first_byte - range.start_bytes(),
                len_bytes: until_gap_bytes,
            },
            unit_bytes,
            gap_bytes: unit_bytes.saturating_mul(subfiles - 1),
        })
    }

    /// The subfile that holds the run.
    pub fn subfile(&self) -> SubfileIndex {
        self.placement.subfile
    }

    /// Where the run starts in the subfile.
    pub fn offset_bytes(&self) -> u64 {
        self.placement.offset_bytes
    }

    /// How long the run is, in the subfile and over all its segments.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The segments of the run, in their order.
    pub fn segments(&self) -> BufferSegments {
        BufferSegments {
            next: self.first,
            left_bytes: self.len_bytes,
            unit_bytes: self.unit_bytes,
            gap_bytes: self.gap_bytes,
        }
    }

    /// How many segments the run has. O(1).
    pub fn segment_count(&self) -> u64 {
        1 + (self.len_bytes - self.first.len_bytes).div_ceil(self.unit_bytes)
    }
}

impl<'a> SubfileRuns<'a> {
    pub(super) fn new(striped: &'a Striped, range: ByteRange) -> SubfileRuns<'a> {
        let first_subfile = striped.locate(range.start_bytes()).subfile.0;
        SubfileRuns { striped, range, first_subfile, given: 0 }
    }
}

impl Iterator for SubfileRuns<'_> {
    type Item = SubfileRun;

    fn next(&mut self) -> Option<SubfileRun> {
        let subfiles = self.striped.disks.count();
        if self.given == subfiles {
            return None;
        }
        // A range touches consecutive subfiles: the first one without a run ends the walk.
        let subfile = SubfileIndex((self.first_subfile + self.given) % subfiles);
        let run = SubfileRun::new(self.striped, subfile, self.range);
        self.given = if run.is_some() { self.given + 1 } else { subfiles };
        run
    }
}

impl Iterator for BufferSegments {
    type Item = BufferSegment;

    fn next(&mut self) -> Option<BufferSegment> {
        if self.left_bytes == 0 {
            return None;
        }
        let segment = self.next;
        self.left_bytes -= segment.len_bytes;
        if self.left_bytes > 0 {
            self.next = BufferSegment {
                buffer_offset_bytes: segment.buffer_offset_bytes
                    + segment.len_bytes
                    + self.gap_bytes,
                len_bytes: self.left_bytes.min(self.unit_bytes),
            };
        }
        Some(segment)
    }
}

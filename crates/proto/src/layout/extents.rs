//! Extents of any size, numbered, and dealt out to the disks one by one.

use super::disks::Disks;
use super::tiles::ExtentPlacement;
use crate::ids::{ExtentIndex, SubfileIndex};

/// A file of extents without further order: extent `n` is number `n / disks` of subfile
/// `n % disks`.
///
/// ```
/// use pario_proto::{DiskId, Disks, ExtentIndex, Extents, SubfileIndex};
///
/// let extents = Extents::new(Disks::new([DiskId(4), DiskId(9)])?);
/// let placement = extents.locate(7).unwrap();
/// assert_eq!((placement.subfile, placement.extent), (SubfileIndex(1), ExtentIndex(3)));
/// assert_eq!(extents.number_of(placement), Some(7));
/// # Ok::<(), pario_proto::DisksError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extents {
    disks: Disks,
}

impl Extents {
    /// Extents over a list of disks.
    pub fn new(disks: Disks) -> Extents {
        Extents { disks }
    }

    /// The disks of the subfiles.
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// The placement of an extent; `None` if its number is too large for any file.
    #[expect(clippy::cast_possible_truncation, reason = "a residue of the number of disks, a u32")]
    pub fn locate(&self, number: u64) -> Option<ExtentPlacement> {
        let subfiles = u64::from(self.disks.count());
        let extent = number / subfiles;
        (extent < ExtentIndex::LIMIT).then(|| ExtentPlacement {
            subfile: SubfileIndex((number % subfiles) as u32),
            extent: ExtentIndex(extent),
        })
    }

    /// The number of the extent at a placement; `None` if the file has no such placement.
    pub fn number_of(&self, placement: ExtentPlacement) -> Option<u64> {
        let is_inside =
            self.disks.has_subfile(placement.subfile) && placement.extent.0 < ExtentIndex::LIMIT;
        is_inside.then(|| {
            placement.extent.0 * u64::from(self.disks.count()) + u64::from(placement.subfile.0)
        })
    }
}

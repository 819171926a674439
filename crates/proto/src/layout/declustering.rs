//! Declustering: which subfile holds which tile of an image or a volume.
//!
//! Tiles go round-robin to the subfiles along a row; each row starts `row_offset` subfiles after
//! the row above it, and each plane `plane_offset` subfiles after the plane before it:
//!
//! ```text
//! subfile = (z * plane_offset + y * row_offset + x) mod subfiles      (5 subfiles, row offset 2)
//!
//!     0 1 2 3 4 0 1
//!     2 3 4 0 1 2 3      any 5 neighbours in a row or in a column,
//!     4 0 1 2 3 4 0      and any 2 x 2 window, lie on different subfiles
//!     1 2 3 4 0 1 2
//! ```
//!
//! Invariants: both offsets are smaller than the number of subfiles and prime to it, so every line
//! of tiles along an axis loads the subfiles as evenly as its length allows. Which offsets a file
//! uses is a value stored in its layout; a better choice in a later version changes no file.
//!
//! # How the offsets are chosen
//!
//! The *excess* of a window is the difference between its fullest and its emptiest subfile, less
//! the one that is unavoidable where the number of tiles is no multiple of the number of subfiles:
//! 0 is perfect. It depends on the window's shape alone, not on its position.
//!
//! *Up to 1,024 subfiles* every offset is scored. In an image: all windows up to 16 x 16 tiles, the
//! smallest worst excess wins, then the smallest sum. The worst comes first because a window is as
//! slow as its fullest disk, and a good average would be paid for by some unlucky window shape; the
//! sum then tells apart offsets with the same worst window. From 273 subfiles on, several offsets
//! are perfect for all these windows. Among them the one wins for which the smallest window of any
//! shape with two tiles on one subfile is largest, and at last the smaller offset. In a volume: all
//! pairs of offsets and all windows up to 6 x 6 x 6 tiles in the same way, then the slices along the
//! three pairs of axes, scored as images, and at last the smaller row offset, then the smaller plane
//! offset. Offsets above half the number of subfiles are mirror images of those below, and spread
//! windows in the same way; slices across the diagonal of a volume they do not. So with up to 12
//! subfiles, where there are few offsets to choose from, the mirror image is taken that spreads these
//! slices best: with 6 subfiles (5, 1) instead of (1, 1). A release build needs at most 5 ms for an image and 10 ms for a volume (measured).
//!
//! *Above 1,024 subfiles* such windows have far fewer tiles than there are subfiles, and only larger
//! ones tell offsets apart: chosen is the offset for which the smallest window with two tiles on one
//! subfile is largest. In an image all offsets compete; in a volume the eight best row offsets with
//! up to 512 plane offsets each, and the largest cube without two tiles on one subfile decides
//! first, the slices then. This takes at most 25 ms (measured).

mod choice;
mod clash;
pub(super) mod modular;
mod resonance;
mod score;
mod tally;

use thiserror::Error;

use super::disks::Disks;
use super::geometry::TilePosition;
use crate::ids::SubfileIndex;

/// A number of subfiles and the offsets that spread tiles over them.
///
/// ```
/// use pario_proto::{Declustering, SubfileIndex, TilePosition};
///
/// let spread = Declustering::for_image(5)?;
/// assert_eq!(spread.row_offset(), 2);
/// assert_eq!(spread.subfile_of(TilePosition::image(4, 1)), SubfileIndex(1));
/// # Ok::<(), pario_proto::DeclusteringError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Declustering {
    subfiles: u32,
    row_offset: u32,
    plane_offset: u32,
}

/// Why tiles cannot be spread this way.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeclusteringError {
    /// There were no subfiles.
    #[error("tiles cannot be spread over 0 subfiles: use at least one disk")]
    NoSubfiles,
    /// There were more than [`Disks::MAX`] subfiles.
    #[error("tiles cannot be spread over {subfiles} subfiles: the limit is {}", Disks::MAX)]
    TooManySubfiles {
        /// The number of subfiles asked for.
        subfiles: u32,
    },
    /// An offset was too large, or not prime to the number of subfiles.
    #[error(
        "the {axis} offset {offset} does not fit {subfiles} subfiles: it must be smaller and have no \
         divisor in common with them"
    )]
    UnfitOffset {
        /// "row" or "plane".
        axis: &'static str,
        /// The offset given.
        offset: u32,
        /// The number of subfiles.
        subfiles: u32,
    },
}

impl Declustering {
    /// The row offset that spreads the windows of an image best. The plane offset, of no consequence
    /// in a single plane, is 1 (0 if there is one subfile only).
    pub fn for_image(subfiles: u32) -> Result<Declustering, DeclusteringError> {
        check_subfiles(subfiles)?;
        Declustering::new(subfiles, choice::image_offset(subfiles), 1 % subfiles)
    }

    /// The row and plane offsets that spread the windows of a volume best.
    ///
    /// ```
    /// use pario_proto::Declustering;
    ///
    /// let spread = Declustering::for_volume(7)?;
    /// assert_eq!((spread.row_offset(), spread.plane_offset()), (2, 4));
    /// # Ok::<(), pario_proto::DeclusteringError>(())
    /// ```
    pub fn for_volume(subfiles: u32) -> Result<Declustering, DeclusteringError> {
        check_subfiles(subfiles)?;
        let (row_offset, plane_offset) = choice::volume_offsets(subfiles);
        Declustering::new(subfiles, row_offset, plane_offset)
    }

    /// Given offsets, as read from a stored layout.
    ///
    /// ```
    /// use pario_proto::Declustering;
    ///
    /// assert!(Declustering::new(12, 5, 7).is_ok());
    /// assert!(Declustering::new(12, 5, 8).is_err(), "8 and 12 have the divisor 4 in common");
    /// ```
    pub fn new(
        subfiles: u32,
        row_offset: u32,
        plane_offset: u32,
    ) -> Result<Declustering, DeclusteringError> {
        check_subfiles(subfiles)?;
        for (axis, offset) in [("row", row_offset), ("plane", plane_offset)] {
            if offset >= subfiles || modular::gcd(u64::from(offset), u64::from(subfiles)) != 1 {
                return Err(DeclusteringError::UnfitOffset { axis, offset, subfiles });
            }
        }
        Ok(Declustering { subfiles, row_offset, plane_offset })
    }

    /// The number of subfiles.
    pub fn subfiles(&self) -> u32 {
        self.subfiles
    }

    /// By how many subfiles each row of tiles is shifted against the row above it.
    pub fn row_offset(&self) -> u32 {
        self.row_offset
    }

    /// By how many subfiles each plane of tiles is shifted against the plane before it.
    pub fn plane_offset(&self) -> u32 {
        self.plane_offset
    }

    /// The subfile that holds a tile.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a residue of the number of subfiles, a u32"
    )]
    pub fn subfile_of(&self, tile: TilePosition) -> SubfileIndex {
        let subfiles = u64::from(self.subfiles);
        let sum = self.row_start(tile.y, tile.z) + tile.x % subfiles;
        SubfileIndex((sum % subfiles) as u32)
    }

    /// The subfile that holds the first tile of a row.
    pub(super) fn row_start(&self, y: u64, z: u64) -> u64 {
        let subfiles = u64::from(self.subfiles);
        let rows = y % subfiles * u64::from(self.row_offset);
        let planes = z % subfiles * u64::from(self.plane_offset);
        (rows + planes) % subfiles
    }
}

fn check_subfiles(subfiles: u32) -> Result<(), DeclusteringError> {
    match subfiles {
        0 => Err(DeclusteringError::NoSubfiles),
        1..=Disks::MAX => Ok(()),
        _ => Err(DeclusteringError::TooManySubfiles { subfiles }),
    }
}

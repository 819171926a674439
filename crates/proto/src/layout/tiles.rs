//! Tiles: an image or a volume cut into equal boxes, one extent each, spread over the subfiles.
//!
//! A row of `tiles.x` tiles puts at most `ceil(tiles.x / subfiles)` tiles on one subfile. Each
//! subfile reserves this number of extent indices for each row, in the order of the rows, then the
//! planes:
//!
//! ```text
//! subfile = (z * plane_offset + y * row_offset + x) mod subfiles
//! extent  = (z * tiles.y + y) * ceil(tiles.x / subfiles) + x / subfiles
//! ```
//!
//! Invariants: no size is zero; the number of tiles fits 64 bits; every extent index is below
//! [`ExtentIndex::LIMIT`]; different tiles have different placements. Tiles at the far edges may stick
//! out of the image; their pixels outside do not exist. Where `tiles.x` is no multiple of the number
//! of subfiles, some extent indices are used by no tile: an extent subfile is sparse, so that costs
//! nothing.

mod error;
mod spread;
mod window;

pub use error::{OutsideError, TilesError};
pub use window::WindowTiles;

use super::declustering::Declustering;
use super::disks::Disks;
use super::geometry::{PixelPosition, PixelWindow, Shape, TilePosition, TileWindow};
use crate::ids::{ExtentIndex, SubfileIndex};
use serde::{Deserialize, Serialize};

/// An image or a volume in tiles over a list of disks.
///
/// ```
/// use pario_proto::{DiskId, Disks, PixelPosition, PixelWindow, Shape, TilePosition, Tiles};
///
/// let disks = Disks::new((0..5).map(DiskId))?;
/// let tiles = Tiles::new(Shape::image(10_000, 8_000), Shape::image(256, 256), disks)?;
/// assert_eq!(tiles.tiles_per_axis(), Shape::image(40, 32));
///
/// let placement = tiles.locate(TilePosition::image(6, 1))?;
/// assert_eq!((placement.subfile.0, placement.extent.0), (3, 9));
/// assert_eq!(tiles.tile_at(placement), Some(TilePosition::image(6, 1)));
///
/// let window = PixelWindow { start: PixelPosition::image(1_000, 500), size: Shape::image(800, 600) };
/// let touched = tiles.tiles_touched(window)?;
/// assert_eq!(tiles.counts_in(touched)?, [4, 4, 4, 4, 4], "5 x 4 tiles, evenly spread");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tiles {
    image: Shape,
    tile: Shape,
    disks: Disks,
    declustering: Declustering,
    // The three below follow from those above.
    per_axis: Shape,
    tile_count: u64,
    extents_per_row: u64,
}

/// The placement of a tile, or of any other extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExtentPlacement {
    /// The subfile.
    pub subfile: SubfileIndex,
    /// The index of the extent in the subfile.
    pub extent: ExtentIndex,
}

impl Tiles {
    /// Cuts an image into tiles of the given size, spread over the disks as evenly as possible: with
    /// [`Declustering::for_image`] if the tiles lie in one plane, else
    /// [`Declustering::for_volume`].
    pub fn new(image: Shape, tile: Shape, disks: Disks) -> Result<Tiles, TilesError> {
        check_sizes(image, tile)?;
        let declustering = match per_axis(image, tile).z {
            1 => Declustering::for_image(disks.count())?,
            _ => Declustering::for_volume(disks.count())?,
        };
        Tiles::with_declustering(image, tile, disks, declustering)
    }

    /// The same with offsets of the caller's choice.
    ///
    /// ```
    /// use pario_proto::{Declustering, DiskId, Disks, Shape, Tiles};
    ///
    /// let disks = Disks::new((0..7).map(DiskId))?;
    /// let (image, tile) = (Shape::volume(2048, 1216, 1878), Shape::volume(32, 32, 17));
    /// let tiles = Tiles::with_declustering(image, tile, disks, Declustering::new(7, 3, 2)?)?;
    /// assert_eq!(tiles.tiles_per_axis(), Shape::volume(64, 38, 111));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_declustering(
        image: Shape,
        tile: Shape,
        disks: Disks,
        declustering: Declustering,
    ) -> Result<Tiles, TilesError> {
        check_sizes(image, tile)?;
        let subfiles = disks.count();
        if declustering.subfiles() != subfiles {
            return Err(TilesError::OtherDeclustering {
                disks: subfiles,
                subfiles: declustering.subfiles(),
            });
        }
        let per_axis = per_axis(image, tile);
        let extents_per_row = per_axis.x.div_ceil(u64::from(subfiles));
        let extents = Shape { x: extents_per_row, ..per_axis }.product();
        match (per_axis.product(), extents) {
            (Some(tile_count), Some(..=ExtentIndex::LIMIT)) => Ok(Tiles {
                image,
                tile,
                disks,
                declustering,
                per_axis,
                tile_count,
                extents_per_row,
            }),
            _ => Err(TilesError::TooManyTiles { image, tile, subfiles }),
        }
    }

    /// The size of the image in pixels.
    pub fn image(&self) -> Shape {
        self.image
    }

    /// The size of a tile in pixels.
    pub fn tile(&self) -> Shape {
        self.tile
    }

    /// The disks of the subfiles.
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// How tiles are assigned to subfiles.
    pub fn declustering(&self) -> Declustering {
        self.declustering
    }

    /// The number of tiles along each axis, rounded up.
    pub fn tiles_per_axis(&self) -> Shape {
        self.per_axis
    }

    /// The number of all tiles.
    pub fn tile_count(&self) -> u64 {
        self.tile_count
    }

    /// Every extent index of a tile is below this.
    pub fn extent_limit(&self) -> u64 {
        self.extents_per_row * self.per_axis.y * self.per_axis.z
    }

    /// The placement of a tile. O(1).
    pub fn locate(&self, tile: TilePosition) -> Result<ExtentPlacement, OutsideError> {
        self.check(tile)?;
        let row = tile.z * self.per_axis.y + tile.y;
        Ok(ExtentPlacement {
            subfile: self.declustering.subfile_of(tile),
            extent: ExtentIndex(row * self.extents_per_row + tile.x / self.subfiles()),
        })
    }

    /// The tile at a placement: the inverse of [`locate`](Tiles::locate). `None` if there is no tile.
    /// O(1).
    pub fn tile_at(&self, placement: ExtentPlacement) -> Option<TilePosition> {
        if !self.disks.has_subfile(placement.subfile) {
            return None;
        }
        let row = placement.extent.0 / self.extents_per_row;
        let (y, z) = (row % self.per_axis.y, row / self.per_axis.y);
        if z >= self.per_axis.z {
            return None;
        }
        // Of the tiles that share this index within the row, the one on this subfile.
        let subfiles = self.subfiles();
        let start = self.declustering.row_start(y, z);
        let in_turn = (u64::from(placement.subfile.0) + subfiles - start) % subfiles;
        let x = (placement.extent.0 % self.extents_per_row)
            .checked_mul(subfiles)?
            .checked_add(in_turn)?;
        (x < self.per_axis.x).then_some(TilePosition { x, y, z })
    }

    /// The pixels of a tile, cut off at the edge of the image.
    ///
    /// ```
    /// use pario_proto::{DiskId, Disks, Shape, TilePosition, Tiles};
    ///
    /// let tiles = Tiles::new(Shape::image(100, 50), Shape::image(32, 32), Disks::new([DiskId(0)])?)?;
    /// let corner = tiles.pixels_of(TilePosition::image(3, 1))?;
    /// assert_eq!(corner.size, Shape::image(4, 18));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pixels_of(&self, tile: TilePosition) -> Result<PixelWindow, OutsideError> {
        self.check(tile)?;
        let (image, size) = (self.image, self.tile);
        let start = PixelPosition { x: tile.x * size.x, y: tile.y * size.y, z: tile.z * size.z };
        Ok(PixelWindow {
            start,
            size: Shape {
                x: size.x.min(image.x - start.x),
                y: size.y.min(image.y - start.y),
                z: size.z.min(image.z - start.z),
            },
        })
    }

    /// The tiles that hold at least one pixel of a window, as a window of tiles; empty if the window
    /// is.
    pub fn tiles_touched(&self, window: PixelWindow) -> Result<TileWindow, OutsideError> {
        let (start, size, tile) = (window.start, window.size, self.tile);
        let inside = fits(start.x, size.x, self.image.x)
            && fits(start.y, size.y, self.image.y)
            && fits(start.z, size.z, self.image.z);
        if !inside {
            return Err(OutsideError::PixelWindow { window, image: self.image });
        }
        let (x, width) = touched(start.x, size.x, tile.x);
        let (y, height) = touched(start.y, size.y, tile.y);
        let (z, depth) = touched(start.z, size.z, tile.z);
        Ok(TileWindow {
            start: TilePosition { x, y, z },
            size: Shape { x: width, y: height, z: depth },
        })
    }

    /// The tiles of a window, x fastest, then y, then z.
    ///
    /// ```
    /// use pario_proto::{DiskId, Disks, Shape, TilePosition, TileWindow, Tiles};
    ///
    /// let tiles = Tiles::new(Shape::image(100, 50), Shape::image(10, 10), Disks::new([DiskId(0)])?)?;
    /// let window = TileWindow { start: TilePosition::image(8, 1), size: Shape::image(2, 1) };
    /// let found: Vec<TilePosition> = tiles.tiles_in(window)?.collect();
    /// assert_eq!(found, [TilePosition::image(8, 1), TilePosition::image(9, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tiles_in(&self, window: TileWindow) -> Result<WindowTiles, OutsideError> {
        self.check_window(window)?;
        Ok(WindowTiles::new(window))
    }

    /// How many tiles of a window each subfile holds, in the order of the subfiles. O(number of
    /// subfiles), whatever the size of the window.
    pub fn counts_in(&self, window: TileWindow) -> Result<Vec<u64>, OutsideError> {
        self.check_window(window)?;
        Ok(spread::counts(self.declustering, window))
    }

    fn subfiles(&self) -> u64 {
        u64::from(self.disks.count())
    }

    fn check(&self, tile: TilePosition) -> Result<(), OutsideError> {
        let per_axis = self.per_axis;
        if tile.x < per_axis.x && tile.y < per_axis.y && tile.z < per_axis.z {
            Ok(())
        } else {
            Err(OutsideError::Tile { tile, per_axis })
        }
    }

    fn check_window(&self, window: TileWindow) -> Result<(), OutsideError> {
        let (start, size, per_axis) = (window.start, window.size, self.per_axis);
        let inside = fits(start.x, size.x, per_axis.x)
            && fits(start.y, size.y, per_axis.y)
            && fits(start.z, size.z, per_axis.z);
        if inside { Ok(()) } else { Err(OutsideError::TileWindow { window, per_axis }) }
    }
}

fn check_sizes(image: Shape, tile: Shape) -> Result<(), TilesError> {
    if image.is_empty() {
        return Err(TilesError::EmptyImage { image });
    }
    if tile.is_empty() {
        return Err(TilesError::EmptyTile { tile });
    }
    Ok(())
}

fn per_axis(image: Shape, tile: Shape) -> Shape {
    Shape { x: image.x.div_ceil(tile.x), y: image.y.div_ceil(tile.y), z: image.z.div_ceil(tile.z) }
}

/// Whether `size` from `start` on stays within `whole`.
fn fits(start: u64, size: u64, whole: u64) -> bool {
    start.checked_add(size).is_some_and(|end| end <= whole)
}

/// The first tile and the number of tiles that `size` pixels from `start` on touch along one axis.
fn touched(start: u64, size: u64, tile: u64) -> (u64, u64) {
    let first = start / tile;
    let count = if size == 0 { 0 } else { (start + size - 1) / tile - first + 1 };
    (first, count)
}

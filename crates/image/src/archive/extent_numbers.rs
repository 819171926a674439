//! Numbers of extents that do not depend on the disks of a file.

use pario::{ExtentIndex, ExtentPlacement, File, Layout, SubfileIndex};
use pario_proto::TilePosition;

use crate::error::ImageError;

/// Translates between the placements of extents and their numbers.
#[derive(Clone, Debug)]
pub struct ExtentNumbers {
    layout: Layout,
}

impl ExtentNumbers {
    /// Returns the numbering of a file of extents. Fails for flat files and directories.
    pub fn of(file: &File) -> Result<Self, ImageError> {
        match &file.record().layout {
            Some(layout) => Self::of_layout(file.path().as_str(), layout.clone()),
            None => Err(ImageError::other(file.path(), "a directory has no extents")),
        }
    }

    /// Returns the numbering of a layout. Fails for a striped layout.
    pub fn of_layout(name: &str, layout: Layout) -> Result<Self, ImageError> {
        match layout {
            Layout::Striped(_) => {
                Err(ImageError::other(name, "this is a flat file, it has no extents"))
            }
            layout => Ok(Self { layout }),
        }
    }

    /// Returns the number of the extent at a placement, if the layout has one there.
    pub fn number_of(&self, place: ExtentPlacement) -> Option<u64> {
        match &self.layout {
            Layout::Tiles(tiles) => {
                if place == description_place(tiles) {
                    return Some(tiles.tile_count());
                }
                let along = tiles.tiles_per_axis();
                let TilePosition { x, y, z } = tiles.tile_at(place)?;
                Some(x + (y + z * along.y) * along.x)
            }
            Layout::Extents(extents) => extents.number_of(place),
            Layout::Striped(_) => None,
        }
    }

    /// Returns the placement of the extent with a number, if the layout has one.
    pub fn place_of(&self, number: u64) -> Option<ExtentPlacement> {
        match &self.layout {
            Layout::Tiles(tiles) if number == tiles.tile_count() => Some(description_place(tiles)),
            Layout::Tiles(tiles) => {
                let along = tiles.tiles_per_axis();
                let (x, row) = (number % along.x, number / along.x);
                tiles.locate(TilePosition { x, y: row % along.y, z: row / along.y }).ok()
            }
            Layout::Extents(extents) => extents.locate(number),
            Layout::Striped(_) => None,
        }
    }
}

/// Returns the placement of the description of an image or volume, which follows all tiles.
fn description_place(tiles: &pario_proto::Tiles) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(tiles.extent_limit()) }
}

#[cfg(test)]
mod tests {
    use pario::DiskId;
    use pario_proto::{Disks, Extents, Shape, Tiles};

    use super::*;

    fn disks(count: u32) -> Disks {
        Disks::new((0..count).map(DiskId)).unwrap()
    }

    fn numbers(layout: Layout) -> ExtentNumbers {
        ExtentNumbers::of_layout("x", layout).unwrap()
    }

    #[test]
    fn every_tile_has_one_number_on_any_disks() {
        let shape = (Shape::volume(70, 50, 40), Shape::volume(16, 16, 16));
        for count in [1, 2, 3, 5] {
            let tiles = Tiles::new(shape.0, shape.1, disks(count)).unwrap();
            let numbers = numbers(Layout::Tiles(tiles.clone()));
            for number in 0..=tiles.tile_count() {
                let place = numbers.place_of(number).unwrap();
                assert_eq!(numbers.number_of(place), Some(number), "{count} disks");
            }
            assert_eq!(numbers.place_of(tiles.tile_count() + 1), None);
        }
    }

    #[test]
    fn plain_extents_have_theirs() {
        let numbers = numbers(Layout::Extents(Extents::new(disks(3))));
        for number in [0, 1, 7, 1000] {
            assert_eq!(numbers.number_of(numbers.place_of(number).unwrap()), Some(number));
        }
    }
}

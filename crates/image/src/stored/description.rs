//! What the file of an image or volume says of its pixels. How it is cut into tiles is in its layout.

use pario::{ExtentIndex, ExtentPlace, File, Layout, SubfileIndex};
use pario_proto::{Shape, Tiles};
use serde::{Deserialize, Serialize};

use super::compression::Compression;
use crate::error::ImageError;
use crate::pixel::Pixel;
use crate::slice::{Grid, GridError};

const VERSION: u32 = 1;
const HEADER: &[u8] = b"pario image";

/// What the pixels of an image or volume are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The pixels, or voxels.
    pub pixel: Pixel,
    /// How far voxels are apart along each axis; 1 in images.
    pub spacing: [f64; 3],
    /// Along which axes a tile holds the first layer of the next, too.
    pub overlap: [bool; 3],
    /// How tiles are packed that are written from now on.
    pub compression: Compression,
}

impl Description {
    /// The tiles of a layout as boxes.
    pub(crate) fn grid(&self, tiles: &Tiles) -> Result<Grid, GridError> {
        Grid::new(tiles.image(), tiles.tile(), self.overlap)
    }

    /// Bytes of the pixels of a tile of a size.
    pub(crate) fn bytes_of(&self, size: Shape) -> usize {
        let along = |pixels: u64| usize::try_from(pixels).unwrap_or(usize::MAX);
        let pixels = along(size.x).saturating_mul(along(size.y)).saturating_mul(along(size.z));
        pixels.saturating_mul(self.pixel.bytes())
    }

    fn check(self) -> Result<Self, String> {
        let spacing = self.spacing;
        match spacing.iter().all(|side| side.is_finite() && *side > 0.0) {
            true => Ok(self),
            false => Err(format!("voxels cannot be {spacing:?} apart")),
        }
    }
}

/// The place of the description: behind those of all tiles.
fn place_of(tiles: &Tiles) -> ExtentPlace {
    ExtentPlace { subfile: SubfileIndex(0), extent: ExtentIndex(tiles.extent_limit()) }
}

/// Writes the description of an image or volume.
pub fn write_description(
    file: &File,
    tiles: &Tiles,
    description: &Description,
) -> Result<(), ImageError> {
    let body = postcard::to_allocvec(&(VERSION, description))
        .map_err(|error| ImageError::other(file.path(), error.to_string()))?;
    Ok(file.write_extent(place_of(tiles), HEADER, &body)?)
}

/// The tiles and the description of an image or volume.
pub fn read_description(file: &File) -> Result<(Tiles, Description), ImageError> {
    let not_one = |why: String| ImageError::NotAnImage { path: file.path().to_string(), why };
    let Some(Layout::Tiles(tiles)) = &file.record().layout else {
        return Err(not_one("its layout is not one of tiles".to_owned()));
    };
    let Some(extent) = file.read_extent(place_of(tiles))? else {
        return Err(not_one("it does not say what its pixels are".to_owned()));
    };
    if &extent.header[..] != HEADER {
        return Err(not_one("it says something else where its pixels should be described".into()));
    }
    let (version, description): (u32, Description) = postcard::from_bytes(&extent.body)
        .map_err(|error| not_one(format!("its description cannot be read: {error}")))?;
    if version != VERSION {
        let why = format!("its description has version {version}, this program reads {VERSION}");
        return Err(not_one(why));
    }
    Ok((tiles.clone(), description.check().map_err(not_one)?))
}

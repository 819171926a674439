//! An image that is to be made.

use pario::{Cluster, Layout};
use pario_proto::{Shape, Tiles};

use super::Image;
use super::tiled_image::TiledImage;
use crate::error::ImageError;
use crate::filter::TileGrid;
use crate::pixel::Pixel;
use crate::stored::{Compression, ImageDescription, choose_disks, write_description};
use crate::units::VoxelUnits;

/// An image that is to be made: everything but its size and its pixels has a default.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageOptions {
    size: Shape,
    tile: Shape,
    description: ImageDescription,
    disks: Option<u32>,
}

impl ImageOptions {
    /// An image of so many pixels, in tiles of 256 x 256.
    pub fn new(size: [u64; 2], pixel: Pixel) -> Self {
        let [width, height] = size;
        let description = ImageDescription {
            pixel,
            spacing: [1.0; 3],
            overlap: [false; 3],
            compression: Compression::None,
        };
        let (size, tile) = (Shape::image(width, height), Shape::image(256, 256));
        Self { size, tile, description, disks: None }
    }

    /// The size of a tile.
    pub fn tile(mut self, tile: [u64; 2]) -> Self {
        let [width, height] = tile;
        self.tile = Shape::image(width, height);
        self
    }

    /// How tiles are packed.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.description.compression = compression;
        self
    }

    /// Over how many disks it is choose_disks; over all if nothing is said.
    pub fn disk_count(mut self, disks: u32) -> Self {
        self.disks = Some(disks);
        self
    }

    /// Makes the image. A file that is there already is an error. What nobody has written is 0.
    pub fn create(self, cluster: &Cluster, path: &str) -> Result<Image, ImageError> {
        TileGrid::new(self.size, self.tile)?;
        let disks = choose_disks(cluster, self.disks)?;
        let tiles = Tiles::new(self.size, self.tile, disks)
            .map_err(|error| ImageError::Invalid(error.to_string()))?;
        create(cluster, path, tiles, self.description)
    }
}

/// Makes an image of which it is known where its tiles lie.
pub fn create(
    cluster: &Cluster,
    path: &str,
    tiles: Tiles,
    description: ImageDescription,
) -> Result<Image, ImageError> {
    description.grid(&tiles)?;
    TiledImage::new(tiles.clone(), description).map_err(ImageError::Invalid)?;
    let options = cluster.options().read(true).write(true).create_new(true);
    let file = options.layout(Layout::Tiles(tiles.clone())).open(path)?;
    write_description(&file, &tiles, &description, None, VoxelUnits::default())?;
    Image::new(cluster, file, tiles, description)
}

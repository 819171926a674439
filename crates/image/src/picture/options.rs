//! Options of a new image.

use pario::{Cluster, Layout};
use pario_proto::{Shape, Tiles};

use super::Image;
use super::tiled_image::TiledImage;
use crate::error::ImageError;
use crate::filter::TileGrid;
use crate::pixel::Pixel;
use crate::stored::{Compression, ImageDescription, choose_disks, write_description};
use crate::units::VoxelUnits;

/// Options of a new image: everything but its size and its pixels has a default.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageOptions {
    size: Shape,
    tile: Shape,
    description: ImageDescription,
    disks: Option<u32>,
}

impl ImageOptions {
    /// Options for an image of this size, in tiles of 256 x 256.
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

    /// Sets the size of a tile.
    pub fn tile(mut self, tile: [u64; 2]) -> Self {
        let [width, height] = tile;
        self.tile = Shape::image(width, height);
        self
    }

    /// Sets the compression of tiles.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.description.compression = compression;
        self
    }

    /// Sets the number of disks; the default is all.
    pub fn disk_count(mut self, disks: u32) -> Self {
        self.disks = Some(disks);
        self
    }

    /// Creates the image. Fails if the path exists. Unwritten pixels are 0.
    pub fn create(self, cluster: &Cluster, path: &str) -> Result<Image, ImageError> {
        TileGrid::new(self.size, self.tile)?;
        let disks = choose_disks(cluster, self.disks)?;
        let tiles = Tiles::new(self.size, self.tile, disks)
            .map_err(|error| ImageError::Invalid(error.to_string()))?;
        create(cluster, path, tiles, self.description)
    }
}

/// Creates an image with tiles at these placements.
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

//! Options of a new volume.

use pario::{Cluster, Layout};
use pario_proto::{Shape, Tiles};

use super::Volume;
use crate::error::ImageError;
use crate::pixel::Pixel;
use crate::stored::{
    Compression, ImageDescription, StoredDescription, choose_disks, write_description,
};
use crate::units::VoxelUnits;

/// Options of a new volume: everything but its size and its voxels has a default.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeOptions {
    shape: Shape,
    core: Shape,
    description: ImageDescription,
    units: VoxelUnits,
    disks: Option<u32>,
}

impl VolumeOptions {
    /// Options for a volume of this size with spacing 1, in boxes of 32 x 32 x 17, of which one
    /// layer is also the first of the next box.
    pub fn new(voxels: [u64; 3], pixel: Pixel) -> Self {
        let [x, y, z] = voxels;
        let description = ImageDescription {
            pixel,
            spacing: [1.0; 3],
            overlap: [false, false, true],
            compression: Compression::None,
        };
        let (shape, core) = (Shape::volume(x, y, z), Shape::volume(32, 32, 16));
        Self { shape, core, description, units: VoxelUnits::default(), disks: None }
    }

    /// Sets the distance of neighbouring voxels along each axis.
    pub fn spacing(mut self, spacing: [f64; 3]) -> Self {
        self.description.spacing = spacing;
        self
    }

    /// Sets the units of values and spacing.
    pub fn units(mut self, units: VoxelUnits) -> Self {
        self.units = units;
        self
    }

    /// Sets the size of a box without the layers that it shares with the next, and the axes along
    /// which there is such a layer. Slices between voxels cost less along these axes.
    pub fn boxes(mut self, core: [u64; 3], overlap: [bool; 3]) -> Self {
        let [x, y, z] = core;
        self.core = Shape::volume(x, y, z);
        self.description.overlap = overlap;
        self
    }

    /// Sets the compression of boxes.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.description.compression = compression;
        self
    }

    /// Sets the number of disks; the default is all.
    pub fn disk_count(mut self, disks: u32) -> Self {
        self.disks = Some(disks);
        self
    }

    /// Creates the volume. Fails if the path exists. Unwritten voxels are background.
    pub fn create(self, cluster: &Cluster, path: &str) -> Result<Volume, ImageError> {
        if self.description.spacing.iter().any(|side| !(side.is_finite() && *side > 0.0)) {
            let spacing = self.description.spacing;
            return Err(ImageError::Invalid(format!(
                "the spacing {spacing:?} is not valid: give finite numbers above 0"
            )));
        }
        let disks = choose_disks(cluster, self.disks)?;
        let tiles = Tiles::new(self.shape, self.core, disks)
            .map_err(|error| ImageError::Invalid(error.to_string()))?;
        let grid = self.description.grid(&tiles)?;
        let corner = pario_proto::TilePosition { x: 0, y: 0, z: 0 };
        let largest =
            grid.stored(corner).map_or(0, |stored| self.description.bytes_of(stored.size));
        if largest > BOX_LIMIT_BYTES {
            return Err(ImageError::Invalid(format!(
                "boxes of {} would have {largest} bytes, the limit is {BOX_LIMIT_BYTES}: make them \
                 smaller",
                self.core
            )));
        }
        let options = cluster.options().read(true).write(true).create_new(true);
        let file = options.layout(Layout::Tiles(tiles.clone())).open(path)?;
        let Self { description, units, .. } = self;
        write_description(&file, &tiles, &description, None, units)?;
        let described = StoredDescription { description, statistics: None, units };
        Volume::new(cluster, file, tiles, described)
    }
}

/// Limit for the bytes of a box.
const BOX_LIMIT_BYTES: usize = 16 << 20;

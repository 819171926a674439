//! The measure operation for volumes: each node counts the voxels of its boxes, without the layers
//! of the next box, and sends one result.

use pario::operation::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch,
};
use pario_proto::{PixelWindow, Shape, TilePosition, Tiles};
use serde::{Deserialize, Serialize};

use crate::filter::Pixels;
use crate::picture::{MeasureScratch, Measurement, Quantity};
use crate::slice::BoxGrid;
use crate::stored::{Compression, ImageDescription, ImageLayout};

/// The parameters of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasureVolumeCall {
    pub layout: ImageLayout,
    pub quantity: Quantity,
}

/// Measures volumes.
pub struct MeasureVolumeOperation;

struct MeasureVolumeTask {
    tiles: Tiles,
    grid: BoxGrid,
    description: ImageDescription,
    empty: Measurement,
}

impl Operation for MeasureVolumeOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let MeasureVolumeCall { layout, quantity } = call.decode()?;
        let (tiles, grid) = layout.decode()?;
        let empty = Measurement::empty(quantity, layout.description.pixel)?;
        Ok(Box::new(MeasureVolumeTask { tiles, grid, description: layout.description, empty }))
    }
}

impl OperationTask for MeasureVolumeTask {
    fn scratch(&self) -> Scratch {
        MeasureScratch::boxed(&self.empty)
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        let Some(scratch) = scratch.downcast_mut::<MeasureScratch>() else {
            unreachable!("a task gets back the scratch that it created")
        };
        // The extent of the description is not a box.
        let Some(tile) = self.tiles.tile_at(input.placement) else {
            return Ok(ExtentOutput::Nothing);
        };
        let stored = self.grid.stored(tile).ok_or("the extent is not a box")?;
        let bytes = self.description.bytes_of(stored.size);
        let voxels =
            Compression::unpack(input.header(), input.body(), bytes, &mut scratch.unpacked)
                .map_err(|error| error.to_string())?;
        let own = own_size(&self.tiles, tile, stored);
        scratch.measured.count(&self.own_voxels(voxels, stored.size, own)?)?;
        Ok(ExtentOutput::Nothing)
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        MeasureScratch::merge(&self.empty, &scratches)
    }
}

impl MeasureVolumeTask {
    /// Returns the voxels that belong to no other box, with the rows of all planes one below the
    /// other.
    fn own_voxels(&self, voxels: &[u8], stored: Shape, own: Shape) -> Result<Pixels, String> {
        let row_bytes = self.description.bytes_of(Shape::image(stored.x, 1));
        let plane_bytes = self.description.bytes_of(Shape::image(stored.x, stored.y));
        let own_bytes = self.description.bytes_of(Shape::image(own.x, 1));
        let count = |side: u64| usize::try_from(side).unwrap_or(usize::MAX);
        let mut data = Vec::with_capacity(self.description.bytes_of(own));
        for plane in voxels.chunks_exact(plane_bytes).take(count(own.z)) {
            for row in plane.chunks_exact(row_bytes).take(count(own.y)) {
                data.extend_from_slice(&row[..own_bytes]);
            }
        }
        let side = |side: u64| u32::try_from(side).map_err(|error| error.to_string());
        let (width, height) = (side(own.x)?, side(own.y.saturating_mul(own.z))?);
        Pixels::new(width, height, self.description.pixel, data).map_err(|error| error.to_string())
    }
}

/// Returns the size of a box without the layers of the next one.
fn own_size(tiles: &Tiles, tile: TilePosition, stored: PixelWindow) -> Shape {
    let (image, core) = (tiles.image(), tiles.tile());
    let along = |image: u64, core: u64, at: u64, stored: u64| {
        stored.min(core).min(image.saturating_sub(at.saturating_mul(core)))
    };
    Shape {
        x: along(image.x, core.x, tile.x, stored.size.x),
        y: along(image.y, core.y, tile.y, stored.size.y),
        z: along(image.z, core.z, tile.z, stored.size.z),
    }
}

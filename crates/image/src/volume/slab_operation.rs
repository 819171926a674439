//! The slab operation: each node blends the parts of the slices that lie in its boxes.

use pario::ExtentPlacement;
use pario::operation::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch,
};
use pario_proto::Tiles;
use serde::{Deserialize, Serialize};

use crate::slice::{BoxGrid, Interpolation, Slab, SlabCut, SlabParts};
use crate::stored::{Compression, ImageLayout, tiles_at_node};

/// The parameters of a slab call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlabCall {
    pub layout: ImageLayout,
    pub slab: Slab,
    pub interpolation: Interpolation,
}

/// Extracts slabs.
pub struct SlabOperation;

struct SlabTask {
    tiles: Tiles,
    grid: BoxGrid,
    cut: SlabCut,
    extents: Vec<ExtentPlacement>,
    call: SlabCall,
}

struct SlabScratch {
    parts: SlabParts,
    unpacked: Vec<u8>,
}

impl Operation for SlabOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let parameters: SlabCall = call.decode()?;
        let (tiles, grid) = parameters.layout.decode()?;
        let pixel = parameters.layout.description.pixel;
        let cut = SlabCut::new(parameters.slab, grid, pixel, parameters.interpolation)
            .map_err(|error| error.to_string())?;
        let extents = tiles_at_node(call, &tiles, cut.boxes());
        Ok(Box::new(SlabTask { tiles, grid, cut, extents, call: parameters }))
    }
}

impl OperationTask for SlabTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        Some(self.extents.clone())
    }

    fn scratch(&self) -> Scratch {
        Box::new(SlabScratch { parts: self.cut.blank(), unpacked: Vec::new() })
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        let Some(scratch) = scratch.downcast_mut::<SlabScratch>() else {
            unreachable!("a task gets back the scratch that it created")
        };
        let tile = self.tiles.tile_at(input.placement).ok_or("the extent is not a box")?;
        let stored = self.grid.stored(tile).ok_or("the extent is not a box")?;
        let bytes = self.call.layout.description.bytes_of(stored.size);
        let voxels =
            Compression::unpack(input.header(), input.body(), bytes, &mut scratch.unpacked)
                .map_err(|error| error.to_string())?;
        self.cut.extract(tile, voxels, &mut scratch.parts).map_err(|error| error.to_string())?;
        Ok(ExtentOutput::Nothing)
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let mut found =
            scratches.into_iter().filter_map(|scratch| scratch.downcast::<SlabScratch>().ok());
        let Some(mut first) = found.next() else { return Ok(None) };
        for more in found {
            first.parts.merge(&more.parts);
        }
        let mut message = Vec::new();
        first.parts.encode(&mut message);
        Ok(Some(message))
    }
}

//! The slice operation: each node extracts the parts of a slice that lie in its boxes.

use pario::ExtentPlacement;
use pario::operation::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch,
};
use pario_proto::Tiles;
use serde::{Deserialize, Serialize};

use crate::slice::{Cut, Interpolation, Plane, SliceParts};
use crate::stored::{Compression, ImageLayout, tiles_at_node};

/// Bytes of a slice that a node sends before the rest is computed.
const PART_BYTES: usize = 256 << 10;

/// The parameters of a slice call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SliceCall {
    pub layout: ImageLayout,
    pub plane: Plane,
    pub interpolation: Interpolation,
}

/// Extracts slices.
pub struct SliceOperation;

struct SliceTask {
    tiles: Tiles,
    cut: Cut,
    extents: Vec<ExtentPlacement>,
    call: SliceCall,
}

#[derive(Default)]
struct SliceScratch {
    parts: SliceParts,
    unpacked: Vec<u8>,
}

impl Operation for SliceOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let parameters: SliceCall = call.decode()?;
        let (tiles, grid) = parameters.layout.decode()?;
        let pixel = parameters.layout.description.pixel;
        let cut = Cut::new(parameters.plane, grid, pixel, parameters.interpolation)
            .map_err(|error| error.to_string())?;
        let extents = tiles_at_node(call, &tiles, cut.boxes());
        Ok(Box::new(SliceTask { tiles, cut, extents, call: parameters }))
    }
}

impl OperationTask for SliceTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        Some(self.extents.clone())
    }

    fn scratch(&self) -> Scratch {
        Box::new(SliceScratch::default())
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        let Some(scratch) = scratch.downcast_mut::<SliceScratch>() else {
            unreachable!("a task gets back the scratch that it created")
        };
        let tile = self.tiles.tile_at(input.placement).ok_or("the extent is not a box")?;
        let stored = self.cut.grid().stored(tile).ok_or("the extent is not a box")?;
        let bytes = self.call.layout.description.bytes_of(stored.size);
        let voxels =
            Compression::unpack(input.header(), input.body(), bytes, &mut scratch.unpacked)
                .map_err(|error| error.to_string())?;
        self.cut.extract(tile, voxels, &mut scratch.parts).map_err(|error| error.to_string())?;
        if scratch.parts.len_bytes() < PART_BYTES {
            return Ok(ExtentOutput::Nothing);
        }
        let message = encoded(&[&scratch.parts]);
        scratch.parts.clear();
        Ok(ExtentOutput::Result(message))
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let found = scratches.iter().filter_map(|scratch| scratch.downcast_ref::<SliceScratch>());
        let parts: Vec<&SliceParts> = found.map(|found| &found.parts).collect();
        let is_empty = parts.iter().all(|parts| parts.is_empty());
        Ok((!is_empty).then(|| encoded(&parts)))
    }
}

fn encoded(parts: &[&SliceParts]) -> Vec<u8> {
    let mut message = Vec::new();
    SliceParts::encode_all(parts, &mut message);
    message
}

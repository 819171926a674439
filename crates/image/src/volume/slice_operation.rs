//! Slices, at the nodes: each takes out of its boxes what of the slice lies in them.

use pario::ExtentPlace;
use pario::operation::{Call, Operation, Outcome, Scratch, Seen, Task};
use pario_proto::Tiles;
use serde::{Deserialize, Serialize};

use crate::slice::{Cut, Interpolation, Plane, SliceParts};
use crate::stored::{Compression, ImageLayout, tiles_at_node};

/// So much of a slice is worth sending while the rest is computed.
const PART_BYTES: usize = 256 << 10;

/// Which slice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SliceCall {
    pub layout: ImageLayout,
    pub plane: Plane,
    pub interpolation: Interpolation,
}

/// Takes slices.
pub struct SliceOperation;

struct SliceTask {
    tiles: Tiles,
    cut: Cut,
    extents: Vec<ExtentPlace>,
    call: SliceCall,
}

#[derive(Default)]
struct SliceScratch {
    parts: SliceParts,
    unpacked: Vec<u8>,
}

impl Operation for SliceOperation {
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String> {
        let wanted: SliceCall = call.decode()?;
        let (tiles, grid) = wanted.layout.decode()?;
        let pixel = wanted.layout.description.pixel;
        let cut = Cut::new(wanted.plane, grid, pixel, wanted.interpolation)
            .map_err(|error| error.to_string())?;
        let extents = tiles_at_node(call, &tiles, cut.boxes());
        Ok(Box::new(SliceTask { tiles, cut, extents, call: wanted }))
    }
}

impl Task for SliceTask {
    fn extents(&self) -> Option<Vec<ExtentPlace>> {
        Some(self.extents.clone())
    }

    fn scratch(&self) -> Scratch {
        Box::new(SliceScratch::default())
    }

    fn see(&self, seen: &Seen<'_>, scratch: &mut Scratch) -> Result<Outcome, String> {
        let Some(found) = scratch.downcast_mut::<SliceScratch>() else {
            unreachable!("a scratch is given to the task that has made it")
        };
        let tile = self.tiles.tile_at(seen.place).ok_or("no box lies there")?;
        let stored = self.cut.grid().stored(tile).ok_or("no box lies there")?;
        let bytes = self.call.layout.description.bytes_of(stored.size);
        let voxels = Compression::unpack(seen.header(), seen.body(), bytes, &mut found.unpacked)
            .map_err(|error| error.to_string())?;
        self.cut.extract(tile, voxels, &mut found.parts).map_err(|error| error.to_string())?;
        if found.parts.len_bytes() < PART_BYTES {
            return Ok(Outcome::Nothing);
        }
        let message = encoded(&[&found.parts]);
        found.parts.clear();
        Ok(Outcome::Result(message))
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

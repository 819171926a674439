//! Slabs, at the nodes: each puts together what of the slices lies in its boxes.

use pario::ExtentPlacement;
use pario::operation::{Call, Operation, Outcome, Scratch, Seen, Task};
use pario_proto::Tiles;
use serde::{Deserialize, Serialize};

use crate::slice::{Grid, Interpolation, Slab, SlabCut, SlabParts};
use crate::stored::{Compression, Placed, here};

/// Which slab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SlabCall {
    pub placed: Placed,
    pub slab: Slab,
    pub interpolation: Interpolation,
}

/// Takes slabs.
pub struct SlabOperation;

struct SlabTask {
    tiles: Tiles,
    grid: Grid,
    cut: SlabCut,
    extents: Vec<ExtentPlacement>,
    call: SlabCall,
}

struct Found {
    parts: SlabParts,
    room: Vec<u8>,
}

impl Operation for SlabOperation {
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String> {
        let wanted: SlabCall = call.decode()?;
        let (tiles, grid) = wanted.placed.open()?;
        let pixel = wanted.placed.description.pixel;
        let cut = SlabCut::new(wanted.slab, grid, pixel, wanted.interpolation)
            .map_err(|error| error.to_string())?;
        let extents = here(call, &tiles, cut.boxes());
        Ok(Box::new(SlabTask { tiles, grid, cut, extents, call: wanted }))
    }
}

impl Task for SlabTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        Some(self.extents.clone())
    }

    fn scratch(&self) -> Scratch {
        Box::new(Found { parts: self.cut.blank(), room: Vec::new() })
    }

    fn see(&self, seen: &Seen<'_>, scratch: &mut Scratch) -> Result<Outcome, String> {
        let Some(found) = scratch.downcast_mut::<Found>() else {
            unreachable!("a scratch is given to the task that has made it")
        };
        let tile = self.tiles.tile_at(seen.place).ok_or("no box lies there")?;
        let stored = self.grid.stored(tile).ok_or("no box lies there")?;
        let bytes = self.call.placed.description.bytes_of(stored.size);
        let voxels = Compression::unpack(seen.header(), seen.body(), bytes, &mut found.room)
            .map_err(|error| error.to_string())?;
        self.cut.extract(tile, voxels, &mut found.parts).map_err(|error| error.to_string())?;
        Ok(Outcome::Nothing)
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let mut found =
            scratches.into_iter().filter_map(|scratch| scratch.downcast::<Found>().ok());
        let Some(mut first) = found.next() else { return Ok(None) };
        for more in found {
            first.parts.merge(&more.parts);
        }
        let mut message = Vec::new();
        first.parts.encode(&mut message);
        Ok(Some(message))
    }
}

//! A body that does not exist, made at the nodes: each fills its own boxes.

use pario::ExtentPlacement;
use pario::operation::{Call, Operation, Outcome, Scratch, Seen, Task};
use pario_proto::{TilePosition, TileWindow, Tiles};
use serde::{Deserialize, Serialize};

use crate::phantom::Phantom;
use crate::slice::Grid;
use crate::stored::{Placed, here};

/// Which body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhantomCall {
    pub placed: Placed,
    pub seed: u64,
}

/// Makes bodies.
pub struct PhantomOperation;

struct PhantomTask {
    tiles: Tiles,
    grid: Grid,
    extents: Vec<ExtentPlacement>,
    phantom: Phantom,
    call: PhantomCall,
}

impl Operation for PhantomOperation {
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String> {
        let wanted: PhantomCall = call.decode()?;
        let (tiles, grid) = wanted.placed.open()?;
        let corner = TilePosition { x: 0, y: 0, z: 0 };
        let all = TileWindow { start: corner, size: tiles.tiles_per_axis() };
        let every = tiles.tiles_in(all).map_err(|error| error.to_string())?;
        let extents = here(call, &tiles, every);
        let spacing = wanted.placed.description.spacing;
        let phantom =
            Phantom::new(wanted.seed, tiles.image(), spacing).map_err(|error| error.to_string())?;
        Ok(Box::new(PhantomTask { tiles, grid, extents, phantom, call: wanted }))
    }
}

impl Task for PhantomTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        Some(self.extents.clone())
    }

    fn sees_absent(&self) -> bool {
        true
    }

    fn see(&self, seen: &Seen<'_>, _: &mut Scratch) -> Result<Outcome, String> {
        let description = &self.call.placed.description;
        let tile = self.tiles.tile_at(seen.place).ok_or("no box lies there")?;
        let stored = self.grid.stored(tile).ok_or("no box lies there")?;
        let mut voxels = vec![0; description.bytes_of(stored.size)];
        self.phantom.fill(stored.start, stored.size, description.pixel, &mut voxels);
        let (header, body) = description.compression.pack(&voxels);
        Ok(Outcome::Extent { place: seen.place, header, body })
    }
}

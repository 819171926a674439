//! A body that does not exist, made at the nodes: each fills its own boxes.

use std::ops::ControlFlow;

use pario::operation::{Call, Operation, Outcome, Scratch, Seen, Task};
use pario::{ExtentPlace, Report};
use pario_proto::{TilePosition, TileWindow, Tiles};
use serde::{Deserialize, Serialize};

use super::Volume;
use crate::error::ImageError;
use crate::node;
use crate::phantom::Phantom;
use crate::slice::BoxGrid;
use crate::stored::{ImageLayout, tiles_at_node};

/// Which body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhantomCall {
    pub layout: ImageLayout,
    pub seed: u64,
}

/// Makes bodies.
pub struct PhantomOperation;

struct PhantomTask {
    tiles: Tiles,
    grid: BoxGrid,
    extents: Vec<ExtentPlace>,
    phantom: Phantom,
    call: PhantomCall,
}

impl Volume {
    /// Fills the volume with a body that does not exist, made of a seed, where its boxes lie.
    pub fn generate(&self, seed: u64) -> Result<Report, ImageError> {
        self.generate_watched(seed, |_| ControlFlow::Continue(()))
    }

    /// The same; `watch` is told how far it has come, and can end it: boxes that were made stay.
    pub fn generate_watched(
        &self,
        seed: u64,
        mut watch: impl FnMut(&Report) -> ControlFlow<()>,
    ) -> Result<Report, ImageError> {
        let state = &self.state;
        let call = PhantomCall { layout: state.layout.clone(), seed };
        let work = state.cluster.process(&state.file).operation(node::PHANTOM, call);
        let stopper = work.stopper();
        let watch = |report: &Report| {
            if watch(report).is_break() {
                stopper.stop();
            }
        };
        Ok(work.watch(watch).write_to(&state.file)?)
    }
}

impl Operation for PhantomOperation {
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String> {
        let wanted: PhantomCall = call.decode()?;
        let (tiles, grid) = wanted.layout.decode()?;
        let corner = TilePosition { x: 0, y: 0, z: 0 };
        let all = TileWindow { start: corner, size: tiles.tiles_per_axis() };
        let every = tiles.tiles_in(all).map_err(|error| error.to_string())?;
        let extents = tiles_at_node(call, &tiles, every);
        let spacing = wanted.layout.description.spacing;
        let phantom =
            Phantom::new(wanted.seed, tiles.image(), spacing).map_err(|error| error.to_string())?;
        Ok(Box::new(PhantomTask { tiles, grid, extents, phantom, call: wanted }))
    }
}

impl Task for PhantomTask {
    fn extents(&self) -> Option<Vec<ExtentPlace>> {
        Some(self.extents.clone())
    }

    fn sees_absent(&self) -> bool {
        true
    }

    fn see(&self, seen: &Seen<'_>, _: &mut Scratch) -> Result<Outcome, String> {
        let description = &self.call.layout.description;
        let tile = self.tiles.tile_at(seen.place).ok_or("no box lies there")?;
        let stored = self.grid.stored(tile).ok_or("no box lies there")?;
        let mut voxels = vec![0; description.bytes_of(stored.size)];
        self.phantom.fill(stored.start, stored.size, description.pixel, &mut voxels);
        let (header, body) = description.compression.pack(&voxels);
        Ok(Outcome::Extent { place: seen.place, header, body })
    }
}

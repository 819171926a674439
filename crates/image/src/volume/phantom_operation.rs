//! The phantom operation: each node generates a synthetic body scan in its own boxes.

use std::ops::ControlFlow;

use pario::operation::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch,
};
use pario::{ExtentPlacement, ProcessReport};
use pario_proto::{TilePosition, TileWindow, Tiles};
use serde::{Deserialize, Serialize};

use super::Volume;
use crate::error::ImageError;
use crate::node;
use crate::phantom::Phantom;
use crate::slice::BoxGrid;
use crate::stored::{ImageLayout, tiles_at_node};

/// The parameters of a phantom call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhantomCall {
    pub layout: ImageLayout,
    pub seed: u64,
}

/// Generates synthetic body scans.
pub struct PhantomOperation;

struct PhantomTask {
    tiles: Tiles,
    grid: BoxGrid,
    extents: Vec<ExtentPlacement>,
    phantom: Phantom,
    call: PhantomCall,
}

impl Volume {
    /// Fills the volume with a synthetic body that depends on the seed. The nodes generate their
    /// own boxes.
    pub fn generate(&self, seed: u64) -> Result<ProcessReport, ImageError> {
        self.generate_watched(seed, |_| ControlFlow::Continue(()))
    }

    /// Fills the volume with a synthetic body; `watch` receives a report of the progress and can
    /// stop the work: finished boxes stay.
    pub fn generate_watched(
        &self,
        seed: u64,
        mut watch: impl FnMut(&ProcessReport) -> ControlFlow<()>,
    ) -> Result<ProcessReport, ImageError> {
        let state = &self.state;
        let call = PhantomCall { layout: state.layout.clone(), seed };
        let work = state.cluster.process(&state.file).operation(node::PHANTOM, call);
        let stopper = work.stopper();
        let watch = |report: &ProcessReport| {
            if watch(report).is_break() {
                stopper.stop();
            }
        };
        Ok(work.watch(watch).write_to(&state.file)?)
    }
}

impl Operation for PhantomOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let parameters: PhantomCall = call.decode()?;
        let (tiles, grid) = parameters.layout.decode()?;
        let corner = TilePosition { x: 0, y: 0, z: 0 };
        let all = TileWindow { start: corner, size: tiles.tiles_per_axis() };
        let every = tiles.tiles_in(all).map_err(|error| error.to_string())?;
        let extents = tiles_at_node(call, &tiles, every);
        let spacing = parameters.layout.description.spacing;
        let phantom = Phantom::new(parameters.seed, tiles.image(), spacing)
            .map_err(|error| error.to_string())?;
        Ok(Box::new(PhantomTask { tiles, grid, extents, phantom, call: parameters }))
    }
}

impl OperationTask for PhantomTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        Some(self.extents.clone())
    }

    fn includes_absent(&self) -> bool {
        true
    }

    fn process(&self, input: &ExtentInput<'_>, _: &mut Scratch) -> Result<ExtentOutput, String> {
        let description = &self.call.layout.description;
        let tile = self.tiles.tile_at(input.placement).ok_or("the extent is not a box")?;
        let stored = self.grid.stored(tile).ok_or("the extent is not a box")?;
        let mut voxels = vec![0; description.bytes_of(stored.size)];
        self.phantom.fill(stored.start, stored.size, description.pixel, &mut voxels);
        let (header, body) = description.compression.pack(&voxels);
        Ok(ExtentOutput::Extent { placement: input.placement, header, body })
    }
}

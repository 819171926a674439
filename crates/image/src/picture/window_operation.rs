//! The window operation: each node sends the parts of a window that lie in its tiles.

use pario::ExtentPlacement;
use pario::operation::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch,
};
use serde::{Deserialize, Serialize};

use super::tiled_image::{TiledImage, part_of};
use crate::filter::{ImageWindow, Pixels};
use crate::stored::ImageLayout;

/// The parameters of a window call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WindowCall {
    pub layout: ImageLayout,
    pub window: ImageWindow,
}

/// Reads windows of images.
pub struct WindowOperation;

struct WindowTask {
    tiled: TiledImage,
    extents: Vec<ExtentPlacement>,
    window: ImageWindow,
}

impl Operation for WindowOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let WindowCall { layout, window } = call.decode()?;
        let tiled = TiledImage::decode(&layout)?;
        let extents = tiled.at_node_in(call, window);
        Ok(Box::new(WindowTask { tiled, extents, window }))
    }
}

impl OperationTask for WindowTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        Some(self.extents.clone())
    }

    fn scratch(&self) -> Scratch {
        Box::new(Vec::<u8>::new())
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        let Some(unpacked) = scratch.downcast_mut::<Vec<u8>>() else {
            unreachable!("a task gets back the scratch that it created")
        };
        let (_, tile) = self.tiled.at(input.placement).ok_or("the extent is not a tile")?;
        let (Some(part), Some(extent)) = (tile.intersection(self.window), input.extent) else {
            return Ok(ExtentOutput::Nothing);
        };
        let pixel = self.tiled.description.pixel;
        part_of(extent, tile, part, pixel, unpacked).map(ExtentOutput::Result)
    }
}

/// Pastes a part that a node sent into its window.
pub fn paste(
    tiled: &TiledImage,
    window: ImageWindow,
    place: Option<ExtentPlacement>,
    bytes: &[u8],
    pixels: &mut Pixels,
) -> Result<(), String> {
    let tile = place.and_then(|place| tiled.at(place)).map(|(_, tile)| tile);
    let part = tile
        .and_then(|tile| tile.intersection(window))
        .ok_or("its extent is not a tile of the window")?;
    let pixel = pixels.pixel().bytes();
    let along = part.width as usize * pixel;
    if bytes.len() != along * part.height as usize {
        return Err(format!("{} bytes for {part} of {}", bytes.len(), pixels.pixel()));
    }
    let from = (part.x - window.x) as usize * pixel;
    for (row, source) in (part.y - window.y..).zip(bytes.chunks_exact(along)) {
        pixels.row_mut(row)[from..][..along].copy_from_slice(source);
    }
    Ok(())
}

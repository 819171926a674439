//! The pixel-wise operation: each node maps the pixels of its tiles.

use pario::ExtentPlacement;
use pario::operation::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch,
};
use serde::{Deserialize, Serialize};

use super::tiled_image::TiledImage;
use crate::filter::Pixels;
use crate::pixelwise::{Pixelwise, PreparedPixelwise};
use crate::stored::ImageLayout;

/// The parameters of a pixel-wise call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PixelwiseCall {
    pub layout: ImageLayout,
    pub operation: Pixelwise,
}

/// Maps the pixels of images.
pub struct PixelwiseOperation;

struct PixelwiseTask {
    tiled: TiledImage,
    /// All tiles of the node, or `None` if unwritten tiles stay 0.
    extents: Option<Vec<ExtentPlacement>>,
    prepared: PreparedPixelwise,
}

impl Operation for PixelwiseOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let PixelwiseCall { layout, operation } = call.decode()?;
        let tiled = TiledImage::decode(&layout)?;
        let pixel = tiled.description.pixel;
        let prepared = operation.prepare(pixel).map_err(|error| error.to_string())?;
        let blank = Pixels::blank(1, 1, pixel).map_err(|error| error.to_string())?;
        let made = prepared.apply(&blank).map_err(|error| error.to_string())?;
        let keeps_zeros = made.data().iter().all(|byte| *byte == 0);
        let extents = (!keeps_zeros).then(|| tiled.at_node(call));
        Ok(Box::new(PixelwiseTask { tiled, extents, prepared }))
    }
}

impl OperationTask for PixelwiseTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        self.extents.clone()
    }

    fn includes_absent(&self) -> bool {
        self.extents.is_some()
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
        let Some((_, tile)) = self.tiled.at(input.placement) else {
            return Ok(ExtentOutput::Nothing);
        };
        let pixels = self.tiled.pixels(tile, input.extent, unpacked)?;
        let made = self.prepared.apply(&pixels).map_err(|error| error.to_string())?;
        Ok(match self.tiled.packed(&made) {
            Some((header, body)) => {
                ExtentOutput::Extent { placement: input.placement, header, body }
            }
            None => ExtentOutput::Nothing,
        })
    }
}

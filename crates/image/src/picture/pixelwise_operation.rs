//! The pixel-wise operation: each node maps the pixels of its tiles.

use pario::ExtentPlacement;
use pario::operation::{Call, Operation, Outcome, Scratch, Seen, Task};
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
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String> {
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

impl Task for PixelwiseTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        self.extents.clone()
    }

    fn sees_absent(&self) -> bool {
        self.extents.is_some()
    }

    fn scratch(&self) -> Scratch {
        Box::new(Vec::<u8>::new())
    }

    fn see(&self, seen: &Seen<'_>, scratch: &mut Scratch) -> Result<Outcome, String> {
        let Some(unpacked) = scratch.downcast_mut::<Vec<u8>>() else {
            unreachable!("a task gets back the scratch that it created")
        };
        let Some((_, tile)) = self.tiled.at(seen.place) else { return Ok(Outcome::Nothing) };
        let pixels = self.tiled.pixels(tile, seen.extent, unpacked)?;
        let made = self.prepared.apply(&pixels).map_err(|error| error.to_string())?;
        Ok(match self.tiled.packed(&made) {
            Some((header, body)) => Outcome::Extent { place: seen.place, header, body },
            None => Outcome::Nothing,
        })
    }
}

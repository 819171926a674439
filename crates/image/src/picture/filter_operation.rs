//! The filter operation: each node filters its tiles with borders from the tiles around them,
//! wherever these lie.
//!
//! Invariant: a tile that is 0 throughout is not written, so a sparse image stays sparse.

use pario::ExtentPlacement;
use pario::operation::{
    ExtentBytes, ExtentInput, ExtentOutput, NeighbourRequest, Operation, OperationCall,
    OperationTask, Scratch,
};
use pario_proto::{Shape, TilePosition};
use serde::{Deserialize, Serialize};

use super::tiled_image::{TiledImage, part_of};
use crate::filter::channel::sample_bytes;
use crate::filter::{self, Edge, Filter, ImageWindow, PaddedTile, Pixels, TileGrid};
use crate::pixel::Pixel;
use crate::stored::ImageLayout;

/// The parameters of a filter call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FilterCall {
    pub layout: ImageLayout,
    pub filter: Filter,
    pub edge: Edge,
}

/// Filters images.
pub struct FilterOperation;

struct FilterTask {
    tiled: TiledImage,
    extents: Vec<ExtentPlacement>,
    border: u32,
    sparsity: Sparsity,
    call: FilterCall,
}

/// A request for a part of a neighbouring tile; both windows are counted from the corner of the
/// image.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct NeighbourPart {
    tile: ImageWindow,
    part: ImageWindow,
    pixel: Pixel,
}

#[derive(Default)]
struct FilterScratch {
    unpacked: Vec<u8>,
    buffers: filter::FilterBuffers,
}

/// Which tiles are known to become 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sparsity {
    /// Whether a pixel becomes 0 if all pixels within the radius are 0.
    pub keeps_zeros: bool,
    /// Whether the values beyond the edges of an image that is 0 are 0, too.
    pub is_blank_outside: bool,
}

impl Sparsity {
    /// Determines the sparsity of a filter. Fails if the filter is not valid.
    pub fn new(filter: &Filter, edge: Edge, pixel: Pixel) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        filter.validate().map_err(|error| text(&error))?;
        let one = Shape::image(1, 1);
        let grid = TileGrid::new(one, one).map_err(|error| text(&error))?;
        let blank = Pixels::blank(1, 1, pixel).map_err(|error| text(&error))?;
        let parts = [(blank.window(), &blank)];
        let corner = TilePosition::image(0, 0);
        let padded = PaddedTile::assemble(&grid, corner, filter.radius(), Edge::Clamp, parts)
            .map_err(|error| text(&error))?;
        let made = filter
            .apply(&padded, &mut filter::FilterBuffers::new())
            .map_err(|error| text(&error))?;
        let outside = match edge {
            Edge::Clamp | Edge::Mirror => Vec::new(),
            Edge::Constant(value) => sample_bytes(pixel, value),
        };
        let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        Ok(Self { keeps_zeros: is_blank(made.data()), is_blank_outside: is_blank(&outside) })
    }

    /// Returns whether a tile becomes 0 if it and its border in the image are 0.
    fn stays_blank(self, image: ImageWindow, tile: ImageWindow, border: u32) -> bool {
        let is_inside = tile.x >= border
            && tile.y >= border
            && tile.right() + u64::from(border) <= image.right()
            && tile.bottom() + u64::from(border) <= image.bottom();
        self.keeps_zeros && (self.is_blank_outside || is_inside)
    }
}

impl Operation for FilterOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let parameters: FilterCall = call.decode()?;
        let tiled = TiledImage::decode(&parameters.layout)?;
        let sparsity = Sparsity::new(&parameters.filter, parameters.edge, tiled.description.pixel)?;
        let (extents, border) = (tiled.at_node(call), parameters.filter.radius());
        Ok(Box::new(FilterTask { tiled, extents, border, sparsity, call: parameters }))
    }

    /// Cuts an unwritten tile to nothing.
    fn cut(&self, selection: &[u8], extent: Option<ExtentBytes<'_>>) -> Result<Vec<u8>, String> {
        let NeighbourPart { tile, part, pixel } =
            postcard::from_bytes(selection).map_err(|error| {
                format!("the request for a part of a tile cannot be decoded: {error}")
            })?;
        match extent {
            Some(extent) => part_of(extent, tile, part, pixel, &mut Vec::new()),
            None => Ok(Vec::new()),
        }
    }
}

impl FilterTask {
    /// Assembles the tile and its border.
    fn padded(
        &self,
        input: &ExtentInput<'_>,
        (position, tile): (TilePosition, ImageWindow),
        unpacked: &mut Vec<u8>,
    ) -> Result<PaddedTile, String> {
        let pixel = self.tiled.description.pixel;
        let grid = &self.tiled.grid;
        let parts_needed = grid.neighbours(position, self.border);
        if parts_needed.len() != input.neighbours.len() {
            let (requested, received) = (parts_needed.len(), input.neighbours.len());
            return Err(format!(
                "{requested} parts of other tiles were requested, {received} received"
            ));
        }
        let mut parts = vec![(tile, self.tiled.pixels(tile, input.extent, unpacked)?)];
        for (part, bytes) in parts_needed.iter().zip(input.neighbours) {
            let ImageWindow { width, height, .. } = part.window;
            let pixels = match bytes.is_empty() {
                true => Pixels::blank(width, height, pixel),
                false => Pixels::new(width, height, pixel, bytes.to_vec()),
            };
            parts.push((part.window, pixels.map_err(|error| error.to_string())?));
        }
        let parts = parts.iter().map(|(window, pixels)| (*window, pixels));
        PaddedTile::assemble(grid, position, self.border, self.call.edge, parts)
            .map_err(|error| error.to_string())
    }
}

impl OperationTask for FilterTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        Some(self.extents.clone())
    }

    fn scratch(&self) -> Scratch {
        Box::new(FilterScratch::default())
    }

    fn includes_absent(&self) -> bool {
        true
    }

    fn neighbours(&self, placement: ExtentPlacement) -> Result<Vec<NeighbourRequest>, String> {
        let Some((tile, _)) = self.tiled.at(placement) else { return Ok(Vec::new()) };
        let pixel = self.tiled.description.pixel;
        let request = |neighbour: filter::TilePart| {
            let (tile, part) = (self.tiled.grid.tile(neighbour.tile)?, neighbour.window);
            let selection = postcard::to_allocvec(&NeighbourPart { tile, part, pixel }).ok()?;
            let placement = self.tiled.tiles.locate(neighbour.tile).ok()?;
            Some(NeighbourRequest { placement, selection })
        };
        let parts = self.tiled.grid.neighbours(tile, self.border);
        Ok(parts.into_iter().filter_map(request).collect())
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        let Some(scratch) = scratch.downcast_mut::<FilterScratch>() else {
            unreachable!("a task gets back the scratch that it created")
        };
        let (position, tile) = self.tiled.at(input.placement).ok_or("the extent is not a tile")?;
        let is_blank =
            input.extent.is_none() && input.neighbours.iter().all(|part| part.is_empty());
        if is_blank && self.sparsity.stays_blank(self.tiled.image(), tile, self.border) {
            return Ok(ExtentOutput::Nothing);
        }
        let padded = self.padded(input, (position, tile), &mut scratch.unpacked)?;
        let made = self
            .call
            .filter
            .apply(&padded, &mut scratch.buffers)
            .map_err(|error| error.to_string())?;
        Ok(match self.tiled.packed(&made) {
            Some((header, body)) => {
                ExtentOutput::Extent { placement: input.placement, header, body }
            }
            None => ExtentOutput::Nothing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pixel::Sample;

    fn convolution(divisor: f32, offset: f32) -> Filter {
        Filter::Convolution { width: 1, height: 1, weights: vec![-1.0], divisor, offset }
    }

    #[test]
    fn filters_that_keep_zeros_are_recognised() {
        let real = Pixel::new(Sample::F32, 2).unwrap();
        let keeps =
            |filter: &Filter, pixel| Sparsity::new(filter, Edge::Clamp, pixel).unwrap().keeps_zeros;
        for filter in [
            Filter::Gaussian { sigma: 1.0 },
            Filter::Median { radius: 2 },
            Filter::Erosion { radius: 15 },
            Filter::Dilation { radius: 0 },
            convolution(2.0, 0.0),
        ] {
            assert!(keeps(&filter, real) && keeps(&filter, Pixel::GREY), "{filter:?}");
        }
        assert!(!keeps(&convolution(1.0, 0.5), Pixel::GREY));
        assert!(keeps(&convolution(1.0, 0.4), Pixel::GREY), "it is rounded to 0");
        assert!(!keeps(&convolution(1.0, 0.4), real));
        assert!(Sparsity::new(&Filter::Median { radius: 99 }, Edge::Clamp, real).is_err());
    }

    #[test]
    fn what_lies_beyond_an_edge_matters_only_there() {
        let image = ImageWindow { x: 0, y: 0, width: 100, height: 50 };
        let filter = Filter::Dilation { radius: 3 };
        let spares = |value, tile| {
            let sparsity = Sparsity::new(&filter, Edge::Constant(value), Pixel::GREY).unwrap();
            sparsity.stays_blank(image, tile, 3)
        };
        let inside = ImageWindow { x: 3, y: 3, width: 94, height: 44 };
        assert!(spares(0.0, image) && spares(0.4, image) && spares(9.0, inside));
        for edge in [
            ImageWindow { x: 2, ..inside },
            ImageWindow { y: 2, ..inside },
            ImageWindow { width: 95, ..inside },
            ImageWindow { height: 45, ..inside },
        ] {
            assert!(!spares(9.0, edge), "{edge}");
        }
    }

    #[test]
    fn only_what_is_in_a_tile_is_cut() {
        let tile = ImageWindow { x: 10, y: 0, width: 3, height: 2 };
        let (header, body) = crate::Compression::None.pack(&[1, 2, 3, 4, 5, 6]);
        let cut = |tile: ImageWindow, part: ImageWindow| {
            let what =
                postcard::to_allocvec(&NeighbourPart { tile, part, pixel: Pixel::GREY }).unwrap();
            FilterOperation.cut(&what, Some(ExtentBytes { header: &header, body: &body }))
        };
        assert_eq!(cut(tile, ImageWindow { x: 11, width: 2, ..tile }).unwrap(), [2, 3, 5, 6]);
        assert!(cut(tile, ImageWindow { x: 9, ..tile }).is_err());
        let huge = ImageWindow { width: u32::MAX, height: u32::MAX, ..tile };
        assert!(cut(huge, tile).unwrap_err().contains("the limit is"));
        assert!(FilterOperation.cut(&[1], None).is_err());
        let what =
            postcard::to_allocvec(&NeighbourPart { tile, part: tile, pixel: Pixel::GREY }).unwrap();
        assert_eq!(FilterOperation.cut(&what, None), Ok(Vec::new()));
    }
}

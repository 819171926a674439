//! The tiles of an image, for nodes and clients.

use pario::ExtentPlacement;
use pario::operation::{ExtentBytes, OperationCall};
use pario_proto::{Shape, TilePosition, TileWindow, Tiles};

use crate::filter::{ImageWindow, Pixels, TileGrid, TileScan};
use crate::pixel::Pixel;
use crate::stored::{Compression, ImageDescription, ImageLayout, tiles_at_node};

/// Limit for the bytes of a tile.
const TILE_LIMIT_BYTES: u64 = 16 << 20;
/// Limit for the number of tiles: a node lists them in memory.
const TILES_LIMIT: u64 = 1 << 23;

/// The tiles of an image: their placements and their pixels.
#[derive(Clone, Debug)]
pub struct TiledImage {
    pub tiles: Tiles,
    pub grid: TileGrid,
    pub description: ImageDescription,
}

impl TiledImage {
    /// Checks the tiles of a layout. Fails if they are not a two-dimensional image.
    pub fn new(tiles: Tiles, description: ImageDescription) -> Result<Self, String> {
        if tiles.image().z != 1 || tiles.tile().z != 1 || description.overlap != [false; 3] {
            return Err("it is a volume".to_owned());
        }
        let grid = TileGrid::new(tiles.image(), tiles.tile()).map_err(|error| error.to_string())?;
        if tiles.tile_count() > TILES_LIMIT {
            return Err(format!(
                "there would be {} tiles, the limit is {TILES_LIMIT}: make them larger",
                tiles.tile_count()
            ));
        }
        let largest = grid.tile(TilePosition::image(0, 0)).map_or(0, |tile| tile.area());
        check_tile(largest, description.pixel, tiles.tile())?;
        Ok(Self { tiles, grid, description })
    }

    /// Decodes the layout that a client sent.
    pub fn decode(layout: &ImageLayout) -> Result<Self, String> {
        Self::new(layout.decode()?.0, layout.description)
    }

    /// Returns the window of the whole image.
    pub fn image(&self) -> ImageWindow {
        self.grid.image()
    }

    /// Returns the tile at a placement, and its window; `None` for the description.
    pub fn at(&self, place: ExtentPlacement) -> Option<(TilePosition, ImageWindow)> {
        let tile = self.tiles.tile_at(place)?;
        Some((tile, self.grid.tile(tile)?))
    }

    /// Returns all tiles on this node; consecutive tiles are neighbours where possible.
    pub fn at_node(&self, call: &OperationCall<'_>) -> Vec<ExtentPlacement> {
        let all = TileWindow { start: TilePosition::image(0, 0), size: self.grid.tiles() };
        tiles_at_node(call, &self.tiles, TileScan::new(all))
    }

    /// Returns the tiles on this node that have pixels of a window.
    pub fn at_node_in(
        &self,
        call: &OperationCall<'_>,
        window: ImageWindow,
    ) -> Vec<ExtentPlacement> {
        tiles_at_node(call, &self.tiles, self.grid.parts(window).into_iter().map(|part| part.tile))
    }

    /// Returns the pixels of a tile; 0 if it is not written.
    pub fn pixels(
        &self,
        tile: ImageWindow,
        extent: Option<ExtentBytes<'_>>,
        unpacked: &mut Vec<u8>,
    ) -> Result<Pixels, String> {
        let ImageWindow { width, height, .. } = tile;
        let pixel = self.description.pixel;
        match extent {
            None => Pixels::blank(width, height, pixel).map_err(|error| error.to_string()),
            Some(extent) => {
                let bytes = unpack(extent, tile, pixel, unpacked)?;
                Pixels::new(width, height, pixel, bytes.to_vec()).map_err(|error| error.to_string())
            }
        }
    }

    /// Returns header and body of a tile to be stored; `None` if it is 0 throughout, like unwritten
    /// tiles.
    pub fn packed(&self, pixels: &Pixels) -> Option<(Vec<u8>, Vec<u8>)> {
        let is_blank = pixels.data().iter().all(|byte| *byte == 0);
        (!is_blank).then(|| self.description.compression.pack(pixels.data()))
    }
}

/// Fails if tiles of this many pixels are too large.
fn check_tile(pixels: u64, pixel: Pixel, tile: Shape) -> Result<(), String> {
    match pixels.saturating_mul(pixel.bytes() as u64) {
        ..=TILE_LIMIT_BYTES => Ok(()),
        bytes => Err(format!(
            "tiles of {} x {} pixels of {pixel} would have {bytes} bytes, the limit is \
             {TILE_LIMIT_BYTES}: make them smaller",
            tile.x, tile.y
        )),
    }
}

/// Returns the bytes of a part of a tile; both windows are counted from the corner of the image.
pub fn part_of(
    extent: ExtentBytes<'_>,
    tile: ImageWindow,
    part: ImageWindow,
    pixel: Pixel,
    unpacked: &mut Vec<u8>,
) -> Result<Vec<u8>, String> {
    if !tile.contains(part) {
        return Err(format!("{part} are not all in a tile of {tile}"));
    }
    let bytes = unpack(extent, tile, pixel, unpacked)?;
    if part == tile {
        return Ok(bytes.to_vec());
    }
    let along = pixel.bytes() * part.width as usize;
    let mut cut = Vec::with_capacity(along * part.height as usize);
    for row in part.y - tile.y..part.y - tile.y + part.height {
        let pixels = row as usize * tile.width as usize + (part.x - tile.x) as usize;
        cut.extend_from_slice(&bytes[pixels * pixel.bytes()..][..along]);
    }
    Ok(cut)
}

fn unpack<'a>(
    extent: ExtentBytes<'a>,
    tile: ImageWindow,
    pixel: Pixel,
    unpacked: &'a mut Vec<u8>,
) -> Result<&'a [u8], String> {
    check_tile(tile.area(), pixel, Shape::image(tile.width.into(), tile.height.into()))?;
    let bytes = tile.width as usize * tile.height as usize * pixel.bytes();
    Compression::unpack(extent.header, extent.body, bytes, unpacked)
        .map_err(|error| error.to_string())
}

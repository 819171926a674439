//! The tiles of an image, as nodes and clients see them.

use pario::ExtentPlace;
use pario::operation::{Call, Stored};
use pario_proto::{Shape, TilePosition, TileWindow, Tiles};

use crate::filter::{ImageWindow, Pixels, TileGrid, TileScan};
use crate::pixel::Pixel;
use crate::stored::{Compression, ImageDescription, ImageLayout, tiles_at_node};

/// The largest tile.
const TILE_LIMIT_BYTES: u64 = 16 << 20;
/// The most tiles: a node has a list of them in memory.
const TILES_LIMIT: u64 = 1 << 23;

/// The tiles of an image: where they lie, and what they hold.
#[derive(Clone, Debug)]
pub struct TiledImage {
    pub tiles: Tiles,
    pub grid: TileGrid,
    pub description: ImageDescription,
}

impl TiledImage {
    /// The tiles of a layout. What cannot be a two-dimensional image is told.
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

    /// The tiles of an image of which a node was told.
    pub fn decode(layout: &ImageLayout) -> Result<Self, String> {
        Self::new(layout.decode()?.0, layout.description)
    }

    /// The whole image.
    pub fn image(&self) -> ImageWindow {
        self.grid.image()
    }

    /// The tile at a place, and its pixels. What describes the image lies at none.
    pub fn at(&self, place: ExtentPlace) -> Option<(TilePosition, ImageWindow)> {
        let tile = self.tiles.tile_at(place)?;
        Some((tile, self.grid.tile(tile)?))
    }

    /// All tiles that are at a node, each followed by a neighbour if there is one.
    pub fn at_node(&self, call: &Call<'_>) -> Vec<ExtentPlace> {
        let all = TileWindow { start: TilePosition::image(0, 0), size: self.grid.tiles() };
        tiles_at_node(call, &self.tiles, TileScan::new(all))
    }

    /// The tiles that are at a node and have pixels of a window.
    pub fn at_node_in(&self, call: &Call<'_>, window: ImageWindow) -> Vec<ExtentPlace> {
        tiles_at_node(
            call,
            &self.tiles,
            self.grid.parts(window).into_iter().map(|piece| piece.tile),
        )
    }

    /// The pixels of a tile; 0 where nobody has written any.
    pub fn pixels(
        &self,
        tile: ImageWindow,
        extent: Option<Stored<'_>>,
        room: &mut Vec<u8>,
    ) -> Result<Pixels, String> {
        let ImageWindow { width, height, .. } = tile;
        let pixel = self.description.pixel;
        match extent {
            None => Pixels::blank(width, height, pixel).map_err(|error| error.to_string()),
            Some(extent) => {
                let bytes = unpacked(extent, tile, pixel, room)?;
                Pixels::new(width, height, pixel, bytes.to_vec()).map_err(|error| error.to_string())
            }
        }
    }

    /// Header and body of a tile that is to be stored; nothing if it is 0 throughout, as all are
    /// that nobody has written.
    pub fn packed(&self, pixels: &Pixels) -> Option<(Vec<u8>, Vec<u8>)> {
        let is_blank = pixels.data().iter().all(|byte| *byte == 0);
        (!is_blank).then(|| self.description.compression.pack(pixels.data()))
    }
}

/// An error if tiles of so many pixels are too large.
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

/// The bytes of a part of a tile; both are counted from the corner of the image.
pub fn part_of(
    extent: Stored<'_>,
    tile: ImageWindow,
    part: ImageWindow,
    pixel: Pixel,
    room: &mut Vec<u8>,
) -> Result<Vec<u8>, String> {
    if !tile.contains(part) {
        return Err(format!("{part} are not all in a tile of {tile}"));
    }
    let bytes = unpacked(extent, tile, pixel, room)?;
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

fn unpacked<'a>(
    extent: Stored<'a>,
    tile: ImageWindow,
    pixel: Pixel,
    room: &'a mut Vec<u8>,
) -> Result<&'a [u8], String> {
    check_tile(tile.area(), pixel, Shape::image(tile.width.into(), tile.height.into()))?;
    let bytes = tile.width as usize * tile.height as usize * pixel.bytes();
    Compression::unpack(extent.header, extent.body, bytes, room).map_err(|error| error.to_string())
}

//! Random images for tests.

use pario_proto::{Shape, TilePosition, TileWindow};
use proptest::prelude::*;

use crate::filter::{Edge, ImageWindow, Pixels, TileGrid, TileScan};
use crate::{Pixel, Sample};

/// Any pixel.
pub(crate) fn pixel() -> impl Strategy<Value = Pixel> {
    let sample = prop::sample::select(Sample::ALL.to_vec());
    (sample, 1u32..=4).prop_map(|(sample, channels)| Pixel::new(sample, channels).unwrap())
}

/// Any edge rule.
pub(crate) fn edge() -> impl Strategy<Value = Edge> {
    prop_oneof![
        Just(Edge::Clamp),
        Just(Edge::Mirror),
        (-40_000f32..70_000.0).prop_map(Edge::Constant)
    ]
}

/// An image of a size, with few or with many different values, and a grid of tiles over it.
pub(crate) fn cut_image(side: u32) -> impl Strategy<Value = (Pixels, TileGrid)> {
    let sides = || (1..=side, 1..=side, 1..=side + 3);
    (pixel(), sides(), sides(), any::<u64>()).prop_map(|(pixel, across, down, seed)| {
        let image = image(across.0, down.0, pixel, seed);
        // Tiles of every size between one pixel and more than the image.
        let tile = Shape::image(across.1.min(across.2).into(), down.1.min(down.2).into());
        let grid = TileGrid::new(Shape::image(across.0.into(), down.0.into()), tile).unwrap();
        (image, grid)
    })
}

/// An image that follows from a seed.
pub(crate) fn image(width: u32, height: u32, pixel: Pixel, seed: u64) -> Pixels {
    let mut random = fastrand::Rng::with_seed(seed);
    let coarse = random.bool();
    let samples = width as usize * height as usize * pixel.channels();
    let mut data = Vec::new();
    for _ in 0..samples {
        match (pixel.sample(), coarse) {
            (Sample::U8, true) => data.push(*random.choice(&[0, 1, 128, 254, 255]).unwrap()),
            (Sample::I8, true) => {
                let value: i8 = *random.choice(&[-128, -127, -1, 0, 127]).unwrap();
                data.extend(value.to_le_bytes());
            }
            (Sample::I16, true) => {
                let value: i16 = *random.choice(&[-32_768, -1, 0, 1, 32_767]).unwrap();
                data.extend(value.to_le_bytes());
            }
            (Sample::U8 | Sample::I8, false) => data.push(random.u8(..)),
            (Sample::U16, true) => {
                let value: u16 = *random.choice(&[0, 1, 32_768, 65_534, 65_535]).unwrap();
                data.extend(value.to_le_bytes());
            }
            (Sample::U16 | Sample::I16, false) => data.extend(random.u16(..).to_le_bytes()),
            (Sample::F32, true) => {
                let values: [f32; 6] = [0.0, -0.0, 1.0, 0.5, f32::MIN_POSITIVE, -1e9];
                data.extend(random.choice(&values).unwrap().to_le_bytes());
            }
            (Sample::F32, false) => data.extend((random.f32() * 3.0 - 1.0).to_le_bytes()),
        }
    }
    Pixels::new(width, height, pixel, data).unwrap()
}

/// All tiles of a grid, in the order in which a node processes them.
pub(crate) fn tiles(grid: &TileGrid) -> impl Iterator<Item = (TilePosition, ImageWindow)> {
    let window = TileWindow { start: TilePosition::image(0, 0), size: grid.tiles() };
    let grid = *grid;
    TileScan::new(window).map(move |tile| (tile, grid.tile(tile).unwrap()))
}

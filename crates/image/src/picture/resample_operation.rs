//! The resample operation: each node computes the contributions of its tiles.

use pario::ExtentPlacement;
use pario::operation::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch,
};
use serde::{Deserialize, Serialize};

use super::tiled_image::TiledImage;
use crate::filter::ImageWindow;
use crate::resample::{Contribution, ONE_PIXEL, PixelRun, PixelShare, Resampling};
use crate::stored::ImageLayout;

/// Bytes of an output that a node sends before the rest is computed.
const PART_BYTES: usize = 256 << 10;

/// The parameters of a resample call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResampleCall {
    pub layout: ImageLayout,
    pub resampling: Resampling,
    /// Whether unwritten tiles equal the background.
    pub is_blank_outside: bool,
}

/// Resamples images.
pub struct ResampleOperation;

struct ResampleTask {
    tiled: TiledImage,
    extents: Vec<ExtentPlacement>,
    call: ResampleCall,
}

#[derive(Default)]
struct ResampleScratch {
    contribution: Contribution,
    unpacked: Vec<u8>,
}

impl Operation for ResampleOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let parameters: ResampleCall = call.decode()?;
        let tiled = TiledImage::decode(&parameters.layout)?;
        let resampling = parameters.resampling;
        resampling.validate().map_err(|error| error.to_string())?;
        let image = tiled.image();
        let mut extents =
            resampling.source(image).map_or_else(Vec::new, |window| tiled.at_node_in(call, window));
        extents
            .retain(|place| tiled.at(*place).is_some_and(|(_, tile)| may_touch(&resampling, tile)));
        Ok(Box::new(ResampleTask { tiled, extents, call: parameters }))
    }
}

impl OperationTask for ResampleTask {
    fn extents(&self) -> Option<Vec<ExtentPlacement>> {
        Some(self.extents.clone())
    }

    fn includes_absent(&self) -> bool {
        !self.call.is_blank_outside
    }

    fn scratch(&self) -> Scratch {
        Box::new(ResampleScratch::default())
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        let Some(scratch) = scratch.downcast_mut::<ResampleScratch>() else {
            unreachable!("a task gets back the scratch that it created")
        };
        let (_, tile) = self.tiled.at(input.placement).ok_or("the extent is not a tile")?;
        let pixels = self.tiled.pixels(tile, input.extent, &mut scratch.unpacked)?;
        let image = self.tiled.image();
        self.call
            .resampling
            .contribute(image, tile, &pixels, &mut scratch.contribution)
            .map_err(|error| error.to_string())?;
        if scratch.contribution.pixels.len() < PART_BYTES {
            return Ok(ExtentOutput::Nothing);
        }
        encoded(std::mem::take(&mut scratch.contribution)).map(ExtentOutput::Result)
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let mut all = Contribution::new();
        for found in
            scratches.into_iter().filter_map(|scratch| scratch.downcast::<ResampleScratch>().ok())
        {
            all.append(found.contribution);
        }
        if all.is_empty() { Ok(None) } else { encoded(all).map(Some) }
    }
}

/// Returns whether a tile may contribute to an output. It does not examine each row of the output,
/// so it accepts tiles that are up to two pixels away.
fn may_touch(resampling: &Resampling, tile: ImageWindow) -> bool {
    const NEAR: f64 = 2.0;
    let Resampling::Mapped { map, width, height, .. } = resampling else { return true };
    let pixels = |position: [i64; 2]| position.map(|value| value as f64 / ONE_PIXEL as f64);
    let (origin, right, down) = (pixels(map.origin), pixels(map.right), pixels(map.down));
    let cross = |one: [f64; 2], other: [f64; 2]| one[0] * other[1] - one[1] * other[0];
    let area = cross(right, down);
    if area == 0.0 {
        return true;
    }
    let across = [f64::from(tile.x) - NEAR, f64::from(tile.x) + f64::from(tile.width) + NEAR];
    let along = [f64::from(tile.y) - NEAR, f64::from(tile.y) + f64::from(tile.height) + NEAR];
    // Columns and rows of the output at the corners of the tile.
    let corners =
        across.iter().flat_map(|x| along.iter().map(|y| [*x - origin[0], *y - origin[1]]));
    let places = corners.map(|corner| [cross(corner, down) / area, cross(right, corner) / area]);
    let (mut least, mut most) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
    for place in places {
        for axis in 0..2 {
            least[axis] = least[axis].min(place[axis]);
            most[axis] = most[axis].max(place[axis]);
        }
    }
    let meets = |axis: usize, length: u32| least[axis] < f64::from(length) && most[axis] > -1.0;
    meets(0, *width) && meets(1, *height)
}

/// Encodes a contribution: the length of its pixels, the pixels, and the rest.
fn encoded(mut contribution: Contribution) -> Result<Vec<u8>, String> {
    contribution.merge_shares();
    let Contribution { runs, pixels, shares } = contribution;
    let mut message = (pixels.len() as u64).to_le_bytes().to_vec();
    message.extend_from_slice(&pixels);
    postcard::to_extend(&(runs, shares), message).map_err(|error| error.to_string())
}

/// Decodes a contribution.
pub fn decode(message: &[u8]) -> Result<Contribution, String> {
    let wrong = || "the message of a contribution is too short".to_owned();
    let (len, rest) = message.split_first_chunk().ok_or_else(wrong)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok();
    let (pixels, rest) = len.and_then(|len| rest.split_at_checked(len)).ok_or_else(wrong)?;
    let (runs, shares): (Vec<PixelRun>, Vec<PixelShare>) =
        postcard::from_bytes(rest).map_err(|error| error.to_string())?;
    Ok(Contribution { runs, pixels: pixels.to_vec(), shares })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resample::{AffineMap, ChannelSums, Sampling};

    #[test]
    fn no_tile_is_left_out() {
        let mut random = fastrand::Rng::with_seed(3);
        let image = ImageWindow { x: 0, y: 0, width: 3000, height: 2000 };
        let (mut touched, mut taken, mut all) = (0, 0, 0);
        for _ in 0..300 {
            let (width, height) = (random.u32(1..200), random.u32(1..200));
            let step = [0.001, 0.7, 1.0, 9.0, 40.0][random.usize(0..5)];
            let middle = [random.f64() * 3300.0 - 100.0, random.f64() * 2300.0 - 100.0];
            let degrees = [0.0, 90.0, random.f64() * 360.0][random.usize(0..3)];
            let mut map = AffineMap::turned(middle, degrees, step, width, height).unwrap();
            if random.u8(..) < 50 {
                // Any other shape, also one without an area.
                map.down = [map.right[0] / 2, random.i64(-1..2) * map.right[1] / 2];
            }
            let interpolation = [Sampling::Nearest, Sampling::Bilinear][random.usize(0..2)];
            let resampling = Resampling::Mapped { map, width, height, interpolation };
            for number in 0..40 {
                let tile = ImageWindow {
                    x: number % 8 * 375,
                    y: number / 8 * 400,
                    width: 375,
                    height: 400,
                };
                let touches = resampling.touches(image, tile);
                let source = resampling.source(image);
                let is_taken = source.is_some_and(|source| source.intersection(tile).is_some())
                    && may_touch(&resampling, tile);
                assert!(is_taken || !touches, "{resampling:?} {tile}");
                touched += u32::from(touches);
                taken += u32::from(is_taken);
                all += 1;
            }
        }
        assert!(touched > 500 && taken < touched * 5 / 4 && taken < all / 2, "{taken}");
    }

    #[test]
    fn contributions_travel() {
        let sums = ChannelSums::Whole([1, 2, 3, 0]);
        let contribution = Contribution {
            runs: vec![PixelRun { x: 1, y: 2, length: 2 }],
            pixels: vec![7, 8],
            shares: vec![PixelShare { x: 5, y: 6, weight: 9, sums }],
        };
        let message = encoded(contribution.clone()).unwrap();
        assert_eq!(decode(&message), Ok(contribution));
        for len in 0..message.len() {
            assert!(decode(&message[..len]).is_err(), "{len}");
        }
        assert!(decode(&[255; 30]).is_err());
    }
}

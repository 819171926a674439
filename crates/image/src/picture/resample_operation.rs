//! Windows at another scale or turned, at the nodes: each finds what its tiles contribute.

use pario::ExtentPlace;
use pario::operation::{Call, Operation, Outcome, Scratch, Seen, Task};
use serde::{Deserialize, Serialize};

use super::tile::Tiled;
use crate::resample::{Contribution, Resampling, Run, Share};
use crate::stored::Placed;

/// So much of an output is worth sending while the rest is computed.
const PART_BYTES: usize = 256 << 10;

/// Which output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResampleCall {
    pub placed: Placed,
    pub resampling: Resampling,
    /// Whether tiles that nobody has written are as good as what lies outside of the image.
    pub is_blank_outside: bool,
}

/// Makes windows at another scale or turned.
pub struct ResampleOperation;

struct ResampleTask {
    tiled: Tiled,
    extents: Vec<ExtentPlace>,
    call: ResampleCall,
}

#[derive(Default)]
struct Found {
    contribution: Contribution,
    room: Vec<u8>,
}

impl Operation for ResampleOperation {
    fn prepare(&self, call: &Call<'_>) -> Result<Box<dyn Task>, String> {
        let wanted: ResampleCall = call.decode()?;
        let tiled = Tiled::told(&wanted.placed)?;
        let resampling = wanted.resampling;
        resampling.validate().map_err(|error| error.to_string())?;
        let image = tiled.image();
        let mut extents =
            resampling.source(image).map_or_else(Vec::new, |window| tiled.here_in(call, window));
        extents.retain(|place| {
            tiled.at(*place).is_some_and(|(_, tile)| resampling.touches(image, tile))
        });
        Ok(Box::new(ResampleTask { tiled, extents, call: wanted }))
    }
}

impl Task for ResampleTask {
    fn extents(&self) -> Option<Vec<ExtentPlace>> {
        Some(self.extents.clone())
    }

    fn sees_absent(&self) -> bool {
        !self.call.is_blank_outside
    }

    fn scratch(&self) -> Scratch {
        Box::new(Found::default())
    }

    fn see(&self, seen: &Seen<'_>, scratch: &mut Scratch) -> Result<Outcome, String> {
        let Some(found) = scratch.downcast_mut::<Found>() else {
            unreachable!("a scratch is given to the task that has made it")
        };
        let (_, tile) = self.tiled.at(seen.place).ok_or("no tile lies there")?;
        let pixels = self.tiled.pixels(tile, seen.extent, &mut found.room)?;
        let image = self.tiled.image();
        self.call
            .resampling
            .contribute(image, tile, &pixels, &mut found.contribution)
            .map_err(|error| error.to_string())?;
        if found.contribution.pixels.len() < PART_BYTES {
            return Ok(Outcome::Nothing);
        }
        encoded(std::mem::take(&mut found.contribution)).map(Outcome::Result)
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        let mut all = Contribution::new();
        for found in scratches.into_iter().filter_map(|scratch| scratch.downcast::<Found>().ok()) {
            all.append(found.contribution);
        }
        if all.is_empty() { Ok(None) } else { encoded(all).map(Some) }
    }
}

/// A contribution as it travels: how many bytes its pixels have, these, and the rest.
fn encoded(mut contribution: Contribution) -> Result<Vec<u8>, String> {
    contribution.settle();
    let Contribution { runs, pixels, shares } = contribution;
    let mut message = (pixels.len() as u64).to_le_bytes().to_vec();
    message.extend_from_slice(&pixels);
    postcard::to_extend(&(runs, shares), message).map_err(|error| error.to_string())
}

/// What has travelled.
pub fn decode(message: &[u8]) -> Result<Contribution, String> {
    let wrong = || "its parts cannot be told from each other".to_owned();
    let (len, rest) = message.split_first_chunk().ok_or_else(wrong)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok();
    let (pixels, rest) = len.and_then(|len| rest.split_at_checked(len)).ok_or_else(wrong)?;
    let (runs, shares): (Vec<Run>, Vec<Share>) =
        postcard::from_bytes(rest).map_err(|error| error.to_string())?;
    Ok(Contribution { runs, pixels: pixels.to_vec(), shares })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resample::Sums;

    #[test]
    fn contributions_travel() {
        let sums = Sums::Whole([1, 2, 3, 0]);
        let contribution = Contribution {
            runs: vec![Run { x: 1, y: 2, length: 2 }],
            pixels: vec![7, 8],
            shares: vec![Share { x: 5, y: 6, weight: 9, sums }],
        };
        let message = encoded(contribution.clone()).unwrap();
        assert_eq!(decode(&message), Ok(contribution));
        for len in 0..message.len() {
            assert!(decode(&message[..len]).is_err(), "{len}");
        }
        assert!(decode(&[255; 30]).is_err());
    }
}

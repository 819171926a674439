//! The measure operation: each node counts the pixels of its tiles and sends one result.

use pario::operation::{
    ExtentInput, ExtentOutput, Operation, OperationCall, OperationTask, Scratch,
};
use serde::{Deserialize, Serialize};

use super::tiled_image::TiledImage;
use crate::filter::Pixels;
use crate::pixel::Pixel;
use crate::pixelwise::{Bins, Histogram, Summary};
use crate::stored::ImageLayout;

/// The parameters of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasureCall {
    pub layout: ImageLayout,
    pub quantity: Quantity,
}

/// The available quantities.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Quantity {
    /// Counts of values.
    Histogram(Bins),
    /// The smallest and the greatest value, and the mean.
    Summary,
}

/// The result of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Measurement {
    Histogram(Histogram),
    Summary(Summary),
}

/// Measures images.
pub struct MeasureOperation;

struct MeasureTask {
    tiled: TiledImage,
    empty: Measurement,
}

/// The measurement of one compute thread, and its buffer for unpacked tiles.
pub struct MeasureScratch {
    pub measured: Measurement,
    pub unpacked: Vec<u8>,
}

impl MeasureScratch {
    /// Returns the scratch of a thread that has measured nothing.
    pub fn boxed(empty: &Measurement) -> Scratch {
        Box::new(Self { measured: empty.clone(), unpacked: Vec::new() })
    }

    /// Merges the measurements of all threads into one message.
    pub fn merge(empty: &Measurement, scratches: &[Scratch]) -> Result<Option<Vec<u8>>, String> {
        let mut all = empty.clone();
        for scratch in scratches.iter().filter_map(|scratch| scratch.downcast_ref::<Self>()) {
            all.add(&scratch.measured)?;
        }
        postcard::to_allocvec(&all).map(Some).map_err(|error| error.to_string())
    }
}

impl Measurement {
    /// Creates a measurement without pixels.
    pub fn empty(quantity: Quantity, pixel: Pixel) -> Result<Self, String> {
        match quantity {
            Quantity::Summary => Ok(Self::Summary(Summary::new(pixel))),
            Quantity::Histogram(bins) => match Histogram::new(pixel, bins) {
                Ok(histogram) => Ok(Self::Histogram(histogram)),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// Counts the pixels of a tile.
    pub fn count(&mut self, pixels: &Pixels) -> Result<(), String> {
        match self {
            Self::Histogram(histogram) => {
                histogram.count(pixels).map_err(|error| error.to_string())
            }
            Self::Summary(summary) => summary.count(pixels).map_err(|error| error.to_string()),
        }
    }

    /// Adds another measurement.
    pub fn add(&mut self, other: &Self) -> Result<(), String> {
        match (self, other) {
            (Self::Histogram(all), Self::Histogram(more)) => {
                all.add(more).map_err(|error| error.to_string())
            }
            (Self::Summary(all), Self::Summary(more)) => {
                all.add(more).map_err(|error| error.to_string())
            }
            _ => Err("the nodes measured different quantities".to_owned()),
        }
    }

    /// Returns the histogram of a measurement that was started with bins.
    pub fn into_histogram(self) -> Histogram {
        match self {
            Self::Histogram(histogram) => histogram,
            Self::Summary(_) => unreachable!("a measurement of bins stays a histogram"),
        }
    }

    /// Returns the summary of a measurement that was started without bins.
    pub fn into_summary(self) -> Summary {
        match self {
            Self::Summary(summary) => summary,
            Self::Histogram(_) => unreachable!("a measurement without bins stays a summary"),
        }
    }

    /// Returns the number of pixels counted.
    fn pixels(&self) -> u64 {
        match self {
            Self::Histogram(histogram) => {
                let outside = histogram.outside(0);
                histogram.channel(0).iter().chain(&outside).sum()
            }
            Self::Summary(summary) => {
                let channel = summary.channels().first();
                channel.map_or(0, |channel| channel.count + channel.not_numbers)
            }
        }
    }

    /// Counts pixels that are 0 until there are `pixels` in all.
    pub fn fill(&mut self, pixels: u64, quantity: Quantity, pixel: Pixel) -> Result<(), String> {
        let seen = self.pixels();
        let mut missing = pixels
            .checked_sub(seen)
            .ok_or_else(|| format!("the nodes measured {seen} pixels, the image has {pixels}"))?;
        let mut zeros = Self::empty(quantity, pixel)?;
        zeros.count(&Pixels::blank(1, 1, pixel).map_err(|error| error.to_string())?)?;
        // Adds the zeros by doubling.
        while missing > 0 {
            if missing % 2 == 1 {
                self.add(&zeros)?;
            }
            missing /= 2;
            if missing > 0 {
                zeros.add(&zeros.clone())?;
            }
        }
        Ok(())
    }
}

impl Operation for MeasureOperation {
    fn prepare(&self, call: &OperationCall<'_>) -> Result<Box<dyn OperationTask>, String> {
        let MeasureCall { layout, quantity } = call.decode()?;
        let tiled = TiledImage::decode(&layout)?;
        let empty = Measurement::empty(quantity, tiled.description.pixel)?;
        Ok(Box::new(MeasureTask { tiled, empty }))
    }
}

impl OperationTask for MeasureTask {
    fn scratch(&self) -> Scratch {
        MeasureScratch::boxed(&self.empty)
    }

    fn process(
        &self,
        input: &ExtentInput<'_>,
        scratch: &mut Scratch,
    ) -> Result<ExtentOutput, String> {
        let Some(scratch) = scratch.downcast_mut::<MeasureScratch>() else {
            unreachable!("a task gets back the scratch that it created")
        };
        if let Some((_, tile)) = self.tiled.at(input.placement) {
            let pixels = self.tiled.pixels(tile, input.extent, &mut scratch.unpacked)?;
            scratch.measured.count(&pixels)?;
        }
        Ok(ExtentOutput::Nothing)
    }

    fn finish(&self, scratches: Vec<Scratch>) -> Result<Option<Vec<u8>>, String> {
        MeasureScratch::merge(&self.empty, &scratches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pixel::Sample;

    #[test]
    fn missing_pixels_are_zeros() {
        for sample in Sample::ALL {
            let pixel = Pixel::new(sample, 2).unwrap();
            for quantity in [Quantity::Summary, Quantity::Histogram(Bins::usual(sample))] {
                for missing in [0, 1, 2, 3, 1000, 2_400_000_000] {
                    let mut measured = Measurement::empty(quantity, pixel).unwrap();
                    measured.count(&Pixels::blank(5, 7, pixel).unwrap()).unwrap();
                    measured.fill(35 + missing, quantity, pixel).unwrap();
                    assert_eq!(measured.pixels(), 35 + missing);
                    assert!(measured.fill(34, quantity, pixel).is_err());
                }
            }
        }
    }
}

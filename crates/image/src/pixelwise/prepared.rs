//! A pixel-wise operation that is prepared for tiles of one pixel type.

use crate::filter::Pixels;
use crate::filter::channel::SampleChannel;
use crate::pixelwise::{Pixelwise, PixelwiseError};
use crate::{Pixel, Sample};

/// Samples that are computed side by side.
const SIDE_BY_SIDE: usize = 8;

/// A pixel-wise operation with its tables; see [`Pixelwise::prepare`]. Threads may share it.
#[derive(Clone, Debug)]
pub struct PreparedPixelwise {
    input: Pixel,
    output: Pixel,
    mapping: Mapping,
}

#[derive(Clone, Debug)]
enum Mapping {
    /// The result for each of the 256 values, by its bits.
    Bytes(Box<[u8; 256]>),
    /// The bytes of the result for each of the 65,536 values, by its bits.
    Words(Vec<[u8; 2]>),
    /// No table: each value is computed.
    Reals(Pixelwise),
    Mix(Mix),
}

#[derive(Clone, Debug)]
struct Mix {
    /// A row for each output channel.
    matrix: [[f64; 4]; 4],
    offsets: [f64; 4],
}

impl PreparedPixelwise {
    pub(super) fn new(
        operation: &Pixelwise,
        input: Pixel,
    ) -> Result<PreparedPixelwise, PixelwiseError> {
        let output = operation.output_pixel(input)?;
        let mapping = match (operation, input.sample()) {
            (Pixelwise::ChannelMix { matrix, offsets }, _) => {
                Mapping::Mix(Mix::new(matrix, offsets, input.channels()))
            }
            (_, Sample::U8) => {
                let table = table::<u8>(operation, 0..=u8::MAX);
                Mapping::Bytes(Box::new(std::array::from_fn(|value| table[value])))
            }
            (_, Sample::U16) => {
                let table = table::<u16>(operation, 0..=u16::MAX);
                Mapping::Words(table.into_iter().map(u16::to_le_bytes).collect())
            }
            (_, Sample::I8) => {
                let table = table::<i8>(operation, (0..=u8::MAX).map(u8::cast_signed));
                Mapping::Bytes(Box::new(std::array::from_fn(|value| table[value].cast_unsigned())))
            }
            (_, Sample::I16) => {
                let table = table::<i16>(operation, (0..=u16::MAX).map(u16::cast_signed));
                Mapping::Words(table.into_iter().map(i16::to_le_bytes).collect())
            }
            (_, Sample::F32) => Mapping::Reals(operation.clone()),
        };
        Ok(PreparedPixelwise { input, output, mapping })
    }

    /// Returns the pixel that the operation produces.
    pub fn output_pixel(&self) -> Pixel {
        self.output
    }

    /// Applies the operation to pixels.
    pub fn apply(&self, pixels: &Pixels) -> Result<Pixels, PixelwiseError> {
        if pixels.pixel() != self.input {
            let (prepared, pixel) = (self.input, pixels.pixel());
            return Err(PixelwiseError::OtherPixel { prepared, pixel });
        }
        let data = match (&self.mapping, self.input.sample()) {
            (Mapping::Bytes(table), _) => {
                pixels.data().iter().map(|value| table[usize::from(*value)]).collect()
            }
            (Mapping::Words(table), _) => {
                let (samples, _) = pixels.data().as_chunks();
                let values = samples.iter().map(|sample| u16::from_le_bytes(*sample));
                let mut data = Vec::with_capacity(pixels.data().len());
                values.for_each(|value| data.extend_from_slice(&table[usize::from(value)]));
                data
            }
            (Mapping::Reals(operation), _) => reals(operation, pixels),
            (Mapping::Mix(mix), Sample::U8) => mix.tile::<u8>(pixels, self.output.channels()),
            (Mapping::Mix(mix), Sample::U16) => mix.tile::<u16>(pixels, self.output.channels()),
            (Mapping::Mix(mix), Sample::I8) => mix.tile::<i8>(pixels, self.output.channels()),
            (Mapping::Mix(mix), Sample::I16) => mix.tile::<i16>(pixels, self.output.channels()),
            (Mapping::Mix(mix), Sample::F32) => mix.tile::<f32>(pixels, self.output.channels()),
        };
        Ok(Pixels::from_checked(pixels.width(), pixels.height(), self.output, data))
    }
}

fn table<T: SampleChannel>(operation: &Pixelwise, values: impl Iterator<Item = T>) -> Vec<T> {
    values.map(|value| changed(operation, [value])[0]).collect()
}

fn reals(operation: &Pixelwise, pixels: &Pixels) -> Vec<u8> {
    let mut values = Vec::with_capacity(pixels.data().len() / size_of::<f32>());
    f32::load(pixels.data(), &mut values);
    let (blocks, rest) = values.as_chunks_mut::<SIDE_BY_SIDE>();
    blocks.iter_mut().for_each(|block| *block = changed(operation, *block));
    for value in rest {
        [*value] = changed(operation, [*value]);
    }
    let mut data = Vec::with_capacity(pixels.data().len());
    f32::store(&values, &mut data);
    data
}

/// Applies the operation to some samples.
fn changed<T: SampleChannel, const N: usize>(operation: &Pixelwise, values: [T; N]) -> [T; N] {
    operation.values(values.map(T::real), T::BLACK, T::WHITE).map(T::nearest)
}

impl Mix {
    fn new(matrix: &[f64], offsets: &[f64], inputs: usize) -> Mix {
        let mut mix = Mix { matrix: [[0.0; 4]; 4], offsets: [0.0; 4] };
        for (row, weights) in mix.matrix.iter_mut().zip(matrix.chunks_exact(inputs)) {
            row[..inputs].copy_from_slice(weights);
        }
        mix.offsets[..offsets.len()].copy_from_slice(offsets);
        mix
    }

    fn tile<T: SampleChannel>(&self, pixels: &Pixels, outputs: usize) -> Vec<u8> {
        match pixels.pixel().channels() {
            1 => self.channels::<T, 1>(pixels, outputs),
            2 => self.channels::<T, 2>(pixels, outputs),
            3 => self.channels::<T, 3>(pixels, outputs),
            _ => self.channels::<T, 4>(pixels, outputs),
        }
    }

    fn channels<T: SampleChannel, const IN: usize>(
        &self,
        pixels: &Pixels,
        outputs: usize,
    ) -> Vec<u8> {
        let mut values: Vec<T> = Vec::with_capacity(pixels.data().len() / size_of::<T>());
        T::load(pixels.data(), &mut values);
        let (inputs, _) = values.as_chunks::<IN>();
        let mut mixed: Vec<T> = Vec::with_capacity(inputs.len() * outputs);
        for input in inputs {
            let input = input.map(T::real);
            for (row, offset) in self.matrix[..outputs].iter().zip(self.offsets) {
                let products = row.iter().zip(input).map(|(weight, value)| weight * value);
                mixed.push(T::nearest(products.fold(offset, |sum, product| sum + product)));
            }
        }
        let mut data = Vec::with_capacity(size_of_val(mixed.as_slice()));
        T::store(&mixed, &mut data);
        data
    }
}

//! From the bytes of a chunk's row to samples: predictors and byte order.

use super::super::ByteOrder;
use crate::Sample;

/// What was done to samples before they were compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predictor {
    None,
    /// Differences to the sample of the same channel to the left.
    Differences,
    /// Bytes of the same weight together, highest first, and differences of these.
    Floats,
}

impl Predictor {
    /// By the number in the file.
    pub fn from_tag(number: u64, sample: Sample) -> Option<Predictor> {
        match (number, sample) {
            (1, _) => Some(Predictor::None),
            (2, _) => Some(Predictor::Differences),
            (3, Sample::F32) => Some(Predictor::Floats),
            _ => None,
        }
    }

    /// Turns a row of so many channels into little-endian samples. `scratch` is as long as the row.
    pub fn rebuild(
        self,
        row: &mut [u8],
        scratch: &mut [u8],
        (sample, order): (Sample, ByteOrder),
        channels: usize,
    ) {
        if self == Predictor::Floats {
            for i in channels..row.len() {
                row[i] = row[i].wrapping_add(row[i - channels]);
            }
            let samples = row.len() / 4;
            for (i, bytes) in scratch.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *bytes = [3, 2, 1, 0].map(|weight| row[weight * samples + i]);
            }
            row.copy_from_slice(scratch);
            return;
        }
        order.convert(row, sample);
        if self == Predictor::Differences {
            match sample {
                Sample::U8 | Sample::I8 => {
                    for i in channels..row.len() {
                        row[i] = row[i].wrapping_add(row[i - channels]);
                    }
                }
                Sample::U16 | Sample::I16 => {
                    let row = row.as_chunks_mut::<2>().0;
                    for i in channels..row.len() {
                        let left = u16::from_le_bytes(row[i - channels]);
                        row[i] = u16::from_le_bytes(row[i]).wrapping_add(left).to_le_bytes();
                    }
                }
                Sample::F32 => {
                    let row = row.as_chunks_mut::<4>().0;
                    for i in channels..row.len() {
                        let left = u32::from_le_bytes(row[i - channels]);
                        row[i] = u32::from_le_bytes(row[i]).wrapping_add(left).to_le_bytes();
                    }
                }
            }
        }
    }
}

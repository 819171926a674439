//! Predictors and byte order: from the bytes of a row of a chunk to numbers. The crate `tiff` undoes
//! them only for whole chunks.

use super::super::{ByteOrder, FileNumber};

/// The transformation of the samples before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predictor {
    None,
    /// Differences to the sample of the same channel on the left.
    Differences,
    /// Bytes of the same significance together, highest first, as differences.
    Floats,
}

impl Predictor {
    /// Returns the predictor with a number in the file.
    pub fn from_tag(tag: u64, number: FileNumber) -> Option<Predictor> {
        match (tag, number) {
            (1, _) => Some(Predictor::None),
            (2, _) => Some(Predictor::Differences),
            (3, FileNumber::F32 | FileNumber::F64) => Some(Predictor::Floats),
            _ => None,
        }
    }

    /// Restores a row of pixels with these channels to little-endian numbers. `scratch` has the
    /// length of the row.
    pub fn restore(
        self,
        row: &mut [u8],
        scratch: &mut [u8],
        (number, order): (FileNumber, ByteOrder),
        channels: usize,
    ) {
        if self == Predictor::Floats {
            for i in channels..row.len() {
                row[i] = row[i].wrapping_add(row[i - channels]);
            }
            let each = number.bytes();
            let samples = row.len() / each;
            for (i, bytes) in scratch.chunks_exact_mut(each).enumerate() {
                for (place, byte) in bytes.iter_mut().enumerate() {
                    *byte = row[(each - 1 - place) * samples + i];
                }
            }
            row.copy_from_slice(scratch);
            return;
        }
        order.swap(row, number.bytes());
        if self == Predictor::Differences {
            match number.bytes() {
                1 => {
                    for i in channels..row.len() {
                        row[i] = row[i].wrapping_add(row[i - channels]);
                    }
                }
                2 => {
                    let row = row.as_chunks_mut::<2>().0;
                    for i in channels..row.len() {
                        let left = u16::from_le_bytes(row[i - channels]);
                        row[i] = u16::from_le_bytes(row[i]).wrapping_add(left).to_le_bytes();
                    }
                }
                4 => {
                    let row = row.as_chunks_mut::<4>().0;
                    for i in channels..row.len() {
                        let left = u32::from_le_bytes(row[i - channels]);
                        row[i] = u32::from_le_bytes(row[i]).wrapping_add(left).to_le_bytes();
                    }
                }
                _ => {
                    let row = row.as_chunks_mut::<8>().0;
                    for i in channels..row.len() {
                        let left = u64::from_le_bytes(row[i - channels]);
                        row[i] = u64::from_le_bytes(row[i]).wrapping_add(left).to_le_bytes();
                    }
                }
            }
        }
    }
}

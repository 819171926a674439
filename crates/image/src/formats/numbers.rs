//! Number types in files of other programs, and the samples that they become.
//!
//! Whole numbers of 8 and 16 bits and `f32` are stored as they are. Wider types become `f32`, and
//! the reader notes it. Files with a slope and an intercept hold physical values after both are
//! applied: `i16` if every value is a whole number in its range, otherwise `f32`.

use std::fmt;
use std::io;

use super::ByteOrder;
use crate::{Pixel, PixelError, Sample};

/// The type of one number in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileNumber {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Floating-point, 32 bits.
    F32,
    /// Floating-point, 64 bits.
    F64,
}

/// A pixel or voxel in a file: one to four numbers, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePixel {
    number: FileNumber,
    stored: Pixel,
}

impl FileNumber {
    /// All types.
    pub const ALL: [FileNumber; 10] = [
        FileNumber::U8,
        FileNumber::I8,
        FileNumber::U16,
        FileNumber::I16,
        FileNumber::U32,
        FileNumber::I32,
        FileNumber::U64,
        FileNumber::I64,
        FileNumber::F32,
        FileNumber::F64,
    ];

    /// Returns the bytes of one number.
    pub const fn bytes(self) -> usize {
        match self {
            FileNumber::U8 | FileNumber::I8 => 1,
            FileNumber::U16 | FileNumber::I16 => 2,
            FileNumber::U32 | FileNumber::I32 | FileNumber::F32 => 4,
            FileNumber::U64 | FileNumber::I64 | FileNumber::F64 => 8,
        }
    }

    /// Returns the sample type that it becomes.
    pub const fn sample(self) -> Sample {
        match self {
            FileNumber::U8 => Sample::U8,
            FileNumber::I8 => Sample::I8,
            FileNumber::U16 => Sample::U16,
            FileNumber::I16 => Sample::I16,
            _ => Sample::F32,
        }
    }

    /// Returns a note for the user if the conversion loses precision.
    pub(super) fn note(self) -> Option<String> {
        let lost = match self {
            FileNumber::F64 => "values keep 24 bits of precision",
            FileNumber::U32 | FileNumber::I32 | FileNumber::U64 | FileNumber::I64 => {
                "whole numbers above 16,777,216 are rounded"
            }
            _ => return None,
        };
        Some(format!("samples of {self} are stored as f32: {lost}"))
    }

    /// Returns the value of little-endian bytes.
    fn value(self, bytes: &[u8]) -> f64 {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            word
        };
        match self {
            FileNumber::U32 => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into(),
            FileNumber::I32 => i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]).into(),
            FileNumber::U64 => u64::from_le_bytes(word(bytes)) as f64,
            FileNumber::I64 => i64::from_le_bytes(word(bytes)) as f64,
            FileNumber::F64 => f64::from_le_bytes(word(bytes)),
            _ => self.sample().value(bytes),
        }
    }

    /// Returns the least and the greatest value of whole numbers of up to 32 bits.
    const fn range(self) -> Option<[f64; 2]> {
        match self {
            FileNumber::U8 | FileNumber::I8 | FileNumber::U16 | FileNumber::I16 => {
                Some(self.sample().range())
            }
            FileNumber::U32 => Some([0.0, 4_294_967_295.0]),
            FileNumber::I32 => Some([-2_147_483_648.0, 2_147_483_647.0]),
            _ => None,
        }
    }
}

impl FilePixel {
    /// Returns a pixel of one to four numbers.
    pub fn new(number: FileNumber, channels: u32) -> Result<FilePixel, PixelError> {
        Ok(FilePixel { number, stored: Pixel::new(number.sample(), channels)? })
    }

    /// Returns the type of its numbers.
    pub fn number(self) -> FileNumber {
        self.number
    }

    /// Returns the pixel that it becomes.
    pub fn stored(self) -> Pixel {
        self.stored
    }

    /// Returns its bytes in the file.
    pub fn bytes(self) -> usize {
        self.number.bytes() * self.stored.channels()
    }
}

impl From<Pixel> for FilePixel {
    fn from(stored: Pixel) -> FilePixel {
        let number = match stored.sample() {
            Sample::U8 => FileNumber::U8,
            Sample::I8 => FileNumber::I8,
            Sample::U16 => FileNumber::U16,
            Sample::I16 => FileNumber::I16,
            Sample::F32 => FileNumber::F32,
        };
        FilePixel { number, stored }
    }
}

impl fmt::Display for FileNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileNumber::U8 => "u8",
            FileNumber::I8 => "i8",
            FileNumber::U16 => "u16",
            FileNumber::I16 => "i16",
            FileNumber::U32 => "u32",
            FileNumber::I32 => "i32",
            FileNumber::U64 => "u64",
            FileNumber::I64 => "i64",
            FileNumber::F32 => "f32",
            FileNumber::F64 => "f64",
        })
    }
}

/// The meaning of the numbers of a file: `slope * number + intercept`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rescaling {
    pub slope: f64,
    pub intercept: f64,
}

impl Rescaling {
    /// The numbers are the values.
    pub const NONE: Rescaling = Rescaling { slope: 1.0, intercept: 0.0 };

    fn apply(self, number: f64) -> f64 {
        self.slope * number + self.intercept
    }

    /// Returns whether whole numbers stay whole.
    pub fn is_whole(self) -> bool {
        self.slope.fract() == 0.0 && self.intercept.fract() == 0.0
    }

    /// Returns whether all numbers of a range become whole numbers of 16 bits.
    pub fn fits_i16(self, [least, greatest]: [f64; 2]) -> bool {
        let [one, other] = [self.apply(least), self.apply(greatest)];
        let inside = |value| (-32_768.0..=32_767.0).contains(&value);
        self.is_whole() && inside(one) && inside(other)
    }
}

/// The conversion of the numbers of a file to samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion {
    pub from: FileNumber,
    pub order: ByteOrder,
    pub scaling: Rescaling,
    pub to: Sample,
}

impl Conversion {
    /// Returns the conversion without slope and intercept.
    pub fn plain(from: FileNumber, order: ByteOrder) -> Conversion {
        Conversion { from, order, scaling: Rescaling::NONE, to: from.sample() }
    }

    /// Returns the conversion with slope and intercept. `range` is the range of the numbers in the
    /// file, if it is known to be narrower than that of their type.
    pub fn scaled(
        from: FileNumber,
        order: ByteOrder,
        scaling: Rescaling,
        range: Option<[f64; 2]>,
    ) -> Conversion {
        let to = match range.or(from.range()) {
            _ if scaling == Rescaling::NONE => from.sample(),
            Some(range) if scaling.fits_i16(range) => Sample::I16,
            _ => Sample::F32,
        };
        Conversion { from, order, scaling, to }
    }

    /// Returns whether the range of the numbers decides between `i16` and `f32`.
    pub fn depends_on_range(&self) -> bool {
        self.scaling != Rescaling::NONE
            && self.to == Sample::F32
            && self.scaling.is_whole()
            && self.from.range().is_some()
    }

    /// Returns a note for the user on the conversion.
    pub fn note(&self) -> Option<String> {
        if self.scaling == Rescaling::NONE {
            return self.from.note();
        }
        let Rescaling { slope, intercept } = self.scaling;
        Some(format!(
            "samples of {} are stored as {}: value = {slope} * sample + {intercept}",
            self.from, self.to
        ))
    }

    /// Returns whether only the byte order of the numbers changes.
    pub fn keeps_bytes(&self) -> bool {
        self.scaling == Rescaling::NONE
            && self.from.bytes() == self.to.bytes()
            && self.from.sample() == self.to
            && !matches!(self.from, FileNumber::U32 | FileNumber::I32)
    }

    /// Converts numbers to little-endian samples. Modifies `numbers`.
    pub fn convert(&self, numbers: &mut [u8], samples: &mut Vec<u8>) {
        samples.clear();
        self.order.swap(numbers, self.from.bytes());
        for number in numbers.chunks_exact(self.from.bytes()) {
            self.to.append(self.scaling.apply(self.from.value(number)), samples);
        }
    }

    /// Extends a range by numbers. Modifies `numbers`.
    pub fn widen(&self, numbers: &mut [u8], range: &mut [f64; 2]) {
        self.order.swap(numbers, self.from.bytes());
        for number in numbers.chunks_exact(self.from.bytes()) {
            let value = self.from.value(number);
            *range = [range[0].min(value), range[1].max(value)];
        }
    }
}

/// Reads rows of numbers and converts them to samples. It keeps its buffers from row to row.
#[derive(Debug)]
pub(super) struct RowConverter {
    conversion: Conversion,
    numbers: Vec<u8>,
    samples: Vec<u8>,
}

impl RowConverter {
    /// Creates a converter without buffers.
    pub fn new(conversion: Conversion) -> RowConverter {
        RowConverter { conversion, numbers: Vec::new(), samples: Vec::new() }
    }

    /// Fills `row` with samples; `read` must fill its argument with the numbers of the row.
    pub fn read(
        &mut self,
        row: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Conversion { from, to, order, .. } = self.conversion;
        if self.conversion.keeps_bytes() {
            read(row)?;
            order.convert(row, to);
            return Ok(());
        }
        self.numbers.resize(row.len() / to.bytes() * from.bytes(), 0);
        read(&mut self.numbers)?;
        self.conversion.convert(&mut self.numbers, &mut self.samples);
        row.copy_from_slice(&self.samples);
        Ok(())
    }

    /// Returns the notes for the user on the conversion.
    pub fn notes(&self) -> Vec<String> {
        self.conversion.note().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(from: FileNumber, slope: f64, intercept: f64, range: Option<[f64; 2]>) -> Sample {
        Conversion::scaled(from, ByteOrder::Little, Rescaling { slope, intercept }, range).to
    }

    #[test]
    fn physical_values_are_i16_where_nothing_is_lost() {
        assert_eq!(to(FileNumber::U8, 1.0, -128.0, None), Sample::I16);
        assert_eq!(to(FileNumber::U16, 1.0, -1024.0, Some([0.0, 4095.0])), Sample::I16);
        assert_eq!(to(FileNumber::U16, 1.0, -1024.0, None), Sample::F32);
        assert_eq!(to(FileNumber::I16, 1.0, -1024.0, None), Sample::F32);
        assert_eq!(to(FileNumber::U8, 0.5, 0.0, None), Sample::F32);
        assert_eq!(to(FileNumber::U16, 1.0, 0.0, None), Sample::U16);
        assert_eq!(to(FileNumber::F32, 2.0, 0.0, None), Sample::F32);
        assert_eq!(to(FileNumber::I16, -1.0, 0.0, Some([-5.0, 5.0])), Sample::I16);
    }

    #[test]
    fn numbers_of_every_type_become_their_values() {
        let convert = |from: FileNumber, order, bytes: &[u8]| {
            let conversion = Conversion::plain(from, order);
            let mut samples = Vec::new();
            conversion.convert(&mut bytes.to_vec(), &mut samples);
            conversion.to.value(&samples)
        };
        assert_eq!(convert(FileNumber::U32, ByteOrder::Big, &[0, 1, 0, 0]), 65_536.0);
        assert_eq!(convert(FileNumber::I32, ByteOrder::Little, &(-7i32).to_le_bytes()), -7.0);
        assert_eq!(convert(FileNumber::I64, ByteOrder::Big, &(-7i64).to_be_bytes()), -7.0);
        assert_eq!(convert(FileNumber::U64, ByteOrder::Little, &9u64.to_le_bytes()), 9.0);
        assert_eq!(convert(FileNumber::F64, ByteOrder::Big, &(-1.5f64).to_be_bytes()), -1.5);
        assert_eq!(convert(FileNumber::I16, ByteOrder::Big, &(-2i16).to_be_bytes()), -2.0);
        assert_eq!(convert(FileNumber::I8, ByteOrder::Big, &[0xFF]), -1.0);
    }
}

//! Sample types as Rust types.
//!
//! Invariants: loading and storing are inverse to each other, bit by bit. So are keys and values,
//! and keys have the order of the values. A computed NaN is always stored as the same bits. The key
//! of a signed whole number is the number plus [`zero_key`]: an unsigned number of as many bits.
//! Weighted sums of signed samples are sums of their keys, so that one unsigned arithmetic serves
//! both; a mean of keys is the key of the mean, with halves rounded up.

use crate::filter::FilterBuffers;
use crate::filter::buffers::BufferPair;
use crate::{Pixel, Sample};

/// A sample in memory.
pub(crate) trait SampleChannel: Copy + Default + PartialEq + 'static {
    /// A whole number for each value, in the same order.
    type SortKey: SortKey;

    /// White: the greatest value that a picture shows.
    const WHITE: f64;

    /// The value that inversion turns into white: the least value of whole numbers, otherwise 0.
    const BLACK: f64 = 0.0;

    /// Appends the values in these bytes.
    fn load(bytes: &[u8], values: &mut Vec<Self>);

    /// Appends the bytes of these values.
    fn store(values: &[Self], bytes: &mut Vec<u8>);

    /// Returns the value as a number.
    fn real(self) -> f64;

    /// Returns the nearest value. Rounds halves away from zero and clamps to the range of the type.
    fn nearest(real: f64) -> Self;

    /// Returns the position of the value in the order of all values.
    fn key(self) -> Self::SortKey;

    /// Returns the value with a key.
    fn of_key(key: Self::SortKey) -> Self;
}

/// Whole numbers that filters compare in place of samples.
pub(crate) trait SortKey: Copy + Default + Ord + 'static {
    /// Returns the buffers for numbers of this type.
    fn buffers(buffers: &mut FilterBuffers) -> &mut BufferPair<Self>;

    /// Returns the smaller and the greater of two numbers.
    fn pair(self, other: Self) -> (Self, Self) {
        (self.min(other), self.max(other))
    }
}

impl SampleChannel for u8 {
    type SortKey = u8;

    const WHITE: f64 = 255.0;

    fn load(bytes: &[u8], values: &mut Vec<u8>) {
        values.extend_from_slice(bytes);
    }

    fn store(values: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(values);
    }

    fn real(self) -> f64 {
        f64::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "clamped before")]
    fn nearest(real: f64) -> u8 {
        rounded(real.clamp(0.0, 255.0)) as u8
    }

    fn key(self) -> u8 {
        self
    }

    fn of_key(key: u8) -> u8 {
        key
    }
}

impl SampleChannel for u16 {
    type SortKey = u16;

    const WHITE: f64 = 65_535.0;

    fn load(bytes: &[u8], values: &mut Vec<u16>) {
        let (samples, _) = bytes.as_chunks();
        values.extend(samples.iter().map(|sample| u16::from_le_bytes(*sample)));
    }

    fn store(values: &[u16], bytes: &mut Vec<u8>) {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn real(self) -> f64 {
        f64::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "clamped before")]
    fn nearest(real: f64) -> u16 {
        rounded(real.clamp(0.0, 65_535.0)) as u16
    }

    fn key(self) -> u16 {
        self
    }

    fn of_key(key: u16) -> u16 {
        key
    }
}

impl SampleChannel for i8 {
    type SortKey = u8;

    const WHITE: f64 = 127.0;
    const BLACK: f64 = -128.0;

    fn load(bytes: &[u8], values: &mut Vec<i8>) {
        values.extend(bytes.iter().map(|byte| byte.cast_signed()));
    }

    fn store(values: &[i8], bytes: &mut Vec<u8>) {
        bytes.extend(values.iter().map(|value| value.cast_unsigned()));
    }

    fn real(self) -> f64 {
        f64::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "clamped before")]
    fn nearest(real: f64) -> i8 {
        rounded_signed(real.clamp(-128.0, 127.0)) as i8
    }

    fn key(self) -> u8 {
        self.cast_unsigned() ^ (1 << 7)
    }

    fn of_key(key: u8) -> i8 {
        (key ^ (1 << 7)).cast_signed()
    }
}

impl SampleChannel for i16 {
    type SortKey = u16;

    const WHITE: f64 = 32_767.0;
    const BLACK: f64 = -32_768.0;

    fn load(bytes: &[u8], values: &mut Vec<i16>) {
        let (samples, _) = bytes.as_chunks();
        values.extend(samples.iter().map(|sample| i16::from_le_bytes(*sample)));
    }

    fn store(values: &[i16], bytes: &mut Vec<u8>) {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn real(self) -> f64 {
        f64::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "clamped before")]
    fn nearest(real: f64) -> i16 {
        rounded_signed(real.clamp(-32_768.0, 32_767.0)) as i16
    }

    fn key(self) -> u16 {
        self.cast_unsigned() ^ (1 << 15)
    }

    fn of_key(key: u16) -> i16 {
        (key ^ (1 << 15)).cast_signed()
    }
}

impl SampleChannel for f32 {
    type SortKey = i32;

    const WHITE: f64 = 1.0;

    fn load(bytes: &[u8], values: &mut Vec<f32>) {
        let (samples, _) = bytes.as_chunks();
        values.extend(samples.iter().map(|sample| f32::from_le_bytes(*sample)));
    }

    fn store(values: &[f32], bytes: &mut Vec<u8>) {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn real(self) -> f64 {
        f64::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest value")]
    fn nearest(real: f64) -> f32 {
        one_nan(real as f32)
    }

    fn key(self) -> i32 {
        ordered(self.to_bits().cast_signed())
    }

    fn of_key(key: i32) -> f32 {
        f32::from_bits(ordered(key).cast_unsigned())
    }
}

impl SortKey for u8 {
    fn buffers(buffers: &mut FilterBuffers) -> &mut BufferPair<u8> {
        &mut buffers.bytes
    }
}

impl SortKey for u16 {
    fn buffers(buffers: &mut FilterBuffers) -> &mut BufferPair<u16> {
        &mut buffers.words
    }
}

impl SortKey for i32 {
    fn buffers(buffers: &mut FilterBuffers) -> &mut BufferPair<i32> {
        &mut buffers.numbers
    }

    // Not every processor has minimum and maximum for this type: exchange the bits that differ.
    fn pair(self, other: i32) -> (i32, i32) {
        let differing = (self ^ other) & -i32::from(self > other);
        (self ^ differing, other ^ differing)
    }
}

/// Returns the same bits for every NaN: which NaN a sum produces is not defined.
pub(crate) fn one_nan(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}

/// Returns the nearest whole number to one that is not negative, halves up. Adding a half first
/// would be wrong just below a half.
#[expect(clippy::cast_possible_truncation, reason = "samples have 16 bits at most")]
fn rounded(real: f64) -> i32 {
    let whole = real as i32;
    whole + i32::from(real - f64::from(whole) >= 0.5)
}

/// Returns the nearest whole number, halves away from zero.
fn rounded_signed(real: f64) -> i32 {
    if real < 0.0 { -rounded(-real) } else { rounded(real) }
}

/// Returns the key of the whole number 0.
pub(crate) const fn zero_key(sample: Sample) -> u16 {
    match sample {
        Sample::U8 | Sample::U16 | Sample::F32 => 0,
        Sample::I8 => 1 << 7,
        Sample::I16 => 1 << 15,
    }
}

/// Converts the bits of a floating-point number to a whole number in the total order, and back.
fn ordered(bits: i32) -> i32 {
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

/// Returns the bytes of a pixel that has the same value in all channels.
pub(crate) fn sample_bytes(pixel: Pixel, value: f32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..pixel.channels() {
        append_sample(pixel.sample(), f64::from(value), &mut bytes);
    }
    bytes
}

/// Appends the bytes of the sample that is nearest to a number.
pub(crate) fn append_sample(sample: Sample, value: f64, bytes: &mut Vec<u8>) {
    match sample {
        Sample::U8 => u8::store(&[u8::nearest(value)], bytes),
        Sample::U16 => u16::store(&[u16::nearest(value)], bytes),
        Sample::F32 => f32::store(&[f32::nearest(value)], bytes),
        Sample::I8 => i8::store(&[i8::nearest(value)], bytes),
        Sample::I16 => i16::store(&[i16::nearest(value)], bytes),
    }
}

//! Weighted sums of channels, which are added across boxes, slices and nodes.
//!
//! Invariants: a sum has 64 bits; of whole numbers it is a whole number, of floating-point numbers
//! the bits of an `f64`. Sums of signed whole numbers are sums of their keys (`filter/channel.rs`),
//! which have no sign. Zero bits are the sum of nothing. Sums from other processes may be any bits:
//! nothing here fails.

use crate::filter::channel::SampleChannel;
use crate::pixel::Sample;

/// Returns the sum of two sums.
pub(super) fn add(sample: Sample, one: u64, two: u64) -> u64 {
    match sample {
        Sample::U8 | Sample::U16 | Sample::I8 | Sample::I16 => one.wrapping_add(two),
        Sample::F32 => (f64::from_bits(one) + f64::from_bits(two)).to_bits(),
    }
}

/// Returns the channel in these bytes times a weight.
pub(super) fn weighted(sample: Sample, channel: &[u8], weight: u32) -> u64 {
    match (sample, channel) {
        (Sample::U8, &[value]) => u64::from(value) * u64::from(weight),
        (Sample::U16, &[low, high]) => {
            u64::from(u16::from_le_bytes([low, high])) * u64::from(weight)
        }
        (Sample::I8, &[value]) => u64::from(value.cast_signed().key()) * u64::from(weight),
        (Sample::I16, &[low, high]) => {
            u64::from(i16::from_le_bytes([low, high]).key()) * u64::from(weight)
        }
        (Sample::F32, &[a, b, c, d]) => {
            (f64::from(f32::from_le_bytes([a, b, c, d])) * f64::from(weight)).to_bits()
        }
        _ => unreachable!("a channel of {sample} has {} bytes", sample.bytes()),
    }
}

/// Writes a sum with a weight above 0 as a channel.
#[expect(clippy::cast_possible_truncation, reason = "rounded to the type of the pixel")]
pub(super) fn put(sample: Sample, sum: u64, weight: u64, out: &mut [u8]) {
    let rounded = sum.saturating_add(weight / 2) / weight;
    match sample {
        Sample::U8 => out.copy_from_slice(&(rounded.min(u8::MAX.into()) as u8).to_le_bytes()),
        Sample::U16 => out.copy_from_slice(&(rounded.min(u16::MAX.into()) as u16).to_le_bytes()),
        Sample::I8 => {
            let value = i8::of_key(rounded.min(u8::MAX.into()) as u8);
            out.copy_from_slice(&value.to_le_bytes());
        }
        Sample::I16 => {
            let value = i16::of_key(rounded.min(u16::MAX.into()) as u16);
            out.copy_from_slice(&value.to_le_bytes());
        }
        Sample::F32 => {
            let mean = f64::from_bits(sum) / weight as f64;
            out.copy_from_slice(&(mean as f32).to_le_bytes());
        }
    }
}

/// Returns the bytes of the sum of one pixel in a message: sums of samples of 8 bits fit into four.
pub(super) fn bytes_in_message(sample: Sample) -> usize {
    match sample {
        Sample::U8 | Sample::I8 => 4,
        Sample::U16 | Sample::I16 | Sample::F32 => 8,
    }
}

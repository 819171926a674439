//! The median of a square.
//!
//! For squares of 3 x 3 and 5 x 5, samples are compared side by side without branches: among half
//! of the samples and two more, the smallest and the greatest cannot be the median. The filter
//! drops these two and takes in the next sample, until one is left. `rank` computes larger squares
//! by counting.

use crate::Sample;
use crate::filter::channel::{SampleChannel, SortKey};
use crate::filter::extreme::load_keys;
use crate::filter::{FilterBuffers, PaddedTile, rank};

/// Samples whose medians are computed together.
const SIDE_BY_SIDE: usize = 16;

pub(crate) fn apply(radius: u32, padded: &PaddedTile, buffers: &mut FilterBuffers) -> Vec<u8> {
    match (radius, padded.pixels().pixel().sample()) {
        (0, _) => padded.rows(0, 0).flatten().copied().collect(),
        (1 | 2, Sample::U8) => small_bytes::<u8>(radius, padded, buffers),
        (1 | 2, Sample::I8) => small_bytes::<i8>(radius, padded, buffers),
        (1 | 2, Sample::U16) => small_words::<u16>(radius, padded, buffers),
        (1 | 2, Sample::I16) => small_words::<i16>(radius, padded, buffers),
        (1 | 2, Sample::F32) => {
            load_keys::<f32>(padded, radius, &mut buffers.numbers.front);
            compared(radius, padded, &mut buffers.numbers.front, f32::of_key)
        }
        (_, Sample::U8) => rank::bytes::<u8>(radius, padded, buffers),
        (_, Sample::I8) => rank::bytes::<i8>(radius, padded, buffers),
        (_, Sample::U16) => rank::words::<u16>(radius, padded, buffers),
        (_, Sample::I16) => rank::words::<i16>(radius, padded, buffers),
        (_, Sample::F32) => rank::reals(radius, padded, buffers),
    }
}

fn small_bytes<T: SampleChannel<SortKey = u8>>(
    radius: u32,
    padded: &PaddedTile,
    buffers: &mut FilterBuffers,
) -> Vec<u8> {
    // Compilers generate better code for samples of 16 bits.
    load_keys::<T>(padded, radius, &mut buffers.bytes.front);
    let keys = &mut buffers.words.front;
    keys.clear();
    keys.extend(buffers.bytes.front.iter().map(|key| u16::from(*key)));
    compared(radius, padded, keys, |key| T::of_key(key.to_le_bytes()[0]))
}

fn small_words<T: SampleChannel<SortKey = u16>>(
    radius: u32,
    padded: &PaddedTile,
    buffers: &mut FilterBuffers,
) -> Vec<u8> {
    load_keys::<T>(padded, radius, &mut buffers.words.front);
    compared(radius, padded, &mut buffers.words.front, T::of_key)
}

fn compared<K: SortKey, T: SampleChannel>(
    radius: u32,
    padded: &PaddedTile,
    keys: &mut Vec<K>,
    value: impl Fn(K) -> T,
) -> Vec<u8> {
    // The last block reads beyond the last row; its results there are not used.
    keys.resize(keys.len() + SIDE_BY_SIDE, K::default());
    match radius {
        1 => square::<K, T, 9>(3, padded, keys, value),
        _ => square::<K, T, 25>(5, padded, keys, value),
    }
}

/// Computes the medians of squares with this side and N samples.
fn square<K: SortKey, T: SampleChannel, const N: usize>(
    side: usize,
    padded: &PaddedTile,
    keys: &[K],
    value: impl Fn(K) -> T,
) -> Vec<u8> {
    let channels = padded.pixels().pixel().channels();
    let length = padded.width() as usize * channels;
    let stride = length + (side - 1) * channels;
    let places: [usize; N] =
        std::array::from_fn(|number| number / side * stride + number % side * channels);
    padded.compute_rows(|y, values: &mut Vec<T>| {
        for x in (0..length).step_by(SIDE_BY_SIDE) {
            let keys = &keys[y * stride + x..];
            let mut samples = [[K::default(); SIDE_BY_SIDE]; N];
            for (samples, place) in samples.iter_mut().zip(places) {
                samples.copy_from_slice(&keys[place..][..SIDE_BY_SIDE]);
            }
            let medians = median(&mut samples);
            let used = SIDE_BY_SIDE.min(length - x);
            values.extend(medians[..used].iter().map(|key| value(*key)));
        }
    })
}

/// Returns the medians of an odd number of samples, side by side.
#[inline(always)]
fn median<K: SortKey, const N: usize>(samples: &mut [[K; SIDE_BY_SIDE]; N]) -> [K; SIDE_BY_SIDE] {
    // The first `held` samples still count; those from `next` on are not compared yet.
    let mut held = N / 2 + 2;
    let mut next = held;
    while held > 2 {
        let pairs = held / 2;
        for low in 0..pairs {
            sort(samples, low, held - 1 - low);
        }
        // The middle sample of an odd number may be either extreme.
        for low in 1..held - pairs {
            sort(samples, 0, low);
        }
        for high in pairs..held - 1 {
            sort(samples, high, held - 1);
        }
        // Drop the greatest, and replace the smallest by the next sample.
        held -= 1;
        if next < N {
            samples[0] = samples[next];
            next += 1;
        } else {
            samples.swap(0, held - 1);
            held -= 1;
        }
    }
    samples[0]
}

/// Moves the smaller sample of each pair to the first position.
#[inline(always)]
fn sort<K: SortKey, const N: usize>(samples: &mut [[K; SIDE_BY_SIDE]; N], low: usize, high: usize) {
    let (one, other) = (samples[low], samples[high]);
    let pairs: [(K, K); SIDE_BY_SIDE] = std::array::from_fn(|lane| one[lane].pair(other[lane]));
    samples[low] = pairs.map(|pair| pair.0);
    samples[high] = pairs.map(|pair| pair.1);
}

//! The median of a square.
//!
//! For 3 x 3 and 5 x 5 neighbours samples are compared side by side without branches: of half of
//! them and two more the smallest and the greatest cannot be the median, so they are dropped and the
//! next sample is taken in, until one is left. Larger squares are counted in `rank`.

use crate::Sample;
use crate::filter::channel::{Channel, Key};
use crate::filter::extreme::load_keys;
use crate::filter::{Framed, Scratch, rank};

/// Samples that are compared side by side.
const SIDE_BY_SIDE: usize = 16;

pub(crate) fn apply(radius: u32, framed: &Framed, scratch: &mut Scratch) -> Vec<u8> {
    match (radius, framed.pixels().pixel().sample()) {
        (0, _) => framed.rows(0, 0).flatten().copied().collect(),
        (1 | 2, Sample::U8) => small_bytes::<u8>(radius, framed, scratch),
        (1 | 2, Sample::I8) => small_bytes::<i8>(radius, framed, scratch),
        (1 | 2, Sample::U16) => small_words::<u16>(radius, framed, scratch),
        (1 | 2, Sample::I16) => small_words::<i16>(radius, framed, scratch),
        (1 | 2, Sample::F32) => {
            load_keys::<f32>(framed, radius, &mut scratch.numbers.near);
            compared(radius, framed, &mut scratch.numbers.near, f32::of_key)
        }
        (_, Sample::U8) => rank::bytes::<u8>(radius, framed, scratch),
        (_, Sample::I8) => rank::bytes::<i8>(radius, framed, scratch),
        (_, Sample::U16) => rank::words::<u16>(radius, framed, scratch),
        (_, Sample::I16) => rank::words::<i16>(radius, framed, scratch),
        (_, Sample::F32) => rank::reals(radius, framed, scratch),
    }
}

fn small_bytes<T: Channel<Key = u8>>(
    radius: u32,
    framed: &Framed,
    scratch: &mut Scratch,
) -> Vec<u8> {
    // Compilers do better with samples of 16 bits.
    load_keys::<T>(framed, radius, &mut scratch.bytes.near);
    let keys = &mut scratch.words.near;
    keys.clear();
    keys.extend(scratch.bytes.near.iter().map(|key| u16::from(*key)));
    compared(radius, framed, keys, |key| T::of_key(key.to_le_bytes()[0]))
}

fn small_words<T: Channel<Key = u16>>(
    radius: u32,
    framed: &Framed,
    scratch: &mut Scratch,
) -> Vec<u8> {
    load_keys::<T>(framed, radius, &mut scratch.words.near);
    compared(radius, framed, &mut scratch.words.near, T::of_key)
}

fn compared<K: Key, T: Channel>(
    radius: u32,
    framed: &Framed,
    keys: &mut Vec<K>,
    value: impl Fn(K) -> T,
) -> Vec<u8> {
    // The last block may look beyond the last row, at what is not used.
    keys.resize(keys.len() + SIDE_BY_SIDE, K::default());
    match radius {
        1 => square::<K, T, 9>(3, framed, keys, value),
        _ => square::<K, T, 25>(5, framed, keys, value),
    }
}

/// The medians of squares with this side and so many samples.
fn square<K: Key, T: Channel, const N: usize>(
    side: usize,
    framed: &Framed,
    keys: &[K],
    value: impl Fn(K) -> T,
) -> Vec<u8> {
    let channels = framed.pixels().pixel().channels();
    let length = framed.width() as usize * channels;
    let stride = length + (side - 1) * channels;
    let places: [usize; N] =
        std::array::from_fn(|number| number / side * stride + number % side * channels);
    let mut data = Vec::with_capacity(framed.height() as usize * length * size_of::<T>());
    let mut values: Vec<T> = Vec::with_capacity(length);
    for y in 0..framed.height() as usize {
        values.clear();
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
        T::store(&values, &mut data);
    }
    data
}

/// The medians of an odd number of samples, side by side.
#[inline(always)]
fn median<K: Key, const N: usize>(samples: &mut [[K; SIDE_BY_SIDE]; N]) -> [K; SIDE_BY_SIDE] {
    // The first `held` samples still count, and those from `next` on have not been looked at.
    let mut held = N / 2 + 2;
    let mut next = held;
    while held > 2 {
        let pairs = held / 2;
        for low in 0..pairs {
            sort(samples, low, held - 1 - low);
        }
        // The middle one, if there is one, may be either.
        for low in 1..held - pairs {
            sort(samples, 0, low);
        }
        for high in pairs..held - 1 {
            sort(samples, high, held - 1);
        }
        // The greatest is dropped, and the next one takes the place of the smallest.
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

/// Puts the smaller one of each pair to the first place.
#[inline(always)]
fn sort<K: Key, const N: usize>(samples: &mut [[K; SIDE_BY_SIDE]; N], low: usize, high: usize) {
    let (one, other) = (samples[low], samples[high]);
    let pairs: [(K, K); SIDE_BY_SIDE] = std::array::from_fn(|lane| one[lane].pair(other[lane]));
    samples[low] = pairs.map(|pair| pair.0);
    samples[high] = pairs.map(|pair| pair.1);
}

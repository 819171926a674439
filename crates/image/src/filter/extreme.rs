//! Erosion and dilation: the smallest and the greatest value of a square.
//!
//! The extreme of `n` neighbours is the extreme of two overlapping ranges of fewer neighbours. The
//! length of the ranges doubles from pass to pass, so 31 neighbours take five passes. A pass runs
//! over all samples of the padded tile. Across the end of a row it combines two rows, but only in
//! columns that no pixel of the tile uses.

use crate::Sample;
use crate::filter::buffers::BufferPair;
use crate::filter::channel::{SampleChannel, SortKey};
use crate::filter::{FilterBuffers, PaddedTile};

pub(crate) fn erode(radius: u32, padded: &PaddedTile, buffers: &mut FilterBuffers) -> Vec<u8> {
    match padded.pixels().pixel().sample() {
        Sample::U8 => square::<u8>(radius, padded, buffers, Ord::min),
        Sample::U16 => square::<u16>(radius, padded, buffers, Ord::min),
        Sample::F32 => square::<f32>(radius, padded, buffers, Ord::min),
        Sample::I8 => square::<i8>(radius, padded, buffers, Ord::min),
        Sample::I16 => square::<i16>(radius, padded, buffers, Ord::min),
    }
}

pub(crate) fn dilate(radius: u32, padded: &PaddedTile, buffers: &mut FilterBuffers) -> Vec<u8> {
    match padded.pixels().pixel().sample() {
        Sample::U8 => square::<u8>(radius, padded, buffers, Ord::max),
        Sample::U16 => square::<u16>(radius, padded, buffers, Ord::max),
        Sample::F32 => square::<f32>(radius, padded, buffers, Ord::max),
        Sample::I8 => square::<i8>(radius, padded, buffers, Ord::max),
        Sample::I16 => square::<i16>(radius, padded, buffers, Ord::max),
    }
}

fn square<T: SampleChannel>(
    radius: u32,
    padded: &PaddedTile,
    buffers: &mut FilterBuffers,
    choose: impl Fn(T::SortKey, T::SortKey) -> T::SortKey + Copy,
) -> Vec<u8> {
    let channels = padded.pixels().pixel().channels();
    let stride = (padded.width() + 2 * radius) as usize * channels;
    let keys = T::SortKey::buffers(buffers);
    load_keys::<T>(padded, radius, &mut keys.front);
    let side = 2 * radius as usize + 1;
    extremes(keys, side, channels, choose);
    extremes(keys, side, stride, choose);
    let length = padded.width() as usize * channels;
    padded.compute_rows(|y, values: &mut Vec<T>| {
        let row = &keys.front[y * stride..][..length];
        values.extend(row.iter().map(|key| T::of_key(*key)));
    })
}

/// Loads the keys of a tile and of `radius` pixels of its border, row by row.
pub(crate) fn load_keys<T: SampleChannel>(
    padded: &PaddedTile,
    radius: u32,
    keys: &mut Vec<T::SortKey>,
) {
    keys.clear();
    let mut values = Vec::new();
    for row in padded.rows(radius, radius) {
        values.clear();
        T::load(row, &mut values);
        keys.extend(values.iter().map(|value| value.key()));
    }
}

/// Replaces each key by the extreme of `side` keys from it on that are `step` apart. Drops the last
/// keys, which have fewer successors.
fn extremes<K: SortKey>(
    keys: &mut BufferPair<K>,
    side: usize,
    step: usize,
    choose: impl Fn(K, K) -> K + Copy,
) {
    let mut done = 1;
    while done < side {
        let more = done.min(side - done);
        let (first, second) = (&keys.front, &keys.front[more * step..]);
        keys.back.clear();
        keys.back.extend(first.iter().zip(second).map(|(one, other)| choose(*one, *other)));
        std::mem::swap(&mut keys.front, &mut keys.back);
        done += more;
    }
}

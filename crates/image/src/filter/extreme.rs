//! Erosion and dilation: the smallest and the greatest value of a square.
//!
//! The extreme of `n` neighbours is that of two overlapping runs of fewer: lengths double from pass
//! to pass, so 31 neighbours take five of them. A pass goes over all samples of the frame at once.
//! Where it runs over the end of a row it makes something of two rows, but only in columns that no
//! pixel of the tile looks at.

use crate::Sample;
use crate::filter::channel::{Channel, Key};
use crate::filter::scratch::Lanes;
use crate::filter::{Framed, Scratch};

pub(crate) fn erode(radius: u32, framed: &Framed, scratch: &mut Scratch) -> Vec<u8> {
    match framed.pixels().pixel().sample() {
        Sample::U8 => square::<u8>(radius, framed, scratch, Ord::min),
        Sample::U16 => square::<u16>(radius, framed, scratch, Ord::min),
        Sample::F32 => square::<f32>(radius, framed, scratch, Ord::min),
        Sample::I8 => square::<i8>(radius, framed, scratch, Ord::min),
        Sample::I16 => square::<i16>(radius, framed, scratch, Ord::min),
    }
}

pub(crate) fn dilate(radius: u32, framed: &Framed, scratch: &mut Scratch) -> Vec<u8> {
    match framed.pixels().pixel().sample() {
        Sample::U8 => square::<u8>(radius, framed, scratch, Ord::max),
        Sample::U16 => square::<u16>(radius, framed, scratch, Ord::max),
        Sample::F32 => square::<f32>(radius, framed, scratch, Ord::max),
        Sample::I8 => square::<i8>(radius, framed, scratch, Ord::max),
        Sample::I16 => square::<i16>(radius, framed, scratch, Ord::max),
    }
}

fn square<T: Channel>(
    radius: u32,
    framed: &Framed,
    scratch: &mut Scratch,
    choose: impl Fn(T::Key, T::Key) -> T::Key + Copy,
) -> Vec<u8> {
    let channels = framed.pixels().pixel().channels();
    let stride = (framed.width() + 2 * radius) as usize * channels;
    let lanes = T::Key::lanes(scratch);
    load_keys::<T>(framed, radius, &mut lanes.near);
    let side = 2 * radius as usize + 1;
    run(lanes, side, channels, choose);
    run(lanes, side, stride, choose);
    let mut data = Vec::with_capacity(framed.height() as usize * stride * size_of::<T>());
    let mut values = Vec::with_capacity(stride);
    let length = framed.width() as usize * channels;
    for row in lanes.near.chunks(stride) {
        values.clear();
        values.extend(row[..length].iter().map(|key| T::of_key(*key)));
        T::store(&values, &mut data);
    }
    data
}

/// The keys of a tile and of so much of its border, row by row.
pub(crate) fn load_keys<T: Channel>(framed: &Framed, radius: u32, keys: &mut Vec<T::Key>) {
    keys.clear();
    let mut values = Vec::new();
    for row in framed.rows(radius, radius) {
        values.clear();
        T::load(row, &mut values);
        keys.extend(values.iter().map(|value| value.key()));
    }
}

/// Puts in place of each sample the extreme of `side` samples from it on that are `step` apart. The
/// last samples, which have not so many, are dropped.
fn run<K: Key>(lanes: &mut Lanes<K>, side: usize, step: usize, choose: impl Fn(K, K) -> K + Copy) {
    let mut done = 1;
    while done < side {
        let more = done.min(side - done);
        let (first, second) = (&lanes.near, &lanes.near[more * step..]);
        lanes.far.clear();
        lanes.far.extend(first.iter().zip(second).map(|(one, other)| choose(*one, *other)));
        std::mem::swap(&mut lanes.near, &mut lanes.far);
        done += more;
    }
}

//! The median of a large square, by counting.
//!
//! The filter counts the samples of the square by value. When the square moves by a pixel, a column
//! leaves and a column enters. It keeps counts by value and by groups of values, so it finds the
//! median in two short searches. It counts floating-point numbers by their rank among all samples
//! of the padded tile: only the order matters.
//!
//! Invariant: between rows all counts are 0.

use crate::filter::channel::SampleChannel;
use crate::filter::extreme::load_keys;
use crate::filter::{FilterBuffers, PaddedTile};

#[expect(clippy::cast_possible_truncation, reason = "there are 256 values")]
pub(crate) fn bytes<T: SampleChannel<SortKey = u8>>(
    radius: u32,
    padded: &PaddedTile,
    buffers: &mut FilterBuffers,
) -> Vec<u8> {
    let FilterBuffers { bytes, counts, .. } = buffers;
    load_keys::<T>(padded, radius, &mut bytes.front);
    medians(radius, padded, &bytes.front, ValueCounts::new(counts, 256), |key| T::of_key(key as u8))
}

#[expect(clippy::cast_possible_truncation, reason = "there are 65,536 values")]
pub(crate) fn words<T: SampleChannel<SortKey = u16>>(
    radius: u32,
    padded: &PaddedTile,
    buffers: &mut FilterBuffers,
) -> Vec<u8> {
    let FilterBuffers { words, counts, .. } = buffers;
    load_keys::<T>(padded, radius, &mut words.front);
    medians(radius, padded, &words.front, ValueCounts::new(counts, 65_536), |key| {
        T::of_key(key as u16)
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a tile has less than 2^32 samples")]
pub(crate) fn reals(radius: u32, padded: &PaddedTile, buffers: &mut FilterBuffers) -> Vec<u8> {
    let FilterBuffers { numbers, ranks, counts, .. } = buffers;
    load_keys::<f32>(padded, radius, &mut numbers.front);
    let (keys, sorted) = (&numbers.front, &mut numbers.back);
    sorted.clone_from(keys);
    sorted.sort_unstable();
    sorted.dedup();
    ranks.clear();
    ranks.extend(keys.iter().map(|key| sorted.partition_point(|other| other < key) as u32));
    medians(radius, padded, ranks, ValueCounts::new(counts, sorted.len()), |rank| {
        f32::of_key(sorted[rank])
    })
}

/// ValueCounts of each number in the square, and of each group of numbers.
struct ValueCounts<'a> {
    each: &'a mut [u16],
    groups: &'a mut [u16],
    shift: u32,
}

impl<'a> ValueCounts<'a> {
    /// Creates counts for the numbers below a limit.
    fn new(memory: &'a mut Vec<u16>, limit: usize) -> ValueCounts<'a> {
        let shift = limit.ilog2().div_ceil(2);
        memory.clear();
        memory.resize(limit + (limit >> shift) + 1, 0);
        let (each, groups) = memory.split_at_mut(limit);
        ValueCounts { each, groups, shift }
    }

    fn enter(&mut self, number: usize) {
        self.each[number] += 1;
        self.groups[number >> self.shift] += 1;
    }

    fn leave(&mut self, number: usize) {
        self.each[number] -= 1;
        self.groups[number >> self.shift] -= 1;
    }

    /// Returns the number that has `before` samples before it.
    fn find(&self, mut before: u16) -> usize {
        let mut group = 0;
        while self.groups[group] <= before {
            before -= self.groups[group];
            group += 1;
        }
        let mut number = group << self.shift;
        while self.each[number] <= before {
            before -= self.each[number];
            number += 1;
        }
        number
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a square has at most 961 samples")]
fn medians<N: Copy + TryInto<usize>, T: SampleChannel>(
    radius: u32,
    padded: &PaddedTile,
    numbers: &[N],
    counts: ValueCounts<'_>,
    value: impl Fn(usize) -> T,
) -> Vec<u8> {
    let channels = padded.pixels().pixel().channels();
    let (width, side) = (padded.width() as usize, 2 * radius as usize + 1);
    let stride = (width + side - 1) * channels;
    let middle = (side * side / 2) as u16;
    let ValueCounts { each, groups, shift } = counts;
    padded.compute_rows(|y, values: &mut Vec<T>| {
        // A local variable keeps the slices in registers.
        let mut counts = ValueCounts { each: &mut *each, groups: &mut *groups, shift };
        values.resize(width * channels, T::default());
        let rows = &numbers[y * stride..][..side * stride];
        for channel in 0..channels {
            let column = |x: usize| {
                let first = x * channels + channel;
                (0..side).map(move |down| index(rows[down * stride + first]))
            };
            (0..side - 1).flat_map(column).for_each(|number| counts.enter(number));
            for x in 0..width {
                column(x + side - 1).for_each(|number| counts.enter(number));
                values[x * channels + channel] = value(counts.find(middle));
                column(x).for_each(|number| counts.leave(number));
            }
            (width..width + side - 1).flat_map(column).for_each(|number| counts.leave(number));
        }
    })
}

fn index<N: TryInto<usize>>(number: N) -> usize {
    number.try_into().unwrap_or(usize::MAX)
}

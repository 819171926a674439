//! Parts of a slice, and their message.
//!
//! All numbers of a message are little-endian:
//!
//! ```text
//! bytes of the runs u32 | bytes of the shares u32 | runs | shares | pixels
//! run    row u16 | first column u16 | length - 1 u16
//! share  layer u16 | row u16 | first column u16 | length - 1 u16
//!        then for each pixel: weight u32 | for each channel: sum u32 (of bytes) or u64
//! ```
//!
//! The pixels are those of the runs, one after the other. The layer is 0 except in slabs. Parts of
//! one slice may be concatenated in any order.

use thiserror::Error;

use super::row_spans::RowSpan;
use super::sums;
use crate::pixel::Pixel;

pub(super) const RUN_BYTES: usize = 6;
pub(super) const SHARE_BYTES: usize = 8;

/// Parts of a slice: complete pixels, and shares of pixels between boxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceParts {
    pub(super) runs: Vec<u8>,
    pub(super) pixels: Vec<u8>,
    pub(super) shares: Vec<u8>,
}

/// The error of parts that do not belong to this slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PartsError {
    /// The length of the message contradicts its content.
    #[error(
        "a message with parts of a slice has {bytes} bytes, which contradicts its content: request the slice again"
    )]
    Length {
        /// The length of the message.
        bytes: usize,
    },
    /// A run lies outside of the slice.
    #[error(
        "a part of row {row} from column {first} to {last} does not belong to a slice of {width} x \
         {height} pixels: request the same slice from all nodes"
    )]
    Outside {
        /// The row.
        row: u32,
        /// The first column.
        first: u32,
        /// The last column.
        last: u32,
        /// The width of the slice.
        width: u32,
        /// The height of the slice.
        height: u32,
    },
    /// A layer lies outside of the slab.
    #[error("a part of slice {layer} does not belong to {depth} slices, counted from 0")]
    Layer {
        /// The layer.
        layer: u32,
        /// The number of layers.
        depth: u32,
    },
    /// The shares of a pixel exceed it.
    #[error(
        "pixel ({column}, {row}) of a slice has more shares than it needs: the parts of a \
         box arrived twice"
    )]
    TooMuch {
        /// The column.
        column: u32,
        /// The row.
        row: u32,
    },
    /// Some pixels lack shares.
    #[error(
        "{pixels} pixels of a slice lack shares of boxes that were not read: request all boxes that \
         the slice intersects"
    )]
    Unfinished {
        /// The number of pixels.
        pixels: usize,
    },
}

/// A message of parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartsView<'a> {
    pub runs: &'a [u8],
    pub pixels: &'a [u8],
    pub shares: &'a [u8],
}

impl SliceParts {
    /// Creates an empty list of parts.
    pub fn new() -> SliceParts {
        SliceParts::default()
    }

    /// Returns whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.shares.is_empty()
    }

    /// Returns the length of the message of these parts.
    pub fn len_bytes(&self) -> usize {
        8 + self.runs.len() + self.shares.len() + self.pixels.len()
    }

    /// Appends other parts of the same slice.
    pub fn append(&mut self, other: &SliceParts) {
        self.runs.extend_from_slice(&other.runs);
        self.pixels.extend_from_slice(&other.pixels);
        self.shares.extend_from_slice(&other.shares);
    }

    /// Removes all parts and keeps their memory.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.pixels.clear();
        self.shares.clear();
    }

    /// Appends the message of these parts to `out`. Parts must have less than 4 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) {
        SliceParts::encode_all(&[self], out);
    }

    /// Appends one message of several lists of parts of the same slice.
    pub(crate) fn encode_all(all: &[&SliceParts], out: &mut Vec<u8>) {
        let kinds: [fn(&SliceParts) -> &[u8]; 3] =
            [|parts| &parts.runs, |parts| &parts.shares, |parts| &parts.pixels];
        let [runs, shares, pixels] =
            kinds.map(|kind| all.iter().map(|parts| kind(parts).len()).sum::<usize>());
        out.reserve(8 + runs + shares + pixels);
        for bytes in [runs, shares] {
            out.extend_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes());
        }
        for kind in kinds {
            all.iter().for_each(|parts| out.extend_from_slice(kind(parts)));
        }
    }

    /// Decodes the parts of a message. Pasting checks their content.
    pub fn decode(message: &[u8]) -> Result<SliceParts, PartsError> {
        let PartsView { runs, pixels, shares } = PartsView::decode(message)?;
        Ok(SliceParts { runs: runs.to_vec(), pixels: pixels.to_vec(), shares: shares.to_vec() })
    }

    pub(super) fn view(&self) -> PartsView<'_> {
        PartsView { runs: &self.runs, pixels: &self.pixels, shares: &self.shares }
    }

    pub(super) fn push_run(&mut self, span: RowSpan) {
        self.runs.extend_from_slice(&span.encode());
    }

    pub(super) fn push_share_run(&mut self, layer: u16, span: RowSpan) {
        self.shares.extend_from_slice(&layer.to_le_bytes());
        self.shares.extend_from_slice(&span.encode());
    }

    pub(super) fn push_share(&mut self, pixel: Pixel, weight: u32, sums: &[u64]) {
        self.shares.extend_from_slice(&weight.to_le_bytes());
        let bytes = sums::bytes_in_message(pixel.sample());
        for sum in sums {
            self.shares.extend_from_slice(&sum.to_le_bytes()[..bytes]);
        }
    }
}

impl<'a> PartsView<'a> {
    pub fn decode(message: &'a [u8]) -> Result<PartsView<'a>, PartsError> {
        let wrong = PartsError::Length { bytes: message.len() };
        let (&runs_len, rest) = message.split_first_chunk::<4>().ok_or(wrong)?;
        let (&shares_len, rest) = rest.split_first_chunk::<4>().ok_or(wrong)?;
        let len = |bytes: [u8; 4]| u32::from_le_bytes(bytes) as usize;
        let (runs, rest) = rest.split_at_checked(len(runs_len)).ok_or(wrong)?;
        let (shares, pixels) = rest.split_at_checked(len(shares_len)).ok_or(wrong)?;
        Ok(PartsView { runs, pixels, shares })
    }

    fn wrong(&self) -> PartsError {
        PartsError::Length { bytes: 8 + self.runs.len() + self.shares.len() + self.pixels.len() }
    }

    /// Calls `take` for each run with its pixels. Fails if one is outside of a slice of this size.
    pub fn for_runs(
        &self,
        size: (u32, u32),
        pixel: Pixel,
        mut take: impl FnMut(RowSpan, &[u8]),
    ) -> Result<(), PartsError> {
        let (runs, rest) = self.runs.as_chunks::<RUN_BYTES>();
        if !rest.is_empty() {
            return Err(self.wrong());
        }
        let mut left = self.pixels;
        for run in runs {
            let span = RowSpan::decode_inside(*run, size)?;
            let bytes = (span.end - span.first) as usize * pixel.bytes();
            let (pixels, rest) = left.split_at_checked(bytes).ok_or(self.wrong())?;
            take(span, pixels);
            left = rest;
        }
        if left.is_empty() { Ok(()) } else { Err(self.wrong()) }
    }

    /// Calls `take` for each share with layer, column, row, weight and sums. Fails if one is
    /// outside of a slice of this size.
    pub fn for_shares(
        &self,
        size: (u32, u32),
        pixel: Pixel,
        mut take: impl FnMut(u16, u32, u32, u32, [u64; 4]) -> Result<(), PartsError>,
    ) -> Result<(), PartsError> {
        let sum_bytes = sums::bytes_in_message(pixel.sample());
        let mut left = self.shares;
        while let Some((head, rest)) = left.split_first_chunk::<SHARE_BYTES>() {
            let [a, b, run @ ..] = *head;
            let span = RowSpan::decode_inside(run, size)?;
            left = rest;
            for column in span.first..span.end {
                let (weight, rest) = left.split_first_chunk::<4>().ok_or(self.wrong())?;
                let channels = sum_bytes * pixel.channels();
                let (sums, rest) = rest.split_at_checked(channels).ok_or(self.wrong())?;
                left = rest;
                let mut found = [0; 4];
                for (slot, bytes) in found.iter_mut().zip(sums.chunks_exact(sum_bytes)) {
                    let mut sum = [0; 8];
                    sum[..sum_bytes].copy_from_slice(bytes);
                    *slot = u64::from_le_bytes(sum);
                }
                let layer = u16::from_le_bytes([a, b]);
                take(layer, column, span.row, u32::from_le_bytes(*weight), found)?;
            }
        }
        if left.is_empty() { Ok(()) } else { Err(self.wrong()) }
    }
}

impl RowSpan {
    /// Encodes the span.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a slice has at most 65,536 columns and rows"
    )]
    pub fn encode(self) -> [u8; RUN_BYTES] {
        let [a, b] = (self.row as u16).to_le_bytes();
        let [c, d] = (self.first as u16).to_le_bytes();
        let [e, f] = ((self.end - self.first - 1) as u16).to_le_bytes();
        [a, b, c, d, e, f]
    }

    /// Decodes a span; it may lie anywhere, but is not empty.
    pub fn decode([a, b, c, d, e, f]: [u8; RUN_BYTES]) -> RowSpan {
        let number = |low: u8, high: u8| u32::from(u16::from_le_bytes([low, high]));
        let first = number(c, d);
        RowSpan { row: number(a, b), first, end: first + number(e, f) + 1 }
    }

    /// Decodes a span from another process. Fails if it is outside of a slice of this size.
    pub fn decode_inside(
        bytes: [u8; RUN_BYTES],
        (width, height): (u32, u32),
    ) -> Result<RowSpan, PartsError> {
        let span = RowSpan::decode(bytes);
        let RowSpan { row, first, end } = span;
        if row < height && end <= width {
            Ok(span)
        } else {
            Err(PartsError::Outside { row, first, last: end - 1, width, height })
        }
    }
}

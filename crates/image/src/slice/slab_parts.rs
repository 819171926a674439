//! Parts of a slab: of a thread, of a node, or complete at the client.
//!
//! All numbers of their message are little-endian:
//!
//! ```text
//! bytes of the rows u32 | rows | shares as in the parts of a slice
//! row   row u16 | first column u16 | length - 1 u16 | for each pixel a cell
//! cell  of a mean:    weight u64 | for each channel: sum u64
//!       of a maximum: 1 if there is a pixel, 0 if not | the pixel
//! ```

use super::canvas::{OpenPixels, Slice};
use super::parts::{PartsError, PartsView, RUN_BYTES, SliceParts};
use super::row_spans::RowSpan;
use super::slab::Blend;
use super::sums;
use crate::pixel::{Pixel, Sample};

/// Parts of a slab. They can be merged with others of the same slab; with the parts of all boxes
/// they are complete.
#[derive(Clone, Debug)]
pub struct SlabParts {
    blend: Blend,
    depth: u32,
    pixel: Pixel,
    width: u32,
    rows: Vec<SlabRow>,
    shares: Vec<u8>,
}

/// The known cells of a row, from a column on.
#[derive(Clone, Debug, Default)]
struct SlabRow {
    first: u32,
    cells: Vec<u8>,
}

impl SlabParts {
    pub(super) fn new(
        blend: Blend,
        depth: u32,
        pixel: Pixel,
        (width, height): (u32, u32),
    ) -> SlabParts {
        let rows = vec![SlabRow::default(); height as usize];
        SlabParts { blend, depth, pixel, width, rows, shares: Vec::new() }
    }

    /// Merges other parts of the same slab.
    ///
    /// # Panics
    ///
    /// If they are parts of another slab.
    pub fn merge(&mut self, other: &SlabParts) {
        let kind = |parts: &SlabParts| (parts.blend, parts.depth, parts.pixel, parts.width);
        let is_same = kind(self) == kind(other) && self.rows.len() == other.rows.len();
        assert!(is_same, "parts of different slabs cannot be merged");
        let bytes = self.cell_bytes();
        for (row, other) in (0..).zip(&other.rows) {
            let end = other.first + other.len(bytes);
            self.blend_cells(RowSpan { row, first: other.first, end }, &other.cells);
        }
        self.shares.extend_from_slice(&other.shares);
    }

    /// Merges parts of the same slab from a message. Rejects parts of other slabs; some of them may
    /// then be merged.
    pub fn merge_message(&mut self, message: &[u8]) -> Result<(), PartsError> {
        let wrong = PartsError::Length { bytes: message.len() };
        let (&rows_len, rest) = message.split_first_chunk::<4>().ok_or(wrong)?;
        let rows_len = u32::from_le_bytes(rows_len) as usize;
        let (mut left, shares) = rest.split_at_checked(rows_len).ok_or(wrong)?;
        while let Some((&run, rest)) = left.split_first_chunk::<RUN_BYTES>() {
            let span = RowSpan::decode_inside(run, (self.width, self.height()))?;
            let cells = (span.end - span.first) as usize * self.cell_bytes();
            let (cells, rest) = rest.split_at_checked(cells).ok_or(wrong)?;
            self.blend_cells(span, cells);
            left = rest;
        }
        if !left.is_empty() {
            return Err(wrong);
        }
        self.shares.extend_from_slice(shares);
        Ok(())
    }

    /// Appends the message of these parts to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let bytes = self.cell_bytes();
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        for (row, found) in (0..).zip(&self.rows) {
            if !found.cells.is_empty() {
                let end = found.first + found.len(bytes);
                out.extend_from_slice(&RowSpan { row, first: found.first, end }.encode());
                out.extend_from_slice(&found.cells);
            }
        }
        let len = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&self.shares);
    }

    /// Returns the slab as a slice. Needs the parts of all boxes. The background has the bytes of
    /// one pixel.
    pub fn finish(mut self, background: &[u8]) -> Result<Slice, PartsError> {
        self.close_shares()?;
        let bytes = self.cell_bytes();
        let mut slice = Slice::blank(self.width, self.height(), self.pixel, background);
        for (row, found) in (0..).zip(&self.rows) {
            for (column, cell) in (found.first..).zip(found.cells.chunks_exact(bytes)) {
                put(self.blend, self.pixel, cell, || slice.pixel_mut(column, row));
            }
        }
        Ok(slice)
    }

    /// Adds a pixel, or a share of one, to a mean.
    pub(super) fn add_sum(&mut self, span: RowSpan, weight: u32, sums: &[u64]) {
        let mut cell = [0; 8 * 5];
        let (head, rest) = cell.split_at_mut(8);
        head.copy_from_slice(&u64::from(weight).to_le_bytes());
        for (slot, sum) in rest.chunks_exact_mut(8).zip(sums) {
            slot.copy_from_slice(&sum.to_le_bytes());
        }
        let bytes = self.cell_bytes();
        self.blend_cells(span, &cell[..bytes]);
    }

    /// Adds the parts of one slice to a maximum.
    pub(super) fn add_pixels(&mut self, parts: &SliceParts) {
        let (size, pixel) = ((self.width, self.height()), self.pixel);
        let mut cells = Vec::new();
        let added = parts.view().for_runs(size, pixel, |span, pixels| {
            cells.clear();
            for pixel in pixels.chunks_exact(pixel.bytes()) {
                cells.push(1);
                cells.extend_from_slice(pixel);
            }
            self.blend_cells(span, &cells);
        });
        debug_assert_eq!(added, Ok(()), "the parts are of this slab");
        self.shares.extend_from_slice(&parts.shares);
    }

    fn height(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }

    fn cell_bytes(&self) -> usize {
        match self.blend {
            Blend::Maximum => 1 + self.pixel.bytes(),
            Blend::Mean => 8 + 8 * self.pixel.channels(),
        }
    }

    /// Computes the pixels whose shares are complete.
    fn close_shares(&mut self) -> Result<(), PartsError> {
        let shares = std::mem::take(&mut self.shares);
        let (size, pixel, depth) = ((self.width, self.height()), self.pixel, self.depth);
        let mut open = OpenPixels::default();
        let mut cell = [1; 1 + 16];
        let parts = PartsView { runs: &[], pixels: &[], shares: &shares };
        parts.for_shares(size, pixel, |layer, column, row, weight, sums| {
            if u32::from(layer) >= depth || self.blend != Blend::Maximum {
                return Err(PartsError::Layer { layer: layer.into(), depth });
            }
            let out = &mut cell[1..1 + pixel.bytes()];
            if open.add(pixel, (layer, column, row), weight, sums, out)? {
                let span = RowSpan { row, first: column, end: column + 1 };
                self.blend_cells(span, &cell[..1 + pixel.bytes()]);
            }
            Ok(())
        })?;
        match open.count() {
            0 => Ok(()),
            pixels => Err(PartsError::Unfinished { pixels }),
        }
    }

    fn blend_cells(&mut self, span: RowSpan, cells: &[u8]) {
        if cells.is_empty() {
            return;
        }
        let (blend, sample, bytes) = (self.blend, self.pixel.sample(), self.cell_bytes());
        let row = &mut self.rows[span.row as usize];
        row.widen(span, bytes);
        let start = (span.first - row.first) as usize * bytes;
        let known = row.cells[start..start + cells.len()].chunks_exact_mut(bytes);
        for (cell, more) in known.zip(cells.chunks_exact(bytes)) {
            match blend {
                Blend::Maximum => take_larger(sample, cell, more),
                Blend::Mean => add(sample, cell, more),
            }
        }
    }
}

impl SlabRow {
    fn len(&self, bytes: usize) -> u32 {
        u32::try_from(self.cells.len() / bytes).unwrap_or(u32::MAX)
    }

    /// Extends the row by the columns of a span, and by those between it and the known cells.
    fn widen(&mut self, span: RowSpan, bytes: usize) {
        if self.cells.is_empty() {
            self.first = span.first;
        }
        if span.first < self.first {
            let more = (self.first - span.first) as usize * bytes;
            self.cells.splice(0..0, std::iter::repeat_n(0, more));
            self.first = span.first;
        }
        let needed = (span.end - self.first) as usize * bytes;
        if self.cells.len() < needed {
            self.cells.resize(needed, 0);
        }
    }
}

fn take_larger(sample: Sample, cell: &mut [u8], more: &[u8]) {
    match (cell[0], more[0]) {
        (_, 0) => {}
        (0, _) => cell.copy_from_slice(more),
        _ => {
            let channels = cell[1..].chunks_exact_mut(sample.bytes());
            for (known, new) in channels.zip(more[1..].chunks_exact(sample.bytes())) {
                if is_larger(sample, new, known) {
                    known.copy_from_slice(new);
                }
            }
        }
    }
}

/// Returns whether a channel is larger than another; NaN is smaller than all numbers.
fn is_larger(sample: Sample, new: &[u8], known: &[u8]) -> bool {
    match (sample, new, known) {
        (Sample::U8, [new], [known]) => new > known,
        (Sample::U16, &[a, b], &[c, d]) => u16::from_le_bytes([a, b]) > u16::from_le_bytes([c, d]),
        (Sample::I8, [new], [known]) => new.cast_signed() > known.cast_signed(),
        (Sample::I16, &[a, b], &[c, d]) => i16::from_le_bytes([a, b]) > i16::from_le_bytes([c, d]),
        (Sample::F32, &[a, b, c, d], &[e, f, g, h]) => {
            let (new, known) = (f32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h]));
            let order = (!new.is_nan()).cmp(&!known.is_nan());
            order.then(new.total_cmp(&known)).is_gt()
        }
        _ => unreachable!("a channel of {sample} has {} bytes", sample.bytes()),
    }
}

fn add(sample: Sample, cell: &mut [u8], more: &[u8]) {
    let (known, _) = cell.as_chunks_mut::<8>();
    let (more, _) = more.as_chunks::<8>();
    for (at, (known, more)) in known.iter_mut().zip(more).enumerate() {
        let (one, two) = (u64::from_le_bytes(*known), u64::from_le_bytes(*more));
        let sum = if at == 0 { one.saturating_add(two) } else { sums::add(sample, one, two) };
        *known = sum.to_le_bytes();
    }
}

fn put<'a>(blend: Blend, pixel: Pixel, cell: &[u8], out: impl FnOnce() -> &'a mut [u8]) {
    match blend {
        Blend::Maximum if cell[0] != 0 => out().copy_from_slice(&cell[1..]),
        Blend::Maximum => {}
        Blend::Mean => {
            let (numbers, _) = cell.as_chunks::<8>();
            let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
            let weight = numbers.next().unwrap_or(0);
            if weight > 0 {
                for (out, sum) in out().chunks_exact_mut(pixel.sample().bytes()).zip(numbers) {
                    sums::put(pixel.sample(), sum, weight, out);
                }
            }
        }
    }
}

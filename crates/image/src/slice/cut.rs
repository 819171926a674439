//! A slice through a volume in boxes: the boxes that it intersects, and its part in each of them.

use pario_proto::{Shape, TilePosition};
use thiserror::Error;

use super::box_run::BoxRun;
use super::canvas::Slice;
use super::grid::{BoxGrid, BoxPlacement};
use super::interpolation::Interpolation;
use super::parts::SliceParts;
use super::plane::{HALF, Plane, PlaneError};
use super::row_spans::{PlaneSteps, Region, RowSpan, RowSpans};
use super::trilinear::WEIGHT;
use super::{boxes, nearest, sums, trilinear};
use crate::pixel::{Pixel, PixelError, Sample};

/// A slice through a volume whose boxes lie at different places.
///
/// ```
/// use pario_image::{BoxGrid, Cut, Interpolation, Pixel, Plane, SliceParts};
/// use pario_proto::Shape;
///
/// // A volume of 8 x 8 x 8 grey voxels in boxes of 4 x 4 x 4, and its fifth layer.
/// let grid = BoxGrid::new(Shape::volume(8, 8, 8), Shape::volume(4, 4, 4), [false; 3])?;
/// let plane = Plane::in_voxels([0.0, 0.0, 5.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], 8, 8)?;
/// let cut = Cut::new(plane, grid, Pixel::GREY, Interpolation::Nearest)?;
///
/// let mut slice = cut.blank(&[0]);
/// for tile in cut.boxes() {
///     assert_eq!(tile.z, 1);
///     let mut parts = SliceParts::new();
///     cut.extract(tile, &[7; 64], &mut parts)?; // At the node that holds the box.
///     slice.paste(&parts)?; // At the client.
/// }
/// assert_eq!(slice.into_data()?, [7; 64]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    plane: Plane,
    plane_steps: PlaneSteps,
    grid: BoxGrid,
    pixel: Pixel,
    interpolation: Interpolation,
}

/// The error of a slice that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum CutError {
    /// The plane is not valid.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// The pixel is not valid.
    #[error(transparent)]
    Pixel(#[from] PixelError),
}

/// The error of a box from which no part can be extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExtractError {
    /// There is no such box.
    #[error("the volume of {volume} voxels has no box at {tile}: its boxes have {core} voxels")]
    NoSuchBox {
        /// The requested box.
        tile: TilePosition,
        /// The size of the volume.
        volume: Shape,
        /// The size of a box.
        core: Shape,
    },
    /// The voxels do not have the length of the box.
    #[error(
        "the box at {tile} has {found} bytes of voxels instead of {expected}: the volume was \
         made with other boxes or pixels"
    )]
    Length {
        /// The box.
        tile: TilePosition,
        /// The expected bytes.
        expected: usize,
        /// The bytes given.
        found: usize,
    },
}

/// Calls the function for the sample type S, the number of channels C, and the bytes N of a pixel.
macro_rules! for_pixel {
    ($pixel:expr, $body:ident::<S, C, N>($($argument:expr),*)) => {
        match ($pixel.sample(), $pixel.channels()) {
            (Sample::U8, 1) => $body::<u8, 1, 1>($($argument),*),
            (Sample::U8, 2) => $body::<u8, 2, 2>($($argument),*),
            (Sample::U8, 3) => $body::<u8, 3, 3>($($argument),*),
            (Sample::U8, _) => $body::<u8, 4, 4>($($argument),*),
            (Sample::U16, 1) => $body::<u16, 1, 2>($($argument),*),
            (Sample::U16, 2) => $body::<u16, 2, 4>($($argument),*),
            (Sample::U16, 3) => $body::<u16, 3, 6>($($argument),*),
            (Sample::U16, _) => $body::<u16, 4, 8>($($argument),*),
            (Sample::I8, 1) => $body::<i8, 1, 1>($($argument),*),
            (Sample::I8, 2) => $body::<i8, 2, 2>($($argument),*),
            (Sample::I8, 3) => $body::<i8, 3, 3>($($argument),*),
            (Sample::I8, _) => $body::<i8, 4, 4>($($argument),*),
            (Sample::I16, 1) => $body::<i16, 1, 2>($($argument),*),
            (Sample::I16, 2) => $body::<i16, 2, 4>($($argument),*),
            (Sample::I16, 3) => $body::<i16, 3, 6>($($argument),*),
            (Sample::I16, _) => $body::<i16, 4, 8>($($argument),*),
            (Sample::F32, 1) => $body::<f32, 1, 4>($($argument),*),
            (Sample::F32, 2) => $body::<f32, 2, 8>($($argument),*),
            (Sample::F32, 3) => $body::<f32, 3, 12>($($argument),*),
            (Sample::F32, _) => $body::<f32, 4, 16>($($argument),*),
        }
    };
}

impl Cut {
    /// Creates a slice through a volume. Checks plane and pixel, which may come from another
    /// process.
    pub fn new(
        plane: Plane,
        grid: BoxGrid,
        pixel: Pixel,
        interpolation: Interpolation,
    ) -> Result<Cut, CutError> {
        plane.validate()?;
        check_pixel(pixel)?;
        Ok(Cut { plane_steps: PlaneSteps::new(&plane), plane, grid, pixel, interpolation })
    }

    /// Returns the plane.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Returns the boxes of the volume.
    pub fn grid(&self) -> &BoxGrid {
        &self.grid
    }

    /// Returns the boxes that have pixels of the slice, or shares of pixels, each once; x fastest,
    /// then y, then z.
    pub fn boxes(&self) -> Vec<TilePosition> {
        let mut boxes = Vec::new();
        boxes::add_boxes(
            &self.grid,
            (&self.plane_steps, &self.plane),
            self.interpolation,
            &mut boxes,
        );
        boxes::sort_and_dedup(&mut boxes);
        boxes
    }

    /// Adds the part of the slice that lies in a box with these stored voxels.
    pub fn extract(
        &self,
        tile: TilePosition,
        voxels: &[u8],
        parts: &mut SliceParts,
    ) -> Result<(), ExtractError> {
        let placement = checked_placement(&self.grid, self.pixel, tile, voxels)?;
        add_parts(
            (&self.plane_steps, &self.plane),
            &placement,
            (self.pixel, self.interpolation),
            voxels,
            0,
            parts,
        );
        Ok(())
    }

    /// Returns the slice without parts.
    pub fn blank(&self, background: &[u8]) -> Slice {
        Slice::blank(self.plane.width(), self.plane.height(), self.pixel, background)
    }
}

/// A plane, and the steps that it shares with parallel planes.
pub(super) type SlicePlane<'a> = (&'a PlaneSteps, &'a Plane);

/// Fails for a pixel from another process that does not exist.
pub(super) fn check_pixel(pixel: Pixel) -> Result<(), PixelError> {
    Pixel::new(pixel.sample(), u32::try_from(pixel.channels()).unwrap_or(u32::MAX)).map(drop)
}

/// Returns the placement of a box. Fails if the number of voxels is not that of the box.
pub(super) fn checked_placement(
    grid: &BoxGrid,
    pixel: Pixel,
    tile: TilePosition,
    voxels: &[u8],
) -> Result<BoxPlacement, ExtractError> {
    let (volume, core) = (grid.volume(), grid.core());
    let placement = grid.placement(tile).ok_or(ExtractError::NoSuchBox { tile, volume, core })?;
    let stored = placement.stored.iter().product::<i64>().unsigned_abs();
    let expected = usize::try_from(stored).unwrap_or(usize::MAX).saturating_mul(pixel.bytes());
    match voxels.len() {
        found if found == expected => Ok(placement),
        found => Err(ExtractError::Length { tile, expected, found }),
    }
}

/// Adds the part of a slice that lies in a box.
pub(super) fn add_parts(
    slice: SlicePlane<'_>,
    placement: &BoxPlacement,
    (pixel, interpolation): (Pixel, Interpolation),
    voxels: &[u8],
    layer: u16,
    parts: &mut SliceParts,
) {
    match (interpolation, pixel.bytes()) {
        (Interpolation::Nearest, 1) => add_nearest::<1>(slice, placement, voxels, parts),
        (Interpolation::Nearest, 2) => add_nearest::<2>(slice, placement, voxels, parts),
        (Interpolation::Nearest, 3) => add_nearest::<3>(slice, placement, voxels, parts),
        (Interpolation::Nearest, 4) => add_nearest::<4>(slice, placement, voxels, parts),
        (Interpolation::Nearest, 6) => add_nearest::<6>(slice, placement, voxels, parts),
        (Interpolation::Nearest, 8) => add_nearest::<8>(slice, placement, voxels, parts),
        (Interpolation::Nearest, 12) => add_nearest::<12>(slice, placement, voxels, parts),
        (Interpolation::Nearest, _) => add_nearest::<16>(slice, placement, voxels, parts),
        (Interpolation::Trilinear, _) => {
            for_pixel!(
                pixel,
                add_trilinear::<S, C, N>(slice, placement, pixel, voxels, layer, parts)
            );
        }
    }
}

/// Calls `take` with row, column, weight and sums for each pixel of which the box has a share.
pub(super) fn for_sums(
    slice: SlicePlane<'_>,
    placement: &BoxPlacement,
    (pixel, interpolation): (Pixel, Interpolation),
    voxels: &[u8],
    mut take: impl FnMut(RowSpan, u32, &[u64]),
) {
    match interpolation {
        Interpolation::Nearest => {
            let mut parts = SliceParts::new();
            add_parts(slice, placement, (pixel, interpolation), voxels, 0, &mut parts);
            let (sample, mut pixels) = (pixel.sample(), parts.pixels.chunks_exact(pixel.bytes()));
            for span in RowSpans::new(slice.0, slice.1, placement.nearest()) {
                for (column, pixel) in (span.first..span.end).zip(&mut pixels) {
                    let mut found = [0; 4];
                    let channels = pixel.chunks_exact(sample.bytes());
                    let count = channels.len();
                    for (sum, channel) in found.iter_mut().zip(channels) {
                        *sum = sums::weighted(sample, channel, WEIGHT);
                    }
                    take(
                        RowSpan { first: column, end: column + 1, ..span },
                        WEIGHT,
                        &found[..count],
                    );
                }
            }
        }
        Interpolation::Trilinear => {
            for_pixel!(pixel, for_trilinear_sums::<S, C, N>(slice, placement, voxels, take));
        }
    }
}

fn add_nearest<const N: usize>(
    slice: SlicePlane<'_>,
    placement: &BoxPlacement,
    voxels: &[u8],
    parts: &mut SliceParts,
) {
    let (voxels, _) = voxels.as_chunks::<N>();
    let region = placement.nearest();
    for_runs(slice, placement, region, HALF, parts, |run, out| nearest::copy_run(voxels, run, out));
}

/// Adds the runs of a region, then their pixels, so that memory is allocated once.
fn for_runs<const N: usize>(
    slice: SlicePlane<'_>,
    placement: &BoxPlacement,
    region: Region,
    shift: i64,
    parts: &mut SliceParts,
    mut fill: impl FnMut(&BoxRun, &mut [[u8; N]]),
) {
    let (old_runs, old_pixels) = (parts.runs.len(), parts.pixels.len());
    let mut pixels = 0;
    for span in RowSpans::new(slice.0, slice.1, region) {
        parts.push_run(span);
        pixels += (span.end - span.first) as usize;
    }
    parts.pixels.resize(old_pixels + pixels * N, 0);
    let (mut left, _) = parts.pixels[old_pixels..].as_chunks_mut::<N>();
    for run in parts.runs[old_runs..].as_chunks().0 {
        let run = BoxRun::new(slice.1, placement, RowSpan::decode(*run), shift);
        let (out, rest) = left.split_at_mut(run.len);
        fill(&run, out);
        left = rest;
    }
}

fn add_trilinear<S: trilinear::TrilinearSample, const C: usize, const N: usize>(
    slice: SlicePlane<'_>,
    placement: &BoxPlacement,
    pixel: Pixel,
    voxels: &[u8],
    layer: u16,
    parts: &mut SliceParts,
) {
    let (voxels, _) = voxels.as_chunks::<N>();
    for_runs(slice, placement, placement.complete(), 0, parts, |run, out| {
        trilinear::blend_run::<S, C, N>(voxels, run, out);
    });
    // The pixels of which the box has only a share: left and right of the complete ones.
    let mut complete = RowSpans::new(slice.0, slice.1, placement.complete()).peekable();
    for span in RowSpans::new(slice.0, slice.1, placement.shared()) {
        let inner = complete.next_if(|inner| inner.row == span.row);
        let (end, first) = inner.map_or((span.end, span.end), |inner| (inner.first, inner.end));
        for share in [RowSpan { end, ..span }, RowSpan { first, ..span }] {
            if share.first < share.end {
                parts.push_share_run(layer, share);
                let run = BoxRun::new(slice.1, placement, share, 0);
                trilinear::add_shares::<S, C, N>(voxels, &run, |weight, sums| {
                    parts.push_share(pixel, weight, &sums);
                });
            }
        }
    }
}

fn for_trilinear_sums<S: trilinear::TrilinearSample, const C: usize, const N: usize>(
    slice: SlicePlane<'_>,
    placement: &BoxPlacement,
    voxels: &[u8],
    mut take: impl FnMut(RowSpan, u32, &[u64]),
) {
    let (voxels, _) = voxels.as_chunks::<N>();
    for span in RowSpans::new(slice.0, slice.1, placement.shared()) {
        let run = BoxRun::new(slice.1, placement, span, 0);
        let mut columns = span.first..span.end;
        trilinear::add_shares::<S, C, N>(voxels, &run, |weight, sums| {
            if let Some(column) = columns.next() {
                take(RowSpan { first: column, end: column + 1, ..span }, weight, &sums);
            }
        });
    }
}

//! The loop that extracts slices from boxes, by itself: no cluster, no messages, voxels in memory.
//!
//! The limit is a plain gather: the same voxels from the same memory in the same order, by
//! precomputed indices. It only loads and stores.

use std::collections::HashMap;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pario_image::{BoxGrid, Cut, Interpolation, Pixel, Plane, SliceParts};
use pario_proto::{Shape, TilePosition};

use super::body::{CORE, SIDES};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::{alternate, rotate};

const TURNS: usize = 15;
/// Two threads, against one.
const SCALING_GOAL: f64 = 1.8;
/// The voxels of the largest box.
const ROOM: usize = 32 * 32 * 17;
/// Bytes per voxel.
const BYTES: usize = 3;

/// Measures the figures and reports them.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    // Together they use far more memory than the caches hold.
    let bench = ExtractionSetup::new(setting.choose(128, 32))?;
    bench.check()?;
    let mut parts = SliceParts::new();
    let mut out = vec![[0; BYTES]; 512 * 512];
    let seconds = rotate(
        TURNS,
        &mut [&mut || bench.extract(&bench.slices, &mut parts), &mut || Ok(bench.gather(&mut out))],
    )?;
    let compared = crate::turns::Comparison::new(&seconds[0], &seconds[1]);
    let quantity = Quantity::Voxels(bench.voxels());
    report.measured("loop", compared, quantity, None);
    let both = alternate(TURNS, &mut || bench.extract_by_two(), &mut || {
        bench.extract(&bench.slices, &mut parts)
    })?;
    report.measured("loop-cores", both, quantity, SCALING_GOAL);
    Ok(())
}

/// Boxes in memory, and slices through them.
struct ExtractionSetup {
    /// All boxes that the slices intersect, one after the other.
    voxels: Vec<[u8; BYTES]>,
    slices: Vec<PreparedSlice>,
}

/// A slice, and the location of its pixels.
struct PreparedSlice {
    cut: Cut,
    /// Boxes, and the range of their voxels.
    boxes: Vec<(TilePosition, usize, usize)>,
    /// The voxels of its pixels, box by box.
    numbers: Vec<u32>,
}

impl ExtractionSetup {
    fn new(count: u32) -> Result<Self> {
        let [x, y, z] = SIDES;
        let [core_x, core_y, core_z] = CORE;
        let core = Shape::volume(core_x, core_y, core_z);
        let grid = BoxGrid::new(Shape::volume(x, y, z), core, [false, false, true])?;
        let mut rooms = HashMap::new();
        let slices: Result<Vec<_>> =
            (0..count).map(|number| PreparedSlice::new(plane(number)?, grid, &mut rooms)).collect();
        let mut voxels = vec![[0; BYTES]; rooms.len() * ROOM];
        fastrand::Rng::with_seed(7).fill(voxels.as_flattened_mut());
        Ok(Self { voxels, slices: slices? })
    }

    fn voxels(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "some millions")]
        let all = self.slices.iter().map(|slice| slice.numbers.len()).sum::<usize>() as f64;
        all
    }

    /// Our side: extracts the slices.
    fn extract(&self, slices: &[PreparedSlice], parts: &mut SliceParts) -> Result<Duration> {
        let began = Instant::now();
        for slice in slices {
            parts.clear();
            for &(tile, start, end) in &slice.boxes {
                slice.cut.extract(tile, self.voxels[start..end].as_flattened(), parts)?;
            }
            black_box(&*parts);
        }
        Ok(began.elapsed())
    }

    /// Extracts half of the slices in another thread.
    fn extract_by_two(&self) -> Result<Duration> {
        let halves = self.slices.split_at(self.slices.len() / 2);
        let began = Instant::now();
        thread::scope(|scope| {
            let other = scope.spawn(|| self.extract(halves.1, &mut SliceParts::new()));
            self.extract(halves.0, &mut SliceParts::new())?;
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Ok(began.elapsed())
    }

    /// The limit: gathers the same voxels.
    fn gather(&self, out: &mut [[u8; BYTES]]) -> Duration {
        let began = Instant::now();
        for slice in &self.slices {
            for (pixel, &number) in out.iter_mut().zip(&slice.numbers) {
                *pixel = self.voxels[number as usize];
            }
            black_box(&mut *out);
        }
        began.elapsed()
    }

    /// Checks that both find the same, except where rounding decides between two voxels.
    fn check(&self) -> Result<()> {
        let slice = self.slices.first().context("there are slices")?;
        let mut parts = SliceParts::new();
        for &(tile, start, end) in &slice.boxes {
            slice.cut.extract(tile, self.voxels[start..end].as_flattened(), &mut parts)?;
        }
        let mut picture = slice.cut.blank(&[]);
        picture.paste(&parts)?;
        let sorted = |mut pixels: Vec<[u8; BYTES]>| {
            pixels.sort_unstable();
            pixels
        };
        let (ours, _) = picture.data().as_chunks::<BYTES>();
        // Pixels outside of the volume are black.
        let ours = sorted(ours.iter().copied().filter(|pixel| *pixel != [0; BYTES]).collect());
        let theirs = slice.numbers.iter().map(|&number| self.voxels[number as usize]).collect();
        let theirs = sorted(theirs);
        let alike = ours.iter().filter(|pixel| theirs.binary_search(pixel).is_ok()).count();
        let is_alike = alike * 500 > theirs.len() * 499 && ours.len().abs_diff(theirs.len()) < 500;
        ensure!(
            is_alike,
            "of {} voxels {alike} are among {} of the limit",
            ours.len(),
            theirs.len()
        );
        Ok(())
    }
}

impl PreparedSlice {
    fn new(
        plane: Plane,
        grid: BoxGrid,
        rooms: &mut HashMap<(u64, u64, u64), usize>,
    ) -> Result<Self> {
        let cut = Cut::new(plane, grid, Pixel::RGB, Interpolation::Nearest)?;
        let tiles = cut.boxes();
        let mut boxes = Vec::with_capacity(tiles.len());
        let mut order = HashMap::new();
        for tile in tiles {
            let key = (tile.x, tile.y, tile.z);
            let next = rooms.len();
            let start = *rooms.entry(key).or_insert(next) * ROOM;
            let stored = grid.stored(tile).context("the box is there")?.size;
            let count = usize::try_from(stored.x * stored.y * stored.z)?;
            order.insert(key, boxes.len());
            boxes.push((tile, start, start + count));
        }
        let mut numbers = Vec::new();
        for row in 0..plane.height() {
            for column in 0..plane.width() {
                let place = plane.voxel_at(column, row).map(|at| (at + 0.5).floor());
                if let Some((key, within)) = found(place)
                    && let Some(&at) = order.get(&key)
                {
                    numbers.push((at, u32::try_from(boxes[at].1 + within)?));
                }
            }
        }
        // Within a box they stay row by row.
        numbers.sort_by_key(|(at, _)| *at);
        let numbers = numbers.into_iter().map(|(_, number)| number).collect();
        Ok(Self { cut, boxes, numbers })
    }
}

/// The box of a voxel, and its index there.
fn found(place: [f64; 3]) -> Option<((u64, u64, u64), usize)> {
    let mut at = [0; 3];
    for axis in 0..3 {
        #[expect(clippy::cast_possible_truncation, reason = "slices are near the volume")]
        let voxel = u64::try_from(place[axis] as i64).ok()?;
        at[axis] = (voxel < SIDES[axis]).then_some(voxel)?;
    }
    let [x, y, z] = at;
    let [core_x, core_y, core_z] = CORE;
    let within = x % core_x + (y % core_y) * core_x + (z % core_z) * core_x * core_y;
    Some(((x / core_x, y / core_y, z / core_z), usize::try_from(within).ok()?))
}

/// Slices across the diagonal, each far from the one before.
fn plane(number: u32) -> Result<Plane> {
    let away = f64::from(number * 37 % 128) * 3.0 - 192.0;
    let place = SIDES.map(|side| {
        #[expect(clippy::cast_precision_loss, reason = "a thousand")]
        let middle = side as f64 / 2.0;
        middle + away
    });
    Ok(Plane::through(place).normal([1.0; 3]).size(512, 512).in_volume([1.0; 3])?)
}

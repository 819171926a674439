//! The boxes that a slice intersects.
//!
//! Each axis is cut into cells: the boxes, and where a box does not store its neighbour's first
//! layer, the seams between a box and the next, where both have a share. Each row is walked from
//! cell to cell.
//!
//! Invariants: along a row no axis turns back, so the cells of a row have a strict order that is
//! the same for all rows; comparing with the row above finds the new cells of a row. A cell may
//! occur again after a row without it: so the boxes are sorted and deduplicated at the end.

use pario_proto::{Shape, TilePosition};

use super::cut::SlicePlane;
use super::grid::{BoxGrid, axes};
use super::interpolation::Interpolation;
use super::plane::{HALF, VOXEL};
use super::row_spans::{Region, RowSpans};
use super::trilinear::GRAIN;

/// A cell along each axis: twice the box, plus one in the seam after it.
type Cell = [i64; 3];

/// Adds the boxes that have pixels, or shares of pixels, of a checked slice.
pub(super) fn add_boxes(
    grid: &BoxGrid,
    (plane_steps, plane): SlicePlane<'_>,
    interpolation: Interpolation,
    found: &mut Vec<TilePosition>,
) {
    let cells = Cells::new(grid, interpolation);
    let (right, down) = (plane.right(), plane.down());
    // Rows that start in the same cells then intersect the same cells.
    let is_straight = (0..3).all(|axis| right[axis] == 0 || down[axis] == 0);
    let (mut above, mut row, mut new) = (Vec::new(), Vec::new(), Vec::<Cell>::new());
    let mut last = None;
    let mut last_across = None;
    for span in RowSpans::new(plane_steps, plane, whole(grid, interpolation)) {
        if last != span.row.checked_sub(1) {
            above.clear();
        }
        last = Some(span.row);
        if is_straight {
            let at = plane.position(span.first, span.row);
            let across = [0, 1, 2].map(|axis| (right[axis] == 0).then(|| cells.at(axis, at[axis])));
            if last_across.replace(across) == Some(across) {
                continue;
            }
        }
        let mut seen = 0;
        let mut walk = RowWalk::new(&cells, plane.position(span.first, span.row), right);
        let mut left = i64::from(span.end - span.first);
        loop {
            // Negate the axes that run down, so that all run up.
            let key = [0, 1, 2]
                .map(|axis| if right[axis] < 0 { !walk.cell[axis] } else { walk.cell[axis] });
            while above.get(seen).is_some_and(|known| *known < key) {
                seen += 1;
            }
            if above.get(seen) != Some(&key) {
                new.push(walk.cell);
            }
            row.push(key);
            left -= walk.stay();
            if left <= 0 {
                break;
            }
            walk.go_on(&cells, right);
        }
        std::mem::swap(&mut above, &mut row);
        row.clear();
    }
    for cell in new {
        add_boxes_of(cell, grid.boxes_per_axis(), found);
    }
}

/// Sorts boxes, z slowest, and removes duplicates.
pub(super) fn sort_and_dedup(boxes: &mut Vec<TilePosition>) {
    boxes.sort_unstable_by_key(|tile| (tile.z, tile.y, tile.x));
    boxes.dedup();
}

fn add_boxes_of(cell: Cell, per_axis: Shape, found: &mut Vec<TilePosition>) {
    let first = cell.map(|cell| (cell >> 1).unsigned_abs());
    let last = [0, 1, 2].map(|axis| first[axis] + u64::from(cell[axis] & 1 != 0));
    debug_assert!(last[0] < per_axis.x && last[1] < per_axis.y && last[2] < per_axis.z);
    for z in first[2]..=last[2] {
        for y in first[1]..=last[1] {
            for x in first[0]..=last[0] {
                found.push(TilePosition { x, y, z });
            }
        }
    }
}

/// Returns the region whose pixels are not background.
fn whole(grid: &BoxGrid, interpolation: Interpolation) -> Region {
    let volume = axes(grid.volume()).map(u64::cast_signed);
    match interpolation {
        Interpolation::Nearest => {
            Region { lo: [-HALF; 3], hi: volume.map(|voxels| voxels * VOXEL - HALF) }
        }
        Interpolation::Trilinear => {
            Region { lo: [0; 3], hi: volume.map(|voxels| (voxels - 1) * VOXEL + 1) }
        }
    }
}

/// The cells of each axis.
struct Cells {
    core: [i64; 3],
    has_seams: [bool; 3],
    shift: i64,
}

impl Cells {
    fn new(grid: &BoxGrid, interpolation: Interpolation) -> Cells {
        let (volume, core) = (axes(grid.volume()), axes(grid.core()));
        let (has_seams, shift) = match interpolation {
            Interpolation::Nearest => ([false; 3], HALF),
            Interpolation::Trilinear => (grid.overlap().map(|overlap| !overlap), 0),
        };
        // A box longer than the volume is equivalent to one as long as it.
        Cells {
            core: [0, 1, 2].map(|axis| core[axis].min(volume[axis]).cast_signed()),
            has_seams,
            shift,
        }
    }

    fn at(&self, axis: usize, at: i64) -> i64 {
        let (at, core) = (at + self.shift, self.core[axis]);
        let number = (at >> 32) / core;
        let seam = ((number + 1) * core - 1) * VOXEL + GRAIN;
        2 * number + i64::from(self.has_seams[axis] && at >= seam)
    }

    /// Returns start and end of a cell.
    fn span(&self, axis: usize, cell: i64) -> (i64, i64) {
        let (number, core) = (cell >> 1, self.core[axis]);
        let start = number * core * VOXEL - self.shift;
        let end = (number + 1) * core * VOXEL - self.shift;
        let seam = end - VOXEL + GRAIN;
        match (self.has_seams[axis], cell & 1) {
            (true, 0) => (start, seam),
            (true, _) => (seam, end),
            (false, _) => (start, end),
        }
    }
}

/// A walk along a row, from cell to cell.
struct RowWalk {
    at: [i64; 3],
    cell: Cell,
    /// Number of pixels, from this one on, in the current cell of each axis.
    stays: [i64; 3],
    /// The smallest of `stays`.
    stay: i64,
}

impl RowWalk {
    fn new(cells: &Cells, at: [i64; 3], right: [i64; 3]) -> RowWalk {
        let mut walk = RowWalk { at, cell: [0; 3], stays: [0; 3], stay: 0 };
        for axis in 0..3 {
            walk.cell[axis] = cells.at(axis, at[axis]);
            walk.enter(cells, axis, right[axis]);
        }
        walk.choose();
        walk
    }

    fn stay(&self) -> i64 {
        self.stay
    }

    /// Moves to the first pixel of the next cell.
    fn go_on(&mut self, cells: &Cells, right: [i64; 3]) {
        let stay = self.stay;
        for (axis, right) in right.into_iter().enumerate() {
            self.at[axis] += stay * right;
            self.stays[axis] -= stay;
            if self.stays[axis] == 0 {
                // Usually it is the adjacent cell.
                let on = if cells.has_seams[axis] { 1 } else { 2 };
                let next = self.cell[axis] + if right > 0 { on } else { -on };
                let (start, end) = cells.span(axis, next);
                self.cell[axis] = if (start..end).contains(&self.at[axis]) {
                    next
                } else {
                    cells.at(axis, self.at[axis])
                };
                self.enter(cells, axis, right);
            }
        }
        self.choose();
    }

    fn enter(&mut self, cells: &Cells, axis: usize, right: i64) {
        let (start, end) = cells.span(axis, self.cell[axis]);
        self.stays[axis] = match right {
            0 => i64::MAX,
            1.. => (end - 1 - self.at[axis]) / right + 1,
            _ => (self.at[axis] - start) / -right + 1,
        };
    }

    fn choose(&mut self) {
        self.stay = self.stays[0].min(self.stays[1]).min(self.stays[2]);
    }
}

//! Which pixels of each row of a slice lie in a box-shaped region.
//!
//! Invariants: all is exact. The rows that may meet the region are found by eliminating the column
//! from each pair of the bounds, with floating-point numbers; they are widened by more than what
//! rounding can have cost, because the pixels of each row are found exactly. The bounds of a row are
//! quotients of whole numbers that grow by the same amount from row to row, so that quotient and
//! remainder are carried on without dividing again.

use super::plane::Plane;

/// The pairs of bounds: 0 to 2 are the axes, 3 are the columns.
const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

/// A box in coordinates: from `lo` on, up to but without `hi`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub lo: [i64; 3],
    pub hi: [i64; 3],
}

/// The pixels of one row that lie in the region; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowSpan {
    pub row: u32,
    pub first: u32,
    pub end: u32,
}

/// What all slices have in common that are parallel and have the same pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slant {
    right: [i64; 3],
    down: [i64; 3],
    width: u32,
    height: u32,
    /// By how much the column where an axis is left grows from row to row: quotient and remainder.
    per_row: [(i64, i64); 3],
    /// For each pair of bounds, one over what is left of a row when the column is eliminated; nothing
    /// if nothing is left.
    per_pair: [Option<f64>; 6],
}

/// The rows that have pixels in the region.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    row: u32,
    end: u32,
    width: i64,
    /// Where the first pixel of the next row lies.
    at: [i64; 3],
    down: [i64; 3],
    region: Region,
    is_flat: [bool; 3],
    lows: [Edge; 3],
    highs: [Edge; 3],
}

/// The column `number / by + 1`, rounded down, for a number that grows from row to row.
#[derive(Clone, Copy, Debug)]
struct Edge {
    by: i64,
    column: i64,
    rest: i64,
    columns_per_row: i64,
    rest_per_row: i64,
}

impl Slant {
    /// Of a slice that was checked.
    pub fn new(plane: &Plane) -> Slant {
        let (right, down) = (plane.right(), plane.down());
        let per_row = [0, 1, 2].map(|axis| {
            let number = if right[axis] > 0 { -down[axis] } else { down[axis] };
            let by = right[axis].abs().max(1);
            (number.div_euclid(by), number.rem_euclid(by))
        });
        let steps = |bound: usize| match bound {
            3 => (1, 0),
            axis => (i128::from(right[axis]), i128::from(down[axis])),
        };
        let per_pair = PAIRS.map(|(one, two)| {
            let ((right, down), (other_right, other_down)) = (steps(one), steps(two));
            let left = other_right * down - right * other_down;
            (left != 0).then(|| 1.0 / left as f64)
        });
        let (width, height) = (plane.width(), plane.height());
        Slant { right, down, width, height, per_row, per_pair }
    }

    /// The first row that may meet the region and the one after the last.
    fn rows_met(&self, origin: [i64; 3], region: Region) -> (u32, u32) {
        // Bounds `low <= right * i + down * j <= high`: of the three axes, and of the columns.
        let mut bounds = [(1.0, 0.0, f64::from(self.width - 1)); 4];
        for axis in 0..3 {
            if region.lo[axis] >= region.hi[axis] {
                return (0, 0);
            }
            let low = (region.lo[axis] - origin[axis]) as f64;
            let high = (region.hi[axis] - origin[axis]) as f64;
            bounds[axis] = (self.right[axis] as f64, low, high);
        }
        let (mut first, mut last) = (0.0, f64::from(self.height - 1));
        for (&(one, two), per_pair) in PAIRS.iter().zip(self.per_pair) {
            let Some(per_pair) = per_pair else { continue };
            let ((right, low, high), (other_right, other_low, other_high)) =
                (bounds[one], bounds[two]);
            // Both times the other's step to the right: then the column falls out.
            let (ours_low, ours_high) = between(other_right * low, other_right * high);
            let (others_low, others_high) = between(right * other_low, right * other_high);
            let one = (ours_low - others_high) * per_pair;
            let two = (ours_high - others_low) * per_pair;
            let largest =
                ours_low.abs().max(ours_high.abs()) + others_low.abs().max(others_high.abs());
            let slack = largest * per_pair.abs() * 1e-14 + 1e-3;
            first = f64::max(first, one.min(two) - slack);
            last = f64::min(last, one.max(two) + slack);
        }
        if first > last { (0, 0) } else { (row(first.ceil()), row(last.floor()) + 1) }
    }
}

impl Rows {
    /// The rows of a slice.
    pub fn new(slant: &Slant, plane: &Plane, region: Region) -> Rows {
        let (row, end) = slant.rows_met(plane.position(0, 0), region);
        let (at, right) = (plane.position(0, row), slant.right);
        let edge = |axis: usize, bound: i64| {
            let number = if right[axis] > 0 { bound - at[axis] - 1 } else { at[axis] - bound };
            Edge::new(number, right[axis].abs(), slant.per_row[axis])
        };
        let (lo, hi) = (region.lo, region.hi);
        Rows {
            row,
            end,
            width: slant.width.into(),
            at,
            down: slant.down,
            region,
            is_flat: right.map(|step| step == 0),
            lows: [0, 1, 2].map(|axis| edge(axis, if right[axis] > 0 { lo } else { hi }[axis])),
            highs: [0, 1, 2].map(|axis| edge(axis, if right[axis] > 0 { hi } else { lo }[axis])),
        }
    }
}

impl Iterator for Rows {
    type Item = RowSpan;

    fn next(&mut self) -> Option<RowSpan> {
        while self.row < self.end {
            let (mut first, mut end) = (0, self.width);
            for axis in 0..3 {
                if self.is_flat[axis] {
                    let at = self.at[axis];
                    if at < self.region.lo[axis] || at >= self.region.hi[axis] {
                        end = 0;
                    }
                } else {
                    first = first.max(self.lows[axis].column);
                    end = end.min(self.highs[axis].column);
                    self.lows[axis].advance();
                    self.highs[axis].advance();
                }
                self.at[axis] += self.down[axis];
            }
            let row = self.row;
            self.row += 1;
            if first < end {
                return Some(RowSpan { row, first: column(first), end: column(end) });
            }
        }
        None
    }
}

impl Edge {
    fn new(number: i64, by: i64, (columns_per_row, rest_per_row): (i64, i64)) -> Edge {
        // A step of zero is never asked for its columns.
        let by = by.max(1);
        let column = number.div_euclid(by);
        let rest = number - column * by;
        Edge { by, column: column + 1, rest, columns_per_row, rest_per_row }
    }

    fn advance(&mut self) {
        let rest = self.rest + self.rest_per_row;
        let carry = i64::from(rest >= self.by);
        self.rest = rest - carry * self.by;
        // Beyond the last row the number may leave what the slice was checked for.
        self.column = self.column.wrapping_add(self.columns_per_row + carry);
    }
}

fn between(a: f64, b: f64) -> (f64, f64) {
    if a < b { (a, b) } else { (b, a) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the height")]
fn row(number: f64) -> u32 {
    number as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the width")]
fn column(number: i64) -> u32 {
    number as u32
}

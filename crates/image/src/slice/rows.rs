//! Which pixels of each row of a slice lie in a box-shaped region.
//!
//! Invariants: all is exact. The rows that may meet the region are found by eliminating the column
//! from each pair of the bounds; products of coordinates fit 128 bits, and the quotients only have to
//! be right to a thousandth of a row, because the pixels of each row are found exactly. The bounds of
//! a row are quotients of whole numbers that grow by the same amount from row to row, so that
//! quotient and remainder are carried on without dividing again.

use super::plane::Plane;

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

impl Rows {
    /// The rows of a slice that was checked.
    pub fn new(plane: &Plane, region: Region) -> Rows {
        let (row, end) = rows_met(plane, region);
        let (at, right, down) = (plane.position(0, row), plane.right(), plane.down());
        let edge = |axis: usize, bound: i64| {
            if right[axis] > 0 {
                Edge::new(bound - at[axis] - 1, -down[axis], right[axis])
            } else {
                Edge::new(at[axis] - bound, down[axis], -right[axis])
            }
        };
        let (lo, hi) = (region.lo, region.hi);
        Rows {
            row,
            end,
            width: plane.width().into(),
            at,
            down,
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
    fn new(number: i64, per_row: i64, by: i64) -> Edge {
        // A step of zero is never asked for its columns.
        let by = by.max(1);
        Edge {
            by,
            column: number.div_euclid(by) + 1,
            rest: number.rem_euclid(by),
            columns_per_row: per_row.div_euclid(by),
            rest_per_row: per_row.rem_euclid(by),
        }
    }

    fn advance(&mut self) {
        let rest = self.rest + self.rest_per_row;
        let carry = i64::from(rest >= self.by);
        self.rest = rest - carry * self.by;
        // Beyond the last row the number may leave what the slice was checked for.
        self.column = self.column.wrapping_add(self.columns_per_row + carry);
    }
}

/// The first row that may meet the region and the one after the last.
fn rows_met(plane: &Plane, region: Region) -> (u32, u32) {
    // Bounds `low <= right * i + down * j <= high`: of the three axes, and of the columns.
    let (at, right, down) = (plane.position(0, 0), plane.right(), plane.down());
    let mut bounds = [(1, 0, 0, i128::from(plane.width()) - 1); 4];
    for axis in 0..3 {
        if region.lo[axis] >= region.hi[axis] {
            return (0, 0);
        }
        let low = i128::from(region.lo[axis] - at[axis]);
        let high = i128::from(region.hi[axis] - 1 - at[axis]);
        bounds[axis] = (i128::from(right[axis]), i128::from(down[axis]), low, high);
    }
    let (mut first, mut last) = (0.0, f64::from(plane.height()) - 1.0);
    for (at, &(right, down, low, high)) in bounds.iter().enumerate() {
        for &(other_right, other_down, other_low, other_high) in &bounds[at + 1..] {
            // Both times the other's step to the right: then the column falls out.
            let by = other_right * down - right * other_down;
            let ours = between(other_right * low, other_right * high);
            let others = between(right * other_low, right * other_high);
            let (low, high) = (ours.0 - others.1, ours.1 - others.0);
            if by == 0 {
                if low > 0 || high < 0 {
                    return (0, 0);
                }
                continue;
            }
            let (one, two) = (low as f64 / by as f64, high as f64 / by as f64);
            first = f64::max(first, one.min(two) - 1e-3);
            last = f64::min(last, one.max(two) + 1e-3);
        }
    }
    if first > last { (0, 0) } else { (row(first.ceil()), row(last.floor()) + 1) }
}

fn between(a: i128, b: i128) -> (i128, i128) {
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

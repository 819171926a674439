//! The pixels of each row of a slice that lie in a box-shaped region.
//!
//! Invariants: the result is exact. Floating-point arithmetic finds candidate rows by eliminating
//! the column from each pair of bounds, and widens them by more than rounding can cost;
//! whole-number arithmetic then finds the pixels of each row. The bounds of a row are quotients of
//! whole numbers that grow by the same amount from row to row, so quotient and remainder advance
//! without another division.

use super::plane::Plane;

/// The pairs of bounds: 0 to 2 are the axes, 3 are the columns.
const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

/// A box in coordinates: from `lo` up to but not including `hi`.
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

/// The steps and the size of a slice, which parallel slices share.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaneSteps {
    right: [i64; 3],
    down: [i64; 3],
    width: u32,
    height: u32,
    /// Growth of the column at which a row leaves an axis, from row to row: quotient and remainder.
    per_row: [(i64, i64); 3],
    /// For each pair of bounds, the inverse factor of the row after elimination of the column;
    /// `None` if the row drops out, too.
    per_pair: [Option<f64>; 6],
}

/// Iterator over the rows that have pixels in the region.
#[derive(Clone, Debug)]
pub(super) struct RowSpans {
    row: u32,
    end: u32,
    width: i64,
    /// The columns at which the row enters the region along each axis, then those at which it
    /// leaves it.
    edges: Edges,
    /// Whether these columns are the same in all rows.
    is_steady: bool,
}

/// Columns `number / by + 1`, rounded down, for numbers that grow from row to row.
#[derive(Clone, Copy, Debug, Default)]
struct Edges {
    by: [i64; 6],
    column: [i64; 6],
    rest: [i64; 6],
    columns_per_row: [i64; 6],
    rest_per_row: [i64; 6],
}

impl PlaneSteps {
    /// Computes the steps of a checked plane.
    pub fn new(plane: &Plane) -> PlaneSteps {
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
        PlaneSteps { right, down, width, height, per_row, per_pair }
    }

    /// Returns the first row that may intersect the region, and the row after the last.
    fn candidate_rows(&self, origin: [i64; 3], region: Region) -> (u32, u32) {
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
            // Multiply each by the other's step to the right, which eliminates the column.
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

impl RowSpans {
    /// Returns the rows of a slice.
    pub fn new(plane_steps: &PlaneSteps, plane: &Plane, region: Region) -> RowSpans {
        let (mut row, mut end) = plane_steps.candidate_rows(plane.position(0, 0), region);
        for axis in 0..3 {
            if plane_steps.right[axis] == 0 {
                let origin = plane.position(0, 0)[axis];
                let (low, high) = (region.lo[axis] - origin, region.hi[axis] - origin);
                (row, end) = rows_between(plane_steps.down[axis], low, high, (row, end));
            }
        }
        let (at, right) = (plane.position(0, row), plane_steps.right);
        let mut edges = Edges { by: [1; 6], ..Edges::default() };
        for axis in 0..3 {
            let (low, high) = (region.lo[axis] - at[axis], region.hi[axis] - at[axis]);
            let (first, end) = match right[axis] {
                // The rows were chosen so that they do not leave the region along this axis.
                0 => {
                    edges.column[axis + 3] = plane_steps.width.into();
                    continue;
                }
                1.. => (low - 1, high - 1),
                _ => (-high, -low),
            };
            edges.set(axis, first, right[axis].abs(), plane_steps.per_row[axis]);
            edges.set(axis + 3, end, right[axis].abs(), plane_steps.per_row[axis]);
        }
        let is_steady = edges.columns_per_row == [0; 6] && edges.rest_per_row == [0; 6];
        RowSpans { row, end, width: plane_steps.width.into(), edges, is_steady }
    }
}

impl Iterator for RowSpans {
    type Item = RowSpan;

    fn next(&mut self) -> Option<RowSpan> {
        while self.row < self.end {
            let column = self.edges.column;
            let first = column[0].max(column[1]).max(column[2]).max(0);
            let end = column[3].min(column[4]).min(column[5]).min(self.width);
            if !self.is_steady {
                self.edges.advance();
            }
            let row = self.row;
            self.row += 1;
            if first < end {
                return Some(RowSpan { row, first: narrow(first), end: narrow(end) });
            }
        }
        None
    }
}

impl Edges {
    fn set(&mut self, edge: usize, number: i64, by: i64, per_row: (i64, i64)) {
        let column = number.div_euclid(by);
        self.by[edge] = by;
        self.column[edge] = column + 1;
        self.rest[edge] = number - column * by;
        (self.columns_per_row[edge], self.rest_per_row[edge]) = per_row;
    }

    fn advance(&mut self) {
        for edge in 0..6 {
            let rest = self.rest[edge] + self.rest_per_row[edge];
            let carry = i64::from(rest >= self.by[edge]);
            self.rest[edge] = rest - (self.by[edge] & -carry);
            // After the last row the number may leave its checked range.
            let columns = self.columns_per_row[edge] + carry;
            self.column[edge] = self.column[edge].wrapping_add(columns);
        }
    }
}

/// Returns those rows of a range for which `low <= down * row < high`.
fn rows_between(down: i64, low: i64, high: i64, (first, end): (u32, u32)) -> (u32, u32) {
    // The first row at or after a bound, or after it if rows run the other way.
    let (from, to) = match down {
        0 if low <= 0 && 0 < high => return (first, end),
        0 => return (0, 0),
        1.. => ((low - 1).div_euclid(down) + 1, (high - 1).div_euclid(down) + 1),
        _ => ((-high).div_euclid(-down) + 1, (-low).div_euclid(-down) + 1),
    };
    let (from, to) = (from.max(first.into()), to.min(end.into()));
    if from < to { (narrow(from), narrow(to)) } else { (0, 0) }
}

fn between(a: f64, b: f64) -> (f64, f64) {
    if a < b { (a, b) } else { (b, a) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the height")]
fn row(number: f64) -> u32 {
    number as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 65,536")]
fn narrow(number: i64) -> u32 {
    number as u32
}

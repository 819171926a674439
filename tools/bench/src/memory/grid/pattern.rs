//! The element list of a three-dimensional grid, as the program of the report on DONIO writes it.
//!
//! Each element has eight vertices, of four bytes each. The elements of a column are consecutive in
//! the file; the columns go around the ranks.

use std::ops::RangeInclusive;

use anyhow::{Result, ensure};

const VERTICES: usize = 8;
const NUMBER_BYTES: usize = 4;
/// The positions of the vertices of an element, relative to its first one: along x, y and z.
const CORNERS: [[i32; 3]; VERTICES] =
    [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]];

/// The number of points of a grid along x, y and z.
pub type Points = [i32; 3];

/// A grid, and its columns.
#[derive(Clone, Debug)]
pub struct Grid {
    points: Points,
    /// The numbers of the first column; the others are the same plus a constant.
    first: Vec<i32>,
}

impl Grid {
    /// A grid of this many points.
    pub fn new(points: Points) -> Self {
        let [x, _, z] = points;
        let number = |z_of: i32| move |[dx, dy, dz]: [i32; 3]| 1 + z_of + dz + (dx + dy * x) * z;
        let first = (0..z - 1).flat_map(|z_of| CORNERS.into_iter().map(number(z_of))).collect();
        Self { points, first }
    }

    /// The number of points.
    pub fn points(&self) -> Points {
        self.points
    }

    /// Bytes of a column.
    pub fn column_bytes(&self) -> usize {
        self.first.len() * NUMBER_BYTES
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        let [x, y, _] = self.points.map(|points| u64::try_from(points - 1).unwrap_or(0));
        x * y * self.column_bytes() as u64
    }

    /// The offset of a column in the file.
    pub fn place(&self, column: i32) -> u64 {
        u64::try_from(column).unwrap_or(0) * self.column_bytes() as u64
    }

    /// The columns of a rank, in the order in which it visits them: x outside, y inside.
    pub fn columns_of(&self, rank: u32, size: u32) -> impl Iterator<Item = i32> + use<> {
        let [x, y, _] = self.points.map(|points| points - 1);
        let columns = (0..x).flat_map(move |at_x| (0..y).map(move |at_y| at_x + at_y * x));
        columns.filter(move |column| column.unsigned_abs() % size == rank)
    }

    /// The constant that a column adds to the numbers of the first one.
    fn shift(&self, column: i32) -> i32 {
        let [x, _, z] = self.points;
        (column % (x - 1) + column / (x - 1) * x) * z
    }

    /// Computes a column.
    pub fn fill(&self, column: i32, bytes: &mut [u8]) {
        let shift = self.shift(column);
        for (bytes, number) in bytes.chunks_exact_mut(NUMBER_BYTES).zip(&self.first) {
            bytes.copy_from_slice(&(number + shift).to_ne_bytes());
        }
    }

    /// Checks the beginning and the end of a column.
    pub fn examine(&self, column: i32, bytes: &[u8]) -> Result<()> {
        let shift = self.shift(column);
        let (first, last) = (self.first.first(), self.first.last());
        let is_at = |place: RangeInclusive<usize>, number: Option<&i32>| {
            number.is_some_and(|number| bytes[place] == (number + shift).to_ne_bytes())
        };
        let end = bytes.len() - 1;
        let is_right = is_at(0..=NUMBER_BYTES - 1, first) && is_at(end - 3..=end, last);
        ensure!(is_right, "column {column} has wrong numbers");
        Ok(())
    }

    /// Checks a whole file.
    pub fn examine_file(&self, bytes: &[u8]) -> Result<()> {
        ensure!(bytes.len() as u64 == self.file_bytes(), "it has {} bytes", bytes.len());
        let mut expected = vec![0; self.column_bytes()];
        for (column, found) in (0..).zip(bytes.chunks(self.column_bytes())) {
            self.fill(column, &mut expected);
            ensure!(found == expected, "column {column} has wrong numbers");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_report_has_its_size() {
        let grid = Grid::new([41, 41, 31]);
        assert_eq!((grid.file_bytes(), grid.column_bytes()), (1_536_000, 960));
        assert_eq!(grid.first[..8], [1, 32, 1303, 1272, 2, 33, 1304, 1273]);
    }

    #[test]
    fn ranks_together_make_the_whole_file() {
        let grid = Grid::new([4, 6, 3]);
        let mut file = vec![0; usize::try_from(grid.file_bytes()).unwrap()];
        for rank in 0..4 {
            for column in grid.columns_of(rank, 4) {
                let start = usize::try_from(grid.place(column)).unwrap();
                let bytes = &mut file[start..start + grid.column_bytes()];
                grid.fill(column, bytes);
                grid.examine(column, bytes).unwrap();
                assert!(grid.examine(column + 1, bytes).is_err());
            }
        }
        grid.examine_file(&file).unwrap();
        file[100] ^= 1;
        assert!(grid.examine_file(&file).is_err());
    }
}

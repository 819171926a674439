//! A stack of pictures as the planes of a volume.

use std::cmp::Ordering;
use std::path::PathBuf;

use super::{FormatError, FormatOptions, Rows, open_picture};
use crate::Pixel;

/// Pictures of the same size and pixel, one below the other. One is open at a time.
pub struct PictureStack {
    paths: Vec<PathBuf>,
    options: FormatOptions,
    size: (u64, u64),
    pixel: Pixel,
    notes: Vec<String>,
    /// The current picture, and the number of its rows that are left.
    current: Option<(Box<dyn Rows>, u64)>,
    /// Number of pictures that were started.
    begun: usize,
}

impl PictureStack {
    /// Opens the pictures in this order. Reads the headers of all, so that one that differs fails
    /// at once.
    pub fn open(paths: Vec<PathBuf>, options: &FormatOptions) -> Result<PictureStack, FormatError> {
        let Some(first) = paths.first() else {
            return Err(FormatError::misuse("stack", "it has no pictures, name at least one"));
        };
        let rows = open_picture(first, options)?;
        let (size, pixel, notes) = (rows.size(), rows.pixel(), rows.notes());
        let options = options.clone();
        let stack = PictureStack { paths, options, size, pixel, notes, current: None, begun: 0 };
        for number in 1..stack.paths.len() {
            stack.picture(number)?;
        }
        Ok(stack)
    }

    /// Returns the number of pictures.
    pub fn depth(&self) -> u64 {
        self.paths.len() as u64
    }

    /// Opens a picture and checks that it is like the first.
    fn picture(&self, number: usize) -> Result<Box<dyn Rows>, FormatError> {
        let rows = open_picture(&self.paths[number], &self.options)?;
        if (rows.size(), rows.pixel()) == (self.size, self.pixel) {
            return Ok(rows);
        }
        let shape = |(width, height): (u64, u64), pixel| format!("{width} x {height} of {pixel}");
        Err(FormatError::Differs {
            name: self.paths[number].display().to_string(),
            has: shape(rows.size(), rows.pixel()),
            first: self.paths[0].display().to_string(),
            expected: shape(self.size, self.pixel),
        })
    }
}

impl Rows for PictureStack {
    fn size(&self) -> (u64, u64) {
        (self.size.0, self.size.1 * self.depth())
    }

    fn pixel(&self) -> Pixel {
        self.pixel
    }

    fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError> {
        let (mut rows, left) = match self.current.take() {
            Some((rows, left)) if left > 0 => (rows, left),
            _ if self.begun == self.paths.len() => {
                let what = "all rows of its pictures are done, there is no further one";
                return Err(FormatError::misuse("stack", what));
            }
            _ => {
                self.begun += 1;
                (self.picture(self.begun - 1)?, self.size.1)
            }
        };
        rows.next_row(row)?;
        self.current = Some((rows, left - 1));
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The natural order of names with numbers: `img2` comes before `img10`.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (a_part, a_rest) = first_part(left);
        let (b_part, b_rest) = first_part(right);
        if a_part.is_empty() || b_part.is_empty() {
            // Names that differ only by leading zeros of a number are ordered as strings.
            return a_part.len().cmp(&b_part.len()).then_with(|| a.cmp(b));
        }
        let order = match (number(a_part), number(b_part)) {
            (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            _ => a_part.cmp(b_part),
        };
        if order.is_ne() {
            return order;
        }
        (left, right) = (a_rest, b_rest);
    }
}

/// Splits off a run of digits, or one letter.
fn first_part(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let letter = text.chars().next().map_or(0, char::len_utf8);
    text.split_at(digits.max(letter))
}

/// Returns a run of digits without leading zeros.
fn number(part: &str) -> Option<&str> {
    part.starts_with(|first: char| first.is_ascii_digit()).then(|| part.trim_start_matches('0'))
}

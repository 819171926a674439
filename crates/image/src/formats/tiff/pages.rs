//! The pages of a TIFF as the planes of a volume.

use std::collections::BTreeSet;

use super::super::byte_io::ByteSource;
use super::super::{FilePosition, FormatError, FormatOptions, Rows};
use super::directory::TiffDirectory;
use super::reader::TiffRows;
use super::tag;
use crate::Pixel;

/// Limit for the number of pages.
const PAGES_LIMIT: usize = 1 << 20;

/// Bits of the type of a page: a smaller copy of another page, and a mask.
const COPY_OR_MASK: u64 = 0b101;

/// The full-size pages of a TIFF, one below the other. One is open at a time.
pub struct TiffPages<S> {
    name: String,
    options: FormatOptions,
    /// Offsets of the directories of the pages.
    offsets: Vec<u64>,
    size: (u64, u64),
    pixel: Pixel,
    notes: Vec<String>,
    /// The current page, and the number of its rows that are left.
    current: Option<(TiffRows<S>, u64)>,
    /// Number of pages that were started.
    begun: usize,
}

/// Returns the offsets of the directories of full-size pages, without smaller copies and masks.
pub(in super::super) fn pages<S: ByteSource>(
    name: &str,
    source: &mut S,
) -> Result<Vec<u64>, FormatError> {
    let (mut offsets, mut visited) = (Vec::new(), BTreeSet::new());
    let mut directory_bytes = 0u64;
    let mut next = Some(TiffDirectory::first(name, source)?);
    while let Some(offset) = next {
        if !visited.insert(offset) || visited.len() > PAGES_LIMIT {
            let what = format!("its list of pages is a loop: page {} occurs again", offsets.len());
            return Err(FormatError::damaged(name, FilePosition::Byte(offset), what));
        }
        let directory = TiffDirectory::read(name, source, Some(offset))?;
        // Directories do not overlap, so reading all of them takes no longer than reading the file.
        directory_bytes += directory.bytes();
        if directory_bytes > directory.file_bytes {
            let what = "its directories have more bytes than the file: they overlap";
            return Err(FormatError::damaged(name, FilePosition::Byte(offset), what));
        }
        let kind = directory.number(source, tag::SUBFILE_TYPE)?.unwrap_or(0);
        if kind & COPY_OR_MASK == 0 {
            offsets.push(offset);
        }
        next = directory.next;
    }
    Ok(offsets)
}

impl<S: ByteSource> TiffPages<S> {
    /// Opens the pages with these directories. Reads all directories, so that a page that differs
    /// fails before the first pixel.
    pub(in super::super) fn open(
        name: &str,
        mut source: S,
        offsets: Vec<u64>,
        options: &FormatOptions,
    ) -> Result<TiffPages<S>, FormatError> {
        let mut first = None;
        for (number, offset) in offsets.iter().enumerate() {
            let page = TiffRows::page(name, source, Some(*offset), options)?;
            let here = (page.size(), page.pixel(), page.notes());
            let expected = first.get_or_insert_with(|| here.clone());
            if (here.0, here.1) != (expected.0, expected.1) {
                let shape = |(size, pixel): ((u64, u64), Pixel)| {
                    format!("{} x {} of {pixel}", size.0, size.1)
                };
                return Err(FormatError::Differs {
                    name: format!("{name}, page {}", number + 1),
                    has: shape((here.0, here.1)),
                    first: "page 1".to_owned(),
                    expected: shape((expected.0, expected.1)),
                });
            }
            source = page.into_source();
        }
        let Some((size, pixel, notes)) = first else {
            return Err(FormatError::damaged(
                name,
                FilePosition::Header,
                "it has no full-size page",
            ));
        };
        let current = Some((TiffRows::page(name, source, Some(offsets[0]), options)?, size.1));
        let (name, options) = (name.to_owned(), options.clone());
        Ok(TiffPages { name, options, offsets, size, pixel, notes, current, begun: 1 })
    }

    /// Returns the number of pages.
    pub fn depth(&self) -> u64 {
        self.offsets.len() as u64
    }
}

impl<S: ByteSource> Rows for TiffPages<S> {
    fn size(&self) -> (u64, u64) {
        (self.size.0, self.size.1.saturating_mul(self.depth()))
    }

    fn pixel(&self) -> Pixel {
        self.pixel
    }

    fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError> {
        let (mut rows, left) = match self.current.take() {
            Some((rows, 0)) => {
                let Some(offset) = self.offsets.get(self.begun) else {
                    self.current = Some((rows, 0));
                    let what = "all rows of its pages are done, there is no further one";
                    return Err(FormatError::misuse(&self.name, what));
                };
                self.begun += 1;
                let source = rows.into_source();
                let rows = TiffRows::page(&self.name, source, Some(*offset), &self.options)?;
                (rows, self.size.1)
            }
            Some(current) => current,
            None => return Err(FormatError::misuse(&self.name, "an earlier read failed")),
        };
        rows.next_row(row)?;
        self.current = Some((rows, left - 1));
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

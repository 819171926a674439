//! The pages of a TIFF: the planes of a volume.

use std::collections::BTreeSet;

use super::super::source::Source;
use super::super::{FormatError, OpenOptions, Place, Rows};
use super::directory::Directory;
use super::reader::TiffRows;
use super::tag;
use crate::Pixel;

/// More pages than any volume has planes.
const PAGES_LIMIT: usize = 1 << 20;

/// Bits of the type of a page: a smaller copy of another one, and a mask.
const COPY_OR_MASK: u64 = 0b101;

/// The full-size pages of a TIFF, one below the other. One is open at a time.
pub struct TiffPages<S> {
    name: String,
    options: OpenOptions,
    /// Where the directories of the pages are.
    places: Vec<u64>,
    size: (u64, u64),
    pixel: Pixel,
    notes: Vec<String>,
    /// The page that is being read, and how many of its rows are left.
    current: Option<(TiffRows<S>, u64)>,
    /// How many pages have been begun.
    begun: usize,
}

/// Where the directories of full-size pages are. Smaller copies and masks are left out.
pub(in super::super) fn pages<S: Source>(
    name: &str,
    source: &mut S,
) -> Result<Vec<u64>, FormatError> {
    let (mut places, mut seen) = (Vec::new(), BTreeSet::new());
    let mut directory_bytes = 0u64;
    let mut next = Some(Directory::first(name, source)?);
    while let Some(place) = next {
        if !seen.insert(place) || seen.len() > PAGES_LIMIT {
            let what = format!("its pages do not end: page {} comes again", places.len());
            return Err(FormatError::damaged(name, Place::Byte(place), what));
        }
        let directory = Directory::read(name, source, Some(place))?;
        // Directories do not overlap: so reading all of them takes no longer than reading the file.
        directory_bytes += directory.bytes();
        if directory_bytes > directory.file_bytes {
            let what = "its directories have more bytes than the file: they overlap";
            return Err(FormatError::damaged(name, Place::Byte(place), what));
        }
        let kind = directory.number(source, tag::SUBFILE_TYPE)?.unwrap_or(0);
        if kind & COPY_OR_MASK == 0 {
            places.push(place);
        }
        next = directory.next;
    }
    Ok(places)
}

impl<S: Source> TiffPages<S> {
    /// The pages at these places. The directories of all are read, so that one that differs is
    /// found before a pixel is.
    pub(in super::super) fn open(
        name: &str,
        mut source: S,
        places: Vec<u64>,
        options: &OpenOptions,
    ) -> Result<TiffPages<S>, FormatError> {
        let mut first = None;
        for (number, place) in places.iter().enumerate() {
            let page = TiffRows::page(name, source, Some(*place), options)?;
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
            return Err(FormatError::damaged(name, Place::Header, "it has no full-size page"));
        };
        let current = Some((TiffRows::page(name, source, Some(places[0]), options)?, size.1));
        let (name, options) = (name.to_owned(), options.clone());
        Ok(TiffPages { name, options, places, size, pixel, notes, current, begun: 1 })
    }

    /// How many pages there are.
    pub fn depth(&self) -> u64 {
        self.places.len() as u64
    }
}

impl<S: Source> Rows for TiffPages<S> {
    fn size(&self) -> (u64, u64) {
        (self.size.0, self.size.1.saturating_mul(self.depth()))
    }

    fn pixel(&self) -> Pixel {
        self.pixel
    }

    fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError> {
        let (mut rows, left) = match self.current.take() {
            Some((rows, 0)) => {
                let Some(place) = self.places.get(self.begun) else {
                    self.current = Some((rows, 0));
                    let what = "all rows of its pages have gone by, there is no further one";
                    return Err(FormatError::misuse(&self.name, what));
                };
                self.begun += 1;
                let source = rows.into_source();
                let rows = TiffRows::page(&self.name, source, Some(*place), &self.options)?;
                (rows, self.size.1)
            }
            Some(current) => current,
            None => return Err(FormatError::misuse(&self.name, "reading has failed before")),
        };
        rows.next_row(row)?;
        self.current = Some((rows, left - 1));
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

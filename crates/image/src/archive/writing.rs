//! Writes a file of extents as an archive.

use std::io::Write;
use std::thread;

use blake3::Hasher;
use pario::{Extent, ExtentPlacement, File};

use super::{END, EXTENT_FOLLOWS, ExtentDigest, ExtentNumbers, MAGIC, UNDER_WAY, VERSION};
use crate::error::ImageError;

/// Writes all extents of a file as an archive; `name` is the name of the archive in errors. `watch`
/// receives the bytes of each extent and can stop the export.
pub fn write_archive(
    file: &File,
    name: &str,
    output: &mut dyn Write,
    mut watch: impl FnMut(u64) -> Result<(), ImageError>,
) -> Result<ExtentDigest, ImageError> {
    let numbers = ExtentNumbers::of(file)?;
    let layout = file.record().layout.as_ref().map(pario::Layout::encode).unwrap_or_default();
    let mut sink = HashingSink { output, hasher: Hasher::new(), name };
    let mut digest = ExtentDigest::default();
    sink.put(&MAGIC)?;
    sink.put(&VERSION.to_le_bytes())?;
    sink.put_length(layout.len())?;
    sink.put(&layout)?;
    for_each_extent(file, &numbers, |number, extent| {
        sink.put(&[EXTENT_FOLLOWS])?;
        sink.put(&number.to_le_bytes())?;
        sink.put_length(extent.header.len())?;
        sink.put_length(extent.body.len())?;
        sink.put(&extent.header)?;
        sink.put(&extent.body)?;
        digest.add(number, &extent.header, &extent.body);
        watch((extent.header.len() + extent.body.len()) as u64)
    })?;
    sink.put(&[END])?;
    sink.put(&digest.extents.to_le_bytes())?;
    let hash = sink.hasher.finalize();
    sink.put(hash.as_bytes())?;
    Ok(digest)
}

/// Calls `take` with the number of each extent and the extent. Reads several extents at the same
/// time.
pub fn for_each_extent(
    file: &File,
    numbers: &ExtentNumbers,
    mut take: impl FnMut(u64, Extent) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let mut listed = file.list_extents()?;
    loop {
        let mut places = Vec::with_capacity(UNDER_WAY);
        for found in listed.by_ref().take(UNDER_WAY) {
            places.push(found?.0);
        }
        if places.is_empty() {
            return Ok(());
        }
        for (place, read) in read_all(file, &places) {
            let Some(number) = numbers.number_of(place) else {
                let why = format!(
                    "{} {} belongs to no tile of the layout; run `pario fsck`",
                    place.subfile, place.extent
                );
                return Err(ImageError::other(file.path(), why));
            };
            // An extent that was deleted after it was listed is not part of the copy.
            if let Some(extent) = read? {
                take(number, extent)?;
            }
        }
    }
}

type ReadExtent = (ExtentPlacement, Result<Option<Extent>, pario::Error>);

fn read_all(file: &File, places: &[ExtentPlacement]) -> Vec<ReadExtent> {
    thread::scope(|scope| {
        let readers: Vec<_> =
            places.iter().map(|place| (*place, scope.spawn(|| file.read_extent(*place)))).collect();
        let joined = readers.into_iter().map(|(place, reader)| {
            let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (place, read)
        });
        joined.collect()
    })
}

/// Writes an archive and hashes what it writes.
struct HashingSink<'a> {
    output: &'a mut dyn Write,
    hasher: Hasher,
    name: &'a str,
}

impl HashingSink<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), ImageError> {
        self.hasher.update(bytes);
        let written = self.output.write_all(bytes);
        written.map_err(|source| ImageError::file(self.name, "write", source))
    }

    fn put_length(&mut self, bytes: usize) -> Result<(), ImageError> {
        let length = u32::try_from(bytes)
            .map_err(|_| ImageError::other(self.name, format!("{bytes} bytes are too many")))?;
        self.put(&length.to_le_bytes())
    }
}

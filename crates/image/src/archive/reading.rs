//! Reads an archive into a new file of extents.

use std::io::{self, Read};
use std::thread;

use blake3::Hasher;
use pario::{Cluster, File, Layout};
use pario_proto::{Disks, Extents, Tiles};

use super::{END, EXTENT_FOLLOWS, ExtentDigest, ExtentNumbers, MAGIC, UNDER_WAY, VERSION};
use crate::error::ImageError;
use crate::stored::choose_disks;

/// Limit for the length of a layout: 8192 disks and some sizes.
const LAYOUT_LIMIT_BYTES: u32 = 1 << 16;
/// Limit for the header, and for the body, of an extent.
const EXTENT_LIMIT_BYTES: u32 = 128 << 20;

/// Disks and permissions of a file that is read from an archive.
#[derive(Clone, Debug, Default)]
pub struct ArchivePlacement {
    /// Number of disks; all disks if it is `None`.
    pub disks: Option<u32>,
    /// Permissions of the new file.
    pub mode: u32,
}

/// Creates a file from an archive; `name` is the name of the archive in errors. The path must be
/// free. On failure the function removes the new file. `watch` receives the bytes of each group of
/// extents and can stop the import.
pub fn read_archive(
    cluster: &Cluster,
    path: &str,
    placement: &ArchivePlacement,
    (name, input): (&str, &mut dyn Read),
    watch: impl FnMut(u64) -> Result<(), ImageError>,
) -> Result<ExtentDigest, ImageError> {
    let mut source = HashingSource { input, hasher: Hasher::new(), name };
    let layout = head(&mut source)?;
    let layout = layout_on_cluster(cluster, name, &layout, placement.disks)?;
    let numbers = ExtentNumbers::of_layout(name, layout.clone())?;
    let options = cluster.options().read(true).write(true).create_new(true);
    let file = options.mode(placement.mode).layout(layout).open(path)?;
    let read = fill(&file, &numbers, &mut source, watch)
        .and_then(|digest| file.sync().map(|()| digest).map_err(ImageError::from));
    if read.is_err() {
        // Report the first failure, not that of the removal.
        let _ = cluster.remove(path);
    }
    read
}

fn head(source: &mut HashingSource<'_>) -> Result<Layout, ImageError> {
    if source.take::<16>()? != MAGIC {
        return Err(source.damaged("it does not begin with the magic bytes of an archive"));
    }
    let version = u32::from_le_bytes(source.take()?);
    if version != VERSION {
        let why =
            format!("it has version {version}, this release reads {VERSION}: use a later release");
        return Err(source.damaged(&why));
    }
    let length = u32::from_le_bytes(source.take()?);
    let bytes = source.take_bytes(length, LAYOUT_LIMIT_BYTES)?;
    Layout::decode(&bytes).map_err(|error| source.damaged(&error.to_string()))
}

/// Returns the layout of the archive on disks of this cluster.
fn layout_on_cluster(
    cluster: &Cluster,
    name: &str,
    layout: &Layout,
    disks: Option<u32>,
) -> Result<Layout, ImageError> {
    let disks: Disks = choose_disks(cluster, disks)?;
    let invalid = |error: &dyn std::fmt::Display| ImageError::other(name, error.to_string());
    match layout {
        Layout::Tiles(tiles) => {
            let tiles = Tiles::new(tiles.image(), tiles.tile(), disks);
            Ok(Layout::Tiles(tiles.map_err(|error| invalid(&error))?))
        }
        Layout::Extents(_) => Ok(Layout::Extents(Extents::new(disks))),
        Layout::Striped(_) => Err(invalid(&"its layout is that of a flat file")),
    }
}

fn fill(
    file: &File,
    numbers: &ExtentNumbers,
    source: &mut HashingSource<'_>,
    mut watch: impl FnMut(u64) -> Result<(), ImageError>,
) -> Result<ExtentDigest, ImageError> {
    let mut digest = ExtentDigest::default();
    loop {
        let mut group = Vec::with_capacity(UNDER_WAY);
        let mut is_end = false;
        while group.len() < UNDER_WAY && !is_end {
            match source.take::<1>()? {
                [EXTENT_FOLLOWS] => {
                    let number = u64::from_le_bytes(source.take()?);
                    let header_len = u32::from_le_bytes(source.take()?);
                    let body_len = u32::from_le_bytes(source.take()?);
                    let header = source.take_bytes(header_len, EXTENT_LIMIT_BYTES)?;
                    let body = source.take_bytes(body_len, EXTENT_LIMIT_BYTES)?;
                    let Some(place) = numbers.place_of(number) else {
                        return Err(source.damaged(&format!("no extent can have number {number}")));
                    };
                    digest.add(number, &header, &body);
                    group.push((place, header, body));
                }
                [END] => is_end = true,
                [other] => return Err(source.damaged(&format!("byte {other} begins no extent"))),
            }
        }
        let bytes: usize = group.iter().map(|(_, header, body)| header.len() + body.len()).sum();
        let written: Result<(), pario::Error> = thread::scope(|scope| {
            let writers: Vec<_> = group
                .iter()
                .map(|(place, header, body)| {
                    scope.spawn(|| file.write_extent(header, body, *place))
                })
                .collect();
            let join = |writer: thread::ScopedJoinHandle<'_, Result<(), pario::Error>>| {
                writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            writers.into_iter().map(join).fold(Ok(()), Result::and)
        });
        written?;
        watch(bytes as u64)?;
        if is_end {
            break;
        }
    }
    let count = u64::from_le_bytes(source.take()?);
    let hash = source.hasher.finalize();
    let stored: [u8; 32] = source.take()?;
    if count != digest.extents || stored != *hash.as_bytes() {
        return Err(source.damaged("its checksum is wrong"));
    }
    Ok(digest)
}

/// Reads an archive and hashes what it reads.
struct HashingSource<'a> {
    input: &'a mut dyn Read,
    hasher: Hasher,
    name: &'a str,
}

impl HashingSource<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        let mut bytes = [0; N];
        let read = self.input.read_exact(&mut bytes);
        read.map_err(|error| self.failed(error))?;
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    /// Reads `length` bytes. Memory grows with the bytes that the input has, whatever `length`
    /// says.
    fn take_bytes(&mut self, length: u32, limit: u32) -> Result<Vec<u8>, ImageError> {
        if length > limit {
            return Err(self.damaged(&format!("{length} bytes are more than the limit of {limit}")));
        }
        let mut bytes = Vec::new();
        let read = (&mut *self.input).take(u64::from(length)).read_to_end(&mut bytes);
        let read = read.map_err(|error| self.failed(error))?;
        if read != length as usize {
            return Err(self.failed(io::ErrorKind::UnexpectedEof.into()));
        }
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    fn failed(&self, error: io::Error) -> ImageError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it ends too early"),
            _ => ImageError::file(self.name, "read", error),
        }
    }

    fn damaged(&self, why: &str) -> ImageError {
        let why = format!("this archive of an image or volume cannot be read: {why}");
        ImageError::other(self.name, why)
    }
}

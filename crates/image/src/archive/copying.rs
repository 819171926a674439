//! Copies files of extents inside a cluster.

use std::ops::ControlFlow;

use pario::{Cluster, File, ProcessReport};

use super::writing::for_each_extent;
use super::{ExtentDigest, ExtentNumbers};
use crate::error::ImageError;

/// Copies a file of extents to a new file on the same disks. Each node copies its own extents. The
/// path must be free. On failure the function removes the new file. `watch` receives a report of
/// the progress and can stop the copy.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use std::ops::ControlFlow;
///
/// use pario_image::archive::{copy_file, digest};
/// use pario_image::{Pixel, VolumeOptions};
///
/// let cluster = pario::Cluster::embedded(dir.path())?;
/// let body = VolumeOptions::new([64, 64, 48], Pixel::GREY).create(&cluster, "/body")?;
/// body.generate(7)?;
/// copy_file(&cluster, body.file(), "/copy", 0o644, |_| ControlFlow::Continue(()))?;
/// assert_eq!(digest(&cluster.open("/copy")?)?, digest(body.file())?);
/// # Ok(())
/// # }
/// ```
pub fn copy_file(
    cluster: &Cluster,
    from: &File,
    to: &str,
    mode: u32,
    mut watch: impl FnMut(&ProcessReport) -> ControlFlow<()>,
) -> Result<u64, ImageError> {
    ExtentNumbers::of(from)?;
    let options = cluster.options().read(true).write(true).create_new(true).mode(mode);
    let layout = from.record().layout.clone();
    let target = match layout {
        Some(layout) => options.layout(layout).open(to)?,
        None => options.extents().open(to)?,
    };
    let work = cluster.process(from).operation("copy", ());
    let stopper = work.stopper();
    let watch = |report: &ProcessReport| {
        if watch(report).is_break() {
            stopper.stop();
        }
    };
    let copied = work.watch(watch).write_to(&target).and_then(|report| {
        target.sync()?;
        Ok(report.progress.written_bytes)
    });
    if copied.is_err() {
        // Report the first failure, not that of the removal.
        let _ = cluster.remove(to);
    }
    Ok(copied?)
}

/// Reads all extents of a file and returns their digest.
pub fn digest(file: &File) -> Result<ExtentDigest, ImageError> {
    let numbers = ExtentNumbers::of(file)?;
    let mut digest = ExtentDigest::default();
    for_each_extent(file, &numbers, |number, extent| {
        digest.add(number, &extent.header, &extent.body);
        Ok(())
    })?;
    Ok(digest)
}

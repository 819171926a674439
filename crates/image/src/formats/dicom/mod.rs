//! DICOM slices as a volume, by the crate `dicom-object`.
//!
//! It is the maintained DICOM library in Rust, reads headers without pixels, and comes without
//! decoders and network. So the reader needs bounded memory: it reads the headers of all files
//! first, then one slice at a time. It rejects compressed pixels and names their transfer syntax.
//!
//! Values are physical: the reader applies slope and intercept of each slice (Hounsfield units for
//! CT). The x axis runs along the rows of the slices, y down their columns, z along the normal of
//! both.

mod gaps;
mod header;
mod rows;
mod series;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::volume::VolumeSource;
use super::{FormatError, FormatOptions};
use header::SliceHeader;

/// Returns the DICOM files of a list.
pub(super) fn dicom_files(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().filter(|path| is_dicom(path)).cloned().collect()
}

/// Returns whether a file has the DICOM mark after its first 128 bytes; false if it cannot be read.
pub(super) fn is_dicom(path: &Path) -> bool {
    let mut head = [0; 132];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.ends_with(b"DICM")
}

/// Opens the slices of one series. `name` is the directory or file that the user named; `others` is
/// the number of files that are not DICOM.
pub(super) fn open(
    name: &str,
    paths: &[PathBuf],
    others: usize,
    options: &FormatOptions,
) -> Result<VolumeSource, FormatError> {
    let mut slices = Vec::new();
    for path in paths {
        // Directories of series also hold indexes and reports, which have no pixels.
        slices.extend(SliceHeader::read(path)?);
    }
    let slices = series::chosen(name, slices, options.series.as_deref())?;
    let mut stack = series::stacked(name, slices)?;
    match others {
        0 => {}
        1 => stack.notes.push("1 file is not DICOM and was left out".to_owned()),
        more => stack.notes.push(format!("{more} files are not DICOM and were left out")),
    }
    let size = stack.size();
    let (spacing, units) = (stack.spacing, stack.units());
    let rows = rows::DicomRows::new(name, stack, options)?;
    Ok(VolumeSource::new(rows, size, spacing).with_units(units))
}

//! Volumes of other programs: rows plane after plane.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::byte_io::ByteSource;
use super::nrrd::{self, HeaderLocation};
use super::open::{buffered, head_of};
use super::stack::{PictureStack, natural_order};
use super::{FormatError, FormatOptions, RawLayout, RawRows, Rows, TiffPages};
use super::{dicom, nifti, npy, read_picture, tiff};
use crate::{Pixel, VoxelUnits};

/// A volume that is read row by row: the rows of the first plane from the top, then those of the
/// next.
pub struct VolumeSource {
    rows: Box<dyn Rows>,
    size: [u64; 3],
    spacing: [f64; 3],
    units: VoxelUnits,
}

impl VolumeSource {
    /// Creates a volume from `size[1] * size[2]` rows.
    pub(super) fn new(
        rows: impl Rows + 'static,
        size: [u64; 3],
        spacing: [f64; 3],
    ) -> VolumeSource {
        let units = VoxelUnits::default();
        VolumeSource { rows: Box::new(rows), size, spacing, units }
    }

    /// Sets the units of values and spacing.
    pub(super) fn with_units(mut self, units: VoxelUnits) -> VolumeSource {
        self.units = units;
        self
    }

    /// Opens a file without a header that has this layout and spacing.
    pub fn raw(
        path: &Path,
        layout: &RawLayout,
        spacing: [f64; 3],
        options: &FormatOptions,
    ) -> Result<VolumeSource, FormatError> {
        let name = path.display().to_string();
        let rows = RawRows::open(&name, buffered(path)?, layout, options)?;
        Ok(VolumeSource::new(rows, layout.size, spacing))
    }

    /// Returns a stack of pictures as a volume with this spacing.
    pub fn stack(stack: PictureStack, spacing: [f64; 3]) -> VolumeSource {
        let (width, rows) = stack.size();
        let depth = stack.depth();
        VolumeSource::new(stack, [width, rows / depth, depth], spacing)
    }

    /// Returns width, height and depth.
    pub fn size(&self) -> [u64; 3] {
        self.size
    }

    /// Returns the distance of neighbouring voxels along x, y and z; 1 if the file does not state
    /// it.
    pub fn spacing(&self) -> [f64; 3] {
        self.spacing
    }

    /// Returns the units of values and spacing, as far as the file states them.
    pub fn units(&self) -> VoxelUnits {
        self.units
    }

    /// Returns the voxel type.
    pub fn pixel(&self) -> Pixel {
        self.rows.pixel()
    }

    /// Returns notes for the user on how the file was interpreted, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        self.rows.notes()
    }

    /// Reads the next row. The first row of a plane follows the last row of the plane before.
    pub fn next_row(&mut self, row: &mut [u8]) -> Result<(), FormatError> {
        self.rows.next_row(row)
    }

    /// Returns all planes as one picture, one below the other.
    pub fn into_rows(self) -> Box<dyn Rows> {
        self.rows
    }
}

impl fmt::Debug for VolumeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VolumeSource { size, spacing, .. } = self;
        f.debug_struct("VolumeSource").field("size", size).field("spacing", spacing).finish()
    }
}

/// Opens a volume: a file that holds one, a directory of DICOM slices or pictures, or a list of
/// them. Pictures are in the natural order of their names, slices in that of their positions. One
/// picture is a volume of depth 1.
pub fn open_volume(
    paths: &[PathBuf],
    options: &FormatOptions,
) -> Result<VolumeSource, FormatError> {
    if let [path] = paths
        && path.is_dir()
    {
        let files = pictures_in(path)?;
        return open_files(&path.display().to_string(), &files, options);
    }
    let first = paths.first().map_or(String::new(), |path| path.display().to_string());
    open_files(&first, paths, options)
}

/// Opens files that make up a volume together, or one file that holds a volume.
fn open_files(
    name: &str,
    paths: &[PathBuf],
    options: &FormatOptions,
) -> Result<VolumeSource, FormatError> {
    let slices = dicom::dicom_files(paths);
    if !slices.is_empty() {
        return dicom::open(name, &slices, paths.len() - slices.len(), options);
    }
    if let Some(series) = &options.series {
        let what = format!("there is no series {series}: none of the files is DICOM");
        return Err(FormatError::misuse(name, what));
    }
    if let [path] = paths {
        let name = path.display().to_string();
        let mut source = buffered(path)?;
        if nrrd::is_nrrd(&head_of(&name, &mut source)?) {
            return nrrd::open(&name, source, HeaderLocation::File(path), options);
        }
        return read_volume(&name, source, options);
    }
    let mut paths = paths.to_vec();
    paths.sort_by(|a, b| natural_order(&a.to_string_lossy(), &b.to_string_lossy()));
    Ok(VolumeSource::stack(PictureStack::open(paths, options)?, [1.0; 3]))
}

/// Opens a volume from a source of bytes, whose start identifies the format.
pub fn read_volume<S: ByteSource + 'static>(
    name: &str,
    mut source: S,
    options: &FormatOptions,
) -> Result<VolumeSource, FormatError> {
    let head = head_of(name, &mut source)?;
    if nrrd::is_nrrd(&head) {
        return nrrd::open(name, source, HeaderLocation::InMemory, options);
    }
    if nifti::is_nifti(&head) {
        return nifti::open(name, source, &head, options);
    }
    if npy::is_npy(&head) {
        let (rows, size) = npy::open(name, source, npy::ArrayKind::Volume, options)?;
        return Ok(VolumeSource::new(rows, size, [1.0; 3]));
    }
    let rows: Box<dyn Rows> = if tiff::is_tiff(&head) {
        let places = tiff::pages(name, &mut source)?;
        let pages = TiffPages::open(name, source, places, options)?;
        let ((width, rows), depth) = (pages.size(), pages.depth());
        return Ok(VolumeSource::new(pages, [width, rows / depth, depth], [1.0; 3]));
    } else {
        read_picture(name, source, options)?
    };
    let (width, height) = rows.size();
    let (size, units) = ([width, height, 1], VoxelUnits::default());
    Ok(VolumeSource { rows, size, spacing: [1.0; 3], units })
}

/// Returns the files of a directory whose names do not start with a dot.
fn pictures_in(directory: &Path) -> Result<Vec<PathBuf>, FormatError> {
    let failed =
        |source| FormatError::Io { name: directory.display().to_string(), action: "list", source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !hidden && entry.path().is_file() {
            paths.push(entry.path());
        }
    }
    if paths.is_empty() {
        let name = directory.display().to_string();
        let what = "there are no files in this directory";
        return Err(FormatError::unsupported(&name, what, "name one with the pictures of a stack"));
    }
    Ok(paths)
}

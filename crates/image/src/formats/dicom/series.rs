//! Which slices make up a volume, and in which order.

use std::collections::BTreeMap;

use super::super::FormatError;
use super::gaps;
use super::header::SliceHeader;
use crate::{LengthUnit, ValueUnit, VoxelUnits};

/// Slices of one series, in the order of a volume.
pub(super) struct SliceStack {
    pub slices: Vec<SliceHeader>,
    pub spacing: [f64; 3],
    pub notes: Vec<String>,
}

impl SliceStack {
    /// Returns width, height and depth.
    pub fn size(&self) -> [u64; 3] {
        let (width, height) = self.slices.first().map_or((0, 0), |slice| slice.size);
        [width, height, self.slices.len() as u64]
    }

    /// Returns the units of values and lengths.
    pub fn units(&self) -> VoxelUnits {
        let values = match self.slices.iter().all(|slice| slice.is_hounsfield) {
            true => ValueUnit::Hounsfield,
            false => ValueUnit::Unknown,
        };
        VoxelUnits { values, lengths: LengthUnit::Millimetre }
    }
}

/// Returns the slices of one series: the only one, or the one that the user chose.
pub(super) fn chosen(
    name: &str,
    slices: Vec<SliceHeader>,
    wanted: Option<&str>,
) -> Result<Vec<SliceHeader>, FormatError> {
    let mut series: BTreeMap<String, Vec<SliceHeader>> = BTreeMap::new();
    for slice in slices {
        series.entry(slice.series.clone()).or_default().push(slice);
    }
    if let Some(wanted) = wanted {
        let listed = listed(&series);
        return series.remove(wanted).ok_or_else(|| {
            let what = format!("there is no series {wanted}; there are {listed}");
            FormatError::misuse(name, what)
        });
    }
    if series.len() > 1 {
        let what = format!("there are {} series of slices: {}", series.len(), listed(&series));
        return Err(FormatError::unsupported(name, what, "choose one with `--series UID`"));
    }
    series.into_values().next().ok_or_else(|| {
        let what = "none of its DICOM files has pixels";
        FormatError::unsupported(name, what, "name the directory of a series of slices")
    })
}

/// Describes all series for a message.
fn listed(series: &BTreeMap<String, Vec<SliceHeader>>) -> String {
    let all = series.iter().map(|(uid, slices)| {
        let about = slices.first().map_or("", |slice| slice.about.as_str());
        let about = if about.is_empty() { "no description" } else { about };
        let count = slices.len();
        format!("{uid} ({about}, {count} {})", if count == 1 { "slice" } else { "slices" })
    });
    all.collect::<Vec<_>>().join(", ")
}

/// Sorts slices along the normal of their planes. Fails if slices differ or are missing.
pub(super) fn stacked(name: &str, slices: Vec<SliceHeader>) -> Result<SliceStack, FormatError> {
    check_alike(&slices)?;
    let positioned: Option<Vec<(f64, SliceHeader)>> =
        slices.iter().map(|slice| Some((along_normal(slice)?, slice.clone()))).collect();
    let (mut placed, is_measured) = match positioned {
        Some(placed) => (placed, true),
        None => {
            let number = |slice: SliceHeader| Some((slice.instance? as f64, slice));
            let numbered: Option<Vec<_>> = slices.iter().cloned().map(number).collect();
            match numbered {
                Some(placed) => (placed, false),
                None if slices.len() == 1 => {
                    (slices.into_iter().map(|slice| (0.0, slice)).collect(), false)
                }
                None => {
                    let what = "its slices have neither positions nor numbers";
                    let advice = "convert it to NIfTI or NRRD with a program that knows it";
                    return Err(FormatError::unsupported(name, what, advice));
                }
            }
        }
    };
    placed.sort_by(|one, other| one.0.total_cmp(&other.0));
    let step = gaps::step(name, &placed)?;
    let first = &placed[0].1;
    let depth = match (step, is_measured) {
        (Some(step), true) => step,
        _ => first.depth.unwrap_or(1.0),
    };
    let [x, y] = first.spacing;
    let mut notes = Vec::new();
    if first.is_inverted {
        notes.push("small values are meant to be shown white (MONOCHROME1)".to_owned());
    }
    if is_measured && is_tilted(&placed) {
        notes.push(
            "the slices are shifted in their planes (tilted gantry); the volume is stored as if \
             they were not"
                .to_owned(),
        );
    }
    let slices = placed.into_iter().map(|(_, slice)| slice).collect();
    Ok(SliceStack { slices, spacing: [x, y, depth], notes })
}

/// Fails if slices differ in size, pixel or direction.
fn check_alike(slices: &[SliceHeader]) -> Result<(), FormatError> {
    let Some(first) = slices.first() else { return Ok(()) };
    let shape = |slice: &SliceHeader| {
        let ((width, height), pixel) = (slice.size, slice.pixel);
        let channels = pixel.stored().channels();
        let directions = slice.directions.map_or(String::new(), |[row, column]| {
            let round = |vector: [f64; 3]| vector.map(|part| (part * 1_000.0).round() / 1_000.0);
            format!(", with rows along {:?} and columns along {:?}", round(row), round(column))
        });
        format!("{width} x {height} of {channels} x {}{directions}", pixel.number())
    };
    let expected = shape(first);
    match slices.iter().map(|slice| (slice, shape(slice))).find(|(_, has)| *has != expected) {
        None => Ok(()),
        Some((slice, has)) => {
            Err(FormatError::Differs { name: slice.name(), has, first: first.name(), expected })
        }
    }
}

/// Returns the position of a slice along the normal of its plane.
fn along_normal(slice: &SliceHeader) -> Option<f64> {
    let [row, column] = slice.directions?;
    let position = slice.position?;
    let cross = |one: usize, two: usize| row[one] * column[two] - row[two] * column[one];
    let normal = [cross(1, 2), cross(2, 0), cross(0, 1)];
    let length = normal.iter().map(|part| part * part).sum::<f64>().sqrt();
    let along = position.iter().zip(normal).map(|(at, part)| at * part).sum::<f64>();
    Some(along / length).filter(|along| along.is_finite())
}

/// Returns whether slices are shifted in their planes by more than a pixel.
fn is_tilted(placed: &[(f64, SliceHeader)]) -> bool {
    let (Some((_, first)), Some((_, last))) = (placed.first(), placed.last()) else { return false };
    let (Some(from), Some(to), Some(directions)) =
        (first.position, last.position, first.directions)
    else {
        return false;
    };
    directions.into_iter().zip(first.spacing).any(|(direction, pixel)| {
        let along: f64 = (0..3).map(|axis| (to[axis] - from[axis]) * direction[axis]).sum();
        along.abs() > pixel
    })
}

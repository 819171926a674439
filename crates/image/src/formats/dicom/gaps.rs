//! The distance of slices, and missing slices.

use super::super::FormatError;
use super::header::SliceHeader;

/// Limit for the deviation of a distance from the usual one, as a fraction of it.
const TOLERANCE: f64 = 0.1;

/// Limit for the gaps that an error names.
const NAMED_GAPS: usize = 5;

/// Returns the distance of sorted slices; `None` for a single slice. Fails if slices lie at the
/// same position, are missing, or have uneven distances.
pub(super) fn step(name: &str, placed: &[(f64, SliceHeader)]) -> Result<Option<f64>, FormatError> {
    let distances: Vec<f64> = placed.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let mut sorted = distances.clone();
    sorted.sort_by(f64::total_cmp);
    let Some(usual) = sorted.get(sorted.len().saturating_sub(1) / 2).copied() else {
        return Ok(None);
    };
    let smallest = sorted[0];
    if smallest <= 0.01 * usual || usual <= 0.0 {
        let at = distances.iter().position(|distance| *distance == smallest).unwrap_or(0);
        let [one, other] = [&placed[at].1, &placed[at + 1].1].map(SliceHeader::file_name);
        let what =
            format!("the slices {one} and {other} lie at the same position ({})", placed[at].0);
        let advice =
            "remove the files that do not belong to the volume, such as other times or echoes";
        return Err(FormatError::unsupported(name, what, advice));
    }
    let mut missing = 0u64;
    let mut named = Vec::new();
    for (at, distance) in distances.iter().enumerate() {
        let steps = distance / usual;
        if (steps - 1.0).abs() <= TOLERANCE {
            continue;
        }
        let [(from, one), (to, other)] = [&placed[at], &placed[at + 1]];
        let between = format!("{} ({from}) and {} ({to})", one.file_name(), other.file_name());
        if steps < 1.5 || (steps - steps.round()).abs() > TOLERANCE * steps {
            let what = format!(
                "the distances of its slices differ: {usual} usually, but {distance} between {between}"
            );
            let advice = "resample it with a program that knows where slices are, or remove \
                          the slices that do not fit";
            return Err(FormatError::unsupported(name, what, advice));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 1")]
        let count = steps.round() as u64 - 1;
        missing += count;
        named.push(format!("{count} between {between}"));
    }
    if missing == 0 {
        let (first, last) = (placed[0].0, placed[placed.len() - 1].0);
        return Ok(Some((last - first) / distances.len() as f64));
    }
    let more = named.len().saturating_sub(NAMED_GAPS);
    named.truncate(NAMED_GAPS);
    let mut what = format!(
        "{missing} {} missing: {}",
        if missing == 1 { "slice is" } else { "slices are" },
        named.join(", ")
    );
    if more > 0 {
        what = format!("{what}, and {more} gaps more");
    }
    Err(FormatError::unsupported(
        name,
        what,
        "fetch them, or name the files before or behind the gap",
    ))
}

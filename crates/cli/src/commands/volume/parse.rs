//! Parses sizes, coordinates and kinds of voxels; formats the values of a volume as JSON.

use pario_image::formats::{FileNumber, FilePixel};
use pario_image::{VoxelStatistics, VoxelUnits};
use serde_json::{Value, json};

/// Returns the recorded values of a volume as JSON.
pub fn values_json(statistics: &VoxelStatistics) -> Value {
    json!({
        "minimum": statistics.minimum,
        "maximum": statistics.maximum,
        "percentile_1": statistics.percentile_1,
        "percentile_99": statistics.percentile_99,
    })
}

/// Returns the units of values and lengths as JSON.
pub fn units_json(units: VoxelUnits) -> Value {
    json!({ "values": units.values.symbol(), "lengths": units.lengths.symbol() })
}

/// Parses `512x512x640`.
pub fn voxels(text: &str) -> Result<[u64; 3], String> {
    numbers(text, 'x').ok_or_else(|| format!("{text:?} is not a size; write it like 512x512x640"))
}

/// Parses `512x512`.
pub fn pixels(text: &str) -> Result<[u32; 2], String> {
    numbers(text, 'x').ok_or_else(|| format!("{text:?} is not a size; write it like 512x512"))
}

/// Parses `-160,240`: two different values, the lower one first.
pub fn window(text: &str) -> Result<[f64; 2], String> {
    let ordered =
        |window: &[f64; 2]| window.iter().all(|value| value.is_finite()) && window[0] < window[1];
    let wrong = || format!("{text:?} is not a window of values; write it like -160,240");
    numbers(text, ',').filter(ordered).ok_or_else(wrong)
}

/// Parses `0.33,0.33,1`.
pub fn coordinates(text: &str) -> Result<[f64; 3], String> {
    let finite = |numbers: &[f64; 3]| numbers.iter().all(|number| number.is_finite());
    numbers(text, ',')
        .filter(finite)
        .ok_or_else(|| format!("{text:?} is not a position or direction; write it like 0.5,-1,2"))
}

/// Parses `u8`, `u16x3`, `f32`.
pub fn pixel(text: &str) -> Result<FilePixel, String> {
    let (sample, channels) = text.split_once('x').unwrap_or((text, "1"));
    let sample = FileNumber::ALL.into_iter().find(|known| known.to_string() == sample);
    let channels = channels.parse().ok();
    match (sample, channels) {
        (Some(sample), Some(channels)) => {
            FilePixel::new(sample, channels).map_err(|error| error.to_string())
        }
        _ => {
            Err(format!("{text:?} is not a kind of voxel; write it like u8, u8x3, i16, u16 or f32"))
        }
    }
}

/// Parses `32x32x16+z`: the size of a box, and the axes along which it also holds the first layer
/// of the next.
pub fn boxes(text: &str) -> Result<([u64; 3], [bool; 3]), String> {
    let (size, overlap) = text.split_once('+').unwrap_or((text, ""));
    let wrong =
        || format!("{text:?} is not a size of boxes; write it like 32x32x16 or 32x32x16+xyz");
    if overlap.chars().any(|axis| !"xyz".contains(axis)) {
        return Err(wrong());
    }
    let size = numbers(size, 'x').ok_or_else(wrong)?;
    Ok((size, ['x', 'y', 'z'].map(|axis| overlap.contains(axis))))
}

fn numbers<T: std::str::FromStr, const N: usize>(text: &str, between: char) -> Option<[T; N]> {
    let parsed: Result<Vec<T>, _> = text.split(between).map(|part| part.trim().parse()).collect();
    parsed.ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use pario_image::{Pixel, Sample};

    use super::*;

    #[test]
    fn what_people_write_is_understood() {
        assert_eq!(voxels("512x512x640"), Ok([512, 512, 640]));
        assert_eq!(pixels("10x20"), Ok([10, 20]));
        assert_eq!(coordinates("0.5, -1,2"), Ok([0.5, -1.0, 2.0]));
        assert_eq!(pixel("u8x3"), Ok(Pixel::RGB.into()));
        assert_eq!(pixel("f64").map(FilePixel::bytes), Ok(8));
        assert_eq!(pixel("i16").map(|pixel| pixel.stored().sample()), Ok(Sample::I16));
        assert_eq!(boxes("32x32x16+z"), Ok(([32, 32, 16], [false, false, true])));
        assert_eq!(boxes("8x8x8"), Ok(([8, 8, 8], [false; 3])));
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_an_example() {
        assert!(voxels("512x512").unwrap_err().contains("like 512x512x640"));
        assert!(pixels("-1x3").is_err());
        assert!(coordinates("1,NaN,2").is_err());
        assert!(coordinates("1,2").is_err());
        assert!(pixel("u8x5").unwrap_err().contains("1 to 4 channels"));
        assert!(pixel("u128").unwrap_err().contains("u8x3"));
        assert!(boxes("32x32x16+w").is_err());
    }
}

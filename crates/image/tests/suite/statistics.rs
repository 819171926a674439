//! Extremes and percentiles of grey volumes, computed at the nodes and in memory.

use crate::site::Site;
#[allow(dead_code, reason = "pixels of pictures are not needed here")]
use pario::Cluster;
use pario_image::{
    Bins, Compression, Histogram, LengthUnit, Pixel, Pixels, Sample, ValueUnit, Volume,
    VolumeOptions, VoxelStatistics, VoxelUnits,
};

fn at(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// A volume in boxes that overlap, filled box by box, and its voxels.
fn filled(
    cluster: &Cluster,
    path: &str,
    pixel: Pixel,
    random: &mut fastrand::Rng,
    value: &mut dyn FnMut(&mut fastrand::Rng) -> f64,
) -> (Volume, Vec<u8>) {
    let sides = [0; 3].map(|_| random.u64(1..30));
    let core = [0; 3].map(|_| random.u64(1..20));
    let volume = VolumeOptions::new(sides, pixel)
        .boxes(core, [0; 3].map(|_| random.bool()))
        .compression(Compression::ALL[random.usize(0..3)])
        .create(cluster, path)
        .unwrap();
    let [width, height, depth] = sides.map(at);
    let mut voxels = Vec::new();
    for _ in 0..width * height * depth * pixel.channels() {
        pixel.sample().append(value(random), &mut voxels);
    }
    let boxes = volume.tiles().tiles_per_axis();
    for z in 0..boxes.z {
        for y in 0..boxes.y {
            for x in 0..boxes.x {
                let tile = pario_proto::TilePosition { x, y, z };
                let overlap = volume.description().overlap;
                let grid =
                    pario_image::BoxGrid::new(volume.shape(), volume.tiles().tile(), overlap)
                        .unwrap();
                let stored = grid.stored(tile).unwrap();
                let mut bytes = Vec::new();
                for z in stored.start.z..stored.start.z + stored.size.z {
                    for y in stored.start.y..stored.start.y + stored.size.y {
                        let first = (at(z) * height + at(y)) * width + at(stored.start.x);
                        let row = &voxels[first * pixel.bytes()..];
                        bytes.extend_from_slice(&row[..at(stored.size.x) * pixel.bytes()]);
                    }
                }
                volume.write_box(tile, &bytes).unwrap();
            }
        }
    }
    (volume, voxels)
}

/// The statistics of the sorted values.
fn plain(sample: Sample, voxels: &[u8]) -> VoxelStatistics {
    let mut values: Vec<f64> =
        voxels.chunks(sample.bytes()).map(|bytes| sample.value(bytes)).collect();
    values.retain(|value| !value.is_nan());
    values.sort_by(f64::total_cmp);
    let rank = |percent: usize| values[(values.len() - 1) * percent / 100];
    VoxelStatistics {
        minimum: rank(0),
        maximum: rank(100),
        percentile_1: rank(1),
        percentile_99: rank(99),
    }
}

#[test]
fn statistics_are_those_of_all_voxels_once_and_stay_in_the_header() {
    for site in [Site::embedded(), Site::two_nodes()] {
        let mut random = fastrand::Rng::with_seed(5);
        for number in 0..15 {
            let sample = Sample::ALL[number % 5];
            let pixel = Pixel::new(sample, 1).unwrap();
            let [least, greatest] = sample.range();
            let path = format!("/volume{number}");
            let mut value =
                |random: &mut fastrand::Rng| least + random.f64().powi(3) * (greatest - least);
            let (volume, voxels) = filled(&site.cluster, &path, pixel, &mut random, &mut value);
            assert_eq!(volume.statistics(), None);
            let found = volume.record_statistics().unwrap().unwrap();
            assert_eq!(volume.statistics(), Some(found));
            volume.sync().unwrap();
            let again = Volume::open(&site.cluster, &path).unwrap();
            assert_eq!(again.statistics(), Some(found), "{}", site.name);
            assert_eq!(again.description(), volume.description());

            let expected = plain(sample, &voxels);
            if sample != Sample::F32 {
                assert_eq!(found, expected, "{} {pixel}", site.name);
            } else {
                assert_eq!((found.minimum, found.maximum), (expected.minimum, expected.maximum));
                assert!((found.percentile_1 - expected.percentile_1).abs() < 1e-4);
                assert!((found.percentile_99 - expected.percentile_99).abs() < 1e-4);
            }
            let rows = u32::try_from(voxels.len() / pixel.bytes()).unwrap();
            let whole = Pixels::new(1, rows, pixel, voxels).unwrap();
            let mut histogram = Histogram::new(pixel, Bins::usual(sample)).unwrap();
            histogram.count(&whole).unwrap();
            assert!(volume.histogram(Bins::usual(sample)).unwrap() == histogram);
        }
    }
}

#[test]
fn a_few_outliers_do_not_blur_the_percentiles_of_floats() {
    let site = Site::embedded();
    let mut random = fastrand::Rng::with_seed(6);
    let pixel = Pixel::new(Sample::F32, 1).unwrap();
    let seen = std::cell::Cell::new(0);
    let mut value = |random: &mut fastrand::Rng| {
        seen.set(seen.get() + 1);
        match seen.get() {
            1 => 1e9,
            2 => -1e9,
            3 => f64::NAN,
            _ => random.f64(),
        }
    };
    let (volume, voxels) = loop {
        let path = format!("/outliers{}", random.u32(..));
        let made = filled(&site.cluster, &path, pixel, &mut random, &mut value);
        // With at least a thousand voxels, two are less than 1 %.
        if made.1.len() > 4_000 {
            break made;
        }
        seen.set(0);
    };
    let (found, expected) =
        (volume.record_statistics().unwrap().unwrap(), plain(Sample::F32, &voxels));
    assert_eq!((found.minimum, found.maximum), (-1e9, 1e9));
    assert!((found.percentile_1 - expected.percentile_1).abs() < 1.0, "{found:?} {expected:?}");
    assert!((found.percentile_99 - expected.percentile_99).abs() < 1.0, "{found:?} {expected:?}");
}

#[test]
fn colours_and_values_that_are_not_finite_have_no_statistics() {
    let site = Site::embedded();
    let mut random = fastrand::Rng::with_seed(7);
    let colour = Pixel::RGB;
    let options = VolumeOptions::new([5, 4, 3], colour);
    let volume = options.create(&site.cluster, "/colour").unwrap();
    assert_eq!(volume.record_statistics().unwrap(), None);
    let real = Pixel::new(Sample::F32, 1).unwrap();
    let mut infinite = |_: &mut fastrand::Rng| f64::INFINITY;
    let (volume, _) = filled(&site.cluster, "/infinite", real, &mut random, &mut infinite);
    assert_eq!(volume.record_statistics().unwrap(), None);
    // Nothing is written: all is 0, and there is no window.
    let grey = VolumeOptions::new([5, 4, 3], Pixel::GREY).create(&site.cluster, "/blank").unwrap();
    let found = grey.record_statistics().unwrap().unwrap();
    assert_eq!((found.minimum, found.maximum, found.window()), (0.0, 0.0, None));
}

#[test]
fn statistics_and_units_are_in_the_header() {
    let site = Site::embedded();
    let cluster = &site.cluster;
    let units = VoxelUnits { values: ValueUnit::Hounsfield, lengths: LengthUnit::Millimetre };
    let ct =
        VolumeOptions::new([4, 4, 4], Pixel::GREY).units(units).create(cluster, "/ct").unwrap();
    ct.generate(1).unwrap();
    let computed = ct.compute_statistics().unwrap();
    assert_eq!((ct.statistics(), computed.is_some()), (computed, true));
    // Other clients find only recorded statistics; units are stored from the start.
    let again = Volume::open(cluster, "/ct").unwrap();
    assert_eq!((again.statistics(), again.units()), (None, units));
    ct.record_statistics().unwrap();
    let again = Volume::open(cluster, "/ct").unwrap();
    assert_eq!((again.statistics(), again.units()), (computed, units));
}

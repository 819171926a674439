//! Volumes on a cluster: stored voxels, and slices that the nodes extract.

use pario::Cluster;
use pario_image::{
    Blend, BoxGrid, Compression, Cut, ImageError, Interpolation, Pixel, Plane, Sample, SlabCut,
    SliceParts, SliceQuery, Volume, VolumeOptions,
};
use pario_proto::{Shape, TilePosition, TileWindow};

fn at(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// A volume with random voxels, in memory and on a cluster.
struct VolumePair {
    volume: Volume,
    voxels: Vec<u8>,
    shape: Shape,
    pixel: Pixel,
}

impl VolumePair {
    fn random(cluster: &Cluster, path: &str, random: &mut fastrand::Rng) -> Self {
        let sides = [0; 3].map(|_| random.u64(1..40));
        let core = [0; 3].map(|_| random.u64(1..20));
        let overlap = [0; 3].map(|_| random.bool());
        let samples = Sample::ALL;
        let pixel = Pixel::new(samples[random.usize(..samples.len())], random.u32(1..5)).unwrap();
        let spacing = [0; 3].map(|_| 0.5 + random.f64() * 2.0);
        let options = VolumeOptions::new(sides, pixel)
            .boxes(core, overlap)
            .spacing(spacing)
            .compression(Compression::ALL[random.usize(0..3)])
            .disk_count(random.u32(1..5));
        let volume = options.create(cluster, path).unwrap();
        let shape = volume.shape();
        let samples = at(shape.x * shape.y * shape.z) * pixel.channels();
        let value = |random: &mut fastrand::Rng| match pixel.sample() {
            Sample::U8 => vec![random.u8(0..20)],
            Sample::I8 => random.i8(-20..20).to_le_bytes().to_vec(),
            Sample::U16 | Sample::I16 => random.u16(..).to_le_bytes().to_vec(),
            Sample::F32 => random.f32().to_le_bytes().to_vec(),
        };
        let voxels: Vec<u8> = (0..samples).flat_map(|_| value(random)).collect();
        let both = Self { volume, voxels, shape, pixel };
        both.write();
        both
    }

    fn write(&self) {
        let tiles = self.volume.tiles();
        let start = TilePosition { x: 0, y: 0, z: 0 };
        let all = TileWindow { start, size: tiles.tiles_per_axis() };
        let grid =
            BoxGrid::new(self.shape, tiles.tile(), self.volume.description().overlap).unwrap();
        for tile in tiles.tiles_in(all).unwrap() {
            let stored = grid.stored(tile).unwrap();
            let mut voxels = Vec::new();
            for z in stored.start.z..stored.start.z + stored.size.z {
                for y in stored.start.y..stored.start.y + stored.size.y {
                    let first = (z * self.shape.y + y) * self.shape.x + stored.start.x;
                    let bytes = self.pixel.bytes();
                    let first = at(first) * bytes;
                    voxels
                        .extend_from_slice(&self.voxels[first..first + at(stored.size.x) * bytes]);
                }
            }
            self.volume.write_box(tile, &voxels).unwrap();
            assert_eq!(self.volume.read_box(tile).unwrap().unwrap().1, voxels);
        }
    }

    /// The whole volume as one box.
    fn whole(&self) -> BoxGrid {
        BoxGrid::new(self.shape, self.shape, [false; 3]).unwrap()
    }

    fn expected(&self, plane: &Plane, interpolation: Interpolation, background: &[u8]) -> Vec<u8> {
        let cut = Cut::new(*plane, self.whole(), self.pixel, interpolation).unwrap();
        let mut parts = SliceParts::new();
        cut.extract(TilePosition { x: 0, y: 0, z: 0 }, &self.voxels, &mut parts).unwrap();
        let mut slice = cut.blank(background);
        slice.paste(&parts).unwrap();
        slice.into_data().unwrap()
    }

    fn same(&self, found: &[u8], expected: &[u8]) {
        if self.pixel.sample() != Sample::F32 {
            assert!(found == expected, "{:?}", self.volume);
            return;
        }
        let floats = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        for (found, expected) in floats(found).into_iter().zip(floats(expected)) {
            assert!((found - expected).abs() < 1e-5, "{found} instead of {expected}");
        }
    }
}

fn random_plane(random: &mut fastrand::Rng, volume: &Volume) -> SliceQuery {
    let direction = |random: &mut fastrand::Rng| [0; 3].map(|_| random.f64() - 0.5);
    let centre = volume.centre();
    let place = [0, 1, 2].map(|axis| centre[axis] * (0.5 + random.f64()));
    Plane::through(place)
        .normal(direction(random))
        .size(random.u32(1..80), random.u32(1..80))
        .zoom([0.3, 1.0, 2.5][random.usize(0..3)])
}

#[test]
fn slices_are_the_same_as_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::embedded(dir.path()).unwrap();
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let both = VolumePair::random(&cluster, &format!("/volume {seed}"), &mut random);
        // A newly opened volume knows only what is stored.
        let volume = Volume::open(&cluster, &format!("/volume {seed}")).unwrap();
        for _ in 0..3 {
            let query = random_plane(&mut random, &volume);
            let plane = query.in_volume(volume.spacing()).unwrap();
            for interpolation in [Interpolation::Nearest, Interpolation::Trilinear] {
                let background = [3; 16];
                let (slice, report) = volume.slice_of(&plane, interpolation, &background).unwrap();
                both.same(slice.data(), &both.expected(&plane, interpolation, &background));
                assert_eq!(report.progress.done, report.progress.total);
                // The background shows exactly where a slice is not covered.
                let (covered, _) = volume.covered_slice(&plane, interpolation, false).unwrap();
                both.same(covered.data(), &both.expected(&plane, interpolation, &[]));
                let other = both.expected(&plane, interpolation, &[1; 16]);
                let bytes = both.pixel.bytes();
                let is_same =
                    slice.data().chunks(bytes).zip(other.chunks(bytes)).map(|(a, b)| a == b);
                if both.pixel.sample() != Sample::F32 {
                    assert!(is_same.eq(covered.coverage().unwrap().iter().copied()));
                }
                assert_eq!(slice.coverage(), None);
            }
            let found = volume.slice(query).unwrap();
            both.same(found.data(), &both.expected(&plane, Interpolation::Nearest, &[]));
        }
    }
}

#[test]
fn slabs_are_the_same_as_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::embedded(dir.path()).unwrap();
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let both = VolumePair::random(&cluster, &format!("/volume {seed}"), &mut random);
        let spacing = both.volume.spacing();
        let query = random_plane(&mut random, &both.volume);
        for blend in [Blend::Maximum, Blend::Mean] {
            for interpolation in [Interpolation::Nearest, Interpolation::Trilinear] {
                let slab = query.slab_in_volume(spacing, 5, 0.7, blend).unwrap();
                let cut = SlabCut::new(slab, both.whole(), both.pixel, interpolation).unwrap();
                let mut parts = cut.blank();
                let corner = TilePosition { x: 0, y: 0, z: 0 };
                cut.extract(corner, &both.voxels, &mut parts).unwrap();
                let expected = parts.finish(&[]).unwrap().into_data().unwrap();
                let (found, _) = both.volume.slab(query, 5, 0.7, blend, interpolation).unwrap();
                both.same(found.data(), &expected);
            }
        }
    }
}

#[test]
fn a_series_comes_in_order_and_a_body_is_the_same_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::embedded(dir.path()).unwrap();
    let create = |path: &str, disks: u32, core: [u64; 3]| {
        let options = VolumeOptions::new([70, 50, 60], Pixel::RGB).disk_count(disks);
        let volume = options.boxes(core, [true; 3]).create(&cluster, path).unwrap();
        let report = volume.generate(5).unwrap();
        assert_eq!(report.progress.written, report.progress.total);
        assert_eq!(report.progress.result_bytes, 0, "nothing of it comes here");
        volume
    };
    let volumes = [create("/a", 4, [32, 32, 16]), create("/b", 1, [70, 50, 60])];
    let planes: Vec<Plane> = (0..30)
        .map(|z| Plane::axial([35.0, 25.0, f64::from(z) * 2.0]).size(70, 50))
        .map(|query| query.in_volume([1.0; 3]).unwrap())
        .collect();
    let of = |volume: &Volume| -> Vec<Vec<u8>> {
        let series = volume.series(planes.clone(), Interpolation::Nearest);
        series.map(|taken| taken.unwrap().0.into_data().unwrap()).collect()
    };
    let (first, second) = (of(&volumes[0]), of(&volumes[1]));
    assert_eq!((first.len(), &first), (30, &second));
    let alone = volumes[0].slice_of(&planes[17], Interpolation::Nearest, &[]).unwrap().0;
    assert_eq!(alone.data(), first[17]);
    assert!(first.iter().any(|slice| slice.iter().any(|byte| *byte > 50)), "there is something");
    // Dropping the series stops the fetching.
    drop(volumes[0].series(planes, Interpolation::Nearest).take(3));
}

#[test]
fn files_that_are_not_volumes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::embedded(dir.path()).unwrap();
    cluster.create("/bytes").unwrap();
    cluster.options().write(true).create(true).extents().open("/extents").unwrap();
    for path in ["/bytes", "/extents"] {
        let error = Volume::open(&cluster, path).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{path}: not an image or volume")));
    }
    let options = || VolumeOptions::new([10, 10, 10], Pixel::GREY);
    let wrong = [
        VolumeOptions::new([10, 0, 10], Pixel::GREY),
        options().boxes([0, 1, 1], [false; 3]),
        options().spacing([1.0, f64::NAN, 1.0]),
        options().spacing([1.0, -1.0, 1.0]),
        options().disk_count(0),
        options().disk_count(99),
        VolumeOptions::new([5000; 3], Pixel::RGB).boxes([500; 3], [false; 3]),
    ];
    for options in wrong {
        let error = options.clone().create(&cluster, "/wrong").unwrap_err();
        assert!(!matches!(error, ImageError::Cluster(_)), "{options:?}: {error}");
        assert!(cluster.open("/wrong").is_err(), "nothing was made");
    }
    let volume = options().create(&cluster, "/volume").unwrap();
    let error = volume.write_box(TilePosition { x: 0, y: 0, z: 0 }, &[1, 2, 3]).unwrap_err();
    assert!(error.to_string().contains("1000 bytes of voxels, and 3 were given"), "{error}");
    assert!(volume.write_box(TilePosition { x: 5, y: 0, z: 0 }, &[]).is_err());
    // Nothing is written: all is background.
    let slice = volume.slice(Plane::axial([5.0; 3]).size(8, 8)).unwrap();
    assert_eq!(slice.data(), [0; 64]);
    assert!(volume.slice(Plane::axial([5.0; 3]).size(0, 8)).is_err());
}

#[test]
fn volumes_of_other_programs_are_imported() {
    use pario_image::formats::{FormatOptions, create_volume, open_volume};
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::embedded(dir.path().join("cluster")).unwrap();
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let both = VolumePair::random(&cluster, &format!("/written {seed}"), &mut random);
        let VolumePair { volume, voxels, shape, pixel } = &both;
        let path = dir.path().join(format!("{seed}.nrrd"));
        let sides = [shape.x, shape.y, shape.z];
        let mut sink = create_volume(&path, sides, volume.spacing(), *pixel).unwrap();
        for row in voxels.chunks_exact(at(shape.x) * pixel.bytes()) {
            sink.put_row(row).unwrap();
        }
        sink.finish().unwrap();
        let mut source =
            open_volume(std::slice::from_ref(&path), &FormatOptions::default()).unwrap();
        let tile = volume.tiles().tile();
        let options = VolumeOptions::new(source.size(), source.pixel())
            .spacing(source.spacing())
            .boxes([tile.x, tile.y, tile.z], volume.description().overlap);
        let imported = options.create(&cluster, &format!("/imported {seed}")).unwrap();
        let mut done = 0;
        imported
            .import(&mut source, |planes| {
                assert!(planes > done);
                done = planes;
                Ok(())
            })
            .unwrap();
        assert_eq!(done, shape.z);
        let start = TilePosition { x: 0, y: 0, z: 0 };
        let all = TileWindow { start, size: volume.tiles().tiles_per_axis() };
        for tile in volume.tiles().tiles_in(all).unwrap() {
            assert_eq!(imported.read_box(tile).unwrap(), volume.read_box(tile).unwrap(), "{tile}");
        }
        // A volume of another size or of other voxels is rejected.
        let mut source = open_volume(&[path], &FormatOptions::default()).unwrap();
        let other = VolumeOptions::new([shape.x + 1, shape.y, shape.z], *pixel);
        let other = other.create(&cluster, &format!("/other {seed}")).unwrap();
        assert!(other.import(&mut source, |_| Ok(())).is_err());
    }
}

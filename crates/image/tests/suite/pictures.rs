//! Images on a cluster: the results of the nodes are those of the plain functions of whole images,
//! bit by bit.

use std::ops::ControlFlow;
use std::time::Instant;

use crate::site::{Site, random_pixels};
use pario::Cluster;
use pario_image::formats::{FormatOptions, create_picture, open_picture};
use pario_image::{
    AffineMap, Bins, Canvas, Compression, Contribution, Edge, Filter, FilterBuffers, Histogram,
    Image, ImageError, ImageOptions, ImageWindow, PaddedTile, Pixel, Pixels, Pixelwise, Resampling,
    Sample, Sampling, Summary, TileGrid, Total, VolumeOptions,
};
use pario_proto::{Shape, TilePosition};

/// An image with random pixels, in memory and on a cluster. Some tiles are not written.
struct ImagePair {
    image: Image,
    pixels: Pixels,
}

impl ImagePair {
    fn random(cluster: &Cluster, path: &str, random: &mut fastrand::Rng) -> Self {
        let [width, height] = [0; 2].map(|_| random.u32(1..90));
        let tile = [0; 2].map(|_| random.u64(1..50));
        let samples = Sample::ALL;
        let pixel = Pixel::new(samples[random.usize(0..3)], random.u32(1..5)).unwrap();
        let image = ImageOptions::new([width.into(), height.into()], pixel)
            .tile(tile)
            .compression(Compression::ALL[random.usize(0..3)])
            .disk_count(random.u32(1..5))
            .create(cluster, path)
            .unwrap();
        let mut pixels = Pixels::blank(width, height, pixel).unwrap();
        // Windows that overlap, until most tiles are written; or hardly any.
        for _ in 0..random.u32(1..6) {
            let window = random_window(random, image.window());
            let part = random_pixels(random, window.width, window.height, pixel);
            image.write(window.x, window.y, &part).unwrap();
            pixels.paste(window.x, window.y, &part).unwrap();
        }
        Self { image, pixels }
    }

    /// The whole image as one tile.
    fn padded(&self, border: u32, edge: Edge) -> PaddedTile {
        let size = Shape::image(self.pixels.width().into(), self.pixels.height().into());
        let grid = TileGrid::new(size, size).unwrap();
        let parts = [(self.pixels.window(), &self.pixels)];
        PaddedTile::assemble(&grid, TilePosition::image(0, 0), border, edge, parts).unwrap()
    }
}

fn random_window(random: &mut fastrand::Rng, image: ImageWindow) -> ImageWindow {
    let mut side = |length: u32| {
        let start = random.u32(0..length);
        (start, random.u32(1..=length - start))
    };
    let ((x, width), (y, height)) = (side(image.width), side(image.height));
    ImageWindow { x, y, width, height }
}

fn resampled(pixels: &Pixels, resampling: Resampling, background: [f32; 4]) -> Pixels {
    let mut canvas = Canvas::new(resampling, pixels.pixel(), background).unwrap();
    let mut contribution = Contribution::new();
    let whole = pixels.window();
    resampling.contribute(whole, whole, pixels, &mut contribution).unwrap();
    canvas.add(&contribution).unwrap();
    canvas.finish()
}

/// A window scaled to a size, by the definition.
fn scaled(pixels: &Pixels, window: ImageWindow, width: u32, height: u32) -> Pixels {
    let factors =
        [window.width.div_ceil(width), (window.width / width).min(window.height / height)];
    let reductions = factors.map(|factor| Resampling::Reduction { window, factor });
    let between =
        |map| Resampling::Mapped { map, width, height, interpolation: Sampling::Bilinear };
    let map = AffineMap::scaled(window, width, height).unwrap();
    if reductions[0].size() == (width, height) {
        return resampled(pixels, reductions[0], [0.0; 4]);
    }
    if factors[1] < 2 {
        return resampled(pixels, between(map), [0.0; 4]);
    }
    let [right, down] = [map.right[0], map.down[1]].map(|step| step / i64::from(factors[1]));
    let map = AffineMap { origin: [right / 2, down / 2], right: [right, 0], down: [0, down] };
    resampled(&resampled(pixels, reductions[1], [0.0; 4]), between(map), [0.0; 4])
}

/// Sums of floating-point numbers may differ in their last bits.
fn same(found: &Pixels, expected: &Pixels) {
    assert_eq!((found.width(), found.height()), (expected.width(), expected.height()));
    if found.pixel().sample() != Sample::F32 {
        assert!(found == expected);
        return;
    }
    let floats = |pixels: &Pixels| -> Vec<f32> {
        pixels.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    for (found, expected) in floats(found).into_iter().zip(floats(expected)) {
        assert!((found - expected).abs() <= expected.abs() * 1e-6, "{found} is not {expected}");
    }
}

/// Runs a test on an embedded cluster and on one of two nodes.
fn on_pair_sites(seeds: u64, test: impl Fn(&ImagePair, &Cluster, &str, &mut fastrand::Rng)) {
    for site in [Site::embedded(), Site::two_nodes()] {
        for seed in 0..seeds {
            let mut random = fastrand::Rng::with_seed(seed);
            let path = format!("/image {seed}");
            let pair = ImagePair::random(&site.cluster, &path, &mut random);
            println!("{}, seed {seed}: {:?}, {:?}", site.name, pair.image, pair.image.pixel());
            test(&pair, &site.cluster, &path, &mut random);
        }
    }
}

#[test]
fn windows_are_the_same() {
    on_pair_sites(30, |pair, cluster, path, random| {
        // A newly opened image knows only what is stored.
        let image = Image::open(cluster, path).unwrap();
        assert_eq!(image.description(), pair.image.description());
        assert!(image.read(image.window()).unwrap() == pair.pixels);
        for _ in 0..5 {
            let window = random_window(random, image.window());
            let (found, report) = image.read_reported(window).unwrap();
            assert!(found == pair.pixels.cut(window).unwrap(), "{window}");
            let tiles = TileGrid::new(image.tiles().image(), image.tiles().tile()).unwrap();
            assert_eq!(report.progress.total, tiles.parts(window).len() as u64);
        }
    });
}

#[test]
fn other_scales_are_the_same() {
    on_pair_sites(30, |pair, _, _, random| {
        for _ in 0..6 {
            let window = random_window(random, pair.image.window());
            let side = |random: &mut fastrand::Rng, length: u32| match random.u32(0..3) {
                0 => length.div_ceil(random.u32(1..6)),
                1 => random.u32(1..=length),
                _ => random.u32(1..60),
            };
            let (width, height) = (side(random, window.width), side(random, window.height));
            let found = pair.image.read_scaled(window, width, height).unwrap();
            same(&found, &scaled(&pair.pixels, window, width, height));
        }
    });
}

#[test]
fn turned_windows_are_the_same() {
    on_pair_sites(30, |pair, _, _, random| {
        for sampling in [Sampling::Nearest, Sampling::Bilinear] {
            let window = random_window(random, pair.image.window());
            let ImageWindow { x, y, width, height } = window;
            let degrees = random.f64() * 720.0 - 360.0;
            let background = if random.bool() { [0.0; 4] } else { [1.0, 2.5, 1e6, -1.0] };
            let middle =
                [(x, width), (y, height)].map(|(x, width)| f64::from(x) + f64::from(width) / 2.0);
            let map = AffineMap::turned(middle, degrees, 1.0, width, height).unwrap();
            let turned = Resampling::Mapped { map, width, height, interpolation: sampling };
            let found = pair.image.read_turned(window, degrees, sampling, background).unwrap();
            let expected = resampled(&pair.pixels, turned, background);
            match sampling {
                Sampling::Nearest => assert!(found == expected),
                Sampling::Bilinear => same(&found, &expected),
            }
        }
        // Quarter turns move pixels and change none.
        let window = pair.image.window();
        let half = pair.image.read_turned(window, 180.0, Sampling::Nearest, [0.0; 4]).unwrap();
        let bytes = pair.pixels.pixel().bytes();
        let backwards: Vec<u8> =
            pair.pixels.data().chunks(bytes).rev().flatten().copied().collect();
        assert!(half.data() == backwards);
    });
}

#[test]
fn filters_are_the_same() {
    on_pair_sites(24, |pair, cluster, path, random| {
        let side = random.u32(0..4) * 2 + 1;
        let weights = (0..side * 3).map(|_| random.f32() * 4.0 - 1.0).collect();
        let offset = if random.bool() { 0.0 } else { 3.0 };
        let filters = [
            Filter::Gaussian { sigma: 0.3 + random.f64() * 2.0 },
            Filter::Median { radius: random.u32(0..4) },
            Filter::Erosion { radius: random.u32(0..9) },
            Filter::Dilation { radius: random.u32(0..16) },
            Filter::Convolution { width: side, height: 3, weights, divisor: 2.0, offset },
        ];
        for (number, filter) in filters.iter().enumerate() {
            let edges = [Edge::Clamp, Edge::Mirror, Edge::Constant(0.0), Edge::Constant(7.0)];
            let edge = edges[random.usize(0..4)];
            let target = format!("{path} filter {number}");
            let made = pair.image.apply(filter, edge, &target).unwrap();
            let padded = pair.padded(filter.radius(), edge);
            let expected = filter.apply(&padded, &mut FilterBuffers::new()).unwrap();
            let made = Image::open(cluster, made.file().path().as_str()).unwrap();
            assert_eq!(made.tiles(), pair.image.tiles());
            assert!(made.read(made.window()).unwrap() == expected, "{filter:?} {edge:?}");
        }
    });
}

#[test]
fn pixelwise_operations_are_the_same() {
    on_pair_sites(20, |pair, _, path, random| {
        let channels = pair.pixels.pixel().channels();
        let rows = random.usize(1..5);
        let operations = [
            Pixelwise::Gamma { gamma: 0.2 + random.f64() * 3.0 },
            Pixelwise::Threshold { at: 0.5, below: 0.0, above: 200.0 },
            Pixelwise::Threshold { at: 0.0, below: 0.0, above: 1.0 },
            Pixelwise::ChannelMix {
                matrix: (0..rows * channels).map(|_| random.f64()).collect(),
                offsets: (0..rows).map(|_| random.f64() * 2.0).collect(),
            },
            Pixelwise::Invert,
            Pixelwise::Levels { low: 0.1, high: 0.9 },
        ];
        for (number, operation) in operations.iter().enumerate() {
            let target = format!("{path} map {number}");
            let made = pair.image.map(operation, &target).unwrap();
            let expected = operation.apply(&pair.pixels).unwrap();
            assert_eq!(made.pixel(), expected.pixel());
            assert!(made.read(made.window()).unwrap() == expected, "{operation:?}");
        }
    });
}

#[test]
fn measures_are_the_same() {
    on_pair_sites(40, |pair, _, _, _| {
        let pixel = pair.image.pixel();
        let mut bins = vec![Bins::usual(pixel.sample())];
        match pixel.sample() {
            Sample::U8 | Sample::I8 => {}
            Sample::U16 | Sample::I16 => bins.push(Bins::Words { bins: 16 }),
            Sample::F32 => bins.push(Bins::Reals { low: 0.2, high: 0.4, bins: 7 }),
        }
        for bins in bins {
            let mut expected = Histogram::new(pixel, bins).unwrap();
            expected.count(&pair.pixels).unwrap();
            assert!(pair.image.histogram(bins).unwrap() == expected);
        }
        let mut expected = Summary::new(pixel);
        expected.count(&pair.pixels).unwrap();
        let found = pair.image.summary().unwrap();
        if pixel.sample() != Sample::F32 {
            assert_eq!(found, expected);
        }
        for (found, expected) in found.channels().iter().zip(expected.channels()) {
            assert_eq!((found.count, found.minimum), (expected.count, expected.minimum));
            assert_eq!(found.maximum, expected.maximum);
            if let (Total::Real(found), Total::Real(expected)) = (found.total, expected.total) {
                assert!((found - expected).abs() <= expected.abs() * 1e-12);
            }
        }
    });
}

#[test]
fn pictures_come_in_and_go_out() {
    on_pair_sites(10, |pair, cluster, path, random| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("picture.tif");
        let (window, pixel) = (pair.image.window(), pair.image.pixel());
        let sink = |window: ImageWindow| {
            create_picture(&file, window.width.into(), window.height.into(), pixel).unwrap()
        };
        let mut rows_seen = 0;
        let watch = |rows: u64| {
            rows_seen = rows;
            ControlFlow::Continue(())
        };
        pair.image.export(window, sink(window), watch).unwrap();
        assert_eq!(rows_seen, u64::from(window.height));

        let [width, height] = pair.image.size();
        let copy = ImageOptions::new([width.into(), height.into()], pixel)
            .tile([random.u64(1..40), random.u64(1..40)]);
        let copy = copy.create(cluster, &format!("{path} copy")).unwrap();
        let mut rows = open_picture(&file, &FormatOptions::default()).unwrap();
        copy.import(&mut *rows, |_| ControlFlow::Continue(())).unwrap();
        assert!(copy.read(window).unwrap() == pair.pixels);

        let part = random_window(random, window);
        pair.image.export(part, sink(part), |_| ControlFlow::Continue(())).unwrap();
        let mut rows = open_picture(&file, &FormatOptions::default()).unwrap();
        assert_eq!(rows.size(), (part.width.into(), part.height.into()));
        let mut row = vec![0; part.width as usize * pixel.bytes()];
        for y in 0..part.height {
            rows.next_row(&mut row).unwrap();
            assert!(row == pair.pixels.cut(part).unwrap().row(y));
        }
        // It does not have the size of the whole.
        if part != window {
            let mut rows = open_picture(&file, &FormatOptions::default()).unwrap();
            let error = copy.import(&mut *rows, |_| ControlFlow::Continue(())).unwrap_err();
            assert!(error.to_string().contains("does not fit"), "{error}");
        }
    });
}

#[test]
fn a_huge_image_of_which_little_is_there_costs_little() {
    for site in [Site::embedded(), Site::two_nodes()] {
        let began = Instant::now();
        let options = ImageOptions::new([60_000, 40_000], Pixel::RGB);
        let image = options.compression(Compression::Lz4).create(&site.cluster, "/sky").unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        // Across the corner of four tiles, and in the last corner of the image.
        let part = random_pixels(&mut random, 300, 200, Pixel::RGB);
        let corner = ImageWindow { x: 30_000, y: 20_000, ..part.window() };
        let last = ImageWindow { x: 59_700, y: 39_800, ..part.window() };
        for window in [corner, last] {
            image.write(window.x, window.y, &part).unwrap();
        }
        let around = ImageWindow { x: 29_900, y: 19_900, width: 500, height: 400 };
        let mut expected = Pixels::blank(500, 400, Pixel::RGB).unwrap();
        expected.paste(100, 100, &part).unwrap();
        assert!(image.read(around).unwrap() == expected);
        assert!(image.read(last).unwrap() == part);

        let filter = Filter::Gaussian { sigma: 1.5 };
        let go_on = |_: &pario::ProcessReport| ControlFlow::Continue(());
        let (soft, report) = image.apply_watched(&filter, Edge::Clamp, "/soft", go_on).unwrap();
        assert!(report.progress.total < 50, "{:?}", report.progress);
        assert!(report.progress.written < 50, "{:?}", report.progress);
        let size = Shape::image(500, 400);
        let grid = TileGrid::new(size, size).unwrap();
        let parts = [(expected.window(), &expected)];
        let padded = PaddedTile::assemble(
            &grid,
            TilePosition::image(0, 0),
            filter.radius(),
            Edge::Clamp,
            parts,
        );
        let expected = filter.apply(&padded.unwrap(), &mut FilterBuffers::new()).unwrap();
        assert!(soft.read(around).unwrap() == expected);

        // Values beyond the edges matter only near the edges.
        let bright = Edge::Constant(200.0);
        let (grown, report) =
            image.apply_watched(&Filter::Dilation { radius: 1 }, bright, "/grown", go_on).unwrap();
        assert!(report.progress.written < 1000, "{:?}", report.progress);
        let left = grown.read(ImageWindow { x: 0, y: 10_000, width: 3, height: 1 }).unwrap();
        assert_eq!(left.data(), [200, 200, 200, 0, 0, 0, 0, 0, 0]);

        let dark = image.map(&Pixelwise::Gamma { gamma: 2.0 }, "/dark").unwrap();
        assert!(dark.read(last).unwrap() == Pixelwise::Gamma { gamma: 2.0 }.apply(&part).unwrap());
        let summary = image.summary().unwrap();
        assert_eq!(summary.channels()[0].count, 2_400_000_000);
        assert_eq!(summary.channels()[0].minimum, 0.0);
        let histogram = image.histogram(Bins::Bytes).unwrap();
        assert_eq!(histogram.channel(2).iter().sum::<u64>(), 2_400_000_000);
        let small = image.read_scaled(image.window(), 600, 400).unwrap();
        assert!(
            small.cut(ImageWindow { x: 300, y: 200, width: 3, height: 2 }).unwrap().data()[0] > 50
        );
        assert_eq!(small.row(100), [0; 1800]);

        let file = site.directory().join("part.png");
        let sink = create_picture(&file, 500, 400, Pixel::RGB).unwrap();
        soft.export(around, sink, |_| ControlFlow::Continue(())).unwrap();
        let mut rows = open_picture(&file, &FormatOptions::default()).unwrap();
        let mut row = vec![0; 1500];
        rows.next_row(&mut row).unwrap();
        assert!(row == expected.row(0));

        let stored: u64 = ["/sky", "/soft", "/grown", "/dark"]
            .map(|path| site.cluster.metadata(path).unwrap().disk_bytes())
            .iter()
            .sum();
        assert!(stored < 64 << 20, "{stored} bytes are stored");
        assert!(began.elapsed().as_secs() < 120, "{}: {:?}", site.name, began.elapsed());
    }
}

#[test]
fn stopped_work_leaves_nothing() {
    let site = Site::embedded();
    let cluster = &site.cluster;
    // Enough work that the first reply arrives before the last tile.
    let pixel = Pixel::new(Sample::F32, 4).unwrap();
    let image = ImageOptions::new([1500, 1000], pixel).tile([50, 50]);
    let image = image.create(cluster, "/large").unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    image.write(0, 0, &random_pixels(&mut random, 1500, 1000, pixel)).unwrap();
    let weights = vec![0.5; 31 * 31];
    let filter = Filter::Convolution { width: 31, height: 31, weights, divisor: 1.0, offset: 0.0 };
    let give_up = |_: &pario::ProcessReport| ControlFlow::Break(());
    let error = image.apply_watched(&filter, Edge::Clamp, "/target", give_up).unwrap_err();
    assert_eq!(error.kind(), pario::ErrorKind::Cancelled, "{error}");
    assert!(cluster.open("/target").is_err(), "the unfinished target is removed");

    let image = ImageOptions::new([500, 500], Pixel::GREY).tile([10, 10]);
    let image = image.create(cluster, "/image").unwrap();
    let file = site.directory().join("picture.png");
    let sink = create_picture(&file, 500, 500, Pixel::GREY).unwrap();
    let window = image.window();
    let error = image.export(window, sink, |_| ControlFlow::Break(())).unwrap_err();
    assert_eq!(error.kind(), pario::ErrorKind::Cancelled);
    let sink = create_picture(&file, 500, 500, Pixel::GREY).unwrap();
    image.export(window, sink, |_| ControlFlow::Continue(())).unwrap();
    let mut rows = open_picture(&file, &FormatOptions::default()).unwrap();
    let error = image.import(&mut *rows, |_| ControlFlow::Break(())).unwrap_err();
    assert_eq!(error.kind(), pario::ErrorKind::Cancelled);
}

#[test]
fn invalid_requests_are_reported() {
    let site = Site::embedded();
    let cluster = &site.cluster;
    let options = || ImageOptions::new([100, 80], Pixel::RGB);
    let wrong = [
        ImageOptions::new([0, 80], Pixel::RGB),
        ImageOptions::new([1 << 31, 80], Pixel::RGB),
        options().tile([0, 10]),
        options().disk_count(0),
        options().disk_count(99),
        ImageOptions::new([9000, 9000], Pixel::RGB).tile([3000, 3000]),
        ImageOptions::new([60_000, 40_000], Pixel::RGB).tile([8, 8]),
    ];
    for options in wrong {
        let error = options.clone().create(cluster, "/wrong").unwrap_err();
        assert_eq!(error.kind(), pario::ErrorKind::Invalid, "{options:?}: {error}");
        assert!(cluster.open("/wrong").is_err(), "nothing was made");
    }
    let image = options().create(cluster, "/image").unwrap();
    let pixels = Pixels::blank(10, 10, Pixel::RGB).unwrap();
    let grey = Pixels::blank(10, 10, Pixel::GREY).unwrap();
    let window = |x, width| ImageWindow { x, y: 0, width, height: 10 };
    let sampling = Sampling::Nearest;
    let errors: Vec<ImageError> = vec![
        image.read(window(91, 10)).unwrap_err(),
        image.read(window(0, 0)).unwrap_err(),
        image.write(91, 0, &pixels).unwrap_err(),
        image.write(0, u32::MAX, &pixels).unwrap_err(),
        image.write(0, 0, &grey).unwrap_err(),
        image.read_scaled(window(0, 10), 0, 5).unwrap_err(),
        image.read_scaled(window(0, 10), 100_000, 5).unwrap_err(),
        image.read_turned(window(0, 10), f64::NAN, sampling, [0.0; 4]).unwrap_err(),
        image.histogram(Bins::Words { bins: 16 }).unwrap_err(),
        image.map(&Pixelwise::Gamma { gamma: -1.0 }, "/wrong").unwrap_err(),
        image.apply(&Filter::Median { radius: 16 }, Edge::Clamp, "/wrong").unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), pario::ErrorKind::Invalid, "{error}");
    }
    assert!(cluster.open("/wrong").is_err(), "nothing was made");
    // An existing file is not replaced.
    let error = image.map(&Pixelwise::Invert, "/image").unwrap_err();
    assert_eq!(error.kind(), pario::ErrorKind::AlreadyExists, "{error}");

    cluster.create("/bytes").unwrap();
    VolumeOptions::new([10, 10, 10], Pixel::GREY).create(cluster, "/volume").unwrap();
    for path in ["/bytes", "/volume"] {
        let error = Image::open(cluster, path).unwrap_err();
        assert!(matches!(error, ImageError::NotAnImage { .. }), "{error}");
    }
    // The error of a damaged tile names its position.
    let place = image.tiles().locate(TilePosition::image(0, 0)).unwrap();
    image.file().write_extent(b"something", b"else", place).unwrap();
    let told = image.read(image.window()).unwrap_err().to_string();
    assert!(told.contains("header of the tile"), "{told}");
    let told = image.write(0, 0, &pixels).unwrap_err().to_string();
    assert!(told.starts_with("/image: the tile at"), "{told}");
}

#[test]
fn nodes_that_have_just_joined_find_each_other() {
    let site = Site::nodes("four nodes", &["a", "b", "c", "d"]);
    let mut random = fastrand::Rng::with_seed(1);
    let pixels = random_pixels(&mut random, 400, 300, Pixel::GREY);
    let options = ImageOptions::new([400, 300], Pixel::GREY).tile([32, 32]);
    let image = options.create(&site.cluster, "/image").unwrap();
    image.write(0, 0, &pixels).unwrap();
    // Each tile needs parts of tiles on other nodes, some of which joined later than its own.
    image.apply(&Filter::Dilation { radius: 1 }, Edge::Clamp, "/grown").unwrap();
}

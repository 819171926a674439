//! Tiles that are filtered one by one against the reference for whole images.

use pario_proto::{Shape, TilePosition, TileWindow};
use proptest::prelude::*;

use super::gaussian;
use super::random::{cut_image, edge, image, tiles};
use super::reference::{filtered, weights};
use super::*;
use crate::Pixel;

fn kernel() -> impl Strategy<Value = Filter> {
    let side = || prop_oneof![4 => 0u32..=2, 1 => 3u32..=15].prop_map(|reach| 2 * reach + 1);
    // Whole weights divided by 2 produce halves.
    let divisor = prop_oneof![Just(1f32), Just(2.0), Just(9.0), -3f32..-0.1];
    let offset = prop_oneof![Just(0f32), -20f32..200.0];
    (side(), side()).prop_flat_map(move |(width, height)| {
        let count = (width * height) as usize;
        let weights = prop_oneof![
            prop::collection::vec((-4i8..=9).prop_map(f32::from), count),
            prop::collection::vec(-2f32..2.0, count),
        ];
        (weights, divisor.clone(), offset.clone()).prop_map(move |(weights, divisor, offset)| {
            Filter::Convolution { width, height, weights, divisor, offset }
        })
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    let radius = || prop_oneof![4 => 0u32..=4, 1 => 5..=RADIUS_LIMIT];
    prop_oneof![
        2 => kernel(),
        2 => prop_oneof![0.05f64..1.5, 0.05f64..=5.0].prop_map(|sigma| Filter::Gaussian { sigma }),
        2 => radius().prop_map(|radius| Filter::Median { radius }),
        1 => radius().prop_map(|radius| Filter::Erosion { radius }),
        1 => radius().prop_map(|radius| Filter::Dilation { radius }),
    ]
}

/// Filters tile by tile; each tile gets only the parts of others that it lists.
fn in_tiles(image: &Pixels, grid: &TileGrid, filter: &Filter, edge: Edge, more: u32) -> Pixels {
    let mut buffers = FilterBuffers::new();
    let mut result = Pixels::blank(image.width(), image.height(), image.pixel()).unwrap();
    let border = filter.radius() + more;
    for (tile, window) in tiles(grid) {
        let neighbours = grid.neighbours(tile, border);
        for part in &neighbours {
            assert!(grid.tile(part.tile).unwrap().contains(part.window));
            assert_ne!(part.tile, tile);
        }
        let windows = neighbours.iter().map(|part| part.window).chain([window]);
        let parts: Vec<(ImageWindow, Pixels)> =
            windows.map(|window| (window, image.cut(window).unwrap())).collect();
        let parts = parts.iter().map(|(window, pixels)| (*window, pixels));
        let padded = PaddedTile::assemble(grid, tile, border, edge, parts).unwrap();
        let part = filter.apply(&padded, &mut buffers).unwrap();
        assert_eq!((part.width(), part.height()), (window.width, window.height));
        result.paste(window.x, window.y, &part).unwrap();
    }
    result
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn tiles_are_filtered_as_the_whole(
        (image, grid) in cut_image(23),
        filter in filter(),
        edge in edge(),
        more in 0u32..2,
    ) {
        prop_assert_eq!(filter.validate(), Ok(()));
        let expected = filtered(&image, &filter, edge);
        prop_assert_eq!(in_tiles(&image, &grid, &filter, edge, more), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn rows_longer_than_a_block(
        (image, grid) in cut_image(67),
        filter in filter(),
        edge in edge(),
    ) {
        let expected = filtered(&image, &filter, edge);
        prop_assert_eq!(in_tiles(&image, &grid, &filter, edge, 0), expected);
    }

    #[test]
    fn parts_cover_a_window_once((image, grid) in cut_image(40), x in 0u32..50, y in 0u32..50, width in 0u32..50, height in 0u32..50) {
        let window = ImageWindow { x, y, width, height };
        let parts = grid.parts(window);
        for down in 0..image.height() {
            for across in 0..image.width() {
                let point = ImageWindow { x: across, y: down, width: 1, height: 1 };
                let found = parts.iter().filter(|part| part.window.contains(point)).count();
                prop_assert_eq!(found, usize::from(window.contains(point)));
            }
        }
        for part in parts {
            prop_assert!(grid.tile(part.tile).unwrap().contains(part.window));
        }
    }

    #[test]
    fn gaussian_weights_make_up_one(sigma in 0.01f64..=5.0) {
        let half = gaussian::weights(sigma);
        prop_assert_eq!(half[0] + 2 * half[1..].iter().sum::<u32>(), 65_536);
        prop_assert!(half.is_sorted_by(|near, far| near >= far));
        let both: Vec<f64> = half[1..].iter().rev().chain(&half).map(|weight| f64::from(*weight)).collect();
        prop_assert_eq!(both, weights(sigma));
    }
}

#[test]
fn nan_is_the_same_however_the_image_is_cut() {
    let pixel = Pixel::new(crate::Sample::F32, 2).unwrap();
    let strange = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0, -0.0];
    let mut random = fastrand::Rng::with_seed(1);
    let data =
        (0..2 * 29 * 19).flat_map(|_| random.choice(&strange).unwrap().to_le_bytes()).collect();
    let image = Pixels::new(29, 19, pixel, data).unwrap();
    let whole = TileGrid::new(Shape::image(29, 19), Shape::image(29, 19)).unwrap();
    let cut = TileGrid::new(Shape::image(29, 19), Shape::image(7, 3)).unwrap();
    let kernel = Filter::Convolution {
        width: 3,
        height: 1,
        weights: vec![1.0, -2.0, 1.0],
        divisor: 2.0,
        offset: 0.0,
    };
    for filter in [
        kernel,
        Filter::Gaussian { sigma: 0.8 },
        Filter::Median { radius: 2 },
        Filter::Median { radius: 4 },
        Filter::Erosion { radius: 3 },
        Filter::Dilation { radius: 1 },
    ] {
        let expected = in_tiles(&image, &whole, &filter, Edge::Mirror, 0);
        assert_eq!(in_tiles(&image, &cut, &filter, Edge::Mirror, 0), expected, "{filter:?}");
    }
}

#[test]
fn nonsense_is_refused() {
    let kernel = |width, height, count, divisor, offset| Filter::Convolution {
        width,
        height,
        weights: vec![1.0; count],
        divisor,
        offset,
    };
    assert_eq!(kernel(31, 31, 961, 1.0, 0.0).validate(), Ok(()));
    for (filter, text) in [
        (
            kernel(4, 3, 12, 1.0, 0.0),
            "a kernel of 4 x 3 weights: both sides must be odd and at most 31",
        ),
        (
            kernel(33, 1, 33, 1.0, 0.0),
            "a kernel of 33 x 1 weights: both sides must be odd and at most 31",
        ),
        (
            kernel(0, 1, 0, 1.0, 0.0),
            "a kernel of 0 x 1 weights: both sides must be odd and at most 31",
        ),
        (
            kernel(u32::MAX, u32::MAX, 1, 1.0, 0.0),
            "a kernel of 4294967295 x 4294967295 weights: both sides must be odd and at most 31",
        ),
        (kernel(3, 3, 8, 1.0, 0.0), "a kernel of 3 x 3 needs 9 weights, not 8"),
        (
            kernel(1, 1, 1, 0.0, 0.0),
            "a kernel with the divisor 0: use 1 if sums are not to be divided",
        ),
        (
            kernel(1, 1, 1, f32::NAN, 0.0),
            "a kernel with the divisor NaN: it must be a finite number",
        ),
        (
            kernel(1, 1, 1, 1.0, f32::INFINITY),
            "a kernel with the offset inf: it must be a finite number",
        ),
        (
            Filter::Gaussian { sigma: 0.0 },
            "a Gaussian filter with sigma 0: it must be more than 0, and three of them at most 15 pixels",
        ),
        (
            Filter::Gaussian { sigma: f64::NAN },
            "a Gaussian filter with sigma NaN: it must be more than 0, and three of them at most 15 pixels",
        ),
        (
            Filter::Gaussian { sigma: 5.01 },
            "a Gaussian filter with sigma 5.01: it must be more than 0, and three of them at most 15 pixels",
        ),
        (Filter::Median { radius: 16 }, "a filter with radius 16: at most 15 pixels are possible"),
        (
            Filter::Erosion { radius: u32::MAX },
            "a filter with radius 4294967295: at most 15 pixels are possible",
        ),
    ] {
        assert_eq!(filter.validate().unwrap_err().to_string(), text);
    }
}

#[test]
fn a_padded_tile_needs_every_pixel_once() {
    let grid = TileGrid::new(Shape::image(5, 4), Shape::image(3, 4)).unwrap();
    let picture = image(5, 4, Pixel::RGB, 7);
    let tile = TilePosition::image(0, 0);
    let window = grid.tile(tile).unwrap();
    let own = picture.cut(window).unwrap();
    let next = picture.cut(ImageWindow { x: 3, y: 0, width: 2, height: 4 }).unwrap();
    let beside = ImageWindow { x: 3, y: 0, width: 2, height: 4 };
    let assemble = |parts: &[(ImageWindow, &Pixels)]| {
        PaddedTile::assemble(&grid, tile, 2, Edge::Clamp, parts.iter().copied()).map(|_| ())
    };
    assert_eq!(assemble(&[(beside, &next), (window, &own)]), Ok(()));
    assert_eq!(
        assemble(&[(window, &own)]),
        Err(PaddingError::Missing { tile: window, needed: 20, delivered: 12 })
    );
    assert_eq!(
        assemble(&[]),
        Err(PaddingError::Missing { tile: window, needed: 20, delivered: 0 })
    );
    assert_eq!(assemble(&[(window, &own), (window, &own)]), Err(PaddingError::Twice { window }));
    assert_eq!(
        assemble(&[(window, &next)]),
        Err(PaddingError::Size { window, width: 2, height: 4 })
    );
    let grey = Pixels::blank(2, 4, Pixel::GREY).unwrap();
    assert!(matches!(
        assemble(&[(window, &own), (beside, &grey)]),
        Err(PaddingError::Pixels(PixelsError::OtherPixel { .. }))
    ));
    let beyond = TilePosition::image(2, 0);
    let error = PaddedTile::assemble(&grid, beyond, 2, Edge::Clamp, []).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tile (2, 0, 0) does not exist: the image has 2 x 1 x 1 tiles, counted from 0"
    );
}

#[test]
fn pixels_are_checked() {
    assert!(matches!(
        Pixels::new(2, 2, Pixel::RGB, vec![0; 11]),
        Err(PixelsError::Bytes { needed: 12, given: 11, .. })
    ));
    assert!(matches!(Pixels::blank(0, 2, Pixel::RGB), Err(PixelsError::Empty { .. })));
    assert!(matches!(
        Pixels::blank(u32::MAX, u32::MAX, Pixel::RGB),
        Err(PixelsError::TooLarge { .. })
    ));
    let mut image = Pixels::blank(4, 4, Pixel::GREY).unwrap();
    let outside = ImageWindow { x: 1, y: 0, width: 4, height: 1 };
    assert!(matches!(image.cut(outside), Err(PixelsError::Outside { .. })));
    let far = ImageWindow { x: u32::MAX, y: u32::MAX, width: 1, height: 1 };
    assert!(matches!(image.cut(far), Err(PixelsError::Outside { .. })));
    let part = Pixels::blank(2, 2, Pixel::GREY).unwrap();
    assert!(matches!(image.paste(3, 0, &part), Err(PixelsError::Outside { .. })));
}

#[test]
fn a_tile_scan_visits_each_tile_once() {
    let window = TileWindow { start: TilePosition::image(3, 5), size: Shape::image(7, 4) };
    let order: Vec<TilePosition> = TileScan::new(window).collect();
    assert_eq!(order.len(), 28);
    for pair in order.windows(2) {
        assert_eq!(pair[0].x.abs_diff(pair[1].x) + pair[0].y.abs_diff(pair[1].y), 1);
    }
    let empty = TileWindow { size: Shape::image(0, 4), ..window };
    assert_eq!(TileScan::new(empty).count(), 0);
    assert_eq!(TileScan::new(window).only(|tile| tile.y == 6).map(|tile| tile.x).next(), Some(9));
}

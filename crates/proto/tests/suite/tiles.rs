//! Tiles against brute force: every tile of small images, and sizes at the far end of 64 bits.

use std::collections::HashMap;

use pario_proto::{
    Declustering, DiskId, Disks, ExtentIndex, ExtentPlacement, OutsideError, PixelPosition,
    PixelWindow, Shape, SubfileIndex, TilePosition, TileWindow, Tiles, TilesError,
};
use proptest::prelude::*;

fn disks(count: u32) -> Disks {
    Disks::new((0..count).map(|disk| DiskId(disk + 10))).unwrap()
}

/// Any fitting offsets, not only the best ones.
fn declustering(subfiles_below: u32) -> impl Strategy<Value = Declustering> {
    (1..subfiles_below, any::<u32>(), any::<u32>())
        .prop_filter_map("offsets prime to the subfiles", |(subfiles, row, plane)| {
            Declustering::new(subfiles, row % subfiles, plane % subfiles).ok()
        })
}

fn small_tiles() -> impl Strategy<Value = Tiles> {
    let axis = || (1..60u64, 1..9u64);
    (axis(), axis(), axis(), declustering(40)).prop_map(|(x, y, z, declustering)| {
        let image = Shape::volume(x.0, y.0, z.0.div_ceil(6));
        let tile = Shape::volume(x.1, y.1, z.1);
        let disks = disks(declustering.subfiles());
        Tiles::with_declustering(image, tile, disks, declustering).unwrap()
    })
}

/// Images whose sides are of any magnitude, cut into up to about 2^16 tiles per axis.
fn large_tiles() -> impl Strategy<Value = Tiles> {
    let axis = || {
        (any::<u64>(), 0..64u32, 1..65_536u64).prop_map(|(bits, shift, count)| {
            let size = (bits >> shift).max(1);
            (size, (size / count).max(1))
        })
    };
    (axis(), axis(), axis(), declustering(40)).prop_filter_map(
        "fewer than 2^48 extents",
        |(x, y, z, declustering)| {
            let image = Shape::volume(x.0, y.0, z.0);
            let tile = Shape::volume(x.1, y.1, z.1);
            Tiles::with_declustering(image, tile, disks(declustering.subfiles()), declustering).ok()
        },
    )
}

fn all_tiles(tiles: &Tiles) -> Vec<TilePosition> {
    let per_axis = tiles.tiles_per_axis();
    let mut all = Vec::new();
    for z in 0..per_axis.z {
        for y in 0..per_axis.y {
            for x in 0..per_axis.x {
                all.push(TilePosition { x, y, z });
            }
        }
    }
    all
}

fn scaled(fraction: u32, below: u64) -> u64 {
    u64::try_from((u128::from(fraction) * u128::from(below)) >> 32).unwrap()
}

/// A window inside `whole`, from six random numbers.
fn window_in(whole: Shape, random: [u32; 6]) -> ([u64; 3], Shape) {
    let start =
        [scaled(random[0], whole.x), scaled(random[1], whole.y), scaled(random[2], whole.z)];
    let size = Shape {
        x: scaled(random[3], whole.x - start[0] + 1),
        y: scaled(random[4], whole.y - start[1] + 1),
        z: scaled(random[5], whole.z - start[2] + 1),
    };
    (start, size)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_tile_has_its_own_place_and_is_found_there(tiles in small_tiles()) {
        let all = all_tiles(&tiles);
        prop_assert_eq!(all.len() as u64, tiles.tile_count());
        let mut places = HashMap::new();
        for tile in all {
            let placement = tiles.locate(tile).unwrap();
            prop_assert!(placement.subfile.0 < tiles.disks().count());
            prop_assert!(placement.extent.0 < tiles.extent_limit());
            prop_assert!(places.insert(placement, tile).is_none(), "{:?} is used twice", placement);
        }
        // The inverse knows exactly these places, and none beside or beyond them.
        for subfile in 0..tiles.disks().count() + 2 {
            for extent in 0..tiles.extent_limit() + 3 {
                let placement = ExtentPlacement {
                    subfile: SubfileIndex(subfile), extent: ExtentIndex(extent),
                };
                prop_assert_eq!(tiles.tile_at(placement), places.get(&placement).copied());
            }
        }
    }

    #[test]
    fn places_follow_the_equations(tiles in small_tiles()) {
        let (n, per_axis) = (u64::from(tiles.disks().count()), tiles.tiles_per_axis());
        let row_offset = u64::from(tiles.declustering().row_offset());
        let plane_offset = u64::from(tiles.declustering().plane_offset());
        let row = 1 + (per_axis.x - 1) / n;
        for tile in all_tiles(&tiles) {
            let placement = tiles.locate(tile).unwrap();
            let subfile = (tile.z * plane_offset + tile.y * row_offset + tile.x) % n;
            prop_assert_eq!(u64::from(placement.subfile.0), subfile);
            let extent = tile.z * (per_axis.y * row) + tile.y * row + tile.x / n;
            prop_assert_eq!(placement.extent.0, extent);
        }
    }

    #[test]
    fn places_are_inverse_in_large_images(
        tiles in large_tiles(), at in any::<[u32; 3]>(), subfile in any::<u32>(), extent in any::<u32>(),
    ) {
        let per_axis = tiles.tiles_per_axis();
        let tile = TilePosition {
            x: scaled(at[0], per_axis.x), y: scaled(at[1], per_axis.y), z: scaled(at[2], per_axis.z),
        };
        for tile in [tile, TilePosition { x: per_axis.x - 1, y: per_axis.y - 1, z: per_axis.z - 1 }] {
            let placement = tiles.locate(tile).unwrap();
            prop_assert!(placement.extent.0 < ExtentIndex::LIMIT);
            prop_assert_eq!(tiles.tile_at(placement), Some(tile));
            let pixels = tiles.pixels_of(tile).unwrap();
            prop_assert_eq!(
                tiles.tiles_touched(pixels),
                Ok(TileWindow { start: tile, size: Shape::volume(1, 1, 1) })
            );
        }
        let placement = ExtentPlacement {
            subfile: SubfileIndex(subfile % tiles.disks().count()),
            extent: ExtentIndex(scaled(extent, tiles.extent_limit())),
        };
        if let Some(tile) = tiles.tile_at(placement) {
            prop_assert_eq!(tiles.locate(tile), Ok(placement));
        }
    }

    #[test]
    fn tile_windows_agree_with_every_tile(tiles in small_tiles(), random in any::<[u32; 6]>()) {
        let ([x, y, z], size) = window_in(tiles.tiles_per_axis(), random);
        let window = TileWindow { start: TilePosition { x, y, z }, size };
        let inside: Vec<TilePosition> = all_tiles(&tiles)
            .into_iter()
            .filter(|tile| (x..x + size.x).contains(&tile.x))
            .filter(|tile| (y..y + size.y).contains(&tile.y))
            .filter(|tile| (z..z + size.z).contains(&tile.z))
            .collect();
        let found = tiles.tiles_in(window).unwrap();
        prop_assert_eq!(found.tiles_left(), inside.len() as u64);
        prop_assert_eq!(found.size_hint(), (inside.len(), Some(inside.len())));
        prop_assert!(found.eq(inside.iter().copied()));

        let mut counts = vec![0; tiles.disks().count() as usize];
        for tile in inside {
            counts[tiles.locate(tile).unwrap().subfile.0 as usize] += 1;
        }
        prop_assert_eq!(tiles.counts_in(window).unwrap(), counts);
    }

    #[test]
    fn pixel_windows_agree_with_every_tile(tiles in small_tiles(), random in any::<[u32; 6]>()) {
        let ([x, y, z], size) = window_in(tiles.image(), random);
        let window = PixelWindow { start: PixelPosition { x, y, z }, size };
        let overlap = |start: u64, size: u64, other: u64, other_size: u64| {
            start.max(other) < (start + size).min(other + other_size)
        };
        let touched: Vec<TilePosition> = all_tiles(&tiles)
            .into_iter()
            .filter(|&tile| {
                let pixels = tiles.pixels_of(tile).unwrap();
                overlap(x, size.x, pixels.start.x, pixels.size.x)
                    && overlap(y, size.y, pixels.start.y, pixels.size.y)
                    && overlap(z, size.z, pixels.start.z, pixels.size.z)
            })
            .collect();
        let found = tiles.tiles_in(tiles.tiles_touched(window).unwrap()).unwrap();
        prop_assert!(found.eq(touched));
    }

    #[test]
    fn tiles_cover_the_image_once(tiles in small_tiles()) {
        let image = tiles.image();
        let mut pixels = 0;
        for tile in all_tiles(&tiles) {
            let window = tiles.pixels_of(tile).unwrap();
            prop_assert!(!window.size.is_empty());
            pixels += window.size.x * window.size.y * window.size.z;
        }
        prop_assert_eq!(pixels, image.x * image.y * image.z);
    }

    #[test]
    fn counts_of_large_windows_add_up(tiles in large_tiles(), random in any::<[u32; 6]>()) {
        let ([x, y, z], size) = window_in(tiles.tiles_per_axis(), random);
        let window = TileWindow { start: TilePosition { x, y, z }, size };
        let counts = tiles.counts_in(window).unwrap();
        prop_assert_eq!(counts.iter().sum::<u64>(), size.x * size.y * size.z);
    }

    #[test]
    fn counts_agree_with_every_tile_far_from_the_origin(
        declustering in declustering(7),
        start in [0..32_000u64, 0..32_000, 0..32_000],
        size in [0..18u64, 0..18, 0..18],
    ) {
        let image = Shape::volume(1 << 50, 1 << 50, 1 << 50);
        let tile = Shape::volume(1 << 35, 1 << 35, 1 << 35);
        let subfiles = declustering.subfiles();
        let tiles = Tiles::with_declustering(image, tile, disks(subfiles), declustering).unwrap();
        let window = TileWindow {
            start: TilePosition { x: start[0], y: start[1], z: start[2] },
            size: Shape { x: size[0], y: size[1], z: size[2] },
        };
        let mut counts = vec![0; subfiles as usize];
        for tile in tiles.tiles_in(window).unwrap() {
            counts[tiles.locate(tile).unwrap().subfile.0 as usize] += 1;
        }
        prop_assert_eq!(tiles.counts_in(window).unwrap(), counts);
    }

    #[test]
    fn any_sizes_are_tiles_or_an_error(
        image in any::<[u64; 3]>(), tile in any::<[u64; 3]>(), shift in any::<[u8; 6]>(),
    ) {
        let size = |axis: usize| image[axis] >> (shift[axis] % 64);
        let side = |axis: usize| tile[axis] >> (shift[axis + 3] % 64);
        let image = Shape { x: size(0), y: size(1), z: size(2) };
        let tile = Shape { x: side(0), y: side(1), z: side(2) };
        let built = Tiles::new(image, tile, disks(3));
        if image.is_empty() {
            prop_assert_eq!(built, Err(TilesError::EmptyImage { image }));
        } else if tile.is_empty() {
            prop_assert_eq!(built, Err(TilesError::EmptyTile { tile }));
        } else {
            let [x, y, z] = [(image.x, tile.x), (image.y, tile.y), (image.z, tile.z)]
                .map(|(size, side)| u128::from(size.div_ceil(side)));
            let extents = x.div_ceil(3).checked_mul(y).and_then(|area| area.checked_mul(z));
            let fits = extents.is_some_and(|extents| extents <= 1 << 48);
            prop_assert_eq!(built.is_ok(), fits, "{:?}", extents);
        }
    }
}

#[test]
fn the_extent_limit_is_exact() {
    let build = |x, y, count| Tiles::new(Shape::image(x, y), Shape::image(1, 1), disks(count));
    let full = build(1 << 25, 1 << 24, 2).unwrap();
    assert_eq!(full.extent_limit(), 1 << 48);
    let last = full.locate(TilePosition::image((1 << 25) - 1, (1 << 24) - 1)).unwrap();
    assert_eq!(last.extent, ExtentIndex((1 << 48) - 1));
    assert!(matches!(build((1 << 25) + 1, 1 << 24, 2), Err(TilesError::TooManyTiles { .. })));
    assert!(matches!(build(1 << 25, (1 << 24) + 1, 2), Err(TilesError::TooManyTiles { .. })));
    assert!(matches!(build(u64::MAX, u64::MAX, 2), Err(TilesError::TooManyTiles { .. })));
}

#[test]
fn windows_outside_are_errors_with_a_sentence() {
    let tiles = Tiles::new(Shape::image(100, 50), Shape::image(10, 10), disks(4)).unwrap();
    let missing = tiles.locate(TilePosition::image(10, 0)).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "tile (10, 0, 0) does not exist: the image has 10 x 5 x 1 tiles, counted from 0"
    );
    assert!(tiles.pixels_of(TilePosition::volume(0, 0, 1)).is_err());

    let window = |x, y, width, height| PixelWindow {
        start: PixelPosition::image(x, y),
        size: Shape::image(width, height),
    };
    assert!(tiles.tiles_touched(window(0, 0, 100, 50)).is_ok());
    let outside = tiles.tiles_touched(window(90, 40, 11, 10)).unwrap_err();
    assert_eq!(
        outside.to_string(),
        "the window of 11 x 10 x 1 pixels from pixel (90, 40, 0) on leaves the image, which has \
         100 x 50 x 1 pixels: cut the window off at the edge"
    );
    assert!(tiles.tiles_touched(window(u64::MAX, 0, 1, 1)).is_err());
    assert!(tiles.tiles_touched(window(0, 1, 1, u64::MAX)).is_err());

    let tile_window = TileWindow { start: TilePosition::image(9, 0), size: Shape::image(2, 1) };
    let outside = OutsideError::TileWindow { window: tile_window, per_axis: Shape::image(10, 5) };
    assert_eq!(tiles.tiles_in(tile_window).unwrap_err(), outside);
    assert_eq!(tiles.counts_in(tile_window).unwrap_err(), outside);
}

#[test]
fn offsets_for_another_number_of_disks_are_refused() {
    let other = Declustering::for_image(5).unwrap();
    let built = Tiles::with_declustering(Shape::image(9, 9), Shape::image(1, 1), disks(4), other);
    assert_eq!(built, Err(TilesError::OtherDeclustering { disks: 4, subfiles: 5 }));
}

#[test]
fn one_plane_of_tiles_is_spread_as_an_image_and_more_as_a_volume() {
    let tile = Shape::volume(32, 32, 16);
    let flat = Tiles::new(Shape::volume(500, 500, 16), tile, disks(32)).unwrap();
    assert_eq!(flat.declustering(), Declustering::for_image(32).unwrap());
    let deep = Tiles::new(Shape::volume(500, 500, 17), tile, disks(32)).unwrap();
    assert_eq!(deep.declustering(), Declustering::for_volume(32).unwrap());
}

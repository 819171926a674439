//! The choice of offsets against brute force that counts the tiles of every window anew.

use pario_proto::{Declustering, DeclusteringError, Disks, SubfileIndex, TilePosition};
use proptest::prelude::*;

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn coprimes(subfiles: u32) -> impl Iterator<Item = u32> {
    (0..subfiles).filter(move |&offset| gcd(offset, subfiles) == 1)
}

fn excess(counts: &[u16], tiles: usize) -> u16 {
    let most = counts.iter().fold(0, |most, &count| most.max(count));
    let least = counts.iter().fold(u16::MAX, |least, &count| least.min(count));
    most - least - u16::from(!tiles.is_multiple_of(counts.len()))
}

/// The worst and the total excess of all windows up to `sides` tiles; stops above `bound`.
fn unevenness(
    subfiles: u32,
    (row, plane): (u32, u32),
    sides: [usize; 3],
    bound: (u16, u32),
) -> (u16, u32) {
    let n = subfiles as usize;
    let (row, plane) = (row as usize, plane as usize);
    let mut sum = (0, 0);
    let mut counts = vec![0u16; n];
    for width in (1..=sides[0]).rev() {
        for height in (1..=sides[1]).rev() {
            counts.fill(0);
            for depth in 1..=sides[2] {
                for y in 0..height {
                    for x in 0..width {
                        counts[((depth - 1) * plane + y * row + x) % n] += 1;
                    }
                }
                let excess = excess(&counts, width * height * depth);
                sum = (sum.0.max(excess), sum.1 + u32::from(excess));
                if sum > bound {
                    return sum;
                }
            }
        }
    }
    sum
}

/// The worst excess of all windows of an image up to 16 x 16; stops above `bound`.
fn image_worst(subfiles: u32, row: u32, bound: u16) -> u16 {
    // An image grows along the second axis here, so that one row is added at a time.
    unevenness(subfiles, (0, row), [16, 1, 16], (bound, u32::MAX)).0
}

#[test]
fn no_offset_spreads_the_windows_of_an_image_better() {
    for subfiles in 1..=1_024 {
        let chosen = Declustering::for_image(subfiles).unwrap();
        assert_eq!(chosen.subfiles(), subfiles);
        assert!(chosen.row_offset() < subfiles, "{chosen:?}");
        assert_eq!(gcd(chosen.row_offset(), subfiles), 1, "{chosen:?}");
        let worst = image_worst(subfiles, chosen.row_offset(), u16::MAX);
        if worst > 0 {
            for row in coprimes(subfiles) {
                assert!(
                    image_worst(subfiles, row, worst - 1) >= worst,
                    "{chosen:?}: row offset {row} is better than {worst}"
                );
            }
        }
        if subfiles > 272 {
            assert_eq!(worst, 0, "{chosen:?}: no window up to 16 x 16 needs a subfile twice");
        }
    }
}

#[test]
fn of_equally_good_worst_windows_the_sum_decides_up_to_64_subfiles() {
    for subfiles in 1..=64 {
        let chosen = Declustering::for_image(subfiles).unwrap();
        let score = |row| unevenness(subfiles, (0, row), [16, 1, 16], (u16::MAX, u32::MAX));
        let best = coprimes(subfiles).map(score).min().unwrap();
        assert_eq!(score(chosen.row_offset()), best, "{chosen:?}");
    }
}

#[test]
fn no_pair_spreads_the_windows_of_a_volume_better() {
    for subfiles in (1..=48).chain([64, 127]) {
        let chosen = Declustering::for_volume(subfiles).unwrap();
        let pair = (chosen.row_offset(), chosen.plane_offset());
        let best = unevenness(subfiles, pair, [6; 3], (u16::MAX, u32::MAX));
        for row in coprimes(subfiles) {
            for plane in coprimes(subfiles) {
                let found = unevenness(subfiles, (row, plane), [6; 3], best);
                assert!(found >= best, "{chosen:?}: ({row}, {plane}) is better than {best:?}");
            }
        }
    }
}

#[test]
fn volumes_have_fitting_offsets_and_from_253_subfiles_on_perfect_small_windows() {
    for subfiles in 1..=1_024 {
        let chosen = Declustering::for_volume(subfiles).unwrap();
        for offset in [chosen.row_offset(), chosen.plane_offset()] {
            assert!(offset < subfiles && gcd(offset, subfiles) == 1, "{chosen:?}");
        }
        if subfiles > 252 {
            assert!(!clashes(chosen, [6; 3]), "{chosen:?}");
        }
    }
}

#[test]
fn many_subfiles_have_large_windows_without_a_clash() {
    for subfiles in [1_025, 1_031, 2_310, 4_096, 8_191, Disks::MAX] {
        let image = Declustering::for_image(subfiles).unwrap();
        assert_eq!(gcd(image.row_offset(), subfiles), 1);
        // Windows of many shapes with a quarter as many tiles as there are subfiles.
        let tiles = subfiles / 4;
        for width in (1..=tiles).step_by(1 + subfiles as usize / 1_024) {
            assert!(!clashes(image, [width, tiles / width, 1]), "{image:?}, {width} wide");
        }

        let volume = Declustering::for_volume(subfiles).unwrap();
        assert_eq!(gcd(volume.row_offset(), subfiles), 1);
        assert_eq!(gcd(volume.plane_offset(), subfiles), 1);
        // Four fifths of the side of a cube with one tile per subfile.
        let side = (1..).find(|side| side * side * side > subfiles).unwrap() * 4 / 5;
        assert!(!clashes(volume, [side; 3]), "{volume:?} in a cube of {side}");
    }
}

/// Whether two tiles of a window with these sides lie on one subfile.
fn clashes(spread: Declustering, sides: [u32; 3]) -> bool {
    let mut taken = vec![false; spread.subfiles() as usize];
    for z in 0..sides[2].into() {
        for y in 0..sides[1].into() {
            for x in 0..sides[0].into() {
                let SubfileIndex(subfile) = spread.subfile_of(TilePosition { x, y, z });
                if std::mem::replace(&mut taken[subfile as usize], true) {
                    return true;
                }
            }
        }
    }
    false
}

#[test]
fn unfit_numbers_are_errors_with_a_sentence() {
    assert_eq!(Declustering::for_image(0), Err(DeclusteringError::NoSubfiles));
    assert_eq!(Declustering::for_volume(0), Err(DeclusteringError::NoSubfiles));
    assert_eq!(
        Declustering::for_image(u32::MAX),
        Err(DeclusteringError::TooManySubfiles { subfiles: u32::MAX })
    );
    let unfit = Declustering::new(12, 5, 8).unwrap_err();
    assert_eq!(
        unfit.to_string(),
        "the plane offset 8 does not fit 12 subfiles: it must be smaller and have no divisor in \
         common with them"
    );
    assert!(Declustering::new(12, 17, 5).is_err());
    assert!(Declustering::new(1, 0, 0).is_ok());
}

proptest! {
    #[test]
    fn subfiles_follow_the_equation_for_any_position(
        subfiles in 1..=Disks::MAX, offsets in any::<[u32; 2]>(), at in any::<[u64; 3]>(),
    ) {
        let [row, plane] = offsets.map(|offset| offset % subfiles);
        prop_assume!(gcd(row, subfiles) == 1 && gcd(plane, subfiles) == 1);
        let spread = Declustering::new(subfiles, row, plane).unwrap();
        let [x, y, z] = at.map(u128::from);
        let wide = (z * u128::from(plane) + y * u128::from(row) + x) % u128::from(subfiles);
        let tile = TilePosition { x: at[0], y: at[1], z: at[2] };
        prop_assert_eq!(u128::from(spread.subfile_of(tile).0), wide);
    }
}

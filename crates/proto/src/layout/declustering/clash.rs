//! How large a window can be before two of its tiles lie on one subfile: before they *clash*.
//!
//! Invariants: whether two tiles clash depends on the difference of their positions alone. A window
//! has a clash if its sides exceed such a difference along every axis, so the smallest windows with
//! a clash are one wider, higher and deeper than the short differences. There is always one with at
//! most one tile more than there are subfiles, so the walks below are short.

use std::cmp::Reverse;

use super::modular::{folded, inverse};

/// How many row offsets of a volume are tried.
const ROW_OFFSETS_TRIED: usize = 8;
/// How many plane offsets are tried with each of them.
const PLANE_OFFSETS_TRIED: usize = 512;

/// Of the candidates, the offset for which the smallest window with a clash is largest; of equals
/// the smallest.
pub(super) fn image_offset(subfiles: u32, candidates: &[u32]) -> u32 {
    best_rows(subfiles, candidates, 1).first().map_or(0, |&(_, offset)| offset)
}

/// A pair with a large cube free of clashes; of equals the one with larger windows free of clashes
/// in its slices, then the smallest.
pub(super) fn volume_offsets(subfiles: u32, candidates: &[u32]) -> (u32, u32) {
    let modulus = u64::from(subfiles);
    let step = candidates.len().div_ceil(PLANE_OFFSETS_TRIED).max(1);
    let mut best = (0, 0, Reverse((0, 0)));
    for (row_area, row) in best_rows(subfiles, candidates, ROW_OFFSETS_TRIED) {
        let row_inverse = inverse(u64::from(row), modulus);
        for &plane in candidates.iter().step_by(step) {
            let side = cube_side(modulus, u64::from(row), u64::from(plane), best.0);
            if side < best.0 {
                continue;
            }
            let quotient = u64::from(plane) * row_inverse % modulus;
            let area = clash_area(modulus, u64::from(plane), 0)
                .min(clash_area(modulus, quotient, 0))
                .min(row_area);
            best = best.max((side, area, Reverse((row, plane))));
        }
    }
    best.2.0
}

/// The number of tiles of the smallest window of an image that has a clash, or something below
/// `enough` if that is below. `row` is prime to `modulus`.
pub(super) fn clash_area(modulus: u64, row: u64, enough: u64) -> u64 {
    // The shorter side is found by walking along it: the height with the row offset, the width with
    // its inverse.
    let steps = [row % modulus, inverse(row, modulus)];
    let mut residues = steps;
    let mut area = modulus + 1;
    let mut short_side = 2;
    while short_side * short_side <= area && area >= enough {
        for (residue, step) in residues.iter_mut().zip(steps) {
            area = area.min(short_side * (folded(*residue, modulus) + 1));
            *residue = (*residue + step) % modulus;
        }
        short_side += 1;
    }
    area
}

/// The `wanted` candidates with the largest areas, and these, best first.
fn best_rows(subfiles: u32, candidates: &[u32], wanted: usize) -> Vec<(u64, u32)> {
    let mut rows: Vec<(u64, u32)> = Vec::new();
    for &offset in candidates {
        let enough = rows.get(wanted - 1).map_or(0, |&(area, _)| area);
        let area = clash_area(u64::from(subfiles), u64::from(offset), enough);
        if area > enough {
            let place = rows.partition_point(|&(better, _)| better >= area);
            rows.insert(place, (area, offset));
            rows.truncate(wanted);
        }
    }
    rows
}

/// The side of the largest cube free of clashes, or something below `enough` if that is below.
fn cube_side(modulus: u64, row: u64, plane: u64, enough: u64) -> u64 {
    // A difference along x alone clashes at `modulus`; the others are walked through, of each
    // difference and its opposite only one.
    let mut side = modulus;
    let mut dz = 0;
    while dz < side && side >= enough {
        let mut dy = u64::from(dz == 0);
        while dy < side {
            for rows in [row * dy, (modulus - row) * dy] {
                let dx = folded((rows + plane * dz) % modulus, modulus);
                side = side.min(dx.max(dy).max(dz));
            }
            dy += 1;
        }
        dz += 1;
    }
    side
}

#[cfg(test)]
mod tests {
    use super::super::modular::gcd;
    use super::*;

    fn has_clash(modulus: u64, (row, plane): (u64, u64), sides: [u64; 3]) -> bool {
        let mut taken = vec![false; usize::try_from(modulus).unwrap()];
        for z in 0..sides[2] {
            for y in 0..sides[1] {
                for x in 0..sides[0] {
                    let subfile = usize::try_from((x + row * y + plane * z) % modulus).unwrap();
                    if std::mem::replace(&mut taken[subfile], true) {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn coprimes(modulus: u64) -> impl Iterator<Item = u64> {
        (1..modulus).filter(move |&offset| gcd(offset, modulus) == 1)
    }

    #[test]
    fn areas_agree_with_looking_at_every_window() {
        for modulus in [2, 5, 12, 31, 64, 101] {
            for row in coprimes(modulus) {
                let smallest = (1..=modulus + 1)
                    .flat_map(|width| (1..=modulus + 1).map(move |height| (width, height)))
                    .filter(|(width, height)| width * height <= modulus + 1)
                    .filter(|&(width, height)| has_clash(modulus, (row, 0), [width, height, 1]))
                    .map(|(width, height)| width * height)
                    .min();
                assert_eq!(Some(clash_area(modulus, row, 0)), smallest, "{row} of {modulus}");
            }
        }
    }

    #[test]
    fn sides_agree_with_looking_at_every_cube() {
        for modulus in [2, 5, 12, 31, 100, 127] {
            for row in coprimes(modulus) {
                for plane in coprimes(modulus) {
                    let side = cube_side(modulus, row, plane, 0);
                    assert!(!has_clash(modulus, (row, plane), [side; 3]));
                    assert!(has_clash(modulus, (row, plane), [side + 1; 3]));
                }
            }
        }
    }
}

//! How strongly slices across the diagonal of a volume prefer some subfiles.
//!
//! Number `k` of the waves that tell subfiles apart runs with the steps `(k, k row, k plane) / n`, each
//! taken between -1/2 and 1/2, along the three axes. A slice prefers subfiles if a wave runs straight
//! across it, and if the wave is long: the tiles that a slice meets are a layer, and of a wave that
//! has the steps `s` along the axes they see `sin(pi L) / (pi L)`, where `L` is the sum of all `|s|`.
//! That sum is the same for tiles of any shape. Across the diagonal run waves whose steps have one
//! sign.

use std::f64::consts::PI;

/// The squares of what all waves across the diagonal show, together.
pub(super) fn across_diagonal(subfiles: u32, row: u32, plane: u32) -> f64 {
    let waves = 1..i64::from(subfiles);
    let shown = waves.filter_map(|wave| {
        let factors = [1, row, plane].map(i64::from);
        let steps = factors.map(|factor| step(wave * factor, subfiles));
        let has_one_sign =
            steps.iter().all(|step| *step >= 0.0) || steps.iter().all(|step| *step <= 0.0);
        has_one_sign.then(|| shown(steps.iter().map(|step| step.abs()).sum()))
    });
    shown.map(|shown| shown * shown).sum()
}

/// A residue as a part of the whole circle, between -1/2 and 1/2.
fn step(residue: i64, subfiles: u32) -> f64 {
    let part = residue.rem_euclid(subfiles.into());
    let part = u32::try_from(part).map_or(0.0, f64::from) / f64::from(subfiles);
    if part > 0.5 { part - 1.0 } else { part }
}

fn shown(length: f64) -> f64 {
    let angle = PI * length;
    if angle == 0.0 { 1.0 } else { angle.sin() / angle }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How evenly a layer of tiles across the diagonal loads subfiles: the mean over the maximum.
    fn evenness(subfiles: u32, row: u32, plane: u32) -> f64 {
        let mut loads = vec![0u32; subfiles as usize];
        let side = 24;
        for (x, y, z) in (0..side)
            .flat_map(|x| (0..side).flat_map(move |y| (0..side).map(move |z| (x, y, z))))
            .filter(|(x, y, z)| (30..33).contains(&(x + y + z)))
        {
            loads[((x + row * y + plane * z) % subfiles) as usize] += 1;
        }
        let all = f64::from(loads.iter().sum::<u32>()) / f64::from(subfiles);
        all / f64::from(*loads.iter().max().unwrap())
    }

    #[test]
    fn what_resonates_less_is_more_even() {
        for (subfiles, bad, good) in [(6, (1, 1), (5, 1)), (12, (1, 5), (11, 5))] {
            let of = |(row, plane)| across_diagonal(subfiles, row, plane);
            let even = |(row, plane)| evenness(subfiles, row, plane);
            assert!(of(good) < of(bad), "{subfiles}: {} and {}", of(good), of(bad));
            assert!(even(good) > even(bad) + 0.01, "{subfiles}: {} {}", even(good), even(bad));
        }
    }

    #[test]
    fn a_wave_that_runs_across_is_seen() {
        // All tiles of such a layer lie on three of the subfiles.
        assert!(evenness(30, 1, 1) < 0.2);
        assert!(across_diagonal(30, 1, 1) > 5.0);
        assert!(
            (across_diagonal(2, 1, 1) - (1.5 * PI).sin().powi(2) / (1.5 * PI).powi(2)).abs()
                < 1e-12
        );
    }
}

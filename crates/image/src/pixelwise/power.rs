//! Exponentials and powers that give the same bits on every machine.
//!
//! The mathematical functions of the system may differ in the last bit from machine to machine, and
//! with them a rounded sample. This module uses only additions, multiplications and divisions,
//! whose results are defined to the bit. Relative errors are below 10^-13.

use std::f64::consts::{LN_2, SQRT_2};

/// Inverse factorials up to 18!, the highest first.
const FACTORIALS: [f64; 19] = {
    let mut inverted = [1.0; 19];
    let (mut step, mut factorial) = (1, 1u64);
    while step < inverted.len() {
        factorial *= step as u64;
        inverted[18 - step] = 1.0 / factorial as f64;
        step += 1;
    }
    inverted
};

/// Inverse odd numbers up to 23, the highest first.
const ODD: [f64; 12] = {
    let mut inverted = [1.0; 12];
    let mut step = 0;
    while step < inverted.len() {
        inverted[11 - step] = 1.0 / (2 * step + 1) as f64;
        step += 1;
    }
    inverted
};

/// Returns `e` to the power of a number.
pub(crate) fn exponential(exponent: f64) -> f64 {
    let [power] = exponentials([exponent]);
    power
}

/// Raises numbers that are not negative to a power above 0, side by side.
pub(crate) fn powers<const N: usize>(bases: [f64; N], exponent: f64) -> [f64; N] {
    let powers = exponentials(logarithms(bases).map(|logarithm| logarithm * exponent));
    std::array::from_fn(|lane| match bases[lane].is_normal() {
        true => powers[lane],
        false => bases[lane],
    })
}

#[expect(clippy::cast_possible_truncation, reason = "clamped before")]
fn exponentials<const N: usize>(exponents: [f64; N]) -> [f64; N] {
    let exponents = exponents.map(|exponent| exponent.clamp(-750.0, 710.0));
    let twos = exponents.map(|exponent| (exponent / LN_2) as i32);
    let rests: [f64; N] =
        std::array::from_fn(|lane| exponents[lane] - f64::from(twos[lane]) * LN_2);
    let sums = series(&FACTORIALS, rests);
    std::array::from_fn(|lane| {
        // Multiply in two steps: one power of two may overflow or underflow.
        let half = twos[lane] / 2;
        sums[lane] * power_of_two(half) * power_of_two(twos[lane] - half)
    })
}

/// Returns the natural logarithms of positive normal numbers (not below 2^-1022).
fn logarithms<const N: usize>(numbers: [f64; N]) -> [f64; N] {
    // Split off the exponent bits, which leaves a number from 1 to 2, then move it around 1.
    let rests =
        numbers.map(|number| f64::from_bits(number.to_bits() & ((1 << 52) - 1) | 1.0f64.to_bits()));
    let ratios = rests.map(|rest| {
        let rest = if rest > SQRT_2 { 0.5 * rest } else { rest };
        (rest - 1.0) / (rest + 1.0)
    });
    let sums = series(&ODD, ratios.map(|ratio| ratio * ratio));
    std::array::from_fn(|lane| {
        let twos = i32::from((numbers[lane].to_bits() >> 52) as u16) - 1_023;
        let twos = twos + i32::from(rests[lane] > SQRT_2);
        f64::from(twos) * LN_2 + 2.0 * ratios[lane] * sums[lane]
    })
}

/// Evaluates polynomials whose factors start with the highest power.
fn series<const N: usize>(factors: &[f64], numbers: [f64; N]) -> [f64; N] {
    let mut sums = [0.0; N];
    for factor in factors {
        for (sum, number) in sums.iter_mut().zip(numbers) {
            *sum = *sum * number + factor;
        }
    }
    sums
}

/// Returns 2 to a power from -1022 to 1023.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((exponent + 1_023).unsigned_abs()) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_functions_of_the_system() {
        for step in 0..40_000 {
            let exponent = f64::from(step) / 30.0 - 690.0;
            let error = exponential(exponent) / exponent.exp() - 1.0;
            assert!(error.abs() < 1e-12, "e^{exponent}: {error}");
            let base = f64::from(step + 1) / 257.0;
            let [logarithm] = logarithms([base]);
            assert!((logarithm - base.ln()).abs() < 1e-14 * (1.0 + base.ln().abs()));
            let [power] = powers([base], 0.45);
            let error = power / base.powf(0.45) - 1.0;
            assert_eq!(powers([1.0, base, 7.0], 0.45)[1], power);
            assert!(error.abs() < 1e-13, "{base}^0.45: {error}");
        }
        assert_eq!((exponential(0.0), powers([1.0, 0.0], 2.2)), (1.0, [1.0, 0.0]));
        assert_eq!((exponential(-1e9), exponential(1e9)), (0.0, f64::INFINITY));
    }
}

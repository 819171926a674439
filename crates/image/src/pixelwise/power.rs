//! Exponentials and powers that are the same on every machine.
//!
//! The mathematical functions of the system may differ in the last bit from one machine to the
//! next, and with them a rounded sample. Here are only additions, multiplications and divisions,
//! which are defined to the bit. Relative errors are below 10^-13.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2};

/// `e` to the power of a number.
#[expect(clippy::cast_possible_truncation, reason = "cut off before")]
pub(crate) fn exponential(exponent: f64) -> f64 {
    let exponent = exponent.clamp(-750.0, 710.0);
    let twos = (exponent / LN_2) as i32;
    let rest = exponent - f64::from(twos) * LN_2;
    let mut sum = 1.0;
    for step in (1..=20).rev() {
        sum = 1.0 + sum * rest / f64::from(step);
    }
    // In two steps, since a power of two may be too large or too small for one.
    let half = twos / 2;
    sum * power_of_two(half) * power_of_two(twos - half)
}

/// The natural logarithm of a number above 0.
pub(crate) fn logarithm(number: f64) -> f64 {
    let mut twos = 0;
    let mut rest = number;
    while rest >= 2.0 * FRAC_1_SQRT_2 {
        rest *= 0.5;
        twos += 1;
    }
    while rest < FRAC_1_SQRT_2 {
        rest *= 2.0;
        twos -= 1;
    }
    let ratio = (rest - 1.0) / (rest + 1.0);
    let square = ratio * ratio;
    let mut sum = 0.0;
    for step in (0..12).rev() {
        sum = sum * square + 1.0 / f64::from(2 * step + 1);
    }
    f64::from(twos) * LN_2 + 2.0 * ratio * sum
}

/// A number that is not negative to the power of another.
pub(crate) fn power(base: f64, exponent: f64) -> f64 {
    match base > 0.0 && base.is_finite() {
        true => exponential(exponent * logarithm(base)),
        false => base,
    }
}

/// 2 to a power from -1022 to 1023.
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
            assert!((logarithm(base) - base.ln()).abs() < 1e-14 * (1.0 + base.ln().abs()));
            let error = power(base, 0.45) / base.powf(0.45) - 1.0;
            assert!(error.abs() < 1e-13, "{base}^0.45: {error}");
        }
        assert_eq!((exponential(0.0), power(1.0, 2.2), power(0.0, 0.5)), (1.0, 1.0, 0.0));
        assert_eq!((exponential(-1e9), exponential(1e9)), (0.0, f64::INFINITY));
    }
}

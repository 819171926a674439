//! Arithmetic modulo the number of subfiles.
//!
//! Invariant: the modulus is at least 1 and at most 2^16, so a product of two residues fits `u64`.

/// The greatest common divisor; `gcd(0, n)` is `n`.
pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The residue whose product with `value` is 1 modulo `modulus`. `value` must be prime to
/// `modulus`; modulo 1 the answer is 0.
pub(in crate::layout) fn inverse(value: u64, modulus: u64) -> u64 {
    debug_assert_eq!(gcd(value, modulus), 1);
    // Invariant of the loop: `factor * value = remainder` modulo `modulus`, for both pairs.
    let (mut factor, mut remainder) = (1 % modulus, value % modulus);
    let (mut next_factor, mut next_remainder) = (0, modulus);
    while next_remainder != 0 {
        let quotient = remainder / next_remainder;
        let product = quotient % modulus * next_factor % modulus;
        (factor, next_factor) = (next_factor, (factor + modulus - product) % modulus);
        (remainder, next_remainder) = (next_remainder, remainder % next_remainder);
    }
    factor
}

/// Of `residue` and its mirror image `modulus - residue`, the smaller.
pub(super) fn folded(residue: u64, modulus: u64) -> u64 {
    residue.min(modulus - residue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_times_value_is_one_for_every_small_modulus() {
        for modulus in 1..=300 {
            for value in (0..modulus).filter(|&value| gcd(value, modulus) == 1) {
                assert_eq!(value * inverse(value, modulus) % modulus, 1 % modulus);
            }
        }
    }
}

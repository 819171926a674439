//! The content of files.

/// Bytes that differ by seed and place, and are never zero.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(1..)).take(len).collect()
}

//! Memory that a thread uses again from tile to tile.

/// What filters need beside their input and output. Each thread has its own, for as long as it
/// likes; it grows with the largest tile.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) bytes: Lanes<u8>,
    pub(crate) words: Lanes<u16>,
    pub(crate) numbers: Lanes<i32>,
    pub(crate) sums: Vec<u32>,
    pub(crate) reals: Vec<f32>,
    pub(crate) doubles: Vec<f64>,
    pub(crate) ranks: Vec<u32>,
    pub(crate) counts: Vec<u16>,
}

/// Two lists of numbers, for what goes back and forth between them.
#[derive(Debug, Default)]
pub(crate) struct Lanes<T> {
    pub(crate) near: Vec<T>,
    pub(crate) far: Vec<T>,
}

impl Scratch {
    /// Empty.
    pub fn new() -> Scratch {
        Scratch::default()
    }
}

//! Memory that a thread reuses from tile to tile.

/// Temporary memory of filters. Each thread has its own; it grows with the largest tile.
#[derive(Debug, Default)]
pub struct FilterBuffers {
    pub(crate) bytes: BufferPair<u8>,
    pub(crate) words: BufferPair<u16>,
    pub(crate) numbers: BufferPair<i32>,
    pub(crate) sums: Vec<u32>,
    pub(crate) reals: Vec<f32>,
    pub(crate) doubles: Vec<f64>,
    pub(crate) ranks: Vec<u32>,
    pub(crate) counts: Vec<u16>,
}

/// Two lists of numbers: a pass reads one and writes the other.
#[derive(Debug, Default)]
pub(crate) struct BufferPair<T> {
    pub(crate) front: Vec<T>,
    pub(crate) back: Vec<T>,
}

impl FilterBuffers {
    /// Creates empty buffers.
    pub fn new() -> FilterBuffers {
        FilterBuffers::default()
    }
}

//! The memory of a caller that an access reads or fills.

/// The memory of a caller: element `i` of an access, of `each` bytes, lies `stride * i` elements
/// behind the first. Elements need not be aligned.
#[derive(Clone, Copy, Debug)]
pub struct CallerMemory {
    pub start: *mut u8,
    /// Bytes per element.
    pub each: usize,
    pub stride: usize,
}

// SAFETY: the creator hands the memory over until the access is complete.
unsafe impl Send for CallerMemory {}

impl CallerMemory {
    /// Describes memory of single bytes, which may have gaps between them.
    pub fn bytes(start: *mut u8, stride: usize) -> Self {
        Self { start, each: 1, stride }
    }

    /// Whether the elements have no gaps between them.
    pub fn is_dense(&self) -> bool {
        self.stride == 1
    }

    /// The address of a byte of the access, if the memory has no gaps.
    ///
    /// # Safety
    /// The memory covers this byte.
    pub unsafe fn at(&self, here: usize) -> *mut u8 {
        debug_assert!(self.is_dense(), "only dense memory has an address for each byte");
        // SAFETY: the caller guarantees it.
        unsafe { self.start.add(here) }
    }

    /// Copies whole elements from the memory, from a byte of the access on.
    ///
    /// # Safety
    /// The memory covers them, and no thread changes them.
    pub unsafe fn gather(&self, here: usize, bytes: &mut [u8]) {
        for (number, element) in bytes.chunks_exact_mut(self.each).enumerate() {
            // SAFETY: the caller guarantees it.
            unsafe {
                self.element(here, number).copy_to_nonoverlapping(element.as_mut_ptr(), self.each)
            }
        }
    }

    /// Copies whole elements to the memory, from a byte of the access on.
    ///
    /// # Safety
    /// The memory has room for them, and no other thread uses it.
    pub unsafe fn scatter(&self, here: usize, bytes: &[u8]) {
        if self.is_dense() {
            // SAFETY: the caller guarantees it.
            return unsafe { self.at(here).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        for (number, element) in bytes.chunks_exact(self.each).enumerate() {
            // SAFETY: the caller guarantees it.
            unsafe {
                self.element(here, number).copy_from_nonoverlapping(element.as_ptr(), self.each)
            }
        }
    }

    /// # Safety
    /// The memory covers this element.
    unsafe fn element(&self, here: usize, number: usize) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        unsafe { self.start.add((here / self.each + number) * self.each * self.stride) }
    }
}

//! Memory of callers: where the elements of an access are.

/// Memory of a caller: element `i` of an access, which has so many bytes, is `stride * i` elements
/// behind the first. Elements need not be aligned.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub start: *mut u8,
    /// Bytes of an element.
    pub each: usize,
    pub stride: usize,
}

// SAFETY: who makes it hands the memory over until the access is over.
unsafe impl Send for Memory {}

impl Memory {
    /// Bytes, which may have gaps between them.
    pub fn bytes(start: *mut u8, stride: usize) -> Self {
        Self { start, each: 1, stride }
    }

    /// Whether there are no gaps.
    pub fn is_dense(&self) -> bool {
        self.stride == 1
    }

    /// Where a byte of the access is, if there are no gaps.
    ///
    /// # Safety
    /// The memory is there.
    pub unsafe fn at(&self, here: usize) -> *mut u8 {
        debug_assert!(self.is_dense(), "bytes that follow each other");
        // SAFETY: the caller says so.
        unsafe { self.start.add(here) }
    }

    /// Takes whole elements from the memory, from a byte of the access on.
    ///
    /// # Safety
    /// They are there, and nobody changes them.
    pub unsafe fn gather(&self, here: usize, bytes: &mut [u8]) {
        for (number, element) in bytes.chunks_exact_mut(self.each).enumerate() {
            // SAFETY: the caller says so.
            unsafe {
                self.element(here, number).copy_to_nonoverlapping(element.as_mut_ptr(), self.each)
            }
        }
    }

    /// Puts whole elements to the memory, from a byte of the access on.
    ///
    /// # Safety
    /// There is room for them, which nobody uses.
    pub unsafe fn scatter(&self, here: usize, bytes: &[u8]) {
        if self.is_dense() {
            // SAFETY: the caller says so.
            return unsafe { self.at(here).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        for (number, element) in bytes.chunks_exact(self.each).enumerate() {
            // SAFETY: the caller says so.
            unsafe {
                self.element(here, number).copy_from_nonoverlapping(element.as_ptr(), self.each)
            }
        }
    }

    /// # Safety
    /// It is there.
    unsafe fn element(&self, here: usize, number: usize) -> *mut u8 {
        // SAFETY: the caller says so.
        unsafe { self.start.add((here / self.each + number) * self.each * self.stride) }
    }
}

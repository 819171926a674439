//! The bytes of samples: their order, and samples that do not use their full range.

use crate::Sample;

/// The byte order of numbers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The lowest byte comes first.
    Little,
    /// The highest byte comes first.
    Big,
}

impl ByteOrder {
    /// Converts samples of this order to little-endian ones, and back.
    pub(super) fn convert(self, samples: &mut [u8], sample: Sample) {
        self.swap(samples, sample.bytes());
    }

    /// Does the same for numbers of 1, 2, 4 or 8 bytes.
    pub(super) fn swap(self, samples: &mut [u8], bytes: usize) {
        if self == ByteOrder::Little {
            return;
        }
        match bytes {
            1 => {}
            2 => samples.as_chunks_mut::<2>().0.iter_mut().for_each(|s| s.reverse()),
            4 => samples.as_chunks_mut::<4>().0.iter_mut().for_each(|s| s.reverse()),
            _ => samples.as_chunks_mut::<8>().0.iter_mut().for_each(|s| s.reverse()),
        }
    }
}

/// Whole numbers from 0 to `top`, which are scaled to the full range of their type.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueRange {
    top: u16,
}

impl ValueRange {
    /// Creates the range from 0 to `top`, which is at least 1.
    pub fn new(top: u16) -> ValueRange {
        assert!(top > 0, "a range has more than one number");
        ValueRange { top }
    }

    /// Returns the type that the numbers need.
    pub fn sample(self) -> Sample {
        if self.top > 255 { Sample::U16 } else { Sample::U8 }
    }

    /// Scales a number; `None` if it is not in the range.
    pub fn scale(self, value: u16) -> Option<u16> {
        let (top, value) = (u32::from(self.top), u32::from(value));
        let full = if top > 255 { 65_535 } else { 255 };
        u16::try_from((value * full + top / 2) / top).ok().filter(|_| value <= top)
    }

    /// Scales little-endian samples in place. Returns false if one is not in the range.
    pub fn scale_all(self, samples: &mut [u8]) -> bool {
        match self.top {
            255 | 65_535 => true,
            0..255 => samples.iter_mut().all(|sample| match self.scale((*sample).into()) {
                Some(value) => {
                    *sample = u8::try_from(value).unwrap_or(u8::MAX);
                    true
                }
                None => false,
            }),
            _ => samples.as_chunks_mut::<2>().0.iter_mut().all(|sample| {
                match self.scale(u16::from_le_bytes(*sample)) {
                    Some(value) => {
                        *sample = value.to_le_bytes();
                        true
                    }
                    None => false,
                }
            }),
        }
    }
}

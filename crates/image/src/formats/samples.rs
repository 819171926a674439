//! The bytes of samples: their order, and values that do not use the whole range.

use crate::Sample;

/// The order of the bytes of a sample in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The lowest byte comes first.
    Little,
    /// The highest byte comes first.
    Big,
}

impl ByteOrder {
    /// Turns samples of this order into little-endian ones, and the other way round.
    pub(super) fn convert(self, samples: &mut [u8], sample: Sample) {
        self.swap(samples, sample.bytes());
    }

    /// The same for numbers of 1, 2, 4 or 8 bytes.
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

/// Whole numbers from 0 to `top`, stretched to the range of their type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    top: u16,
}

impl Range {
    /// The numbers from 0 to `top`, which is at least 1.
    pub fn new(top: u16) -> Range {
        assert!(top > 0, "a range has more than one number");
        Range { top }
    }

    /// The type that the numbers need.
    pub fn sample(self) -> Sample {
        if self.top > 255 { Sample::U16 } else { Sample::U8 }
    }

    /// The number stretched, if it is in the range.
    pub fn stretch(self, value: u16) -> Option<u16> {
        let (top, value) = (u32::from(self.top), u32::from(value));
        let full = if top > 255 { 65_535 } else { 255 };
        u16::try_from((value * full + top / 2) / top).ok().filter(|_| value <= top)
    }

    /// Stretches little-endian samples in place. False if one is not in the range.
    pub fn stretch_all(self, samples: &mut [u8]) -> bool {
        match self.top {
            255 | 65_535 => true,
            0..255 => samples.iter_mut().all(|sample| match self.stretch((*sample).into()) {
                Some(value) => {
                    *sample = u8::try_from(value).unwrap_or(u8::MAX);
                    true
                }
                None => false,
            }),
            _ => samples.as_chunks_mut::<2>().0.iter_mut().all(|sample| {
                match self.stretch(u16::from_le_bytes(*sample)) {
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

//! Numbers that can be reduced and accumulated.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::remote::message::AtomicChange;

/// A number that can be accumulated in the memory of a rank.
///
/// Whole numbers wrap around.
pub trait Number: Copy + Default + PartialOrd + Send + Sync + sealed::Sealed + 'static {
    /// The number of the type on the board.
    #[doc(hidden)]
    const KIND: u32;
    /// This one and another.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// This one times a factor.
    #[must_use]
    fn times(self, factor: Self) -> Self;
    /// The one of the type.
    #[must_use]
    fn one() -> Self;
    /// Its absolute value. That of the smallest signed number is the number itself.
    #[must_use]
    fn magnitude(self) -> Self;
    /// Whether it is a whole number, so that its bits have a meaning.
    #[doc(hidden)]
    const HAS_BITS: bool;
    /// The bitwise or of whole numbers; this one of others.
    #[doc(hidden)]
    #[must_use]
    fn bit_or(self, other: Self) -> Self;
    /// The number in the machine's byte order, with zeros behind it.
    #[doc(hidden)]
    fn to_bytes(self) -> [u8; 8];
    /// The number of such bytes.
    #[doc(hidden)]
    fn of_bytes(bytes: &[u8; 8]) -> Self;
}

/// A whole number that is changed atomically in the memory of a rank.
pub trait Word: Number {
    /// Adds at an address; returns the previous value.
    ///
    /// # Safety
    /// The place must be aligned, mapped for as long as the call takes, and changed by others only
    /// in the same manner.
    #[doc(hidden)]
    unsafe fn fetch_add(place: *mut u8, value: Self) -> Self;
    /// Replaces the value at an address; returns the previous value.
    ///
    /// # Safety
    /// As of `fetch_add`.
    #[doc(hidden)]
    unsafe fn swap(place: *mut u8, value: Self) -> Self;
    /// The request to add on another machine.
    #[doc(hidden)]
    const ADD: fn(u64) -> AtomicChange;
    /// The request to replace on another machine.
    #[doc(hidden)]
    const SWAP: fn(u64) -> AtomicChange;
    /// Its bits.
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    /// The number that has these bits.
    #[doc(hidden)]
    fn of_bits(bits: u64) -> Self;
}

mod sealed {
    /// Only types whose every pattern of bits is a number.
    pub trait Sealed {}
}

macro_rules! whole {
    ($($kind:literal $type:ty as $bits:ty, $atomic:ty, $add:ident, $swap:ident, $magnitude:path;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Number for $type {
            const KIND: u32 = $kind;

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn times(self, factor: Self) -> Self {
                self.wrapping_mul(factor)
            }

            fn one() -> Self {
                1
            }

            fn magnitude(self) -> Self {
                $magnitude(self)
            }

            const HAS_BITS: bool = true;

            fn bit_or(self, other: Self) -> Self {
                self | other
            }

            fn to_bytes(self) -> [u8; 8] {
                let mut bytes = [0; 8];
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_ne_bytes());
                bytes
            }

            fn of_bytes(bytes: &[u8; 8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(&bytes[..size_of::<Self>()]);
                Self::from_ne_bytes(own)
            }
        }

        #[allow(clippy::cast_possible_truncation, reason = "there are no more bits")]
        impl Word for $type {
            const ADD: fn(u64) -> AtomicChange = |bits| AtomicChange::$add(bits as $bits);
            const SWAP: fn(u64) -> AtomicChange = |bits| AtomicChange::$swap(bits as $bits);

            unsafe fn fetch_add(place: *mut u8, value: Self) -> Self {
                // SAFETY: the caller says that the place is aligned and mapped.
                let word = unsafe { <$atomic>::from_ptr(place.cast()) };
                word.fetch_add(<$bits>::from_ne_bytes(value.to_ne_bytes()), Ordering::AcqRel) as Self
            }

            unsafe fn swap(place: *mut u8, value: Self) -> Self {
                // SAFETY: the caller says that the place is aligned and mapped.
                let word = unsafe { <$atomic>::from_ptr(place.cast()) };
                word.swap(<$bits>::from_ne_bytes(value.to_ne_bytes()), Ordering::AcqRel) as Self
            }

            fn to_bits(self) -> u64 {
                <$bits>::from_ne_bytes(self.to_ne_bytes()).into()
            }

            fn of_bits(bits: u64) -> Self {
                bits as Self
            }
        }
    )*};
}

macro_rules! real {
    ($($kind:literal $type:ty;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Number for $type {
            const KIND: u32 = $kind;

            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn times(self, factor: Self) -> Self {
                self * factor
            }

            fn one() -> Self {
                1.0
            }

            fn magnitude(self) -> Self {
                self.abs()
            }

            const HAS_BITS: bool = false;

            fn bit_or(self, _other: Self) -> Self {
                self
            }

            fn to_bytes(self) -> [u8; 8] {
                let mut bytes = [0; 8];
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_ne_bytes());
                bytes
            }

            fn of_bytes(bytes: &[u8; 8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(&bytes[..size_of::<Self>()]);
                Self::from_ne_bytes(own)
            }
        }
    )*};
}

whole! {
    1 i32 as u32, AtomicU32, Add32, Swap32, i32::wrapping_abs;
    2 u32 as u32, AtomicU32, Add32, Swap32, std::convert::identity;
    3 i64 as u64, AtomicU64, Add64, Swap64, i64::wrapping_abs;
    4 u64 as u64, AtomicU64, Add64, Swap64, std::convert::identity;
}

real! {
    5 f32;
    6 f64;
}

/// Evaluates an expression with the type of this number; none if there is none.
macro_rules! with_kind {
    ($kind:expr, $type:ident => $do:expr) => {
        match $kind {
            1 => {
                type $type = i32;
                Some($do)
            }
            2 => {
                type $type = u32;
                Some($do)
            }
            3 => {
                type $type = i64;
                Some($do)
            }
            4 => {
                type $type = u64;
                Some($do)
            }
            5 => {
                type $type = f32;
                Some($do)
            }
            6 => {
                type $type = f64;
                Some($do)
            }
            _ => None,
        }
    };
}
pub(crate) use with_kind;

/// The name of a type on the board.
pub fn name_of(kind: u32) -> &'static str {
    match kind {
        1 => "i32",
        2 => "u32",
        3 => "i64",
        4 => "u64",
        5 => "f32",
        6 => "f64",
        _ => "unknown here",
    }
}

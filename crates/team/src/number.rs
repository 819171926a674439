//! Numbers that can be reduced and accumulated.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A number that can be added to another in somebody's memory.
///
/// Whole numbers wrap around.
pub trait Number: Copy + Default + PartialOrd + Send + Sync + sealed::Sealed + 'static {
    /// What stands on the board for the type.
    #[doc(hidden)]
    const KIND: u32;
    /// This one and another.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// This one so many times.
    #[must_use]
    fn times(self, factor: Self) -> Self;
    /// The one of the type.
    #[must_use]
    fn one() -> Self;
}

/// A whole number that is changed in somebody's memory by one instruction.
pub trait Word: Number {
    /// Adds at a place; what was there before.
    ///
    /// # Safety
    /// The place must be aligned, mapped for as long as the call takes, and changed by others only
    /// in the same manner.
    #[doc(hidden)]
    unsafe fn fetch_add(place: *mut u8, value: Self) -> Self;
    /// Puts it at a place; what was there before.
    ///
    /// # Safety
    /// As of `fetch_add`.
    #[doc(hidden)]
    unsafe fn swap(place: *mut u8, value: Self) -> Self;
}

mod sealed {
    /// Only types whose every pattern of bits is a number.
    pub trait Sealed {}
}

macro_rules! whole {
    ($($kind:literal $type:ty as $bits:ty, $atomic:ty;)*) => {$(
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
        }

        impl Word for $type {
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
        }
    )*};
}

whole! {
    1 i32 as u32, AtomicU32;
    2 u32 as u32, AtomicU32;
    3 i64 as u64, AtomicU64;
    4 u64 as u64, AtomicU64;
}

real! {
    5 f32;
    6 f64;
}

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

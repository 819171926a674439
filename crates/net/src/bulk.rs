//! Bulk data: reference-counted bytes that travel beside a token's head.
//!
//! Inside a token a [`Bulk`] is a number in the head and a segment beside it. Serde knows no
//! segments, so they pass through a collector of the encoding or decoding thread.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Deref, RangeBounds};

use bytes::Bytes;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Reference-counted bytes that are sent and received without being copied.
///
/// As a field of a serde type that is sent as a token, it becomes a segment of the token. Serialised
/// in any other way, it is plain bytes.
///
/// A segment of less than [`BULK_BYTES`](crate::wire::BULK_BYTES) shares the memory it was received
/// in with the tokens of the same packet; copy segments that are kept for long.
///
/// ```
/// use pario_net::{Bulk, Space};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Tile {
///     at: (u32, u32),
///     pixels: Bulk,
/// }
///
/// let space = Space::alone("painter");
/// let tiles = space.input::<Tile>("tiles").unwrap();
/// tiles.output().send(Tile { at: (1, 2), pixels: vec![0; 10_000].into() }).unwrap();
/// assert_eq!(tiles.recv().unwrap().pixels.len(), 10_000);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Bulk(Bytes);

impl Bulk {
    /// No bytes.
    pub const fn new() -> Self {
        Self(Bytes::new())
    }

    /// A part of the bytes, in the same memory.
    ///
    /// # Panics
    /// If the range is not within the bytes.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        Self(self.0.slice(range))
    }

    /// The bytes.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl Deref for Bulk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Bulk {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Bytes> for Bulk {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl From<Vec<u8>> for Bulk {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bulk({} bytes)", self.len())
    }
}

thread_local! {
    /// Whether a token is being encoded or decoded by this thread.
    static COLLECTING: Cell<bool> = const { Cell::new(false) };
    static SEGMENTS: RefCell<Vec<Option<Bulk>>> = const { RefCell::new(Vec::new()) };
}

/// Collects the segments of a token that is being encoded by serde.
pub(crate) fn collect<R>(encode: impl FnOnce() -> R) -> (R, Vec<Option<Bulk>>) {
    let outer = Collecting::begin(Vec::new());
    let result = encode();
    let segments =
        SEGMENTS.with_borrow_mut(|s| if s.is_empty() { Vec::new() } else { std::mem::take(s) });
    drop(outer);
    (result, segments)
}

/// Hands out the segments of a token that is being decoded by serde.
pub(crate) fn hand_out<R>(segments: Vec<Bulk>, decode: impl FnOnce() -> R) -> R {
    let given =
        if segments.is_empty() { Vec::new() } else { segments.into_iter().map(Some).collect() };
    let _outer = Collecting::begin(given);
    decode()
}

/// Restores the segments of an outer token, also when encoding panics.
struct Collecting {
    was: bool,
    outer: Vec<Option<Bulk>>,
}

impl Collecting {
    fn begin(segments: Vec<Option<Bulk>>) -> Self {
        let was = COLLECTING.replace(true);
        // Without an outer token the list is empty already.
        let outer =
            if was || !segments.is_empty() { SEGMENTS.replace(segments) } else { Vec::new() };
        Self { was, outer }
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        COLLECTING.set(self.was);
        SEGMENTS.with_borrow_mut(|segments| {
            if !segments.is_empty() || !self.outer.is_empty() {
                *segments = std::mem::take(&mut self.outer);
            }
        });
    }
}

impl Serialize for Bulk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !COLLECTING.get() {
            return serializer.serialize_bytes(self);
        }
        let number = SEGMENTS.with_borrow_mut(|segments| {
            segments.push(Some(self.clone()));
            segments.len() - 1
        });
        serializer.serialize_u32(u32::try_from(number).unwrap_or(u32::MAX))
    }
}

impl<'de> Deserialize<'de> for Bulk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !COLLECTING.get() {
            return deserializer.deserialize_byte_buf(PlainBytes);
        }
        let number = u32::deserialize(deserializer)? as usize;
        let segment =
            SEGMENTS.with_borrow_mut(|segments| segments.get_mut(number).and_then(Option::take));
        segment.ok_or_else(|| de::Error::custom("a bulk segment is missing"))
    }
}

struct PlainBytes;

impl Visitor<'_> for PlainBytes {
    type Value = Bulk;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Bulk, E> {
        Ok(bytes.to_vec().into())
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Bulk, E> {
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_a_token_bulk_is_plain_bytes() {
        let bulk = Bulk::from(vec![1, 2, 3]);
        let plain = postcard::to_allocvec(&bulk).unwrap();
        assert_eq!(plain, [3, 1, 2, 3]);
        assert_eq!(postcard::from_bytes::<Bulk>(&plain).unwrap(), bulk);
    }

    #[test]
    fn inside_of_a_token_bulk_is_a_segment_taken_once() {
        let pair = (Bulk::from(vec![1; 9]), Bulk::from(vec![2; 9]));
        let (head, segments) = collect(|| postcard::to_allocvec(&pair).unwrap());
        assert_eq!((head.as_slice(), segments.len()), (&[0u8, 1][..], 2));
        let segments: Vec<Bulk> = segments.into_iter().flatten().collect();
        let back = hand_out(segments.clone(), || postcard::from_bytes::<(Bulk, Bulk)>(&head));
        assert_eq!(back.unwrap(), pair);
        let twice = hand_out(segments, || postcard::from_bytes::<(Bulk, Bulk)>(&[1, 1]));
        assert!(twice.is_err());
        assert!(!COLLECTING.get());
    }
}

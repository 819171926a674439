//! Tokens: values that become a head and bulk segments, and come back from them.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::Bulk;
use crate::bulk::{collect, hand_out};
use crate::file_part::FilePart;

/// A value that can be sent to a port.
///
/// Every serde type is a token: its head is encoded by postcard, which does not depend on the
/// machine, and each [`Bulk`] in it becomes a segment. Types that are not serde types implement it
/// by hand.
pub trait Token: Sized + Send + 'static {
    /// The kind that two sides must agree on. Checked when an output port is opened.
    fn kind() -> TokenKind {
        TokenKind::named(std::any::type_name::<Self>())
    }

    /// The credit cost of a token in a port of its own process, where it is never encoded.
    fn weight_bytes(&self) -> usize {
        size_of::<Self>()
    }

    /// Appends the token to the outgoing bytes.
    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError>;

    /// Decodes the token.
    fn decode(incoming: Incoming<'_>) -> Result<Self, DecodeError>;
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Token for T {
    #[inline]
    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        encode_value(&self, out)
    }

    #[inline]
    fn decode(mut incoming: Incoming<'_>) -> Result<Self, DecodeError> {
        let segments = incoming.segments();
        decode_value(incoming.head(), segments)
    }
}

/// Appends a serde value to the head and its bulk to the segments of a token.
#[inline]
pub fn encode_value<T: Serialize + ?Sized>(
    value: &T,
    out: &mut Outgoing<'_>,
) -> Result<(), EncodeError> {
    let (result, segments) =
        collect(|| postcard::serialize_with_flavor(value, HeadFlavor(&mut out.head)));
    result?;
    out.segments.extend(segments.into_iter().flatten());
    Ok(())
}

/// Makes a serde value from a head and segments.
#[inline]
pub fn decode_value<T: DeserializeOwned>(
    head: &[u8],
    segments: Vec<Bulk>,
) -> Result<T, DecodeError> {
    Ok(hand_out(segments, || postcard::from_bytes(head))?)
}

/// Decodes a serde value without bulk from the front of a head. Returns it with its length.
#[inline]
pub fn decode_front<T: DeserializeOwned>(head: &[u8]) -> Result<(T, usize), DecodeError> {
    let (value, rest) = postcard::take_from_bytes(head)?;
    Ok((value, head.len() - rest.len()))
}

/// The name of a type and a number made from it, the same on all machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKind {
    name: String,
    fingerprint: u64,
}

impl TokenKind {
    /// The kind of this name.
    pub fn named(name: &str) -> Self {
        let hash = blake3::hash(name.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        Self { name: name.to_owned(), fingerprint: u64::from_le_bytes(first) }
    }

    /// The name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number that two sides compare.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

/// A token that is being sent.
pub struct Outgoing<'a> {
    head: TokenHead<'a>,
    segments: &'a mut Vec<Bulk>,
    /// The part of a file sent in place of the empty segment of this number.
    file: Option<(usize, FilePart)>,
}

impl<'a> Outgoing<'a> {
    /// A token whose head is appended to `head` and whose segments are appended to `segments`.
    pub fn new(head: &'a mut Vec<u8>, segments: &'a mut Vec<Bulk>) -> Self {
        let start = head.len();
        Self { head: TokenHead { buffer: head, start }, segments, file: None }
    }

    /// The head so far, to be appended to.
    #[inline]
    pub fn head(&mut self) -> &mut TokenHead<'a> {
        &mut self.head
    }

    /// Adds a segment.
    pub fn bulk(&mut self, bulk: Bulk) {
        self.segments.push(bulk);
    }

    /// Sends a part of a file in place of the first segment that is empty.
    pub(crate) fn file(&mut self, part: FilePart) -> Result<(), EncodeError> {
        let Some(number) = self.segments.iter().position(|segment| segment.is_empty()) else {
            let why = "it has no empty bulk that a part of a file could be sent for";
            return Err(EncodeError::Other(why.to_owned()));
        };
        self.file = Some((number, part));
        Ok(())
    }

    pub(crate) fn take_file(&mut self) -> Option<(usize, FilePart)> {
        self.file.take()
    }
}

/// The head of a token that is being sent, in the memory from which it will be written. It can
/// only grow.
pub struct TokenHead<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl TokenHead<'_> {
    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Appends a byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.buffer.push(byte);
    }

    /// How many bytes the head has.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::io::Write for TokenHead<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct HeadFlavor<'a, 'b>(&'a mut TokenHead<'b>);

impl Flavor for HeadFlavor<'_, '_> {
    type Output = ();

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// A token that was received.
pub struct Incoming<'a> {
    head: IncomingHead<'a>,
    segments: Vec<Bulk>,
    arrived_ns: Option<u64>,
}

enum IncomingHead<'a> {
    /// A range of the memory that was received into.
    Part {
        packet: &'a Bytes,
        start: usize,
        end: usize,
    },
    Slice(&'a [u8]),
}

impl<'a> Incoming<'a> {
    /// A token with this head and these segments.
    pub fn new(head: &'a [u8], segments: Vec<Bulk>) -> Self {
        Self { head: IncomingHead::Slice(head), segments, arrived_ns: None }
    }

    /// A token whose head is a part of a packet.
    #[inline]
    pub(crate) fn of_packet(
        packet: &'a Bytes,
        Range { start, end }: Range<usize>,
        segments: Vec<Bulk>,
        arrived_ns: u64,
    ) -> Self {
        let head = IncomingHead::Part { packet, start, end };
        Self { head, segments, arrived_ns: Some(arrived_ns) }
    }

    /// The token behind these bytes of the head.
    #[inline]
    pub(crate) fn skip(self, bytes: usize) -> Self {
        let head = match self.head {
            IncomingHead::Part { packet, start, end } => {
                IncomingHead::Part { packet, start: (start + bytes).min(end), end }
            }
            IncomingHead::Slice(head) => IncomingHead::Slice(&head[bytes.min(head.len())..]),
        };
        Self { head, ..self }
    }

    /// The arrival time in nanoseconds of the monotonic clock, before the token waited in its port.
    #[inline]
    pub fn arrived_ns(&self) -> Option<u64> {
        self.arrived_ns
    }

    /// The head.
    #[inline]
    pub fn head(&self) -> &'a [u8] {
        match self.head {
            IncomingHead::Part { packet, start, end } => &packet[start..end],
            IncomingHead::Slice(head) => head,
        }
    }

    /// The head, sharing the memory it was received in.
    pub fn head_bytes(&self) -> Bytes {
        match self.head {
            IncomingHead::Part { packet, start, end } => packet.slice(start..end),
            IncomingHead::Slice(head) => Bytes::copy_from_slice(head),
        }
    }

    /// Takes the segments out.
    #[inline]
    pub fn segments(&mut self) -> Vec<Bulk> {
        std::mem::take(&mut self.segments)
    }
}

impl fmt::Debug for Incoming<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming({} bytes, {} segments)", self.head().len(), self.segments.len())
    }
}

/// A token could not be encoded.
#[derive(Debug, Error)]
pub enum EncodeError {
    /// Serde refused.
    #[error("the token cannot be encoded: {0}; its type must not ask what the format is")]
    Serde(#[from] postcard::Error),
    /// A token implemented by hand refused.
    #[error("the token cannot be encoded: {0}")]
    Other(String),
}

/// Received bytes are not a token of the expected type.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The head does not fit the type.
    #[error("the bytes are not a token of this type: {0}; both sides must have the same type")]
    Serde(#[from] postcard::Error),
    /// A token implemented by hand refused.
    #[error("the bytes are not a token of this type: {0}")]
    Other(String),
}

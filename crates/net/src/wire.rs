//! The wire format of a link: packets of frames. No I/O.
//!
//! A link carries a sequence of packets. A packet is a header, an *inline area* with frames one
//! after the other, and a *bulk area* with the long segments of these frames in order:
//!
//! ```text
//! packet:  inline_len u32 | frame_count u32 | bulk_len u64 | frames, padding | bulk
//! frame:   channel u32 | head_len u32 | segment_count u16 | kind u8 | 0 u8 | head
//!          | segment_count lengths u32 | bytes of the short segments
//! ```
//!
//! Numbers are little-endian. A segment is long if it has [`BULK_BYTES`] or more.
//!
//! *The bulk area of a packet begins at least [`LEAD_BYTES`] after the packet.* This avoids copies:
//! a receiver that does not know yet what comes may always read that much without touching bulk,
//! and then knows where everything belongs.

use thiserror::Error;

/// Bytes of a packet's header.
pub const PACKET_HEADER_BYTES: usize = 16;
/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 12;
/// The smallest distance from the beginning of a packet to its bulk.
pub const LEAD_BYTES: usize = 512;
/// Segments of this size and more travel in the bulk area.
pub const BULK_BYTES: usize = 4096;
/// The channel of control messages.
pub const CONTROL_CHANNEL: u32 = 0;

/// The limits of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// Bytes of an inline area, and with that of a head.
    pub inline_bytes: usize,
    /// Bytes of one segment.
    pub segment_bytes: usize,
    /// Bytes of a bulk area.
    pub bulk_bytes: usize,
    /// Segments of a frame.
    pub segments: usize,
}

/// Bytes of the inline area of a packet, unless the [`WireLimits`] of a space say otherwise: the
/// largest head that is sent has half of it.
pub const PACKET_INLINE_LIMIT_BYTES: usize = 32 << 20;
/// Bytes of the bulk area of a packet, unless the [`WireLimits`] of a space say otherwise: the largest
/// token that is sent has half of it.
pub const PACKET_BULK_LIMIT_BYTES: usize = 1 << 30;

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            inline_bytes: PACKET_INLINE_LIMIT_BYTES,
            segment_bytes: PACKET_BULK_LIMIT_BYTES / 2,
            bulk_bytes: PACKET_BULK_LIMIT_BYTES,
            segments: 1024,
        }
    }
}

impl WireLimits {
    /// WireLimits for tokens with at most this many bytes of bulk.
    pub fn for_tokens(bulk_bytes: usize) -> Self {
        Self { segment_bytes: bulk_bytes, bulk_bytes: 2 * bulk_bytes, ..Self::default() }
    }
}

/// Received bytes are not a packet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// A length beyond what the receiver accepts.
    #[error("{what} of {bytes} exceeds the limit of {limit}")]
    TooLong {
        /// Of what.
        what: &'static str,
        /// The length.
        bytes: u64,
        /// What would be accepted.
        limit: u64,
    },
    /// Numbers that contradict each other.
    #[error("a packet that contradicts itself: {0}")]
    Malformed(&'static str),
}

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Bytes of the inline area, padding included.
    pub inline_len: usize,
    /// Number of frames.
    pub frame_count: u32,
    /// Bytes of the bulk area.
    pub bulk_len: u64,
}

impl PacketHeader {
    /// Writes the header.
    pub fn write(&self, to: &mut [u8]) {
        let inline_len = u32::try_from(self.inline_len).expect("an inline area is below 4 GiB");
        to[0..4].copy_from_slice(&inline_len.to_le_bytes());
        to[4..8].copy_from_slice(&self.frame_count.to_le_bytes());
        to[8..16].copy_from_slice(&self.bulk_len.to_le_bytes());
    }

    /// Reads and checks a header.
    pub fn read(from: &[u8; PACKET_HEADER_BYTES], limits: &WireLimits) -> Result<Self, WireError> {
        let inline_len = u32_at(from, 0) as usize;
        let frame_count = u32_at(from, 4);
        let bulk_len = u64::from(u32_at(from, 8)) | u64::from(u32_at(from, 12)) << 32;
        check("an inline area", inline_len as u64, limits.inline_bytes)?;
        check("a bulk area", bulk_len, limits.bulk_bytes)?;
        if bulk_len > 0 && PACKET_HEADER_BYTES + inline_len < LEAD_BYTES {
            return Err(WireError::Malformed("its bulk begins too early"));
        }
        if (frame_count as usize).saturating_mul(FRAME_HEADER_BYTES) > inline_len {
            return Err(WireError::Malformed("more frames than its inline area can hold"));
        }
        Ok(Self { inline_len, frame_count, bulk_len })
    }
}

/// Where the parts of a frame are in an inline area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The channel.
    pub channel: u32,
    /// Where the head begins.
    pub head_start: usize,
    /// Where the head ends; the lengths of the segments follow.
    pub head_end: usize,
    /// Number of segments.
    pub segment_count: usize,
    /// Where the frame ends.
    pub end: usize,
    /// Number of segments in the bulk area.
    pub bulk_count: usize,
    /// Bytes of these.
    pub bulk_bytes: usize,
}

impl Frame {
    /// The frame at `at` of an inline area, checked.
    #[inline]
    pub fn read(inline: &[u8], at: usize, limits: &WireLimits) -> Result<Self, WireError> {
        let Some(header) = inline.get(at..).and_then(|rest| rest.first_chunk::<12>()) else {
            return Err(WireError::Malformed("a frame is cut off"));
        };
        if header[10] != 0 {
            return Err(WireError::Malformed("a frame of unknown kind"));
        }
        let head_start = at + FRAME_HEADER_BYTES;
        let head_end = head_start + u32_at(header, 4) as usize;
        let segment_count = usize::from(u16::from_le_bytes([header[8], header[9]]));
        let mut frame = Self {
            channel: u32_at(header, 0),
            head_start,
            head_end,
            segment_count,
            end: head_end,
            bulk_count: 0,
            bulk_bytes: 0,
        };
        if head_end > inline.len() {
            return Err(WireError::Malformed("a head that does not fit"));
        }
        if segment_count > 0 {
            frame.read_lengths(inline, limits)?;
        }
        Ok(frame)
    }

    fn read_lengths(&mut self, inline: &[u8], limits: &WireLimits) -> Result<(), WireError> {
        check("a list of segments", self.segment_count as u64, limits.segments)?;
        let lengths_end = self.head_end + 4 * self.segment_count;
        if lengths_end > inline.len() {
            return Err(WireError::Malformed("a list of segments that does not fit"));
        }
        let mut short_bytes = 0;
        for length in self.lengths(inline) {
            if length >= BULK_BYTES {
                check("a segment", length as u64, limits.segment_bytes)?;
                self.bulk_count += 1;
                self.bulk_bytes += length;
            } else {
                short_bytes += length;
            }
        }
        // As for senders: half of what a packet may have.
        check("the sum of segments", self.bulk_bytes as u64, limits.bulk_bytes / 2)?;
        self.end = lengths_end + short_bytes;
        if self.end > inline.len() {
            return Err(WireError::Malformed("short segments that do not fit"));
        }
        Ok(())
    }

    /// The lengths of the segments.
    pub fn lengths<'a>(&self, inline: &'a [u8]) -> impl Iterator<Item = usize> + use<'a> {
        let lengths = &inline[self.head_end..self.head_end + 4 * self.segment_count];
        lengths.chunks_exact(4).map(|four| u32_at(four, 0) as usize)
    }

    /// Where the bytes of the short segments begin.
    pub fn short_start(&self) -> usize {
        self.head_end + 4 * self.segment_count
    }

    /// The credit cost of the frame: all its bytes.
    #[inline]
    pub fn cost(&self) -> usize {
        self.end - self.head_start + FRAME_HEADER_BYTES + self.bulk_bytes
    }
}

/// Begins a frame: room for its header, to be followed by the head.
#[inline]
pub fn begin_frame(inline: &mut Vec<u8>) -> usize {
    let at = inline.len();
    inline.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    at
}

/// Ends the frame that began at `at` and has its head behind it. `segments` are the bytes of its
/// segments; short ones are appended here, long ones are the caller's to put into the bulk area.
#[inline]
pub fn end_frame<'a>(
    inline: &mut Vec<u8>,
    at: usize,
    channel: u32,
    segments: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    limits: &WireLimits,
) -> Result<(), WireError> {
    let segments = segments.map(|segment| (segment.len(), segment));
    end_frame_of(inline, at, channel, segments, limits)
}

/// Like [`end_frame`], for segments that are not all in memory: their lengths, and the bytes of
/// short ones.
#[inline]
pub(crate) fn end_frame_of<'a>(
    inline: &mut Vec<u8>,
    at: usize,
    channel: u32,
    segments: impl ExactSizeIterator<Item = (usize, &'a [u8])> + Clone,
    limits: &WireLimits,
) -> Result<(), WireError> {
    let head_len = inline.len() - at - FRAME_HEADER_BYTES;
    let count = segments.len();
    check("a list of segments", count as u64, limits.segments.min(usize::from(u16::MAX)))?;
    if count > 0 {
        let mut bytes = 0u64;
        for (len, _) in segments.clone() {
            check("a segment", len as u64, limits.segment_bytes)?;
            bytes += len as u64;
            let length = u32::try_from(len).unwrap_or(u32::MAX);
            inline.extend_from_slice(&length.to_le_bytes());
        }
        check("the sum of segments", bytes, limits.bulk_bytes / 2)?;
        for (_, short) in segments.filter(|(len, _)| *len < BULK_BYTES) {
            inline.extend_from_slice(short);
        }
    }
    // A packet may hold one frame of the largest size and the frames gathered before it; therefore
    // half of the limit, here and above.
    check("a head", (inline.len() - at) as u64, limits.inline_bytes / 2)?;
    let header = &mut inline[at..at + FRAME_HEADER_BYTES];
    header[0..4].copy_from_slice(&channel.to_le_bytes());
    header[4..8].copy_from_slice(&u32::try_from(head_len).unwrap_or(u32::MAX).to_le_bytes());
    header[8..10].copy_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
    Ok(())
}

fn check(what: &'static str, bytes: u64, limit: usize) -> Result<(), WireError> {
    let limit = limit as u64;
    if bytes > limit { Err(WireError::TooLong { what, bytes, limit }) } else { Ok(()) }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

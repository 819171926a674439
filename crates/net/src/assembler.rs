//! Assembles packets from bytes: a state machine without I/O.
//!
//! The assembler names the memory for the next bytes, and the caller says how many came. Inline
//! areas go to slabs, long segments straight to buffers of their own. The assembler never asks for
//! bytes whose destination it does not know: at the beginning of a packet it asks for
//! [`LEAD_BYTES`], afterwards for the rest of the packet and the lead of the next. The long segment
//! of a reply that a receive buffer expects goes straight to that buffer.
//!
//! *Memory follows the bytes that have come, not what a header promises.* The first slab of a link
//! is small, and slabs grow with traffic. A packet with a bulk area is *announced* when its inline
//! area is complete: the link then checks the frames against the credit of their channels, before
//! any memory for the bulk area is allocated. Segments get their memory a few at a time.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::MutexGuard;

use crate::Bulk;
use crate::pool::{BulkBuffer, PoolSlab};
use crate::recv_buffer::{RecvBuffer, RecvBufferState, RecvBuffers};
use crate::wire::{
    BULK_BYTES, Frame, LEAD_BYTES, PACKET_HEADER_BYTES, PacketHeader, WireError, WireLimits,
};

/// Bytes of a slab of a busy link, unless a packet needs more.
pub(crate) const SLAB_BYTES: usize = 256 << 10;
/// Bytes of the first slab of a link, and of one after a time with little traffic.
const FIRST_SLAB_BYTES: usize = 8 << 10;
/// Long segments that are read by one call.
const BUFFERS_AT_ONCE: usize = 32;
/// Long segments get memory together until they have this many bytes.
const BUFFER_BYTES_AT_ONCE: usize = 256 << 10;

/// A packet that arrived as a whole and was checked.
#[derive(Debug)]
pub struct Packet {
    /// The inline area.
    pub inline: Bytes,
    /// The long segments of its frames, in order.
    pub bulk: Vec<Bulk>,
    /// Its frames, those that follow each other on the same channel taken together.
    pub groups: Vec<FrameGroup>,
    /// Number of frames.
    pub frame_count: u32,
    /// Whether its frames were checked against the credit of their channels when it was announced.
    pub(crate) is_admitted: bool,
}

/// Frames that follow each other on the same channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameGroup {
    /// The channel.
    pub channel: u32,
    /// Where they begin in the inline area.
    pub start: usize,
    /// Where they end.
    pub end: usize,
    /// How many they are.
    pub frame_count: u32,
    /// How many long segments they have.
    pub bulk_count: usize,
    /// Their credit cost.
    pub cost: usize,
    /// The credit cost of the last one.
    pub last_cost: usize,
}

/// Where the bytes of a long segment go.
enum SegmentDestination {
    /// To a buffer of their own, of this length.
    Buffer(usize),
    RecvBuffer(Arc<RecvBuffer>),
}

/// Reads the frames of an inline area; returns them grouped, and the destinations of the long
/// segments.
fn read_frames(
    inline: &[u8],
    header: &PacketHeader,
    limits: &WireLimits,
    recv_buffers: Option<&RecvBuffers>,
) -> Result<(Vec<FrameGroup>, Vec<SegmentDestination>), WireError> {
    let mut groups: Vec<FrameGroup> = Vec::with_capacity(1);
    let mut destinations = Vec::new();
    let mut at = 0;
    let mut bulk_len = 0u64;
    for _ in 0..header.frame_count {
        let frame = Frame::read(inline, at, limits)?;
        if frame.bulk_count > 0 {
            let buffer = recv_buffers.filter(|_| frame.bulk_count == 1).and_then(|recv_buffers| {
                let head = &inline[frame.head_start..frame.head_end];
                recv_buffers.take(frame.channel, head, frame.bulk_bytes)
            });
            match buffer {
                Some(buffer) => destinations.push(SegmentDestination::RecvBuffer(buffer)),
                None => {
                    let long = frame.lengths(inline).filter(|&length| length >= BULK_BYTES);
                    destinations.extend(long.map(SegmentDestination::Buffer));
                }
            }
            bulk_len += frame.bulk_bytes as u64;
        }
        let cost = frame.cost();
        match groups.last_mut() {
            Some(last) if last.channel == frame.channel => {
                last.end = frame.end;
                last.frame_count += 1;
                last.bulk_count += frame.bulk_count;
                last.cost += cost;
                last.last_cost = cost;
            }
            _ => groups.push(FrameGroup {
                channel: frame.channel,
                start: at,
                end: frame.end,
                frame_count: 1,
                bulk_count: frame.bulk_count,
                cost,
                last_cost: cost,
            }),
        }
        at = frame.end;
    }
    if bulk_len != header.bulk_len {
        return Err(WireError::Malformed("its segments do not add up to its bulk area"));
    }
    if inline.len() - at > LEAD_BYTES {
        return Err(WireError::Malformed("more padding than is ever needed"));
    }
    Ok((groups, destinations))
}

impl Packet {
    /// Builds a packet that did not travel as bytes: `sealed` is its header and inline area.
    pub(crate) fn from_parts(
        sealed: Bytes,
        bulk: Vec<Bulk>,
        limits: &WireLimits,
    ) -> Result<Self, WireError> {
        let Some(header) = sealed.first_chunk::<PACKET_HEADER_BYTES>() else {
            return Err(WireError::Malformed("its header is cut off"));
        };
        let header = PacketHeader::read(header, limits)?;
        let inline = sealed.slice(PACKET_HEADER_BYTES..);
        let (groups, _) = read_frames(&inline, &header, limits, None)?;
        let frame_count = header.frame_count;
        Ok(Self { inline, bulk, groups, frame_count, is_admitted: false })
    }
}

/// Assembles packets.
pub struct Assembler {
    limits: WireLimits,
    recv_buffers: Option<Arc<RecvBuffers>>,
    /// None until the first bytes are read, and while the link is idle.
    slab: Option<PoolSlab>,
    /// Bytes that the next slab has at least.
    next_slab_bytes: usize,
    /// Bytes of the slab's rest that were read.
    filled: usize,
    /// The header of the packet whose inline area is being read.
    header: Option<PacketHeader>,
    /// A packet whose bulk area is being read.
    body: Option<BulkAssembly>,
    ready: VecDeque<Packet>,
    /// Bytes of long segments that came, and those of them that were read straight to their
    /// destination.
    bulk_bytes: u64,
    placed_bytes: u64,
}

struct BulkAssembly {
    packet: Packet,
    /// Memory for the next segments; more is allocated when it is needed, not when it is promised.
    targets: VecDeque<SegmentTarget>,
    /// Where the segments after these go.
    destinations: std::vec::IntoIter<SegmentDestination>,
    /// Bytes of the first of the targets that were read.
    filled: usize,
}

/// TargetMemory that a long segment is read into.
enum SegmentTarget {
    Buffer(BulkBuffer),
    RecvBuffer {
        buffer: Arc<RecvBuffer>,
        /// For bytes that come after the caller has taken its memory back; from then on all bytes
        /// go here.
        aside: Option<BulkBuffer>,
    },
}

/// Memory of a target, to be read into now.
enum TargetMemory<'a> {
    Own(&'a mut [u8]),
    Borrowed(MutexGuard<'a, RecvBufferState>),
}

impl SegmentTarget {
    fn new(destination: SegmentDestination) -> Self {
        match destination {
            SegmentDestination::Buffer(len) => Self::Buffer(BulkBuffer::new(len)),
            SegmentDestination::RecvBuffer(buffer) => Self::RecvBuffer { buffer, aside: None },
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Buffer(buffer) => buffer.len(),
            Self::RecvBuffer { buffer, .. } => buffer.len(),
        }
    }

    fn memory(&mut self) -> TargetMemory<'_> {
        match self {
            Self::Buffer(buffer) => TargetMemory::Own(buffer),
            Self::RecvBuffer { buffer, aside } => {
                if aside.is_none() {
                    let borrowed = buffer.lock();
                    if !borrowed.is_taken_back() {
                        return TargetMemory::Borrowed(borrowed);
                    }
                }
                TargetMemory::Own(aside.get_or_insert_with(|| BulkBuffer::new(buffer.len())))
            }
        }
    }

    /// Completes the segment. The bulk of a segment in a receive buffer is empty.
    fn finish(self) -> Bulk {
        match self {
            Self::Buffer(buffer) => buffer.freeze(),
            Self::RecvBuffer { buffer, aside } => {
                if aside.is_none() {
                    buffer.lock().mark_filled();
                }
                Bulk::new()
            }
        }
    }
}

impl BulkAssembly {
    /// Called just before reading: by then the buffers of the packet before have often come back to
    /// the pool, and are still in the processor's cache.
    fn take_targets(&mut self) {
        if !self.targets.is_empty() {
            return;
        }
        let mut bytes = 0;
        while self.targets.len() < BUFFERS_AT_ONCE && bytes < BUFFER_BYTES_AT_ONCE {
            let Some(target) = self.destinations.next().map(SegmentTarget::new) else { return };
            bytes += target.len();
            self.targets.push_back(target);
        }
    }
}

impl Assembler {
    /// Creates an assembler that accepts packets within the limits.
    pub fn new(limits: WireLimits) -> Self {
        Self {
            limits,
            recv_buffers: None,
            slab: None,
            next_slab_bytes: FIRST_SLAB_BYTES,
            filled: 0,
            header: None,
            body: None,
            ready: VecDeque::new(),
            bulk_bytes: 0,
            placed_bytes: 0,
        }
    }

    /// Creates an assembler that reads replies into receive buffers.
    pub(crate) fn with_recv_buffers(limits: WireLimits, recv_buffers: Arc<RecvBuffers>) -> Self {
        Self { recv_buffers: Some(recv_buffers), ..Self::new(limits) }
    }

    /// The memory for the next bytes, in order; never empty. Then call
    /// [`advance`](Self::advance).
    pub fn with_buffers<R>(&mut self, read: impl FnOnce(&mut [IoSliceMut<'_>]) -> R) -> R {
        let lead = LEAD_BYTES.saturating_sub(self.filled);
        if self.body.is_none() {
            let wanted = match &self.header {
                None => lead,
                Some(header) => {
                    let whole = PACKET_HEADER_BYTES + header.inline_len;
                    // Without bulk, the next packet follows at once.
                    let whole = if header.bulk_len == 0 { whole + LEAD_BYTES } else { whole };
                    whole - self.filled
                }
            };
            let (from, to) = (self.filled, self.filled + wanted);
            let rest = self.make_room(to).rest_mut();
            let to = to.min(rest.len());
            return read(&mut [IoSliceMut::new(&mut rest[from..to])]);
        }
        self.make_room(LEAD_BYTES);
        let body = self.body.as_mut().expect("there is one, as just seen");
        body.take_targets();
        let are_all = body.destinations.len() == 0;
        // The locks keep callers from taking their memory back during the read.
        let mut memory: Vec<TargetMemory<'_>> =
            body.targets.iter_mut().map(SegmentTarget::memory).collect();
        let mut slices = Vec::with_capacity(memory.len() + 1);
        for (i, memory) in memory.iter_mut().enumerate() {
            let from = if i == 0 { body.filled } else { 0 };
            match memory {
                TargetMemory::Own(bytes) => slices.push(IoSliceMut::new(&mut bytes[from..])),
                TargetMemory::Borrowed(borrowed) => slices.extend(borrowed.slices_from(from)),
            }
        }
        if let Some(slab) = self.slab.as_mut().filter(|_| are_all && lead > 0) {
            let memory = &mut slab.rest_mut()[self.filled..self.filled + lead];
            slices.push(IoSliceMut::new(memory));
        }
        read(&mut slices)
    }

    /// Says that `count` bytes were read into the memory that
    /// [`with_buffers`](Self::with_buffers) gave.
    pub fn advance(&mut self, mut count: usize) -> Result<(), WireError> {
        if let Some(body) = &mut self.body {
            while let Some(target) = body.targets.front() {
                let missing = target.len() - body.filled;
                self.placed_bytes += missing.min(count) as u64;
                if count < missing {
                    body.filled += count;
                    return Ok(());
                }
                count -= missing;
                body.filled = 0;
                let target = body.targets.pop_front().expect("seen above");
                self.bulk_bytes += target.len() as u64;
                body.packet.bulk.push(target.finish());
            }
            if body.destinations.len() > 0 {
                return Ok(());
            }
            if let Some(body) = self.body.take() {
                self.ready.push_back(body.packet);
            }
        }
        self.filled += count;
        self.read_inline()
    }

    /// The next packet that is complete.
    pub fn next_packet(&mut self) -> Option<Packet> {
        self.ready.pop_front()
    }

    /// Returns the frames of a packet whose bulk area comes next, once for each such packet. No
    /// memory is allocated for the bulk area yet; if the peer may not send them, the rest must not
    /// be read.
    pub(crate) fn announced(&mut self) -> Option<&[FrameGroup]> {
        let body = self.body.as_mut().filter(|body| !body.packet.is_admitted)?;
        body.packet.is_admitted = true;
        Some(&body.packet.groups)
    }

    /// Releases memory that is not needed until more bytes come.
    pub(crate) fn release_idle_memory(&mut self) {
        if self.filled == 0 && self.header.is_none() && self.body.is_none() {
            self.slab = None;
        }
        self.next_slab_bytes = FIRST_SLAB_BYTES;
    }

    /// Bytes of long segments that were copied to their destination.
    pub fn copied_bytes(&self) -> u64 {
        let waiting = self.body.as_ref().map_or(0, |body| body.filled);
        (self.bulk_bytes + waiting as u64).saturating_sub(self.placed_bytes)
    }

    /// Reads from memory, for tests: all packets that `bytes` complete.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<Packet>, WireError> {
        let mut packets = Vec::new();
        while !bytes.is_empty() {
            let count = self.with_buffers(|slices| {
                let before = bytes.len();
                for slice in slices {
                    let part = slice.len().min(bytes.len());
                    slice[..part].copy_from_slice(&bytes[..part]);
                    bytes = &bytes[part..];
                }
                before - bytes.len()
            });
            self.advance(count)?;
            packets.extend(self.ready.drain(..));
        }
        Ok(packets)
    }

    /// Reads complete packets from the slab.
    fn read_inline(&mut self) -> Result<(), WireError> {
        while self.body.is_none() {
            let header = match self.header {
                Some(header) => header,
                None => {
                    let filled = self.slab.as_ref().map_or(&[][..], |slab| slab.rest());
                    let filled = &filled[..self.filled];
                    let Some(bytes) = filled.first_chunk::<PACKET_HEADER_BYTES>() else {
                        return Ok(());
                    };
                    *self.header.insert(PacketHeader::read(bytes, &self.limits)?)
                }
            };
            let whole = PACKET_HEADER_BYTES + header.inline_len;
            if self.filled < whole {
                return Ok(());
            }
            let Some(slab) = &mut self.slab else { return Ok(()) };
            let inline = &slab.rest()[PACKET_HEADER_BYTES..whole];
            let recv_buffers = self.recv_buffers.as_deref();
            let (groups, destinations) = read_frames(inline, &header, &self.limits, recv_buffers)?;
            let inline = slab.give(whole).slice(PACKET_HEADER_BYTES..);
            self.filled -= whole;
            self.header = None;
            let (bulk, frame_count) = (Vec::new(), header.frame_count);
            let packet = Packet { inline, bulk, groups, frame_count, is_admitted: false };
            if destinations.is_empty() {
                self.ready.push_back(packet);
            } else {
                let (targets, destinations) = (VecDeque::new(), destinations.into_iter());
                self.body = Some(BulkAssembly { packet, targets, destinations, filled: 0 });
            }
        }
        Ok(())
    }

    /// Returns the slab with room for this many bytes, or for less if a header promises much more
    /// than has come, but always for more than has come.
    fn make_room(&mut self, needed: usize) -> &mut PoolSlab {
        let room = self.slab.as_ref().map_or(0, PoolSlab::room);
        let capacity = self.next_slab_bytes.max(2 * self.filled);
        if room < needed && (needed <= capacity || room <= self.filled) {
            let mut slab = PoolSlab::new(capacity);
            if let Some(old) = &self.slab {
                let filled = &old.rest()[..self.filled];
                slab.rest_mut()[..self.filled].copy_from_slice(filled);
            }
            self.next_slab_bytes = (4 * self.next_slab_bytes).min(SLAB_BYTES);
            self.slab = Some(slab);
        }
        self.slab.get_or_insert_with(|| PoolSlab::new(capacity))
    }
}

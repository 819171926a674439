//! From bytes to packets: a state machine without I/O.
//!
//! It says into which memory the next bytes are to be read, and is told how many came. Inline areas
//! go to slabs, long segments straight to buffers of their own. It never asks for more than it
//! knows the place of: standing at the beginning of a packet that is [`LEAD_BYTES`], afterwards the
//! rest of the packet and the lead of the next. The long segment of an answer for which there is a
//! landing goes straight to there.
//!
//! *Memory follows what has come, not what a header promises.* The first slab of a link is small,
//! and slabs grow with what comes. A packet with a bulk area is *announced* when its inline area is
//! there: the link then checks the frames against the credit of their channels, before any memory
//! for the bulk area is taken. Segments get their memory a few at a time.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::MutexGuard;

use crate::Bulk;
use crate::landing::{Landing, Landings, Lent};
use crate::pool::{BulkBuffer, Slab};
use crate::wire::{
    BULK_BYTES, Frame, FrameKind, LEAD_BYTES, Limits, PACKET_HEADER_BYTES, PacketHeader, WireError,
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
    pub groups: Vec<Group>,
    /// Number of frames.
    pub frame_count: u32,
    /// Whether its frames were checked against the credit of their channels when it was announced.
    pub(crate) is_admitted: bool,
}

/// Frames that follow each other on the same channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The channel.
    pub channel: u32,
    /// How they are meant. A group of urgent frames has one frame.
    pub kind: FrameKind,
    /// Where they begin in the inline area.
    pub start: usize,
    /// Where they end.
    pub end: usize,
    /// How many they are.
    pub frame_count: u32,
    /// How many long segments they have.
    pub bulk_count: usize,
    /// What they count for.
    pub cost: usize,
    /// What the last of them counts for.
    pub last_cost: usize,
}

/// Where the bytes of a long segment go.
enum Place {
    /// To a buffer of their own, of this length.
    Buffer(usize),
    Landing(Arc<Landing>),
}

/// Reads the frames of an inline area; gives them grouped, and where the long segments go.
fn read_frames(
    inline: &[u8],
    header: &PacketHeader,
    limits: &Limits,
    landings: Option<&Landings>,
) -> Result<(Vec<Group>, Vec<Place>), WireError> {
    let mut groups: Vec<Group> = Vec::with_capacity(1);
    let mut places = Vec::new();
    let mut at = 0;
    let mut bulk_len = 0u64;
    for _ in 0..header.frame_count {
        let frame = Frame::read(inline, at, limits)?;
        if frame.bulk_count > 0 {
            let landing = landings.filter(|_| frame.bulk_count == 1).and_then(|landings| {
                let head = &inline[frame.head_start..frame.head_end];
                landings.take(frame.channel, head, frame.bulk_bytes)
            });
            match landing {
                Some(landing) => places.push(Place::Landing(landing)),
                None => {
                    let long = frame.lengths(inline).filter(|&length| length >= BULK_BYTES);
                    places.extend(long.map(Place::Buffer));
                }
            }
            bulk_len += frame.bulk_bytes as u64;
        }
        let cost = frame.cost();
        match groups.last_mut() {
            Some(last)
                if last.channel == frame.channel
                    && last.kind == frame.kind
                    && frame.kind != FrameKind::Urgent =>
            {
                last.end = frame.end;
                last.frame_count += 1;
                last.bulk_count += frame.bulk_count;
                last.cost += cost;
                last.last_cost = cost;
            }
            _ => groups.push(Group {
                channel: frame.channel,
                kind: frame.kind,
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
    Ok((groups, places))
}

impl Packet {
    /// A packet that did not travel as bytes: `sealed` is its header and inline area.
    pub(crate) fn from_parts(
        sealed: Bytes,
        bulk: Vec<Bulk>,
        limits: &Limits,
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

/// Puts packets together.
pub struct Assembler {
    limits: Limits,
    landings: Option<Arc<Landings>>,
    /// None until the first bytes are read, and while the link rests.
    slab: Option<Slab>,
    /// Bytes that the next slab has at least.
    next_slab_bytes: usize,
    /// Bytes of the slab's rest that were read.
    filled: usize,
    /// The header of the packet whose inline area is being read.
    header: Option<PacketHeader>,
    /// A packet whose bulk area is being read.
    body: Option<Body>,
    ready: VecDeque<Packet>,
    /// Bytes of long segments that came, and of those the ones that were read to their place.
    bulk_bytes: u64,
    placed_bytes: u64,
}

struct Body {
    packet: Packet,
    /// Memory for the next segments; more is taken when it is needed, not when it is promised.
    targets: VecDeque<Target>,
    /// Where the segments after these go.
    places: std::vec::IntoIter<Place>,
    /// Bytes of the first of the targets that were read.
    filled: usize,
}

/// Memory that a long segment is read into.
enum Target {
    Buffer(BulkBuffer),
    Landing {
        landing: Arc<Landing>,
        /// For what comes after the landing has ended; then there is no way back.
        aside: Option<BulkBuffer>,
    },
}

/// The same, to be read into now.
enum Memory<'a> {
    Own(&'a mut [u8]),
    Lent(MutexGuard<'a, Lent>),
}

impl Target {
    fn new(place: Place) -> Self {
        match place {
            Place::Buffer(len) => Self::Buffer(BulkBuffer::new(len)),
            Place::Landing(landing) => Self::Landing { landing, aside: None },
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Buffer(buffer) => buffer.len(),
            Self::Landing { landing, .. } => landing.len(),
        }
    }

    fn memory(&mut self) -> Memory<'_> {
        match self {
            Self::Buffer(buffer) => Memory::Own(buffer),
            Self::Landing { landing, aside } => {
                if aside.is_none() {
                    let lent = landing.lock();
                    if !lent.is_ended() {
                        return Memory::Lent(lent);
                    }
                }
                Memory::Own(aside.get_or_insert_with(|| BulkBuffer::new(landing.len())))
            }
        }
    }

    /// All of it came. What has landed is not in the answer.
    fn finish(self) -> Bulk {
        match self {
            Self::Buffer(buffer) => buffer.freeze(),
            Self::Landing { landing, aside } => {
                if aside.is_none() {
                    landing.lock().finish();
                }
                Bulk::new()
            }
        }
    }
}

impl Body {
    /// Called just before memory is read into: by then the buffers of the packet before have often
    /// come back to the pool, and are still in the processor's cache.
    fn take_targets(&mut self) {
        if !self.targets.is_empty() {
            return;
        }
        let mut bytes = 0;
        while self.targets.len() < BUFFERS_AT_ONCE && bytes < BUFFER_BYTES_AT_ONCE {
            let Some(target) = self.places.next().map(Target::new) else { return };
            bytes += target.len();
            self.targets.push_back(target);
        }
    }
}

impl Assembler {
    /// One that accepts what is within the limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            landings: None,
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

    /// One that reads answers to where they land.
    pub(crate) fn with_landings(limits: Limits, landings: Arc<Landings>) -> Self {
        Self { landings: Some(landings), ..Self::new(limits) }
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
        let are_all = body.places.len() == 0;
        // Nobody takes memory back while it is read into.
        let mut memory: Vec<Memory<'_>> = body.targets.iter_mut().map(Target::memory).collect();
        let mut slices = Vec::with_capacity(memory.len() + 1);
        for (i, memory) in memory.iter_mut().enumerate() {
            let from = if i == 0 { body.filled } else { 0 };
            match memory {
                Memory::Own(bytes) => slices.push(IoSliceMut::new(&mut bytes[from..])),
                Memory::Lent(lent) => slices.extend(lent.after(from)),
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
            if body.places.len() > 0 {
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

    /// The frames of a packet whose bulk area comes next, once for each such packet. No memory was
    /// taken for the bulk area yet; if they may not be sent, the rest must not be read.
    pub(crate) fn announced(&mut self) -> Option<&[Group]> {
        let body = self.body.as_mut().filter(|body| !body.packet.is_admitted)?;
        body.packet.is_admitted = true;
        Some(&body.packet.groups)
    }

    /// Gives memory back that is not needed until more bytes come.
    pub(crate) fn rest(&mut self) {
        if self.filled == 0 && self.header.is_none() && self.body.is_none() {
            self.slab = None;
        }
        self.next_slab_bytes = FIRST_SLAB_BYTES;
    }

    /// Bytes of long segments that were not read to their place, but moved there.
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

    /// Looks at what is in the slab, until a packet is not complete.
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
            let landings = self.landings.as_deref();
            let (groups, places) = read_frames(inline, &header, &self.limits, landings)?;
            let inline = slab.give(whole).slice(PACKET_HEADER_BYTES..);
            self.filled -= whole;
            self.header = None;
            let (bulk, frame_count) = (Vec::new(), header.frame_count);
            let packet = Packet { inline, bulk, groups, frame_count, is_admitted: false };
            if places.is_empty() {
                self.ready.push_back(packet);
            } else {
                let (targets, places) = (VecDeque::new(), places.into_iter());
                self.body = Some(Body { packet, targets, places, filled: 0 });
            }
        }
        Ok(())
    }

    /// The slab, with room for this many bytes; or with less, but for more than have come, if a
    /// header promises much more than has come.
    fn make_room(&mut self, needed: usize) -> &mut Slab {
        let room = self.slab.as_ref().map_or(0, Slab::room);
        let capacity = self.next_slab_bytes.max(2 * self.filled);
        if room < needed && (needed <= capacity || room <= self.filled) {
            let mut slab = Slab::new(capacity);
            if let Some(old) = &self.slab {
                let filled = &old.rest()[..self.filled];
                slab.rest_mut()[..self.filled].copy_from_slice(filled);
            }
            self.next_slab_bytes = (4 * self.next_slab_bytes).min(SLAB_BYTES);
            self.slab = Some(slab);
        }
        self.slab.get_or_insert_with(|| Slab::new(capacity))
    }
}

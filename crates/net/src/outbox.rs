//! Frames that wait to leave over a link: the batch that is being gathered, and sealed packets that
//! the socket has not taken yet. No I/O.

use std::collections::VecDeque;
use std::time::Instant;

use crate::Bulk;
use crate::file_part::OutgoingSegment;
use crate::token::{EncodeError, Outgoing, Token};
use crate::waiter::Waiters;
use crate::wire::{
    BULK_BYTES, FRAME_HEADER_BYTES, LEAD_BYTES, PACKET_HEADER_BYTES, PacketHeader, WireError,
    WireLimits, begin_frame, end_frame, end_frame_of,
};

/// Capacity that the batch of an idle link keeps.
const IDLE_BATCH_BYTES: usize = 4096;

/// A packet that is ready to be written.
pub(crate) struct SealedPacket {
    /// Header and inline area.
    pub inline: Vec<u8>,
    pub bulk: Vec<OutgoingSegment>,
    pub bulk_len: usize,
}

impl SealedPacket {
    pub fn len(&self) -> usize {
        self.inline.len() + self.bulk_len
    }
}

pub(crate) struct LinkOutbox {
    /// Room for the header, then frames.
    batch: Vec<u8>,
    frame_count: u32,
    bulk: Vec<OutgoingSegment>,
    bulk_len: usize,
    segments: Vec<Bulk>,
    /// When the first frame of the batch was put in.
    pub since: Option<Instant>,
    pub queue: VecDeque<SealedPacket>,
    /// Bytes of the first packet of the queue that were written.
    pub written: usize,
    pub queued_bytes: usize,
    /// A thread is writing, outside of the lock.
    pub is_writing: bool,
    /// The socket is full; the poller reports when it is writable.
    pub is_blocked: bool,
    /// A blocked socket is tried again only when this many bytes wait.
    pub retry_bytes: usize,
    pub is_lost: bool,
    pub last_write: Instant,
    /// Threads that wait until everything is written.
    pub drained: Waiters,
    spare: Vec<Vec<u8>>,
    pub sent_frames: u64,
    pub sent_bytes: u64,
    pub sent_packets: u64,
    pub writes: u64,
}

/// Why a frame was not added.
pub(crate) enum PutError {
    Encode(EncodeError),
    Wire(WireError),
}

/// Removes an unfinished frame, also when encoding panics.
struct UnfinishedSend<'a> {
    outbox: &'a mut LinkOutbox,
    at: usize,
    done: bool,
}

impl Drop for UnfinishedSend<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.outbox.batch.truncate(self.at);
        }
        self.outbox.segments.clear();
    }
}

impl LinkOutbox {
    pub fn new() -> Self {
        Self {
            batch: vec![0; PACKET_HEADER_BYTES],
            frame_count: 0,
            bulk: Vec::new(),
            bulk_len: 0,
            segments: Vec::new(),
            since: None,
            queue: VecDeque::new(),
            written: 0,
            queued_bytes: 0,
            is_writing: false,
            is_blocked: false,
            retry_bytes: 0,
            is_lost: false,
            last_write: Instant::now(),
            drained: Waiters::new(),
            spare: Vec::new(),
            sent_frames: 0,
            sent_bytes: 0,
            sent_packets: 0,
            writes: 0,
        }
    }

    /// Appends a token to the batch. Returns its credit cost.
    #[inline]
    pub fn put<T: Token>(
        &mut self,
        token: T,
        channel: u32,
        limits: &WireLimits,
    ) -> Result<usize, PutError> {
        let at = begin_frame(&mut self.batch);
        let mut frame = UnfinishedSend { outbox: self, at, done: false };
        let outbox = &mut *frame.outbox;
        let mut outgoing = Outgoing::new(&mut outbox.batch, &mut outbox.segments);
        token.encode(&mut outgoing).map_err(PutError::Encode)?;
        let mut file = outgoing.take_file();
        if outbox.segments.is_empty() {
            end_frame(&mut outbox.batch, at, channel, [].iter().copied(), limits)
        } else {
            let segments = outbox.segments.iter().enumerate().map(|(n, bulk)| match &file {
                Some((number, part)) if *number == n => (part.len(), &[][..]),
                _ => (bulk.len(), &**bulk),
            });
            end_frame_of(&mut outbox.batch, at, channel, segments, limits)
        }
        .map_err(PutError::Wire)?;
        frame.done = true;
        let mut cost = outbox.batch.len() - at;
        debug_assert!(cost >= FRAME_HEADER_BYTES);
        outbox.frame_count += 1;
        if !outbox.segments.is_empty() {
            for (n, bulk) in outbox.segments.drain(..).enumerate() {
                let segment = match file.take_if(|(number, _)| *number == n) {
                    Some((_, part)) => OutgoingSegment::File(part),
                    None => OutgoingSegment::Memory(bulk),
                };
                if segment.len() >= BULK_BYTES {
                    outbox.bulk_len += segment.len();
                    cost += segment.len();
                    outbox.bulk.push(segment);
                }
            }
        }
        Ok(cost)
    }

    /// Bytes of the batch, long segments included.
    #[inline]
    pub fn batch_bytes(&self) -> usize {
        self.batch.len() - PACKET_HEADER_BYTES + self.bulk_len
    }

    #[inline]
    pub fn frame_count(&self) -> u32 {
        self.frame_count
    }

    /// All bytes that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.queued_bytes + self.batch_bytes()
    }

    /// Seals the batch into a packet.
    pub fn seal(&mut self) {
        if self.frame_count == 0 {
            return;
        }
        let next = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(4096));
        let mut inline = std::mem::replace(&mut self.batch, next);
        self.batch.clear();
        self.batch.extend_from_slice(&[0; PACKET_HEADER_BYTES]);
        if self.bulk_len > 0 && inline.len() < LEAD_BYTES {
            inline.resize(LEAD_BYTES, 0);
        }
        let header = PacketHeader {
            inline_len: inline.len() - PACKET_HEADER_BYTES,
            frame_count: self.frame_count,
            bulk_len: self.bulk_len as u64,
        };
        header.write(&mut inline[..PACKET_HEADER_BYTES]);
        let bulk = if self.bulk.is_empty() { Vec::new() } else { std::mem::take(&mut self.bulk) };
        let packet = SealedPacket { inline, bulk, bulk_len: self.bulk_len };
        self.sent_frames += u64::from(self.frame_count);
        self.sent_packets += 1;
        self.sent_bytes += packet.len() as u64;
        self.queued_bytes += packet.len();
        self.queue.push_back(packet);
        (self.frame_count, self.bulk_len, self.since) = (0, 0, None);
    }

    /// Removes written packets from `sending`, which was taken out of the queue, and puts the
    /// others back in front.
    pub fn wrote(&mut self, mut sending: VecDeque<SealedPacket>, count: usize) {
        // The link was lost during the write and its queue is cleared.
        if self.is_lost {
            return;
        }
        self.queued_bytes -= count;
        self.written += count;
        while let Some(first) = sending.front() {
            if self.written < first.len() {
                break;
            }
            self.written -= first.len();
            let packet = sending.pop_front().expect("seen above");
            self.keep_spare(packet.inline);
        }
        sending.append(&mut self.queue);
        self.queue = sending;
    }

    /// Keeps the memory of a packet for the next ones.
    pub fn keep_spare(&mut self, mut inline: Vec<u8>) {
        if self.spare.len() < 4 && inline.capacity() <= 1 << 20 {
            inline.clear();
            self.spare.push(inline);
        }
    }

    /// Releases memory that is not needed until more is sent.
    pub fn release_idle_memory(&mut self) {
        if self.frame_count > 0 || !self.queue.is_empty() || self.is_writing {
            return;
        }
        if self.batch.capacity() > IDLE_BATCH_BYTES {
            self.batch = vec![0; PACKET_HEADER_BYTES];
        }
        self.spare = Vec::new();
        (self.bulk, self.segments, self.queue) = (Vec::new(), Vec::new(), VecDeque::new());
    }

    /// Drops everything, because the link is lost.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.batch.truncate(PACKET_HEADER_BYTES);
        self.bulk.clear();
        (self.frame_count, self.bulk_len, self.since) = (0, 0, None);
        (self.queued_bytes, self.written) = (0, 0);
    }
}

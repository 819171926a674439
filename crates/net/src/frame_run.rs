//! A run: consecutive frames of one packet for the same channel.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::Bulk;
use crate::clock::monotonic_ns;
use crate::route::FrameRoute;
use crate::sender::Sender;
use crate::token::{DecodeError, Incoming};
use crate::wire::{BULK_BYTES, Frame, WireLimits};

/// Checked frames that wait to be decoded.
pub(crate) struct FrameRun {
    inline: Bytes,
    at: usize,
    end: usize,
    frame_count: u32,
    /// The long segments of these frames.
    bulk: VecDeque<Bulk>,
    route: Arc<FrameRoute>,
    /// Decoded bytes whose credit was not returned yet.
    used: i64,
    arrived_ns: u64,
}

/// The frames are checked already.
const NO_LIMITS: WireLimits = WireLimits {
    inline_bytes: usize::MAX,
    segment_bytes: usize::MAX,
    bulk_bytes: usize::MAX,
    segments: usize::MAX,
};

impl FrameRun {
    /// Creates a run of `frame_count` frames from `at` to `end` of an inline area. They were read
    /// once before, so reading them again cannot fail.
    pub fn new(
        inline: Bytes,
        (at, end): (usize, usize),
        frame_count: u32,
        bulk: VecDeque<Bulk>,
        route: Arc<FrameRoute>,
    ) -> Self {
        let arrived_ns = monotonic_ns();
        Self { inline, at, end, frame_count, bulk, route, used: 0, arrived_ns }
    }

    pub fn frame_count(&self) -> u32 {
        self.frame_count
    }

    pub fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    pub fn route(&self) -> &Arc<FrameRoute> {
        &self.route
    }

    pub fn sender(&self) -> &Arc<Sender> {
        self.route.sender()
    }

    /// Decodes the next frame.
    #[inline]
    pub fn next<T>(
        &mut self,
        decode: impl FnOnce(Incoming<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let frame = Frame::read(&self.inline, self.at, &NO_LIMITS)
            .map_err(|error| DecodeError::Other(error.to_string()))?;
        self.at = frame.end;
        let segments = if frame.segment_count == 0 { Vec::new() } else { self.segments_of(&frame) };
        let head = frame.head_start..frame.head_end;
        let incoming = Incoming::of_packet(&self.inline, head, segments, self.arrived_ns);
        let decoded = decode(incoming);
        self.account(frame.cost());
        decoded
    }

    fn segments_of(&mut self, frame: &Frame) -> Vec<Bulk> {
        let mut short_at = frame.short_start();
        let inline = self.inline.clone();
        let segment = |length| {
            if length >= BULK_BYTES {
                return self.bulk.pop_front().unwrap_or_default();
            }
            let short = inline.slice(short_at..short_at + length);
            short_at += length;
            Bulk::from(short)
        };
        frame.lengths(&self.inline).map(segment).collect()
    }

    /// Counts received bytes and returns their credit in larger steps.
    #[inline]
    fn account(&mut self, cost: usize) {
        self.used += i64::try_from(cost).unwrap_or(i64::MAX);
        if self.used >= self.route.step() || self.is_empty() {
            self.route.give_back(std::mem::take(&mut self.used));
        }
    }
}

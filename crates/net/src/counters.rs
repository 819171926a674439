//! Counters that can be read at run time.

use std::time::Duration;

/// The counters of a space.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// One entry per link, also of those that were lost.
    pub links: Vec<LinkCounters>,
    /// One entry per input port that exists.
    pub ports: Vec<PortCounters>,
}

/// The counters of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkCounters {
    /// Name of the space on the other side.
    pub peer: String,
    /// `memory`, `unix`, `tcp` or `simulated`.
    pub carrier: &'static str,
    /// Whether it works.
    pub is_alive: bool,
    /// Tokens and control messages sent.
    pub sent_frames: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// System calls that wrote.
    pub writes: u64,
    /// Tokens and control messages received.
    pub received_frames: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// System calls that read.
    pub reads: u64,
    /// Bytes of long segments that were copied in this process.
    pub bytes_copied: u64,
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
}

impl LinkCounters {
    /// Frames per packet, on average.
    pub fn coalescing(&self) -> f64 {
        if self.sent_packets == 0 {
            0.0
        } else {
            self.sent_frames as f64 / self.sent_packets as f64
        }
    }
}

/// The counters of an input port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortCounters {
    /// Name of the port.
    pub name: String,
    /// Tokens that were received by a thread.
    pub received_tokens: u64,
    /// Tokens that wait.
    pub depth: u64,
}

/// The counters at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterSample {
    /// Since the space was made.
    pub at: Duration,
    /// As they were then.
    pub counters: Counters,
}

/// A peer that was refused or cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Since the space was made.
    pub at: Duration,
    /// The peer, as far as known.
    pub peer: String,
    /// Why.
    pub reason: String,
}

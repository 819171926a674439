//! What threads and stewards of a program tell each other.

use bytes::Bytes;
use pario_net::{Bulk, DecodeError, EncodeError, Incoming, Outgoing};
use serde::{Deserialize, Serialize};

use super::ids::{CallId, Position, SpaceNumber, SplitId, ThreadNumber};
use super::snapshot::SpaceView;
use super::stack::{FrameKind, Stack};
use crate::error::CallError;
use crate::schedule::Made;
use crate::token::{Codec, Parcel};
use crate::trace::Trace;
use crate::window::Trip;

/// A message to a thread or to a steward.
pub(crate) enum Message {
    /// A token for a thread.
    Token(Envelope),
    /// A split has begun whose tokens this thread will merge.
    Begin(Begin, Payload),
    /// The result of a call, for the steward where it was made.
    Result(CallId, Payload),
    /// What needs no token.
    Plain(Plain),
}

/// A token on its way to a thread.
pub(crate) struct Envelope {
    pub(crate) route: Route,
    pub(crate) stack: Stack,
    /// The thread that gets it owes word to whoever chose it, once it is done.
    pub(crate) debt: Option<Debt>,
    /// When it was put into the queue, in the time of the process with the queue.
    pub(crate) queued_ns: u64,
    pub(crate) payload: Payload,
}

impl Envelope {
    /// A token that enters a queue now.
    pub(crate) fn now(route: Route, stack: Stack, payload: Payload) -> Self {
        Self { route, stack, debt: None, queued_ns: super::clock::now_ns(), payload }
    }
}

/// What is the same for a token wherever it goes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Route {
    pub(crate) call: CallId,
    /// All calls of that process before this one have ended.
    pub(crate) oldest: u64,
    pub(crate) position: Position,
    pub(crate) trip: Journey,
}

/// What a token has met since it was split off.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Journey {
    pub(crate) waited_ns: u64,
    pub(crate) waits: u64,
    pub(crate) hops: u32,
}

impl Journey {
    /// The token came to another thread; it waited there for so long because the thread was busy.
    pub(crate) fn hop(&mut self, waited_ns: u64) {
        if waited_ns > 0 {
            self.waited_ns += waited_ns;
            self.waits |= 1 << (self.hops % 64);
        }
        self.hops += 1;
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Debt {
    pub(crate) to: SpaceNumber,
    pub(crate) slot: u32,
}

/// A token, with the way to encode it, or as it was received.
pub(crate) enum Payload {
    Here(Parcel, Codec),
    Received { head: Bytes, segments: Vec<Bulk> },
}

impl Payload {
    pub(crate) fn open(self, codec: Codec) -> Result<Parcel, DecodeError> {
        match self {
            Self::Here(parcel, _) => Ok(parcel),
            Self::Received { head, segments } => (codec.decode)(&head, segments),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) call: CallId,
    pub(crate) oldest: u64,
    pub(crate) split: SplitId,
    /// The step that splits.
    pub(crate) position: Position,
    /// The frames and the journey of the token that was split.
    pub(crate) outer: Vec<FrameKind>,
    pub(crate) journey: Journey,
    pub(crate) is_input: bool,
}

impl Begin {
    pub(crate) fn made(&self) -> Made {
        if self.is_input { Made::There } else { Made::Here }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Plain {
    /// To a merging thread: this many tokens were split off.
    End { split: SplitId, total: u64 },
    /// To a splitting thread: these tokens have been merged.
    Merged { split: u64, trips: Vec<Trip> },
    /// To a splitting thread from itself: go on.
    Resume { split: u64 },
    /// A call is over: forget its tokens.
    Abort { call: CallId },
    /// To a steward: a call it has made failed.
    Failed { call: CallId, error: CallError },
    /// To a steward: a thread that it has chosen is free again.
    Settled { slot: u32, thread: ThreadNumber },
    /// To the first steward: a process is ready.
    Ready { space: SpaceNumber, fingerprint: u64 },
    /// To a steward, from the first: the program begins. From now on the loss of the first is heard.
    Welcome,
    /// To a steward: a process is gone.
    Gone { space: SpaceNumber },
    /// To a steward, from the first: how is it going?
    Ask { question: u64, wants_trace: bool },
    /// To the first steward: so it is going.
    Answer { question: u64, view: SpaceView, trace: Option<Trace>, now_ns: u64 },
    /// The program ends.
    Stop,
}

#[derive(Serialize, Deserialize)]
enum Header {
    Token { route: Route, frames: Vec<FrameKind>, debt: Option<Debt> },
    Begin(Begin),
    Result(CallId),
    Plain(Plain),
}

impl pario_net::Token for Message {
    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        let (header, payload) = match self {
            Self::Token(Envelope { route, stack, debt, payload, .. }) => {
                (Header::Token { route, frames: stack.to_frames(), debt }, Some(payload))
            }
            Self::Begin(begin, payload) => (Header::Begin(begin), Some(payload)),
            Self::Result(call, payload) => (Header::Result(call), Some(payload)),
            Self::Plain(plain) => (Header::Plain(plain), None),
        };
        pario_net::encode_value(&header, out)?;
        match payload {
            Some(Payload::Here(parcel, codec)) => (codec.encode)(parcel, out),
            Some(Payload::Received { head, segments }) => {
                out.head().extend_from_slice(&head);
                segments.into_iter().for_each(|segment| out.bulk(segment));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn decode(mut incoming: Incoming<'_>) -> Result<Self, DecodeError> {
        let segments = incoming.segments();
        let (header, used) = pario_net::decode_front::<Header>(incoming.head())?;
        if let Header::Plain(plain) = header {
            return Ok(Self::Plain(plain));
        }
        let payload = Payload::Received { head: incoming.head_bytes().slice(used..), segments };
        Ok(match header {
            Header::Token { route, frames, debt } => Self::Token(Envelope {
                route,
                stack: Stack::from_frames(frames),
                debt,
                queued_ns: incoming.arrived_ns().unwrap_or_else(super::clock::now_ns),
                payload,
            }),
            Header::Begin(begin) => Self::Begin(begin, payload),
            Header::Result(call) => Self::Result(call, payload),
            Header::Plain(plain) => Self::Plain(plain),
        })
    }
}

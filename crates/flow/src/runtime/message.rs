//! The messages between the threads and coordinators of a program.

use bytes::Bytes;
use pario_net::{Bulk, DecodeError, EncodeError, Incoming, Outgoing};
use serde::{Deserialize, Serialize};

use super::attach_messages::{AttachReply, AttachRequest};
use super::attached::QueuedShare;
use super::construct_stack::{ConstructKind, ConstructStack};
use super::ids::{CallId, ProcessNumber, SplitId, StepPosition, ThreadNumber};
use super::snapshot::ProcessStatus;
use crate::error::CallError;
use crate::schedule::MadeBy;
use crate::token::{ErasedToken, TokenType};
use crate::trace::Trace;
use crate::window::TripReport;

/// The most constructs around a token of another process. A schedule nests far fewer.
const FRAMES_LIMIT: usize = 1024;

/// A message to a thread or to a coordinator.
pub(crate) enum FlowMessage {
    /// A token for a thread.
    Token(Envelope),
    /// The begin of a split, for the thread that will merge its tokens.
    MergeBegin(MergeBegin, Payload),
    /// The result of a call, for the coordinator of the calling process.
    Result(CallId, Payload),
    /// A message without a token.
    Control(ControlMessage),
    /// A message to or from an attached process, which the first process passes on.
    Routed(RouteTo, Box<FlowMessage>),
}

/// The receiver of a routed message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RouteTo {
    pub(crate) process: ProcessNumber,
    /// None for the coordinator of the process.
    pub(crate) thread: Option<ThreadNumber>,
}

impl FlowMessage {
    /// Returns the call that the message belongs to.
    pub(crate) fn call(&self) -> Option<CallId> {
        match self {
            Self::Token(envelope) => Some(envelope.route.call),
            Self::MergeBegin(begin, _) => Some(begin.call),
            Self::Result(call, _) => Some(*call),
            Self::Control(message) => message.call(),
            Self::Routed(_, message) => message.call(),
        }
    }
}

/// A token on its way to a thread.
pub(crate) struct Envelope {
    pub(crate) route: TokenRoute,
    pub(crate) stack: ConstructStack,
    /// Set if a pool balancer selected the thread, which must release it when it is done.
    pub(crate) claim: Option<ThreadClaim>,
    /// When the token entered the queue, on the clock of the process that has the queue.
    pub(crate) queued_ns: u64,
    pub(crate) payload: Payload,
}

impl Envelope {
    /// Wraps a token that enters a queue now.
    pub(crate) fn now(route: TokenRoute, stack: ConstructStack, payload: Payload) -> Self {
        Self { route, stack, claim: None, queued_ns: pario_net::clock::monotonic_ns(), payload }
    }
}

/// The call of a token, its next step, and its waits so far.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TokenRoute {
    pub(crate) call: CallId,
    /// All calls of the calling process before this number have ended.
    pub(crate) oldest: u64,
    pub(crate) position: StepPosition,
    pub(crate) hop_waits: HopWaits,
}

/// How often and how long a token waited for busy threads since it was split off.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HopWaits {
    pub(crate) waited_ns: u64,
    /// The hops at which it waited: bit `hop % 64`.
    pub(crate) waits: u64,
    pub(crate) hops: u32,
}

impl HopWaits {
    /// Adds a hop to a thread that was busy for `waited_ns` after the token had arrived.
    pub(crate) fn hop(&mut self, waited_ns: u64) {
        if waited_ns > 0 {
            self.waited_ns = self.waited_ns.saturating_add(waited_ns);
            self.waits |= 1 << (self.hops % 64);
        }
        self.hops = self.hops.wrapping_add(1);
    }
}

/// The pool balancer that counts a thread as busy until the thread is released.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ThreadClaim {
    pub(crate) claimed_by: ProcessNumber,
    pub(crate) slot: u32,
}

/// A token of this process with its type, or an encoded token of another process.
pub(crate) enum Payload {
    Local(ErasedToken, TokenType),
    Received { head: Bytes, segments: Vec<Bulk>, queued: Option<QueuedShare> },
}

impl Payload {
    /// Takes the share of a queued message in the limit of its process.
    pub(crate) fn take_share(&mut self) -> Option<QueuedShare> {
        match self {
            Self::Local(..) => None,
            Self::Received { queued, .. } => queued.take(),
        }
    }

    /// Returns the encoded bytes of a received token.
    pub(crate) fn received_bytes(&self) -> u64 {
        match self {
            Self::Local(..) => 0,
            Self::Received { head, segments, .. } => {
                (head.len() + segments.iter().map(|segment| segment.len()).sum::<usize>()) as u64
            }
        }
    }

    pub(crate) fn decode(self, token_type: TokenType) -> Result<ErasedToken, DecodeError> {
        match self {
            Self::Local(token, _) => Ok(token),
            Self::Received { head, segments, .. } => token_type.decode(&head, segments),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MergeBegin {
    pub(crate) call: CallId,
    pub(crate) oldest: u64,
    pub(crate) split: SplitId,
    /// The split step.
    pub(crate) position: StepPosition,
    /// The frames and the waits of the token that was split.
    pub(crate) outer: Vec<ConstructKind>,
    pub(crate) hop_waits: HopWaits,
    /// Whether the payload is the input, from which the merging thread makes the output.
    pub(crate) is_input: bool,
}

impl MergeBegin {
    pub(crate) fn made_by(&self) -> MadeBy {
        if self.is_input { MadeBy::Merger } else { MadeBy::Splitter }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ControlMessage {
    /// To a merging thread: the number of tokens of the split.
    End { call: CallId, split: SplitId, total: u64 },
    /// To a splitting thread: the trips of merged tokens.
    Merged { call: CallId, split: u64, trips: Vec<TripReport> },
    /// To a splitting thread, from itself: continue the split.
    Resume { split: u64 },
    /// To all: the call has ended; drop its tokens.
    Abort { call: CallId },
    /// To a coordinator: a call of its process failed.
    Failed { call: CallId, error: CallError },
    /// To a coordinator: a thread of a process that its pool balancer selected is free again.
    ThreadFree { process: ProcessNumber, slot: u32, thread: ThreadNumber },
    /// To the first coordinator: a process is ready.
    Ready { process: ProcessNumber, fingerprint: u64 },
    /// To a coordinator, from the first: the program begins. From now on the receiver notices the
    /// loss of the first process.
    Welcome,
    /// To a coordinator: a process was lost, or an attached process has left.
    ProcessLost { process: ProcessNumber },
    /// To a coordinator, from the first: send a report.
    RequestReport { request: u64, wants_trace: bool },
    /// To the first coordinator: the requested report.
    Report { request: u64, status: ProcessStatus, trace: Option<Trace>, now_ns: u64 },
    /// To all: the program ends.
    Stop,
    /// To the entrance of a resident program: a process asks to attach, and reads replies from this
    /// channel.
    Attach { reply_channel: u32, request: AttachRequest },
    /// To a process that asked to attach: it is attached, or the reason why not.
    Attached(Result<AttachReply, String>),
}

impl ControlMessage {
    fn call(&self) -> Option<CallId> {
        match self {
            Self::End { call, .. }
            | Self::Merged { call, .. }
            | Self::Abort { call }
            | Self::Failed { call, .. } => Some(*call),
            _ => None,
        }
    }
}

#[derive(Serialize, Deserialize)]
enum MessageHeader {
    Token { route: TokenRoute, frames: Vec<ConstructKind>, claim: Option<ThreadClaim> },
    MergeBegin(MergeBegin),
    Result(CallId),
    Control(ControlMessage),
}

impl pario_net::Token for FlowMessage {
    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        let (to, message) = match self {
            Self::Routed(to, message) => (Some(to), *message),
            message => (None, message),
        };
        let (header, payload) = match message {
            Self::Token(Envelope { route, stack, claim, payload, .. }) => {
                (MessageHeader::Token { route, frames: stack.to_frames(), claim }, Some(payload))
            }
            Self::MergeBegin(begin, payload) => (MessageHeader::MergeBegin(begin), Some(payload)),
            Self::Result(call, payload) => (MessageHeader::Result(call), Some(payload)),
            Self::Control(message) => (MessageHeader::Control(message), None),
            Self::Routed(..) => {
                return Err(EncodeError::Other("a message is routed once".to_owned()));
            }
        };
        pario_net::encode_value(&(to, header), out)?;
        match payload {
            Some(Payload::Local(token, token_type)) => token_type.encode(token, out),
            Some(Payload::Received { head, segments, .. }) => {
                out.head().extend_from_slice(&head);
                segments.into_iter().for_each(|segment| out.bulk(segment));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn decode(mut incoming: Incoming<'_>) -> Result<Self, DecodeError> {
        let segments = incoming.segments();
        let ((to, header), used) =
            pario_net::decode_front::<(Option<RouteTo>, MessageHeader)>(incoming.head())?;
        let route = |message| match to {
            Some(to) => Self::Routed(to, Box::new(message)),
            None => message,
        };
        if let MessageHeader::Control(message) = header {
            return Ok(route(Self::Control(message)));
        }
        let frames = match &header {
            MessageHeader::Token { frames, .. } => frames.len(),
            MessageHeader::MergeBegin(begin) => begin.outer.len(),
            _ => 0,
        };
        if frames > FRAMES_LIMIT {
            return Err(DecodeError::Other(format!("{frames} constructs are around a token")));
        }
        let head = incoming.head_bytes().slice(used..);
        let payload = Payload::Received { head, segments, queued: None };
        Ok(route(match header {
            MessageHeader::Token { route, frames, claim } => Self::Token(Envelope {
                route,
                stack: ConstructStack::from_frames(frames),
                claim,
                queued_ns: incoming.arrived_ns().unwrap_or_else(pario_net::clock::monotonic_ns),
                payload,
            }),
            MessageHeader::MergeBegin(begin) => Self::MergeBegin(begin, payload),
            MessageHeader::Result(call) => Self::Result(call, payload),
            MessageHeader::Control(message) => Self::Control(message),
        }))
    }
}

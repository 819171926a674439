//! Requests and replies as tokens.

use super::{Protocol, Responder};
use crate::file_part::FilePart;
use crate::token::{DecodeError, EncodeError, Incoming, Outgoing, Token, TokenKind};

/// Bytes in front of a request: its number, and the channel for its reply.
const REQUEST_HEADER_BYTES: usize = 12;
/// Bytes in front of a reply: the number of its request, and its kind.
const REPLY_HEADER_BYTES: usize = 9;

const ANSWERED: u8 = 0;
const DROPPED: u8 = 1;
const REFUSED: u8 = 2;

/// A request on its way.
pub(crate) struct RequestToken<P: Protocol> {
    pub number: u64,
    pub reply_to: ReplyTo<P>,
    /// An error if the request could not be decoded: it must still get a reply.
    pub body: Result<P::Request, DecodeError>,
}

/// Where a reply goes.
pub(crate) enum ReplyTo<P: Protocol> {
    /// To a client in the same space.
    Local(Responder<P>),
    /// Over this channel of the link on which the request came.
    Channel(u32),
}

impl<P: Protocol> Token for RequestToken<P> {
    fn kind() -> TokenKind {
        TokenKind::named(&format!("request of {}", P::NAME))
    }

    fn weight_bytes(&self) -> usize {
        REQUEST_HEADER_BYTES + self.body.as_ref().map_or(0, Token::weight_bytes)
    }

    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        let (ReplyTo::Channel(channel), Ok(body)) = (self.reply_to, self.body) else {
            unreachable!("a request that leaves over a link has a channel and a body")
        };
        out.head().extend_from_slice(&self.number.to_le_bytes());
        out.head().extend_from_slice(&channel.to_le_bytes());
        body.encode(out)
    }

    fn decode(incoming: Incoming<'_>) -> Result<Self, DecodeError> {
        let Some((header, _)) = incoming.head().split_first_chunk::<REQUEST_HEADER_BYTES>() else {
            return Err(DecodeError::Other("a request has at least 12 bytes".to_owned()));
        };
        let [n0, n1, n2, n3, n4, n5, n6, n7, channel @ ..] = *header;
        let number = u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]);
        let reply_to = ReplyTo::Channel(u32::from_le_bytes(channel));
        let body = P::Request::decode(incoming.skip(REQUEST_HEADER_BYTES));
        Ok(Self { number, reply_to, body })
    }
}

/// A reply on its way.
pub(crate) struct ReplyToken<P: Protocol> {
    pub number: u64,
    pub body: ReplyBody<P::Reply>,
}

/// How a request ended.
pub(crate) enum ReplyBody<R> {
    Answered(R),
    /// Answered, with a part of a file in place of the first empty bulk. Never received.
    File(R, FilePart),
    /// The server dropped the responder.
    Dropped,
    /// The server could not decode the request, or could not send the reply.
    Refused(String),
    /// The client could not decode the reply. Never sent.
    Unreadable(DecodeError),
}

impl<P: Protocol> Token for ReplyToken<P> {
    fn kind() -> TokenKind {
        TokenKind::named(&format!("reply of {}", P::NAME))
    }

    fn weight_bytes(&self) -> usize {
        match &self.body {
            ReplyBody::Answered(reply) | ReplyBody::File(reply, _) => {
                REPLY_HEADER_BYTES + reply.weight_bytes()
            }
            _ => REPLY_HEADER_BYTES,
        }
    }

    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        out.head().extend_from_slice(&self.number.to_le_bytes());
        match self.body {
            ReplyBody::Answered(reply) => {
                out.head().push(ANSWERED);
                reply.encode(out)?;
            }
            ReplyBody::File(reply, part) => {
                out.head().push(ANSWERED);
                reply.encode(out)?;
                out.file(part)?;
            }
            ReplyBody::Dropped => out.head().push(DROPPED),
            ReplyBody::Refused(reason) => {
                out.head().push(REFUSED);
                out.head().extend_from_slice(reason.as_bytes());
            }
            ReplyBody::Unreadable(_) => unreachable!("only a received reply can be unreadable"),
        }
        Ok(())
    }

    fn decode(incoming: Incoming<'_>) -> Result<Self, DecodeError> {
        let Some((header, rest)) = incoming.head().split_first_chunk::<REPLY_HEADER_BYTES>() else {
            return Err(DecodeError::Other("a reply has at least 9 bytes".to_owned()));
        };
        let [number @ .., kind] = *header;
        let body = match kind {
            ANSWERED => match P::Reply::decode(incoming.skip(REPLY_HEADER_BYTES)) {
                Ok(reply) => ReplyBody::Answered(reply),
                Err(error) => ReplyBody::Unreadable(error),
            },
            DROPPED => ReplyBody::Dropped,
            REFUSED => ReplyBody::Refused(String::from_utf8_lossy(rest).into_owned()),
            other => ReplyBody::Unreadable(DecodeError::Other(format!(
                "there are no replies of kind {other}"
            ))),
        };
        Ok(Self { number: u64::from_le_bytes(number), body })
    }
}

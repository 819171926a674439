//! Questions and answers as tokens.

use super::Responder;
use crate::file_part::FilePart;
use crate::token::{DecodeError, EncodeError, Incoming, Outgoing, Token, TokenKind};

/// Bytes in front of a question: its number, and the channel for its answer.
const QUESTION_BYTES: usize = 12;
/// Bytes in front of an answer: the number of its question, and what it is.
const ANSWER_BYTES: usize = 9;

const GIVEN: u8 = 0;
const DROPPED: u8 = 1;
const REFUSED: u8 = 2;

/// A question on its way.
pub(crate) struct Question<Q: Token, A: Token> {
    pub number: u64,
    pub reply: Reply<A>,
    /// Without what was asked, if it could not be decoded: it must still be answered.
    pub body: Result<Q, DecodeError>,
}

/// Where the answer goes.
pub(crate) enum Reply<A: Token> {
    /// Within the same space.
    Here(Responder<A>),
    /// Over a channel of the link on which the question came.
    Channel(u32),
}

impl<Q: Token, A: Token> Token for Question<Q, A> {
    fn kind() -> TokenKind {
        let (asked, answered) = (Q::kind(), A::kind());
        TokenKind::named(&format!("question {} for {}", asked.name(), answered.name()))
    }

    fn weight_bytes(&self) -> usize {
        QUESTION_BYTES + self.body.as_ref().map_or(0, Token::weight_bytes)
    }

    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        let (Reply::Channel(channel), Ok(body)) = (self.reply, self.body) else {
            unreachable!("what is asked over a link has a channel and was not decoded")
        };
        out.head().extend_from_slice(&self.number.to_le_bytes());
        out.head().extend_from_slice(&channel.to_le_bytes());
        body.encode(out)
    }

    fn decode(incoming: Incoming<'_>) -> Result<Self, DecodeError> {
        let Some((front, _)) = incoming.head().split_first_chunk::<QUESTION_BYTES>() else {
            return Err(DecodeError::Other("a question has at least 12 bytes".to_owned()));
        };
        let [n0, n1, n2, n3, n4, n5, n6, n7, channel @ ..] = *front;
        let number = u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]);
        let reply = Reply::Channel(u32::from_le_bytes(channel));
        Ok(Self { number, reply, body: Q::decode(incoming.skip(QUESTION_BYTES)) })
    }
}

/// An answer on its way.
pub(crate) struct Answer<A> {
    pub number: u64,
    pub body: Body<A>,
}

/// What came of a question.
pub(crate) enum Body<A> {
    Given(A),
    /// The same, with a part of a file in place of its first empty bulk. Never received.
    File(A, FilePart),
    /// The responder was dropped.
    Dropped,
    /// The question could not be read, or the answer could not be sent.
    Refused(String),
    /// The answer could not be decoded. Never sent.
    Unreadable(DecodeError),
}

impl<A: Token> Token for Answer<A> {
    fn kind() -> TokenKind {
        TokenKind::named(&format!("answer {}", A::kind().name()))
    }

    fn weight_bytes(&self) -> usize {
        match &self.body {
            Body::Given(answer) | Body::File(answer, _) => ANSWER_BYTES + answer.weight_bytes(),
            _ => ANSWER_BYTES,
        }
    }

    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        out.head().extend_from_slice(&self.number.to_le_bytes());
        match self.body {
            Body::Given(answer) => {
                out.head().push(GIVEN);
                answer.encode(out)?;
            }
            Body::File(answer, part) => {
                out.head().push(GIVEN);
                answer.encode(out)?;
                out.file(part)?;
            }
            Body::Dropped => out.head().push(DROPPED),
            Body::Refused(reason) => {
                out.head().push(REFUSED);
                out.head().extend_from_slice(reason.as_bytes());
            }
            Body::Unreadable(_) => unreachable!("only what is received is not readable"),
        }
        Ok(())
    }

    fn decode(incoming: Incoming<'_>) -> Result<Self, DecodeError> {
        let Some((front, rest)) = incoming.head().split_first_chunk::<ANSWER_BYTES>() else {
            return Err(DecodeError::Other("an answer has at least 9 bytes".to_owned()));
        };
        let [number @ .., what] = *front;
        let body = match what {
            GIVEN => match A::decode(incoming.skip(ANSWER_BYTES)) {
                Ok(answer) => Body::Given(answer),
                Err(error) => Body::Unreadable(error),
            },
            DROPPED => Body::Dropped,
            REFUSED => Body::Refused(String::from_utf8_lossy(rest).into_owned()),
            other => Body::Unreadable(DecodeError::Other(format!(
                "there are no answers of kind {other}"
            ))),
        };
        Ok(Self { number: u64::from_le_bytes(number), body })
    }
}

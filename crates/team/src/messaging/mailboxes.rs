//! The mailboxes of the ranks of a machine: a state machine without I/O.
//!
//! A mailbox keeps the parts of messages in the order of their arrival until the rank takes them.
//! The reply to a part waits while the mailbox holds more than its limit, and a sender sends its
//! next part after that reply. So a mailbox holds its limit and one part of each sender at most.

use std::collections::{HashMap, VecDeque};

use crate::remote::message::{DataReply, MessageFilter, MessagePart};

/// Bytes that a mailbox holds before senders wait.
pub const MAILBOX_BYTES: usize = 16 << 20;

/// The mailboxes of a machine, by rank. `R` sends a reply.
pub struct Mailboxes<R> {
    boxes: HashMap<u32, Mailbox<R>>,
}

struct Mailbox<R> {
    parts: VecDeque<MessagePart>,
    /// The bytes of the parts.
    bytes: usize,
    /// The senders that wait for room.
    senders: Vec<R>,
    /// The receivers that wait for a part.
    receivers: Vec<(MessageFilter, R)>,
}

/// Replies to send.
pub type MailboxReplies<R> = Vec<(R, DataReply)>;

impl<R> Default for Mailboxes<R> {
    fn default() -> Self {
        Self { boxes: HashMap::new() }
    }
}

impl<R> Default for Mailbox<R> {
    fn default() -> Self {
        Self { parts: VecDeque::new(), bytes: 0, senders: Vec::new(), receivers: Vec::new() }
    }
}

impl<R> Mailboxes<R> {
    /// Handles a part of a message to a rank.
    pub fn send(&mut self, to: u32, part: MessagePart, ticket: R) -> MailboxReplies<R> {
        let mailbox = self.boxes.entry(to).or_default();
        let waiting = mailbox.receivers.iter().position(|(filter, _)| filter.takes(&part));
        if let Some(waiting) = waiting {
            let (_, receiver) = mailbox.receivers.remove(waiting);
            return vec![
                (receiver, DataReply::Message { part, queued: 0 }),
                (ticket, DataReply::Done),
            ];
        }
        mailbox.bytes += part.bytes.len();
        mailbox.parts.push_back(part);
        if mailbox.bytes > MAILBOX_BYTES {
            mailbox.senders.push(ticket);
            return Vec::new();
        }
        vec![(ticket, DataReply::Done)]
    }

    /// Handles the request of a rank for a part of a message.
    pub fn receive(&mut self, to: u32, filter: MessageFilter, ticket: R) -> MailboxReplies<R> {
        let mailbox = self.boxes.entry(to).or_default();
        let found = mailbox.parts.iter().position(|part| filter.takes(part));
        let Some(part) = found.and_then(|found| mailbox.parts.remove(found)) else {
            mailbox.receivers.push((filter, ticket));
            return Vec::new();
        };
        mailbox.bytes -= part.bytes.len();
        let is_alike = |other: &&MessagePart| {
            other.is_first && (other.from, other.tag) == (part.from, part.tag)
        };
        let queued = mailbox.parts.iter().filter(is_alike).count() as u64;
        let mut replies = vec![(ticket, DataReply::Message { part, queued })];
        if mailbox.bytes <= MAILBOX_BYTES {
            let senders = mailbox.senders.drain(..);
            replies.extend(senders.map(|sender| (sender, DataReply::Done)));
        }
        replies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(from: u32, tag: u64, bytes: &[u8]) -> MessagePart {
        let bytes = bytes.to_vec().into();
        MessagePart { from, tag, message: 0, is_first: true, rest: 0, bytes }
    }

    fn first(from: Option<u32>, tag: u64) -> MessageFilter {
        MessageFilter { from, tag, message: None }
    }

    /// Returns who gets a message, from whom, and how many more are queued.
    fn delivered(replies: &MailboxReplies<u32>) -> Vec<(u32, u32, u64)> {
        let message = |(ticket, reply): &(u32, DataReply)| match reply {
            DataReply::Message { part, queued } => Some((*ticket, part.from, *queued)),
            _ => None,
        };
        replies.iter().filter_map(message).collect()
    }

    #[test]
    fn messages_of_a_sender_and_a_tag_come_in_order() {
        let mut boxes = Mailboxes::default();
        for (ticket, (from, tag)) in (0..).zip([(1, 5), (2, 5), (1, 6), (1, 5)]) {
            assert_eq!(boxes.send(0, part(from, tag, b"x"), ticket).len(), 1);
        }
        assert_eq!(delivered(&boxes.receive(0, first(Some(1), 6), 10)), [(10, 1, 0)]);
        assert_eq!(delivered(&boxes.receive(0, first(Some(1), 5), 11)), [(11, 1, 1)]);
        assert_eq!(delivered(&boxes.receive(0, first(None, 5), 12)), [(12, 2, 0)]);
        assert_eq!(delivered(&boxes.receive(0, first(None, 5), 13)), [(13, 1, 0)]);
        // Another rank has another mailbox.
        assert!(boxes.receive(1, first(None, 5), 14).is_empty());
        // A receiver that waits gets the message at once.
        assert!(boxes.receive(0, first(Some(3), 5), 15).is_empty());
        assert_eq!(boxes.send(0, part(2, 5, b"x"), 16).len(), 1);
        assert_eq!(delivered(&boxes.send(0, part(3, 5, b"x"), 17)), [(15, 3, 0)]);
    }

    #[test]
    fn later_parts_go_to_the_receiver_of_the_first() {
        let mut boxes = Mailboxes::default();
        let later = MessagePart { message: 7, is_first: false, ..part(1, 5, b"later") };
        boxes.send(0, later, 0);
        assert!(boxes.receive(0, first(None, 5), 1).is_empty());
        let rest = MessageFilter { from: Some(1), tag: 5, message: Some(7) };
        assert_eq!(delivered(&boxes.receive(0, rest, 2)), [(2, 1, 0)]);
    }

    #[test]
    fn senders_wait_while_the_mailbox_is_full() {
        let mut boxes = Mailboxes::default();
        let large = vec![0; MAILBOX_BYTES];
        assert_eq!(boxes.send(0, part(1, 5, &large), 1).len(), 1);
        assert!(boxes.send(0, part(2, 5, b"x"), 2).is_empty());
        assert!(boxes.send(0, part(3, 5, b"x"), 3).is_empty());
        let replies = boxes.receive(0, first(Some(1), 5), 4);
        let tickets: Vec<u32> = replies.iter().map(|(ticket, _)| *ticket).collect();
        assert_eq!(tickets, [4, 2, 3]);
    }
}

//! A channel as its receiver sees it: which port it leads to, and what the sender may still send.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::assembler::Group;
use crate::control::Control;
use crate::link::Link;
use crate::port::{Sink, UNLIMITED, URGENT_BYTES, URGENT_LIMIT};
use crate::sender::Sender;
use crate::wire::FrameKind;

pub(crate) struct Route {
    link: Weak<Link>,
    sender: Arc<Sender>,
    channel: u32,
    sink: Arc<dyn Sink>,
    limit: i64,
    /// Bytes that came and were not given back.
    outstanding: AtomicI64,
    /// Bytes that were received, to be given back together.
    received: AtomicI64,
    urgent: AtomicUsize,
}

impl Route {
    pub fn new(link: Weak<Link>, sender: Arc<Sender>, channel: u32, sink: Arc<dyn Sink>) -> Self {
        let limit = sink.label().credit;
        let (outstanding, received) = (AtomicI64::new(0), AtomicI64::new(0));
        Self {
            link,
            sender,
            channel,
            sink,
            limit,
            outstanding,
            received,
            urgent: AtomicUsize::new(0),
        }
    }

    pub fn sender(&self) -> &Arc<Sender> {
        &self.sender
    }

    pub fn sink(&self) -> &Arc<dyn Sink> {
        &self.sink
    }

    /// Checks that the peer may send these frames: each must have been sent while less than the
    /// limit was outstanding.
    pub fn admit(&self, group: &Group) -> Result<(), String> {
        let port = || &self.sink.label().name;
        if group.kind == FrameKind::Urgent {
            let waiting = self.urgent.fetch_add(1, Ordering::SeqCst);
            if waiting >= URGENT_LIMIT || group.cost > 2 * URGENT_BYTES {
                return Err(format!("it sent too many or too large urgent tokens to {:?}", port()));
            }
        } else if self.limit != UNLIMITED {
            let cost = i64::try_from(group.cost).unwrap_or(UNLIMITED / 4);
            let last = i64::try_from(group.last_cost).unwrap_or(UNLIMITED / 4);
            let before = self.outstanding.fetch_add(cost, Ordering::SeqCst);
            if before + cost - last >= self.limit {
                return Err(format!("it sent more to {:?} than it had credit for", port()));
            }
        }
        Ok(())
    }

    /// How much is collected before it is given back.
    #[inline]
    pub fn step(&self) -> i64 {
        self.limit / 2
    }

    /// Gives bytes back, together with others.
    #[inline]
    pub fn give_back(&self, bytes: i64) {
        if self.limit == UNLIMITED {
            return;
        }
        let received = self.received.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if received >= self.step() {
            let bytes = self.received.swap(0, Ordering::SeqCst);
            self.outstanding.fetch_sub(bytes, Ordering::SeqCst);
            if let (Ok(bytes @ 1..), Some(link)) = (u64::try_from(bytes), self.link.upgrade()) {
                link.tell(Control::Credit { channel: self.channel, bytes, urgent: 0 });
            }
        }
    }

    /// Gives the room of one urgent token back.
    pub fn give_back_urgent(&self) {
        self.urgent.fetch_sub(1, Ordering::SeqCst);
        if let Some(link) = self.link.upgrade() {
            link.tell(Control::Credit { channel: self.channel, bytes: 0, urgent: 1 });
        }
    }
}

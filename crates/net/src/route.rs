//! A channel as its receiver sees it: its port, and the credit of the sender.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::assembler::FrameGroup;
use crate::channel::Channel;
use crate::control::Control;
use crate::link::Link;
use crate::port::{Sink, UNLIMITED};
use crate::sender::Sender;

pub(crate) struct FrameRoute {
    link: Weak<Link>,
    sender: Arc<Sender>,
    channel: u32,
    sink: Arc<dyn Sink>,
    limit: i64,
    /// Bytes received whose credit was not returned.
    outstanding: AtomicI64,
    /// Bytes whose credit will be returned together.
    received: AtomicI64,
    /// The channel for replies to the requests of this one; it ends with this one. It refers to the
    /// link, which refers to this route, until the link is lost or the route left.
    reply_channel: OnceLock<Option<Arc<Channel>>>,
}

impl FrameRoute {
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
            reply_channel: OnceLock::new(),
        }
    }

    pub fn sender(&self) -> &Arc<Sender> {
        &self.sender
    }

    pub fn sink(&self) -> &Arc<dyn Sink> {
        &self.sink
    }

    /// Checks that the peer may send these frames: it must have sent each while less than the limit
    /// was outstanding.
    pub fn admit(&self, group: &FrameGroup) -> Result<(), String> {
        if self.limit != UNLIMITED {
            let cost = i64::try_from(group.cost).unwrap_or(UNLIMITED / 4);
            let last = i64::try_from(group.last_cost).unwrap_or(UNLIMITED / 4);
            let before = self.outstanding.fetch_add(cost, Ordering::SeqCst);
            if before + cost - last >= self.limit {
                let port = &self.sink.label().name;
                return Err(format!("it sent more to {port:?} than it had credit for"));
            }
        }
        Ok(())
    }

    /// Bytes that the peer may still send.
    pub fn credit_left(&self) -> i64 {
        match self.limit {
            UNLIMITED => UNLIMITED,
            limit => limit.saturating_sub(self.outstanding.load(Ordering::SeqCst)),
        }
    }

    /// Returns the channel that the peer has opened for replies to its requests on this one; none
    /// if the link is lost. There is one for each. A peer that names another one, or one that leads
    /// to a port, is cut off.
    pub fn reply_channel(&self, number: u32) -> Option<Arc<Channel>> {
        let reply_channel = self.reply_channel.get_or_init(|| {
            let link = self.link.upgrade()?;
            if link.channel(number).is_some() {
                link.mark_lost("it wants reply_channel on a channel that leads to a port");
                return None;
            }
            Some(Channel::new(link, number, &self.sink.label().name, UNLIMITED))
        });
        let reply_channel = reply_channel.as_ref()?;
        if reply_channel.number != number {
            reply_channel.close_link("it wants reply_channel on two channels");
            return None;
        }
        Some(reply_channel.clone())
    }

    /// Ends the link because of what the peer did.
    pub fn cut_off(&self, reason: &str) {
        if let Some(link) = self.link.upgrade() {
            link.cut_off(reason);
        }
    }

    /// Bytes collected before credit is returned.
    #[inline]
    pub fn step(&self) -> i64 {
        self.limit / 2
    }

    /// Returns the credit of bytes, together with others.
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
                link.send_control(Control::Credit { channel: self.channel, bytes });
            }
        }
    }
}

//! A channel as its sender sees it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::control::Control;
use crate::error::SendError;
use crate::link::Link;
use crate::outbox::PutError;
use crate::port::{Sink, UNLIMITED, URGENT_BYTES, URGENT_LIMIT};
use crate::token::Token;
use crate::waiter::Waiters;
use crate::wire::{FrameKind, WireError};

/// So much may be queued before a carrier that takes nothing.
const BACKLOG_BYTES: usize = 512 << 10;

pub(crate) struct Channel {
    pub number: u32,
    link: Arc<Link>,
    port: String,
    /// The credit in the beginning, which is never exceeded.
    limit: i64,
    /// Bytes that may still be sent. Only goes down under the lock of the link's outbox.
    available: AtomicI64,
    urgent: AtomicUsize,
    is_gone: AtomicBool,
    waiters: Mutex<Waiters>,
    /// Where answers to what is asked on this channel come in; closed when the port is gone.
    answers: OnceLock<Weak<dyn Sink>>,
}

impl Channel {
    pub fn new(link: Arc<Link>, number: u32, port: &str, credit: i64) -> Arc<Self> {
        let channel = Arc::new(Self {
            number,
            link: link.clone(),
            port: port.to_owned(),
            limit: credit,
            available: AtomicI64::new(credit),
            urgent: AtomicUsize::new(0),
            is_gone: AtomicBool::new(false),
            waiters: Mutex::new(Waiters::new()),
            answers: OnceLock::new(),
        });
        link.add_channel(&channel);
        channel
    }

    /// Makes a channel on which what is asked on this one is answered; none if the link is lost.
    /// When the port of this one is gone, the sink is closed.
    pub fn open_reply_channel(&self, sink: &Arc<dyn Sink>) -> Option<u32> {
        let number = self.link.open_route(sink.clone())?;
        let _ = self.answers.set(Arc::downgrade(sink));
        // The port may have gone just before.
        if self.is_gone.load(Ordering::SeqCst) {
            sink.close();
        }
        Some(number)
    }

    /// Whether what is sent can arrive, as far as is known.
    pub fn is_open(&self) -> bool {
        self.link.is_alive() && !self.is_gone.load(Ordering::SeqCst)
    }

    /// Ends the link, because of what the peer did.
    pub fn cut(&self, reason: &str) {
        self.link.lost(reason);
    }

    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    pub fn peer(&self) -> &str {
        &self.link.peer
    }

    pub fn port(&self) -> &str {
        &self.port
    }

    /// Sends a token, at once or gathered with others.
    #[inline]
    pub fn send<T: Token>(&self, token: T, at_once: bool) -> Result<(), SendError<T>> {
        let mut out = self.link.out.lock();
        while self.available.load(Ordering::Relaxed) <= 0 && !self.is_over(out.is_lost) {
            drop(out);
            if let Err(waited) = self.wait_for_credit() {
                let port = self.port.clone();
                return Err(SendError::Full { port, waited, token: Some(token) });
            }
            out = self.link.out.lock();
        }
        if self.is_over(out.is_lost) {
            return Err(self.over(token));
        }
        let limits = &self.link.core.options.limits;
        match out.put(token, self.number, FrameKind::Token, limits) {
            Ok(cost) => {
                if self.limit != UNLIMITED {
                    self.available.fetch_sub(i64::try_from(cost).unwrap_or(0), Ordering::Relaxed);
                }
                let is_backed_up =
                    self.limit != UNLIMITED && out.is_blocked && out.queued_bytes > BACKLOG_BYTES;
                self.link.leave(out, at_once);
                if is_backed_up {
                    self.wait_for_carrier();
                }
                Ok(())
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// While the carrier takes nothing and much is queued, waits for it, so that the thread itself
    /// writes on as soon as it can. Channels without a limit of credit do not: their senders must
    /// not be held up.
    #[cold]
    fn wait_for_carrier(&self) {
        let deadline = self.link.core.options.send_wait.map(|wait| Instant::now() + wait);
        // After the deadline the next sends will run out of credit, and say so.
        let _ = self.link.core.wait(deadline, |waiter| self.link.look_unblocked(waiter));
    }

    pub fn send_urgent<T: Token>(&self, token: T) -> Result<(), SendError<T>> {
        let mut out = self.link.out.lock();
        if self.is_over(out.is_lost) {
            return Err(self.over(token));
        }
        if self.urgent.load(Ordering::SeqCst) >= URGENT_LIMIT {
            let (port, limit) = (self.port.clone(), URGENT_LIMIT);
            return Err(SendError::TooManyUrgent { port, limit, token: Some(token) });
        }
        let mut limits = self.link.core.options.limits;
        limits.inline_bytes = limits.inline_bytes.min(2 * URGENT_BYTES);
        limits.segment_bytes = limits.segment_bytes.min(URGENT_BYTES);
        limits.segments = 1;
        match out.put(token, self.number, FrameKind::Urgent, &limits) {
            Ok(_) => {
                self.urgent.fetch_add(1, Ordering::SeqCst);
                self.link.leave(out, true);
                Ok(())
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    pub fn flush(&self) {
        self.link.flush();
    }

    fn is_over(&self, is_lost: bool) -> bool {
        is_lost || self.is_gone.load(Ordering::Relaxed)
    }

    #[cold]
    fn over<T>(&self, token: T) -> SendError<T> {
        let (port, token) = (self.port.clone(), Some(token));
        if self.link.core.is_closed() || self.is_gone.load(Ordering::SeqCst) {
            SendError::Closed { port, token }
        } else {
            SendError::Lost { port, peer: self.link.peer.to_string(), token }
        }
    }

    #[cold]
    fn refused<T>(&self, error: PutError) -> SendError<T> {
        let port = self.port.clone();
        match error {
            PutError::Encode(error) => SendError::Encode { port, error },
            PutError::Wire(error @ WireError::TooLong { .. }) => {
                SendError::TooLarge { port, error }
            }
            PutError::Wire(WireError::Malformed(_)) => {
                unreachable!("only what is received is malformed")
            }
        }
    }

    fn wait_for_credit(&self) -> Result<(), Duration> {
        let core = &self.link.core;
        let wait = core.options.send_wait;
        let look = |waiter: &Arc<_>| {
            let is_over = || self.is_gone.load(Ordering::SeqCst) || !self.link.is_alive();
            self.waiters.lock().add(waiter);
            (self.available.load(Ordering::SeqCst) > 0 || is_over()).then_some(())
        };
        let found = core.wait(wait.map(|wait| Instant::now() + wait), look);
        found.ok_or(wait.unwrap_or(Duration::MAX))
    }

    /// The receiver has received. Fails if it says that it received more than was sent.
    pub fn credit(&self, bytes: u64, urgent: u32) -> Result<(), String> {
        if bytes > 0 {
            let more = |available: i64| {
                let after = available.checked_add(i64::try_from(bytes).ok()?)?;
                (self.limit != UNLIMITED && after <= self.limit).then_some(after)
            };
            let before = self.available.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
            match before {
                Ok(before) if before <= 0 => self.wake(),
                Ok(_) => {}
                Err(_) => return Err("it gave back more credit than was used".to_owned()),
            }
        }
        let less = |waiting: usize| Some(waiting.saturating_sub(urgent as usize));
        let _ = self.urgent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        Ok(())
    }

    /// The port does not exist any more.
    pub fn gone(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(sink) = self.answers.get().and_then(Weak::upgrade) {
            sink.close();
        }
    }

    /// Wakes whoever waits for credit.
    pub fn wake(&self) {
        let waiters = self.waiters.lock().take();
        self.link.core.wake(waiters);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.link.remove_channel(self.number);
        if !self.is_gone.load(Ordering::SeqCst) {
            self.link.tell(Control::Leave { channel: self.number });
        }
    }
}

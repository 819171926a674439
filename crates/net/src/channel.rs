//! A channel as its sender sees it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::control::Control;
use crate::error::SendError;
use crate::link::Link;
use crate::outbox::PutError;
use crate::port::{Sink, UNLIMITED};
use crate::token::Token;
use crate::waiter::Waiters;
use crate::wire::WireError;

/// Bytes that a channel may queue while its carrier is blocked.
const BACKLOG_BYTES: usize = 512 << 10;

pub(crate) struct Channel {
    pub number: u32,
    link: Arc<Link>,
    port: String,
    /// The initial credit. The available credit never exceeds it.
    limit: i64,
    /// Bytes that may still be sent. Only goes down under the lock of the link's outbox.
    available: AtomicI64,
    is_gone: AtomicBool,
    waiters: Mutex<Waiters>,
    /// The port for replies to requests on this channel; closed when the port of this channel is
    /// gone.
    reply_sink: OnceLock<Weak<dyn Sink>>,
}

impl Channel {
    pub fn new(link: Arc<Link>, number: u32, port: &str, credit: i64) -> Arc<Self> {
        let channel = Arc::new(Self {
            number,
            link: link.clone(),
            port: port.to_owned(),
            limit: credit,
            available: AtomicI64::new(credit),
            is_gone: AtomicBool::new(false),
            waiters: Mutex::new(Waiters::new()),
            reply_sink: OnceLock::new(),
        });
        link.add_channel(&channel);
        channel
    }

    /// Opens a channel for replies to the requests on this one; none if the link is lost. The sink
    /// is closed when the port of this channel is gone.
    pub fn open_reply_channel(&self, sink: &Arc<dyn Sink>) -> Option<u32> {
        let number = self.link.open_route(sink.clone())?;
        let _ = self.reply_sink.set(Arc::downgrade(sink));
        // The port may have gone just before.
        if self.is_gone.load(Ordering::SeqCst) {
            sink.close();
        }
        Some(number)
    }

    /// Whether tokens can arrive, as far as is known.
    pub fn is_open(&self) -> bool {
        self.link.is_alive() && !self.is_gone.load(Ordering::SeqCst)
    }

    /// Closes the link.
    pub fn close_link(&self, reason: &str) {
        self.link.mark_lost(reason);
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
            return Err(self.closed_error(token));
        }
        let limits = &self.link.core.options.limits;
        match out.put(token, self.number, limits) {
            Ok(cost) => {
                if self.limit != UNLIMITED {
                    self.available.fetch_sub(i64::try_from(cost).unwrap_or(0), Ordering::Relaxed);
                }
                let is_backed_up =
                    self.limit != UNLIMITED && out.is_blocked && out.queued_bytes > BACKLOG_BYTES;
                self.link.schedule_send(out, at_once);
                if is_backed_up {
                    self.wait_for_carrier();
                }
                Ok(())
            }
            Err(error) => Err(self.put_error(error)),
        }
    }

    /// Waits while the carrier is blocked and much is queued, so that this thread itself writes on
    /// as soon as it can. Channels without a credit limit do not wait: their senders must not be
    /// held up.
    #[cold]
    fn wait_for_carrier(&self) {
        let deadline = self.link.core.options.send_wait.map(|wait| Instant::now() + wait);
        // After the deadline the next sends run out of credit and fail.
        let _ = self.link.core.wait(deadline, |waiter| self.link.check_unblocked(waiter));
    }

    pub fn flush(&self) {
        self.link.flush();
    }

    fn is_over(&self, is_lost: bool) -> bool {
        is_lost || self.is_gone.load(Ordering::Relaxed)
    }

    #[cold]
    fn closed_error<T>(&self, token: T) -> SendError<T> {
        let (port, token) = (self.port.clone(), Some(token));
        if self.link.core.is_closed() || self.is_gone.load(Ordering::SeqCst) {
            SendError::Closed { port, token }
        } else {
            SendError::Lost { port, peer: self.link.peer.to_string(), token }
        }
    }

    #[cold]
    fn put_error<T>(&self, error: PutError) -> SendError<T> {
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

    /// Returns credit for received bytes. Fails if the peer returns more than was used.
    pub fn add_credit(&self, bytes: u64) -> Result<(), String> {
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
        Ok(())
    }

    /// Marks the port as gone.
    pub fn mark_gone(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(sink) = self.reply_sink.get().and_then(Weak::upgrade) {
            sink.close();
        }
    }

    /// Wakes the threads that wait for credit.
    pub fn wake(&self) {
        let waiters = self.waiters.lock().take();
        self.link.core.wake(waiters);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.link.remove_channel(self.number);
        if !self.is_gone.load(Ordering::SeqCst) {
            self.link.send_control(Control::Leave { channel: self.number });
        }
    }
}

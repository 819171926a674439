//! The queue of an input port, shared by all senders and receivers.
//!
//! Local tokens wait as they are. Tokens from links wait as *runs*: frames of a packet that the
//! receiving thread decodes.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::UNLIMITED;
use crate::core::Core;
use crate::error::SendError;
use crate::frame_run::FrameRun;
use crate::sender::Sender;
use crate::token::{Token, TokenKind};
use crate::waiter::{Waiter, Waiters};

/// A port as a link sees it.
pub(crate) trait Sink: Send + Sync {
    /// Adds a run to the queue. Returns false if the port is closed.
    fn deliver(&self, run: FrameRun) -> bool;
    /// Reports a lost peer to the receiver.
    fn report_lost(&self, peer: &Arc<Sender>);
    /// Closes the queue; receivers get an error.
    fn close(&self);
    /// Name and number.
    fn label(&self) -> &PortLabel;
    /// The numbers of tokens added and taken.
    fn flow(&self) -> (u64, u64);
    /// For a sender of the same space.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// The identity of a port.
#[derive(Debug)]
pub(crate) struct PortLabel {
    pub name: String,
    pub number: u32,
    pub kind: TokenKind,
    /// Bytes that may be under way per sender.
    pub credit: i64,
    pub role: PortRole,
}

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortRole {
    /// Tokens. A peer that leaves the port has done with it.
    Tokens,
    /// Requests to a server, which may keep sessions for its clients: it learns of the loss of
    /// every client, also of one that has left the port before.
    Requests,
    /// Replies to the client in this space; hidden from the directory and from peers.
    Replies,
}

pub(crate) struct PortQueue<T> {
    pub label: PortLabel,
    core: Arc<Core>,
    state: Mutex<QueueState<T>>,
    /// Whether items have arrived since the receiver last took all.
    has_arrived: AtomicBool,
    pub taken: AtomicU64,
}

struct QueueState<T> {
    items: VecDeque<Item<T>>,
    receivers: Waiters,
    senders: Waiters,
    /// Bytes of the tokens of the own space that were not taken yet.
    local_bytes: i64,
    put: u64,
    closed: bool,
}

pub(crate) enum Item<T> {
    Local { token: T, weight: usize },
    FrameRun(Box<FrameRun>),
    Lost(Arc<Sender>),
}

impl<T> Item<T> {
    /// The sender. There is one [`Sender`] for each link, which the item keeps alive, so that its
    /// address is unique.
    pub fn sender(&self) -> SenderKey {
        match self {
            Item::Local { .. } => SenderKey(0),
            Item::FrameRun(run) => SenderKey(Arc::as_ptr(run.sender()).addr()),
            Item::Lost(peer) => SenderKey(Arc::as_ptr(peer).addr()),
        }
    }
}

/// A sender, among those that have something in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SenderKey(usize);

/// Why there is no token: not yet, or never again.
pub(crate) enum NoToken {
    Yet,
    Ever,
}

impl<T: Token> PortQueue<T> {
    pub fn new(core: Arc<Core>, label: PortLabel) -> Self {
        let state = QueueState {
            items: VecDeque::new(),
            receivers: Waiters::new(),
            senders: Waiters::new(),
            local_bytes: 0,
            put: 0,
            closed: false,
        };
        let (state, has_arrived) = (Mutex::new(state), AtomicBool::new(false));
        Self { label, core, state, has_arrived, taken: AtomicU64::new(0) }
    }

    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub fn depth(&self) -> usize {
        let put = self.state.lock().put;
        usize::try_from(put.saturating_sub(self.taken.load(Ordering::Relaxed))).unwrap_or(0)
    }

    /// Adds a local token. Waits while the port is full.
    pub fn send(&self, token: T) -> Result<(), SendError<T>> {
        let weight = token.weight_bytes().max(1);
        let mut state = self.state.lock();
        if state.local_bytes >= self.label.credit && !state.closed {
            drop(state);
            if !self.wait_for_room() {
                let waited = self.core.options.send_wait.unwrap_or(Duration::MAX);
                let (port, token) = (self.label.name.clone(), Some(token));
                return Err(SendError::Full { port, waited, token });
            }
            state = self.state.lock();
        }
        if state.closed {
            return Err(SendError::Closed { port: self.label.name.clone(), token: Some(token) });
        }
        if self.label.credit != UNLIMITED {
            state.local_bytes += i64::try_from(weight).unwrap_or(UNLIMITED);
        }
        state.items.push_back(Item::Local { token, weight });
        self.has_arrived.store(true, Ordering::Release);
        state.put += 1;
        let receivers = state.receivers.take();
        drop(state);
        self.core.wake(receivers);
        Ok(())
    }

    fn wait_for_room(&self) -> bool {
        let deadline = self.core.options.send_wait.map(|wait| Instant::now() + wait);
        let waited = self.core.wait(deadline, |waiter| {
            let mut state = self.state.lock();
            if state.local_bytes < self.label.credit || state.closed {
                return Some(());
            }
            state.senders.add(waiter);
            None
        });
        waited.is_some()
    }

    /// Returns the credit of received local tokens.
    pub fn release(&self, bytes: usize) {
        if bytes > 0 && self.label.credit != UNLIMITED {
            let mut state = self.state.lock();
            state.local_bytes -= i64::try_from(bytes).unwrap_or(0);
            let senders = state.senders.take();
            drop(state);
            self.core.wake(senders);
        }
    }

    /// Whether the port is open.
    pub fn is_open(&self) -> bool {
        !self.state.lock().closed
    }

    /// Removes the waiting receivers.
    pub fn forget_receivers(&self) {
        let _no_longer = self.state.lock().receivers.take();
    }

    /// Whether something has arrived since the receiver last took all.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.has_arrived.load(Ordering::Acquire)
    }

    /// Exchanges the empty `items` for all waiting ones. If there are none, registers the waiter.
    pub fn take_all(
        &self,
        items: &mut VecDeque<Item<T>>,
        waiter: Option<&Arc<Waiter>>,
    ) -> Result<(), NoToken> {
        let mut state = self.state.lock();
        if !state.items.is_empty() {
            std::mem::swap(&mut state.items, items);
            self.has_arrived.store(false, Ordering::Release);
            return Ok(());
        }
        if state.closed {
            return Err(NoToken::Ever);
        }
        if let Some(waiter) = waiter {
            state.receivers.add(waiter);
        }
        Err(NoToken::Yet)
    }
}

impl<T: Token> Sink for PortQueue<T> {
    fn deliver(&self, run: FrameRun) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.put += u64::from(run.frame_count());
        state.items.push_back(Item::FrameRun(Box::new(run)));
        self.has_arrived.store(true, Ordering::Release);
        let receivers = state.receivers.take();
        drop(state);
        self.core.wake(receivers);
        true
    }

    fn report_lost(&self, peer: &Arc<Sender>) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.items.push_back(Item::Lost(peer.clone()));
        self.has_arrived.store(true, Ordering::Release);
        let receivers = state.receivers.take();
        drop(state);
        self.core.wake(receivers);
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let (receivers, senders) = (state.receivers.take(), state.senders.take());
        drop(state);
        self.core.wake(receivers);
        self.core.wake(senders);
    }

    fn label(&self) -> &PortLabel {
        &self.label
    }

    fn flow(&self) -> (u64, u64) {
        (self.state.lock().put, self.taken.load(Ordering::Relaxed))
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

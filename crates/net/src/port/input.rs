//! The receiving end of a port.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::fair::FairQueue;
use super::queue::{Item, NoToken, PortQueue, SenderKey, Sink};
use super::{OutputPort, UNLIMITED};
use crate::core::Core;
use crate::error::RecvError;
use crate::frame_run::FrameRun;
use crate::port::reply_route::ReplyRoute;
use crate::sender::Sender;
use crate::token::Token;
use crate::waiter::Waiter;

/// A thread that always finds a token never waits, so it never polls nor flushes. It does both
/// after this many tokens, so that the flood of one link does not hold up the others.
const POLL_EVERY: u32 = 64;

/// The receiving end of a port for tokens of one type. Dropping it removes the name from the
/// directory and drops the tokens in it; senders learn that the port is closed.
///
/// Several threads may receive from one port; each token goes to one of them.
pub struct InputPort<T: Token> {
    queue: Arc<PortQueue<T>>,
    taken: Mutex<Taken<T>>,
}

/// Items taken out of the queue, to be received one by one.
struct Taken<T> {
    /// Arrived items before they are sorted by sender; empty in between.
    arrived: VecDeque<Item<T>>,
    lines: FairQueue<SenderKey, Item<T>>,
    /// Tokens received since this thread last looked around.
    since_poll: u32,
    /// Bytes of received local tokens whose room was not given back yet.
    local_bytes: usize,
    count: u64,
}

impl<T: Token> InputPort<T> {
    pub(crate) fn new(queue: Arc<PortQueue<T>>) -> Self {
        let (arrived, lines) = (VecDeque::new(), FairQueue::new());
        let taken = Taken { arrived, lines, since_poll: 0, local_bytes: 0, count: 0 };
        Self { queue, taken: Mutex::new(taken) }
    }

    /// Waits for the next token and returns it.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_with(None, |token, _| token)
    }

    /// Returns the next token if one comes within this time.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvError> {
        self.recv_with(Some(timeout), |token, _| token)
    }

    /// The next token, if there is one now.
    ///
    /// Bytes that have arrived at this process and that no thread has read yet do not count; the
    /// space reads them within a few milliseconds.
    pub fn try_recv(&self) -> Result<T, RecvError> {
        self.try_recv_with(|token, _| token)
    }

    /// Waits for the next token and returns it with its sender.
    pub fn recv_from(&self) -> Result<(T, Arc<Sender>), RecvError> {
        self.recv_with(None, |token, run| (token, self.sender(run)))
    }

    /// Returns the next token with its sender if one comes within this time.
    pub fn recv_from_timeout(&self, timeout: Duration) -> Result<(T, Arc<Sender>), RecvError> {
        self.recv_with(Some(timeout), |token, run| (token, self.sender(run)))
    }

    /// Returns the next token, if one comes within this time, with its sender and the way back.
    pub fn recv_with_reply_route(&self, timeout: Duration) -> Result<(T, ReplyRoute), RecvError> {
        self.recv_with(Some(timeout), |token, run| {
            let route = run.map(|run| run.route().clone());
            (token, ReplyRoute::new(self.sender(run), route))
        })
    }

    /// Opens a channel on which the space of `to` sends tokens to this port, over the link of `to`.
    /// The receiver of a token that holds the number answers with [`ReplyRoute::output`]. There is
    /// one such channel for each output port. `None` if the port is in the same space or the link
    /// is lost. This port closes when the port of `to` is gone.
    pub fn open_reply_channel<U: Token>(&self, to: &OutputPort<U>) -> Option<u32> {
        let sink: Arc<dyn Sink> = self.queue.clone();
        to.channel()?.open_reply_channel(&sink)
    }

    /// The sender of a run, or of a local token.
    pub(crate) fn sender(&self, run: Option<&FrameRun>) -> Arc<Sender> {
        run.map_or(&self.queue.core().sender, FrameRun::sender).clone()
    }

    /// Returns the next token as converted by `keep`, which gets the token and, if it came over a
    /// link, its run.
    #[inline]
    pub(crate) fn recv_with<R>(
        &self,
        timeout: Option<Duration>,
        keep: impl Fn(T, Option<&FrameRun>) -> R,
    ) -> Result<R, RecvError> {
        let (next, is_poll_due) = {
            let mut taken = self.taken.lock();
            let next = self.next(&mut taken, None, &keep);
            (next, taken.is_poll_due())
        };
        if is_poll_due {
            self.queue.core().poll_once();
        }
        match next {
            Ok(received) => received,
            Err(NoToken::Ever) => Err(self.closed()),
            Err(NoToken::Yet) => self.wait(timeout.map(|timeout| Instant::now() + timeout), &keep),
        }
    }

    /// The next token, if there is one now. Otherwise the waiter, and no other, will be woken when
    /// there is one.
    pub(crate) fn next_or_watch(
        &self,
        waiter: Option<&Arc<Waiter>>,
    ) -> Result<Result<T, RecvError>, NoToken> {
        let mut taken = self.taken.lock();
        if waiter.is_some() {
            self.queue.forget_receivers();
        }
        self.next(&mut taken, waiter, &|token, _| token)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.queue.core()
    }

    /// Like `recv_with`, without waiting.
    #[inline]
    pub(crate) fn try_recv_with<R>(
        &self,
        keep: impl Fn(T, Option<&FrameRun>) -> R,
    ) -> Result<R, RecvError> {
        let next = self.next(&mut self.taken.lock(), None, &keep);
        match next {
            Ok(received) => received,
            Err(NoToken::Ever) => Err(self.closed()),
            Err(NoToken::Yet) => Err(RecvError::Empty { port: self.name().to_owned() }),
        }
    }

    /// Tokens that wait here.
    pub fn depth(&self) -> usize {
        self.queue.depth()
    }

    /// The port's name.
    pub fn name(&self) -> &str {
        &self.queue.label.name
    }

    /// Opens an output port to this port from the same space.
    pub fn output(&self) -> OutputPort<T> {
        OutputPort::local(self.queue.clone())
    }

    #[cold]
    fn closed(&self) -> RecvError {
        RecvError::Closed { port: self.name().to_owned() }
    }

    fn wait<R>(
        &self,
        deadline: Option<Instant>,
        keep: &impl Fn(T, Option<&FrameRun>) -> R,
    ) -> Result<R, RecvError> {
        let received = self.queue.core().wait(deadline, |waiter| {
            match self.next(&mut self.taken.lock(), Some(waiter), keep) {
                Ok(received) => Some(received),
                Err(NoToken::Ever) => Some(Err(self.closed())),
                Err(NoToken::Yet) => None,
            }
        });
        received.unwrap_or_else(|| Err(RecvError::Timeout { port: self.name().to_owned() }))
    }

    #[inline]
    fn next<R>(
        &self,
        taken: &mut Taken<T>,
        waiter: Option<&Arc<Waiter>>,
        keep: &impl Fn(T, Option<&FrameRun>) -> R,
    ) -> Result<Result<R, RecvError>, NoToken> {
        loop {
            // Other senders join as soon as the next turn begins.
            if taken.lines.is_between_turns() && self.queue.has_arrived() {
                // An empty queue is no reason to wait here.
                let _nothing = self.queue.take_all(&mut taken.arrived, None);
                taken.line_up();
            }
            if let Some(Item::FrameRun(run)) = taken.lines.front() {
                let received = self.decode(run).map(|token| keep(token, Some(run)));
                if run.is_empty() {
                    drop(taken.lines.pop());
                } else {
                    taken.lines.step();
                }
                self.count(taken);
                return Ok(received);
            }
            match taken.lines.pop() {
                Some(Item::Local { token, weight }) => {
                    self.count(taken);
                    self.count_local(taken, weight);
                    return Ok(Ok(keep(token, None)));
                }
                Some(Item::Lost(peer)) => {
                    return Ok(Err(RecvError::Lost {
                        space: peer.space,
                        peer: peer.name.to_string(),
                    }));
                }
                Some(Item::FrameRun(_)) => unreachable!("a run is received token by token"),
                None => {
                    // The thread will wait, and so poll and flush.
                    taken.since_poll = 0;
                    self.queue.release(std::mem::take(&mut taken.local_bytes));
                    self.queue.take_all(&mut taken.arrived, waiter)?;
                    taken.line_up();
                }
            }
        }
    }

    #[inline]
    fn count(&self, taken: &mut Taken<T>) {
        taken.count += 1;
        taken.since_poll += 1;
        self.queue.taken.store(taken.count, Ordering::Relaxed);
    }

    /// Returns credit when half of it was received, or when nothing is left.
    #[inline]
    fn count_local(&self, taken: &mut Taken<T>, weight: usize) {
        let credit = self.queue.label.credit;
        if credit != UNLIMITED {
            taken.local_bytes += weight;
            if i64::try_from(taken.local_bytes).unwrap_or(UNLIMITED) >= credit / 2 {
                self.queue.release(std::mem::take(&mut taken.local_bytes));
            }
        }
    }

    #[inline]
    fn decode(&self, run: &mut FrameRun) -> Result<T, RecvError> {
        run.next(T::decode).map_err(|error| RecvError::Undecodable {
            port: self.name().to_owned(),
            peer: run.sender().name.to_string(),
            error,
        })
    }
}

impl<T> Taken<T> {
    /// Sorts arrived items by sender.
    fn line_up(&mut self) {
        for item in self.arrived.drain(..) {
            self.lines.push(item.sender(), item);
        }
    }

    /// Whether the thread must poll the other links, because it received many tokens without a wait.
    fn is_poll_due(&mut self) -> bool {
        let is_due = self.since_poll >= POLL_EVERY;
        if is_due {
            self.since_poll = 0;
        }
        is_due
    }
}

impl<T: Token> Drop for InputPort<T> {
    fn drop(&mut self) {
        self.queue.close();
        self.queue.core().withdraw(&self.queue.label);
        // Drop the tokens here, because they may hold ports themselves.
        let mut left = VecDeque::new();
        let _ = self.queue.take_all(&mut left, None);
    }
}

impl<T: Token> fmt::Debug for InputPort<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputPort").field("name", &self.name()).finish_non_exhaustive()
    }
}

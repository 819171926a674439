//! The client's side: sends requests and waits for their replies.
//!
//! *Waiting.* A thread that waits for its reply waits like every thread of a space: it becomes the
//! leader if there is none, reads the socket itself, then takes all replies that came and puts them
//! into their slots. Of several waiting threads one is the *watcher*, which other threads wake when
//! they have read replies. A leader makes itself the watcher, and a watcher that has its reply wakes
//! another thread.
//!
//! *Futures and callbacks.* If no thread waits for a reply, the callback thread of the client does.
//! The client starts it for the first future or callback; it sleeps while there are none. It alone
//! runs the callbacks, with no lock held.
//!
//! *Lock order*: `slots`, then the locks of the port. Code of users runs with neither.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::message::{ReplyBody, ReplyTo, ReplyToken, RequestToken};
use super::slots::{CallbackThread, NO_REQUEST, ReplySlots, Wakeups};
use super::{Protocol, Responder};
use crate::channel::Channel;
use crate::error::{InputError, OpenError, RecvError, RpcError, SendError};
use crate::port::{InputPort, NoToken, OutputPort};
use crate::recv_buffer::{ExpectedReply, RecvBuffer};
use crate::sender::User;
use crate::space::Space;
use crate::unflushed_links;
use crate::waiter::{Waiter, Waiters};

/// Sends requests to an [`RpcServer`](crate::RpcServer), wherever it is. Clones share the
/// connection and are cheap; many threads can use them at once.
///
/// Any number of requests can be under way, and their replies come in any order. The caller must
/// bound how many it starts.
///
/// ```
/// use std::time::Duration;
///
/// use pario_net::{PortOptions, Protocol, RpcClient, RpcServer, Space};
///
/// enum Squares {}
///
/// impl Protocol for Squares {
///     const NAME: &'static str = "example.squares/1";
///     type Request = u64;
///     type Reply = u64;
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let home = Space::builder("home").host().build()?;
/// # let squares = RpcServer::<Squares>::new(&home, "squares", PortOptions::default())?;
/// # let server = std::thread::spawn(move || {
/// #     while let Ok(incoming) = squares.recv() {
/// #         incoming.responder.send(incoming.request * incoming.request);
/// #     }
/// # });
/// let space = Space::builder("guest").join(&home.address()).build()?;
/// let client = RpcClient::<Squares>::open(&space, "squares", Duration::from_secs(5))?;
/// assert_eq!(client.start(12)?.wait()?, 144);
///
/// let (replied, replies) = std::sync::mpsc::channel();
/// client.call_then(7, move |reply| replied.send(reply).unwrap());
/// assert_eq!(replies.recv()??, 49);
/// # home.close();
/// # server.join().unwrap();
/// # Ok(())
/// # }
/// ```
pub struct RpcClient<P: Protocol> {
    connection: Arc<Connection<P>>,
}

/// What all clones of a client share. Requests under way need only the reply inbox.
struct Connection<P: Protocol> {
    output: OutputPort<RequestToken<P>>,
    /// The channel for replies; none within the same space.
    reply_channel: Option<u32>,
    inbox: Arc<ReplyInbox<P>>,
}

/// Where the replies to a client come in.
struct ReplyInbox<P: Protocol> {
    port: String,
    peer: String,
    input: InputPort<ReplyToken<P>>,
    slots: Mutex<ReplySlots<P::Reply>>,
    /// The callback thread sleeps here.
    callbacks_due: Condvar,
    /// The channel of the requests, which closes when no request is under way.
    request_channel: Option<Arc<Channel>>,
}

impl<P: Protocol> RpcClient<P> {
    /// Opens a connection to the port of this name. Waits for the port if it does not exist yet.
    /// Fails if the port has another protocol.
    pub fn open(space: &Space, port: &str, timeout: Duration) -> Result<Self, OpenError> {
        let output = space.output::<RequestToken<P>>(port, timeout)?;
        let peer = output.peer().to_owned();
        let (input, sink) = loop {
            match space.reply_input::<ReplyToken<P>>(port) {
                // The next one has another name.
                Err(InputError::NameTaken { .. }) => {}
                Err(_) => {
                    let (port, space) = (port.to_owned(), space.name().to_owned());
                    return Err(OpenError::Closed { port, space });
                }
                Ok(created) => break created,
            }
        };
        let request_channel = output.channel().cloned();
        let reply_channel = match &request_channel {
            None => None,
            Some(channel) => match channel.open_reply_channel(&sink) {
                None => return Err(OpenError::Lost { port: port.to_owned(), peer }),
                number => number,
            },
        };
        let inbox = Arc::new(ReplyInbox {
            port: port.to_owned(),
            peer,
            input,
            slots: Mutex::new(ReplySlots::new()),
            callbacks_due: Condvar::new(),
            request_channel,
        });
        Ok(Self { connection: Arc::new(Connection { output, reply_channel, inbox }) })
    }

    /// Sends a request. It leaves at once when a thread or future waits for its reply, otherwise
    /// like every token.
    pub fn start(&self, request: P::Request) -> Result<PendingReply<P>, RpcError> {
        self.start_and_expect(request, None)
    }

    /// Sends a request, and has the bytes of its reply read straight into the memory of the
    /// caller: if the reply comes over a socket and has one long [`Bulk`](crate::Bulk) as long as
    /// the buffer, that bulk is empty, and its bytes are in the buffer. [`RecvBuffer::take_back`] says
    /// whether they are.
    pub fn start_into(
        &self,
        request: P::Request,
        buffer: &Arc<RecvBuffer>,
    ) -> Result<PendingReply<P>, RpcError> {
        self.start_and_expect(request, Some(buffer))
    }

    fn start_and_expect(
        &self,
        request: P::Request,
        buffer: Option<&Arc<RecvBuffer>>,
    ) -> Result<PendingReply<P>, RpcError> {
        let Connection { reply_channel, inbox, .. } = &*self.connection;
        let number = {
            let mut slots = inbox.slots.lock();
            match slots.end() {
                Some(error) => return Err(error.clone()),
                None => slots.add(),
            }
        };
        let expected = buffer.and_then(|buffer| {
            let recv_buffers = inbox.request_channel.as_ref()?.link().recv_buffers()?;
            Some(recv_buffers.expect((*reply_channel)?, number, buffer))
        });
        match self.send(number, request) {
            Ok(()) => Ok(PendingReply { inbox: inbox.clone(), number, _expected: expected }),
            Err(error) => {
                let mut wakeups = Wakeups::default();
                let slot = inbox.slots.lock().remove(number, &mut wakeups);
                drop(slot);
                Err(error)
            }
        }
    }

    /// Sends a request, and calls `callback` once with the reply or the error. The callback thread
    /// of the client calls it. That thread runs one callback after the other and receives no
    /// replies while it does: a callback should pass the reply on and not wait.
    pub fn call_then(
        &self,
        request: P::Request,
        callback: impl FnOnce(Result<P::Reply, RpcError>) + Send + 'static,
    ) {
        let inbox = &self.connection.inbox;
        let mut slots = inbox.slots.lock();
        if let Err(error) = inbox.ensure_callback_thread(&mut slots) {
            drop(slots);
            return callback(Err(error));
        }
        drop(slots);
        match self.start(request) {
            Ok(pending) => pending.then(callback),
            Err(error) => {
                let mut slots = inbox.slots.lock();
                slots.ready.push((Box::new(callback), Err(error)));
                inbox.wake_callback_thread(slots);
            }
        }
    }

    /// Whether the server can reply, as far as is known.
    pub fn is_alive(&self) -> bool {
        let Connection { output, inbox, .. } = &*self.connection;
        output.is_open() && inbox.slots.lock().end().is_none()
    }

    /// Whether the memory of a request is released when the request is sent: the link is a socket.
    pub fn releases_when_sent(&self) -> bool {
        let channel = self.connection.inbox.request_channel.as_ref();
        channel.is_some_and(|channel| channel.link().is_socket())
    }

    /// Closes the link to the server's space: tokens that wait to be sent are dropped, and all
    /// requests under way over the link fail.
    pub fn close_link(&self, reason: &str) {
        if let Some(channel) = &self.connection.inbox.request_channel {
            channel.close_link(reason);
        }
    }

    /// The name of the server's space.
    pub fn peer(&self) -> &str {
        &self.connection.inbox.peer
    }

    /// The user of the server's process, as the kernel says; none over TCP.
    pub fn peer_user(&self) -> Option<User> {
        match &self.connection.inbox.request_channel {
            Some(channel) => channel.link().sender.user.clone(),
            None => Some(User::own()),
        }
    }

    /// The name of the port.
    pub fn name(&self) -> &str {
        &self.connection.inbox.port
    }

    fn send(&self, number: u64, request: P::Request) -> Result<(), RpcError> {
        let Connection { output, reply_channel, inbox } = &*self.connection;
        let reply_to = match reply_channel {
            Some(channel) => ReplyTo::Channel(*channel),
            None => ReplyTo::Local(Responder::new(Some(inbox.input.output()), number)),
        };
        let error = match output.send(RequestToken { number, reply_to, body: Ok(request) }) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let rpc_error = match &error {
            SendError::Lost { peer, .. } => RpcError::Lost { peer: peer.clone() },
            SendError::Closed { port, .. } => RpcError::Closed { port: port.clone() },
            error => RpcError::Unsent { reason: error.to_string() },
        };
        if let Some(RequestToken { reply_to: ReplyTo::Local(responder), .. }) = error.into_token() {
            responder.discard();
        }
        Err(rpc_error)
    }
}

impl<P: Protocol> Clone for RpcClient<P> {
    fn clone(&self) -> Self {
        Self { connection: self.connection.clone() }
    }
}

impl<P: Protocol> fmt::Debug for RpcClient<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RpcClient({:?} in {:?})", self.name(), self.peer())
    }
}

impl<P: Protocol> Drop for Connection<P> {
    fn drop(&mut self) {
        let mut slots = self.inbox.slots.lock();
        slots.is_abandoned = true;
        self.inbox.wake_callback_thread(slots);
    }
}

impl<P: Protocol> ReplyInbox<P> {
    /// Puts all replies that came into their slots. A given waiter is woken for the next ones.
    fn sort_replies(
        &self,
        slots: &mut ReplySlots<P::Reply>,
        waiter: Option<&Arc<Waiter>>,
        wakeups: &mut Wakeups<P::Reply>,
    ) {
        if let Some(waiter) = waiter {
            slots.watch(waiter);
        }
        loop {
            let error = match self.input.next_or_watch(waiter) {
                Ok(Ok(ReplyToken { number, body })) => {
                    slots.finish(number, body, |body| self.result(body), wakeups);
                    continue;
                }
                Err(NoToken::Yet) => return,
                Err(NoToken::Ever) => RpcError::Closed { port: self.port.clone() },
                Ok(Err(RecvError::Lost { peer, .. })) => RpcError::Lost { peer },
                Ok(Err(error)) => {
                    RpcError::Unreadable { peer: self.peer.clone(), reason: error.to_string() }
                }
            };
            let is_last = matches!(error, RpcError::Closed { .. });
            slots.end_with(error, wakeups);
            if is_last {
                return;
            }
        }
    }

    fn result(&self, body: ReplyBody<P::Reply>) -> Result<P::Reply, RpcError> {
        let peer = || self.peer.clone();
        match body {
            ReplyBody::Answered(reply) | ReplyBody::File(reply, _) => Ok(reply),
            ReplyBody::Dropped => Err(RpcError::Dropped { peer: peer() }),
            ReplyBody::Refused(reason) => Err(RpcError::Refused { peer: peer(), reason }),
            ReplyBody::Unreadable(error) => {
                Err(RpcError::Unreadable { peer: peer(), reason: error.to_string() })
            }
        }
    }

    /// Wakes the collected waiters. The caller must hold no lock.
    fn wake(&self, wakeups: Wakeups<P::Reply>) {
        self.input.core().wake(wakeups.waiters);
        wakeups.wakers.into_iter().for_each(|waker| waker.wake());
        if wakeups.wakes_callback_thread {
            self.wake_callback_thread(self.slots.lock());
        }
    }

    fn flush(&self) {
        if let Some(channel) = &self.request_channel {
            channel.flush();
        }
    }

    /// Waits for a reply until the deadline.
    fn wait(&self, number: u64, deadline: Option<Instant>) -> Option<Result<P::Reply, RpcError>> {
        self.flush();
        let found = self.input.core().wait(deadline, |waiter| {
            let mut wakeups = Wakeups::default();
            let mut slots = self.slots.lock();
            // A leader checks anyway after each poll.
            let watches = waiter.leads() || !slots.is_watched_by_another(waiter);
            self.sort_replies(&mut slots, watches.then_some(waiter), &mut wakeups);
            let found = slots.take(number);
            if found.is_some() {
                slots.stop_waiting(number);
                slots.unwatch(waiter, &mut wakeups);
            } else {
                slots.wait(number, waiter, &mut wakeups);
            }
            drop(slots);
            self.wake(wakeups);
            found
        });
        if found.is_some() {
            return found;
        }
        let mut wakeups = Wakeups::default();
        let mut slots = self.slots.lock();
        slots.stop_waiting(number);
        slots.unwatch(&Waiter::current(), &mut wakeups);
        let found = slots.take(number);
        drop(slots);
        self.wake(wakeups);
        found
    }

    /// Starts the callback thread if it does not run.
    fn ensure_callback_thread(
        self: &Arc<Self>,
        slots: &mut ReplySlots<P::Reply>,
    ) -> Result<(), RpcError> {
        if !matches!(slots.callback_thread, CallbackThread::Absent) {
            return Ok(());
        }
        let own = self.clone();
        let thread = std::thread::Builder::new().name(format!("rpc {}", self.port));
        match thread.spawn(move || own.run_callbacks()) {
            Ok(_) => {
                slots.callback_thread = CallbackThread::Idle;
                Ok(())
            }
            Err(error) => {
                let reason = format!("no thread can be started for its reply: {error}");
                Err(RpcError::Unsent { reason })
            }
        }
    }

    /// Wakes the callback thread to check for work.
    fn wake_callback_thread(&self, slots: MutexGuard<'_, ReplySlots<P::Reply>>) {
        match &slots.callback_thread {
            CallbackThread::Absent => {}
            CallbackThread::Idle => {
                drop(slots);
                self.callbacks_due.notify_one();
            }
            CallbackThread::Waiting(waiter) => {
                let mut waiters = Waiters::new();
                waiters.add(waiter);
                drop(slots);
                self.input.core().wake(waiters);
            }
        }
    }

    /// Runs the callback thread, until all clients are dropped.
    fn run_callbacks(self: Arc<Self>) {
        loop {
            let mut slots = self.slots.lock();
            while slots.ready.is_empty() && slots.unattended == 0 {
                if slots.is_abandoned {
                    slots.callback_thread = CallbackThread::Absent;
                    return;
                }
                self.callbacks_due.wait(&mut slots);
            }
            let ready = std::mem::take(&mut slots.ready);
            drop(slots);
            for (callback, result) in ready {
                // A callback that panics must not end the thread, which serves other requests too.
                if catch_unwind(AssertUnwindSafe(|| callback(result))).is_err() {
                    tracing::error!(port = self.port, "the callback of a reply panicked");
                }
            }
            self.receive_unattended();
        }
    }

    /// Receives while requests are under way for whose replies no thread waits.
    fn receive_unattended(&self) {
        self.input.core().wait(None, |waiter| {
            let mut wakeups = Wakeups::default();
            let mut slots = self.slots.lock();
            let watches = waiter.leads() || !slots.is_watched_by_another(waiter);
            self.sort_replies(&mut slots, watches.then_some(waiter), &mut wakeups);
            // This is the callback thread.
            wakeups.wakes_callback_thread = false;
            let is_over = !slots.ready.is_empty() || slots.unattended == 0;
            if is_over {
                slots.callback_thread = CallbackThread::Idle;
                slots.unwatch(waiter, &mut wakeups);
            } else if !matches!(slots.callback_thread, CallbackThread::Waiting(_)) {
                slots.callback_thread = CallbackThread::Waiting(waiter.clone());
            }
            drop(slots);
            self.wake(wakeups);
            is_over.then_some(())
        });
    }
}

/// A request under way. Wait for its reply, poll it or await it. If this is dropped, the reply is
/// dropped when it comes.
#[must_use = "the reply comes by waiting"]
pub struct PendingReply<P: Protocol> {
    inbox: Arc<ReplyInbox<P>>,
    number: u64,
    /// Ends with this, so that no reply is read into memory of a caller that does not wait.
    _expected: Option<ExpectedReply>,
}

impl<P: Protocol> PendingReply<P> {
    /// Waits for the reply.
    pub fn wait(self) -> Result<P::Reply, RpcError> {
        let found = self.inbox.wait(self.number, None);
        found.unwrap_or_else(|| unreachable!("without a deadline, a reply or an error comes"))
    }

    /// Waits for the reply until the deadline; then returns the pending reply itself.
    pub fn wait_until(self, deadline: Instant) -> Result<Result<P::Reply, RpcError>, Self> {
        self.inbox.wait(self.number, Some(deadline)).ok_or(self)
    }

    /// Calls `callback` once with the reply or the error, on the callback thread of the client
    /// ([`RpcClient::call_then`]). The reply comes in memory of its own, not in the buffer of
    /// [`RpcClient::start_into`].
    pub fn then(mut self, callback: impl FnOnce(Result<P::Reply, RpcError>) + Send + 'static) {
        let mut slots = self.inbox.slots.lock();
        if let Err(error) = self.inbox.ensure_callback_thread(&mut slots) {
            drop(slots);
            return callback(Err(error));
        }
        slots.call_back(self.number, Box::new(callback));
        self.inbox.wake_callback_thread(slots);
        self.inbox.flush();
        // The slot belongs to the callback now, so dropping this must not remove it.
        self.number = NO_REQUEST;
    }

    /// Whether the reply is there. Bytes that have arrived at this process and that no thread has
    /// read yet do not count; the space reads them within a few milliseconds.
    pub fn is_done(&self) -> bool {
        // Send what this thread has gathered, so that its next token need not wait for more.
        unflushed_links::flush();
        self.inbox.flush();
        let mut wakeups = Wakeups::default();
        let mut slots = self.inbox.slots.lock();
        self.inbox.sort_replies(&mut slots, None, &mut wakeups);
        let is_done = slots.is_finished(self.number);
        drop(slots);
        self.inbox.wake(wakeups);
        is_done
    }
}

impl<P: Protocol> Future for PendingReply<P> {
    type Output = Result<P::Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let inbox = &self.inbox;
        let mut slots = inbox.slots.lock();
        if let Some(result) = slots.take(self.number) {
            return Poll::Ready(result);
        }
        if let Err(error) = inbox.ensure_callback_thread(&mut slots) {
            return Poll::Ready(Err(error));
        }
        if slots.wait_with(self.number, context.waker()) {
            inbox.wake_callback_thread(slots);
            inbox.flush();
        }
        Poll::Pending
    }
}

impl<P: Protocol> Drop for PendingReply<P> {
    fn drop(&mut self) {
        let mut wakeups = Wakeups::default();
        let slot = self.inbox.slots.lock().remove(self.number, &mut wakeups);
        drop(slot);
        self.inbox.wake(wakeups);
    }
}

impl<P: Protocol> fmt::Debug for PendingReply<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingReply({} of {:?})", self.number, self.inbox.port)
    }
}

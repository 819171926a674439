//! The server's side: receives requests and replies to them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Protocol;
use super::message::{ReplyBody, ReplyTo, ReplyToken, RequestToken};
use crate::error::{InputError, RecvError, SendError};
use crate::file_part::FilePart;
use crate::port::{InputPort, OutputPort, PortOptions, PortRole};
use crate::route::FrameRoute;
use crate::sender::Sender;
use crate::space::Space;
use crate::wire::BULK_BYTES;

/// A port that receives requests, each with a [`Responder`] for its reply. Processes that know its
/// name open an [`RpcClient`](crate::RpcClient) to it.
///
/// Several threads may receive from it. When it is dropped, every request without a reply fails.
///
/// ```
/// use std::time::Duration;
///
/// use pario_net::{PortOptions, Protocol, RpcClient, RpcError, RpcServer, Space};
///
/// enum Lengths {}
///
/// impl Protocol for Lengths {
///     const NAME: &'static str = "example.lengths/1";
///     type Request = String;
///     type Reply = usize;
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let space = Space::alone("home");
/// let server = RpcServer::<Lengths>::new(&space, "lengths", PortOptions::default())?;
/// let thread = std::thread::spawn(move || {
///     while let Ok(incoming) = server.recv() {
///         match incoming.request.as_str() {
///             "" => drop(incoming.responder),
///             text => incoming.responder.send(text.len()),
///         }
///     }
/// });
///
/// let client = RpcClient::<Lengths>::open(&space, "lengths", Duration::from_secs(5))?;
/// let (one, other) = (client.start("four".into())?, client.start("seven..".into())?);
/// assert_eq!((other.wait()?, one.wait()?), (7, 4));
/// let error = client.start(String::new())?.wait().unwrap_err();
/// assert_eq!(error, RpcError::Dropped { peer: "home".into() });
/// space.close();
/// thread.join().unwrap();
/// # Ok(())
/// # }
/// ```
pub struct RpcServer<P: Protocol> {
    input: InputPort<RequestToken<P>>,
}

/// A received request, its sender, and the way to reply.
pub struct IncomingRequest<P: Protocol> {
    /// The request.
    pub request: P::Request,
    /// The space that sent it.
    pub sender: Arc<Sender>,
    /// Sends the reply, now or later, from any thread.
    pub responder: Responder<P>,
}

/// A request, its sender, and the channel it came over.
type ReceivedRequest<P> = (RequestToken<P>, Arc<Sender>, Option<Arc<FrameRoute>>);

impl<P: Protocol> RpcServer<P> {
    /// Creates a port for requests. Its credit bounds the bytes under way to it. The clients or the
    /// receiving threads must bound the requests that were received and have no reply yet.
    pub fn new(space: &Space, name: &str, options: PortOptions) -> Result<Self, InputError> {
        Ok(Self { input: space.input_for(PortRole::Requests, name, options)? })
    }

    /// Waits for the next request and returns it.
    ///
    /// Fails with [`RecvError::Lost`] when the space of a client is lost, after all its requests and
    /// also if the client has left the port before: replies to it are dropped from then on. Fails with [`RecvError::Undecodable`] if a request
    /// cannot be decoded; the server refuses that request.
    pub fn recv(&self) -> Result<IncomingRequest<P>, RecvError> {
        let received = self.input.recv_with(None, |request, run| {
            (request, self.input.sender(run), run.map(|run| run.route().clone()))
        })?;
        self.open(received)
    }

    /// Like [`recv`](Self::recv), but waits at most for this time.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<IncomingRequest<P>, RecvError> {
        let received = self.input.recv_with(Some(timeout), |request, run| {
            (request, self.input.sender(run), run.map(|run| run.route().clone()))
        })?;
        self.open(received)
    }

    /// The number of requests that wait in the port.
    pub fn depth(&self) -> usize {
        self.input.depth()
    }

    /// The port's name.
    pub fn name(&self) -> &str {
        self.input.name()
    }

    fn open(
        &self,
        (token, sender, route): ReceivedRequest<P>,
    ) -> Result<IncomingRequest<P>, RecvError> {
        let responder = match token.reply_to {
            ReplyTo::Local(responder) => responder,
            ReplyTo::Channel(channel) => {
                let channel = route.and_then(|route| route.reply_channel(channel));
                Responder::new(channel.map(OutputPort::remote), token.number)
            }
        };
        match token.body {
            Ok(request) => Ok(IncomingRequest { request, sender, responder }),
            Err(error) => {
                let refused = ReplyBody::Refused(format!("it cannot decode the request: {error}"));
                responder.finish(refused, OutputPort::send);
                let (port, peer) = (self.name().to_owned(), sender.name.to_string());
                Err(RecvError::Undecodable { port, peer, error })
            }
        }
    }
}

impl<P: Protocol> fmt::Debug for RpcServer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RpcServer({:?})", self.name())
    }
}

impl<P: Protocol<Request: fmt::Debug>> fmt::Debug for IncomingRequest<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingRequest")
            .field("request", &self.request)
            .field("sender", &self.sender)
            .finish_non_exhaustive()
    }
}

/// Sends the reply to one request. If it is dropped, the client gets
/// [`RpcError::Dropped`](crate::RpcError::Dropped).
#[must_use = "a request without a reply fails"]
pub struct Responder<P: Protocol> {
    /// Missing if the client is gone, or after the reply.
    to: Option<OutputPort<ReplyToken<P>>>,
    number: u64,
}

/// A function that sends a reply.
type SendReply<P> =
    fn(&OutputPort<ReplyToken<P>>, ReplyToken<P>) -> Result<(), SendError<ReplyToken<P>>>;

impl<P: Protocol> Responder<P> {
    pub(crate) fn new(to: Option<OutputPort<ReplyToken<P>>>, number: u64) -> Self {
        Self { to, number }
    }

    /// Sends the reply. Does nothing if the client is gone.
    ///
    /// It never waits. Like every token, the reply may be gathered with others until this thread
    /// waits for a token, but no longer than [`delay`](crate::Options::delay). A thread that next
    /// waits for something else should use [`send_now`](Self::send_now).
    ///
    /// Replies to a client that does not read pile up here. A server of strangers checks
    /// [`queued_bytes`](Self::queued_bytes) before it replies, and cuts off clients that do not
    /// read.
    pub fn send(self, reply: P::Reply) {
        self.finish(ReplyBody::Answered(reply), OutputPort::send);
    }

    /// Sends the reply, and all tokens gathered for the client's space, at once.
    pub fn send_now(self, reply: P::Reply) {
        self.finish(ReplyBody::Answered(reply), OutputPort::send_at_once);
    }

    /// Whether parts of files reach the client without a copy in this process.
    pub fn can_send_files(&self) -> bool {
        let channel = self.to.as_ref().and_then(OutputPort::channel);
        channel.is_some_and(|channel| channel.link().is_socket())
    }

    /// Sends the reply with a part of a file in place of its first empty [`Bulk`](crate::Bulk),
    /// and all tokens gathered for the client's space, at once. The part goes from the page cache to
    /// the socket. If the client is slow to read, the polling thread sends the rest later; that
    /// thread should not have to wait for a disk.
    ///
    /// # Panics
    /// If the link [cannot send files](Self::can_send_files), or the part has less than
    /// [`BULK_BYTES`](crate::wire::BULK_BYTES).
    pub fn send_file(self, reply: P::Reply, part: FilePart) {
        assert!(
            self.can_send_files() && part.len() >= BULK_BYTES,
            "a part of a file needs a socket and at least {BULK_BYTES} bytes"
        );
        self.finish(ReplyBody::File(reply, part), OutputPort::send_at_once);
    }

    /// The bytes that wait here until the client's space reads them.
    pub fn queued_bytes(&self) -> usize {
        let channel = self.to.as_ref().and_then(OutputPort::channel);
        channel.map_or(0, |channel| channel.link().out.lock().waiting_bytes())
    }

    /// Closes the link to the client's space and records the refusal with this reason.
    pub fn cut_off(mut self, reason: &str) {
        let to = self.to.take();
        if let Some(channel) = to.as_ref().and_then(OutputPort::channel) {
            channel.link().cut_off(reason);
        }
    }

    /// Sends nothing, because the client knows already.
    pub(crate) fn discard(mut self) {
        self.to = None;
    }

    fn finish(mut self, body: ReplyBody<P::Reply>, send: SendReply<P>) {
        let Some(to) = self.to.take() else { return };
        let number = self.number;
        // The channel has no credit limit, so every other error means that the client is gone.
        if let Err(error @ (SendError::TooLarge { .. } | SendError::Encode { .. })) =
            send(&to, ReplyToken { number, body })
        {
            let body = ReplyBody::Refused(format!("the reply cannot be sent: {error}"));
            let _ = send(&to, ReplyToken { number, body });
        }
    }
}

impl<P: Protocol> Drop for Responder<P> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            let _ = to.send(ReplyToken { number: self.number, body: ReplyBody::Dropped });
        }
    }
}

impl<P: Protocol> fmt::Debug for Responder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Responder({})", self.number)
    }
}

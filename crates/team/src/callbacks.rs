//! Callbacks: functions that run on the machine of any rank.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pario_net::wire::BULK_BYTES;
use pario_net::{
    Bulk, FilePart, PendingReply, RecvBuffer, Responder, RpcError, StartedRequest, panic_text,
};

use crate::call::CollectiveCall;
use crate::error::TeamError;
use crate::pending_access::Pending;
use crate::remote::message::{DataProtocol, DataReply, DataRequest};
use crate::team::Team;

/// The arguments of a callback.
#[derive(Clone, Copy, Debug)]
pub struct CallbackCall<'a> {
    /// The calling rank.
    pub from: u32,
    /// The target rank: one of the machine where the function runs.
    pub target: u32,
    /// The header.
    pub header: &'a [u8],
    /// The data.
    pub data: &'a [u8],
}

/// A function that data servers call.
pub type CallbackFn = dyn Fn(CallbackRequest) + Send + Sync;

/// A call of a callback that may reply later, from any thread. If it is dropped, the caller gets an
/// error.
#[must_use = "the caller waits for a reply"]
pub struct CallbackRequest {
    from: u32,
    target: u32,
    header: Bulk,
    data: Bulk,
    /// Present until the reply.
    responder: Option<Responder<DataProtocol>>,
}

/// A function that all ranks have registered, and that runs in the data server of whichever machine
/// it is called at. Clones are the same.
///
/// The data server of a machine is a thread of one of its processes. It runs one function at a time
/// and serves no other request during that.
///
/// ```
/// # let team = pario_team::Team::meet("callbacks", 1, 0)?;
/// let reversed = team.callback(|call| Ok(call.data.iter().rev().copied().collect()))?;
/// let pending = reversed.start(b"", b"abc", 0)?; // at the machine of rank 0
/// assert_eq!(&pending.wait()?[..], b"cba");
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct Callback {
    team: Team,
    number: u64,
}

/// A call of a callback under way.
struct PendingCallback {
    team: Team,
    rank: u32,
    reply: PendingReply<DataProtocol>,
}

impl Team {
    /// Registers a function, together with all ranks: the same one, if the results are to be the
    /// same everywhere. It returns the bytes of its result, or an error text.
    pub fn callback(
        &self,
        function: impl Fn(&CallbackCall<'_>) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Result<Callback, TeamError> {
        self.callback_later(move |request| {
            let result = catch_unwind(AssertUnwindSafe(|| function(&request.call())));
            let result =
                result.unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(&*panic))));
            request.reply_gathered(result.map(Bulk::from));
        })
    }

    /// Registers a function that may reply later, together with all ranks. Move work that takes
    /// long or waits to another thread, so that the data server goes on.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("later", 1, 0)?;
    /// let slow = team.callback_later(|request| {
    ///     std::thread::spawn(move || {
    ///         let sum: u8 = request.call().data.iter().sum();
    ///         request.reply(Ok(vec![sum].into()));
    ///     });
    /// })?;
    /// assert_eq!(slow.call(b"", &[1, 2, 3], 0)?, [6]);
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn callback_later(
        &self,
        function: impl Fn(CallbackRequest) + Send + Sync + 'static,
    ) -> Result<Callback, TeamError> {
        let number = self.register_callback(Arc::new(function), CollectiveCall::Callback)?;
        Ok(Callback { team: self.clone(), number })
    }
}

impl CallbackRequest {
    pub(crate) fn new(
        (from, target): (u32, u32),
        header: Bulk,
        data: Bulk,
        responder: Responder<DataProtocol>,
    ) -> Self {
        Self { from, target, header, data, responder: Some(responder) }
    }

    /// The arguments.
    pub fn call(&self) -> CallbackCall<'_> {
        CallbackCall {
            from: self.from,
            target: self.target,
            header: &self.header,
            data: &self.data,
        }
    }

    /// Replies with the bytes of the result, or an error text.
    pub fn reply(mut self, result: Result<Bulk, String>) {
        if let Some(responder) = self.responder.take() {
            responder.send_now(data_reply(result));
        }
    }

    /// Like `reply`, when the data server waits for the next request anyway.
    fn reply_gathered(mut self, result: Result<Bulk, String>) {
        if let Some(responder) = self.responder.take() {
            responder.send(data_reply(result));
        }
    }

    /// Whether `len` bytes of a file can be the reply without being read here.
    pub fn can_reply_with_file(&self, len: usize) -> bool {
        len >= BULK_BYTES && self.responder.as_ref().is_some_and(Responder::can_send_files)
    }

    /// Replies with bytes of a file, which go straight to the socket. They should be in the page
    /// cache.
    ///
    /// # Panics
    /// If [`can_reply_with_file`](Self::can_reply_with_file) is false for this length.
    pub fn reply_with_file(mut self, file: Arc<File>, offset: u64, len: usize) {
        if let Some(responder) = self.responder.take() {
            responder.send_file(DataReply::Bytes(Bulk::new()), FilePart::new(file, offset, len));
        }
    }
}

fn data_reply(result: Result<Bulk, String>) -> DataReply {
    result.map_or_else(DataReply::CallbackFailed, DataReply::Bytes)
}

impl Drop for CallbackRequest {
    fn drop(&mut self) {
        if let Some(responder) = self.responder.take() {
            responder.send_now(DataReply::CallbackFailed("it gave no reply".to_owned()));
        }
    }
}

impl Callback {
    /// Starts the function on the machine of a rank. Copies the arguments at once.
    pub fn start(&self, header: &[u8], data: &[u8], rank: u32) -> Result<Pending<Bulk>, TeamError> {
        self.start_into(header, data.to_vec().into(), rank, None)
    }

    /// Like [`start`](Self::start), with data that is not copied. If there is a buffer for the
    /// result, and the result is as long, it goes there, unless it comes with the reply:
    /// [`RecvBuffer::take_back`] says which.
    pub fn start_into(
        &self,
        header: &[u8],
        data: Bulk,
        rank: u32,
        buffer: Option<&Arc<RecvBuffer>>,
    ) -> Result<Pending<Bulk>, TeamError> {
        let team = self.team.clone();
        let (size, from) = (team.size(), team.rank());
        if rank >= size {
            let what = format!("there are {size} ranks, and so no rank {rank}");
            return Err(TeamError::Invalid(what));
        }
        let (number, header) = (self.number, header.to_vec().into());
        let call = DataRequest::CollectiveCall { number, from, target: rank, header, data };
        let reply = team.start_request_into(rank, call, buffer)?;
        Ok(Pending::started(PendingCallback { team, rank, reply }))
    }

    /// Calls the function, and waits for the result.
    pub fn call(&self, header: &[u8], data: &[u8], rank: u32) -> Result<Vec<u8>, TeamError> {
        self.start(header, data, rank)?.wait().map(|bytes| bytes.to_vec())
    }

    /// Removes the function from the machine that this process serves, if it serves one. Later
    /// calls there fail.
    pub fn forget(&self) {
        self.team.forget_callback(self.number);
    }
}

impl PendingCallback {
    fn result(
        team: &Team,
        rank: u32,
        reply: Result<DataReply, RpcError>,
    ) -> Result<Bulk, TeamError> {
        match team.check_reply(rank, reply)? {
            DataReply::Bytes(bytes) => Ok(bytes),
            DataReply::CallbackFailed(why) => Err(TeamError::Callback { rank, why }),
            other => Err(team.unexpected_reply(rank, other)),
        }
    }
}

impl StartedRequest<Bulk, TeamError> for PendingCallback {
    fn is_done(&self) -> bool {
        self.reply.is_done()
    }

    fn wait(self: Box<Self>) -> Result<Bulk, TeamError> {
        let Self { team, rank, reply } = *self;
        Self::result(&team, rank, reply.wait())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bulk, TeamError>> {
        let reply = std::task::ready!(Pin::new(&mut self.reply).poll(context));
        Poll::Ready(Self::result(&self.team, self.rank, reply))
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Callback({})", self.number)
    }
}

impl fmt::Debug for CallbackRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallbackRequest({:?})", self.call())
    }
}

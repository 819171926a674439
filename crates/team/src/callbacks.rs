//! Functions that run at the machine of any rank.

use std::fmt;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pario_net::wire::BULK_BYTES;
use pario_net::{Bulk, FilePart, PendingReply, RecvBuffer, Responder};

use crate::call::Call;
use crate::error::TeamError;
use crate::remote::message::{DataProtocol, DataReply, DataRequest};
use crate::team::Team;

/// What a callback is called with.
#[derive(Clone, Copy, Debug)]
pub struct CallbackCall<'a> {
    /// Who calls.
    pub from: u32,
    /// The rank that was meant: one of the machine at which the function runs.
    pub target: u32,
    /// What says what is wanted.
    pub header: &'a [u8],
    /// What it is wanted with.
    pub data: &'a [u8],
}

/// What data servers call.
pub type CallbackFn = dyn Fn(CallbackRequest) + Send + Sync;

/// A call of a callback that answers when it can, from any thread. If it is dropped, the caller is
/// data_reply that there is no responder.
#[must_use = "who calls waits for an responder"]
pub struct CallbackRequest {
    from: u32,
    target: u32,
    header: Bulk,
    data: Bulk,
    /// There until it is check_reply.
    responder: Option<Responder<DataProtocol>>,
}

/// A function that all ranks have registered, and that runs in the data server of whichever machine
/// it is called at. Clones are the same.
///
/// The data server of a machine is a thread of one of its processes. It calls one function at a time,
/// and serves nobody else meanwhile.
///
/// ```
/// # let team = pario_team::Team::meet("callbacks", 1, 0)?;
/// let reversed = team.callback(|call| Ok(call.data.iter().rev().copied().collect()))?;
/// let pending = reversed.start(0, b"", b"abc")?; // at the machine of rank 0
/// assert_eq!(pending.wait()?, b"cba");
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct Callback {
    team: Team,
    number: u64,
}

/// A call of a callback that was begun.
#[must_use = "the result comes by waiting"]
pub struct PendingCallback {
    team: Team,
    rank: u32,
    reply: PendingReply<DataProtocol>,
}

impl Team {
    /// Registers a function, together with all others: the same one, if the results are to be the
    /// same everywhere. It gives the bytes of its result, or says what is wrong.
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

    /// Registers a function that may responder later, together with all others: what takes long or
    /// waits for something belongs into another thread, so that the data server goes on.
    ///
    /// ```
    /// # let team = pario_team::Team::meet("later", 1, 0)?;
    /// let slow = team.callback_later(|request| {
    ///     std::thread::spawn(move || {
    ///         let sum: u8 = request.call().data.iter().sum();
    ///         request.reply(Ok(vec![sum].into()));
    ///     });
    /// })?;
    /// assert_eq!(slow.call(0, b"", &[1, 2, 3])?, [6]);
    /// # Ok::<(), pario_team::TeamError>(())
    /// ```
    pub fn callback_later(
        &self,
        function: impl Fn(CallbackRequest) + Send + Sync + 'static,
    ) -> Result<Callback, TeamError> {
        let number = self.register_callback(Arc::new(function), Call::Callback)?;
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

    /// What it is called with.
    pub fn call(&self) -> CallbackCall<'_> {
        CallbackCall {
            from: self.from,
            target: self.target,
            header: &self.header,
            data: &self.data,
        }
    }

    /// Answers with the bytes of the result, or says what is wrong.
    pub fn reply(mut self, result: Result<Bulk, String>) {
        if let Some(responder) = self.responder.take() {
            responder.send_now(data_reply(result));
        }
    }

    /// The same, when the data server waits for the next question.
    fn reply_gathered(mut self, result: Result<Bulk, String>) {
        if let Some(responder) = self.responder.take() {
            responder.send(data_reply(result));
        }
    }

    /// Whether so many bytes of a file can be the responder without being read here.
    pub fn can_reply_with_file(&self, len: usize) -> bool {
        len >= BULK_BYTES && self.responder.as_ref().is_some_and(Responder::can_send_files)
    }

    /// Answers with bytes of a file, which go from there to the socket. They should be in memory.
    ///
    /// # Panics
    /// If the caller does not [take](Self::can_reply_with_file) so many.
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
            responder.send_now(DataReply::CallbackFailed("it gave no responder".to_owned()));
        }
    }
}

impl Callback {
    /// Calls the function at the machine of a rank. What it is called with is taken at once.
    pub fn start(
        &self,
        rank: u32,
        header: &[u8],
        data: &[u8],
    ) -> Result<PendingCallback, TeamError> {
        self.start_into(rank, header, data.to_vec().into(), None)
    }

    /// The same with data that is not copied. If there is a buffer for the result, and the result is
    /// as long, it goes there, unless it comes with the responder: [`RecvBuffer::end`] says which.
    pub fn start_into(
        &self,
        rank: u32,
        header: &[u8],
        data: Bulk,
        buffer: Option<&Arc<RecvBuffer>>,
    ) -> Result<PendingCallback, TeamError> {
        let team = self.team.clone();
        let (size, from) = (team.size(), team.rank());
        if rank >= size {
            let what = format!("there are {size} ranks, and so no rank {rank}");
            return Err(TeamError::Invalid(what));
        }
        let (number, header) = (self.number, header.to_vec().into());
        let call = DataRequest::Call { number, from, target: rank, header, data };
        let reply = team.start_request_into(rank, call, buffer)?;
        Ok(PendingCallback { team, rank, reply })
    }

    /// Calls the function, and waits for the result.
    pub fn call(&self, rank: u32, header: &[u8], data: &[u8]) -> Result<Vec<u8>, TeamError> {
        self.start(rank, header, data)?.wait()
    }

    /// Forgets the function at the machine that this process serves, if it serves one. Who calls it
    /// there afterwards is data_reply that it is gone.
    pub fn forget(&self) {
        self.team.forget_callback(self.number);
    }
}

impl PendingCallback {
    /// Waits for the result.
    pub fn wait(self) -> Result<Vec<u8>, TeamError> {
        self.wait_bulk().map(|bytes| bytes.to_vec())
    }

    /// Waits for the result, where it is.
    pub fn wait_bulk(self) -> Result<Bulk, TeamError> {
        match self.team.check_reply(self.rank, self.reply.wait())? {
            DataReply::Bytes(bytes) => Ok(bytes),
            DataReply::CallbackFailed(why) => Err(TeamError::Callback { rank: self.rank, why }),
            other => Err(self.team.unexpected_reply(self.rank, other)),
        }
    }

    /// Whether waiting for it would take no time.
    pub fn is_done(&self) -> bool {
        self.reply.is_done()
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

/// What a panic has said.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a word")
}

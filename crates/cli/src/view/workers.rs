//! The slice workers: threads that compute slices, one at a time each, in the order of the queue.

use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pario_image::Volume;
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::picture;
use super::query::SliceRequest;
use super::queue::{CLIENT_LIMIT, LIMIT, QueueError, RequestQueue};
use crate::http::{ConnectionTable, HttpRefusal};

/// Limit for the bytes of pictures that are encoded but not yet sent.
const UNSENT_LIMIT_BYTES: usize = 256 << 20;

/// The threads and their queue.
#[derive(Debug)]
pub struct RenderWorkers {
    context: Arc<WorkerContext>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    count: usize,
}

/// An encoded slice and its cost.
#[derive(Debug)]
pub struct RenderedPicture {
    /// Its bytes. They count against [`UNSENT_LIMIT_BYTES`] until they are sent.
    pub bytes: Bytes,
    /// Time from the start of the work to the picture.
    pub time: Duration,
    /// Extents read.
    pub extents: u64,
    /// Extents that were in the cache.
    pub cache_hits: u64,
    /// Bytes of all extents read.
    pub read_bytes: u64,
    /// Number of the slice, counting all that were started.
    pub turn: u64,
}

/// A queued request; dropping it withdraws it.
#[derive(Debug)]
pub struct PendingSlice {
    context: Arc<WorkerContext>,
    client: String,
    ticket: u64,
    answer: oneshot::Receiver<Result<RenderedPicture, HttpRefusal>>,
}

#[derive(Debug)]
struct WorkerContext {
    state: Mutex<WorkerState>,
    more: Condvar,
    unsent_limit: Arc<Semaphore>,
    /// The connections that receive the pictures.
    connections: Arc<ConnectionTable>,
}

#[derive(Debug)]
struct WorkerState {
    queue: RequestQueue<SliceJob>,
    running: usize,
    begun: u64,
    is_ended: bool,
}

#[derive(Debug)]
struct SliceJob {
    volume: Volume,
    request: SliceRequest,
    answer: oneshot::Sender<Result<RenderedPicture, HttpRefusal>>,
}

impl RenderWorkers {
    /// Starts the threads.
    pub fn start(count: NonZeroUsize, connections: Arc<ConnectionTable>) -> io::Result<Self> {
        let state =
            WorkerState { queue: RequestQueue::new(), running: 0, begun: 0, is_ended: false };
        let context = Arc::new(WorkerContext {
            state: Mutex::new(state),
            more: Condvar::new(),
            unsent_limit: Arc::new(Semaphore::new(UNSENT_LIMIT_BYTES)),
            connections,
        });
        let start = |number: usize| {
            let context = context.clone();
            Builder::new().name(format!("slices {number}")).spawn(move || context.work())
        };
        let threads = (0..count.get()).map(start).collect::<io::Result<_>>()?;
        Ok(Self { context, threads: Mutex::new(threads), count: count.get() })
    }

    /// Queues a request for a slice.
    pub fn enqueue(
        &self,
        volume: &Volume,
        request: SliceRequest,
    ) -> Result<PendingSlice, HttpRefusal> {
        let (requester, (answer, pending)) = (request.requester.clone(), oneshot::channel());
        let client = requester.client.clone();
        let job = SliceJob { volume: volume.clone(), request, answer };
        let mut state = self.context.state.lock();
        if state.is_ended {
            return Err(HttpRefusal::ending());
        }
        let entered = state.queue.enter(requester, job).map_err(|full| match full {
            QueueError::Stale => HttpRefusal::stale(),
            QueueError::Client => HttpRefusal::full(format!(
                "{CLIENT_LIMIT} requests of this client already wait: wait for their answers first"
            )),
            QueueError::All => {
                HttpRefusal::full(format!("{LIMIT} requests already wait: try again later"))
            }
        })?;
        drop(state);
        self.context.more.notify_one();
        for stale in entered.stale {
            // The client may have gone.
            let _ = stale.answer.send(Err(HttpRefusal::stale()));
        }
        Ok(PendingSlice {
            context: self.context.clone(),
            client,
            ticket: entered.ticket,
            answer: pending,
        })
    }

    /// Returns the load as JSON.
    pub fn status(&self) -> Value {
        let state = self.context.state.lock();
        json!({
            "workers": self.count,
            "running": state.running,
            "waiting": state.queue.waiting(),
            "waiting_clients": state.queue.clients(),
            "begun": state.begun,
            "unsent_bytes": UNSENT_LIMIT_BYTES - self.context.unsent_limit.available_permits(),
        })
    }

    /// Refuses all waiting requests, and returns when the last slice is done.
    pub fn end(&self) {
        let mut state = self.context.state.lock();
        state.is_ended = true;
        state.queue.clear();
        drop(state);
        self.context.more.notify_all();
        for thread in self.threads.lock().drain(..) {
            thread.join().expect("a slice worker does not panic");
        }
    }
}

impl WorkerContext {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if state.is_ended {
                return;
            }
            let Some(job) = state.queue.next() else {
                self.more.wait(&mut state);
                continue;
            };
            if job.answer.is_closed() {
                continue;
            }
            state.running += 1;
            state.begun += 1;
            let turn = state.begun;
            drop(state);
            let SliceJob { volume, request, answer } = job;
            // A bug in one slice must not end the worker.
            let made = catch_unwind(AssertUnwindSafe(|| self.make(&volume, &request, turn)));
            let made = made.unwrap_or_else(|_| Err(HttpRefusal::bug()));
            state = self.state.lock();
            state.running -= 1;
            // The client may have gone.
            let _ = answer.send(made);
        }
    }

    fn make(
        &self,
        volume: &Volume,
        request: &SliceRequest,
        turn: u64,
    ) -> Result<RenderedPicture, HttpRefusal> {
        let begin = Instant::now();
        let (slice, report) = volume
            .covered_slice(&request.plane, request.interpolation, false)
            .map_err(|error| HttpRefusal::of_slice(&error))?;
        let bytes = picture::encode(&slice, request.window, request.outside, request.format)
            .map_err(|error| HttpRefusal::wrong(error.to_string()))?;
        Ok(RenderedPicture {
            bytes: self.reserve(bytes)?,
            time: begin.elapsed(),
            extents: report.progress.found,
            cache_hits: report.progress.cache_hits,
            read_bytes: report.progress.seen_bytes,
            turn,
        })
    }

    /// Reserves memory for the bytes until they are dropped.
    fn reserve(&self, bytes: Vec<u8>) -> Result<Bytes, HttpRefusal> {
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        match self.unsent_limit.clone().try_acquire_many_owned(size) {
            Ok(unsent_limit) => Ok(Bytes::from_owner(ReservedBytes { bytes, _room: unsent_limit })),
            Err(_) => {
                // Clients that do not read must not keep others from their pictures.
                self.connections.cut_stalled(Instant::now());
                Err(HttpRefusal::full("too many pictures wait to be sent: try again later"))
            }
        }
    }
}

impl PendingSlice {
    /// Waits for the picture.
    pub async fn picture(mut self) -> Result<RenderedPicture, HttpRefusal> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(HttpRefusal::ending()))
    }
}

impl Drop for PendingSlice {
    fn drop(&mut self) {
        self.context.state.lock().queue.withdraw(&self.client, self.ticket);
    }
}

/// Bytes with their reservation.
struct ReservedBytes {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

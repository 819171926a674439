//! The slice workers: a few threads that take slices, one at a time each, in the order of the queue.

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
use super::query::Wanted;
use super::queue::{CLIENT_LIMIT, Full, LIMIT, Queue};
use crate::http::{ConnectionTable, Refusal};

/// Pictures that are made but not yet fetched have at most so many bytes together.
const ROOM_BYTES: usize = 256 << 20;

/// The threads, and those who wait for them.
#[derive(Debug)]
pub struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    count: usize,
}

/// A slice as a picture, and what it has cost.
#[derive(Debug)]
pub struct Picture {
    /// Its bytes. They take their room until they are sent.
    pub bytes: Bytes,
    /// From the beginning of the work to the picture.
    pub time: Duration,
    /// Extents that were looked at.
    pub extents: u64,
    /// Those that were in memory.
    pub cache_hits: u64,
    /// The bytes of all of them.
    pub read_bytes: u64,
    /// The how manieth slice it is of those that were begun.
    pub turn: u64,
}

/// A request that waits. If it is dropped, nothing is done for it.
#[derive(Debug)]
pub struct Pending {
    shared: Arc<Shared>,
    client: String,
    ticket: u64,
    answer: oneshot::Receiver<Result<Picture, Refusal>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    more: Condvar,
    room: Arc<Semaphore>,
    /// Those who fetch the pictures.
    connections: Arc<ConnectionTable>,
}

#[derive(Debug)]
struct State {
    queue: Queue<Job>,
    running: usize,
    begun: u64,
    is_ended: bool,
}

#[derive(Debug)]
struct Job {
    volume: Volume,
    wanted: Wanted,
    answer: oneshot::Sender<Result<Picture, Refusal>>,
}

impl Workers {
    /// Starts so many threads.
    pub fn start(count: NonZeroUsize, connections: Arc<ConnectionTable>) -> io::Result<Self> {
        let state = State { queue: Queue::new(), running: 0, begun: 0, is_ended: false };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            more: Condvar::new(),
            room: Arc::new(Semaphore::new(ROOM_BYTES)),
            connections,
        });
        let start = |number: usize| {
            let shared = shared.clone();
            Builder::new().name(format!("slices {number}")).spawn(move || shared.work())
        };
        let threads = (0..count.get()).map(start).collect::<io::Result<_>>()?;
        Ok(Self { shared, threads: Mutex::new(threads), count: count.get() })
    }

    /// Asks for a slice.
    pub fn ask(&self, volume: &Volume, wanted: Wanted) -> Result<Pending, Refusal> {
        let (asker, (answer, pending)) = (wanted.asker.clone(), oneshot::channel());
        let client = asker.client.clone();
        let job = Job { volume: volume.clone(), wanted, answer };
        let mut state = self.shared.state.lock();
        if state.is_ended {
            return Err(Refusal::ending());
        }
        let entered = state.queue.enter(asker, job).map_err(|full| match full {
            Full::Stale => Refusal::stale(),
            Full::Client => Refusal::full(format!(
                "{CLIENT_LIMIT} requests of this client wait already: wait for their answers first"
            )),
            Full::All => Refusal::full(format!("{LIMIT} requests wait already: ask again later")),
        })?;
        drop(state);
        self.shared.more.notify_one();
        for stale in entered.stale {
            // Whoever has gone does not need to know.
            let _ = stale.answer.send(Err(Refusal::stale()));
        }
        Ok(Pending { shared: self.shared.clone(), client, ticket: entered.ticket, answer: pending })
    }

    /// How busy they are.
    pub fn status(&self) -> Value {
        let state = self.shared.state.lock();
        json!({
            "workers": self.count,
            "running": state.running,
            "waiting": state.queue.waiting(),
            "waiting_clients": state.queue.clients(),
            "begun": state.begun,
            "unsent_bytes": ROOM_BYTES - self.shared.room.available_permits(),
        })
    }

    /// Whoever waits is told to go; returns when the last slice is done.
    pub fn end(&self) {
        let mut state = self.shared.state.lock();
        state.is_ended = true;
        state.queue.clear();
        drop(state);
        self.shared.more.notify_all();
        for thread in self.threads.lock().drain(..) {
            thread.join().expect("a slice worker survives its slices");
        }
    }
}

impl Shared {
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
            let Job { volume, wanted, answer } = job;
            // A bug in one slice must not take the worker from all others.
            let made = catch_unwind(AssertUnwindSafe(|| self.make(&volume, &wanted, turn)));
            let made = made.unwrap_or_else(|_| Err(Refusal::bug()));
            state = self.state.lock();
            state.running -= 1;
            // Whoever has gone does not need it.
            let _ = answer.send(made);
        }
    }

    fn make(&self, volume: &Volume, wanted: &Wanted, turn: u64) -> Result<Picture, Refusal> {
        let begin = Instant::now();
        let (slice, report) = volume
            .covered_slice(&wanted.plane, wanted.interpolation, false)
            .map_err(|error| Refusal::of_slice(&error))?;
        let bytes = picture::encode(&slice, wanted.window, wanted.outside, wanted.format)
            .map_err(|error| Refusal::wrong(error.to_string()))?;
        Ok(Picture {
            bytes: self.keep(bytes)?,
            time: begin.elapsed(),
            extents: report.progress.found,
            cache_hits: report.progress.cache_hits,
            read_bytes: report.progress.seen_bytes,
            turn,
        })
    }

    /// The bytes take their room as long as they are there.
    fn keep(&self, bytes: Vec<u8>) -> Result<Bytes, Refusal> {
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        match self.room.clone().try_acquire_many_owned(size) {
            Ok(room) => Ok(Bytes::from_owner(Kept { bytes, _room: room })),
            Err(_) => {
                // Clients that do not read must not keep others from their pictures.
                self.connections.cut_stalled(Instant::now());
                Err(Refusal::full("too many pictures wait to be fetched: ask again later"))
            }
        }
    }
}

impl Pending {
    /// The picture, when its turn has come.
    pub async fn picture(mut self) -> Result<Picture, Refusal> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(Refusal::ending()))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.shared.state.lock().queue.withdraw(&self.client, self.ticket);
    }
}

/// Bytes that have their room.
struct Kept {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

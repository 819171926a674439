//! Write-back: dirty pages go to the file while the ranks still compute, so that the flush only has
//! to write the rest.
//!
//! Each rank that writes in a flush has a thread that writes the pages of its share in the background,
//! when no rank has written to them for a while. So one rank writes a page, and its flush and its
//! thread exclude each other ([`WriteBack::pause`]). The thread starts with the first `reserve` and
//! ends with the file. What it writes is durable after the flush only.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::agreement::RankFailure;
use super::backing_io::BackingIo;
use super::file_end::FileEnd;
use super::flush::FlushStep;
use super::io_share::IoShare;
use super::range_to_disk::{DiskStream, RangeToDisk};
use super::whole_file_cache::WholeFileCache;
use crate::error::Error;

/// The default age: a page is written when no rank has written to it for this long.
const WRITE_BACK_AGE: Duration = Duration::from_millis(10);
/// The pause of a thread grows to this many ages while it finds nothing to do.
const LONGEST_PAUSE_AGES: u32 = 16;
/// A file for which less is reserved is written by its flush alone, which takes a few milliseconds.
const WRITE_BACK_FROM_BYTES: u64 = 32 << 20;

/// Whether a file has a write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBackRule {
    /// With the default age, if the file is large enough.
    Automatic,
    /// With this age.
    After(Duration),
    /// No.
    Never,
}

impl WriteBackRule {
    /// The age for a file of this reserved length; none without write-back.
    pub fn age(self, bytes: u64) -> Option<Duration> {
        match self {
            Self::Automatic => (bytes >= WRITE_BACK_FROM_BYTES).then_some(WRITE_BACK_AGE),
            Self::After(age) => Some(age),
            Self::Never => None,
        }
    }
}

/// The write-back of a rank. Dropping it ends the thread.
pub struct WriteBack {
    state: Arc<WriteBackState>,
    thread: Option<JoinHandle<()>>,
}

/// What a rank writes back.
pub struct WriteBackTask {
    pub memory: WholeFileCache,
    pub backing: Arc<BackingIo>,
    pub end: Arc<FileEnd>,
    pub share: IoShare,
    pub observer: Option<fn(FlushStep)>,
    /// The failure after which the thread writes nothing until the next flush.
    pub failure: Option<RankFailure>,
}

struct WriteBackState {
    /// Locked while pages are written.
    task: Mutex<WriteBackTask>,
    /// The number of callers that wait for the task or have it.
    pauses: Mutex<PauseCount>,
    /// Signalled when a pause or the file ends.
    changed: Condvar,
    age: Duration,
}

#[derive(Default)]
struct PauseCount {
    pauses: u32,
    is_over: bool,
}

/// The write-back does nothing while this exists.
pub struct WriteBackPause<'a> {
    state: &'a WriteBackState,
    task: Option<MutexGuard<'a, WriteBackTask>>,
}

impl WriteBack {
    /// Starts the thread.
    pub fn start(task: WriteBackTask, age: Duration) -> std::io::Result<Self> {
        let state = Arc::new(WriteBackState {
            task: Mutex::new(task),
            pauses: Mutex::default(),
            changed: Condvar::new(),
            age,
        });
        let of_thread = state.clone();
        let thread = thread::Builder::new()
            .name("pario-write-back".to_owned())
            .spawn(move || of_thread.run())?;
        Ok(Self { state, thread: Some(thread) })
    }

    /// Waits until the thread writes nothing, and keeps it so.
    pub fn pause(&self) -> WriteBackPause<'_> {
        self.state.pauses.lock().pauses += 1;
        WriteBackPause { state: &self.state, task: Some(self.state.task.lock()) }
    }
}

impl WriteBackPause<'_> {
    /// Lets the thread write from other memory, and know another end.
    pub fn replace(&mut self, memory: WholeFileCache, end: Arc<FileEnd>) {
        if let Some(task) = &mut self.task {
            task.memory = memory;
            task.end = end;
        }
    }

    /// Lets the thread try again after a failure. Its pages are dirty, so that the flush which calls
    /// this writes them, or reports why it cannot.
    pub fn forget_failure(&mut self) {
        if let Some(task) = &mut self.task {
            task.failure = None;
        }
    }
}

impl Drop for WriteBackPause<'_> {
    fn drop(&mut self) {
        drop(self.task.take());
        self.state.pauses.lock().pauses -= 1;
        self.state.changed.notify_all();
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        self.state.pauses.lock().is_over = true;
        self.state.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is reported by the thread; the pages are still dirty.
            let _ = thread.join();
        }
    }
}

impl WriteBackState {
    fn run(&self) {
        block_signals();
        let mut disk = self.task.lock().backing.range_to_disk().map(DiskStream::new);
        let mut pause_ages = 1;
        while self.wait(self.age * pause_ages) {
            pause_ages = match self.write_quiet_pages(disk.as_mut()) {
                true => 1,
                false => (pause_ages * 2).min(LONGEST_PAUSE_AGES),
            };
        }
    }

    /// Waits for a time, and until nothing pauses the thread. Returns false when the file is over.
    fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut pauses = self.pauses.lock();
        while !pauses.is_over && !self.changed.wait_until(&mut pauses, until).timed_out() {}
        while pauses.pauses > 0 && !pauses.is_over {
            self.changed.wait(&mut pauses);
        }
        !pauses.is_over
    }

    fn is_stopped(&self) -> bool {
        let pauses = self.pauses.lock();
        pauses.is_over || pauses.pauses > 0
    }

    /// Writes the quiet pages, chunk by chunk. Returns whether there were any, or some that are about
    /// to become quiet.
    fn write_quiet_pages(&self, mut disk: Option<&mut DiskStream<RangeToDisk>>) -> bool {
        let (mut next, mut has_found) = (0, false);
        while !self.is_stopped() {
            let mut task = self.task.lock();
            let Some(chunk) = task.chunk_from(next) else { break };
            next = chunk.end;
            match task.write_chunk(chunk) {
                Ok(written) => {
                    has_found |= written.is_dirty;
                    drop(task);
                    // A flush does not wait for the disk here.
                    for (offset, len) in written.runs {
                        if let Some(disk) = &mut disk {
                            disk.push(offset, len, || self.is_stopped());
                        }
                    }
                }
                Err(why) => {
                    tracing::warn!("write-back, which the next flush repeats: {}", why.text);
                    task.failure = Some(why);
                    if let Some(observer) = task.observer {
                        observer(FlushStep::WriteBackFailed);
                    }
                }
            }
        }
        has_found
    }
}

/// What was written of a chunk.
struct WrittenChunk {
    /// Offset and length of each run.
    runs: Vec<(u64, u64)>,
    /// Whether the chunk has, or had, dirty pages.
    is_dirty: bool,
}

impl WriteBackTask {
    /// The next chunk of the share from a page on; none behind the end of the file, and after a
    /// failure.
    fn chunk_from(&self, page: u64) -> Option<Range<u64>> {
        let end = self.end.now().ok().filter(|_| self.failure.is_none())?;
        let pages = end.div_ceil(self.memory.array().page_len());
        self.share.chunks(page, pages).find(|chunk| !chunk.is_empty())
    }

    /// Writes the quiet pages of a chunk.
    fn write_chunk(&self, chunk: Range<u64>) -> Result<WrittenChunk, RankFailure> {
        // A lost rank ends the file; nothing of it can be flushed any more.
        self.memory.array().team().check_complete().map_err(Error::from)?;
        let found = self.memory.take_quiet(chunk, || self.end.now())?;
        let mut runs = Vec::new();
        for (number, run) in found.quiet.iter().enumerate() {
            let stored = self.backing.store_used(self.memory.array(), &run.spans, run.offset);
            if let Err(why) = stored {
                self.memory.mark(&found.quiet[number..], true)?;
                return Err(why);
            }
            if let Some(observer) = self.observer {
                observer(FlushStep::WroteBack);
            }
            runs.push((run.offset, run.spans.iter().map(|(_, len)| *len as u64).sum()));
        }
        Ok(WrittenChunk { runs, is_dirty: found.is_dirty })
    }
}

/// Leaves the signals of the process to its other threads.
fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is local, and filled before it is used; the mask is that of this thread.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

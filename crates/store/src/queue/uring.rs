//! An engine on io_uring: one system call starts many operations and collects many completions.
//!
//! Safety rests on one rule: the buffer and the file of an operation stay in `in_flight` until the
//! kernel has completed it, and dropping the engine waits for all completions.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use super::engine::{DiskLanes, Engine, Io, IoDone, Waker, run};

/// Reads of at least this size are submitted one by one: submitted together, they complete together,
/// and the disk is idle while the caller verifies them.
const LONG_READ_BYTES: usize = 16 << 10;

/// The user data of the read of the wake-up counter.
const WAKE: u64 = u64::MAX;

/// The io_uring engine.
pub(crate) struct Uring {
    ring: IoUring,
    /// Where operations run that would block the calling thread.
    lanes: DiskLanes,
    in_flight: Vec<Option<InFlight>>,
    in_kernel: usize,
    /// Operations that `submit` has performed itself.
    done_inline: VecDeque<(usize, IoDone)>,
    wake: Arc<WakeEvent>,
    /// The memory into which the kernel reads the wake-up count; its address must not change.
    wake_count: Box<u64>,
    unsubmitted: usize,
}

struct InFlight {
    io: Io,
    moved: usize,
}

struct WakeEvent {
    event: OwnedFd,
    /// Finished tasks.
    ran: Mutex<Vec<(usize, IoDone)>>,
    /// Whether a waker has woken the engine.
    woken: AtomicBool,
}

impl WakeEvent {
    fn signal(&self) {
        // The counter overflows only after 2^64 unread signals.
        let _ = rustix::io::write(self.event.as_fd(), &1u64.to_ne_bytes());
    }
}

impl Uring {
    /// Starts an engine; fails if the kernel does not allow io_uring.
    pub(crate) fn start(entries: u32, lanes: DiskLanes) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(entries.next_power_of_two().clamp(8, 4096))?;
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        let wake = WakeEvent { event, ran: Mutex::default(), woken: AtomicBool::new(false) };
        let mut engine = Self {
            ring,
            lanes,
            in_flight: Vec::new(),
            in_kernel: 0,
            done_inline: VecDeque::new(),
            wake: Arc::new(wake),
            wake_count: Box::new(0),
            unsubmitted: 0,
        };
        engine.await_wake();
        Ok(engine)
    }

    fn await_wake(&mut self) {
        let count: *mut u64 = &raw mut *self.wake_count;
        let event = types::Fd(self.wake.event.as_raw_fd());
        let entry = opcode::Read::new(event, count.cast(), 8).build().user_data(WAKE);
        self.push(entry);
    }

    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: `in_flight` (or `self`, for the wake-up counter) keeps the memory and the
            // descriptor of the entry until the kernel has completed it.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_ok() {
                self.unsubmitted += 1;
                return;
            }
            self.enter(0);
        }
    }

    /// Submits the pushed entries and waits for `want` completions.
    fn enter(&mut self, want: usize) {
        match self.ring.submit_and_wait(want) {
            Ok(_) => self.unsubmitted = 0,
            Err(error) => match error.raw_os_error() {
                // Interrupted, or the completion queue is full.
                Some(EINTR | EAGAIN | EBUSY) => {}
                _ => panic!("io_uring stopped working: {error}"),
            },
        }
    }

    /// Submits the rest of an operation to the kernel.
    fn begin(&mut self, slot: usize) {
        let InFlight { io, moved } =
            self.in_flight[slot].as_ref().expect("submit has put it there");
        let entry = match io {
            Io::Read { file, position, buffer, start, len } => {
                let (fd, at, left) = rest(file.descriptor(), *position, *len, *moved);
                // SAFETY: `submit` has checked that `start + len` is within the buffer, and `moved`
                // is below `len`.
                let memory = unsafe { buffer.as_raw().add(start + moved) };
                opcode::Read::new(fd, memory, left).offset(at).build()
            }
            Io::Write { file, position, buffer, len } => {
                let (fd, at, left) = rest(file.descriptor(), *position, *len, *moved);
                // SAFETY: `moved` is below the buffer's length.
                let memory = unsafe { buffer.as_raw().add(*moved) };
                opcode::Write::new(fd, memory, left).offset(at).build()
            }
            Io::Task(_) => unreachable!("tasks run on threads"),
        };
        self.push(entry.user_data(slot as u64));
    }

    /// Processes a completion; submits the rest of an operation that is not finished.
    fn completed(&mut self, slot: usize, result: i32, done: &mut VecDeque<(usize, IoDone)>) {
        let operation = self.in_flight[slot].as_mut().expect("the kernel completes each slot once");
        let (len, is_read) = match &operation.io {
            Io::Read { len, .. } => (*len, true),
            Io::Write { len, .. } => (*len, false),
            Io::Task(_) => unreachable!("tasks run on threads"),
        };
        let outcome = match usize::try_from(result) {
            Ok(count) => {
                operation.moved += count;
                if operation.moved < len && count > 0 {
                    return self.begin(slot);
                }
                if operation.moved < len && !is_read {
                    Err(io::ErrorKind::WriteZero.into())
                } else {
                    Ok(operation.moved)
                }
            }
            Err(_) if matches!(-result, EINTR | EAGAIN) => return self.begin(slot),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        let operation = self.in_flight[slot].take().expect("still there");
        let (Io::Read { buffer, .. } | Io::Write { buffer, .. }) = operation.io else {
            unreachable!("tasks run on threads")
        };
        self.in_kernel -= 1;
        done.push_back((slot, IoDone::Moved(outcome, buffer)));
    }

    /// Performs an operation on a thread, so that long operations on several disks run at the same
    /// time and `submit` does not block.
    fn run_on_thread(&mut self, slot: usize, disk: u64, io: Io) {
        let wake = self.wake.clone();
        self.lanes.run(disk, io, move |done| {
            wake.ran.lock().push((slot, done));
            wake.signal();
        });
    }
}

impl Engine for Uring {
    fn submit(&mut self, slot: usize, disk: u64, io: Io) {
        match &io {
            Io::Task(_) => return self.run_on_thread(slot, disk, io),
            Io::Read { file, .. } | Io::Write { file, .. } if file.is_slow() => {
                return self.run_on_thread(slot, disk, io);
            }
            Io::Read { file, .. } | Io::Write { file, .. } if file.descriptor().is_none() => {
                return self.done_inline.push_back((slot, run(io)));
            }
            // A write into the page cache blocks if the disk has too much to write back. The kernel
            // would pass it to a thread, too.
            Io::Write { file, .. } if !file.is_direct() => {
                return self.run_on_thread(slot, disk, io);
            }
            Io::Read { buffer, start, len, .. } => assert!(start + len <= buffer.len()),
            Io::Write { buffer, len, .. } => assert!(*len <= buffer.len()),
        }
        let is_long_read = matches!(&io, Io::Read { len, .. } if *len >= LONG_READ_BYTES);
        if self.in_flight.len() <= slot {
            self.in_flight.resize_with(slot + 1, || None);
        }
        self.in_flight[slot] = Some(InFlight { io, moved: 0 });
        self.in_kernel += 1;
        self.begin(slot);
        if is_long_read {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.unsubmitted > 0 {
            self.enter(0);
        }
    }

    fn collect(&mut self, wait: bool, done: &mut VecDeque<(usize, IoDone)>) -> bool {
        done.append(&mut self.done_inline);
        let mut woken = false;
        loop {
            let has_completions = !self.ring.completion().is_empty();
            let must_wait = wait && done.is_empty() && !woken && !has_completions;
            self.enter(usize::from(must_wait));
            while let Some(entry) = {
                let mut completions = self.ring.completion();
                completions.next()
            } {
                if entry.user_data() == WAKE {
                    woken |= self.wake.woken.swap(false, Ordering::AcqRel);
                    done.extend(self.wake.ran.lock().drain(..));
                    self.await_wake();
                } else {
                    let slot = usize::try_from(entry.user_data()).expect("the user data is a slot");
                    self.completed(slot, entry.result(), done);
                }
            }
            if !wait || woken || !done.is_empty() {
                return woken;
            }
        }
    }

    fn waker(&self) -> Waker {
        let wake = self.wake.clone();
        Waker::new(move || {
            wake.woken.store(true, Ordering::Release);
            wake.signal();
        })
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut done = VecDeque::new();
        while self.in_kernel > 0 {
            self.collect(true, &mut done);
        }
        // The kernel still holds the address of the wake-up counter: complete that read.
        self.wake.signal();
        loop {
            let is_empty = self.ring.completion().is_empty();
            self.enter(usize::from(is_empty));
            if self.ring.completion().any(|entry| entry.user_data() == WAKE) {
                break;
            }
        }
    }
}

/// The rest of an operation in the form of io_uring.
fn rest(descriptor: Option<i32>, position: u64, len: usize, moved: usize) -> (types::Fd, u64, u32) {
    let fd = types::Fd(descriptor.expect("submit has checked it"));
    // The kernel moves less at once, and reports how much.
    let left = u32::try_from(len - moved).unwrap_or(1 << 30);
    (fd, position + moved as u64, left)
}

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::buffer::BufferPool;
    use crate::medium::{Clock, Medium, MediumOpenMode, MemoryMedium, Pace, SlowMedium};
    use crate::task_threads::TaskThreads;

    /// A clock whose sleepers wait for the test; the limit guards against a hang.
    struct Gate(Mutex<Receiver<()>>);

    impl std::fmt::Debug for Gate {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Gate")
        }
    }

    impl Clock for Gate {
        fn now(&self) -> Instant {
            Instant::now()
        }

        fn sleep_until(&self, _then: Instant) {
            let opened = self.0.lock().recv_timeout(Duration::from_secs(60));
            assert_ne!(opened, Err(RecvTimeoutError::Timeout), "a thread blocks that must not");
        }
    }

    #[test]
    fn submit_does_not_block_on_a_slow_file() {
        let (open, gate) = channel();
        let clock = Arc::new(Gate(Mutex::new(gate)));
        let medium = SlowMedium::with_clock(Arc::new(MemoryMedium::new()), Pace::default(), clock);
        let mode = MediumOpenMode { create: true, write: true, direct_alignment: None };
        let file = medium.open("x", mode).unwrap();
        let pool = BufferPool::new(1 << 20);
        let lanes = DiskLanes::new(TaskThreads::new(), 4);
        let (mut engine, mut done) = (Uring::start(8, lanes).unwrap(), VecDeque::new());
        for slot in 0..4 {
            let (file, buffer, position) = (file.clone(), pool.get(100), slot as u64 * 100);
            engine.submit(slot, 1, Io::Write { file, position, buffer, len: 100 });
        }
        engine.collect(false, &mut done);
        assert!(done.is_empty(), "the slow file has completed too early");
        for _ in 0..4 {
            open.send(()).unwrap();
        }
        while done.len() < 4 {
            engine.collect(true, &mut done);
        }
        let is_fine = |done: &IoDone| matches!(done, IoDone::Moved(Ok(100), _));
        assert!(done.iter().all(|(_, done)| is_fine(done)));
    }
}

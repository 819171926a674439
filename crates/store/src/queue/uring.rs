//! An engine on io_uring: one system call begins many operations and collects many answers.
//!
//! Safety rests on one rule: the buffer and the file of an operation stay in `under_way` until
//! the kernel has answered it, and dropping the engine waits for all answers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use super::engine::{Engine, Io, IoDone, Waker, run};

/// Reads of this size begin one by one: begun together, they are answered together, and the disk
/// has nothing to do while the answers are checked.
const LONG_READ_BYTES: usize = 16 << 10;

/// Marks the answer to the read of the wake-up counter.
const WAKE: u64 = u64::MAX;

pub(crate) struct Uring {
    ring: IoUring,
    under_way: Vec<Option<UnderWay>>,
    in_kernel: usize,
    /// Operations that were carried out at once.
    here: VecDeque<(usize, IoDone)>,
    wake: Arc<Wake>,
    /// Where the kernel puts the wake-up count; its place must not move.
    wake_count: Box<u64>,
    unsubmitted: usize,
}

struct UnderWay {
    io: Io,
    moved: usize,
}

struct Wake {
    event: OwnedFd,
    /// Tasks that have run.
    ran: Mutex<Vec<(usize, IoDone)>>,
    /// Whether a waker was used.
    woken: AtomicBool,
}

impl Wake {
    fn signal(&self) {
        // The counter can only overflow after 2^64 signals that nobody read.
        let _ = rustix::io::write(self.event.as_fd(), &1u64.to_ne_bytes());
    }
}

impl Uring {
    /// An engine, or the kernel's reason not to give one.
    pub(crate) fn start(entries: u32) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(entries.next_power_of_two().clamp(8, 4096))?;
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        let wake = Wake { event, ran: Mutex::default(), woken: AtomicBool::new(false) };
        let mut engine = Self {
            ring,
            under_way: Vec::new(),
            in_kernel: 0,
            here: VecDeque::new(),
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
            // SAFETY: the memory and the descriptor that the entry names are kept in `under_way`
            // (or are the wake-up counter's, kept in `self`) until the kernel has answered.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_ok() {
                self.unsubmitted += 1;
                return;
            }
            self.enter(0);
        }
    }

    /// Gives the kernel what was pushed and waits for `want` answers.
    fn enter(&mut self, want: usize) {
        match self.ring.submit_and_wait(want) {
            Ok(_) => self.unsubmitted = 0,
            Err(error) => match error.raw_os_error() {
                // Interrupted, or answers have to be collected first.
                Some(EINTR | EAGAIN | EBUSY) => {}
                _ => panic!("io_uring stopped working: {error}"),
            },
        }
    }

    /// Has the kernel do what is left of an operation.
    fn begin(&mut self, slot: usize) {
        let UnderWay { io, moved } = self.under_way[slot].as_ref().expect("just put there");
        let entry = match io {
            Io::Read { file, position, buffer, len } => {
                let (fd, at, left) = rest(file.descriptor(), *position, *len, *moved);
                // SAFETY: `moved` is below the buffer's length.
                let memory = unsafe { buffer.as_raw().add(*moved) };
                opcode::Read::new(fd, memory, left).offset(at).build()
            }
            Io::Write { file, position, buffer, len } => {
                let (fd, at, left) = rest(file.descriptor(), *position, *len, *moved);
                // SAFETY: `moved` is below the buffer's length.
                let memory = unsafe { buffer.as_raw().add(*moved) };
                opcode::Write::new(fd, memory, left).offset(at).build()
            }
            Io::Task(_) => unreachable!("tasks are not the kernel's"),
        };
        self.push(entry.user_data(slot as u64));
    }

    /// Takes an answer of the kernel; an operation that is not finished goes on.
    fn answered(&mut self, slot: usize, result: i32, done: &mut VecDeque<(usize, IoDone)>) {
        let operation = self.under_way[slot].as_mut().expect("answered once");
        let (len, is_read) = match &operation.io {
            Io::Read { len, .. } => (*len, true),
            Io::Write { len, .. } => (*len, false),
            Io::Task(_) => unreachable!("tasks are not the kernel's"),
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
        let operation = self.under_way[slot].take().expect("still there");
        let (Io::Read { buffer, .. } | Io::Write { buffer, .. }) = operation.io else {
            unreachable!("tasks are not the kernel's")
        };
        self.in_kernel -= 1;
        done.push_back((slot, IoDone::Moved(outcome, buffer)));
    }

    /// Has a thread of its own do it: what takes long on several disks does not wait for each
    /// other, and nobody waits for it who submits.
    fn run_elsewhere(&mut self, slot: usize, io: Io) {
        let wake = self.wake.clone();
        let serve = move || {
            let done = run(io);
            wake.ran.lock().push((slot, done));
            wake.signal();
        };
        let thread = thread::Builder::new().name("pario-task".into());
        thread.spawn(serve).expect("a process that serves disks can start a thread");
    }
}

impl Engine for Uring {
    fn submit(&mut self, slot: usize, io: Io) {
        let is_for_kernel = match &io {
            Io::Read { file, .. } | Io::Write { file, .. } if file.is_slow() => {
                return self.run_elsewhere(slot, io);
            }
            Io::Read { file, .. } => file.descriptor().is_some(),
            // A write into the page cache is a copy; file systems that cannot do it without
            // waiting would have it done by a thread of the kernel, which takes much longer.
            Io::Write { file, .. } => file.descriptor().is_some() && file.is_direct(),
            Io::Task(_) => return self.run_elsewhere(slot, io),
        };
        if !is_for_kernel {
            return self.here.push_back((slot, run(io)));
        }
        let is_long_read = matches!(&io, Io::Read { len, .. } if *len >= LONG_READ_BYTES);
        if self.under_way.len() <= slot {
            self.under_way.resize_with(slot + 1, || None);
        }
        self.under_way[slot] = Some(UnderWay { io, moved: 0 });
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

    fn collect(&mut self, wait: bool, done: &mut VecDeque<(usize, IoDone)>) {
        done.append(&mut self.here);
        let mut woken = false;
        loop {
            let has_answers = !self.ring.completion().is_empty();
            let must_wait = wait && done.is_empty() && !woken && !has_answers;
            self.enter(usize::from(must_wait));
            while let Some(answer) = {
                let mut answers = self.ring.completion();
                answers.next()
            } {
                if answer.user_data() == WAKE {
                    woken |= self.wake.woken.swap(false, Ordering::AcqRel);
                    done.extend(self.wake.ran.lock().drain(..));
                    self.await_wake();
                } else {
                    let slot = usize::try_from(answer.user_data()).expect("slots are ours");
                    self.answered(slot, answer.result(), done);
                }
            }
            if !wait || woken || !done.is_empty() {
                return;
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
        // The read of the wake-up counter writes into our memory: have it answered.
        self.wake.signal();
        loop {
            let is_empty = self.ring.completion().is_empty();
            self.enter(usize::from(is_empty));
            if self.ring.completion().any(|answer| answer.user_data() == WAKE) {
                break;
            }
        }
    }
}

/// What is left of an operation, as io_uring wants it.
fn rest(descriptor: Option<i32>, position: u64, len: usize, moved: usize) -> (types::Fd, u64, u32) {
    let fd = types::Fd(descriptor.expect("checked when it was submitted"));
    // More than the kernel moves at once; it says how much it did.
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
    use crate::medium::{Clock, Medium, Memory, OpenHow, Pace, Slow};

    /// Who sleeps goes on when the test says so; its limit is a guard against hanging.
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
            assert_ne!(opened, Err(RecvTimeoutError::Timeout), "somebody waits here who must not");
        }
    }

    #[test]
    fn nobody_waits_for_a_slow_file_who_submits() {
        let (open, gate) = channel();
        let clock = Arc::new(Gate(Mutex::new(gate)));
        let medium = Slow::with_clock(Arc::new(Memory::new()), Pace::default(), clock);
        let how = OpenHow { create: true, write: true, direct_alignment: None };
        let file = medium.open("x", how).unwrap();
        let pool = BufferPool::new(1 << 20);
        let (mut engine, mut done) = (Uring::start(8).unwrap(), VecDeque::new());
        for slot in 0..4 {
            let (file, buffer, position) = (file.clone(), pool.get(100), slot as u64 * 100);
            engine.submit(slot, Io::Write { file, position, buffer, len: 100 });
        }
        engine.collect(false, &mut done);
        assert!(done.is_empty(), "they took no time");
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

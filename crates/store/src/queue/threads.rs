//! An engine of threads that block, one operation each.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::engine::{Engine, Io, IoDone, Waker, run};

/// A fixed number of threads that perform operations.
pub(crate) struct Threads {
    queues: Arc<ThreadQueues>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct ThreadQueues {
    submitted: Mutex<Submissions>,
    arrived: Condvar,
    finished: Mutex<Finished>,
    changed: Condvar,
}

#[derive(Default)]
struct Submissions {
    waiting: VecDeque<(usize, Io)>,
    closed: bool,
}

#[derive(Default)]
struct Finished {
    done: VecDeque<(usize, IoDone)>,
    woken: bool,
}

impl Threads {
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let queues = Arc::new(ThreadQueues::default());
        let threads = (0..count.max(1)).map(|_| {
            let queues = queues.clone();
            thread::Builder::new().name("pario-io".into()).spawn(move || queues.serve())
        });
        let threads = threads.collect::<io::Result<_>>()?;
        Ok(Self { queues, threads })
    }
}

impl ThreadQueues {
    fn serve(&self) {
        loop {
            let (slot, io) = {
                let mut submitted = self.submitted.lock();
                loop {
                    match submitted.waiting.pop_front() {
                        Some(next) => break next,
                        None if submitted.closed => return,
                        None => self.arrived.wait(&mut submitted),
                    }
                }
            };
            let done = run(io);
            self.finished.lock().done.push_back((slot, done));
            self.changed.notify_one();
        }
    }
}

impl Engine for Threads {
    fn submit(&mut self, slot: usize, io: Io) {
        self.queues.submitted.lock().waiting.push_back((slot, io));
        self.queues.arrived.notify_one();
    }

    fn flush(&mut self) {}

    fn collect(&mut self, wait: bool, done: &mut VecDeque<(usize, IoDone)>) {
        let mut finished = self.queues.finished.lock();
        while wait && finished.done.is_empty() && !finished.woken {
            self.queues.changed.wait(&mut finished);
        }
        finished.woken = false;
        done.append(&mut finished.done);
    }

    fn waker(&self) -> Waker {
        let queues = self.queues.clone();
        Waker::new(move || {
            queues.finished.lock().woken = true;
            queues.changed.notify_one();
        })
    }

    fn name(&self) -> &'static str {
        "threads"
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.queues.submitted.lock().closed = true;
        self.queues.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of the thread is on standard error already.
            let _ = thread.join();
        }
    }
}

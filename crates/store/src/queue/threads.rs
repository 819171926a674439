//! An engine of threads that wait for one operation each.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::{Condvar, Mutex};

use super::engine::{Engine, Io, IoDone, Waker, run};

/// Operations are carried out by a fixed number of threads.
pub(crate) struct Threads {
    shared: Arc<SharedWork>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct SharedWork {
    work: Mutex<Work>,
    arrived: Condvar,
    finished: Mutex<Finished>,
    changed: Condvar,
}

#[derive(Default)]
struct Work {
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
        let shared = Arc::new(SharedWork::default());
        let threads = (0..count.max(1)).map(|_| {
            let shared = shared.clone();
            thread::Builder::new().name("pario-io".into()).spawn(move || shared.serve())
        });
        let threads = threads.collect::<io::Result<_>>()?;
        Ok(Self { shared, threads })
    }
}

impl SharedWork {
    fn serve(&self) {
        loop {
            let (slot, io) = {
                let mut work = self.work.lock();
                loop {
                    match work.waiting.pop_front() {
                        Some(next) => break next,
                        None if work.closed => return,
                        None => self.arrived.wait(&mut work),
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
        self.shared.work.lock().waiting.push_back((slot, io));
        self.shared.arrived.notify_one();
    }

    fn flush(&mut self) {}

    fn collect(&mut self, wait: bool, done: &mut VecDeque<(usize, IoDone)>) {
        let mut finished = self.shared.finished.lock();
        while wait && finished.done.is_empty() && !finished.woken {
            self.shared.changed.wait(&mut finished);
        }
        finished.woken = false;
        done.append(&mut finished.done);
    }

    fn waker(&self) -> Waker {
        let shared = self.shared.clone();
        Waker::new(move || {
            shared.finished.lock().woken = true;
            shared.changed.notify_one();
        })
    }

    fn name(&self) -> &'static str {
        "threads"
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.work.lock().closed = true;
        self.shared.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; there is nothing to add.
            let _ = thread.join();
        }
    }
}

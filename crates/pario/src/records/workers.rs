//! A few threads that do what was started, for all record files of a process.

use std::collections::VecDeque;
use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};

/// How many threads there are.
const WORKERS: usize = 4;
/// How many tasks may wait: who wants to add one more waits until there is room.
const WAITING_LIMIT: usize = 1024;

type Task = Box<dyn FnOnce() + Send>;

struct Workers {
    waiting: Mutex<VecDeque<Task>>,
    is_more: Condvar,
    is_room: Condvar,
}

/// Starts the threads, if they are not there. This happens by itself when something is started; who
/// cares which signals the threads get calls it before.
#[doc(hidden)]
pub fn start_workers() {
    workers();
}

/// Lets a thread do something. Tasks wait for nothing but the disk and locks of other ranks.
pub fn submit(task: impl FnOnce() + Send + 'static) {
    let Some(workers) = workers() else {
        // The system has no threads: it is done here.
        return task();
    };
    let mut waiting = workers.waiting.lock();
    while waiting.len() >= WAITING_LIMIT {
        workers.is_room.wait(&mut waiting);
    }
    waiting.push_back(Box::new(task));
    workers.is_more.notify_one();
}

fn workers() -> Option<&'static Workers> {
    static ALL: OnceLock<(Workers, OnceLock<bool>)> = OnceLock::new();
    let (workers, are_there) = ALL.get_or_init(|| {
        let workers = Workers {
            waiting: Mutex::new(VecDeque::new()),
            is_more: Condvar::new(),
            is_room: Condvar::new(),
        };
        (workers, OnceLock::new())
    });
    let start = || {
        let started = (0..WORKERS).filter(|number| {
            let thread = std::thread::Builder::new().name(format!("pario-records-{number}"));
            thread.spawn(|| workers.run()).is_ok()
        });
        started.count() > 0
    };
    are_there.get_or_init(start).then_some(workers)
}

impl Workers {
    fn run(&self) {
        loop {
            let task = {
                let mut waiting = self.waiting.lock();
                loop {
                    if let Some(task) = waiting.pop_front() {
                        break task;
                    }
                    self.is_more.wait(&mut waiting);
                }
            };
            self.is_room.notify_one();
            // A task that panics has said so, and tells whoever waits for it by being dropped.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task));
        }
    }
}

//! A few threads that do what was started or ordered, for all record files of a process.

use std::collections::VecDeque;
use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};

/// Threads of a crew.
const WORKERS: usize = 4;
/// How many tasks may wait: who wants to start one more waits until there is room.
const WAITING_LIMIT: usize = 1024;

/// Threads that wait for the same kind of things, so that nobody waits for who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crew {
    /// Accesses that were started here: they wait for the disk and for mutexes of other ranks.
    Started,
    /// Accesses that were started here and are done elsewhere: they wait for other machines.
    Asking,
    /// Orders of other machines that wait for the disk alone.
    Served,
    /// Orders of other machines that wait for mutexes too.
    Adding,
}

/// Something to be done.
pub type Task = Box<dyn FnOnce() + Send>;

struct Workers {
    waiting: Mutex<VecDeque<Task>>,
    is_more: Condvar,
    is_room: Condvar,
    /// Whether there are threads, when that was tried.
    are_there: OnceLock<bool>,
}

static CREWS: [Workers; 4] = [const { Workers::new() }; 4];

/// Starts the threads for accesses, if they are not there. This happens by itself when something is
/// started; who cares which signals the threads get calls it before.
#[doc(hidden)]
pub fn start_workers() {
    Crew::Started.workers();
    Crew::Asking.workers();
    super::later::is_watched();
}

impl Crew {
    /// Lets a thread do something.
    pub fn submit(self, task: impl FnOnce() + Send + 'static) {
        let Some(workers) = self.workers() else {
            // The system has no threads: it is done here.
            return task();
        };
        let mut waiting = workers.waiting.lock();
        // Those who serve wait for nobody; how much is ordered is limited where it is.
        while self.is_limited() && waiting.len() >= WAITING_LIMIT {
            workers.is_room.wait(&mut waiting);
        }
        waiting.push_back(Box::new(task));
        workers.is_more.notify_one();
    }

    fn is_limited(self) -> bool {
        matches!(self, Self::Started | Self::Asking)
    }

    fn workers(self) -> Option<&'static Workers> {
        let (workers, name) = match self {
            Self::Started => (&CREWS[0], "started"),
            Self::Asking => (&CREWS[1], "asking"),
            Self::Served => (&CREWS[2], "served"),
            Self::Adding => (&CREWS[3], "adding"),
        };
        workers.are_there.get_or_init(|| workers.start(name)).then_some(workers)
    }
}

impl Workers {
    const fn new() -> Self {
        Self {
            waiting: Mutex::new(VecDeque::new()),
            is_more: Condvar::new(),
            is_room: Condvar::new(),
            are_there: OnceLock::new(),
        }
    }

    fn start(&'static self, name: &str) -> bool {
        let started = (0..WORKERS).filter(|number| {
            let thread = std::thread::Builder::new().name(format!("records-{name}-{number}"));
            thread.spawn(|| self.run()).is_ok()
        });
        started.count() > 0
    }

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

//! What was begun and only has to be waited for.
//!
//! An access to another machine has asked for everything when its start returns; what is left is to
//! wait for the answers. Whoever waits for the access does that itself, and reads them from the socket:
//! nobody has to be woken, neither for it nor by it. If nobody comes for a while, a thread waits, so
//! that what was started goes on while its starter computes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::worker_pool::{PoolTask, WorkerPool};

/// How long nobody has to come until a thread does it.
const PATIENCE: Duration = Duration::from_millis(5);

/// Something that is done once, by whoever comes first.
pub struct DeferredTask(Mutex<Option<PoolTask>>);

/// What is left to be done, and since when; also what was done meanwhile, until somebody looks.
struct Left {
    queue: Mutex<VecDeque<(Instant, Arc<DeferredTask>)>>,
    is_more: Condvar,
    /// Whether there is a thread that looks, when that was tried.
    is_watched: OnceLock<bool>,
}

static LEFT: Left = Left {
    queue: Mutex::new(VecDeque::new()),
    is_more: Condvar::new(),
    is_watched: OnceLock::new(),
};

impl DeferredTask {
    /// Leaves something to be done.
    pub fn new(task: impl FnOnce() + Send + 'static) -> Arc<Self> {
        let later = Arc::new(Self(Mutex::new(Some(Box::new(task)))));
        if !is_watched() {
            later.hasten();
            return later;
        }
        let mut queue = LEFT.queue.lock();
        // Otherwise whoever looks has set itself a time.
        if queue.is_empty() {
            LEFT.is_more.notify_one();
        }
        queue.push_back((Instant::now(), later.clone()));
        later
    }

    /// Does it here, unless somebody else does.
    pub fn run(&self) {
        let task = self.0.lock().take();
        if let Some(task) = task {
            task();
        }
    }

    /// Lets a thread do it now, unless somebody does.
    pub fn hasten(&self) {
        let task = self.0.lock().take();
        if let Some(task) = task {
            WorkerPool::RemoteAccess.submit(task);
        }
    }

    fn is_taken(&self) -> bool {
        self.0.lock().is_none()
    }
}

/// Lets threads do all that is left.
pub fn hasten_all() {
    let left = std::mem::take(&mut *LEFT.queue.lock());
    left.iter().for_each(|(_, later)| later.hasten());
}

/// Starts the thread that looks, if it is not there; whether it is.
pub fn is_watched() -> bool {
    *LEFT.is_watched.get_or_init(|| {
        let thread = std::thread::Builder::new().name("records-later".to_owned());
        thread.spawn(watch).is_ok()
    })
}

/// Lets threads do what nobody has come for.
fn watch() {
    let mut queue = LEFT.queue.lock();
    loop {
        let Some((since, later)) = queue.front() else {
            LEFT.is_more.wait(&mut queue);
            continue;
        };
        let until = *since + PATIENCE;
        if later.is_taken() {
            queue.pop_front();
        } else if Instant::now() < until {
            LEFT.is_more.wait_until(&mut queue, until);
        } else if let Some((_, later)) = queue.pop_front() {
            // It may wait until others have room for it.
            MutexGuard::unlocked(&mut queue, || later.hasten());
        }
    }
}

impl fmt::Debug for DeferredTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_taken() { "Later(taken)" } else { "Later" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::{self, ThreadId};

    use super::super::request::Progress;
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn it_is_done_once() {
        for _ in 0..100 {
            let (done, times) = channel();
            let later = DeferredTask::new(move || done.send(()).unwrap());
            thread::scope(|scope| {
                scope.spawn(|| later.run());
                scope.spawn(|| later.hasten());
                scope.spawn(hasten_all);
            });
            assert_eq!(times.iter().count(), 1);
        }
    }

    #[test]
    fn who_waits_does_it() {
        // Now and then a thread is held up for so long that another one comes first.
        assert!((0..100).any(|_| {
            let (done, by) = channel();
            let progress = Progress::new();
            let task = progress.task();
            progress.leave(DeferredTask::new(move || {
                done.send(thread::current().id()).unwrap();
                task.over(Ok(()));
            }));
            progress.wait().unwrap();
            by.recv().unwrap() == thread::current().id()
        }));
    }

    #[test]
    fn a_thread_does_what_is_hastened_or_what_nobody_comes_for() {
        let ways: [fn(&DeferredTask); 3] = [|_| {}, DeferredTask::hasten, |_| hasten_all()];
        for way in ways.into_iter().cycle().take(30) {
            let (done, by) = channel::<ThreadId>();
            let later = DeferredTask::new(move || done.send(thread::current().id()).unwrap());
            way(&later);
            assert_ne!(by.recv_timeout(LONG).unwrap(), thread::current().id());
            assert!(later.is_taken());
            // What was done is forgotten on the way.
            DeferredTask::new(|| {}).run();
        }
    }
}

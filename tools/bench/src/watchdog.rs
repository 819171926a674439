//! An end for measurements that do not end by themselves.

use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// As long as this lives, the process has so much time; afterwards it is ended, with an error.
#[derive(Debug)]
pub struct Watchdog {
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    /// Starts to count. `what` is measured meanwhile.
    pub fn start(what: String, limit: Duration) -> Self {
        Self::start_with(limit, move || {
            eprintln!("{what} has not ended after {} s: given up", limit.as_secs());
            process::exit(1);
        })
    }

    fn start_with(limit: Duration, give_up: impl FnOnce() + Send + 'static) -> Self {
        let (alive, gone) = mpsc::channel::<()>();
        thread::spawn(move || {
            if gone.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                give_up();
            }
        });
        Self { _alive: alive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_what_takes_too_long() {
        let (sender, receiver) = mpsc::channel();
        let patience =
            Watchdog::start_with(Duration::from_millis(1), move || sender.send(()).unwrap());
        receiver.recv().unwrap();
        drop(patience);
    }

    #[test]
    fn it_ends_nothing_else() {
        let (sender, receiver) = mpsc::channel();
        drop(Watchdog::start_with(Duration::from_secs(100), move || sender.send(()).unwrap()));
        // The sender goes with the thread, unused.
        assert!(receiver.recv().is_err());
    }
}

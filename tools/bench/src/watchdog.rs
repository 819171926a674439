//! A time limit for measurements that do not end by themselves.

use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Ends the process with an error at a time limit, unless it is dropped before.
#[derive(Debug)]
pub struct Watchdog {
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    /// Starts the limit for a measurement; the error names `what`.
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
        let watchdog =
            Watchdog::start_with(Duration::from_millis(1), move || sender.send(()).unwrap());
        receiver.recv().unwrap();
        drop(watchdog);
    }

    #[test]
    fn it_ends_nothing_else() {
        let (sender, receiver) = mpsc::channel();
        drop(Watchdog::start_with(Duration::from_secs(100), move || sender.send(()).unwrap()));
        // The thread drops the sender without using it.
        assert!(receiver.recv().is_err());
    }
}

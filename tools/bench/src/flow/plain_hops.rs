//! The peers of a hop: a call, a channel between two threads, and a bare socket between two
//! processes, which is [`BareSocket`](crate::net::bare_socket::BareSocket).

use std::hint::black_box;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender};

/// A stage without a graph: a closure that the compiler cannot inline.
type BoxedStage = Box<dyn FnMut(u64) -> u64>;

/// Stages that are called one after the other.
pub struct StageCalls {
    stages: Vec<BoxedStage>,
}

impl StageCalls {
    /// Creates empty stages.
    pub fn new(stages: usize) -> Self {
        let stage = |_| Box::new(|token| token) as BoxedStage;
        Self { stages: black_box((0..stages).map(stage).collect()) }
    }

    /// The time of some tokens through all stages.
    pub fn run(&mut self, tokens: u64) -> Duration {
        let start = Instant::now();
        for number in 0..tokens {
            let mut token = number;
            for stage in &mut self.stages {
                token = stage(token);
            }
            black_box(token);
        }
        start.elapsed()
    }
}

/// A second thread that sends back what it receives, over crossbeam's channels. Nothing is bound to
/// a core.
#[derive(Debug)]
pub struct Channels {
    there: Option<Sender<u64>>,
    back: Receiver<u64>,
    echo: Option<JoinHandle<()>>,
}

impl Channels {
    /// Starts the thread.
    pub fn start() -> Self {
        let (there, heard) = crossbeam_channel::unbounded();
        let (answer, back) = crossbeam_channel::unbounded();
        let echo = thread::spawn(move || {
            for token in heard {
                if answer.send(token).is_err() {
                    break;
                }
            }
        });
        Self { there: Some(there), back, echo: Some(echo) }
    }

    /// The time of some round trips of two hops each.
    pub fn round_trips(&mut self, count: u64) -> Result<Duration> {
        let there = self.there.as_ref().context("the thread has not ended")?;
        let start = Instant::now();
        for token in 0..count {
            there.send(token)?;
            black_box(self.back.recv()?);
        }
        Ok(start.elapsed())
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        drop(self.there.take());
        if let Some(echo) = self.echo.take() {
            // The thread does nothing that could panic.
            let _ = echo.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_move_tokens() {
        assert!(StageCalls::new(3).run(1000) > Duration::ZERO);
        assert!(Channels::start().round_trips(100).unwrap() > Duration::ZERO);
    }
}

//! The traffic between the demo and its disks: one queue, one thread, many requests under way.

use pario_store::{Answer, Completion, Queue, QueueOptions, Request};

use super::disks::DISKS;
use crate::interrupt::Interrupt;

/// Sends requests and takes answers.
#[derive(Debug)]
pub struct Traffic {
    queue: Queue,
    depth_per_disk: usize,
    interrupt: Interrupt,
}

impl Traffic {
    /// Traffic that ends when somebody asks for it.
    pub fn new(interrupt: Interrupt) -> anyhow::Result<Self> {
        let options = QueueOptions::default();
        Ok(Self { queue: Queue::new(options)?, depth_per_disk: options.depth_per_disk, interrupt })
    }

    /// What carries it: `io_uring` or `threads`.
    pub fn engine(&self) -> &'static str {
        self.queue.engine()
    }

    /// Requests under way on each disk at once.
    pub fn depth_per_disk(&self) -> usize {
        self.depth_per_disk
    }

    /// An error if somebody asked for the end.
    pub fn check_interrupt(&self) -> anyhow::Result<()> {
        Ok(self.interrupt.check()?)
    }

    /// Sends requests, each with the extent it is about, and hands over the answers as they come.
    pub fn run(
        &mut self,
        requests: impl IntoIterator<Item = anyhow::Result<(u64, Request)>>,
        mut answered: impl FnMut(u64, Answer) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        // As many wait in the queue as are under way, so that no disk waits for this thread.
        let window = 2 * self.depth_per_disk * DISKS as usize;
        let mut requests = requests.into_iter();
        loop {
            while self.queue.len() < window
                && let Some(request) = requests.next()
            {
                let (extent, request) = request?;
                self.queue.submit(extent, request);
            }
            match self.queue.wait() {
                Some(Completion { tag, answer }) => answered(tag, answer?)?,
                None if self.queue.is_empty() => return Ok(()),
                // It was woken for nothing.
                None => {}
            }
            self.check_interrupt()?;
        }
    }
}

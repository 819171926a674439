//! Many requests through a queue, as a program would send them.

use anyhow::{Context, Result};
use pario_store::{Queue, QueueOptions, Reply, Request};

/// Starts a queue with this many requests under way per disk.
pub fn start_queue(depth_per_disk: usize) -> Result<Queue> {
    let options = QueueOptions { depth_per_disk, ..QueueOptions::default() };
    let queue = Queue::new(options).context("starting a queue")?;
    if queue.engine() != "io_uring" {
        eprintln!("note: the queue works with {}", queue.engine());
    }
    Ok(queue)
}

/// Sends the requests 0 to `count` and takes their results. The queue always has twice as many as
/// may be under way, so that the disk never waits.
pub fn stream(
    queue: &mut Queue,
    depth_per_disk: usize,
    count: u64,
    mut request: impl FnMut(u64) -> Result<Request>,
    mut answered: impl FnMut(u64, Reply),
) -> Result<()> {
    let ahead = 2 * depth_per_disk as u64;
    for tag in 0..count.min(ahead) {
        queue.submit(tag, request(tag)?);
    }
    let mut next = count.min(ahead);
    while let Some(completion) = queue.wait() {
        answered(completion.tag, completion.result?);
        if next < count {
            queue.submit(next, request(next)?);
            next += 1;
        }
    }
    Ok(())
}

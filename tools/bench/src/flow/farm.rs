//! Our side of METG: the graph
//!
//! ```text
//! split on the client -> a worker of two, by number -> the task -> merge on the client: sum
//! ```
//!
//! A token is a number and the length of its task. As with timely, there are two workers, in one
//! process or one in each of two, where the client is in the first. The client is a thread of its
//! own: it shares the two cores with the workers. The window is fixed and far larger than needed,
//! since timely has none. Two processes are connected by a Unix socket.

use pario_flow::{OperationRef, Program, ThreadRef, Window};
use serde::{Deserialize, Serialize};

use super::work::busy;

/// Workers of all processes together.
const WORKERS: usize = 2;
const WINDOW: Window = Window::fixed(1024);

/// A run: tasks that are still to be split off, and their length.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Tasks that are still to be split off.
    pub tasks: u64,
    /// How long each of them is.
    pub rounds: u64,
}

/// A task on its way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Task {
    number: u64,
    rounds: u64,
}

/// Adds the graph to a program. Its answer is the sum of the numbers of the tasks plus one each.
pub fn add_farm(program: &mut Program, client: ThreadRef<()>) -> OperationRef<Job, u64> {
    let workers = program.pool("Worker", WORKERS, |_| ());
    program.operation("farm", |chain| {
        chain
            .on(client)
            .window(WINDOW)
            .split_while(|job: &mut Job| {
                job.tasks = job.tasks.checked_sub(1)?;
                Some(Task { number: job.tasks, rounds: job.rounds })
            })
            .on(workers.at(|task: &Task| usize::from(task.number % 2 == 1)))
            .run(|(), task: Task| {
                busy(task.rounds);
                task
            })
            .merge(client, |_| 0, |sum: &mut u64, task| *sum += task.number + 1)
    })
}

/// What the sum should be.
pub fn sum_of(tasks: u64) -> u64 {
    tasks * (tasks + 1) / 2
}

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

/// A run: the tasks that are left to split off, and their length.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct FarmRun {
    /// The tasks that are left to split off.
    pub tasks: u64,
    /// The length of each task.
    pub rounds: u64,
}

/// A task under way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct FarmTask {
    number: u64,
    rounds: u64,
}

/// Adds the graph to a program. Its result is the sum of the numbers of the tasks, plus one for
/// each.
pub fn add_farm(program: &mut Program, client: ThreadRef<()>) -> OperationRef<FarmRun, u64> {
    let workers = program.pool("Worker", WORKERS, |_| ());
    program.operation("farm", |chain| {
        chain
            .on(client)
            .window(WINDOW)
            .split_while(|job: &mut FarmRun| {
                job.tasks = job.tasks.checked_sub(1)?;
                Some(FarmTask { number: job.tasks, rounds: job.rounds })
            })
            .on(workers.at(|task: &FarmTask| usize::from(task.number % 2 == 1)))
            .run(|(), task: FarmTask| {
                busy(task.rounds);
                task
            })
            .merge(client, |_| 0, |sum: &mut u64, task| *sum += task.number + 1)
    })
}

/// The expected sum.
pub fn sum_of(tasks: u64) -> u64 {
    tasks * (tasks + 1) / 2
}

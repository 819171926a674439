//! Jobs whose ranks are threads of this process: on one machine, or on several as far as they can
//! tell.

use pario::{Job, JobOptions};
use pario_team::TeamOptions;

use crate::ranks::{Machines, new_job};

/// Runs ranks of one machine, each in a thread; returns what each returns.
pub fn together<T: Send>(size: u32, work: impl Fn(Job) -> T + Sync) -> Vec<T> {
    spread(size, Machines::One, work)
}

/// Runs ranks of several machines.
pub fn spread<T: Send>(size: u32, machines: Machines, work: impl Fn(Job) -> T + Sync) -> Vec<T> {
    let (name, work, options) = (&new_job(), &work, &machines.options());
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let join = move || job_options(options(rank)).join(name, size, rank);
                scope.spawn(move || work(join().unwrap()))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

/// The options of a job whose ranks meet as a team with these options does.
fn job_options(options: TeamOptions) -> JobOptions {
    match options.multi_machine {
        Some(machines) => Job::options().rendezvous(machines.rendezvous).machine(machines.machine),
        None => Job::options(),
    }
}

//! Ranks as threads of one process: on one machine, or on several as far as they can tell.

#![allow(dead_code, reason = "not every test needs everything")]

pub mod process;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use pario_team::{Key, MultiMachine, Team, TeamOptions};

static JOBS: AtomicU32 = AtomicU32::new(0);
static HOSTS: AtomicU8 = AtomicU8::new(1);

/// A job name that no other job has.
pub fn new_job() -> String {
    let number = JOBS.fetch_add(1, Ordering::Relaxed);
    format!("test {number} of process {}", std::process::id())
}

/// The distribution of ranks over machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machines {
    /// All ranks on one.
    One,
    /// This many consecutive ranks on each.
    Of(u32),
    /// Round robin over this many.
    InTurn(u32),
}

/// The distributions that tests run with.
pub const EVERY_DISTRIBUTION: [Machines; 4] =
    [Machines::One, Machines::Of(2), Machines::InTurn(3), Machines::Of(1)];

impl Machines {
    /// The options with which each rank of a team finds the others.
    pub fn options(self) -> impl Fn(u32) -> TeamOptions {
        // Each process has its own addresses of loopback.
        let process = std::process::id().to_le_bytes();
        let last = HOSTS.fetch_add(1, Ordering::Relaxed).max(1);
        let host = Ipv4Addr::new(127, process[1] / 2 + 64, process[0], last);
        let address = SocketAddr::new(host.into(), 7777);
        let key = Key::random();
        move |rank| {
            let machine = match self {
                Self::One => return TeamOptions::default(),
                Self::Of(each) => rank / each,
                Self::InTurn(count) => rank % count,
            };
            let multi_machine =
                MultiMachine::at(address, key.clone()).called(format!("m{machine}"));
            TeamOptions { multi_machine: Some(multi_machine), ..TeamOptions::default() }
        }
    }
}

/// Has ranks of one machine do the same, each in a thread; what each has to say.
pub fn together<T: Send>(size: u32, work: impl Fn(Team) -> T + Sync) -> Vec<T> {
    spread(size, Machines::One, work)
}

/// The same with ranks of several machines.
pub fn spread<T: Send>(size: u32, machines: Machines, work: impl Fn(Team) -> T + Sync) -> Vec<T> {
    let (job, work, options) = (&new_job(), &work, &machines.options());
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let meet = move || Team::meet_with(job, size, rank, &options(rank));
                scope.spawn(move || work(meet().unwrap()))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

//! Ranks that are processes, and are killed: this binary started again.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use crate::ranks::process::{self, Process, Role, played};
use crate::ranks::{Machines, new_job};
use pario_team::{Team, TeamError};

const SIZE: u32 = 4;

/// Plays a rank; without a job it has nothing to do.
#[test]
fn other_process() {
    let Some((team, doing)) = played() else { return };
    let error = work(&team, &doing);
    println!("says {error}");
    // A rank that knows of a loss waits for no other.
    drop(team);
}

/// Does something until it fails.
fn work(team: &Team, doing: &str) -> TeamError {
    let segments = team.segments(1000).unwrap();
    let mutexes = team.mutexes(1).unwrap();
    let echo = team.callback(|call| Ok(call.data.to_vec())).unwrap();
    let messaging = team.messaging().unwrap();
    let group = messaging.group(&[3, 2, 1, 0]).unwrap();
    team.barrier().unwrap();
    println!("says ready");
    let mut number = 0_u32;
    loop {
        number = number.wrapping_add(1);
        let target = number % SIZE;
        let done = match doing {
            "meeting" => team.barrier(),
            "memory" => segments.accumulate(&[1_u64], 1, target, 8).and_then(|()| team.barrier()),
            "locking" => mutexes.lock(target, 0).map(drop).and_then(|()| team.barrier()),
            "calling" => echo.call(b"", &[7; 100], target).map(drop).and_then(|_| team.barrier()),
            "messages" => messaging
                .send(&[7; 100], (team.rank() + 1) % SIZE, 1)
                .and_then(|()| messaging.receive(Some((team.rank() + SIZE - 1) % SIZE), 1))
                .map(drop),
            "group" => group.barrier(),
            _ => panic!("unknown activity: {doing}"),
        };
        if let Err(error) = done {
            return error;
        }
    }
}

/// Kills one of four ranks while all do something: the errors of the others name it, in time.
fn lose(machines: Machines, victim: u32, doing: &str) {
    let (job, options) = (new_job(), machines.options());
    let start = |rank| {
        let role = Role { job: &job, size: SIZE, rank, doing };
        Process::start("processes::other_process", &role, &options(rank))
    };
    let ranks = (0..SIZE).map(start).collect();
    process::lose(ranks, victim as usize, &format!("{machines:?}, {doing}"));
}

#[test]
fn a_rank_that_is_killed_is_named_to_those_of_its_machine() {
    for (victim, doing) in [
        (0, "meeting"),
        (3, "memory"),
        (1, "locking"),
        (2, "calling"),
        (1, "messages"),
        (3, "group"),
    ] {
        lose(Machines::One, victim, doing);
    }
}

#[test]
fn a_rank_that_is_killed_is_named_to_other_machines() {
    for (victim, doing) in [
        (0, "meeting"),
        (1, "memory"),
        (2, "locking"),
        (3, "calling"),
        (2, "messages"),
        (1, "group"),
    ] {
        lose(Machines::Of(2), victim, doing);
    }
}

#[test]
fn a_machine_that_is_lost_is_named_by_its_rank() {
    for (victim, doing) in [
        (0, "memory"),
        (1, "meeting"),
        (2, "calling"),
        (3, "locking"),
        (1, "messages"),
        (0, "group"),
    ] {
        lose(Machines::Of(1), victim, doing);
    }
}

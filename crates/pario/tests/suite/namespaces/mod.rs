//! Teams whose ranks are on machines of their own, as far as the network goes: processes in network
//! namespaces, joined by cables and a switch. The results are compared with one sequential
//! program.

mod lab;
mod launched;
mod program;

use std::process::Command;

use pario_team::{Key, MultiMachine, TeamOptions};

use self::lab::Lab;
use crate::ranks::new_job;
use crate::ranks::process::{self, Process, Role, played};

/// Runs a rank. It does nothing unless a test has started it as one.
#[test]
fn other_process() {
    let Some((team, doing)) = played() else { return };
    let (what, place) = doing.split_once(' ').unwrap();
    match what {
        "endless" => println!("says {}", program::run_until_lost(&team, place.as_ref())),
        seed => {
            program::run(&team, seed.parse().unwrap(), place.as_ref());
            println!("says done");
        }
    }
}

/// Starts ranks in the namespaces of a lab, one after the other.
fn start(lab: &Lab, size: u32, doing: &str) -> Vec<Process> {
    let (job, key) = (new_job(), Key::random());
    let rank = |rank| {
        let role = Role { job: &job, size, rank, doing };
        let across = MultiMachine::at(lab.meeting(), key.clone());
        let options = TeamOptions { multi_machine: Some(across), ..TeamOptions::default() };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.namespace(lab.machine_of(rank))]);
        command.arg(std::env::current_exe().unwrap());
        Process::start_by(command, "namespaces::other_process", &role, &options)
    };
    (0..size).map(rank).collect()
}

#[test]
fn random_programs_do_what_one_program_does() {
    for (seed, (size, machines)) in [(2, 2), (4, 2), (5, 3), (3, 3)].into_iter().enumerate() {
        let Some(lab) = Lab::new(machines) else { return };
        let dir = tempfile::tempdir().unwrap();
        let doing = format!("{seed} {}", dir.path().display());
        for mut process in start(&lab, size, &doing) {
            assert_eq!(process.hear(), "done", "seed {seed}, {size} ranks");
            assert!(process.child.wait().unwrap().success());
        }
    }
}

/// Every machine has one rank, its leader; the leader of the first machine is the team coordinator.
#[test]
fn a_killed_machine_leader_is_named_to_all() {
    for victim in 0..3 {
        let Some(lab) = Lab::new(3) else { return };
        let dir = tempfile::tempdir().unwrap();
        let doing = format!("endless {}", dir.path().display());
        process::lose(start(&lab, 3, &doing), victim, "in namespaces");
    }
}

//! Another user of the machine: it cannot take the name under which a team meets, nor join the
//! team.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Barrier;

use crate::ranks::new_job;
use pario_net::PrivateListener;
use pario_team::Team;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

const OTHER: u32 = 54_321;

/// Runs in a thread of another user; none if this process may not do that.
fn as_other_user<R: Send>(run: impl FnOnce() -> R + Send) -> Option<R> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run a thread as another user");
        return None;
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(OTHER)).unwrap();
            run()
        });
        Some(thread.join().unwrap())
    })
}

/// Two ranks meet and agree.
fn meet(job: &str) {
    std::thread::scope(|scope| {
        for rank in 0..2 {
            scope.spawn(move || Team::meet(job, 2, rank).unwrap().barrier().unwrap());
        }
    });
}

/// Every user can bind any abstract name, so a team must not meet under one.
#[test]
fn a_name_that_another_user_has_taken_is_not_in_the_way() {
    let job = &new_job();
    let own = rustix::process::getuid().as_raw();
    let squat = || {
        let name = SocketAddr::from_abstract_name(format!("pario-team/{own}/{job}")).unwrap();
        UnixListener::bind_addr(&name).unwrap()
    };
    let Some(_squatter) = as_other_user(squat) else { return };
    meet(job);
}

#[test]
fn the_socket_of_a_team_is_out_of_reach_and_removed_in_the_end() {
    let job = &new_job();
    let path = PrivateListener::rendezvous_path("team", &format!("\0{job}")).unwrap();
    let (here, gone) = (&Barrier::new(3), &Barrier::new(3));
    std::thread::scope(|scope| {
        for rank in 0..2 {
            scope.spawn(move || {
                let team = Team::meet(job, 2, rank).unwrap();
                here.wait();
                gone.wait();
                team.barrier().unwrap();
            });
        }
        here.wait();
        let dir = std::fs::metadata(path.parent().unwrap());
        let connect = || {
            let kind = SocketType::SEQPACKET;
            let socket = rustix::net::socket(AddressFamily::UNIX, kind, None)?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(&path)?)
        };
        let (own, other) = (connect(), as_other_user(connect));
        // The ranks go on before anything is judged: they must not be left waiting.
        gone.wait();
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(dir.map(|dir| (dir.mode() & 0o777, dir.uid())).unwrap(), (0o700, uid));
        assert_eq!(own, Ok(()));
        assert!(other.is_none_or(|result| result == Err(rustix::io::Errno::ACCESS)));
    });
    assert!(!path.exists(), "{} is left", path.display());
    meet(job);
}

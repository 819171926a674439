//! The sender of a token, and which users may connect.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use pario_net::{
    Address, LinkChoice, RecvError, Simulation, Space, SpaceBuilder, SpaceError, User,
};

const SOON: Duration = Duration::from_secs(10);

fn builder(name: &str, links: LinkChoice) -> SpaceBuilder {
    Space::builder(name).listen_tcp("127.0.0.1:0".parse().unwrap()).links(links)
}

/// Sends from one space to another, and checks the sender that the receiver sees.
fn check_sender(to: &Space, from: &Space, user: Option<&User>) {
    let input = to.input::<u32>("numbers").unwrap();
    let output = from.output::<u32>("numbers", SOON).unwrap();
    output.send(1).unwrap();
    output.send(2).unwrap();
    output.flush();
    let (mut numbers, mut known) = (Vec::new(), Vec::new());
    for receive in 0..2 {
        let (number, sender) = match receive {
            0 => input.recv_from().unwrap(),
            _ => input.recv_from_timeout(SOON).unwrap(),
        };
        numbers.push(number);
        // The receiver knows it by an id of its own making, not by the one that it announces.
        assert_ne!(sender.space, from.id());
        known.push(sender.space);
        assert_eq!(&*sender.name, from.name());
        assert_eq!(sender.user.as_ref(), user);
        assert!(!sender.is_local);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
    input.output().send(3).unwrap();
    let (_, sender) = input.recv_from().unwrap();
    assert_eq!((sender.space, sender.is_local), (to.id(), true));
    assert_eq!(sender.user, Some(User::own()));
    assert!(matches!(
        input.recv_from_timeout(Duration::from_millis(1)),
        Err(RecvError::Timeout { .. })
    ));
    from.close();
    match input.recv_from_timeout(SOON).unwrap_err() {
        RecvError::Lost { space, peer } => {
            assert_eq!((vec![space; 2], peer.as_str()), (known, from.name()));
        }
        error => panic!("{error}"),
    }
}

#[test]
fn the_kernel_says_who_sent_over_a_unix_socket() {
    // The one that was called knows the caller, and the caller knows whom it called.
    for (to, from) in [(0, 1), (1, 0)] {
        let a = builder("a", LinkChoice::Unix).host().build().unwrap();
        let b = builder("b", LinkChoice::Unix).join(&a.address()).build().unwrap();
        let spaces = [a, b];
        check_sender(&spaces[to], &spaces[from], Some(&User::own()));
    }
}

#[test]
fn a_sender_in_the_same_process_is_of_this_user() {
    let a = builder("a", LinkChoice::Nearest).host().build().unwrap();
    let b = builder("b", LinkChoice::Nearest).join(&a.address()).build().unwrap();
    check_sender(&a, &b, Some(&User::own()));
}

#[test]
fn the_user_of_a_sender_over_tcp_is_unknown() {
    let a = builder("a", LinkChoice::Tcp).host().build().unwrap();
    let b = builder("b", LinkChoice::Tcp).join(&a.address()).build().unwrap();
    check_sender(&a, &b, None);
    let network = Simulation::new(3);
    check_sender(&network.space("a").unwrap(), &network.space("b").unwrap(), None);
}

/// Runs in a thread of another user; only root can make one.
fn as_user<R: Send>(uid: u32, run: impl FnOnce() -> R + Send) -> Option<R> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run a thread as another user");
        return None;
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let uid = rustix::process::Uid::from_raw(uid);
            rustix::thread::set_thread_uid(uid).unwrap();
            run()
        });
        Some(thread.join().unwrap())
    })
}

const ALICE: u32 = 54_321;
const BOB: u32 = 54_322;

/// Joins as a client of a user does, and sends its name.
fn join_and_greet(uid: u32, server: &Address, trusts: bool) -> Option<Result<Space, SpaceError>> {
    as_user(uid, || {
        let name = format!("client of {uid}");
        let builder = Space::builder(&name).links(LinkChoice::Unix).connect_to_any_user(trusts);
        let builder = builder.listen_nowhere();
        let space = builder.join(server).build()?;
        space.output("greetings", SOON).unwrap().send(name).unwrap();
        Ok(space)
    })
}

#[test]
fn other_users_come_in_only_where_every_user_is_admitted() {
    // The socket is reachable in either case: what counts is whom the listener admits.
    for admits in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("socket");
        let builder = Space::builder("server").admit_any_user(admits).host();
        let server = builder.listen_unix(&path).build().unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let greetings = server.input::<String>("greetings").unwrap();
        for uid in [ALICE, BOB] {
            let Some(client) = join_and_greet(uid, &server.address(), false) else { return };
            if !admits {
                assert!(client.is_err(), "{uid}");
                continue;
            }
            let client = client.unwrap();
            let (name, sender) = greetings.recv_from_timeout(SOON).unwrap();
            assert_eq!((name.as_str(), &*sender.name), (client.name(), client.name()));
            assert_eq!(sender.user, Some(User { uid, ..User::own() }));
        }
    }
}

#[test]
fn a_server_of_another_user_is_connected_to_only_with_that_right() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let path = folder.path().join("socket");
    let build = || Space::builder("server").listen_unix(&path).admit_any_user(true).host().build();
    let Some(server) = as_user(ALICE, build) else { return };
    let server = server.unwrap();
    let greetings = server.input::<String>("greetings").unwrap();
    let error = join_and_greet(BOB, &server.address(), false).unwrap().unwrap_err();
    assert!(error.to_string().contains("belongs to user 54321, not to 54322"), "{error}");
    // Root must say so, too.
    let builder = Space::builder("root").links(LinkChoice::Unix).listen_nowhere();
    let error = builder.join(&server.address()).build().unwrap_err();
    assert!(error.to_string().contains("belongs to user 54321, not to 0"), "{error}");
    let _client = join_and_greet(BOB, &server.address(), true).unwrap().unwrap();
    let (_, sender) = greetings.recv_from_timeout(SOON).unwrap();
    assert_eq!(sender.user.as_ref().unwrap().uid, BOB);
}

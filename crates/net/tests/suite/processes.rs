//! Spaces in processes of their own: this binary started again.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pario_net::{Bulk, InputPort, RecvError, SendError, Space, SpaceBuilder};

const SOON: Duration = Duration::from_secs(20);
const ADDRESS: &str = "PARIO_NET_TEST_ADDRESS";
const LINK: &str = "PARIO_NET_TEST_LINK";

fn builder(name: &str, link: &str) -> SpaceBuilder {
    let tcp = "127.0.0.1:0".parse().unwrap();
    Space::builder(name).listen_tcp(tcp).prefer_tcp(link == "tcp")
}

/// Starts this binary again, to run `other_process` alone.
fn start(space: &Space, link: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::other_process", "--nocapture"])
        .env(ADDRESS, space.address().to_string())
        .env(LINK, link)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Echoes until the test sends the stop; without an address it does nothing.
#[test]
fn other_process() {
    let (Ok(address), Ok(link)) = (std::env::var(ADDRESS), std::env::var(LINK)) else { return };
    let space = builder("child", &link).join(&address.parse().unwrap()).build().unwrap();
    let input = space.input::<(u64, Bulk)>("echo").unwrap();
    let output = space.output::<(u64, Bulk)>("answers", SOON).unwrap();
    loop {
        match input.recv_timeout(SOON) {
            Ok((u64::MAX, _)) => return,
            Ok(token) => output.send(token).unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn carrier(space: &Space) -> &'static str {
    space.counters().links.iter().find(|link| link.peer == "child").unwrap().carrier
}

fn echo(link: &str) {
    let space = builder("parent", link).host().build().unwrap();
    let answers: InputPort<(u64, Bulk)> = space.input("answers").unwrap();
    let mut child = start(&space, link);
    let echo = space.output::<(u64, Bulk)>("echo", SOON).unwrap();
    assert_eq!(carrier(&space), link);
    // One by one, then many under way.
    for number in 0..500 {
        echo.send((number, Bulk::new())).unwrap();
        assert_eq!(answers.recv_timeout(SOON).unwrap().0, number);
    }
    for number in 0..300 {
        echo.send((number, vec![7; 10_000].into())).unwrap();
    }
    for number in 0..300 {
        let (got, bulk) = answers.recv_timeout(SOON).unwrap();
        assert_eq!((got, bulk.len()), (number, 10_000));
    }
    echo.send((u64::MAX, Bulk::new())).unwrap();
    echo.flush();
    assert!(child.wait().unwrap().success());
    // It had dropped its ports before it ended, so nothing is lost.
    let error = (0..).find_map(|_| echo.send((1, Bulk::new())).err()).unwrap();
    assert!(matches!(error, SendError::Closed { .. } | SendError::Lost { .. }), "{error}");
    assert!(matches!(answers.try_recv(), Err(RecvError::Empty { .. })));
}

#[test]
fn two_processes_over_a_unix_socket() {
    echo("unix");
}

#[test]
fn two_processes_over_tcp() {
    echo("tcp");
}

#[test]
fn the_death_of_a_process_is_noticed_at_once() {
    let space = builder("parent", "unix").host().build().unwrap();
    let answers: InputPort<(u64, Bulk)> = space.input("answers").unwrap();
    let mut child = start(&space, "unix");
    let echo = space.output::<(u64, Bulk)>("echo", SOON).unwrap();
    echo.send((1, Bulk::new())).unwrap();
    assert_eq!(answers.recv_timeout(SOON).unwrap().0, 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let began = Instant::now();
    assert!(
        matches!(answers.recv_timeout(SOON), Err(RecvError::Lost { peer, .. }) if peer == "child")
    );
    assert!(began.elapsed() < Duration::from_secs(1));
    let error = echo.send((2, Bulk::new())).unwrap_err();
    assert!(matches!(&error, SendError::Lost { peer, .. } if peer == "child"), "{error}");
    assert!(space.output::<(u64, Bulk)>("echo", Duration::from_millis(1)).is_err());
}

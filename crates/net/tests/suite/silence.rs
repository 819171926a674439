//! A network that falls silent: two processes in network namespaces of their own, and a cable
//! between them that is pulled.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pario_net::{Address, Key, RecvError, SendError, Space};

const SOON: Duration = Duration::from_secs(20);
/// A loss must be known after so long.
const IN_TIME: Duration = Duration::from_secs(2);
/// The role of a process that was started again.
const ROLE: &str = "PARIO_NET_TEST_SILENCE_ROLE";
const KEY: &str = "PARIO_NET_TEST_SILENCE_KEY";
/// The namespace of the other process, and the one in which the cable is pulled.
const THERE: &str = "PARIO_NET_TEST_SILENCE_THERE";
const PULLED: &str = "PARIO_NET_TEST_SILENCE_PULLED";
/// What the survivor does when the cable is pulled: nothing, or it sends.
const TALKS: &str = "PARIO_NET_TEST_SILENCE_TALKS";
/// Addresses in namespaces that no other test uses.
const SURVIVOR: &str = "10.77.0.1:4000";
const OTHER: &str = "10.77.0.2:4000";

/// Runs `ip` with these words.
fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("ip {words}: {error}")),
    }
}

/// Two network namespaces with a cable between them; removed however the test ends.
struct Cable {
    here: String,
    there: String,
}

impl Cable {
    fn lay() -> Result<Self, String> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = |end| format!("pario-{}-{number}-{end}", std::process::id());
        let cable = Self { here: name("here"), there: name("there") };
        let Self { here, there } = &cable;
        ip(&format!("netns add {here}"))?;
        ip(&format!("netns add {there}"))?;
        ip(&format!("link add cable netns {here} type veth peer name cable netns {there}"))?;
        for (end, address) in [(here, SURVIVOR), (there, OTHER)] {
            let host = address.parse::<SocketAddr>().unwrap().ip();
            ip(&format!("-n {end} address add {host}/24 dev cable"))?;
            ip(&format!("-n {end} link set cable up"))?;
        }
        // Whether processes can be started there is part of the question.
        ip(&format!("netns exec {here} true"))?;
        Ok(cable)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // With a namespace its end of the cable goes, and with that the whole cable.
        for end in [&self.here, &self.there] {
            let _ = ip(&format!("netns delete {end}"));
        }
    }
}

/// A process that ends with its guard.
struct Process(Child);

impl Process {
    /// Starts this binary again in a namespace, to run `other_process` alone.
    fn start(namespace: &str, role: &str, environment: &[(&str, &str)]) -> Self {
        let child = Command::new("ip")
            .args(["netns", "exec", namespace])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "silence::other_process", "--nocapture"])
            .env(ROLE, role)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: a process with a role needs it"))
}

/// Plays its role; without one it has nothing to do.
#[test]
fn other_process() {
    match std::env::var(ROLE).as_deref() {
        Ok("survivor") => survive(),
        Ok("other") => echo(),
        _ => {}
    }
}

/// Echoes until it hears nothing any more.
fn echo() {
    let space = Space::builder("other")
        .listen_tcp(OTHER.parse().unwrap())
        .key(Key::from_hex(&variable(KEY)).unwrap())
        .join(&Address::tcp(SURVIVOR.parse().unwrap()))
        .build()
        .unwrap();
    let input = space.input::<u64>("echo").unwrap();
    let output = space.output::<u64>("answers", SOON).unwrap();
    while let Ok(number) = input.recv_timeout(SOON) {
        if output.send(number).is_err() {
            return;
        }
    }
}

/// Talks to the other process, pulls the cable and waits for the event.
fn survive() {
    let key = Key::random();
    let space = Space::builder("survivor")
        .listen_tcp(SURVIVOR.parse().unwrap())
        .key(key.clone())
        .host()
        .build()
        .unwrap();
    let answers = space.input::<u64>("answers").unwrap();
    let _other = Process::start(&variable(THERE), "other", &[(KEY, &key.to_hex())]);
    let echo = space.output::<u64>("echo", SOON).unwrap();
    for number in 0..100 {
        echo.send(number).unwrap();
        assert_eq!(answers.recv_timeout(SOON).unwrap(), number);
    }
    let links = space.counters().links;
    assert!(links.iter().all(|link| link.carrier == "tcp" && link.peer == "other"), "{links:?}");

    let began = Instant::now();
    ip(&format!("-n {} link set cable down", variable(PULLED))).unwrap();
    if variable(TALKS) == "yes" {
        echo.send(100).unwrap();
        echo.flush();
    }
    let event = answers.recv_timeout(IN_TIME).unwrap_err();
    let took = began.elapsed();
    assert!(matches!(&event, RecvError::Lost { peer, .. } if peer == "other"), "{event}");
    assert!(took < IN_TIME, "known after {took:?}");
    let error = echo.send(101).unwrap_err();
    assert!(matches!(&error, SendError::Lost { peer, .. } if peer == "other"), "{error}");
}

/// Lays a cable, and pulls it at one end while a link over it is idle or in use.
fn pull(is_here: bool, talks: bool) {
    let cable = match Cable::lay() {
        Ok(cable) => cable,
        Err(reason) => {
            eprintln!("SKIPPED, nothing was tested: network namespaces are impossible: {reason}");
            return;
        }
    };
    let pulled = if is_here { &cable.here } else { &cable.there };
    let talks = if talks { "yes" } else { "no" };
    let environment = [(THERE, cable.there.as_str()), (PULLED, pulled), (TALKS, talks)];
    let mut survivor = Process::start(&cable.here, "survivor", &environment);
    assert!(survivor.0.wait().unwrap().success(), "the survivor says why");
}

#[test]
fn an_idle_peer_behind_a_dead_link_is_lost_in_time() {
    pull(false, false);
}

#[test]
fn a_peer_that_is_talked_to_is_lost_in_time() {
    pull(false, true);
}

#[test]
fn a_link_that_is_down_at_the_own_end_is_a_loss_in_time() {
    pull(true, false);
}

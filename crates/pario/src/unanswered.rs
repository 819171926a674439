//! Why no connection to a node comes about, in a sentence with what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pario_net::{Address, ConnectError, KeyProblem, SpaceError, User, connect_unix};

use crate::error::Error;
use crate::key::user_key_file;

/// How long it may take to find out whether a process still listens on a socket.
const LOOK_LIMIT: Duration = Duration::from_millis(200);

/// The error for a connection that could not be made.
pub fn explain(
    error: &SpaceError,
    node: &str,
    address: &Address,
    key_source: Option<&str>,
    waited: Duration,
) -> Error {
    let place = shown(address);
    match error {
        SpaceError::Join { error: ConnectError::Key { problem, .. }, .. } => {
            key_error(*problem, &place, key_source)
        }
        SpaceError::Join { error: ConnectError::Unreachable { error, .. }, .. } => {
            match error.kind() {
                io::ErrorKind::PermissionDenied => Error::Refused {
                    text: format!(
                        "you may not use the node at {place} ({error}): it runs as another user, \
                         who can admit all users of this machine with `all_users = true` in its \
                         configuration"
                    ),
                },
                io::ErrorKind::TimedOut => silent(node, address, waited),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                    // Over TCP, the caller says what to start on which host.
                    let remedy = match address.is_near() {
                        true => "; start the node with `pario serve`, or check the address",
                        false => "",
                    };
                    down(
                        node,
                        format!(
                            "{} does not answer: no process listens there ({error}){remedy}",
                            at(node, &place)
                        ),
                    )
                }
                _ => down(node, format!("{} does not answer: {error}", at(node, &place))),
            }
        }
        SpaceError::Join { error, .. } => {
            down(node, format!("{} does not answer: {error}", at(node, &place)))
        }
        error => down(node, format!("{} does not answer: {error}", at(node, &place))),
    }
}

/// The error for a node that accepts connections and does not answer.
pub fn silent(node: &str, address: &Address, waited: Duration) -> Error {
    let (place, waited) = (shown(address), waited.as_secs_f64());
    let hint = listener(address).map_or(String::new(), |pid| match is_paused(pid) {
        true => format!(
            ": its process {pid} is paused (stopped by a signal); `kill -CONT {pid}` resumes it"
        ),
        false => format!(
            ": its process {pid} runs, but is busy, or this connection waits behind others; \
             `--timeout SECONDS` waits longer"
        ),
    });
    down(node, format!("{} is not answering within {waited:.1} s{hint}", at(node, &place)))
}

/// The process that listens on the socket of a node of this machine.
fn listener(address: &Address) -> Option<u32> {
    let socket: PathBuf = address.unix.clone().filter(|_| address.is_near())?;
    let stream = connect_unix(&socket, Instant::now() + LOOK_LIMIT).ok()?;
    Some(User::of_peer(&stream).ok()?.pid).filter(|pid| *pid != 0)
}

/// Whether a process was stopped by a signal, or by a debugger.
fn is_paused(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name of the program, which is in parentheses.
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 't']))
}

fn key_error(problem: KeyProblem, place: &str, key_source: Option<&str>) -> Error {
    let source = key_source.unwrap_or_default();
    let text = match problem {
        KeyProblem::Missing => format!(
            "the node at {place} admits only clients with the cluster's key: copy the key from its \
             machine to {}, or name the file that holds it with --key FILE or the variable PARIO_KEY",
            key_file_shown()
        ),
        KeyProblem::Wrong => format!(
            "the node at {place} has another key than the one in {source}: copy its key from its \
             machine, and name the file with --key FILE or the variable PARIO_KEY"
        ),
        KeyProblem::Unneeded => format!(
            "the node at {place} has no key, so it cannot prove that it belongs to the cluster of \
             the key in {source}: leave the key out (--key, PARIO_KEY) if you trust the node"
        ),
    };
    Error::Refused { text }
}

/// The file of the user's key, as far as the environment tells it.
fn key_file_shown() -> String {
    user_key_file().map_or_else(|| "a private file".to_owned(), |file| file.display().to_string())
}

fn down(node: &str, text: String) -> Error {
    Error::NodeDown { node: node.to_owned(), text }
}

fn at(node: &str, place: &str) -> String {
    if node.is_empty() { format!("the node at {place}") } else { format!("node {node} at {place}") }
}

/// An address as users write it.
fn shown(address: &Address) -> String {
    let unix = address.unix.as_ref().filter(|_| address.is_near());
    match (unix, address.tcp) {
        (Some(path), _) => format!("unix:{}", path.display()),
        (None, Some(tcp)) => format!("tcp:{tcp}"),
        (None, None) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn keys_that_do_not_fit_name_the_file_and_the_option() {
        for (problem, told) in [
            (KeyProblem::Missing, "--key FILE"),
            (KeyProblem::Wrong, "another key than the one in lab.key"),
            (KeyProblem::Unneeded, "leave the key out"),
        ] {
            let error = key_error(problem, "tcp:10.0.0.1:7411", Some("lab.key"));
            assert_eq!(error.kind(), crate::ErrorKind::PermissionDenied);
            assert!(error.to_string().contains(told), "{error}");
            assert!(error.to_string().contains("tcp:10.0.0.1:7411"), "{error}");
        }
    }

    #[test]
    fn a_process_that_listens_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let address = Address::unix(&socket);
        assert_eq!(listener(&address), None);
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(listener(&address), Some(std::process::id()));
        let told = silent("", &address, Duration::from_millis(500)).to_string();
        let process = format!("its process {} runs, but is busy", std::process::id());
        assert!(
            told.contains("is not answering within 0.5 s") && told.contains(&process),
            "{told}"
        );
    }
}

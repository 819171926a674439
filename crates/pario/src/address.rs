//! Where a cluster is: what users write, and where a user's own node is found.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use pario_net::Address;

use crate::error::Error;

/// What users write: `unix:PATH`, `tcp:HOST:PORT`, `HOST:PORT`, the path of a socket, the data
/// directory of a running node, or the full form that a node prints.
pub fn parse(text: &str) -> Result<Address, Error> {
    let text = text.trim();
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Address::unix(absolute(path)?));
    }
    if let Some(host) = text.strip_prefix("tcp:") {
        return resolve(host).map(Address::tcp);
    }
    if text.contains('=') {
        return text.parse().map_err(|error| Error::invalid(format!("{error}")));
    }
    let path = Path::new(text);
    if path.is_dir() {
        return of_data_directory(path);
    }
    if text.contains('/') {
        return Ok(Address::unix(absolute(text)?));
    }
    resolve(text).map(Address::tcp)
}

/// The node that serves a data directory says where it is in a file there.
pub fn of_data_directory(data: &Path) -> Result<Address, Error> {
    let file = data.join("address");
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            text.parse().map_err(|error| Error::other(format!("{}: {error}", file.display())))
        }
        Err(_) => Err(Error::NotRunning {
            text: format!(
                "no node serves {0}: start one with `pario serve --data {0}`, or use the directory \
                 without one with `--data {0}`",
                data.display()
            ),
        }),
    }
}

/// The user's own node, as `pario serve` has noted it.
pub fn of_user() -> Option<Address> {
    let text = std::fs::read_to_string(user_file()).ok()?;
    text.parse().ok()
}

/// Where `pario serve` notes the address of the user's own node.
pub fn user_file() -> PathBuf {
    pario_net::runtime_directory().join("address")
}

fn absolute(path: &str) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|error| Error::invalid(format!("{path}: {error}")))
}

fn resolve(host: &str) -> Result<SocketAddr, Error> {
    let wrong = |why: String| {
        Error::invalid(format!(
            "{host:?} is not the address of a cluster ({why}): write unix:PATH, tcp:HOST:PORT, or \
             the data directory of a node"
        ))
    };
    let mut found = host.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("the host has no address".to_owned()))
}

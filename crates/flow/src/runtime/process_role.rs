//! The role of this process in the program, and how it opens its address space.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use pario_net::{Address, ConnectError, Key, PrivateListener, Space, SpaceError};

use super::ids::ProcessNumber;
use crate::error::LaunchError;
use crate::placement::{LauncherRank, Placement};

/// Names this process, if the first process started it.
pub(super) const SPACE_VARIABLE: &str = "PARIO_SPACE";
/// The address at which the first process hosts the directory.
pub(super) const DIRECTORY_VARIABLE: &str = "PARIO_DIRECTORY";
/// The key of the program in hexadecimal digits, or `stdin`.
const KEY_VARIABLE: &str = "PARIO_KEY";
/// How long a process tries to join the first one.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
const JOIN_RETRY: Duration = Duration::from_millis(20);

pub(super) enum ProcessRole {
    /// The only process.
    Single,
    /// The first of several.
    First { starts_others: bool, key: Option<Key> },
    /// The first of several that a launcher started; the others know this address.
    FirstRank { address: Address, key: Option<Key> },
    /// Any other process.
    Other { me: ProcessNumber, directory: Address, key: Option<Key> },
}

impl ProcessRole {
    pub(super) fn find(
        program: &str,
        placement: &Placement,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, LaunchError> {
        if placement.is_single_process() {
            return Ok(Self::Single);
        }
        if let Some(name) = variable(SPACE_VARIABLE) {
            return Self::started(&name, placement, variable);
        }
        let Some(rank) = LauncherRank::from_environment(variable) else {
            return Ok(Self::First { starts_others: true, key: Some(Key::random()) });
        };
        if rank.size != placement.processes().len() {
            let processes = placement.processes().len();
            return Err(LaunchError::Ranks { ranks: rank.size, processes });
        }
        let key = rank_key(placement, variable)?;
        let address = rank_address(program, placement, &rank)?;
        if rank.rank == 0 {
            return Ok(Self::FirstRank { address, key });
        }
        let me = ProcessNumber(u32::try_from(rank.rank).expect("a program has fewer ranks"));
        Ok(Self::Other { me, directory: address, key })
    }

    fn started(
        name: &str,
        placement: &Placement,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, LaunchError> {
        let failed = |message: String| LaunchError::Start { process: name.to_owned(), message };
        let me = placement.processes().iter().position(|process| process.name == name).ok_or_else(
            || failed("the placement that this process reads does not name it".into()),
        )?;
        let directory = variable(DIRECTORY_VARIABLE)
            .ok_or_else(|| {
                failed(format!("the environment variable {DIRECTORY_VARIABLE} is not set"))
            })?
            .parse()
            .map_err(|error| failed(format!("{error}")))?;
        let key = match variable(KEY_VARIABLE) {
            Some(key) if key == "stdin" => {
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).map_err(|error| failed(error.to_string()))?;
                Some(line)
            }
            other => other,
        };
        let key = key.map(|key| Key::from_hex(key.trim())).transpose();
        let key = key.map_err(|error| failed(error.to_string()))?;
        let me = ProcessNumber(u32::try_from(me).expect("a program has fewer processes"));
        Ok(Self::Other { me, directory, key })
    }

    pub(super) fn me(&self) -> ProcessNumber {
        match self {
            Self::Other { me, .. } => *me,
            _ => super::coordinator::FIRST,
        }
    }

    /// Opens the address space of this process.
    pub(super) fn open_space(&self, placement: &Placement) -> Result<Space, LaunchError> {
        let name = &placement.processes()[self.me().0 as usize].name;
        let failed = |message: String| LaunchError::AddressSpace { process: name.clone(), message };
        let mut builder = Space::builder(name);
        match self {
            Self::Single => Ok(Space::alone(name)),
            Self::First { key, .. } => {
                builder = builder.host();
                if let Some(key) = key {
                    builder = builder.key(key.clone());
                }
                if placement.processes().iter().any(|process| process.host.is_some()) {
                    let listen = first_address(placement).map_err(failed)?;
                    builder = builder.listen_tcp(listen);
                }
                builder.build().map_err(|error| failed(error.to_string()))
            }
            Self::FirstRank { address, key } => {
                builder = builder.host();
                if let Some(key) = key {
                    builder = builder.key(key.clone());
                }
                if let Some(path) = &address.unix {
                    builder = builder.listen_unix(path);
                }
                if let Some(tcp) = address.tcp {
                    builder = builder.listen_tcp(tcp);
                }
                builder.build().map_err(|error| failed(error.to_string()))
            }
            Self::Other { directory, key, .. } => {
                builder = builder.join(directory);
                if let Some(key) = key {
                    builder = builder.key(key.clone());
                }
                if let Some(tcp) = directory.tcp
                    && let Some(own) = own_address_towards(tcp)
                {
                    builder = builder.listen_tcp(SocketAddr::new(own, 0));
                }
                let deadline = Instant::now() + JOIN_TIMEOUT;
                loop {
                    match builder.clone().build() {
                        Ok(space) => return Ok(space),
                        // The first process may not listen yet.
                        Err(SpaceError::Join {
                            error: ConnectError::Unreachable { .. }, ..
                        }) if Instant::now() < deadline => std::thread::sleep(JOIN_RETRY),
                        Err(error) => return Err(failed(error.to_string())),
                    }
                }
            }
        }
    }
}

/// Returns the address on which the first process listens for other machines.
fn first_address(placement: &Placement) -> Result<SocketAddr, String> {
    if let Some(directory) = placement.directory() {
        return resolve(directory);
    }
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy().into_owned();
    resolve(&format!("{name}:0")).map_err(|error| {
        format!("{error}; set directory = \"HOST:PORT\" in the placement file to an address of this machine")
    })
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    text.to_socket_addrs()
        .map_err(|error| format!("{text}: {error}"))?
        .next()
        .ok_or_else(|| format!("{text} has no address"))
}

/// Returns the address of this machine on the route to another. Sends nothing.
fn own_address_towards(other: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr =
        if other.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(other).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Reads the key that all ranks share: from the environment, or from the placement's `key_file`.
fn rank_key(
    placement: &Placement,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Key>, LaunchError> {
    let failed = |message: String| LaunchError::Start { process: "rank".into(), message };
    let text = match (variable(KEY_VARIABLE), placement.key_file()) {
        (Some(key), _) => key,
        (None, Some(path)) => pario_net::read_private_file(path, true)
            .map_err(|error| failed(format!("key file {}: {error}", path.display())))?,
        (None, None) => return Ok(None),
    };
    Key::from_hex(text.trim()).map(Some).map_err(|error| failed(error.to_string()))
}

/// Returns the address at which the first rank hosts the directory: the placement's `directory`, or
/// a socket path that all ranks of the job on this machine compute.
fn rank_address(
    program: &str,
    placement: &Placement,
    rank: &LauncherRank,
) -> Result<Address, LaunchError> {
    if let Some(directory) = placement.directory() {
        return resolve(directory).map(Address::tcp).map_err(|message| LaunchError::Start {
            process: placement.processes()[0].name.clone(),
            message,
        });
    }
    let parent = || rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let job = rank.job.clone().unwrap_or_else(|| format!("of-{}", parent()));
    let path = PrivateListener::rendezvous_path("flow", &format!("{program}\0{job}"));
    path.map(Address::unix).map_err(|error| LaunchError::Start {
        process: placement.processes()[0].name.clone(),
        message: format!("cannot choose a path for its socket: {error}"),
    })
}

//! Hosts that users name: their addresses, and whether a host is this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use crate::error::Error;

/// The default port at which a node listens for other machines.
pub const DEFAULT_PORT: u16 = 7411;

/// The time limit for finding the addresses of a name.
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);
/// The most addresses of a host that are tried.
const ADDRESSES_LIMIT: usize = 4;

/// A host and a port, as users write them: `HOST`, `HOST:PORT`, `[IPV6]:PORT` or an IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAndPort {
    pub host: String,
    /// The port, if it is named.
    pub port: Option<u16>,
}

impl HostAndPort {
    /// Splits the text; `None` if it names no host.
    pub fn parse(text: &str) -> Option<Self> {
        let of = |host: &str, port| {
            let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
            is_host.then(|| Self { host: host.to_owned(), port })
        };
        if let Some((host, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            return match rest.strip_prefix(':') {
                Some(port) => of(host, Some(port.parse().ok()?)),
                None if rest.is_empty() => of(host, None),
                None => None,
            };
        }
        if text.parse::<IpAddr>().is_ok() {
            return of(text, None);
        }
        match text.split_once(':') {
            Some((host, port)) => of(host, Some(port.parse().ok()?)),
            None => of(text, None),
        }
    }

    /// Finds the addresses of the host, with the port or the default one.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        let port = self.port.unwrap_or(DEFAULT_PORT);
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        // The system's look-up has no time limit. A thread that is left behind ends by itself.
        let (send, receive) = mpsc::channel();
        let host = self.host.clone();
        let look_up = move || {
            let found = (host.as_str(), port).to_socket_addrs().map(|found| {
                let mut addresses: Vec<SocketAddr> = Vec::new();
                for address in found.filter(|address| address.port() == port) {
                    if !addresses.contains(&address) {
                        addresses.push(address);
                    }
                }
                addresses
            });
            // The caller may have stopped waiting.
            let _ = send.send(found);
        };
        let started = std::thread::Builder::new().name("host look-up".to_owned()).spawn(look_up);
        let found = match started {
            Ok(_) => receive.recv_timeout(LOOKUP_LIMIT).unwrap_or_else(|_| {
                let seconds = LOOKUP_LIMIT.as_secs();
                let why = format!("the system has not found it within {seconds} s");
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }),
            Err(error) => Err(error),
        };
        let unknown = |why: String| not_an_address(&self.to_string(), &why);
        let mut found = found.map_err(|error| unknown(error.to_string()))?;
        found.truncate(ADDRESSES_LIMIT);
        if found.is_empty() { Err(unknown("it has no address".to_owned())) } else { Ok(found) }
    }

    /// Whether the host is this machine: by its name, or because one of its addresses is.
    pub fn is_this_machine(&self) -> bool {
        if self.host == "localhost" || self.host == own_name() {
            return true;
        }
        self.addresses().is_ok_and(|found| found.iter().any(|address| is_own(address.ip())))
    }
}

/// The name of this machine.
pub fn own_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The error for a text that names no cluster.
pub fn not_an_address(text: &str, why: &str) -> Error {
    Error::invalid(format!(
        "{text:?} is not the address of a cluster ({why}): write a host as in sun17, tcp:HOST:PORT, \
         unix:PATH, or the data directory of a node"
    ))
}

/// Whether an address is one of this machine: then the way to it begins at the address itself. This
/// sends nothing.
fn is_own(ip: IpAddr) -> bool {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let way = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, DEFAULT_PORT))?;
        socket.local_addr()
    };
    ip.is_loopback() || ip.is_unspecified() || way().is_ok_and(|own| own.ip() == ip)
}

impl std::fmt::Display for HostAndPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_written_with_and_without_ports() {
        for (text, host, port) in [
            ("sun17", "sun17", None),
            ("sun17.example.org:9", "sun17.example.org", Some(9)),
            ("10.0.0.7", "10.0.0.7", None),
            ("10.0.0.7:7411", "10.0.0.7", Some(7411)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[fe80::1]:80", "fe80::1", Some(80)),
        ] {
            let expected = HostAndPort { host: host.to_owned(), port };
            assert_eq!(HostAndPort::parse(text), Some(expected), "{text}");
        }
        for text in ["", ":80", "sun:many", "sun:70000", "[::1", "[::1]x", "a b", "a:1:2"] {
            assert_eq!(HostAndPort::parse(text), None, "{text}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_names_and_addresses() {
        for host in ["localhost", "127.0.0.1", "127.1.2.3", "::1", &own_name()] {
            assert!(HostAndPort::parse(host).unwrap().is_this_machine(), "{host}");
        }
        // An address for documents, which no machine has.
        assert!(!HostAndPort::parse("192.0.2.1").unwrap().is_this_machine());
    }

    #[test]
    fn the_default_port_completes_an_address() {
        let found = HostAndPort::parse("192.0.2.1").unwrap().addresses().unwrap();
        assert_eq!(found, ["192.0.2.1:7411".parse().unwrap()]);
        let error = HostAndPort::parse("no-such-host.invalid").unwrap().addresses().unwrap_err();
        assert!(
            error.to_string().contains("\"no-such-host.invalid\" is not the address"),
            "{error}"
        );
    }
}

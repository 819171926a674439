//! Sockets between two processes, with the same options as our links.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::net::sockopt;

/// The buffer size that our links over Unix sockets request.
const UNIX_BUFFER_BYTES: usize = 1 << 20;

/// A transport between two processes of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP over loopback.
    Tcp,
    /// A Unix socket.
    Unix,
}

impl Transport {
    /// Its name in figures, and between two processes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
        }
    }

    /// The transport of this name.
    pub fn of_name(name: &str) -> Result<Self> {
        match name {
            "tcp" => Ok(Self::Tcp),
            "unix" => Ok(Self::Unix),
            _ => bail!("{name} is not a transport"),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum SocketListener {
    /// On a port of loopback.
    Tcp(TcpListener),
    /// At a path.
    Unix(UnixListener),
}

impl SocketListener {
    /// Opens a listener: on any free port, or at this path.
    pub fn open(transport: Transport, path: &Path) -> Result<Self> {
        Ok(match transport {
            Transport::Tcp => Self::Tcp(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?),
            Transport::Unix => Self::Unix(UnixListener::bind(path)?),
        })
    }

    /// The address to connect to: a TCP address, or an empty text.
    pub fn address(&self) -> Result<String> {
        Ok(match self {
            Self::Tcp(listener) => listener.local_addr()?.to_string(),
            Self::Unix(_) => String::from("-"),
        })
    }

    /// Waits for a connection.
    pub fn accept(&self) -> Result<SocketStream> {
        match self {
            Self::Tcp(listener) => SocketStream::tcp(listener.accept()?.0),
            Self::Unix(listener) => Ok(SocketStream::unix(listener.accept()?.0)),
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub enum SocketStream {
    /// Of TCP.
    Tcp(TcpStream),
    /// Of a Unix socket.
    Unix(UnixStream),
}

impl SocketStream {
    /// Connects to a [`SocketListener`].
    pub fn connect(transport: Transport, address: &str, path: &Path) -> Result<Self> {
        match transport {
            Transport::Tcp => {
                let address: SocketAddr = address.parse().context("an address of TCP")?;
                Self::tcp(TcpStream::connect(address)?)
            }
            Transport::Unix => Ok(Self::unix(UnixStream::connect(path)?)),
        }
    }

    /// Disables Nagle's algorithm and sets the congestion control for fast lines; the kernel sizes
    /// the buffers.
    fn tcp(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        if let Err(error) = sockopt::set_tcp_congestion(&stream, "cubic") {
            eprintln!("note: no cubic on a bare socket: {error}");
        }
        Ok(Self::Tcp(stream))
    }

    fn unix(stream: UnixStream) -> Self {
        widen(&stream);
        Self::Unix(stream)
    }
}

/// Gives a Unix socket the buffers of our links.
pub fn widen(stream: &UnixStream) {
    if sockopt::set_socket_send_buffer_size_force(stream, UNIX_BUFFER_BYTES).is_err() {
        // The system may allow less, as for our links.
        let _ = sockopt::set_socket_send_buffer_size(stream, UNIX_BUFFER_BYTES);
    }
}

impl Read for SocketStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Write for SocketStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    #[test]
    fn both_transports_carry_bytes() {
        for transport in [Transport::Tcp, Transport::Unix] {
            let name = format!("pario-bench-wire-{}-{}", transport.name(), std::process::id());
            let path = env::temp_dir().join(name);
            let listener = SocketListener::open(transport, &path).unwrap();
            let mut near =
                SocketStream::connect(transport, &listener.address().unwrap(), &path).unwrap();
            let mut far = listener.accept().unwrap();
            near.write_all(b"token").unwrap();
            let mut bytes = [0; 5];
            far.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"token");
            // TCP has no file.
            let _ = std::fs::remove_file(&path);
            assert_eq!(Transport::of_name(transport.name()).unwrap(), transport);
        }
        assert!(Transport::of_name("carrier pigeon").is_err());
    }
}

//! Connecting to another space: which way, and the caller's side of the handshake.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::address::Address;
use crate::builder::LinkChoice;
use crate::carrier::{Carrier, Stream};
use crate::core::{Core, SPACES};
use crate::error::{ConnectError, KeyProblem};
use crate::handshake::{
    HandshakeSide, Hello, LIMIT_BYTES, WRONG_KEY, key_problem_from_check, key_problem_from_refusal,
    proof, shared_key,
};
use crate::link::Link;
use crate::sender::{Sender, User};

impl Core {
    /// Connects to the space at an address.
    pub fn connect(self: &Arc<Self>, address: &Address) -> Result<Arc<Link>, ConnectError> {
        if let Some(simulation) = &self.simulation {
            return simulation.connect(self, address);
        }
        if self.links_choice == LinkChoice::Nearest
            && let Some(peer) = address.space.and_then(|id| SPACES.lock().get(&id)?.upgrade())
        {
            return self.connect_memory(&peer);
        }
        let unix = address
            .unix_here()
            .filter(|_| self.links_choice != LinkChoice::Tcp || address.tcp.is_none());
        if let Some(path) = unix {
            let name = format!("unix={}", path.display());
            match connect_unix(path, Instant::now() + self.options.handshake_wait()) {
                Ok(stream) => {
                    let user = self.check_user(&stream).map_err(|reason| {
                        ConnectError::Untrusted { address: name.clone(), reason }
                    })?;
                    return self.handshake(Stream::Unix(stream), Some(user), name);
                }
                Err(error) if address.tcp.is_none() => {
                    return Err(ConnectError::Unreachable { address: name, error });
                }
                Err(_) => {}
            }
        }
        let Some(tcp) = address.tcp else {
            let reason = "its Unix socket is on another machine, and it does not listen on TCP";
            let (address, reason) = (address.to_string(), reason.to_owned());
            return Err(ConnectError::NoRoute { address, reason });
        };
        let name = format!("tcp={tcp}");
        match connect_tcp(&tcp, self.options.handshake_wait()) {
            // The machine answers; nothing is sent to it without a key.
            Ok(_) if self.key.is_none() && !tcp.ip().is_loopback() => {
                Err(ConnectError::Key { address: name, problem: KeyProblem::Missing })
            }
            Ok(stream) => self.handshake(Stream::Tcp(stream), None, name),
            Err(error) => Err(ConnectError::Unreachable { address: name, error }),
        }
    }

    /// Creates two links in the same process that pass packets to each other.
    fn connect_memory(self: &Arc<Self>, peer: &Arc<Self>) -> Result<Arc<Link>, ConnectError> {
        let wrong = |reason: &str| ConnectError::Refused {
            address: format!("{:?} in the same process", peer.name()),
            reason: reason.to_owned(),
        };
        let knows_key = self.key == peer.key;
        if !knows_key && self.key.is_some() && peer.key.is_some() {
            return Err(wrong("it has another key"));
        }
        if peer.is_closed() {
            return Err(wrong("it is closed"));
        }
        let new = |core: &Arc<Self>, to: &Arc<Self>| {
            let carrier = Carrier::Memory(OnceLock::new());
            let (space, name, user) = (to.id(), to.name().into(), Some(User::own()));
            let peer = Sender { space, name, user, knows_key, is_local: false };
            Link::new(core.clone(), core.next_id(), peer, carrier, None)
        };
        let (own, theirs) = (new(self, peer), new(peer, self));
        for (link, twin) in [(&own, &theirs), (&theirs, &own)] {
            if let Carrier::Memory(cell) = &link.carrier {
                let _ = cell.set(Arc::downgrade(twin));
            }
        }
        peer.register_link(&theirs);
        self.register_link(&own);
        Ok(own)
    }

    /// Returns the user that listens on a Unix socket. It must be the same user or root, unless
    /// this space may connect to every user.
    fn check_user(&self, stream: &UnixStream) -> Result<User, String> {
        let peer = User::of_peer(stream).map_err(|error| error.to_string())?;
        if peer.is_own_or_root() || self.connects_to_any_user {
            return Ok(peer);
        }
        let own = rustix::process::geteuid();
        Err(format!("it belongs to user {}, not to {}", peer.uid, own.as_raw()))
    }

    /// Performs the caller's side of the handshake, with a time limit.
    fn handshake(
        self: &Arc<Self>,
        mut stream: Stream,
        user: Option<User>,
        address: String,
    ) -> Result<Arc<Link>, ConnectError> {
        let deadline = Instant::now() + self.options.handshake_wait();
        let key = self.key.as_ref();
        let own = Hello::new(self.name(), self.id(), key.is_some());
        let result = (|| {
            send(&mut stream, &own.encode())?;
            let mut buffer = Vec::new();
            let host = receive(&mut stream, &mut buffer, deadline, Hello::decode)?;
            let key = shared_key(key, &host, user.is_some()).map_err(HandshakeError::Untrusted)?;
            send(&mut stream, proof(key, HandshakeSide::Caller, &own, &host).as_bytes())?;
            let given = receive(&mut stream, &mut buffer, deadline, |bytes| {
                Ok(bytes.first_chunk::<32>().map(|proof| (blake3::Hash::from_bytes(*proof), 32)))
            })?;
            if given != proof(key, HandshakeSide::Host, &own, &host) {
                return Err(HandshakeError::Untrusted(WRONG_KEY.to_owned()));
            }
            Ok((host, key.is_some(), stream.into_socket(self.options.silence)?))
        })();
        match result {
            Ok((host, knows_key, socket)) => {
                let (space, name) = (host.id, host.name.into());
                let peer = Sender { space, name, user, knows_key, is_local: false };
                Ok(self.add_link(self.next_id(), peer, Carrier::Socket(socket), None))
            }
            Err(HandshakeError::Io(error)) => Err(ConnectError::Unreachable { address, error }),
            Err(HandshakeError::Refused(reason)) => Err(match key_problem_from_refusal(&reason) {
                Some(problem) => ConnectError::Key { address, problem },
                None => ConnectError::Refused { address, reason },
            }),
            Err(HandshakeError::Untrusted(reason)) => Err(match key_problem_from_check(&reason) {
                Some(problem) => ConnectError::Key { address, problem },
                None => ConnectError::Untrusted { address, reason },
            }),
        }
    }
}

enum HandshakeError {
    Io(io::Error),
    Refused(String),
    Untrusted(String),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Sends bytes. A host that has refused may have closed the socket, but its refusal can still be
/// read.
fn send(stream: &mut Stream, bytes: &[u8]) -> Result<(), HandshakeError> {
    match stream.write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Reads one message of the host: decoded, or its refusal.
fn receive<T>(
    stream: &mut Stream,
    buffer: &mut Vec<u8>,
    deadline: Instant,
    decode: impl Fn(&[u8]) -> Result<Option<(T, usize)>, String>,
) -> Result<T, HandshakeError> {
    loop {
        match buffer.split_first() {
            Some((0, rest)) => {
                if let Some((message, len)) = decode(rest).map_err(HandshakeError::Untrusted)? {
                    buffer.drain(..=len);
                    return Ok(message);
                }
            }
            Some((1, rest)) => {
                if let Some(&[low, high]) = rest.first_chunk::<2>() {
                    let len = usize::from(u16::from_le_bytes([low, high]));
                    if let Some(text) = rest.get(2..2 + len) {
                        return Err(HandshakeError::Refused(
                            String::from_utf8_lossy(text).into_owned(),
                        ));
                    }
                }
            }
            Some(_) => {
                return Err(HandshakeError::Untrusted(
                    "it does not speak this protocol".to_owned(),
                ));
            }
            None => {}
        }
        let mut bytes = [0; LIMIT_BYTES];
        let room = LIMIT_BYTES.saturating_sub(buffer.len());
        if room == 0 {
            return Err(HandshakeError::Untrusted("its message is too long".to_owned()));
        }
        stream.set_timeout(deadline.saturating_duration_since(Instant::now()))?;
        match stream.read(&mut bytes[..room]) {
            Ok(0) => {
                let text = "it closed the connection in the middle of the handshake";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text).into());
            }
            Ok(count) => buffer.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let text = "it did not finish the handshake in time";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text).into());
            }
            Err(error) => return Err(error.into()),
        }
        if Instant::now() >= deadline {
            let text = "it did not finish the handshake in time";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text).into());
        }
    }
}

/// Connects to a Unix socket until the deadline. The system would wait without end while the queue
/// of the listener is full, as that of a paused process is.
pub fn connect_unix(path: &Path, deadline: Instant) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
    const PAUSE: Duration = Duration::from_millis(5);
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match rustix::net::connect(&stream, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(Errno::AGAIN) => {
                let text = "it accepts no connections: too many callers wait already";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let stream = UnixStream::from(stream);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn connect_tcp(address: &SocketAddr, within: Duration) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(address, within)
}

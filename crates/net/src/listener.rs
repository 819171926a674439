//! Listening sockets, and connections whose handshake is not finished.
//!
//! Strangers cannot take much: at most [`PENDING_LIMIT`] handshakes are under way, each with a
//! small buffer and a short time limit. When all are taken, a new connection displaces the oldest
//! handshake of the user that has most of them, so that a user who floods displaces itself.
//! Handshakes with users of this machine that have sent their hello are counted apart. Each user
//! has a bounded number of links, and users other than the process's own and root leave descriptors
//! in reserve ([`UserQuota`]). Without a descriptor for the next connection the listener pauses, so
//! that connections wait in the system's queue and wake no thread.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::carrier::{Carrier, Stream};
use crate::core::Core;
use crate::handshake::{HandshakeSide, Hello, LIMIT_BYTES, WRONG_KEY, proof, refusal, shared_key};
use crate::sender::{Sender, User};
use crate::user_quota::{LinkOwner, UserQuota};

/// Limit of handshakes under way.
const PENDING_LIMIT: usize = 64;
/// Limit of further handshakes, with users of this machine that have sent their hello: a job of
/// many processes starts all of them at once, and each may have to wait for a processor.
const GREETED_LIMIT: usize = 1024;
/// The time limit of a handshake.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(2);
/// Connections accepted before other work gets its turn.
const ACCEPTS_AT_ONCE: usize = 32;

/// The refusal when the process has no descriptors.
const NO_DESCRIPTORS: &str = "no descriptors are left";

pub(crate) const UNIX_LISTENER: u64 = 1;
pub(crate) const TCP_LISTENER: u64 = 2;

#[derive(Default)]
pub(crate) struct Listener {
    pub unix: Option<UnixListener>,
    pub tcp: Option<TcpListener>,
    /// The socket file, removed in the end.
    pub path: Option<PathBuf>,
    pending: BTreeMap<u64, PendingHandshake>,
    /// The poller ignores the sockets until the next maintenance.
    is_paused: bool,
    /// There was no descriptor for the last connection.
    lacks_descriptors: bool,
}

struct PendingHandshake {
    stream: Stream,
    peer: String,
    /// The user of the caller, over a Unix socket.
    user: Option<User>,
    since: Instant,
    buffer: Vec<u8>,
    /// The hellos of the caller and of this space, once they are exchanged.
    hellos: Option<(Hello, Hello)>,
}

impl PendingHandshake {
    /// Whether the caller is a user of this machine and has sent its hello.
    fn is_greeted(&self) -> bool {
        self.user.is_some() && self.hellos.is_some()
    }

    /// The owner, before it has proved anything.
    fn owner(&self) -> LinkOwner {
        self.user.as_ref().map_or(LinkOwner::Unknown, |user| LinkOwner::User(user.uid))
    }
}

impl Listener {
    /// Whether maintenance is due soon.
    pub fn needs_maintenance(&self) -> bool {
        self.is_paused || !self.pending.is_empty()
    }

    fn sockets(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        let unix = self.unix.iter().map(|socket| (UNIX_LISTENER, socket.as_fd()));
        unix.chain(self.tcp.iter().map(|socket| (TCP_LISTENER, socket.as_fd())))
    }

    /// Whether a connection waits to be accepted, as far as the system says.
    fn has_waiting_peer(&self, which: u64) -> bool {
        let socket = self.sockets().find(|(id, _)| *id == which);
        socket.is_some_and(|(_, fd)| {
            let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec::default())) != Ok(0)
        })
    }

    fn accept(
        &self,
        which: u64,
        admits_any_user: bool,
    ) -> io::Result<(Stream, String, Option<User>)> {
        match (which, &self.unix, &self.tcp) {
            (UNIX_LISTENER, Some(listener), _) => {
                let (stream, _) = listener.accept()?;
                let user = User::of_peer(&stream)?;
                let peer = match user.pid {
                    0 => "a process of another pid namespace".to_owned(),
                    pid => format!("process {pid}"),
                };
                if !admits_any_user && !user.is_own_or_root() {
                    let text = format!("{peer} of user {}", user.uid);
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
                }
                stream.set_nonblocking(true)?;
                Ok((Stream::Unix(stream), peer, Some(user)))
            }
            (_, _, Some(listener)) => {
                let (stream, address) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Stream::Tcp(stream), address.to_string(), None))
            }
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Core {
    /// Accepts waiting connections.
    pub fn on_connection_waiting(self: &Arc<Self>, which: u64) {
        for _ in 0..ACCEPTS_AT_ONCE {
            let mut listener = self.listener.lock();
            match listener.accept(which, self.admits_any_user) {
                Ok(caller) => {
                    listener.lacks_descriptors = false;
                    self.begin_handshake(&mut listener, caller);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.refuse(&error.to_string(), "only the same user may come in here");
                }
                Err(error) if is_out_of_descriptors(&error) => {
                    // The system reports this even without a waiting connection.
                    if !listener.has_waiting_peer(which) {
                        return;
                    }
                    let Some((id, oldest)) = listener.pending.pop_first() else {
                        return self.pause_listening(&mut listener);
                    };
                    self.reject(id, &oldest, NO_DESCRIPTORS);
                }
                Err(_) => return,
            }
        }
    }

    /// Pauses: a connection that cannot be accepted would wake the poller without end.
    fn pause_listening(&self, listener: &mut Listener) {
        if let Some(poller) = &self.poller {
            listener.sockets().for_each(|(_, socket)| poller.remove(socket));
        }
        listener.is_paused = true;
        if !std::mem::replace(&mut listener.lacks_descriptors, true) {
            self.refuse("a caller", NO_DESCRIPTORS);
        }
    }

    /// Resumes after a pause.
    pub fn resume_listening(&self) {
        let mut listener = self.listener.lock();
        if let Some(poller) = &self.poller
            && listener.is_paused
        {
            let reopen =
                |(id, socket)| matches!(poller.add(socket, id), Ok(()) | Err(Errno::EXIST));
            let is_open = listener.sockets().all(reopen);
            listener.is_paused = !is_open;
        }
    }

    fn begin_handshake(
        self: &Arc<Self>,
        listener: &mut Listener,
        (stream, peer, user): (Stream, String, Option<User>),
    ) {
        let Some(poller) = &self.poller else { return };
        let id = self.next_id();
        let (since, buffer) = (Instant::now(), Vec::new());
        let pending = PendingHandshake { stream, peer, user, since, buffer, hellos: None };
        // Over TCP the user is not known yet.
        if pending.user.is_some() {
            let owner = pending.owner();
            let begun = listener.pending.values().filter(|other| other.owner() == owner).count();
            let taken = self.accepted(owner) + begun;
            if let Err(reason) = self.user_quota().admit(owner, taken, pending.stream.as_fd()) {
                return self.reject(id, &pending, &reason);
            }
        }
        self.evict_handshakes(listener);
        if poller.add(pending.stream.as_fd(), id).is_ok() {
            listener.pending.insert(id, pending);
        }
    }

    /// The quota of one user.
    fn user_quota(&self) -> UserQuota {
        UserQuota::new(self.options.links_per_user, self.options.reserved_descriptors)
    }

    /// Makes room for one more handshake: rejects the oldest of the user that has most, unless its
    /// hello has come by now.
    fn evict_handshakes(self: &Arc<Self>, listener: &mut Listener) {
        for (is_greeted, limit) in [(false, PENDING_LIMIT), (true, GREETED_LIMIT)] {
            let of_kind =
                |(_, pending): &(&u64, &PendingHandshake)| pending.is_greeted() == is_greeted;
            while listener.pending.iter().filter(of_kind).count() >= limit {
                let mut counts: HashMap<LinkOwner, usize> = HashMap::new();
                for (_, pending) in listener.pending.iter().filter(of_kind) {
                    *counts.entry(pending.owner()).or_default() += 1;
                }
                let most = counts.values().copied().max().unwrap_or(0);
                let mut waiting = listener.pending.iter().filter(of_kind);
                let oldest = waiting.find(|(_, pending)| counts[&pending.owner()] == most);
                let Some(id) = oldest.map(|(id, _)| *id) else { break };
                let Some(mut oldest) = listener.pending.remove(&id) else { break };
                if oldest.hellos.is_none()
                    && matches!(self.continue_handshake(&mut oldest), Ok(HandshakeStep::More))
                    && oldest.is_greeted()
                {
                    listener.pending.insert(id, oldest);
                } else {
                    self.reject(id, &oldest, "too many callers that say nothing");
                }
            }
        }
    }

    /// Continues a handshake that has become readable. Returns false if there is none.
    pub fn on_handshake_readable(self: &Arc<Self>, id: u64) -> bool {
        let mut listener = self.listener.lock();
        let Some(mut pending) = listener.pending.remove(&id) else { return false };
        match self.continue_handshake(&mut pending) {
            Ok(HandshakeStep::More) => {
                listener.pending.insert(id, pending);
            }
            Ok(HandshakeStep::Done(peer)) => {
                drop(listener);
                self.finish_handshake(id, pending, peer);
            }
            Err(reason) => {
                drop(listener);
                self.reject(id, &pending, &reason);
            }
        }
        true
    }

    fn continue_handshake(&self, pending: &mut PendingHandshake) -> Result<HandshakeStep, String> {
        let mut bytes = [0; LIMIT_BYTES];
        let room = LIMIT_BYTES - pending.buffer.len();
        match pending.stream.read(&mut bytes[..room]) {
            Ok(0) => return Err("it left in the middle of the handshake".to_owned()),
            Ok(count) => pending.buffer.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(HandshakeStep::More);
            }
            Err(error) => return Err(error.to_string()),
        }
        let key = self.key.as_ref();
        let Some((caller, host)) = &pending.hellos else {
            let Some((caller, len)) = Hello::decode(&pending.buffer)? else {
                return Ok(HandshakeStep::More);
            };
            if len != pending.buffer.len() {
                return Err("it does not wait for an answer".to_owned());
            }
            shared_key(key, &caller, pending.user.is_some())?;
            let host = Hello::new(self.name(), self.id(), key.is_some());
            let mut answer = vec![0];
            answer.extend_from_slice(&host.encode());
            pending.stream.write_all(&answer).map_err(|error| error.to_string())?;
            pending.buffer.clear();
            pending.hellos = Some((caller, host));
            return Ok(HandshakeStep::More);
        };
        let Some(given) = pending.buffer.first_chunk::<32>() else {
            return Ok(HandshakeStep::More);
        };
        if pending.buffer.len() > 32 {
            return Err("it does not wait for an answer".to_owned());
        }
        let key = shared_key(key, caller, pending.user.is_some())?;
        // Comparing hashes takes the same time wherever they differ.
        if blake3::Hash::from_bytes(*given) != proof(key, HandshakeSide::Caller, caller, host) {
            return Err(WRONG_KEY.to_owned());
        }
        let mut answer = vec![0];
        answer.extend_from_slice(proof(key, HandshakeSide::Host, caller, host).as_bytes());
        let caller = (caller.clone(), key.is_some());
        pending.stream.write_all(&answer).map_err(|error| error.to_string())?;
        Ok(HandshakeStep::Done(caller))
    }

    fn finish_handshake(
        self: &Arc<Self>,
        id: u64,
        pending: PendingHandshake,
        (peer, knows_key): (Hello, bool),
    ) {
        let owner = match pending.owner() {
            LinkOwner::Unknown if knows_key => LinkOwner::Keyed,
            owner => owner,
        };
        if owner == LinkOwner::Unknown {
            let taken = self.accepted(owner);
            if let Err(reason) = self.user_quota().admit(owner, taken, pending.stream.as_fd()) {
                return self.reject(id, &pending, &reason);
            }
        }
        if let Some(poller) = &self.poller {
            poller.remove(pending.stream.as_fd());
        }
        match pending.stream.into_socket(self.options.silence) {
            Ok(socket) => {
                let (space, name, user) = (peer.id, peer.name.into(), pending.user);
                let peer = Sender { space, name, user, knows_key, is_local: false };
                self.add_link(id, peer, Carrier::Socket(socket), Some(owner));
            }
            Err(error) => self.refuse(&pending.peer, &error.to_string()),
        }
    }

    fn reject(&self, _id: u64, pending: &PendingHandshake, reason: &str) {
        if let Some(poller) = &self.poller {
            poller.remove(pending.stream.as_fd());
        }
        let text = refusal(reason);
        let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
        let _ = rustix::net::send(pending.stream.as_fd(), &text, flags);
        self.refuse(&pending.peer, reason);
    }

    /// Rejects handshakes that have taken too long.
    pub fn expire_handshakes(self: &Arc<Self>, now: Instant) {
        loop {
            let mut listener = self.listener.lock();
            let Some(oldest) = listener.pending.first_entry() else { return };
            if now.duration_since(oldest.get().since) < HANDSHAKE_TIME {
                return;
            }
            let (id, pending) = oldest.remove_entry();
            drop(listener);
            self.reject(id, &pending, "it said nothing for too long");
        }
    }

    /// Closes the listening sockets and drops pending handshakes.
    pub fn stop_listening(&self) {
        let mut listener = self.listener.lock();
        // While the socket listens, the name is its own.
        if let Some(path) = listener.path.take() {
            let _ = std::fs::remove_file(path);
        }
        if let Some(poller) = &self.poller {
            if let Some(unix) = listener.unix.take() {
                poller.remove(&unix);
            }
            if let Some(tcp) = listener.tcp.take() {
                poller.remove(&tcp);
            }
        }
        listener.pending.clear();
    }
}

enum HandshakeStep {
    More,
    Done((Hello, bool)),
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

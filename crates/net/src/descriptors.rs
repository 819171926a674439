//! Passing descriptors over a Unix socket: a client sends a few bytes, and receives bytes and open
//! files.
//!
//! *Strangers cannot take much.* A server has one thread, which polls. It serves at most
//! [`CLIENTS_PER_USER`] clients of each user. A client beyond that displaces the client of its user
//! that has been silent for longest, or waits until one has been silent for [`IDLE_GRACE`]: each
//! client has that long for its request. At most [`WAITING_PER_USER`] wait, and users other than
//! the process's own and root leave descriptors in reserve ([`UserQuota`]); the server closes
//! further connections at once. It disconnects a client after [`SILENCE_TIMEOUT`] that stops in the
//! middle of a request, does not read its reply or has never sent a request. It serves clients in
//! turn, one request each.

use std::collections::VecDeque;
use std::fs::Permissions;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::builder::listen_at;
use crate::descriptor_messages::{DESCRIPTORS_PER_MESSAGE, receive_message, send_message};
use crate::sender::User;
use crate::user_quota::{LinkOwner, UserQuota};

/// The longest request.
const REQUEST_BYTES: usize = 64 << 10;
/// The longest reply.
const ANSWER_BYTES: usize = 64 << 20;
/// The most descriptors of a reply.
const DESCRIPTORS_LIMIT: usize = 1 << 16;
/// Clients of one user that are served at the same time.
const CLIENTS_PER_USER: usize = 64;
/// Clients of one user that may wait for a slot.
const WAITING_PER_USER: usize = 448;
/// Connections accepted before clients are served again.
const ACCEPTS_AT_ONCE: usize = 64;
/// The interval at which the server looks for a slot while clients wait.
const WAITING_RETRY: Duration = Duration::from_millis(10);
/// Descriptors of the process reserved for its own user and root.
const RESERVED_DESCRIPTORS: usize = 128;
/// The time a client may be silent in the middle of a request or reply.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time a client may be silent when others need its slot.
const IDLE_GRACE: Duration = Duration::from_millis(500);
/// Bytes in front of a reply.
const FRONT_BYTES: usize = 9;

const GIVEN: u8 = 0;
const REFUSED: u8 = 1;

/// The reply of a handler: bytes and descriptors, or the bytes of a refusal.
type DescriptorReply = Result<(Vec<u8>, Vec<OwnedFd>), Vec<u8>>;
type Handler = dyn Fn(&User, &[u8]) -> DescriptorReply + Send + Sync;

/// Passes descriptors to processes of this machine that request them over a Unix socket.
///
/// The handler gets a request and its user, as the kernel reports it, and returns bytes and
/// descriptors, or refuses with bytes. The one thread of the server calls it, so it should be
/// quick. Dropping the server ends the thread and removes the socket.
///
/// ```
/// use std::fs::File;
/// use std::io::Read;
///
/// use pario_net::{DescriptorClient, DescriptorServer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("files");
/// let _server = DescriptorServer::open(&path, false, |user, request| match request {
///     b"zeros" if user.uid != 1 => {
///         let zeros = File::open("/dev/zero").map_err(|error| error.to_string().into_bytes())?;
///         Ok((b"without end".to_vec(), vec![zeros.into()]))
///     }
///     _ => Err(b"there is no such file".to_vec()),
/// })?;
///
/// let mut client = DescriptorClient::connect(&path)?;
/// let (bytes, mut descriptors) = client.request(b"zeros")?.unwrap();
/// assert_eq!(bytes, b"without end");
/// let mut first = [1; 4];
/// File::from(descriptors.remove(0)).read_exact(&mut first)?;
/// assert_eq!(first, [0; 4]);
/// assert_eq!(client.request(b"ones")?.unwrap_err(), b"there is no such file");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DescriptorServer {
    path: PathBuf,
    /// When this end is dropped, the thread ends.
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl DescriptorServer {
    /// Listens at a path. Replaces a socket without a listener. Unless every user of the machine is
    /// admitted, only the same user and root are.
    pub fn open(
        path: &Path,
        admit_any_user: bool,
        handler: impl Fn(&User, &[u8]) -> DescriptorReply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = listen_at(path)?;
        if admit_any_user {
            std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
        }
        listener.set_nonblocking(true)?;
        let (end, is_over) = UnixStream::pair()?;
        let mut server = ServerThread {
            listener,
            is_over,
            admits_any_user: admit_any_user,
            handler: Box::new(handler),
            clients: Vec::new(),
            waiting: VecDeque::new(),
            accepts_from: Instant::now(),
        };
        let thread = std::thread::Builder::new().name("descriptors".to_owned());
        let thread = Some(thread.spawn(move || server.run())?);
        Ok(Self { path: path.to_owned(), end: Some(end), thread })
    }
}

impl Drop for DescriptorServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The thread of a server.
struct ServerThread {
    listener: UnixListener,
    is_over: UnixStream,
    admits_any_user: bool,
    handler: Box<Handler>,
    clients: Vec<ClientConnection>,
    /// Accepted clients without a slot, in the order in which they came.
    waiting: VecDeque<ClientConnection>,
    /// When the system had no descriptors left, the server accepts again at this time.
    accepts_from: Instant,
}

struct ClientConnection {
    stream: UnixStream,
    user: User,
    /// Received bytes without a reply yet.
    received: Vec<u8>,
    /// The reply under way: bytes, how many of them are written, and descriptors that follow.
    answer: Vec<u8>,
    written: usize,
    descriptors: VecDeque<Vec<OwnedFd>>,
    /// The time of the last progress.
    since: Instant,
    has_asked: bool,
}

/// The client must be disconnected.
struct Disconnect;

impl ServerThread {
    fn run(&mut self) {
        while self.wait() {
            let now = Instant::now();
            if now >= self.accepts_from {
                self.accept();
            }
            let handler = &*self.handler;
            self.clients.retain_mut(|client| {
                client.serve(handler).is_ok() && client.deadline().is_none_or(|until| now < until)
            });
            self.admit_waiting();
        }
    }

    /// Waits for work. Returns false if the server is dropped.
    fn wait(&self) -> bool {
        let now = Instant::now();
        let mut until = self.clients.iter().filter_map(ClientConnection::deadline).min();
        let mut polled = vec![PollFd::new(&self.is_over, PollFlags::IN)];
        for client in &self.clients {
            let what = if client.is_answered() { PollFlags::IN } else { PollFlags::OUT };
            polled.push(PollFd::new(&client.stream, what));
        }
        if now >= self.accepts_from {
            polled.push(PollFd::new(&self.listener, PollFlags::IN));
        } else {
            until = Some(until.map_or(self.accepts_from, |until| until.min(self.accepts_from)));
        }
        if !self.waiting.is_empty() {
            let look = now + WAITING_RETRY;
            until = Some(until.map_or(look, |until| until.min(look)));
        }
        if self.clients.iter().any(ClientConnection::has_request) {
            until = Some(now);
        }
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(now);
            let left = if left.is_zero() { left } else { left + Duration::from_millis(1) };
            let tv_sec = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
            Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() }
        });
        let _ = poll(&mut polled, timeout.as_ref());
        polled[0].revents().is_empty()
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // The poll would return at once, because a connection still waits.
                    if error.raw_os_error().is_some_and(is_shortage) {
                        self.displace(|_| true, Duration::ZERO);
                    }
                    self.accepts_from = Instant::now() + Duration::from_millis(10);
                    return;
                }
            }
        }
    }

    /// Gives a connection a slot, or lets it wait for one; closes it if its user is not admitted or
    /// has too many.
    fn admit(&mut self, stream: UnixStream) {
        let Ok(user) = User::of_peer(&stream) else { return };
        let is_welcome = self.admits_any_user || user.is_own_or_root();
        if !is_welcome || stream.set_nonblocking(true).is_err() {
            return;
        }
        let is_same = |other: &&ClientConnection| other.user.uid == user.uid;
        let taken = self.clients.iter().chain(&self.waiting).filter(is_same).count();
        let quota = UserQuota::new(CLIENTS_PER_USER + WAITING_PER_USER, RESERVED_DESCRIPTORS);
        if let Err(reason) = quota.admit(LinkOwner::User(user.uid), taken, stream.as_fd()) {
            tracing::warn!(uid = user.uid, reason, "a client for descriptors is refused");
            return;
        }
        let client = ClientConnection::new(stream, user);
        if self.has_free_slot(client.user.uid) {
            self.clients.push(client);
        } else {
            self.waiting.push_back(client);
        }
    }

    /// Whether one more client of a user can be served. Frees a slot if one of its clients was
    /// silent long enough.
    fn has_free_slot(&mut self, uid: u32) -> bool {
        let count = self.clients.iter().filter(|client| client.user.uid == uid).count();
        count < CLIENTS_PER_USER || self.displace(|client| client.user.uid == uid, IDLE_GRACE)
    }

    /// Gives free slots to waiting clients in order.
    fn admit_waiting(&mut self) {
        for mut client in std::mem::take(&mut self.waiting) {
            if self.has_free_slot(client.user.uid) {
                client.since = Instant::now();
                self.clients.push(client);
            } else {
                self.waiting.push_back(client);
            }
        }
    }

    /// Disconnects the longest silent client among some, if it was silent for at least this time.
    /// Returns whether there was one.
    fn displace(&mut self, some: impl Fn(&ClientConnection) -> bool, at_least: Duration) -> bool {
        let clients = self.clients.iter().enumerate().filter(|(_, client)| some(client));
        let longest = clients.min_by_key(|(_, client)| client.since);
        let silent = longest.filter(|(_, client)| client.since.elapsed() >= at_least);
        silent.map(|(place, _)| place).map(|place| self.clients.swap_remove(place)).is_some()
    }
}

/// Whether a disconnect makes room for the next connection: no descriptors or no memory are left.
fn is_shortage(error: i32) -> bool {
    matches!(
        Errno::from_raw_os_error(error),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS
    )
}

impl ClientConnection {
    fn new(stream: UnixStream, user: User) -> Self {
        Self {
            stream,
            user,
            received: Vec::new(),
            answer: Vec::new(),
            written: 0,
            descriptors: VecDeque::new(),
            since: Instant::now(),
            has_asked: false,
        }
    }

    fn is_answered(&self) -> bool {
        self.written == self.answer.len() && self.descriptors.is_empty()
    }

    /// Whether a whole request is there.
    fn has_request(&self) -> bool {
        let Some((front, rest)) = self.received.split_first_chunk::<4>() else { return false };
        self.is_answered() && rest.len() >= u32::from_le_bytes(*front) as usize
    }

    /// When it is disconnected; never between requests.
    fn deadline(&self) -> Option<Instant> {
        let is_idle = self.has_asked && self.received.is_empty() && self.is_answered();
        (!is_idle).then(|| self.since + SILENCE_TIMEOUT)
    }

    /// Reads, handles and writes as far as possible, one request at most: the next one's turn comes
    /// after all others.
    fn serve(&mut self, handler: &Handler) -> Result<(), Disconnect> {
        let mut is_done = false;
        loop {
            self.write()?;
            if !self.is_answered() || is_done {
                return Ok(());
            }
            let Some((front, rest)) = self.received.split_first_chunk::<4>() else {
                if self.read()? { continue } else { return Ok(()) }
            };
            let len = u32::from_le_bytes(*front) as usize;
            if len > REQUEST_BYTES {
                return Err(Disconnect);
            }
            let Some(request) = rest.get(..len) else {
                if self.read()? { continue } else { return Ok(()) }
            };
            let user = &self.user;
            let given = catch_unwind(AssertUnwindSafe(|| handler(user, request)));
            self.received.drain(..4 + len);
            self.has_asked = true;
            is_done = true;
            self.answer(given.unwrap_or_else(|_| Err(b"the handler panicked".to_vec())))?;
        }
    }

    /// Reads available bytes. Returns whether there were any.
    fn read(&mut self) -> Result<bool, Disconnect> {
        let mut bytes = [0; 4096];
        let room = (4 + REQUEST_BYTES).saturating_sub(self.received.len()).min(bytes.len());
        match rustix::io::read(&self.stream, &mut bytes[..room]) {
            Ok(0) => Err(Disconnect),
            Ok(count) => {
                self.received.extend_from_slice(&bytes[..count]);
                self.since = Instant::now();
                Ok(true)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(Errno::INTR) => Ok(true),
            Err(_) => Err(Disconnect),
        }
    }

    fn answer(&mut self, given: DescriptorReply) -> Result<(), Disconnect> {
        let (what, bytes, descriptors) = match given {
            Ok((bytes, descriptors)) => (GIVEN, bytes, descriptors),
            Err(bytes) => (REFUSED, bytes, Vec::new()),
        };
        if bytes.len() > ANSWER_BYTES || descriptors.len() > DESCRIPTORS_LIMIT {
            tracing::error!("a reply with too many bytes or descriptors is not sent");
            return Err(Disconnect);
        }
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
        self.answer = vec![what];
        self.answer.extend_from_slice(&number(bytes.len()));
        self.answer.extend_from_slice(&number(descriptors.len()));
        self.answer.extend_from_slice(&bytes);
        self.written = 0;
        let mut descriptors = descriptors.into_iter().peekable();
        while descriptors.peek().is_some() {
            self.descriptors
                .push_back(descriptors.by_ref().take(DESCRIPTORS_PER_MESSAGE).collect());
        }
        Ok(())
    }

    /// Writes as much as the socket takes.
    fn write(&mut self) -> Result<(), Disconnect> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            let result = if self.written < self.answer.len() {
                let sent = rustix::net::send(&self.stream, &self.answer[self.written..], flags);
                sent.map(|count| self.written += count).map_err(Into::into)
            } else if let Some(together) = self.descriptors.front() {
                let together: Vec<BorrowedFd<'_>> = together.iter().map(AsFd::as_fd).collect();
                let sent = send_message(&self.stream, &[0], &together);
                sent.map(|()| drop(self.descriptors.pop_front()))
            } else {
                return Ok(());
            };
            match result {
                Ok(()) => self.since = Instant::now(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Disconnect),
            }
        }
    }
}

/// Sends requests to a [`DescriptorServer`].
#[derive(Debug)]
pub struct DescriptorClient {
    stream: UnixStream,
    server_user: User,
}

impl DescriptorClient {
    /// Connects to the server at a path. The client trusts the process that listens there: the
    /// caller must know that no other user can put a socket at the path, or check
    /// [`server_user`](Self::server_user).
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        let server_user = User::of_peer(&stream)?;
        Ok(Self { stream, server_user })
    }

    /// Sets the time limit of a reply. Without a limit the client waits as long as the server
    /// exists.
    pub fn set_timeout(&self, within: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(within))?;
        self.stream.set_write_timeout(Some(within))
    }

    /// The user of the server, as the kernel reports it.
    pub fn server_user(&self) -> &User {
        &self.server_user
    }

    /// Sends a request of up to 64 KiB; returns bytes and descriptors, or the bytes of a refusal.
    /// Requests can follow each other; after an error the connection is unusable. The server
    /// disconnects the longest silent client when many others come.
    pub fn request(&mut self, request: &[u8]) -> io::Result<DescriptorReply> {
        if request.len() > REQUEST_BYTES {
            let text = format!("a request has {} bytes, more than {REQUEST_BYTES}", request.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut message = u32::try_from(request.len()).unwrap_or(0).to_le_bytes().to_vec();
        message.extend_from_slice(request);
        let mut rest = &message[..];
        while !rest.is_empty() {
            match rustix::net::send(&self.stream, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut front = [0; FRONT_BYTES];
        self.stream.read_exact(&mut front)?;
        let [what, l0, l1, l2, l3, count @ ..] = front;
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let count = u32::from_le_bytes(count) as usize;
        if what > REFUSED || len > ANSWER_BYTES || count > DESCRIPTORS_LIMIT {
            return Err(wrong("a reply of unknown kind"));
        }
        // Read not a byte more: the next one may carry descriptors.
        let mut bytes = Vec::new();
        Read::by_ref(&mut self.stream).take(len as u64).read_to_end(&mut bytes)?;
        if bytes.len() < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut descriptors = Vec::new();
        while descriptors.len() < count {
            let before = descriptors.len();
            self.receive_descriptors(&mut descriptors)?;
            if descriptors.len() == before || descriptors.len() > count {
                return Err(wrong("another number of descriptors than it announced"));
            }
        }
        Ok(if what == GIVEN { Ok((bytes, descriptors)) } else { Err(bytes) })
    }

    fn receive_descriptors(&self, descriptors: &mut Vec<OwnedFd>) -> io::Result<()> {
        let message = receive_message(&self.stream, &mut [0])?;
        descriptors.extend(message.descriptors);
        if message.len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if message.is_truncated {
            let text =
                "no room for more descriptors in this process; raise the limit of open files";
            return Err(io::Error::other(text));
        }
        Ok(())
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server sent {what}"))
}

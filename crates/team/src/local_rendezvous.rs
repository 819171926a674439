//! The rendezvous of the processes of one machine: how they find each other, notice that one is
//! gone, and pass memory.
//!
//! They meet at a socket in the private runtime directory of their user, so that no other user can
//! take its name. Both sides check the user of the other, too.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pario_net::{
    PrivateListener, SharedMemory, SharedMemoryShape, User, receive_message, send_message,
};
use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::board::{self, Board};
use crate::error::{TeamError, some_ranks};

/// The time limit of a follower's greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between attempts to find the leader.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes of a message.
const MESSAGE_BYTES: usize = 4096;

/// The reply to a follower: the board comes with it.
const WELCOME: u8 = 0;
/// The rank is taken, perhaps by the last job of this name, which is about to end. The process that
/// has it follows as a text, if it is known.
const TRY_AGAIN: u8 = 1;
/// Refused; a text follows.
const REFUSED: u8 = 2;

/// A process of a job, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub job: String,
    pub size: u32,
    pub rank: u32,
}

/// The connections of a process to the others of its machine. Dropping it closes them.
pub enum LocalRendezvous {
    /// There is no other process.
    Alone,
    /// The machine leader, to which all others of the machine are connected.
    Leader(RendezvousLeader),
    /// All others.
    Follower(RendezvousFollower),
}

pub struct RendezvousLeader {
    shared: Arc<LeaderState>,
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// The state that the leader shares with its thread.
struct LeaderState {
    member: Member,
    memory: Arc<SharedMemory>,
    board: Board,
    /// The sockets by rank; none for the leader itself.
    followers: Mutex<Vec<Option<Arc<OwnedFd>>>>,
    admission: Option<AdmissionCheck>,
}

pub struct RendezvousFollower {
    shared: Arc<LeaderConnection>,
    thread: Option<JoinHandle<()>>,
}

struct LeaderConnection {
    socket: OwnedFd,
    /// Descriptors that the leader has passed and no thread has taken yet.
    given: Mutex<HashMap<u64, OwnedFd>>,
    is_changed: Condvar,
}

/// Asks the team coordinator whether a rank may join.
pub type AdmissionCheck = Box<dyn Fn(u32) -> Result<(), String> + Send + Sync>;

/// What a machine leader does before it admits others: it gets the board.
pub type PrepareLeader<'a> =
    &'a dyn Fn(&Arc<SharedMemory>) -> Result<Option<AdmissionCheck>, TeamError>;

/// Finds the other processes of this machine; returns the memory of the board. Rank 0 leads, or the
/// first process, if rank 0 may be elsewhere.
pub fn meet(
    member: &Member,
    machine: Option<&str>,
    until: Instant,
    open: PrepareLeader<'_>,
) -> Result<(LocalRendezvous, Arc<SharedMemory>), TeamError> {
    let shape = board::shape(member.size);
    let lead = |listener: Option<PrivateListener>| {
        let memory = SharedMemory::new(shape);
        let memory = memory.map_err(|error| TeamError::system("memory for a team", error))?;
        let memory = Arc::new(memory);
        Board::new(memory.part(0), member.size, member.rank).lead(machine.is_some());
        let admission = open(&memory)?;
        let rendezvous = match listener {
            Some(listener) => LocalRendezvous::Leader(RendezvousLeader::serve(
                listener, member, &memory, admission,
            )?),
            None => LocalRendezvous::Alone,
        };
        Ok((rendezvous, memory))
    };
    if member.size == 1 {
        return lead(None);
    }
    let path = rendezvous_path(&member.job, machine.unwrap_or(""))?;
    loop {
        let follows = machine.is_some() || member.rank != 0;
        let is_late = Instant::now() >= until;
        // The process that has the rank, if there is one.
        let mut holder = None;
        // Rank 0 follows no other process, but learns which one has its rank.
        if (follows || is_late)
            && let Some((follower, memory)) =
                RendezvousFollower::connect(member, &path, shape, &mut holder)?
        {
            return Ok((LocalRendezvous::Follower(follower), memory));
        }
        let leads = machine.is_some() || member.rank == 0;
        if let Some(listener) = if leads { listen(&path)? } else { None } {
            return lead(Some(listener));
        }
        if is_late {
            let job = member.job.clone();
            if let Some(holder) = holder {
                let (rank, newcomer) = (member.rank, describe_process(std::process::id()));
                return Err(TeamError::Invalid(format!(
                    "{newcomer} cannot be rank {rank} of job {job}: {holder} is that rank. If both \
                     belong to one job, give each process its own rank; if they belong to two jobs, \
                     give each job a name of its own with the variable PARIO_JOB"
                )));
            }
            if !follows {
                return Err(TeamError::Invalid(format!(
                    "job {job}: another job of this name is running; give them different names, \
                     with PARIO_JOB for example"
                )));
            }
            let (missing, size) = (format!("{} is", some_ranks(&[0])), member.size);
            return Err(TeamError::Missing { job, missing, size, seconds: 0 });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Listens at a path; none if another process does: the last job of this name may be about to end.
fn listen(path: &Path) -> Result<Option<PrivateListener>, TeamError> {
    PrivateListener::bind(path, SocketType::SEQPACKET)
        .map_err(|error| TeamError::system("waiting for a team", error))
}

/// The path at which the processes of a job of this user meet.
fn rendezvous_path(job: &str, machine: &str) -> Result<PathBuf, TeamError> {
    PrivateListener::rendezvous_path("team", &format!("{machine}\0{job}"))
        .map_err(|error| TeamError::system("the socket of a team", error))
}

fn socket() -> Result<OwnedFd, TeamError> {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(|error| TeamError::system("a socket for a team", error))
}

/// Describes a process of this machine.
fn describe_process(pid: u32) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(program) => format!("process {pid} ({}) on host {host}", program.trim_end()),
        Err(_) => format!("process {pid} on host {host}"),
    }
}

/// Whether the process at the other end is of the same user.
fn is_own(socket: &OwnedFd) -> bool {
    User::of_peer(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid().as_raw())
}

impl Member {
    fn greeting(&self) -> Vec<u8> {
        let mut bytes = self.size.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.rank.to_le_bytes());
        bytes.extend_from_slice(self.job.as_bytes());
        bytes
    }

    fn of_greeting(bytes: &[u8]) -> Option<Self> {
        let (size, rest) = bytes.split_first_chunk::<4>()?;
        let (rank, job) = rest.split_first_chunk::<4>()?;
        let job = String::from_utf8(job.to_vec()).ok()?;
        Some(Self { job, size: u32::from_le_bytes(*size), rank: u32::from_le_bytes(*rank) })
    }
}

/// Passes memory to followers of a leader, as long as the leader is there.
pub struct MemoryHandOut(Weak<LeaderState>);

impl MemoryHandOut {
    /// Passes memory to these ranks of the machine.
    pub fn to(&self, ranks: &[u32], number: u64, memory: &SharedMemory) -> Result<(), TeamError> {
        let Some(leader) = self.0.upgrade() else { return Ok(()) };
        let followers = leader.followers.lock().clone();
        let followers = ranks.iter().filter_map(|rank| followers.get(*rank as usize)?.as_ref());
        pass(followers, number, memory)
    }
}

/// Passes memory to followers. The thread of the leader notices processes that are gone.
fn pass<'a>(
    followers: impl Iterator<Item = &'a Arc<OwnedFd>>,
    number: u64,
    memory: &SharedMemory,
) -> Result<(), TeamError> {
    for follower in followers {
        match send_message(follower, &number.to_le_bytes(), &[memory.descriptor()]) {
            Ok(()) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            Err(error) => return Err(TeamError::system("handing out memory", error)),
        }
    }
    Ok(())
}

impl LocalRendezvous {
    /// Passes memory to all others of the machine. Called by the leader.
    pub fn hand_out(&self, number: u64, memory: &SharedMemory) -> Result<(), TeamError> {
        let Self::Leader(leader) = self else { return Ok(()) };
        let followers = leader.shared.followers.lock().clone();
        pass(followers.iter().flatten(), number, memory)
    }

    /// Returns the way by which the data server passes memory; none if this is not a leader.
    pub fn memory_hand_out(&self) -> Option<MemoryHandOut> {
        let Self::Leader(leader) = self else { return None };
        Some(MemoryHandOut(Arc::downgrade(&leader.shared)))
    }

    /// Takes the memory with this number that the leader has passed; none if the team has ended.
    pub fn take(&self, number: u64, is_over: impl Fn() -> bool) -> Option<OwnedFd> {
        let Self::Follower(follower) = self else { return None };
        let mut given = follower.shared.given.lock();
        loop {
            if let Some(descriptor) = given.remove(&number) {
                return Some(descriptor);
            }
            if is_over() {
                return None;
            }
            follower.shared.is_changed.wait_for(&mut given, Duration::from_millis(100));
        }
    }

    /// Starts the thread that notices the end of the leader.
    pub fn watch(&mut self, board: Arc<Board>) -> Result<(), TeamError> {
        if let Self::Follower(follower) = self {
            let connection = follower.shared.clone();
            let thread = std::thread::Builder::new().name("team".to_owned());
            let thread = thread.spawn(move || connection.listen(&board));
            follower.thread = Some(thread.map_err(|error| TeamError::system("a thread", error))?);
        }
        Ok(())
    }
}

impl RendezvousLeader {
    fn serve(
        listener: PrivateListener,
        member: &Member,
        memory: &Arc<SharedMemory>,
        admission: Option<AdmissionCheck>,
    ) -> Result<Self, TeamError> {
        let failed = |error| TeamError::system("waiting for a team", error);
        let end = eventfd(0, EventfdFlags::CLOEXEC).map_err(failed)?;
        let is_over = end.try_clone().map_err(|error| TeamError::system("a descriptor", error))?;
        let shared = Arc::new(LeaderState {
            member: member.clone(),
            memory: memory.clone(),
            board: Board::new(memory.part(0), member.size, member.rank),
            followers: Mutex::new(vec![None; member.size as usize]),
            admission,
        });
        let state = shared.clone();
        let thread = std::thread::Builder::new().name("team".to_owned());
        let thread = thread.spawn(move || state.run(&listener, &is_over));
        let thread = thread.map_err(|error| TeamError::system("a thread", error))?;
        Ok(Self { shared, end, thread: Some(thread) })
    }
}

impl LeaderState {
    fn run(&self, listener: &PrivateListener, is_over: &OwnedFd) {
        loop {
            let followers = self.followers.lock().clone();
            let there: Vec<(u32, Arc<OwnedFd>)> = (0..)
                .zip(followers)
                .filter_map(|(rank, follower)| Some((rank, follower?)))
                .collect();
            let mut polled =
                vec![PollFd::new(is_over, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
            polled.extend(there.iter().map(|(_, follower)| PollFd::new(follower, PollFlags::IN)));
            if poll(&mut polled, None).is_err() {
                continue;
            }
            let came: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
            if came[0] {
                return;
            }
            if came[1] {
                self.admit(listener);
            }
            // Followers send nothing more: an event means the end.
            let gone = there.iter().zip(&came[2..]).filter(|(_, came)| **came);
            for ((rank, _), _) in gone {
                self.followers.lock()[*rank as usize] = None;
                self.board.on_process_gone(*rank);
            }
        }
    }

    fn admit(&self, listener: &PrivateListener) {
        let Ok(follower) = rustix::net::accept_with(listener, SocketFlags::CLOEXEC) else { return };
        if !is_own(&follower)
            || set_socket_timeout(&follower, Timeout::Recv, Some(GREETING_TIMEOUT)).is_err()
        {
            return;
        }
        let mut bytes = [0; MESSAGE_BYTES];
        let Ok(greeting) = receive_message(&follower, &mut bytes) else { return };
        let Some(member) = Member::of_greeting(&bytes[..greeting.len]) else { return };
        // A follower that is gone again is noticed like any other.
        let _ = match self.check_admission(&member) {
            Ok(()) => {
                let follower = Arc::new(follower);
                self.followers.lock()[member.rank as usize] = Some(follower.clone());
                self.board.admit(member.rank);
                send_message(&follower, &[WELCOME], &[self.memory.descriptor()])
            }
            Err(answer) => send_message(&follower, &answer, &[]),
        };
    }

    /// Checks whether a process may join.
    fn check_admission(&self, member: &Member) -> Result<(), Vec<u8>> {
        let Member { job, size, rank } = &self.member;
        if member.job != *job {
            return Err(vec![TRY_AGAIN]);
        }
        let refuse = |why: String| {
            let mut answer = vec![REFUSED];
            answer.extend_from_slice(why.as_bytes());
            Err(answer)
        };
        if member.size != *size {
            let (theirs, rank_of_it) = (member.size, member.rank);
            return refuse(format!(
                "job {job}: rank {rank} says that the job has {size} processes, and rank \
                 {rank_of_it} that it has {theirs}"
            ));
        }
        if member.rank >= *size {
            return refuse(format!(
                "job {job}: there are {size} ranks, and so no rank {}",
                member.rank
            ));
        }
        let holder = match &self.followers.lock()[member.rank as usize] {
            _ if member.rank == *rank => Some(std::process::id()),
            Some(follower) => Some(User::of_peer(follower).map_or(0, |peer| peer.pid)),
            None => None,
        };
        if let Some(holder) = holder {
            let mut answer = vec![TRY_AGAIN];
            answer.extend_from_slice(describe_process(holder).as_bytes());
            return Err(answer);
        }
        if self.board.has_left(member.rank) || self.board.lost().is_some() {
            return Err(vec![TRY_AGAIN]);
        }
        match self.admission.as_ref().map(|admission| admission(member.rank)) {
            Some(Err(why)) => refuse(format!("job {job}: {why}")),
            _ => Ok(()),
        }
    }
}

impl Drop for RendezvousLeader {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl RendezvousFollower {
    /// Connects to the leader; none if there is none, or the rank is taken: `holder` is then the
    /// process that has it.
    fn connect(
        member: &Member,
        path: &Path,
        shape: SharedMemoryShape,
        holder: &mut Option<String>,
    ) -> Result<Option<(Self, Arc<SharedMemory>)>, TeamError> {
        let socket = socket()?;
        let address = SocketAddrUnix::new(path)
            .map_err(|error| TeamError::system("the socket of a team", error))?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED | Errno::NOENT | Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(TeamError::system("looking for a team", error)),
        }
        let Some(descriptor) = Self::greet(member, &socket, holder)? else { return Ok(None) };
        let memory = SharedMemory::from_descriptor(descriptor, shape);
        let memory = memory.map_err(|error| TeamError::system("the memory of a team", error))?;
        let (given, is_changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(LeaderConnection { socket, given, is_changed });
        Ok(Some((Self { shared, thread: None }, Arc::new(memory))))
    }

    /// Sends the greeting; returns the board if the leader admits this process.
    fn greet(
        member: &Member,
        socket: &OwnedFd,
        holder: &mut Option<String>,
    ) -> Result<Option<OwnedFd>, TeamError> {
        if !is_own(socket) {
            let job = &member.job;
            let what =
                format!("job {job}: a process of another user has taken the name of its team");
            return Err(TeamError::Invalid(what));
        }
        let mut bytes = [0; MESSAGE_BYTES];
        // If the leader ends, look for it again.
        if send_message(socket, &member.greeting(), &[]).is_err() {
            return Ok(None);
        }
        let Ok(answer) = receive_message(socket, &mut bytes) else { return Ok(None) };
        match bytes[..answer.len].split_first() {
            Some((&WELCOME, _)) => Ok(answer.descriptors.into_iter().next()),
            Some((&REFUSED, why)) => {
                Err(TeamError::Invalid(String::from_utf8_lossy(why).into_owned()))
            }
            Some((&TRY_AGAIN, text @ [_, ..])) => {
                *holder = Some(String::from_utf8_lossy(text).into_owned());
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

impl LeaderConnection {
    /// Receives descriptors until the leader is gone.
    fn listen(&self, board: &Board) {
        let mut bytes = [0; MESSAGE_BYTES];
        loop {
            let Ok(mut message) = receive_message(&self.socket, &mut bytes) else { break };
            match (message.len, message.descriptors.pop()) {
                (0, _) => break,
                (8, Some(descriptor)) => {
                    let mut number = [0; 8];
                    number.copy_from_slice(&bytes[..8]);
                    self.given.lock().insert(u64::from_le_bytes(number), descriptor);
                    self.is_changed.notify_all();
                }
                _ => {}
            }
        }
        board.on_leader_gone();
        self.is_changed.notify_all();
    }
}

impl Drop for RendezvousFollower {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.shared.socket, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

//! Floods of requests, by a client that has completed the handshake.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use pario_net::{Address, PendingReply, RpcClient, Space, SpaceId};
use pario_proto::{
    Access, Failure, FilePath, Identity, JOB_SIZE_LIMIT, JobCall, LockCall, LockKind, LockRange,
    LockRequest, Member, NamespaceRequest, PROTOCOL_VERSION, PeerKind, ROUNDS_LIMIT, Reply,
    Request, RequestMessage,
};
use pario_server::NodeProtocol;

use crate::honest::TARGET;

/// Requests of one flood that are under way at once.
const BATCH: u64 = 1_000;

/// The pause of a flood that the node has refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// A client of the flooding user.
struct FloodClient {
    rpc: RpcClient<NodeProtocol>,
    space: Space,
}

/// The results of the requests of a flood.
#[derive(Default)]
struct FloodCounts {
    done: u64,
    refused: u64,
    /// The text of one refusal by a limit.
    limit: Option<String>,
}

impl FloodClient {
    fn connect(socket: &Path) -> Result<Self> {
        let name = format!("flood {}", SpaceId::random());
        let builder = Space::builder(&name).admit_any_user(true);
        let space = builder.join(&Address::unix(socket)).build()?;
        let rpc = RpcClient::open(&space, "requests", Duration::from_secs(20))?;
        let client = Self { rpc, space };
        let identity = Identity { uid: 0, gids: vec![0] };
        let hello = Request::Hello {
            version: PROTOCOL_VERSION,
            identity,
            client: "flood".to_owned(),
            peer: PeerKind::Client,
        };
        match client.start(hello)?.wait()?.result? {
            Reply::Welcome { .. } => Ok(client),
            other => bail!("the node replied with {other:?}"),
        }
    }

    fn start(&self, request: Request) -> Result<PendingReply<NodeProtocol>> {
        Ok(self.rpc.start(RequestMessage { request, data: Vec::new() })?)
    }

    /// Sends a batch of requests, and waits for all replies.
    fn batch(&self, counts: &mut FloodCounts, request: impl Fn(u64) -> Request) -> Result<()> {
        let started: Vec<_> = (0..BATCH).map(|number| self.start(request(number))).collect();
        for pending in started {
            match pending?.wait()?.result {
                Ok(_) => counts.done += 1,
                Err(failure) => {
                    counts.refused += 1;
                    if matches!(failure, Failure::LimitReached { .. }) {
                        counts.limit.get_or_insert(failure.to_string());
                    }
                }
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<u64> {
        match self.start(open())?.wait()?.result? {
            Reply::Opened(opened) => Ok(opened.handle),
            other => bail!("the node replied with {other:?}"),
        }
    }
}

impl Drop for FloodClient {
    fn drop(&mut self) {
        self.space.close();
    }
}

impl FloodCounts {
    fn into_line(self) -> String {
        let limit = self.limit.map_or_else(String::new, |limit| format!(" (for example: {limit})"));
        format!("{} requests done, {} refused{limit}", self.done, self.refused)
    }
}

fn open() -> Request {
    let path = FilePath::new(TARGET).unwrap_or_else(|_| FilePath::root());
    Request::Namespace(NamespaceRequest::Open { path, access: Access::READ })
}

/// Sends cheap requests.
pub fn send_requests(socket: &Path, end: Instant) -> Result<String> {
    let client = FloodClient::connect(socket)?;
    let mut counts = FloodCounts::default();
    while Instant::now() < end {
        client.batch(&mut counts, |number| match number % 50 {
            0 => Request::Status,
            _ => Request::Map,
        })?;
    }
    Ok(counts.into_line())
}

/// Opens files and closes none, far beyond the limit of a user; then it connects again.
pub fn open_files(socket: &Path, end: Instant) -> Result<String> {
    let mut counts = FloodCounts::default();
    while Instant::now() < end {
        let client = FloodClient::connect(socket)?;
        for _ in 0..25 {
            client.batch(&mut counts, |_| open())?;
            if Instant::now() >= end {
                break;
            }
        }
    }
    Ok(counts.into_line())
}

/// Locks every second byte of a file.
pub fn take_locks(socket: &Path, end: Instant) -> Result<String> {
    let mut counts = FloodCounts::default();
    while Instant::now() < end {
        let client = FloodClient::connect(socket)?;
        // Another flood of this user may hold all handles of the user.
        let handle = match client.open() {
            Ok(handle) => handle,
            Err(_) => {
                counts.refused += 1;
                std::thread::sleep(REFUSED_PAUSE);
                continue;
            }
        };
        for round in 0..10 {
            client.batch(&mut counts, |number| {
                let from = 2 * (round * BATCH + number);
                let range = LockRange { from, to: from + 1 };
                let call = LockCall::Try(range, LockKind::Shared);
                Request::Lock(LockRequest { handle, pid: 1, call })
            })?;
            if Instant::now() >= end {
                break;
            }
        }
    }
    Ok(counts.into_line())
}

/// Claims huge jobs, distant rounds and long lists.
pub fn claim_resources(socket: &Path, end: Instant) -> Result<String> {
    let mut counts = FloodCounts::default();
    let mut waiting = 0;
    while Instant::now() < end {
        let client = FloodClient::connect(socket)?;
        let mut kept = Vec::new();
        for job in 0..20 {
            for round in [0, 1, ROUNDS_LIMIT - 1] {
                let member = Member {
                    job: format!("j{job}"),
                    size: JOB_SIZE_LIMIT,
                    rank: JOB_SIZE_LIMIT - 1,
                };
                let call = JobCall::Barrier { is_near: true };
                kept.push(client.start(Request::Job { member, number: round, call })?);
            }
        }
        waiting += kept.len();
        for _ in 0..5 {
            client.batch(&mut counts, claim)?;
            counts.done += u64::from(client.start(Request::Jobs)?.wait()?.result.is_ok());
        }
    }
    Ok(format!("{}, {waiting} left waiting", counts.into_line()))
}

/// A request with random numbers, many of them extreme.
fn claim(number: u64) -> Request {
    let long = || fastrand::u64(..) >> fastrand::u32(0..64);
    let short = || fastrand::u32(..) >> fastrand::u32(0..32);
    match number % 4 {
        0 => {
            let (path, after) = (FilePath::root(), None);
            Request::Namespace(NamespaceRequest::List { path, after, limit: short() })
        }
        1 => {
            let member = Member { job: "claims".to_owned(), size: short(), rank: short() };
            Request::Job { member, number: u64::MAX, call: JobCall::Barrier { is_near: true } }
        }
        2 => Request::Namespace(NamespaceRequest::Close { handle: long() }),
        _ => {
            let range = LockRange { from: long(), to: long() };
            let call = LockCall::Try(range, LockKind::Exclusive);
            Request::Lock(LockRequest { handle: long(), pid: short(), call })
        }
    }
}

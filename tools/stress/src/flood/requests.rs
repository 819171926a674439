//! Floods of requests by a client that has said hello.

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

/// How long a flood that was refused waits before it tries again.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// A client of the flooding user.
struct Client {
    asker: RpcClient<NodeProtocol>,
    space: Space,
}

/// What has come of the requests of a flood.
#[derive(Default)]
struct Counts {
    done: u64,
    refused: u64,
    /// The text of one refusal by a limit.
    limit: Option<String>,
}

impl Client {
    fn connect(socket: &Path) -> Result<Self> {
        let name = format!("flood {}", SpaceId::random());
        let builder = Space::builder(&name).admit_any_user(true);
        let space = builder.join(&Address::unix(socket)).build()?;
        let asker = RpcClient::open(&space, "requests", Duration::from_secs(20))?;
        let client = Self { asker, space };
        let identity = Identity { uid: 0, gids: vec![0] };
        let hello = Request::Hello {
            version: PROTOCOL_VERSION,
            identity,
            client: "flood".to_owned(),
            peer: PeerKind::Client,
        };
        match client.start(hello)?.wait()?.result? {
            Reply::Welcome { .. } => Ok(client),
            other => bail!("the node said {other:?}"),
        }
    }

    fn start(&self, request: Request) -> Result<PendingReply<NodeProtocol>> {
        Ok(self.asker.start(RequestMessage { request, data: Vec::new() })?)
    }

    /// Asks a batch of requests, and waits for all answers.
    fn batch(&self, counts: &mut Counts, request: impl Fn(u64) -> Request) -> Result<()> {
        let asked: Vec<_> = (0..BATCH).map(|number| self.start(request(number))).collect();
        for pending in asked {
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
            other => bail!("the node said {other:?}"),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.space.close();
    }
}

impl Counts {
    fn told(self) -> String {
        let limit = self.limit.map_or_else(String::new, |limit| format!(" (such as: {limit})"));
        format!("{} requests done, {} refused{limit}", self.done, self.refused)
    }
}

fn open() -> Request {
    let path = FilePath::new(TARGET).unwrap_or_else(|_| FilePath::root());
    Request::Namespace(NamespaceRequest::Open { path, access: Access::READ })
}

/// Asks cheap questions.
pub fn ask_much(socket: &Path, end: Instant) -> Result<String> {
    let client = Client::connect(socket)?;
    let mut counts = Counts::default();
    while Instant::now() < end {
        client.batch(&mut counts, |number| match number % 50 {
            0 => Request::Status,
            _ => Request::Map,
        })?;
    }
    Ok(counts.told())
}

/// Opens files and closes none, until the client is refused for a while; then it comes again.
pub fn open_much(socket: &Path, end: Instant) -> Result<String> {
    let mut counts = Counts::default();
    while Instant::now() < end {
        let client = Client::connect(socket)?;
        for _ in 0..25 {
            client.batch(&mut counts, |_| open())?;
            if Instant::now() >= end {
                break;
            }
        }
    }
    Ok(counts.told())
}

/// Locks every second byte, and waits for locks.
pub fn lock_much(socket: &Path, end: Instant) -> Result<String> {
    let mut counts = Counts::default();
    while Instant::now() < end {
        let client = Client::connect(socket)?;
        // Another flood of this user may have taken all that a user can open.
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
    Ok(counts.told())
}

/// Claims huge groups, far rounds and long lists.
pub fn claim_much(socket: &Path, end: Instant) -> Result<String> {
    let mut counts = Counts::default();
    let mut waiting = 0;
    while Instant::now() < end {
        let client = Client::connect(socket)?;
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
    Ok(format!("{} and {waiting} that waited", counts.told()))
}

/// A request with numbers at random, many of them extreme.
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

//! One user takes all that it can of a node. The node refuses it with the limit and a remedy, and
//! another user still opens, locks and reads.

use std::time::{Duration, Instant};

use pario_net::{Bulk, PendingReply, RpcError};
use pario_proto::{
    Access, Failure, FilePath, JobCall, LockCall, LockKind, LockOutcome, LockRange, LockRequest,
    Member, NamespaceRequest, Reply, ReplyMessage, Request, RequestMessage, SubfileIndex,
    SubfileLocation, SubfileRange,
};
use pario_server::NodeProtocol;

use super::node_process::AttackedNode;
use super::raw_client::{RawClient, striped};

/// The user that takes everything, and the user that only works.
const GREEDY: u32 = 4711;
const HONEST: u32 = 4712;

/// Requests that are under way at a time.
const BATCH: u64 = 512;

/// The longest time for the calls of the honest user, on a machine that runs other tests too.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(5);

type PendingRequest = PendingReply<NodeProtocol>;

/// A node with a directory for each of the two users.
fn site() -> (AttackedNode, RawClient) {
    let node = AttackedNode::start();
    let root = RawClient::of_user(&node, 0);
    for uid in [GREEDY, HONEST] {
        let path = FilePath::new(&format!("/{uid}")).unwrap();
        let make = NamespaceRequest::MakeDirectory { path: path.clone(), mode: 0o755 };
        assert_eq!(root.request(Request::Namespace(make)).unwrap(), Ok(Reply::Done));
        let (mode, gid) = (None, None);
        let give = NamespaceRequest::SetRights { path, mode, uid: Some(uid), gid };
        let given = Ok(Reply::RightsSet { untold: Vec::new() });
        assert_eq!(root.request(Request::Namespace(give)).unwrap(), given);
    }
    (node, root)
}

fn start(client: &RawClient, request: Request) -> PendingRequest {
    client.rpc.start(RequestMessage { request, data: Vec::new() }).unwrap()
}

/// Sends requests in batches until the node refuses. Returns the number of served requests, and the
/// refusal.
fn until_refused(
    client: &RawClient,
    limit: u64,
    request: impl Fn(u64) -> Request,
) -> (u64, Failure) {
    let mut done = 0;
    for first in (0..).map(|batch| batch * BATCH).take_while(|first| *first <= 2 * limit) {
        let asked: Vec<PendingRequest> =
            (first..first + BATCH).map(|number| start(client, request(number))).collect();
        let answers: Vec<Result<ReplyMessage<Bulk>, RpcError>> =
            asked.into_iter().map(PendingReply::wait).collect();
        for answer in answers {
            match answer.unwrap().result {
                Ok(_) => done += 1,
                Err(failure) => return (done, failure),
            }
        }
    }
    panic!("the node never refused");
}

#[track_caller]
fn assert_limit(failure: &Failure, what: &str, limit: u64, remedy: &str) {
    let text = failure.to_string();
    let expected = format!(
        "user {GREEDY} has {limit} {what} at node local, which is the limit of a user: {remedy}"
    );
    assert_eq!(text, expected);
}

fn open(path: &str, access: Access) -> Request {
    Request::Namespace(NamespaceRequest::Open { path: FilePath::new(path).unwrap(), access })
}

fn lock(handle: u64, from: u64, call: fn(LockRange, LockKind) -> LockCall) -> Request {
    let range = LockRange { from, to: from + 1 };
    Request::Lock(LockRequest { handle, pid: 1, call: call(range, LockKind::Exclusive) })
}

/// The honest user opens, locks, unlocks, reads and closes.
fn assert_served(client: &RawClient, number: u64) {
    let began = Instant::now();
    let path = format!("/{HONEST}/{number}");
    let opened = client.create(&path, striped());
    let locked = client.request(lock(opened.handle, 0, LockCall::Try)).unwrap();
    assert_eq!(locked, Ok(Reply::Lock(LockOutcome::Done)));
    let disk = opened.record.layout.as_ref().unwrap().disks().as_slice()[0];
    let part = SubfileLocation { disk, subfile: SubfileIndex(0) };
    let (grant, ranges) = (opened.grant.clone(), vec![SubfileRange { offset: 0, len: 4 }]);
    let read = client.request(Request::Read { grant, part, ranges }).unwrap();
    assert!(matches!(read, Ok(Reply::Read { .. })), "{read:?}");
    let member = Member { job: format!("honest {number}"), size: 1, rank: 0 };
    let call = JobCall::Barrier { is_near: false };
    let met = client.request(Request::Job { member, number: 0, call }).unwrap();
    assert!(matches!(met, Ok(Reply::BarrierDone { .. })), "{met:?}");
    let close = NamespaceRequest::Close { handle: opened.handle };
    assert_eq!(client.request(Request::Namespace(close)).unwrap(), Ok(Reply::Done));
    assert!(began.elapsed() < SERVICE_TIMEOUT, "it took {:?}", began.elapsed());
}

#[test]
fn open_files_have_a_limit_per_user() {
    let (mut node, root) = site();
    let (greedy, honest) = (RawClient::of_user(&node, GREEDY), RawClient::of_user(&node, HONEST));
    let path = format!("/{GREEDY}/f");
    let first = greedy.create(&path, striped());
    let (opened, refused) = until_refused(&greedy, 16_384, |_| open(&path, Access::READ));
    assert_limit(&refused, "open files", 16_384, "close some files");
    assert_eq!(opened, 16_383, "one was open before");
    assert_served(&honest, 1);
    let administered = root.request(open(&path, Access::READ)).unwrap();
    assert!(matches!(administered, Ok(Reply::Opened(_))), "{administered:?}");
    // A second client of the same user shares the limit; closing one file makes room for one.
    let second = RawClient::of_user(&node, GREEDY);
    let refused = second.request(open(&path, Access::READ)).unwrap().unwrap_err();
    assert_limit(&refused, "open files", 16_384, "close some files");
    let close = NamespaceRequest::Close { handle: first.handle };
    assert_eq!(greedy.request(Request::Namespace(close)).unwrap(), Ok(Reply::Done));
    // Requests that were under way behind the first refusal may have taken the room.
    let again = second.request(open(&path, Access::READ)).unwrap();
    assert!(matches!(again, Ok(Reply::Opened(_))), "{again:?}");
    node.assert_alive("a flood of open files");
}

#[test]
fn locks_have_a_limit_per_user() {
    let (mut node, _root) = site();
    let (greedy, honest) = (RawClient::of_user(&node, GREEDY), RawClient::of_user(&node, HONEST));
    let handles: Vec<u64> =
        (0..40).map(|file| greedy.create(&format!("/{GREEDY}/{file}"), striped()).handle).collect();
    // Every second byte, so that no two ranges become one; 2,000 of each file.
    let request = |number: u64| {
        let handle = handles[usize::try_from(number / 2_000).unwrap()];
        lock(handle, 2 * (number % 2_000), LockCall::Try)
    };
    let (locked, refused) = until_refused(&greedy, 39_000, request);
    assert_limit(&refused, "locked ranges", 65_536, "unlock some ranges, or lock longer ones");
    assert!((65_530..=65_536).contains(&locked), "{locked}");
    assert_served(&honest, 1);
    // Unlocking is never refused, and makes room.
    let unlock = LockCall::Unlock(LockRange::ALL);
    let unlock = Request::Lock(LockRequest { handle: handles[0], pid: 1, call: unlock });
    assert_eq!(greedy.request(unlock).unwrap(), Ok(Reply::Lock(LockOutcome::Done)));
    let locked = greedy.request(lock(handles[1], 100_001, LockCall::Try)).unwrap();
    assert_eq!(locked, Ok(Reply::Lock(LockOutcome::Done)));
    node.assert_alive("a flood of locks");
}

#[test]
fn jobs_and_waiting_requests_have_limits_per_user() {
    let (mut node, _root) = site();
    let (greedy, honest) = (RawClient::of_user(&node, GREEDY), RawClient::of_user(&node, HONEST));
    let wait = |job: u64, number: u64| {
        let member = Member { job: format!("job {job}"), size: 2, rank: 0 };
        Request::Job { member, number, call: JobCall::Barrier { is_near: false } }
    };
    // Each job has a call that waits for its second rank.
    let mut waiting: Vec<PendingRequest> =
        (0..256).map(|job| start(&greedy, wait(job, 0))).collect();
    let refused = greedy.request(wait(256, 0)).unwrap().unwrap_err();
    assert_limit(&refused, "jobs", 256, "end some jobs");
    let rest = 8_192 - waiting.len() as u64;
    let further = (0..rest).map(|number| wait(number % 64, 1 + number / 64));
    waiting.extend(further.map(|request| start(&greedy, request)));
    let refused = greedy.request(wait(0, 1 + rest)).unwrap().unwrap_err();
    let remedy = "wait for some of the calls that are under way";
    assert_limit(&refused, "waiting requests", 8_192, remedy);
    assert!(waiting.iter().all(|call| !call.is_done()), "the others wait");
    for number in 0..10 {
        assert_served(&honest, number);
    }
    let jobs = greedy.request(Request::Jobs).unwrap();
    assert!(matches!(jobs, Ok(Reply::Jobs(_))), "{jobs:?}");
    // The node releases everything of a client that disconnects.
    drop((waiting, greedy));
    let again = RawClient::of_user(&node, GREEDY);
    let deadline = Instant::now() + SERVICE_TIMEOUT;
    loop {
        let Ok(Reply::Jobs(jobs)) = again.request(Request::Jobs).unwrap() else {
            panic!("no jobs")
        };
        if jobs.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{} jobs are left", jobs.len());
        std::thread::yield_now();
    }
    let pending = start(&again, wait(0, 0));
    assert!(again.request(Request::Map).unwrap().is_ok() && !pending.is_done());
    node.assert_alive("a flood of waiting requests");
}

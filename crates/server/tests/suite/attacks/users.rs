//! One user takes all that it can get of a node: it is refused with the limit and what to do, and
//! another user opens, locks and reads all the same.

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

/// The user that takes everything, and the one that only works.
const GREEDY: u32 = 4711;
const HONEST: u32 = 4712;

/// Requests that are under way at once.
const BATCH: u64 = 512;

/// How long the honest user may wait for one answer, on a machine that runs other tests as well.
const PATIENCE: Duration = Duration::from_secs(5);

type Asked = PendingReply<NodeProtocol>;

/// A site with a directory in which everybody can make files.
fn site() -> (AttackedNode, RawClient) {
    let node = AttackedNode::start();
    let root = RawClient::of_user(&node, 0);
    for uid in [GREEDY, HONEST] {
        let path = FilePath::new(&format!("/{uid}")).unwrap();
        let make = NamespaceRequest::MakeDirectory { path: path.clone(), mode: 0o755 };
        assert_eq!(root.ask(Request::Namespace(make)).unwrap(), Ok(Reply::Done));
        let (mode, gid) = (None, None);
        let give = NamespaceRequest::SetRights { path, mode, uid: Some(uid), gid };
        let given = Ok(Reply::RightsSet { untold: Vec::new() });
        assert_eq!(root.ask(Request::Namespace(give)).unwrap(), given);
    }
    (node, root)
}

fn start(client: &RawClient, request: Request) -> Asked {
    client.asker.start(RequestMessage { request, data: Vec::new() }).unwrap()
}

/// Asks the same kind of thing in batches until the node refuses; how often it was done, and the
/// refusal.
fn until_refused(
    client: &RawClient,
    limit: u64,
    request: impl Fn(u64) -> Request,
) -> (u64, Failure) {
    let mut done = 0;
    for first in (0..).map(|batch| batch * BATCH).take_while(|first| *first <= 2 * limit) {
        let asked: Vec<Asked> =
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
    let locked = client.ask(lock(opened.handle, 0, LockCall::Try)).unwrap();
    assert_eq!(locked, Ok(Reply::Lock(LockOutcome::Done)));
    let disk = opened.record.layout.as_ref().unwrap().disks().as_slice()[0];
    let part = SubfileLocation { disk, subfile: SubfileIndex(0) };
    let (grant, ranges) = (opened.grant.clone(), vec![SubfileRange { offset: 0, len: 4 }]);
    let read = client.ask(Request::Read { grant, part, ranges }).unwrap();
    assert!(matches!(read, Ok(Reply::Read { .. })), "{read:?}");
    let member = Member { job: format!("honest {number}"), size: 1, rank: 0 };
    let call = JobCall::Barrier { is_near: false };
    let met = client.ask(Request::Job { member, number: 0, call }).unwrap();
    assert!(matches!(met, Ok(Reply::BarrierDone { .. })), "{met:?}");
    let close = NamespaceRequest::Close { handle: opened.handle };
    assert_eq!(client.ask(Request::Namespace(close)).unwrap(), Ok(Reply::Done));
    assert!(began.elapsed() < PATIENCE, "it took {:?}", began.elapsed());
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
    let administered = root.ask(open(&path, Access::READ)).unwrap();
    assert!(matches!(administered, Ok(Reply::Opened(_))), "{administered:?}");
    // A second client of the same user shares the limit; closing one file makes room for one.
    let second = RawClient::of_user(&node, GREEDY);
    let refused = second.ask(open(&path, Access::READ)).unwrap().unwrap_err();
    assert_limit(&refused, "open files", 16_384, "close some files");
    let close = NamespaceRequest::Close { handle: first.handle };
    assert_eq!(greedy.ask(Request::Namespace(close)).unwrap(), Ok(Reply::Done));
    // What was refused behind the first refusal may have got the room by now.
    let again = second.ask(open(&path, Access::READ)).unwrap();
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
    assert_eq!(greedy.ask(unlock).unwrap(), Ok(Reply::Lock(LockOutcome::Done)));
    let locked = greedy.ask(lock(handles[1], 100_001, LockCall::Try)).unwrap();
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
    let mut waiting: Vec<Asked> = (0..256).map(|job| start(&greedy, wait(job, 0))).collect();
    let refused = greedy.ask(wait(256, 0)).unwrap().unwrap_err();
    assert_limit(&refused, "jobs", 256, "end some jobs");
    let rest = 8_192 - waiting.len() as u64;
    let further = (0..rest).map(|number| wait(number % 64, 1 + number / 64));
    waiting.extend(further.map(|request| start(&greedy, request)));
    let refused = greedy.ask(wait(0, 1 + rest)).unwrap().unwrap_err();
    let remedy = "wait for some of the calls that are under way";
    assert_limit(&refused, "waiting requests", 8_192, remedy);
    assert!(waiting.iter().all(|call| !call.is_done()), "the others wait");
    for number in 0..10 {
        assert_served(&honest, number);
    }
    let jobs = greedy.ask(Request::Jobs).unwrap();
    assert!(matches!(jobs, Ok(Reply::Jobs(_))), "{jobs:?}");
    // With the client, all that it had goes.
    drop((waiting, greedy));
    let again = RawClient::of_user(&node, GREEDY);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let Ok(Reply::Jobs(jobs)) = again.ask(Request::Jobs).unwrap() else { panic!("no jobs") };
        if jobs.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{} jobs are left", jobs.len());
        std::thread::yield_now();
    }
    let pending = start(&again, wait(0, 0));
    assert!(again.ask(Request::Map).unwrap().is_ok() && !pending.is_done());
    node.assert_alive("a flood of waiting requests");
}

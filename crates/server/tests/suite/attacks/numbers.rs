//! Every number of every request at its extremes: the node replies, usually with a refusal, and its
//! memory does not grow with the sizes that a request claims.

use pario_proto::{
    Access, AtomicCall, AtomicRequest, BytesUse, Call, CheckDepth, CheckRequest, CollectiveOpen,
    CompactionCursor, CreationOptions, CutPiece, DiskChoice, DiskId, ExtentIndex, ExtentPlacement,
    ExtentSelection, FileId, FilePath, Identity, JOB_SIZE_LIMIT, JobCall, JobOpenCall, KnownFile,
    LayoutChoice, LockCall, LockKind, LockRange, LockRequest, Member, Mode, ModuleHash,
    ModuleReference, ModuleRequest, NamespaceRequest, NewFile, NodeInfo, Opened, PeerRequest,
    ProcessName, ProcessRequest, ProcessTarget, ProcessWork, ROUNDS_LIMIT, Removal, Reply, Request,
    Revocation, Seek, SharedCall, SharedFileId, SharedRequest, SubfileIndex, SubfileLocation,
    SubfileRange, TeamCall, TeamPlace, Transfer,
};

use super::node_process::AttackedNode;
use super::raw_client::{RawClient, hello, striped};

/// The user that attacks.
const UID: u32 = 4711;

/// The most by which the node's memory may grow under all these requests.
const GROWTH_LIMIT_BYTES: u64 = 64 << 20;

const SHORT: [u32; 6] = [0, 1, 65_536, 65_537, 1 << 31, u32::MAX];
const LONG: [u64; 7] = [0, 4095, 4096, 1 << 40, 1 << 62, 1 << 63, u64::MAX];

/// A request of about fifty bytes that claims a round far ahead, in a job of the largest size.
fn far_round(job: &str, size: u32, rank: u32, number: u64) -> Request {
    let member = Member { job: job.to_owned(), size, rank };
    Request::Job { member, number, call: JobCall::Barrier { is_near: true } }
}

#[test]
fn a_request_of_fifty_bytes_does_not_kill_the_node() {
    let mut node = AttackedNode::start();
    let before = node.resident_bytes();
    let attacker = RawClient::of_user(&node, UID);
    // The first call creates the job; the second one is of the last round that can have begun.
    let waiting = [0, ROUNDS_LIMIT - 1].map(|number| {
        let request = far_round("j", JOB_SIZE_LIMIT, JOB_SIZE_LIMIT - 1, number);
        let message = pario_proto::RequestMessage { request, data: Vec::new() };
        attacker.rpc.start(message).unwrap()
    });
    // The node replies to the next request only after it has handled the earlier ones.
    let jobs = attacker.request(Request::Jobs).expect("the node is alive").unwrap();
    let Reply::Jobs(jobs) = jobs else { panic!("{jobs:?}") };
    assert_eq!(jobs.len(), 1);
    assert!(waiting.iter().all(|call| !call.is_done()), "they wait for the other ranks");
    node.assert_alive("a call of a job of the largest size");
    let growth = node.resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_LIMIT_BYTES, "two calls have cost {growth} bytes");
}

#[test]
fn numbers_at_their_extremes_are_answered() {
    let mut node = AttackedNode::start();
    let owner = RawClient::of_user(&node, 0);
    let before = node.resident_bytes();
    let flat = owner.create("/flat", striped());
    let extents = owner.create("/extents", LayoutChoice::Extents { disks: DiskChoice::All });
    let mut asked = 0;
    for request in requests(&flat, &extents) {
        let kind = kind(&request);
        // A request that waits for other ranks gets no reply; the next one shows that the node works.
        let message = pario_proto::RequestMessage { request, data: Vec::new() };
        let pending = owner.rpc.start(message).expect("the node is alive");
        if !waits(kind) {
            let answered = pending.wait();
            assert!(answered.is_ok(), "{kind}: {answered:?}");
        }
        asked += 1;
    }
    assert!(asked >= 500, "{asked} requests");
    let map = owner.request(Request::Map).expect("the node is alive");
    assert!(matches!(map, Ok(Reply::Map(_))), "{map:?}");
    node.assert_alive("all requests");
    let growth = node.resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_LIMIT_BYTES, "the requests have cost {growth} bytes");
}

/// Whether a request may wait for other processes.
fn waits(kind: &str) -> bool {
    matches!(kind, "job" | "shared" | "lock" | "process" | "atomic" | "job open")
}

/// The kind of a request. A new kind does not compile until it is attacked below.
fn kind(request: &Request) -> &'static str {
    match request {
        Request::Hello { .. } => "hello",
        Request::Map => "map",
        Request::Namespace(_) => "namespace",
        Request::Read { .. } => "read",
        Request::Write { .. } => "write",
        Request::Measure { .. } => "measure",
        Request::Resize { .. } => "resize",
        Request::Grow { .. } => "grow",
        Request::Sync { .. } => "sync",
        Request::ReadExtent { .. } => "read extent",
        Request::WriteExtent { .. } => "write extent",
        Request::DeleteExtent { .. } => "delete extent",
        Request::ListExtents { .. } => "list extents",
        Request::Job { .. } => "job",
        Request::OpenForAll { .. } => "open for all",
        Request::Shared(_) => "shared",
        Request::Status => "status",
        Request::Stop => "stop",
        Request::Check(_) => "check",
        Request::Peer(_) => "peer",
        Request::Jobs => "jobs",
        Request::Reset { .. } => "reset",
        Request::Lock(_) => "lock",
        Request::LockWaits => "lock waits",
        Request::Process(_) => "process",
        Request::Team { .. } => "team",
        Request::SetModified { .. } => "set time",
        Request::FileSystems => "file systems",
        Request::SyncMany { .. } => "sync many",
        Request::Compact { .. } => "compact",
        Request::Atomic(_) => "atomic",
        Request::AtomicWaits => "atomic waits",
        Request::JoinUnnamedJob { .. } => "join unnamed job",
        Request::JobOpen { .. } => "job open",
        Request::Module(_) => "module",
    }
}

/// Joins an unnamed job.
fn join_unnamed(size: u32, rank: u32, program: &str) -> Request {
    let (program, host) = (program.to_owned(), "h".repeat(3000));
    Request::JoinUnnamedJob { size, rank, process: ProcessName { pid: rank, program, host } }
}

/// Requests with all their numbers at extremes, one number at a time.
fn requests(flat: &Opened, extents: &Opened) -> Vec<Request> {
    let plain = [Request::Map, Request::Status, Request::Jobs, Request::LockWaits];
    let mut all = [&plain[..], &[Request::FileSystems, Request::AtomicWaits]].concat();
    all.extend(SHORT.map(hello));
    for &short in &SHORT {
        all.extend(of_short(short, flat, extents));
        for &other in &SHORT {
            all.extend(
                [0, ROUNDS_LIMIT - 1, u64::MAX]
                    .map(|number| far_round(&format!("job {short} {other}"), short, other, number)),
            );
            let member = Member { job: "opens".to_owned(), size: short, rank: other };
            let call = JobOpenCall::Begin(path());
            all.push(Request::JobOpen { member, call });
        }
    }
    for &long in &LONG {
        let member = || Member { job: "opens".to_owned(), size: 2, rank: 0 };
        let calls = [JobOpenCall::Opened { open: long }, JobOpenCall::Closed { open: long }];
        all.extend(calls.map(|call| Request::JobOpen { member: member(), call }));
        all.extend(of_long(long, flat, extents));
    }
    all.push(Request::Reset { files: vec![path()] });
    all.push(Request::Check(CheckRequest {
        depth: CheckDepth::Names,
        is_repair: false,
        is_rebuild: false,
    }));
    all
}

fn path() -> FilePath {
    FilePath::new("/flat").unwrap()
}

fn first_part(opened: &Opened) -> SubfileLocation {
    let disk = opened.record.layout.as_ref().unwrap().disks().as_slice()[0];
    SubfileLocation { disk, subfile: SubfileIndex(0) }
}

/// Requests with a number of 32 bits.
fn of_short(number: u32, flat: &Opened, extents: &Opened) -> Vec<Request> {
    let grant = flat.grant.clone();
    let part = SubfileLocation { disk: DiskId(number), subfile: SubfileIndex(number) };
    let ranges = vec![SubfileRange { offset: 0, len: 1 }];
    let here = first_part(flat);
    let names = [
        NamespaceRequest::List { path: FilePath::root(), after: None, limit: number },
        NamespaceRequest::MarkSynced { grant: grant.clone(), subfiles: vec![SubfileIndex(number)] },
        NamespaceRequest::SetRights { path: path(), mode: Some(number), uid: None, gid: None },
        NamespaceRequest::MakeDirectory {
            path: FilePath::new(&format!("/d{number}")).unwrap(),
            mode: number,
        },
        create(number, LayoutChoice::Extents { disks: DiskChoice::Count(number) }),
        NamespaceRequest::CreateMany {
            files: vec![NewFile { path: path(), mode: number }; 3],
            access: Access::READ_WRITE,
            is_new: false,
            layout: LayoutChoice::Extents { disks: DiskChoice::Count(number) },
        },
        NamespaceRequest::MarkSyncedMany {
            files: vec![(grant.clone(), vec![SubfileIndex(number); 3]); 2],
        },
        create(number, LayoutChoice::Extents { disks: DiskChoice::These(vec![DiskId(number)]) }),
    ];
    let place = ExtentPlacement { subfile: SubfileIndex(number), extent: ExtentIndex(0) };
    let disk = first_part(extents).disk;
    let mut all: Vec<Request> = names.into_iter().map(Request::Namespace).collect();
    let name = format!("m{number}");
    all.extend([
        Request::Read { grant: grant.clone(), part, ranges: ranges.clone() },
        Request::Write { grant: grant.clone(), part, ranges },
        Request::Measure { files: vec![(grant.clone(), vec![part, here])] },
        Request::Resize { grant: grant.clone(), part, len: 0 },
        Request::Grow { grant: grant.clone(), part, len: 0 },
        Request::Sync { grant: grant.clone(), part },
        Request::SetModified { grant: grant.clone(), part, modified_ns: 0 },
        Request::Compact { grant: grant.clone(), part, cursor: None },
        Request::Compact { grant: extents.grant.clone(), part, cursor: None },
        Request::SyncMany { subfiles: vec![(grant.clone(), part), (grant.clone(), here)] },
        Request::ReadExtent { grant: extents.grant.clone(), disk, place },
        Request::WriteExtent { grant: extents.grant.clone(), disk, place },
        Request::DeleteExtent { grant: extents.grant.clone(), disk, place },
        Request::ListExtents { grant: extents.grant.clone(), disk, from: place, limit: number },
        Request::OpenForAll { member: member(number, number), open: open() },
        Request::OpenForAll { member: member(number, 0), open: open() },
        Request::Lock(LockRequest {
            handle: flat.handle,
            pid: number,
            call: LockCall::Try(LockRange { from: 0, to: 1 }, LockKind::Shared),
        }),
        Request::Team { job: number.to_string(), call: TeamCall::Settle(place_of_team()) },
        join_unnamed(number, 0, "solver"),
        join_unnamed(2, number, &"\n".repeat(3000)),
        Request::Peer(PeerRequest::ListSubfiles {
            after: Some((DiskId(number), FileId(0), SubfileIndex(number))),
            limit: number,
            depth: CheckDepth::Names,
        }),
        Request::Peer(PeerRequest::Revoke(Revocation {
            file: FileId(7),
            first_valid: number,
            epoch: u64::from(number),
        })),
        Request::Peer(PeerRequest::RemoveSubfiles { files: Vec::new(), epoch: u64::from(number) }),
        Request::Peer(PeerRequest::Revocations {
            node: "x".to_owned(),
            known_epoch: Some(u64::from(number)),
            after: None,
        }),
        Request::Peer(PeerRequest::FindFile { file: FileId(u128::from(number)) }),
        Request::Peer(PeerRequest::FindModule {
            module: ModuleReference { name: name.clone(), version: Some(number) },
            who: Identity { uid: number, gids: vec![number; 20_000] },
        }),
        Request::Peer(PeerRequest::FetchModule { name: name.clone(), hash: ModuleHash([7; 32]) }),
        Request::Module(ModuleRequest::Add { name: name.clone(), mode: number }),
        Request::Module(ModuleRequest::Add { name: "n".repeat(200_000), mode: number }),
        Request::Module(ModuleRequest::List),
        Request::Module(ModuleRequest::Find { name: name.clone() }),
        Request::Module(ModuleRequest::Fetch { name: name.clone() }),
        Request::Module(ModuleRequest::Remove { name }),
        Request::Peer(PeerRequest::Describe {
            files: vec![(
                KnownFile { path: None, path_version: number, record: flat.record.clone() },
                vec![part],
            )],
        }),
        Request::Peer(PeerRequest::RepairSubfile {
            disk: DiskId(number),
            file: FileId(7),
            subfile: SubfileIndex(number),
        }),
        Request::Peer(PeerRequest::Join {
            node: NodeInfo { name: "x".to_owned(), address: String::new(), disks: Vec::new() },
        }),
        Request::Process(ProcessRequest::Cut {
            grant: extents.grant.clone(),
            operation: "count".to_owned(),
            pieces: vec![CutPiece { place, part, what: Vec::new() }],
        }),
    ]);
    all
}

fn compact(file: &Opened, number: u64) -> Request {
    let cursor = Some(CompactionCursor { granule: number, budget_granules: number });
    Request::Compact { grant: file.grant.clone(), part: first_part(file), cursor }
}

/// Requests with a number of 64 bits.
fn of_long(number: u64, flat: &Opened, extents: &Opened) -> Vec<Request> {
    let grant = flat.grant.clone();
    let part = first_part(flat);
    let disk = first_part(extents).disk;
    let ranges = |offset, len| vec![SubfileRange { offset, len }];
    let many = vec![SubfileRange { offset: number, len: number }; 20_000];
    let place = ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(number) };
    let work = ProcessWork {
        grant: extents.grant.clone(),
        parts: vec![first_part(extents)],
        extents: ExtentSelection::These(vec![place; 1000]),
        operation: "count".to_owned(),
        target: Some(ProcessTarget { grant: extents.grant.clone(), parts: Vec::new() }),
        is_traced: true,
    };
    let locks = [
        LockCall::Try(LockRange { from: number, to: u64::MAX }, LockKind::Exclusive),
        LockCall::Wait { range: LockRange { from: 0, to: number }, kind: LockKind::Shared, number },
        LockCall::Withdraw { number },
        LockCall::Unlock(LockRange { from: 0, to: number }),
        LockCall::Test(LockRange { from: number, to: number }, LockKind::Exclusive),
    ];
    let signed = number.cast_signed();
    let shared = [
        SharedCall::Collective { number, call: Call::Transfer(Transfer::write(number)) },
        SharedCall::Collective { number, call: Call::Seek(Seek::End(signed)) },
        SharedCall::Transfer(Transfer::read(number)),
        SharedCall::Seek(Seek::Current(signed)),
        SharedCall::Lock { number, from: number, len: number, is_write: true },
        SharedCall::Unlock { number },
        SharedCall::Performed { number, done: Ok(number) },
        SharedCall::Tell,
        SharedCall::Leave,
        SharedCall::CloseForAll,
        SharedCall::Close,
    ];
    let unit = LayoutChoice::Striped { unit_bytes: Some(number), disks: DiskChoice::All };
    let mut all = vec![
        Request::Read { grant: grant.clone(), part, ranges: ranges(number, 1) },
        Request::Read { grant: grant.clone(), part, ranges: ranges(0, number) },
        Request::Read { grant: grant.clone(), part, ranges: many.clone() },
        Request::Write { grant: grant.clone(), part, ranges: ranges(number, number) },
        Request::Write { grant: grant.clone(), part, ranges: many },
        Request::Measure { files: vec![(grant.clone(), vec![part; 20_000])] },
        Request::ReadExtent { grant: extents.grant.clone(), disk, place },
        Request::WriteExtent { grant: extents.grant.clone(), disk, place },
        Request::DeleteExtent { grant: extents.grant.clone(), disk, place },
        Request::ListExtents { grant: extents.grant.clone(), disk, from: place, limit: 7 },
        Request::Process(ProcessRequest::Begin { call: number, work }),
        Request::Process(ProcessRequest::More { call: number }),
        Request::Process(ProcessRequest::Stop { call: number }),
        Request::Namespace(NamespaceRequest::Close { handle: number }),
        Request::Namespace(NamespaceRequest::CloseMany { handles: vec![number; 20_000] }),
        Request::SyncMany { subfiles: vec![(grant.clone(), part); 20_000] },
        compact(flat, number),
        compact(extents, number),
        Request::Namespace(NamespaceRequest::OpenMany {
            paths: vec![path(); 20_000],
            access: Access::READ,
        }),
        Request::Namespace(NamespaceRequest::RemoveMany {
            entries: vec![Removal { path: path(), is_directory: false }; 20_000],
        }),
        Request::Namespace(NamespaceRequest::MarkSyncedMany {
            files: vec![(grant.clone(), Vec::new()); 20_000],
        }),
        Request::Namespace(NamespaceRequest::Renew { handle: number, grant: grant.clone() }),
        Request::Namespace(create(u32::MAX, unit)),
        Request::Namespace(NamespaceRequest::SetLayout {
            handle: number,
            layout: LayoutChoice::Striped {
                unit_bytes: Some(number),
                disks: DiskChoice::Count(u32::MAX),
            },
        }),
        Request::SetModified { grant: grant.clone(), part, modified_ns: number },
        Request::Namespace(NamespaceRequest::SetDirectoryTime {
            path: FilePath::root(),
            changed_ns: number,
        }),
    ];
    let bytes = BytesUse { from: number, to: u64::MAX - number, is_write: true };
    let atomic = [
        AtomicCall::Open { grant: grant.clone(), path: path(), shared_file: None },
        AtomicCall::Claim { number, bytes },
        AtomicCall::AwaitRecall { delegation: number },
        AtomicCall::GiveBack { delegation: number, claims: vec![(number, bytes); 20_000] },
        AtomicCall::Release { number },
        AtomicCall::Close,
    ];
    let files = [grant.file, FileId(u128::from(number))];
    for (file, call) in files.into_iter().flat_map(|file| atomic.clone().map(|call| (file, call))) {
        all.push(Request::Atomic(AtomicRequest { file, opener: number, call }));
    }
    // A length that the file system takes would make the file that long, without any bytes.
    if number > 1 << 60 {
        all.push(Request::Resize { grant: grant.clone(), part, len: number });
        all.push(Request::Grow { grant, part, len: number });
    }
    let lock = |call| Request::Lock(LockRequest { handle: flat.handle, pid: 0, call });
    all.extend(locks.map(lock));
    let shared_file = SharedFileId(u128::from(number) << 64 | u128::from(number));
    all.extend(shared.map(|call| Request::Shared(SharedRequest { shared_file, call })));
    all
}

fn create(number: u32, layout: LayoutChoice) -> NamespaceRequest {
    NamespaceRequest::Create {
        path: FilePath::new(&format!("/f{number}")).unwrap(),
        access: Access::READ_WRITE,
        is_new: false,
        mode: number,
        layout,
    }
}

fn member(size: u32, rank: u32) -> Member {
    Member { job: "job".to_owned(), size, rank }
}

fn open() -> CollectiveOpen {
    let creation = CreationOptions { is_new: false, mode: 0o600, layout: striped() };
    CollectiveOpen {
        path: path(),
        access: Access::READ_WRITE,
        creation: Some(creation),
        mode: Mode::Log,
        is_near: true,
    }
}

fn place_of_team() -> TeamPlace {
    TeamPlace { address: "127.0.0.1:1".to_owned(), key: "00".to_owned() }
}

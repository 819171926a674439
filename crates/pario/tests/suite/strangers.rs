//! Questions that no well-behaved client asks: each is refused, and nothing is given away.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use pario::status::Identity;
use pario::{Access, DiskId, ExtentIndex, ExtentPlacement, Failure, FilePath, SubfileIndex};
use pario_net::{Address, Bulk, Key, LinkChoice, RpcClient, Space, SpaceId};
use pario_proto::{
    DiskChoice, Grant, LayoutChoice, LockCall, LockKind, LockRange, LockRequest, NamespaceRequest,
    PROTOCOL_VERSION, PeerKind, PeerRequest, Reply, Request, RequestMessage, Revocation,
    SubfileLocation, SubfileRange,
};
use pario_server::NodeProtocol;

use crate::sites::{NodeProcess, Site, Transport, tcp_of, until};

/// A client that says what it likes.
struct Stranger {
    rpc_client: RpcClient<NodeProtocol>,
    _space: Space,
}

impl Stranger {
    fn new(site: &Site, with_key: bool) -> Result<Self, String> {
        let tcp: SocketAddr = tcp_of(&site.nodes[0].address());
        let name = format!("stranger {}", SpaceId::random());
        let mut builder = Space::builder(&name).join(&Address::tcp(tcp));
        if with_key {
            let key = std::fs::read_to_string(site.dir.path().join("key")).unwrap();
            builder = builder.key(Key::from_hex(&key).unwrap());
        }
        let space = builder.build().map_err(|error| error.to_string())?;
        let rpc_client = RpcClient::open(&space, "requests", Duration::from_secs(2));
        Ok(Self { rpc_client: rpc_client.map_err(|error| error.to_string())?, _space: space })
    }

    fn ask(&self, request: Request, data: Vec<Bulk>) -> Result<Reply, Failure> {
        self.rpc_client.start(RequestMessage { request, data }).unwrap().wait().unwrap().result
    }

    fn hello(&self, version: u32, uid: u32) -> Result<Reply, Failure> {
        self.hello_as(version, uid, "stranger", PeerKind::Client)
    }

    fn hello_as(
        &self,
        version: u32,
        uid: u32,
        client: &str,
        peer: PeerKind,
    ) -> Result<Reply, Failure> {
        let (identity, client) = (Identity { uid, gids: vec![uid] }, client.to_owned());
        self.ask(Request::Hello { version, identity, client, peer }, Vec::new())
    }

    /// One that comes over the Unix socket of a node.
    fn near(address: &str) -> Self {
        let name = format!("stranger {}", SpaceId::random());
        let builder = Space::builder(&name).links(LinkChoice::Unix).listen_nowhere();
        let builder = builder.connect_to_any_user(true).join(&address.parse().unwrap());
        let space = builder.build().unwrap();
        let rpc_client = RpcClient::open(&space, "requests", Duration::from_secs(10)).unwrap();
        Self { rpc_client, _space: space }
    }

    /// One that is known as a user.
    fn known(site: &Site, uid: u32) -> Self {
        let stranger = Self::new(site, true).unwrap();
        assert!(matches!(stranger.hello(PROTOCOL_VERSION, uid), Ok(Reply::Welcome { .. })));
        stranger
    }

    fn read(
        &self,
        grant: Grant,
        part: SubfileLocation,
        range: SubfileRange,
    ) -> Result<Reply, Failure> {
        self.ask(Request::Read { grant, part, ranges: vec![range] }, Vec::new())
    }
}

const BYTES: SubfileRange = SubfileRange { offset: 0, len: 4 };

/// A file that all users may read, the first of its parts, and a grant of it for user 1000.
fn file_and_grant(site: &Site) -> (SubfileLocation, Grant) {
    let file = site.cluster.create("/f").unwrap();
    file.write_at(b"root", 0).unwrap();
    let disk = file.record().layout.as_ref().unwrap().disks().as_slice()[0];
    let path = FilePath::new("/f").unwrap();
    let open = NamespaceRequest::Open { path, access: Access::READ };
    let stranger = Stranger::known(site, 1000);
    let Ok(Reply::Opened(opened)) = stranger.ask(Request::Namespace(open), Vec::new()) else {
        panic!("all users may read it")
    };
    (SubfileLocation { disk, subfile: SubfileIndex(0) }, opened.grant)
}

#[track_caller]
fn refused(result: Result<Reply, Failure>, text: &str) {
    let failure = result.unwrap_err().to_string();
    assert!(failure.contains(text), "{failure:?} instead of {text:?}");
}

#[test]
fn without_key_or_hello_nothing_is_answered() {
    let site = Site::new(Transport::Tcp);
    let (part, grant) = file_and_grant(&site);
    assert!(Stranger::new(&site, false).is_err(), "over TCP the key is needed");
    let silent = Stranger::new(&site, true).unwrap();
    refused(silent.read(grant.clone(), part, BYTES), "say hello first");
    refused(silent.ask(Request::Map, vec![]), "say hello first");
    refused(silent.ask(Request::Stop, vec![]), "say hello first");
    refused(silent.hello(PROTOCOL_VERSION + 1, 0), "use the same release on both sides");
    refused(silent.read(grant, part, BYTES), "say hello first");
}

#[test]
fn grants_cannot_be_forged_or_passed_on() {
    let site = Site::new(Transport::Tcp);
    let (part, grant) = file_and_grant(&site);
    let user = Stranger::known(&site, 1000);
    assert!(matches!(user.read(grant.clone(), part, BYTES), Ok(Reply::Read { .. })));
    let forged = "it was not given by this cluster";
    let mut changed = grant.clone();
    changed.access = Access::READ_WRITE;
    refused(user.read(changed, part, BYTES), forged);
    let mut changed = grant.clone();
    changed.rights_version += 1;
    refused(user.read(changed, part, BYTES), forged);
    let mut changed = grant.clone();
    changed.epoch += 1;
    refused(user.read(changed, part, BYTES), forged);
    let mut changed = grant.clone();
    changed.file.0 += 1;
    refused(user.read(changed, part, BYTES), forged);
    let other = Stranger::known(&site, 2000);
    refused(other.read(grant.clone(), part, BYTES), "it was given to another user");
    let mut changed = grant.clone();
    changed.uid = 2000;
    refused(other.read(changed, part, BYTES), forged);
    let mark_synced = |grant: Grant| {
        let subfiles = vec![SubfileIndex(0)];
        Request::Namespace(NamespaceRequest::MarkSynced { grant, subfiles })
    };
    refused(other.ask(mark_synced(grant.clone()), vec![]), "it was given to another user");
    refused(user.ask(mark_synced(grant.clone()), vec![]), "was not opened for writing");
    let write = Request::Write { grant: grant.clone(), part, ranges: vec![BYTES] };
    refused(user.ask(write, vec![b"mine".to_vec().into()]), "was not opened for writing");
    let resize = Request::Resize { grant, part, len: 0 };
    refused(user.ask(resize, vec![]), "was not opened for writing");
}

#[test]
fn only_nodes_may_ask_what_nodes_ask() {
    let site = Site::new(Transport::Tcp);
    let (_, grant) = file_and_grant(&site);
    let user = Stranger::known(&site, 1000);
    let only = "only nodes of the cluster may ask this";
    let file = grant.file;
    let revoke = PeerRequest::Revoke(Revocation { file, first_valid: 9, epoch: 1 });
    refused(user.ask(Request::Peer(revoke), vec![]), only);
    let remove = PeerRequest::RemoveSubfiles { files: vec![], epoch: 1 };
    refused(user.ask(Request::Peer(remove), vec![]), only);
    refused(user.ask(Request::Stop, vec![]), "user 1000 may not stop the node");
}

/// Only a subfile that the namespace knows of, where it belongs, is made.
#[test]
fn subfiles_are_made_only_where_the_layout_has_them() {
    let site = Site::new(Transport::Tcp);
    let user = Stranger::known(&site, 0);
    let create = |path: &str| {
        let (path, mode) = (FilePath::new(path).unwrap(), 0o644);
        let layout = LayoutChoice::Striped { unit_bytes: None, disks: DiskChoice::Count(2) };
        let (access, is_new) = (Access::READ_WRITE, true);
        let create = NamespaceRequest::Create { path, access, is_new, mode, layout };
        let Ok(Reply::Opened(opened)) = user.ask(Request::Namespace(create), vec![]) else {
            panic!("it can be created")
        };
        let disk = opened.record.layout.as_ref().unwrap().disks().as_slice()[1];
        (SubfileLocation { disk, subfile: SubfileIndex(1) }, opened.grant)
    };
    let (part, grant) = create("/f");
    let write = |grant: Grant, part: SubfileLocation| {
        let write = Request::Write { grant, part, ranges: vec![BYTES] };
        user.ask(write, vec![b"mine".to_vec().into()])
    };
    let made = site.subfiles();
    let elsewhere = SubfileLocation { subfile: SubfileIndex(0), ..part };
    refused(write(grant.clone(), elsewhere), "is missing");
    let beyond = SubfileLocation { subfile: SubfileIndex(2), ..part };
    refused(write(grant.clone(), beyond), "is missing");
    assert_eq!(site.subfiles(), made);
    assert_eq!(write(grant, part), Ok(Reply::Done));
    assert_eq!(site.subfiles(), made + 1);
}

/// A client with a grant for writing, and the parts of its file on two disks.
struct Holder {
    client: Stranger,
    grant: Grant,
    parts: Vec<SubfileLocation>,
}

impl Holder {
    fn create(site: &Site, path: &str) -> Self {
        let client = Stranger::known(site, 0);
        let (path, mode) = (FilePath::new(path).unwrap(), 0o644);
        let layout = LayoutChoice::Striped { unit_bytes: None, disks: DiskChoice::Count(2) };
        let (access, is_new) = (Access::READ_WRITE, true);
        let create = NamespaceRequest::Create { path, access, is_new, mode, layout };
        let Ok(Reply::Opened(opened)) = client.ask(Request::Namespace(create), vec![]) else {
            panic!("it can be created")
        };
        let disks = opened.record.layout.as_ref().unwrap().disks().as_slice().iter();
        let part = |(subfile, &disk)| SubfileLocation { disk, subfile: SubfileIndex(subfile) };
        Self { client, grant: opened.grant, parts: (0..).zip(disks).map(part).collect() }
    }

    fn write(&self, subfile: usize) -> Result<Reply, Failure> {
        let (grant, part) = (self.grant.clone(), self.parts[subfile]);
        let write = Request::Write { grant, part, ranges: vec![BYTES] };
        self.client.ask(write, vec![b"mine".to_vec().into()])
    }

    fn read(&self, subfile: usize) -> Result<Reply, Failure> {
        self.client.read(self.grant.clone(), self.parts[subfile], BYTES)
    }

    fn sync(&self) {
        let is_there = |part: &&SubfileLocation| {
            let sync = Request::Sync { grant: self.grant.clone(), part: **part };
            self.client.ask(sync, vec![]) == Ok(Reply::Synced { is_there: true })
        };
        let subfiles = self.parts.iter().filter(is_there).map(|part| part.subfile).collect();
        let mark_synced = NamespaceRequest::MarkSynced { grant: self.grant.clone(), subfiles };
        self.client.ask(Request::Namespace(mark_synced), vec![]).unwrap();
    }
}

/// Stops the node, does something to its disks, and starts it again.
fn restart(site: &mut Site, work: impl FnOnce(&Site)) {
    site.nodes.clear();
    work(site);
    let mut config = crate::sites::alone(site.dir.path());
    config.key_file = Some(site.dir.path().join("key"));
    config.nodes[0].listen = Some(crate::sites::any_port());
    site.nodes.push(crate::sites::start_over_any_namespace(&config, "local"));
}

/// A subfile that was synced and is lost stays lost, also for a grant of before its first sync.
#[test]
fn a_grant_of_before_the_first_sync_does_not_bring_lost_bytes_back_as_zeros() {
    let mut site = Site::new(Transport::Tcp);
    let mut holder = Holder::create(&site, "/f");
    assert_eq!(holder.write(0), Ok(Reply::Done));
    assert_eq!(holder.write(1), Ok(Reply::Done));
    holder.sync();
    restart(&mut site, |site| {
        for disk in site.disk_directories() {
            for entry in std::fs::read_dir(disk).unwrap().map(Result::unwrap) {
                if entry.file_name().to_string_lossy().contains("-1-data") {
                    std::fs::remove_file(entry.path()).unwrap();
                }
            }
        }
    });
    assert_eq!(site.subfiles(), 1);
    holder.client = Stranger::known(&site, 0);
    assert!(matches!(holder.read(0), Ok(Reply::Read { .. })));
    refused(holder.read(1), "is missing");
    refused(holder.write(1), "is missing");
    assert_eq!(site.subfiles(), 1, "it was not made anew");
}

/// A client that overwrites the beginning of a subfile through a descriptor from the socket changes
/// nothing that a rebuild believes.
#[test]
fn a_rebuild_believes_nothing_that_a_descriptor_can_write() {
    let mut site = Site::new(Transport::Tcp);
    let (holder, other) = (Holder::create(&site, "/f"), Holder::create(&site, "/other"));
    for holder in [&holder, &other] {
        assert_eq!(holder.write(0), Ok(Reply::Done));
        holder.sync();
    }
    // What another file says of itself, as a forger would like to have it.
    let stem = format!("{:032x}-0-data.description", other.grant.file.0);
    let forged =
        site.disk_directories().iter().find_map(|disk| std::fs::read(disk.join(&stem)).ok());
    let mut forged = forged.unwrap();
    forged.resize(64 << 10, 0xee);
    let socket = site.dir.path().join("s-files");
    let mut client = pario_net::DescriptorClient::connect(&socket).unwrap();
    let (grant, parts) = (holder.grant.clone(), vec![holder.parts[0]]);
    let request = pario_proto::DescriptorRequest::Subfiles { grant, parts };
    let given = client.request(&postcard::to_allocvec(&request).unwrap()).unwrap();
    let (_, descriptors) = given.unwrap_or_else(|_| panic!("descriptors are refused"));
    assert_eq!(descriptors.len(), 2, "the table of leases, and the subfile");
    assert_eq!(rustix::io::pwrite(&descriptors[1], &forged, 0), Ok(forged.len()));
    restart(&mut site, |site| {
        std::fs::remove_file(site.dir.path().join("namespace.redb")).unwrap();
    });
    let address = format!("tcp:{}", tcp_of(&site.nodes[0].address()));
    let options = crate::sites::key_options(site.dir.path());
    let cluster = pario::Cluster::connect_with(&address, options).unwrap();
    let (depth, is_repair, is_rebuild) = (pario::status::CheckDepth::Everything, false, true);
    let report =
        cluster.check(pario::status::CheckRequest { depth, is_repair, is_rebuild }).unwrap();
    let told: Vec<_> =
        report.findings.iter().map(|found| (found.kind, found.path.clone())).collect();
    let rebuilt = |path| (pario::status::FindingKind::Rebuilt, Some(FilePath::new(path).unwrap()));
    // Newer files are rebuilt first.
    assert_eq!(told, [rebuilt("/other"), rebuilt("/f")]);
    let mut bytes = [0; 4];
    cluster.open("/f").unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"mine");
}

/// A deleted file stays deleted, also for a client that has a grant of it and missed the deletion.
#[test]
fn a_grant_of_a_deleted_file_revives_nothing() {
    let mut site = Site::new(Transport::Tcp);
    let mut holder = Holder::create(&site, "/f");
    assert_eq!(holder.write(0), Ok(Reply::Done));
    site.cluster.remove("/f").unwrap();
    assert_eq!(holder.write(1), Ok(Reply::Done), "a client that has it open can go on");
    restart(&mut site, |_| {});
    until("its subfiles are gone", || site.subfiles() == 0);
    holder.client = Stranger::known(&site, 0);
    refused(holder.write(0), "was deleted");
    refused(holder.write(1), "was deleted");
    refused(holder.read(1), "was deleted");
    assert_eq!(site.subfiles(), 0);
}

/// Numbers that make no sense are refused; nothing is made by asking for it.
#[test]
fn places_that_there_are_not() {
    let site = Site::new(Transport::Tcp);
    let (part, grant) = file_and_grant(&site);
    let user = Stranger::known(&site, 1000);
    let subfiles = site.subfiles();
    let elsewhere = SubfileLocation { disk: part.disk, subfile: SubfileIndex(1) };
    refused(user.read(grant.clone(), elsewhere, BYTES), "is missing");
    let beyond = SubfileLocation { disk: part.disk, subfile: SubfileIndex(99) };
    refused(user.read(grant.clone(), beyond, BYTES), "is missing");
    let nowhere = SubfileLocation { disk: DiskId(99), subfile: SubfileIndex(0) };
    refused(user.read(grant.clone(), nowhere, BYTES), "disk 99 is not one of its disks");
    assert_eq!(site.subfiles(), subfiles);
    for range in [
        SubfileRange { offset: u64::MAX, len: 4 },
        SubfileRange { offset: u64::MAX - 4096, len: 4 },
    ] {
        refused(user.read(grant.clone(), part, range), "too large");
    }
    for len in [u64::MAX, 1 << 40] {
        let range = SubfileRange { offset: 0, len };
        refused(user.read(grant.clone(), part, range), "send several");
    }
    let place = ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(u64::MAX) };
    let read = Request::ReadExtent { grant: grant.clone(), disk: part.disk, place };
    assert!(user.ask(read, vec![]).is_err());
    assert!(matches!(user.read(grant, part, BYTES), Ok(Reply::Read { .. })), "it still serves");
}

/// The node ignores the name of a process: only the administrator, root and holders of the key can
/// connect as a node.
#[test]
fn the_name_of_a_client_does_not_make_it_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(dir.path(), "local", None);
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let peer = || Request::Peer(PeerRequest::RemoveSubfiles { files: vec![], epoch: 0 });
    let only = "only nodes of the cluster may ask this";
    let (client, is_node) = (PeerKind::Client, PeerKind::Node);

    let own = Stranger::near(&node.address);
    own.hello_as(PROTOCOL_VERSION, 0, "node x", client).unwrap();
    refused(own.ask(peer(), vec![]), only);
    own.hello_as(PROTOCOL_VERSION, 0, "anything", is_node).unwrap();
    own.ask(peer(), vec![]).unwrap();

    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run a thread as another user");
        return;
    }
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(1000)).unwrap();
            let other = Stranger::near(&node.address);
            let why = "it says that it is a node, which a process of user 1000 cannot be";
            refused(other.hello_as(PROTOCOL_VERSION, 0, "node x", is_node), why);
            refused(other.ask(peer(), vec![]), "say hello first");
            other.hello_as(PROTOCOL_VERSION, 0, "node x", client).unwrap();
            refused(other.ask(peer(), vec![]), only);
        });
        other.join().unwrap();
    });
}

/// A client leaves the port for requests and then drops its link: its session, its open file and its
/// lock end.
#[test]
fn a_client_that_leaves_its_port_before_its_link_keeps_nothing() {
    let site = Site::new(Transport::Tcp);
    let file = site.cluster.create("/f").unwrap();
    let is_free = || file.try_lock(.., LockKind::Exclusive).unwrap();
    let Stranger { rpc_client, _space: space } = Stranger::known(&site, 0);
    let ask = |request| {
        let message = RequestMessage { request, data: Vec::new() };
        rpc_client.start(message).unwrap().wait().unwrap().result.unwrap()
    };
    let path = FilePath::new("/f").unwrap();
    let open = NamespaceRequest::Open { path, access: Access::READ_WRITE };
    let Reply::Opened(opened) = ask(Request::Namespace(open)) else { panic!("it is opened") };
    let range = LockRange { from: 0, to: 10 };
    let call = LockCall::Try(range, LockKind::Exclusive);
    ask(Request::Lock(LockRequest { handle: opened.handle, pid: 1, call }));
    assert!(!is_free());
    drop(rpc_client);
    assert!(!is_free(), "the link is there");
    drop(space);
    until("the lock is free", is_free);
    until("the session is over", || {
        site.status().clients.iter().all(|client| client.name != "stranger")
    });
    assert_eq!(site.status().open_files, 1);
}

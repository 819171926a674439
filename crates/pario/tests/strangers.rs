//! Questions that no well-behaved client asks: each is refused, and nothing is given away.

mod ways;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use pario::{Access, DiskId, ExtentIndex, ExtentPlace, Failure, FilePath, Identity, SubfileIndex};
use pario_net::{Address, Asker, Bulk, Key, LinkChoice, Space, SpaceId};
use pario_proto::{
    Answer, DisksWish, Grant, LayoutWish, NamespaceRequest, PROTOCOL_VERSION, Part, PeerKind,
    PeerRequest, Question, Reply, Request, Revocation, SubfileRange,
};
use ways::{NodeProcess, Site, Way, tcp_of};

/// A client that says what it likes.
struct Stranger {
    asker: Asker<Question<Bulk>, Answer<Bulk>>,
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
        let asker = Asker::open(&space, "requests", Duration::from_secs(2));
        Ok(Self { asker: asker.map_err(|error| error.to_string())?, _space: space })
    }

    fn ask(&self, request: Request, data: Vec<Bulk>) -> Result<Reply, Failure> {
        self.asker.ask(Question { request, data }).unwrap().wait().unwrap().result
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
        let asker = Asker::open(&space, "requests", Duration::from_secs(10)).unwrap();
        Self { asker, _space: space }
    }

    /// One that is known as a user.
    fn known(site: &Site, uid: u32) -> Self {
        let stranger = Self::new(site, true).unwrap();
        assert!(matches!(stranger.hello(PROTOCOL_VERSION, uid), Ok(Reply::Welcome { .. })));
        stranger
    }

    fn read(&self, grant: Grant, part: Part, range: SubfileRange) -> Result<Reply, Failure> {
        self.ask(Request::Read { grant, part, ranges: vec![range] }, Vec::new())
    }
}

const BYTES: SubfileRange = SubfileRange { offset: 0, len: 4 };

/// A file that everybody may read, the first of its parts, and a grant of it for user 1000.
fn file_and_grant(site: &Site) -> (Part, Grant) {
    let file = site.cluster.create("/f").unwrap();
    file.write_at(b"root", 0).unwrap();
    let disk = file.record().layout.as_ref().unwrap().disks().as_slice()[0];
    let path = FilePath::new("/f").unwrap();
    let open = NamespaceRequest::Open { path, access: Access::READ };
    let stranger = Stranger::known(site, 1000);
    let Ok(Reply::Opened(opened)) = stranger.ask(Request::Namespace(open), Vec::new()) else {
        panic!("it may be read by everybody")
    };
    (Part { disk, subfile: SubfileIndex(0) }, opened.grant)
}

#[track_caller]
fn refused(result: Result<Reply, Failure>, text: &str) {
    let failure = result.unwrap_err().to_string();
    assert!(failure.contains(text), "{failure:?} instead of {text:?}");
}

#[test]
fn without_key_or_hello_nothing_is_answered() {
    let site = Site::new(Way::Tcp);
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
    let site = Site::new(Way::Tcp);
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
    let settle = |grant: Grant| {
        let subfiles = vec![SubfileIndex(0)];
        Request::Namespace(NamespaceRequest::Settle { grant, subfiles })
    };
    refused(other.ask(settle(grant.clone()), vec![]), "it was given to another user");
    refused(user.ask(settle(grant.clone()), vec![]), "was not opened for writing");
    let write = Request::Write { grant: grant.clone(), part, ranges: vec![BYTES] };
    refused(user.ask(write, vec![b"mine".to_vec().into()]), "was not opened for writing");
    let resize = Request::Resize { grant, part, len: 0 };
    refused(user.ask(resize, vec![]), "was not opened for writing");
}

#[test]
fn only_nodes_may_ask_what_nodes_ask() {
    let site = Site::new(Way::Tcp);
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
    let site = Site::new(Way::Tcp);
    let user = Stranger::known(&site, 0);
    let create = |path: &str| {
        let (path, mode) = (FilePath::new(path).unwrap(), 0o644);
        let layout = LayoutWish::Striped { unit_bytes: None, disks: DisksWish::Count(2) };
        let (access, is_new) = (Access::READ_WRITE, true);
        let create = NamespaceRequest::Create { path, access, is_new, mode, layout };
        let Ok(Reply::Opened(opened)) = user.ask(Request::Namespace(create), vec![]) else {
            panic!("it can be created")
        };
        let disk = opened.record.layout.as_ref().unwrap().disks().as_slice()[1];
        (Part { disk, subfile: SubfileIndex(1) }, opened.grant)
    };
    let (part, grant) = create("/f");
    let write = |grant: Grant, part: Part| {
        let write = Request::Write { grant, part, ranges: vec![BYTES] };
        user.ask(write, vec![b"mine".to_vec().into()])
    };
    let made = site.subfiles();
    let elsewhere = Part { subfile: SubfileIndex(0), ..part };
    refused(write(grant.clone(), elsewhere), "is missing");
    let beyond = Part { subfile: SubfileIndex(2), ..part };
    refused(write(grant.clone(), beyond), "is missing");
    assert_eq!(site.subfiles(), made);
    assert_eq!(write(grant, part), Ok(Reply::Done));
    assert_eq!(site.subfiles(), made + 1);
}

/// Numbers that make no sense are refused; nothing is made by asking for it.
#[test]
fn places_that_there_are_not() {
    let site = Site::new(Way::Tcp);
    let (part, grant) = file_and_grant(&site);
    let user = Stranger::known(&site, 1000);
    let subfiles = site.subfiles();
    let elsewhere = Part { disk: part.disk, subfile: SubfileIndex(1) };
    refused(user.read(grant.clone(), elsewhere, BYTES), "is missing");
    let beyond = Part { disk: part.disk, subfile: SubfileIndex(99) };
    refused(user.read(grant.clone(), beyond, BYTES), "is missing");
    let nowhere = Part { disk: DiskId(99), subfile: SubfileIndex(0) };
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
    let place = ExtentPlace { subfile: SubfileIndex(0), extent: ExtentIndex(u64::MAX) };
    let read = Request::ReadExtent { grant: grant.clone(), disk: part.disk, place };
    assert!(user.ask(read, vec![]).is_err());
    assert!(matches!(user.read(grant, part, BYTES), Ok(Reply::Read { .. })), "it still serves");
}

/// What a process is called says nothing of what it is, and only the administrator, root and
/// holders of the key are believed that they are a node.
#[test]
fn a_node_is_not_told_from_a_client_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(dir.path(), "local", None);
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let peer = || Request::Peer(PeerRequest::RemoveSubfiles { files: vec![] });
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

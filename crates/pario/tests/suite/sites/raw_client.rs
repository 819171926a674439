//! A client that keeps grants and uses them as it likes, as a user of its choice: holders of the
//! cluster key may claim to be anyone.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use pario_net::{Address, Bulk, Key, RpcClient, Space, SpaceId};
use pario_proto::{
    Access, DiskChoice, DiskId, Failure, FilePath, Grant, Identity, LayoutChoice, NamespaceRequest,
    Opened, PROTOCOL_VERSION, PeerKind, Reply, Request, RequestMessage, SubfileIndex,
    SubfileLocation, SubfileRange,
};
use pario_server::NodeProtocol;

/// A connection to one node.
pub struct RawClient {
    rpc_client: RpcClient<NodeProtocol>,
    _space: Space,
}

const BYTES: SubfileRange = SubfileRange { offset: 0, len: 4 };

impl RawClient {
    /// Connects as a user; as a node if the name begins with `node `.
    pub fn connect(tcp: SocketAddr, key_file: &Path, uid: u32, name: &str) -> Self {
        let key = std::fs::read_to_string(key_file).unwrap();
        let space = Space::builder(&format!("{name} {}", SpaceId::random()))
            .join(&Address::tcp(tcp))
            .key(Key::from_hex(&key).unwrap())
            .build()
            .unwrap();
        let rpc_client = RpcClient::open(&space, "requests", Duration::from_secs(10)).unwrap();
        let client = Self { rpc_client, _space: space };
        let identity = Identity { uid, gids: vec![uid] };
        let (version, client_name) = (PROTOCOL_VERSION, name.to_owned());
        let peer = if name.starts_with("node ") { PeerKind::Node } else { PeerKind::Client };
        let welcome = client.ask(Request::Hello { version, identity, client: client_name, peer });
        assert!(matches!(welcome, Ok(Reply::Welcome { .. })), "{welcome:?}");
        client
    }

    pub fn ask(&self, request: Request) -> Result<Reply, Failure> {
        self.ask_with(request, Vec::new())
    }

    pub fn ask_with(&self, request: Request, data: Vec<Bulk>) -> Result<Reply, Failure> {
        self.rpc_client.start(RequestMessage { request, data }).unwrap().wait().unwrap().result
    }

    pub fn open(&self, path: &str, access: Access) -> Result<Opened, Failure> {
        let path = FilePath::new(path).unwrap();
        self.opened(NamespaceRequest::Open { path, access })
    }

    pub fn create(&self, path: &str, mode: u32, disks: Vec<DiskId>) -> Result<Opened, Failure> {
        let path = FilePath::new(path).unwrap();
        let layout = LayoutChoice::Striped { unit_bytes: None, disks: DiskChoice::These(disks) };
        let (access, is_new) = (Access::READ_WRITE, true);
        self.opened(NamespaceRequest::Create { path, access, is_new, mode, layout })
    }

    pub fn renew(&self, handle: u64, grant: &Grant) -> Result<Opened, Failure> {
        self.opened(NamespaceRequest::Renew { handle, grant: grant.clone() })
    }

    fn opened(&self, request: NamespaceRequest) -> Result<Opened, Failure> {
        match self.ask(Request::Namespace(request))? {
            Reply::Opened(opened) => Ok(opened),
            reply => panic!("{reply:?}"),
        }
    }

    /// Reads the first bytes of a subfile.
    pub fn read(&self, grant: &Grant, part: SubfileLocation) -> Result<Reply, Failure> {
        self.ask(Request::Read { grant: grant.clone(), part, ranges: vec![BYTES] })
    }

    /// Writes the first bytes of a subfile.
    pub fn write(&self, grant: &Grant, part: SubfileLocation) -> Result<Reply, Failure> {
        let request = Request::Write { grant: grant.clone(), part, ranges: vec![BYTES] };
        self.ask_with(request, vec![b"mine".to_vec().into()])
    }
}

/// A subfile of an open file.
pub fn part(opened: &Opened, subfile: u32) -> SubfileLocation {
    let disk = opened.record.layout.as_ref().unwrap().disks().as_slice()[subfile as usize];
    SubfileLocation { disk, subfile: SubfileIndex(subfile) }
}

#[track_caller]
pub fn expired(result: Result<Reply, Failure>) {
    assert!(matches!(result, Err(Failure::GrantExpired { .. })), "{result:?}");
}

#[track_caller]
pub fn revoked(result: Result<Reply, Failure>) {
    assert!(matches!(result, Err(Failure::Revoked { .. })), "{result:?}");
}

#[track_caller]
pub fn deleted(result: Result<Reply, Failure>) {
    assert!(matches!(result, Err(Failure::Deleted { .. })), "{result:?}");
}

#[track_caller]
pub fn works(result: Result<Reply, Failure>) {
    assert!(matches!(result, Ok(Reply::Read { .. } | Reply::Done)), "{result:?}");
}

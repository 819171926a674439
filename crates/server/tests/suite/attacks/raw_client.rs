//! A client that sends any request, without the checks of the library.

use std::time::{Duration, Instant};

use pario_net::{Address, RpcClient, RpcError, Space, SpaceId};
use pario_proto::{
    Access, DiskChoice, Failure, FilePath, Identity, LayoutChoice, NamespaceRequest, Opened,
    PROTOCOL_VERSION, PeerKind, Reply, Request, RequestMessage,
};
use pario_server::NodeProtocol;

use super::node_process::AttackedNode;

/// The longest time for one reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A client that sends any request.
pub struct RawClient {
    pub rpc: RpcClient<NodeProtocol>,
    space: Space,
}

impl RawClient {
    /// Connects a client that has not sent its hello.
    pub fn silent(node: &AttackedNode) -> Self {
        let name = format!("attacker {}", SpaceId::random());
        let builder = Space::builder(&name).key(node.key());
        let space = builder.join(&Address::tcp(node.tcp())).build().unwrap();
        let rpc = RpcClient::open(&space, "requests", Duration::from_secs(10)).unwrap();
        Self { rpc, space }
    }

    /// Connects a client as a user.
    pub fn of_user(node: &AttackedNode, uid: u32) -> Self {
        let client = Self::silent(node);
        let welcomed = client.request(hello(uid)).unwrap();
        assert!(matches!(welcomed, Ok(Reply::Welcome { .. })), "{welcomed:?}");
        client
    }

    /// Sends a request and waits for the reply, or for the reason why there is none.
    pub fn request(&self, request: Request) -> Result<Result<Reply, Failure>, RpcError> {
        let pending = self.rpc.start(RequestMessage { request, data: Vec::new() })?;
        let answered = pending.wait_until(Instant::now() + REPLY_TIMEOUT);
        answered.unwrap_or_else(|_| panic!("the node does not reply")).map(|answer| answer.result)
    }

    /// Creates a file and opens it.
    pub fn create(&self, path: &str, layout: LayoutChoice) -> Opened {
        let request = NamespaceRequest::Create {
            path: FilePath::new(path).unwrap(),
            access: Access::READ_WRITE,
            is_new: true,
            mode: 0o666,
            layout,
        };
        match self.request(Request::Namespace(request)).unwrap() {
            Ok(Reply::Opened(opened)) => opened,
            other => panic!("{path} cannot be created: {other:?}"),
        }
    }
}

impl Drop for RawClient {
    fn drop(&mut self) {
        self.space.close();
    }
}

/// The first request of a user.
pub fn hello(uid: u32) -> Request {
    let identity = Identity { uid, gids: vec![uid] };
    let (version, client) = (PROTOCOL_VERSION, "attacker".to_owned());
    Request::Hello { version, identity, client, peer: PeerKind::Client }
}

/// A file of bytes over all disks.
pub fn striped() -> LayoutChoice {
    LayoutChoice::Striped { unit_bytes: None, disks: DiskChoice::All }
}

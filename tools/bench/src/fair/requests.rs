//! Cheap requests to a node, one by one or as many as it accepts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pario_net::{Address, Bulk, RpcClient, Space, SpaceId};
use pario_proto::{Identity, PROTOCOL_VERSION, PeerKind, Reply, Request, RequestMessage};
use pario_server::NodeProtocol;

/// Requests of a flood without a reply.
const UNDER_WAY: u64 = 20_000;

/// A client that sends cheap requests.
pub struct RequestClient {
    rpc_client: RpcClient<NodeProtocol>,
    _space: Space,
}

impl RequestClient {
    /// Connects to the Unix socket of a node.
    pub fn connect(address: &str) -> Result<Self> {
        let path = address.strip_prefix("unix:").context("an address of a Unix socket")?;
        let name = format!("client {}", SpaceId::random());
        let space = Space::builder(&name).join(&Address::unix(path)).build()?;
        let rpc_client = RpcClient::open(&space, "requests", Duration::from_secs(10))?;
        let client = Self { rpc_client, _space: space };
        let identity = Identity { uid: 0, gids: vec![0] };
        let (version, client_name) = (PROTOCOL_VERSION, "fair".to_owned());
        let peer = PeerKind::Client;
        let hello = Request::Hello { version, identity, client: client_name, peer };
        let welcomed = client.rpc_client.start(message(hello))?.wait()?.result?;
        ensure!(matches!(welcomed, Reply::Welcome { .. }), "the node replied with {welcomed:?}");
        Ok(client)
    }

    /// Sends one request; returns the time until its reply.
    pub fn ask(&self) -> Result<Duration> {
        let began = Instant::now();
        self.rpc_client.start(message(Request::Map))?.wait()?.result?;
        Ok(began.elapsed())
    }

    /// Sends as many requests as the node accepts until `is_over`; returns the number of replies.
    pub fn flood(&self, is_over: &AtomicBool) -> u64 {
        let answered = Arc::new(AtomicU64::new(0));
        let asking = std::thread::current();
        let mut asked = 0;
        let wait_until = |fewest: u64| {
            while answered.load(Ordering::SeqCst) < fewest {
                std::thread::park();
            }
        };
        while !is_over.load(Ordering::SeqCst) {
            wait_until((asked + UNDER_WAY / 2).saturating_sub(UNDER_WAY));
            for _ in 0..UNDER_WAY / 2 {
                let (count, asking) = (answered.clone(), asking.clone());
                self.rpc_client.call_then(message(Request::Map), move |_| {
                    let answered = count.fetch_add(1, Ordering::SeqCst) + 1;
                    if answered.is_multiple_of(UNDER_WAY / 2) {
                        asking.unpark();
                    }
                });
            }
            asked += UNDER_WAY / 2;
        }
        wait_until(asked);
        asked
    }
}

fn message(request: Request) -> RequestMessage<Bulk> {
    RequestMessage { request, data: Vec::new() }
}

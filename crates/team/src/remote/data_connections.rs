//! The connections of a process to the data servers of machines.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pario_net::{Address, Key, PendingReply, RecvBuffer, RpcClient, RpcError, Space};
use parking_lot::Mutex;

use super::message::{DataProtocol, DataRequest};

/// The timeout of one attempt to open the port of a data server.
const OPEN_TIMEOUT: Duration = Duration::from_millis(200);
/// The number of attempts.
const OPEN_ATTEMPTS: u32 = 50;

/// The connections to data servers, each opened when it is first used.
pub struct DataConnections {
    space: Space,
    servers: Mutex<HashMap<u32, RpcClient<DataProtocol>>>,
}

/// The port name of the data server of a machine leader.
pub fn data_port(leader: u32) -> String {
    format!("data {leader}")
}

/// Encodes the address and the key of a directory for the board.
pub fn encode_directory(address: &Address, key: Option<&Key>) -> String {
    let place = match (&address.tcp, &address.unix) {
        (Some(tcp), _) => format!("tcp:{tcp}"),
        (None, Some(unix)) => format!("unix:{}", unix.display()),
        (None, None) => String::new(),
    };
    format!("{place} {}", key.map(Key::to_hex).unwrap_or_default())
}

impl DataConnections {
    /// Uses an existing space.
    pub fn new(space: Space) -> Self {
        Self { space, servers: Mutex::default() }
    }

    /// Joins the directory on the board under a name of its own.
    pub fn connect(way: &str, name: &str) -> Result<Self, String> {
        let malformed = || format!("the board says {way:?}");
        let (place, key) = way.split_once(' ').ok_or_else(malformed)?;
        let address = match place.split_once(':') {
            Some(("tcp", tcp)) => Address::tcp(tcp.parse::<SocketAddr>().map_err(|_| malformed())?),
            Some(("unix", unix)) => Address::unix(unix),
            _ => return Err(malformed()),
        };
        let mut builder = Space::builder(name).listen_nowhere().join(&address);
        if !key.is_empty() {
            builder = builder.key(Key::from_hex(key).map_err(|error| error.to_string())?);
        }
        Ok(Self::new(builder.build().map_err(|error| error.to_string())?))
    }

    /// Sends a request to the data server of a machine. Retries to open its port while
    /// `may_be_there`. The bytes of the reply may go to a buffer of the caller.
    pub fn start(
        &self,
        leader: u32,
        request: DataRequest,
        buffer: Option<&Arc<RecvBuffer>>,
        may_be_there: impl Fn() -> bool,
    ) -> Result<PendingReply<DataProtocol>, RpcError> {
        let client = self.client(leader, may_be_there)?;
        match buffer {
            Some(buffer) => client.start_into(request, buffer),
            None => client.start(request),
        }
    }

    fn client(
        &self,
        leader: u32,
        may_be_there: impl Fn() -> bool,
    ) -> Result<RpcClient<DataProtocol>, RpcError> {
        let mut servers = self.servers.lock();
        if let Some(client) = servers.get(&leader) {
            return Ok(client.clone());
        }
        let port = data_port(leader);
        for _ in (0..OPEN_ATTEMPTS).take_while(|_| may_be_there()) {
            if let Ok(client) = RpcClient::open(&self.space, &port, OPEN_TIMEOUT) {
                servers.insert(leader, client.clone());
                return Ok(client);
            }
        }
        Err(RpcError::Lost { peer: port })
    }
}

//! A node of a cluster, as somebody who tells machines of a job where they meet.

use std::fmt;
use std::net::SocketAddr;

use pario_net::Address;
use pario_proto::{Reply, Request, TeamCall, TeamPlace};
use pario_team::{Broker, Endpoint, Key};
use parking_lot::Mutex;

use crate::cluster::Cluster;
use crate::error::Error;

/// The node that keeps the names of a cluster. It needs no more than a question from the captain of
/// each machine; what ranks do with each other's memory does not concern it.
pub struct NodeBroker {
    /// Connected to when it is needed first.
    cluster: Mutex<Option<Cluster>>,
    /// What can be done where there is no cluster, for people.
    otherwise: String,
}

impl NodeBroker {
    /// Of a cluster that this process is a client of.
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: Mutex::new(Some(cluster.clone())), otherwise: String::new() }
    }

    /// Of the cluster that PARIO_CLUSTER names. `otherwise` says what else can be done where that is
    /// impossible.
    pub fn of_environment(otherwise: String) -> Self {
        Self { cluster: Mutex::new(None), otherwise }
    }

    fn cluster(&self) -> Result<Cluster, String> {
        let mut cluster = self.cluster.lock();
        if let Some(cluster) = &*cluster {
            return Ok(cluster.clone());
        }
        // The user's own node would be another one on each machine.
        let found = match std::env::var_os("PARIO_CLUSTER") {
            Some(_) => Cluster::from_env().map_err(|error| error.to_string()),
            None => Err("PARIO_CLUSTER names no cluster".to_owned()),
        };
        let found = found.map_err(|why| format!("{}: {why}", self.otherwise))?;
        *cluster = Some(found.clone());
        Ok(found)
    }

    fn ask(&self, job: &str, call: TeamCall) -> Result<Reply, String> {
        let asked =
            self.cluster()?.shared.interface().call(Request::Team { job: job.to_owned(), call });
        asked.map_err(|error: Error| error.to_string())
    }
}

impl Broker for NodeBroker {
    fn offer(&self, job: &str, offer: &Endpoint) -> Result<Endpoint, String> {
        let place = TeamPlace { address: offer.address.to_string(), key: offer.key.to_hex() };
        match self.ask(job, TeamCall::Settle(place))? {
            Reply::TeamPlace(TeamPlace { address, key }) => {
                let address = address.parse().map_err(|_| format!("{address} is no address"))?;
                let key = Key::from_hex(&key).map_err(|error| error.to_string())?;
                Ok(Endpoint { address, key })
            }
            reply => Err(format!("the node has answered {reply:?}")),
        }
    }

    fn withdraw(&self, job: &str) {
        // A node that does not answer has forgotten it with the connection.
        let _ = self.ask(job, TeamCall::Withdraw);
    }

    fn common_address(&self) -> Result<SocketAddr, String> {
        let cluster = self.cluster()?;
        let map = cluster.map();
        let node = &map.nodes[map.interface as usize];
        let address = node.address.parse::<Address>().unwrap_or_default();
        let reached = address.tcp.filter(|tcp| !tcp.ip().is_unspecified());
        reached.ok_or_else(|| {
            format!(
                "node {} has no TCP address at which other machines reach it; give it one in the \
                 cluster's configuration, or name the first machine in PARIO_TEAM",
                node.name
            )
        })
    }
}

impl fmt::Debug for NodeBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeBroker")
    }
}

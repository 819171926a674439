//! A node of a cluster as the broker that tells the machines of a job where they meet.

use std::fmt;
use std::net::SocketAddr;

use pario_net::Address;
use pario_proto::{Reply, Request, TeamAddress, TeamCall};
use pario_team::{Broker, Endpoint, Key};
use parking_lot::Mutex;

use crate::cluster::Cluster;
use crate::error::Error;

/// The interface node of a cluster. The leader of each machine sends it one request; it takes no
/// part in what the ranks do with their memory.
pub struct NodeBroker {
    /// The connection; opened at its first use.
    cluster: Mutex<Option<Cluster>>,
    /// What the user can do if there is no cluster.
    advice: String,
}

impl NodeBroker {
    /// A node of a cluster of which this process is a client.
    pub fn new(cluster: &Cluster) -> Self {
        Self { cluster: Mutex::new(Some(cluster.clone())), advice: String::new() }
    }

    /// A node of the cluster that PARIO_CLUSTER names. Errors begin with the advice.
    pub fn from_env(advice: String) -> Self {
        Self { cluster: Mutex::new(None), advice }
    }

    fn cluster(&self) -> Result<Cluster, String> {
        let mut cluster = self.cluster.lock();
        if let Some(cluster) = &*cluster {
            return Ok(cluster.clone());
        }
        // Without the variable, each machine would ask a node of its own.
        let found = match std::env::var_os("PARIO_CLUSTER") {
            Some(_) => Cluster::from_env().map_err(|error| error.to_string()),
            None => Err("PARIO_CLUSTER names no cluster".to_owned()),
        };
        let found = found.map_err(|why| format!("{}: {why}", self.advice))?;
        *cluster = Some(found.clone());
        Ok(found)
    }

    fn ask(&self, job: &str, call: TeamCall) -> Result<Reply, String> {
        let reply =
            self.cluster()?.shared.interface().call(Request::Team { job: job.to_owned(), call });
        reply.map_err(|error: Error| error.to_string())
    }
}

impl Broker for NodeBroker {
    fn offer(&self, job: &str, offer: &Endpoint) -> Result<Endpoint, String> {
        let place = TeamAddress { address: offer.address.to_string(), key: offer.key.to_hex() };
        match self.ask(job, TeamCall::Settle(place))? {
            Reply::TeamAddress(TeamAddress { address, key }) => {
                let address = address.parse().map_err(|_| format!("{address} is no address"))?;
                let key = Key::from_hex(&key).map_err(|error| error.to_string())?;
                Ok(Endpoint { address, key })
            }
            reply => Err(format!("the node has answered {reply:?}")),
        }
    }

    fn withdraw(&self, job: &str) {
        // A node that does not answer has lost the connection, and with it the offer.
        let _ = self.ask(job, TeamCall::Withdraw);
    }

    fn common_address(&self) -> Result<SocketAddr, String> {
        let cluster = self.cluster()?;
        let map = cluster.map();
        let node = &map.nodes[map.interface as usize];
        let address = node.address.parse::<Address>().unwrap_or_default();
        let reachable = address.tcp.filter(|tcp| !tcp.ip().is_unspecified());
        reachable.ok_or_else(|| {
            format!(
                "node {} has no TCP address at which other machines reach it; give it one in the \
                 cluster's configuration or with `--listen ADDRESS`, or name the first machine in \
                 PARIO_TEAM",
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

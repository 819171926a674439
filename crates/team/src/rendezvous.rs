//! Where the machines of a team meet.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use pario_net::Key;

/// Where the machines of a team meet, and which one this is.
#[derive(Clone, Debug)]
pub struct MultiMachine {
    /// Where they meet.
    pub rendezvous: Rendezvous,
    /// Ranks that say the same here and run on the same machine use their memory directly. It is
    /// empty, unless ranks of one machine are to be treated as if they were on several.
    pub machine: String,
}

/// How machines find each other.
#[derive(Clone, Debug)]
pub enum Rendezvous {
    /// At a place that all know.
    Known(Endpoint),
    /// At a place that somebody tells them whom all can ask.
    Brokered(Arc<dyn Broker>),
}

/// A place to meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// An address of one of the machines, at which it listens.
    pub address: SocketAddr,
    /// The key by which they know each other.
    pub key: Key,
}

/// Somebody whom the leaders of all machines can ask where they meet.
pub trait Broker: fmt::Debug + Send + Sync {
    /// The place that was offered first of all for a job, and is still there.
    fn offer(&self, job: &str, offer: &Endpoint) -> Result<Endpoint, String>;

    /// Nobody has to find the place any more that this process has offered.
    fn withdraw(&self, job: &str);

    /// An address in the network that all machines have in common.
    fn common_address(&self) -> Result<SocketAddr, String>;
}

impl MultiMachine {
    /// Machines that meet at an address of one of them, and know each other by a key.
    pub fn at(address: SocketAddr, key: Key) -> Self {
        let rendezvous = Rendezvous::Known(Endpoint { address, key });
        Self { rendezvous, machine: String::new() }
    }

    /// The same as one of several machines that are only called so.
    #[must_use]
    pub fn called(self, machine: impl Into<String>) -> Self {
        Self { machine: machine.into(), ..self }
    }
}

//! How the machines of a team find each other.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use pario_net::Key;

/// The rendezvous of a team on several machines, and the name of this machine.
#[derive(Clone, Debug)]
pub struct MultiMachine {
    /// The rendezvous.
    pub rendezvous: Rendezvous,
    /// Ranks with the same name on the same machine use their memory directly. Empty, unless ranks
    /// of one machine are to be treated as if they were on several.
    pub machine: String,
}

/// How machines find each other.
#[derive(Clone, Debug)]
pub enum Rendezvous {
    /// At an endpoint that all know.
    Known(Endpoint),
    /// At an endpoint that a broker knows.
    Brokered(Arc<dyn Broker>),
}

/// An endpoint at which a team coordinator listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// An address of one of the machines.
    pub address: SocketAddr,
    /// The key that the machines share.
    pub key: Key,
}

/// A service that the machine leaders ask where they meet.
pub trait Broker: fmt::Debug + Send + Sync {
    /// Offers an endpoint for a job. Returns the endpoint that was offered first and still exists.
    fn offer(&self, job: &str, offer: &Endpoint) -> Result<Endpoint, String>;

    /// Withdraws the endpoint that this process has offered.
    fn withdraw(&self, job: &str);

    /// Returns an address in the network that all machines share.
    fn common_address(&self) -> Result<SocketAddr, String>;
}

impl MultiMachine {
    /// Machines that meet at an address of one of them and share a key.
    pub fn at(address: SocketAddr, key: Key) -> Self {
        let rendezvous = Rendezvous::Known(Endpoint { address, key });
        Self { rendezvous, machine: String::new() }
    }

    /// Treats this process as one on a machine of this name.
    #[must_use]
    pub fn called(self, machine: impl Into<String>) -> Self {
        Self { machine: machine.into(), ..self }
    }
}

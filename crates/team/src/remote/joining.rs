//! How machine leaders find each other: one runs the coordinator, the others join it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::{Address, Key, Space, SpaceBuilder, SpaceError};

use crate::error::TeamError;
use crate::local_rendezvous::Member;
use crate::rendezvous::{Broker, Endpoint, MultiMachine, Rendezvous};

/// The pause between attempts to find the coordinator.
pub const PAUSE: Duration = Duration::from_millis(20);
/// The longest name of a space, in characters.
const NAME_CHARS: usize = 60;

/// A machine leader that has joined the others.
pub struct Joined {
    /// The space of the machine leaders.
    pub space: Space,
    pub endpoint: Endpoint,
    /// Whether the coordinator runs here.
    pub is_host: bool,
    /// The broker that knows this endpoint, if the coordinator runs here.
    pub broker: Option<Arc<dyn Broker>>,
}

/// Joins the others: runs the coordinator if that falls to this leader.
pub fn join(
    member: &Member,
    multi_machine: &MultiMachine,
    until: Instant,
) -> Result<Joined, TeamError> {
    match &multi_machine.rendezvous {
        Rendezvous::Known(endpoint) => join_known(member, multi_machine, endpoint, until),
        Rendezvous::Brokered(broker) => join_brokered(member, multi_machine, broker, until),
    }
}

/// Creates one more space of a machine leader.
pub fn further_space(
    member: &Member,
    multi_machine: &MultiMachine,
    endpoint: &Endpoint,
    what: &str,
    listens: bool,
) -> Result<Space, TeamError> {
    let builder =
        builder(member, multi_machine, &endpoint.key, what).join(&Address::tcp(endpoint.address));
    let builder = match listens {
        true => builder.listen_tcp(own_address(endpoint.address)?),
        false => builder,
    };
    builder.build().map_err(not_met)
}

/// Hosts if the address is its own and no process listens there yet; otherwise joins.
fn join_known(
    member: &Member,
    multi_machine: &MultiMachine,
    endpoint: &Endpoint,
    until: Instant,
) -> Result<Joined, TeamError> {
    let done = |space, is_host| Joined { space, endpoint: endpoint.clone(), is_host, broker: None };
    loop {
        let builder = || builder(member, multi_machine, &endpoint.key, "leader");
        match builder().listen_tcp(endpoint.address).host().build() {
            Ok(space) => return Ok(done(space, true)),
            // Another machine has the address, or another process listens already.
            Err(SpaceError::Listen { .. }) => {}
            Err(error) => return Err(not_met(error)),
        }
        let own = own_address(endpoint.address)?;
        match builder().listen_tcp(own).join(&Address::tcp(endpoint.address)).build() {
            Ok(space) => return Ok(done(space, false)),
            Err(error) if Instant::now() >= until => {
                return Err(TeamError::Invalid(format!(
                    "job {}: no process listens for the team at {}: {error}; is that the address of \
                     the first machine, and does no other program use it?",
                    member.job, endpoint.address
                )));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Offers to host, and does so if no other leader has before; otherwise joins that leader. The
/// broker forgets an offer whose process is gone, so it is asked again.
fn join_brokered(
    member: &Member,
    multi_machine: &MultiMachine,
    broker: &Arc<dyn Broker>,
    until: Instant,
) -> Result<Joined, TeamError> {
    let wrong = |why: String| TeamError::Invalid(format!("job {}: {why}", member.job));
    loop {
        let own = own_address(broker.common_address().map_err(wrong)?)?;
        let key = Key::random();
        let space = builder(member, multi_machine, &key, "leader").listen_tcp(own).host().build();
        let space = space.map_err(not_met)?;
        let Some(address) = space.address().tcp else {
            return Err(wrong("a space that listens says no address".to_owned()));
        };
        let offer = Endpoint { address, key };
        let endpoint = broker.offer(&member.job, &offer).map_err(wrong)?;
        if endpoint == offer {
            return Ok(Joined { space, endpoint, is_host: true, broker: Some(broker.clone()) });
        }
        space.close();
        let builder = builder(member, multi_machine, &endpoint.key, "leader");
        let own = own_address(endpoint.address)?;
        match builder.listen_tcp(own).join(&Address::tcp(endpoint.address)).build() {
            Ok(space) => return Ok(Joined { space, endpoint, is_host: false, broker: None }),
            Err(error) if Instant::now() >= until => {
                let address = endpoint.address;
                return Err(wrong(format!(
                    "the first machine, at {address}, does not answer: {error}"
                )));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// The builder for all spaces of a machine leader. Machines that only have another name are reached
/// like others.
fn builder(member: &Member, multi_machine: &MultiMachine, key: &Key, what: &str) -> SpaceBuilder {
    let name = format!("{what} {} of {}", member.rank, member.job);
    let name = name.chars().take(NAME_CHARS).collect::<String>();
    Space::builder(&name).key(key.clone()).prefer_tcp(!multi_machine.machine.is_empty())
}

/// Returns the address of this machine towards another, with a port that the system chooses.
fn own_address(there: SocketAddr) -> Result<SocketAddr, TeamError> {
    let find = || {
        let any: SocketAddr =
            if there.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(any)?;
        // Nothing is sent: the system only chooses the route.
        socket.connect(there)?;
        Ok(SocketAddr::new(socket.local_addr()?.ip(), 0))
    };
    find().map_err(|error: std::io::Error| TeamError::system("the way to other machines", error))
}

fn not_met(error: SpaceError) -> TeamError {
    TeamError::system("meeting other machines", error)
}

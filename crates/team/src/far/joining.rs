//! How the captains of machines come together: one hosts, the others join it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::{Address, Key, Space, SpaceBuilder, SpaceError};

use crate::error::TeamError;
use crate::meeting::Seat;
use crate::rendezvous::{Across, Broker, Rendezvous, Spot};

/// How soon the host is looked for again.
pub const PAUSE: Duration = Duration::from_millis(20);
/// Characters of the name of a space, at most.
const NAME_CHARS: usize = 60;

/// A captain that has come to the others.
pub struct Joined {
    /// In which captains meet.
    pub space: Space,
    pub spot: Spot,
    /// Whether they meet here.
    pub is_host: bool,
    /// Who tells the others, if they meet here and somebody does.
    pub broker: Option<Arc<dyn Broker>>,
}

/// Comes to the others: hosts if that falls to this captain, otherwise joins.
pub fn join(seat: &Seat, across: &Across, until: Instant) -> Result<Joined, TeamError> {
    match &across.rendezvous {
        Rendezvous::Known(spot) => join_known(seat, across, spot, until),
        Rendezvous::Brokered(broker) => join_brokered(seat, across, broker, until),
    }
}

/// One more space of a captain, next to the one in which captains meet.
pub fn further_space(
    seat: &Seat,
    across: &Across,
    spot: &Spot,
    what: &str,
    listens: bool,
) -> Result<Space, TeamError> {
    let builder = builder(seat, across, &spot.key, what).join(&Address::tcp(spot.address));
    let builder = match listens {
        true => builder.listen_tcp(own_address(spot.address)?),
        false => builder,
    };
    builder.build().map_err(not_met)
}

/// It hosts if the address is its own and nobody does yet; otherwise it joins.
fn join_known(
    seat: &Seat,
    across: &Across,
    spot: &Spot,
    until: Instant,
) -> Result<Joined, TeamError> {
    let done = |space, is_host| Joined { space, spot: spot.clone(), is_host, broker: None };
    loop {
        let builder = || builder(seat, across, &spot.key, "captain");
        match builder().listen_tcp(spot.address).host().build() {
            Ok(space) => return Ok(done(space, true)),
            // It is the address of another machine, or somebody hosts already.
            Err(SpaceError::Listen { .. }) => {}
            Err(error) => return Err(not_met(error)),
        }
        let own = own_address(spot.address)?;
        match builder().listen_tcp(own).join(&Address::tcp(spot.address)).build() {
            Ok(space) => return Ok(done(space, false)),
            Err(error) if Instant::now() >= until => {
                return Err(TeamError::Invalid(format!(
                    "job {}: nobody is there for the team at {}: {error}; is that the address of \
                     the first machine, and does no other program use it?",
                    seat.job, spot.address
                )));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// It offers to host, and does so if nobody has before; otherwise it joins who has. Whoever has
/// offered and is gone is forgotten by the broker, so it is asked again.
fn join_brokered(
    seat: &Seat,
    across: &Across,
    broker: &Arc<dyn Broker>,
    until: Instant,
) -> Result<Joined, TeamError> {
    let wrong = |why: String| TeamError::Invalid(format!("job {}: {why}", seat.job));
    loop {
        let own = own_address(broker.in_common().map_err(wrong)?)?;
        let key = Key::random();
        let space = builder(seat, across, &key, "captain").listen_tcp(own).host().build();
        let space = space.map_err(not_met)?;
        let Some(address) = space.address().tcp else {
            return Err(wrong("a space that listens says no address".to_owned()));
        };
        let offer = Spot { address, key };
        let spot = broker.settle(&seat.job, &offer).map_err(wrong)?;
        if spot == offer {
            return Ok(Joined { space, spot, is_host: true, broker: Some(broker.clone()) });
        }
        space.close();
        let builder = builder(seat, across, &spot.key, "captain");
        let own = own_address(spot.address)?;
        match builder.listen_tcp(own).join(&Address::tcp(spot.address)).build() {
            Ok(space) => return Ok(Joined { space, spot, is_host: false, broker: None }),
            Err(error) if Instant::now() >= until => {
                let address = spot.address;
                return Err(wrong(format!(
                    "the first machine, at {address}, does not answer: {error}"
                )));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// What all spaces of a captain have. Machines that are only called so are reached as others are.
fn builder(seat: &Seat, across: &Across, key: &Key, what: &str) -> SpaceBuilder {
    let name = format!("{what} {} of {}", seat.rank, seat.job);
    let name = name.chars().take(NAME_CHARS).collect::<String>();
    Space::builder(&name).key(key.clone()).prefer_tcp(!across.machine.is_empty())
}

/// The address of this machine on the way to another, with a port that the system chooses.
fn own_address(there: SocketAddr) -> Result<SocketAddr, TeamError> {
    let find = || {
        let any: SocketAddr =
            if there.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(any)?;
        // Nothing is sent: the system only chooses the way.
        socket.connect(there)?;
        Ok(SocketAddr::new(socket.local_addr()?.ip(), 0))
    };
    find().map_err(|error: std::io::Error| TeamError::system("the way to other machines", error))
}

fn not_met(error: SpaceError) -> TeamError {
    TeamError::system("meeting other machines", error)
}

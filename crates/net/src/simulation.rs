//! Simulated links in virtual time: seeded delays, loss of spaces, partitions.
//!
//! Packets keep their order on each link. Time advances only from one delivery to the next, so a
//! simulation takes no longer than its work.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::address::Address;
use crate::carrier::Carrier;
use crate::core::Core;
use crate::directory::{self, PortDirectory};
use crate::error::{ConnectError, SpaceError};
use crate::exchange::DirectoryRole;
use crate::key::SpaceId;
use crate::link::Link;
use crate::outbox::SealedPacket;
use crate::sender::Sender;
use crate::space::{Options, Space};

/// Shortest delay of a packet.
const SHORTEST: Duration = Duration::from_micros(10);
/// Longest delay of a packet.
const LONGEST: Duration = Duration::from_millis(2);

/// A network in virtual time.
///
/// ```
/// use pario_net::Simulation;
/// use std::time::Duration;
///
/// let simulation = Simulation::new(42);
/// let (a, b) = (simulation.space("a").unwrap(), simulation.space("b").unwrap());
/// let numbers = a.input::<u32>("numbers").unwrap();
/// let output = b.output::<u32>("numbers", Duration::from_secs(5)).unwrap();
/// output.send(7).unwrap();
/// assert_eq!(numbers.recv().unwrap(), 7);
/// simulation.kill(&b);
/// assert!(numbers.recv().is_err());
/// ```
#[derive(Clone)]
pub struct Simulation {
    inner: Arc<SimulatedNetwork>,
    _end: Arc<StopOnDrop>,
}

/// Stops the delivery thread when the last handle is dropped.
struct StopOnDrop(Arc<SimulatedNetwork>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

pub(crate) struct SimulatedNetwork {
    state: Mutex<SimulationState>,
    changed: Condvar,
    silence: Duration,
}

struct SimulationState {
    now: Duration,
    random: u64,
    last_number: u64,
    events: BinaryHeap<Reverse<Delivery>>,
    spaces: HashMap<SpaceId, Weak<Core>>,
    host: Option<Weak<Core>>,
    /// Pairs that cannot reach each other, both ways round.
    partitions: HashSet<(SpaceId, SpaceId)>,
    /// Deliveries held back by a partition.
    held: Vec<Delivery>,
    is_paused: bool,
    is_over: bool,
}

struct Delivery {
    at: Duration,
    number: u64,
    from: SpaceId,
    to: SpaceId,
    what: DeliveryKind,
}

enum DeliveryKind {
    Packet(Weak<Link>, SealedPacket),
    End(Weak<Link>),
    /// Both sides of a partition notice the silence.
    Silence,
}

impl PartialEq for Delivery {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Delivery {}

impl PartialOrd for Delivery {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Delivery {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Simulation {
    /// Creates a network whose delays follow from `seed`. It delivers packets as fast as possible.
    pub fn new(seed: u64) -> Self {
        let state = SimulationState {
            now: Duration::ZERO,
            random: seed,
            last_number: 0,
            events: BinaryHeap::new(),
            spaces: HashMap::new(),
            host: None,
            partitions: HashSet::new(),
            held: Vec::new(),
            is_paused: false,
            is_over: false,
        };
        let silence = Options::default().silence;
        let inner = Arc::new(SimulatedNetwork {
            state: Mutex::new(state),
            changed: Condvar::new(),
            silence,
        });
        let delivery = inner.clone();
        let spawned = std::thread::Builder::new()
            .name("simulation".to_owned())
            .spawn(move || delivery.deliver_all());
        if let Err(error) = spawned {
            panic!("no thread for the simulation: {error}");
        }
        Self { _end: Arc::new(StopOnDrop(inner.clone())), inner }
    }

    /// Creates a space in this network. The first one hosts the directory.
    pub fn space(&self, name: &str) -> Result<Space, SpaceError> {
        self.space_with(name, Options::default())
    }

    /// Creates a space with options.
    pub fn space_with(&self, name: &str, options: Options) -> Result<Space, SpaceError> {
        let mut core = Core::new(name, options);
        core.simulation = Some(self.inner.clone());
        let core = Arc::new(core);
        let address = Address { space: Some(core.id()), ..Address::default() };
        *core.address.lock() = address.clone();
        let host = {
            let mut state = self.inner.state.lock();
            state.spaces.insert(core.id(), Arc::downgrade(&core));
            if state.host.is_none() {
                state.host = Some(Arc::downgrade(&core));
                None
            } else {
                state.host.clone()
            }
        };
        let space = Space::from_core(core.clone());
        let Some(host) = host else {
            let mut hosted = PortDirectory::default();
            let _ = hosted.join(directory::OWN, core.id(), name, address);
            *core.role.lock() = DirectoryRole::Host(hosted);
            return Ok(space);
        };
        let host_address =
            Address { space: host.upgrade().map(|host| host.id()), ..Address::default() };
        crate::builder::join(&core, &host_address)?;
        Ok(space)
    }

    /// Ends a space as if its process were killed: packets it has sent still arrive, then its peers
    /// notice.
    pub fn kill(&self, space: &Space) {
        space.core().crash();
    }

    /// Separates two spaces. Unless it is healed before, their links are lost after the silence
    /// timeout (in virtual time: while other packets are delivered, or nothing else happens).
    pub fn partition(&self, a: &Space, b: &Space) {
        let (a, b) = (a.id(), b.id());
        let mut state = self.inner.state.lock();
        state.partitions.extend([(a, b), (b, a)]);
        let at = state.now + self.inner.silence;
        state.push(at, a, b, DeliveryKind::Silence);
        self.inner.changed.notify_all();
    }

    /// Reconnects two spaces and delivers the packets that were held back.
    pub fn heal(&self, a: &Space, b: &Space) {
        let (a, b) = (a.id(), b.id());
        let mut state = self.inner.state.lock();
        state.partitions.remove(&(a, b));
        state.partitions.remove(&(b, a));
        let now = state.now;
        let held = std::mem::take(&mut state.held);
        for mut event in held {
            if (event.from, event.to) == (a, b) || (event.from, event.to) == (b, a) {
                event.at = event.at.max(now);
                state.events.push(Reverse(event));
            } else {
                state.held.push(event);
            }
        }
        self.inner.changed.notify_all();
    }

    /// Delivers nothing until [`resume`](Self::resume), except by [`step`](Self::step).
    pub fn pause(&self) {
        self.inner.state.lock().is_paused = true;
    }

    /// Delivers as fast as possible again.
    pub fn resume(&self) {
        self.inner.state.lock().is_paused = false;
        self.inner.changed.notify_all();
    }

    /// Delivers one packet. Returns false if there is none.
    pub fn step(&self) -> bool {
        let Some(event) = self.inner.state.lock().next() else { return false };
        self.inner.deliver(event);
        true
    }

    /// Virtual time since the beginning.
    pub fn now(&self) -> Duration {
        self.inner.state.lock().now
    }
}

impl SimulationState {
    fn push(&mut self, at: Duration, from: SpaceId, to: SpaceId, what: DeliveryKind) {
        self.last_number += 1;
        let number = self.last_number;
        self.events.push(Reverse(Delivery { at, number, from, to, what }));
    }

    /// Takes the next possible delivery and advances the time to it.
    fn next(&mut self) -> Option<Delivery> {
        while let Some(Reverse(event)) = self.events.pop() {
            let is_apart = self.partitions.contains(&(event.from, event.to));
            match event.what {
                DeliveryKind::Silence if !is_apart => {}
                DeliveryKind::Packet(..) | DeliveryKind::End(_) if is_apart => {
                    self.held.push(event)
                }
                _ => {
                    self.now = self.now.max(event.at);
                    return Some(event);
                }
            }
        }
        None
    }

    /// SplitMix64: the whole state is one number.
    fn delay(&mut self) -> Duration {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let range = (LONGEST - SHORTEST).as_nanos();
        SHORTEST + Duration::from_nanos(u64::try_from(u128::from(z) % range).unwrap_or(0))
    }
}

impl SimulatedNetwork {
    fn deliver_all(&self) {
        loop {
            let mut state = self.state.lock();
            let event = loop {
                if state.is_over {
                    return;
                }
                if !state.is_paused
                    && let Some(event) = state.next()
                {
                    break event;
                }
                self.changed.wait(&mut state);
            };
            drop(state);
            self.deliver(event);
        }
    }

    fn deliver(&self, event: Delivery) {
        match event.what {
            DeliveryKind::Packet(link, packet) => {
                if let Some(link) = link.upgrade() {
                    link.receive_sealed(packet);
                }
            }
            DeliveryKind::End(link) => {
                if let Some(link) = link.upgrade() {
                    link.mark_lost("it ended");
                }
            }
            DeliveryKind::Silence => self.end_between(event.from, event.to),
        }
    }

    /// Loses the links between two spaces on both sides.
    fn end_between(&self, a: SpaceId, b: SpaceId) {
        let core = |id| self.state.lock().spaces.get(&id).and_then(Weak::upgrade);
        for (own, other) in [(core(a), b), (core(b), a)] {
            let links = own.map(|core| core.links()).unwrap_or_default();
            for link in links.iter().filter(|link| link.peer_id == other) {
                link.mark_lost("nothing was heard of it for too long");
            }
        }
    }

    /// Connects a space to another.
    pub fn connect(
        self: &Arc<Self>,
        core: &Arc<Core>,
        address: &Address,
    ) -> Result<Arc<Link>, ConnectError> {
        let peer = address.space.and_then(|id| {
            let state = self.state.lock();
            let is_apart = state.partitions.contains(&(core.id(), id));
            state.spaces.get(&id).filter(|_| !is_apart)?.upgrade()
        });
        let Some(peer) = peer.filter(|peer| !peer.is_closed()) else {
            let reason = "it was killed, closed, or is on the other side of a partition".to_owned();
            return Err(ConnectError::NoRoute { address: address.to_string(), reason });
        };
        let new = |own: &Arc<Core>, other: &Arc<Core>| {
            let wire = Wire {
                network: self.clone(),
                from: own.id(),
                to: other.id(),
                other: OnceLock::new(),
                last: Mutex::new(Duration::ZERO),
            };
            let carrier = Carrier::Simulated(wire);
            let peer = Sender {
                space: other.id(),
                name: other.name().into(),
                user: None,
                knows_key: true,
                is_local: false,
            };
            Link::new(own.clone(), own.next_id(), peer, carrier, None)
        };
        let (own, theirs) = (new(core, &peer), new(&peer, core));
        for (link, twin) in [(&own, &theirs), (&theirs, &own)] {
            if let Carrier::Simulated(wire) = &link.carrier {
                let _ = wire.other.set(Arc::downgrade(twin));
            }
        }
        peer.register_link(&theirs);
        core.register_link(&own);
        Ok(own)
    }
}

/// One direction of a simulated link.
pub(crate) struct Wire {
    network: Arc<SimulatedNetwork>,
    from: SpaceId,
    to: SpaceId,
    other: OnceLock<Weak<Link>>,
    /// When the last packet arrives; later packets do not overtake it.
    last: Mutex<Duration>,
}

impl Wire {
    pub fn send(&self, packet: SealedPacket) {
        self.push(|other| DeliveryKind::Packet(other, packet));
    }

    /// Ends the direction.
    pub fn end(&self) {
        self.push(DeliveryKind::End);
    }

    fn push(&self, what: impl FnOnce(Weak<Link>) -> DeliveryKind) {
        let Some(other) = self.other.get() else { return };
        let mut state = self.network.state.lock();
        let mut last = self.last.lock();
        let at = (state.now + state.delay()).max(*last);
        *last = at;
        state.push(at, self.from, self.to, what(other.clone()));
        self.network.changed.notify_all();
    }
}

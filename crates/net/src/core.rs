//! What all handles of a space share: its ports, its links, and how its threads wait.
//!
//! Locks are held for moments and never while another space may be called: over a memory link, to
//! send is to run the receiver's code.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;

use crate::address::Address;
use crate::builder::LinkChoice;
use crate::carrier::Carrier;
use crate::door::{Door, TCP_DOOR, UNIX_DOOR};
use crate::exchange::{Requests, Role};
use crate::gathered;
use crate::hub::{Event, Hub};
use crate::key::{Key, SpaceId};
use crate::link::Link;
use crate::port::Sink;
use crate::record::Record;
use crate::sender::{Sender, User};
use crate::share::LinkOwner;
use crate::simulation::Inner as Simulation;
use crate::space::Options;
use crate::waiter::{Waiter, Waiters};

/// The spaces of this process that have links.
pub(crate) static SPACES: LazyLock<Mutex<HashMap<SpaceId, Weak<Core>>>> =
    LazyLock::new(Mutex::default);

/// Numbers below are for other descriptors than those of links.
const FIRST_ID: u64 = 16;

pub(crate) struct Core {
    name: String,
    id: SpaceId,
    /// Who sends to ports of the own space.
    pub sender: Arc<Sender>,
    pub options: Options,
    pub started: Instant,
    pub key: Option<Key>,
    pub links_choice: LinkChoice,
    /// Whether every user may make links to this space over its Unix socket.
    pub admits_any_user: bool,
    /// Whether this space may make links to Unix sockets of every user.
    pub connects_to_any_user: bool,
    pub address: Mutex<Address>,
    /// Missing if the space has no descriptors to poll.
    pub hub: Option<Hub>,
    pub door: Mutex<Door>,
    pub simulation: Option<Arc<Simulation>>,
    pub names: Mutex<Names>,
    pub role: Mutex<Role>,
    pub requests: Requests,
    pub record: Record,
    links: Mutex<Links>,
    /// The link that was last found to have something to read.
    busiest: Mutex<Weak<Link>>,
    /// One link is opened at a time, so that there is one per peer.
    pub connecting: Mutex<()>,
    next_port: AtomicU32,
    next_id: AtomicU64,
    is_closed: AtomicBool,
    is_stopped: AtomicBool,
    is_watching: AtomicBool,
    are_chores_due: AtomicBool,
    pub courier: Mutex<Option<JoinHandle<()>>>,
}

/// The input ports of this space.
#[derive(Default)]
pub(crate) struct Names {
    pub ports: HashMap<String, Weak<dyn Sink>>,
    /// Those that peers may open by their number: no private ones.
    pub by_number: HashMap<u32, Weak<dyn Sink>>,
    /// Ports for answers. Peers reach them only over the channel that the asker has made.
    pub private: HashMap<u32, Weak<dyn Sink>>,
    /// Threads that wait for a name.
    pub waiters: Waiters,
}

#[derive(Default)]
struct Links {
    by_id: HashMap<u64, Arc<Link>>,
    /// Links over which ports of a space may be opened, by the id that the space announces. A link
    /// that another user has made is not among them: that user chose the id.
    by_space: HashMap<SpaceId, Arc<Link>>,
    /// How many links each user has made to this space.
    accepted: HashMap<LinkOwner, usize>,
}

impl Core {
    pub fn new(name: &str, options: Options) -> Self {
        let id = SpaceId::random();
        let user = Some(User::own());
        Self {
            name: name.to_owned(),
            id,
            sender: Arc::new(Sender {
                space: id,
                name: name.into(),
                user,
                knows_key: true,
                is_local: true,
            }),
            options,
            started: Instant::now(),
            key: None,
            links_choice: LinkChoice::Nearest,
            admits_any_user: false,
            connects_to_any_user: false,
            address: Mutex::default(),
            hub: None,
            door: Mutex::default(),
            simulation: None,
            names: Mutex::default(),
            role: Mutex::new(Role::Alone),
            requests: Requests::default(),
            record: Record::default(),
            links: Mutex::default(),
            busiest: Mutex::new(Weak::new()),
            connecting: Mutex::new(()),
            next_port: AtomicU32::new(1),
            next_id: AtomicU64::new(FIRST_ID),
            is_closed: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            is_watching: AtomicBool::new(false),
            are_chores_due: AtomicBool::new(false),
            courier: Mutex::new(None),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> SpaceId {
        self.id
    }

    pub fn next_port(&self) -> u32 {
        self.next_port.fetch_add(1, Ordering::Relaxed)
    }

    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Whether the courier is to end.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Wakes threads that wait in this space.
    #[inline]
    pub fn wake(&self, waiters: Waiters) {
        for waiter in waiters.into_vec() {
            waiter.wake();
        }
    }

    /// Waits until `look` finds something, or the deadline. `look` must leave the waiter with
    /// whatever it did not find ready.
    ///
    /// The thread leads if nobody does. What it has gathered to send is sent before.
    pub fn wait<R>(
        self: &Arc<Self>,
        deadline: Option<Instant>,
        mut look: impl FnMut(&Arc<Waiter>) -> Option<R>,
    ) -> Option<R> {
        gathered::flush();
        let waiter = Waiter::current();
        let Some(hub) = &self.hub else {
            loop {
                waiter.prepare();
                if let Some(found) = look(&waiter) {
                    return Some(found);
                }
                if !waiter.sleep(deadline) {
                    return None;
                }
            }
        };
        let mut is_leader = false;
        let mut events = Vec::new();
        loop {
            waiter.prepare();
            let found = look(&waiter);
            let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if found.is_some() || is_late() {
                if is_leader {
                    waiter.resign();
                    hub.resign();
                } else {
                    // It may have been this thread's turn to lead.
                    hub.ensure_leader();
                }
                return found;
            }
            if is_leader || hub.try_lead(&waiter) {
                if !is_leader {
                    is_leader = true;
                    waiter.lead(hub.kick_to_give());
                }
                if waiter.begin_leading() {
                    let busiest = self.busiest.lock().upgrade();
                    let read = || busiest.as_ref().is_some_and(|link| link.on_readable());
                    hub.poll_eagerly(deadline, &mut events, read);
                    self.handle(&mut events);
                }
            } else {
                waiter.sleep(deadline);
                hub.unfollow(&waiter);
            }
        }
    }

    /// Sends what this thread has gathered, and reads what has come over all links, without waiting.
    pub fn look_around(self: &Arc<Self>) {
        gathered::flush();
        let Some(hub) = &self.hub else { return };
        let mut events = Vec::new();
        if hub.glance(&mut events) {
            self.handle(&mut events);
            hub.resign();
        }
    }

    /// Does what events ask for.
    pub fn handle(self: &Arc<Self>, events: &mut Vec<Event>) {
        for event in events.drain(..) {
            if matches!(event.id, UNIX_DOOR | TCP_DOOR) {
                self.on_door(event.id);
                continue;
            }
            let link = self.links.lock().by_id.get(&event.id).cloned();
            match link {
                Some(link) => {
                    if event.is_writable {
                        link.on_writable();
                    }
                    if event.is_readable && link.on_readable() {
                        *self.busiest.lock() = Arc::downgrade(&link);
                    }
                }
                None => {
                    self.on_pending(event.id);
                }
            }
        }
    }

    /// Something was gathered; the courier sees to it that it does not wait too long.
    pub fn watch(&self) {
        if !self.is_watching.swap(true, Ordering::SeqCst)
            && let Some(hub) = &self.hub
        {
            hub.disturb_courier();
        }
    }

    pub fn is_watching(&self) -> bool {
        self.is_watching.load(Ordering::SeqCst)
    }

    /// Something new has to be looked after; the courier finds out how often.
    pub fn hasten_chores(&self) {
        self.are_chores_due.store(true, Ordering::SeqCst);
        if let Some(hub) = &self.hub {
            hub.disturb_courier();
        }
    }

    pub fn are_chores_due(&self) -> bool {
        self.are_chores_due.load(Ordering::SeqCst)
    }

    pub fn begin_chores(&self) {
        self.are_chores_due.store(false, Ordering::SeqCst);
    }

    pub fn end_watch(&self) {
        self.is_watching.store(false, Ordering::SeqCst);
    }

    /// Sends what was gathered so long ago; false if nothing is gathered anywhere.
    pub fn flush_older(&self, age: std::time::Duration) -> bool {
        let mut is_any = false;
        for link in self.links() {
            is_any |= link.flush_older(age);
        }
        is_any
    }

    /// Makes a link of a carrier; `owner` is who connected to this space, if this space did not
    /// connect itself.
    pub fn add_link(
        self: &Arc<Self>,
        id: u64,
        peer: Sender,
        carrier: Carrier,
        owner: Option<LinkOwner>,
    ) -> Arc<Link> {
        let link = Link::new(self.clone(), id, peer, carrier, owner);
        self.keep_link(&link);
        if let (Some(hub), Carrier::Socket(socket)) = (&self.hub, &link.carrier) {
            if let Err(error) = hub.add(socket, id) {
                link.lost(&error.to_string());
            } else if socket.is_tcp {
                self.hasten_chores();
            }
        }
        link
    }

    /// Makes a link known to this space.
    pub fn keep_link(self: &Arc<Self>, link: &Arc<Link>) {
        {
            let mut links = self.links.lock();
            links.by_id.insert(link.id, link.clone());
            if let Some(owner) = link.owner {
                *links.accepted.entry(owner).or_default() += 1;
            }
            if link.owner.is_none() || !link.is_foreign() {
                links.by_space.entry(link.peer_id).or_insert_with(|| link.clone());
            }
        }
        if self.is_stopped() {
            link.lost("the space is closed");
        }
    }

    /// A link is lost: nobody finds it any more.
    pub fn forget_link(&self, link: &Arc<Link>) {
        if let (Some(hub), Carrier::Socket(socket)) = (&self.hub, &link.carrier) {
            hub.remove(socket);
        }
        self.record.keep_lost(link.counters());
        let mut links = self.links.lock();
        if links.by_id.remove(&link.id).is_some()
            && let Some(owner) = link.owner
            && let Some(count) = links.accepted.get_mut(&owner)
        {
            *count -= 1;
            if *count == 0 {
                links.accepted.remove(&owner);
            }
        }
        if links.by_space.get(&link.peer_id).is_some_and(|known| known.id == link.id) {
            links.by_space.remove(&link.peer_id);
            let is_other = |other: &&Arc<Link>| {
                other.peer_id == link.peer_id && (other.owner.is_none() || !other.is_foreign())
            };
            let other = links.by_id.values().find(is_other).cloned();
            if let Some(other) = other {
                links.by_space.insert(other.peer_id, other);
            }
        }
    }

    pub fn link_to(&self, space: SpaceId) -> Option<Arc<Link>> {
        self.links.lock().by_space.get(&space).cloned()
    }

    /// The link of this number.
    pub fn link(&self, id: u64) -> Option<Arc<Link>> {
        self.links.lock().by_id.get(&id).cloned()
    }

    /// How many links a user has made to this space.
    pub fn accepted(&self, owner: LinkOwner) -> usize {
        self.links.lock().accepted.get(&owner).copied().unwrap_or(0)
    }

    pub fn links(&self) -> Vec<Arc<Link>> {
        self.links.lock().by_id.values().cloned().collect()
    }

    /// A link's socket is full, or no longer.
    pub fn expect_room(&self, link: &Link, expect: bool) {
        if let (Some(hub), Carrier::Socket(socket)) = (&self.hub, &link.carrier) {
            hub.expect_room(socket, link.id, expect);
        }
    }

    /// The port of this space that has this name.
    pub fn local_port(&self, name: &str) -> Option<Arc<dyn Sink>> {
        self.names.lock().ports.get(name).and_then(Weak::upgrade)
    }

    /// Marks the space as closed; false if it was.
    pub fn begin_close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::SeqCst)
    }

    /// Ends the courier.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(hub) = &self.hub {
            hub.kick();
            hub.call_courier();
        }
        let courier = self.courier.lock().take();
        if let Some(courier) = courier
            && courier.thread().id() != std::thread::current().id()
        {
            let _ = courier.join();
        }
    }
}

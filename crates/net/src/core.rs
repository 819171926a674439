//! The state that all handles of a space share: its ports, its links, and how its threads wait.
//!
//! Locks are held briefly and never while another space may be called: sending over a memory link
//! runs the receiver's code.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;

use crate::address::Address;
use crate::builder::LinkChoice;
use crate::carrier::Carrier;
use crate::exchange::{ControlRequests, DirectoryRole};
use crate::history::History;
use crate::key::{Key, SpaceId};
use crate::link::Link;
use crate::listener::{Listener, TCP_LISTENER, UNIX_LISTENER};
use crate::poller::{PollEvent, Poller};
use crate::port::Sink;
use crate::sender::{Sender, User};
use crate::simulation::SimulatedNetwork;
use crate::space::Options;
use crate::unflushed_links;
use crate::user_quota::LinkOwner;
use crate::waiter::{Waiter, Waiters};

/// The spaces of this process that have links.
pub(crate) static SPACES: LazyLock<Mutex<HashMap<SpaceId, Weak<Core>>>> =
    LazyLock::new(Mutex::default);

/// Ids below this one belong to descriptors other than links.
const FIRST_ID: u64 = 16;

pub(crate) struct Core {
    name: String,
    id: SpaceId,
    /// The sender of local tokens.
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
    /// None if the space has no descriptors to poll.
    pub poller: Option<Poller>,
    pub listener: Mutex<Listener>,
    pub simulation: Option<Arc<SimulatedNetwork>>,
    pub names: Mutex<PortNames>,
    pub role: Mutex<DirectoryRole>,
    pub requests: ControlRequests,
    pub history: History,
    links: Mutex<Links>,
    /// The link that last had something to read.
    busiest: Mutex<Weak<Link>>,
    /// One link is opened at a time, so that there is one per peer.
    pub connecting: Mutex<()>,
    next_port: AtomicU32,
    next_id: AtomicU64,
    is_closed: AtomicBool,
    is_stopped: AtomicBool,
    has_gathered: AtomicBool,
    is_maintenance_due: AtomicBool,
    pub io_thread: Mutex<Option<JoinHandle<()>>>,
}

/// The input ports of this space.
#[derive(Default)]
pub(crate) struct PortNames {
    pub ports: HashMap<String, Weak<dyn Sink>>,
    /// Ports that peers may open by number: none of the private ones.
    pub by_number: HashMap<u32, Weak<dyn Sink>>,
    /// Ports for replies. Peers reach them only over the channel that an RPC client has opened.
    pub private: HashMap<u32, Weak<dyn Sink>>,
    /// Threads that wait for a name.
    pub waiters: Waiters,
}

#[derive(Default)]
struct Links {
    by_id: HashMap<u64, Arc<Link>>,
    /// Links by the id that their space announces; ports are opened over them. A link that another
    /// user has made is not among them, because that user chose the id.
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
            poller: None,
            listener: Mutex::default(),
            simulation: None,
            names: Mutex::default(),
            role: Mutex::new(DirectoryRole::Alone),
            requests: ControlRequests::default(),
            history: History::default(),
            links: Mutex::default(),
            busiest: Mutex::new(Weak::new()),
            connecting: Mutex::new(()),
            next_port: AtomicU32::new(1),
            next_id: AtomicU64::new(FIRST_ID),
            is_closed: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            has_gathered: AtomicBool::new(false),
            is_maintenance_due: AtomicBool::new(false),
            io_thread: Mutex::new(None),
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

    /// Whether the I/O thread must stop.
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

    /// Waits until `look` returns something, or the deadline. `look` must register the waiter with
    /// every object that is not ready.
    ///
    /// The thread becomes the leader if there is none. It first flushes the tokens it has gathered.
    pub fn wait<R>(
        self: &Arc<Self>,
        deadline: Option<Instant>,
        mut look: impl FnMut(&Arc<Waiter>) -> Option<R>,
    ) -> Option<R> {
        unflushed_links::flush();
        let waiter = Waiter::current();
        let Some(poller) = &self.poller else {
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
                    poller.resign();
                } else {
                    // A resigning leader may have chosen this thread as the next one.
                    poller.ensure_leader();
                }
                return found;
            }
            if is_leader || poller.try_lead(&waiter) {
                if !is_leader {
                    is_leader = true;
                    waiter.lead(poller.interrupter());
                }
                if waiter.begin_leading() {
                    let busiest = self.busiest.lock().upgrade();
                    let read = || busiest.as_ref().is_some_and(|link| link.on_readable());
                    poller.spin_then_poll(deadline, &mut events, read);
                    self.handle(&mut events);
                }
            } else {
                waiter.sleep(deadline);
                poller.remove_follower(&waiter);
            }
        }
    }

    /// Flushes the tokens this thread has gathered, and reads all links without waiting.
    pub fn poll_once(self: &Arc<Self>) {
        unflushed_links::flush();
        let Some(poller) = &self.poller else { return };
        let mut events = Vec::new();
        if poller.try_poll(&mut events) {
            self.handle(&mut events);
            poller.resign();
        }
    }

    /// Handles events.
    pub fn handle(self: &Arc<Self>, events: &mut Vec<PollEvent>) {
        for event in events.drain(..) {
            if matches!(event.id, UNIX_LISTENER | TCP_LISTENER) {
                self.on_connection_waiting(event.id);
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
                    self.on_handshake_readable(event.id);
                }
            }
        }
    }

    /// Tells the I/O thread that tokens were gathered, so that they do not wait too long.
    pub fn note_gathered(&self) {
        if !self.has_gathered.swap(true, Ordering::SeqCst)
            && let Some(poller) = &self.poller
        {
            poller.interrupt_io_thread();
        }
    }

    pub fn has_gathered(&self) -> bool {
        self.has_gathered.load(Ordering::SeqCst)
    }

    /// Makes the I/O thread run maintenance now and find out when it is due next.
    pub fn request_maintenance(&self) {
        self.is_maintenance_due.store(true, Ordering::SeqCst);
        if let Some(poller) = &self.poller {
            poller.interrupt_io_thread();
        }
    }

    pub fn is_maintenance_due(&self) -> bool {
        self.is_maintenance_due.load(Ordering::SeqCst)
    }

    pub fn begin_maintenance(&self) {
        self.is_maintenance_due.store(false, Ordering::SeqCst);
    }

    pub fn clear_gathered(&self) {
        self.has_gathered.store(false, Ordering::SeqCst);
    }

    /// Flushes batches older than `age`. Returns false if no link has a batch.
    pub fn flush_older(&self, age: std::time::Duration) -> bool {
        let mut is_any = false;
        for link in self.links() {
            is_any |= link.flush_older(age);
        }
        is_any
    }

    /// Creates a link over a carrier. `owner` is the user that connected to this space; none if
    /// this space connected.
    pub fn add_link(
        self: &Arc<Self>,
        id: u64,
        peer: Sender,
        carrier: Carrier,
        owner: Option<LinkOwner>,
    ) -> Arc<Link> {
        let link = Link::new(self.clone(), id, peer, carrier, owner);
        self.register_link(&link);
        if let (Some(poller), Carrier::Socket(socket)) = (&self.poller, &link.carrier) {
            if let Err(error) = poller.add(socket, id) {
                link.mark_lost(&error.to_string());
            } else if socket.is_tcp {
                self.request_maintenance();
            }
        }
        link
    }

    /// Registers a link.
    pub fn register_link(self: &Arc<Self>, link: &Arc<Link>) {
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
            link.mark_lost("the space is closed");
        }
    }

    /// Removes a lost link from the tables.
    pub fn unregister_link(&self, link: &Arc<Link>) {
        if let (Some(poller), Carrier::Socket(socket)) = (&self.poller, &link.carrier) {
            poller.remove(socket);
        }
        self.history.keep_lost(link.counters());
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

    /// Starts or stops waiting for a link's socket to become writable.
    pub fn watch_writable(&self, link: &Link, expect: bool) {
        if let (Some(poller), Carrier::Socket(socket)) = (&self.poller, &link.carrier) {
            poller.watch_writable(socket, link.id, expect);
        }
    }

    /// The port of this space that has this name.
    pub fn local_port(&self, name: &str) -> Option<Arc<dyn Sink>> {
        self.names.lock().ports.get(name).and_then(Weak::upgrade)
    }

    /// Marks the space as closed. Returns false if it was closed before.
    pub fn begin_close(&self) -> bool {
        !self.is_closed.swap(true, Ordering::SeqCst)
    }

    /// Stops the I/O thread.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(poller) = &self.poller {
            poller.interrupt();
            poller.wake_io_thread();
        }
        let io_thread = self.io_thread.lock().take();
        if let Some(io_thread) = io_thread
            && io_thread.thread().id() != std::thread::current().id()
        {
            let _ = io_thread.join();
        }
    }
}

//! Decides which connections are served, and which one is closed when there are too many. No I/O;
//! time is passed in.
//!
//! Invariants: at most [`LIMIT`] connections in all, and at most [`ADDRESS_LIMIT`] of one address,
//! are served. A new connection replaces an idle one: one that sends no request or does not read
//! its answer. A connection with a request in progress is never closed for a new one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Limit for all connections. Each takes a descriptor, of which a process has 1,024 by default.
pub const LIMIT: usize = 512;

/// Limit for the served connections of one address; further ones get a refusal. The rest of
/// [`LIMIT`] is for other addresses.
pub const ADDRESS_LIMIT: usize = LIMIT / 2;

/// A connection that is idle for this long may be replaced.
const GRACE: Duration = Duration::from_secs(1);

/// The same for a connection that waits to be refused.
const REFUSED_GRACE: Duration = Duration::from_millis(100);

/// The activity of a connection.
#[derive(Debug)]
pub struct ConnectionActivity(Mutex<ActivityState>);

#[derive(Clone, Copy, Debug)]
struct ActivityState {
    phase: RequestPhase,
    /// When the client stopped reading.
    stalled_since: Option<Instant>,
    /// Whether a request with the token has arrived.
    is_authorized: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestPhase {
    /// Waits for a request.
    Idle(Instant),
    /// A request is in progress.
    Working,
    /// The answer is being written.
    Answering,
}

/// All connections.
#[derive(Debug, Default)]
pub struct ConnectionTable(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<u64, ConnectionEntry>,
    next: u64,
}

#[derive(Debug)]
struct ConnectionEntry {
    address: IpAddr,
    is_refused: bool,
    activity: Arc<ConnectionActivity>,
    /// Dropping it closes the connection.
    _cut: oneshot::Sender<()>,
}

/// A connection's entry in the table; dropping it frees the entry.
#[derive(Debug)]
pub struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    id: u64,
    /// The activity of the connection.
    pub activity: Arc<ConnectionActivity>,
    /// Resolves when the connection must close.
    pub cut: oneshot::Receiver<()>,
    /// Whether requests are refused because the address has too many connections.
    pub is_refused: bool,
}

impl ConnectionActivity {
    /// Creates the activity of a new connection.
    pub fn new(now: Instant) -> Self {
        let phase = RequestPhase::Idle(now);
        Self(Mutex::new(ActivityState { phase, stalled_since: None, is_authorized: false }))
    }

    /// Notes that a request has arrived.
    pub fn begin(&self) {
        self.0.lock().phase = RequestPhase::Working;
    }

    /// Notes that the request had the token.
    pub fn authorize(&self) {
        self.0.lock().is_authorized = true;
    }

    /// Notes that the answer is ready.
    pub fn answer(&self) {
        self.0.lock().phase = RequestPhase::Answering;
    }

    /// Notes that the client does not read.
    pub fn stall(&self, now: Instant) {
        self.0.lock().stalled_since.get_or_insert(now);
    }

    /// Notes that the client reads again.
    pub fn resume(&self) {
        self.0.lock().stalled_since = None;
    }

    /// Notes that the whole answer is written.
    pub fn flush(&self, now: Instant) {
        let mut activity = self.0.lock();
        activity.stalled_since = None;
        if activity.phase == RequestPhase::Answering {
            activity.phase = RequestPhase::Idle(now);
        }
    }

    /// Returns since when the connection is idle, if it is; those without the token sort first.
    fn idle_since(&self) -> Option<(bool, Instant)> {
        let activity = *self.0.lock();
        let since = match (activity.stalled_since, activity.phase) {
            (Some(since), _) | (None, RequestPhase::Idle(since)) => since,
            _ => return None,
        };
        Some((activity.is_authorized, since))
    }

    fn stalled_since(&self) -> Option<Instant> {
        self.0.lock().stalled_since
    }
}

impl ConnectionTable {
    /// Adds a new connection. Returns `None` if no connection is idle: then it has to wait.
    pub fn admit(self: &Arc<Self>, address: IpAddr, now: Instant) -> Option<ConnectionSlot> {
        let address = network_of(address);
        let mut entries = self.0.lock();
        if entries.by_id.len() >= LIMIT && !entries.make_room(now) {
            return None;
        }
        let is_refused = entries.served(address) >= ADDRESS_LIMIT
            && !entries.cut_one(now, |entry| entry.address == address && !entry.is_refused);
        let (cut_at_end, cut) = oneshot::channel();
        let activity = Arc::new(ConnectionActivity::new(now));
        let id = entries.next;
        entries.next += 1;
        let entry =
            ConnectionEntry { address, is_refused, activity: activity.clone(), _cut: cut_at_end };
        entries.by_id.insert(id, entry);
        Some(ConnectionSlot { table: self.clone(), id, activity, cut, is_refused })
    }

    /// Closes all connections that do not read their answers, to free the memory of these.
    pub fn cut_stalled(&self, now: Instant) {
        let is_stalled = |entry: &ConnectionEntry| {
            entry.activity.stalled_since().is_some_and(|since| now >= since + GRACE)
        };
        self.0.lock().by_id.retain(|_, entry| !is_stalled(entry));
    }
}

impl Entries {
    /// Returns the served connections of an address.
    fn served(&self, address: IpAddr) -> usize {
        let of_address = |entry: &&ConnectionEntry| entry.address == address && !entry.is_refused;
        self.by_id.values().filter(of_address).count()
    }

    /// Closes an idle connection of the address with most connections, or else of any address.
    fn make_room(&mut self, now: Instant) -> bool {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for entry in self.by_id.values() {
            *counts.entry(entry.address).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address);
        self.cut_one(now, |entry| Some(entry.address) == most) || self.cut_one(now, |_| true)
    }

    /// Closes the connection that is idle for longest, if there is one.
    fn cut_one(&mut self, now: Instant, concerns: impl Fn(&ConnectionEntry) -> bool) -> bool {
        let idle_since = |(id, entry): (&u64, &ConnectionEntry)| {
            let grace = if entry.is_refused { REFUSED_GRACE } else { GRACE };
            let (is_authorized, since) = entry.activity.idle_since()?;
            (concerns(entry) && now >= since + grace).then_some((is_authorized, since, *id))
        };
        match self.by_id.iter().filter_map(idle_since).min() {
            Some((_, _, id)) => self.by_id.remove(&id).is_some(),
            None => false,
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.0.lock().by_id.remove(&self.id);
    }
}

/// Returns the network that counts as one address: a whole IPv6 /64, since one host owns it.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn is_cut(slot: &mut ConnectionSlot) -> bool {
        slot.cut.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn silent_connections_give_way_and_work_does_not() {
        let (table, begin) = (Arc::new(ConnectionTable::default()), Instant::now());
        let mut silent: Vec<_> =
            (0..ADDRESS_LIMIT).map(|_| table.admit(ONE, begin).unwrap()).collect();
        // At first each connection may be about to send its request.
        assert!(table.admit(ONE, begin).unwrap().is_refused);
        assert!(!table.admit(OTHER, begin).unwrap().is_refused);
        silent[0].activity.begin();
        silent[1].activity.authorize();
        let later = begin + GRACE;
        for _ in 0..3 * ADDRESS_LIMIT {
            assert!(!table.admit(ONE, later).unwrap().is_refused);
        }
        assert!(!is_cut(&mut silent[0]) && !is_cut(&mut silent[1]));
        assert!(is_cut(&mut silent[2]));
    }

    #[test]
    fn a_full_table_of_work_makes_a_new_connection_wait() {
        let (table, now) = (Arc::new(ConnectionTable::default()), Instant::now());
        let addresses = (1..).take(LIMIT).map(|number: u32| IpAddr::V4(number.into()));
        let mut busy: Vec<_> = addresses.map(|ip| table.admit(ip, now).unwrap()).collect();
        busy.iter().for_each(|slot| slot.activity.begin());
        let later = now + GRACE;
        assert!(table.admit(ONE, later).is_none());
        // A client that does not read its answer may be replaced.
        busy[7].activity.answer();
        busy[7].activity.stall(now);
        let slot = table.admit(ONE, later).unwrap();
        assert!(is_cut(&mut busy[7]) && !is_cut(&mut busy[8]));
        drop(slot);
        assert!(table.admit(OTHER, later).is_some());
    }

    #[test]
    fn only_answers_that_are_not_taken_are_cut_for_memory() {
        let (table, now) = (Arc::new(ConnectionTable::default()), Instant::now());
        let mut places: Vec<_> = (0..3).map(|_| table.admit(ONE, now).unwrap()).collect();
        places[0].activity.stall(now);
        places[1].activity.stall(now);
        places[1].activity.resume();
        table.cut_stalled(now);
        assert!(!is_cut(&mut places[0]));
        table.cut_stalled(now + GRACE);
        assert!(is_cut(&mut places[0]) && !is_cut(&mut places[1]) && !is_cut(&mut places[2]));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), ONE);
    }
}

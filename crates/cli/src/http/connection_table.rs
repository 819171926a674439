//! Which connections there are, and which of them has to go when there are too many. No I/O; time
//! is passed in.
//!
//! Invariants: at most [`LIMIT`] connections in all, and at most [`ADDRESS_LIMIT`] of one address
//! are served. A new connection takes the place of one that does nothing: it sends no request, or
//! does not read its answer. Work in progress is never cut for a new connection.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Connections in all. Each takes a descriptor, of which a process has 1,024 by default.
pub const LIMIT: usize = 512;

/// Connections of one address that are served; the others of it get a refusal. The rest of
/// [`LIMIT`] is for other addresses.
pub const ADDRESS_LIMIT: usize = LIMIT / 2;

/// A connection that has done nothing for this long may lose its place.
const GRACE: Duration = Duration::from_secs(1);

/// The same for a connection that only waits to be refused.
const REFUSED_GRACE: Duration = Duration::from_millis(100);

/// What a connection is doing.
#[derive(Debug)]
pub struct Progress(Mutex<Activity>);

#[derive(Clone, Copy, Debug)]
struct Activity {
    phase: Phase,
    /// Since when the client has not taken what is written to it.
    stalled_since: Option<Instant>,
    /// Whether a request with the token has come over this connection.
    is_authorized: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It waits for a request.
    Idle(Instant),
    /// A request is being worked on.
    Working,
    /// The answer is being written.
    Answering,
}

/// All connections.
#[derive(Debug, Default)]
pub struct ConnectionTable(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_id: HashMap<u64, Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    is_refused: bool,
    progress: Arc<Progress>,
    /// Dropping it ends the connection.
    _cut: oneshot::Sender<()>,
}

/// The place of a connection; free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    table: Arc<ConnectionTable>,
    id: u64,
    /// What the connection is doing.
    pub progress: Arc<Progress>,
    /// Ends when the connection must go.
    pub cut: oneshot::Receiver<()>,
    /// Whether its requests are refused because its address has too many connections.
    pub is_refused: bool,
}

impl Progress {
    /// A connection that has just begun.
    pub fn new(now: Instant) -> Self {
        let phase = Phase::Idle(now);
        Self(Mutex::new(Activity { phase, stalled_since: None, is_authorized: false }))
    }

    /// A request has come.
    pub fn begin(&self) {
        self.0.lock().phase = Phase::Working;
    }

    /// The request had the token.
    pub fn authorize(&self) {
        self.0.lock().is_authorized = true;
    }

    /// The answer is known.
    pub fn answer(&self) {
        self.0.lock().phase = Phase::Answering;
    }

    /// The client does not take what is written.
    pub fn stall(&self, now: Instant) {
        self.0.lock().stalled_since.get_or_insert(now);
    }

    /// The client has taken enough.
    pub fn go_on(&self) {
        self.0.lock().stalled_since = None;
    }

    /// Everything that was answered has been written.
    pub fn flush(&self, now: Instant) {
        let mut activity = self.0.lock();
        activity.stalled_since = None;
        if activity.phase == Phase::Answering {
            activity.phase = Phase::Idle(now);
        }
    }

    /// Since when it does nothing, if it does nothing; those without the token come first.
    fn useless(&self) -> Option<(bool, Instant)> {
        let activity = *self.0.lock();
        let since = match (activity.stalled_since, activity.phase) {
            (Some(since), _) | (None, Phase::Idle(since)) => since,
            _ => return None,
        };
        Some((activity.is_authorized, since))
    }

    fn stalled_since(&self) -> Option<Instant> {
        self.0.lock().stalled_since
    }
}

impl ConnectionTable {
    /// A place for a new connection. None if every connection is at work: then it has to wait.
    pub fn admit(self: &Arc<Self>, address: IpAddr, now: Instant) -> Option<Place> {
        let address = network_of(address);
        let mut entries = self.0.lock();
        if entries.by_id.len() >= LIMIT && !entries.make_room(now) {
            return None;
        }
        let is_refused = entries.served(address) >= ADDRESS_LIMIT
            && !entries.cut_one(now, |entry| entry.address == address && !entry.is_refused);
        let (cut_at_end, cut) = oneshot::channel();
        let progress = Arc::new(Progress::new(now));
        let id = entries.next;
        entries.next += 1;
        let entry = Entry { address, is_refused, progress: progress.clone(), _cut: cut_at_end };
        entries.by_id.insert(id, entry);
        Some(Place { table: self.clone(), id, progress, cut, is_refused })
    }

    /// Cuts all connections that do not take their answers, to get back the memory of these.
    pub fn cut_stalled(&self, now: Instant) {
        let is_stalled = |entry: &Entry| {
            entry.progress.stalled_since().is_some_and(|since| now >= since + GRACE)
        };
        self.0.lock().by_id.retain(|_, entry| !is_stalled(entry));
    }
}

impl Entries {
    /// Connections of an address that are served.
    fn served(&self, address: IpAddr) -> usize {
        let of_address = |entry: &&Entry| entry.address == address && !entry.is_refused;
        self.by_id.values().filter(of_address).count()
    }

    /// Cuts a connection of the address that has most of them, or else of any.
    fn make_room(&mut self, now: Instant) -> bool {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for entry in self.by_id.values() {
            *counts.entry(entry.address).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address);
        self.cut_one(now, |entry| Some(entry.address) == most) || self.cut_one(now, |_| true)
    }

    /// Cuts the connection that has done nothing for longest, if there is one.
    fn cut_one(&mut self, now: Instant, concerns: impl Fn(&Entry) -> bool) -> bool {
        let useless = |(id, entry): (&u64, &Entry)| {
            let grace = if entry.is_refused { REFUSED_GRACE } else { GRACE };
            let (is_authorized, since) = entry.progress.useless()?;
            (concerns(entry) && now >= since + grace).then_some((is_authorized, since, *id))
        };
        match self.by_id.iter().filter_map(useless).min() {
            Some((_, _, id)) => self.by_id.remove(&id).is_some(),
            None => false,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.table.0.lock().by_id.remove(&self.id);
    }
}

/// What counts as one address: all of an IPv6 network, since a host has a whole one.
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

    fn is_cut(place: &mut Place) -> bool {
        place.cut.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn silent_connections_give_way_and_work_does_not() {
        let (table, begin) = (Arc::new(ConnectionTable::default()), Instant::now());
        let mut silent: Vec<_> =
            (0..ADDRESS_LIMIT).map(|_| table.admit(ONE, begin).unwrap()).collect();
        // At first each of them may be about to send its request.
        assert!(table.admit(ONE, begin).unwrap().is_refused);
        assert!(!table.admit(OTHER, begin).unwrap().is_refused);
        silent[0].progress.begin();
        silent[1].progress.authorize();
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
        busy.iter().for_each(|place| place.progress.begin());
        let later = now + GRACE;
        assert!(table.admit(ONE, later).is_none());
        // A client that does not read its answer loses its place.
        busy[7].progress.answer();
        busy[7].progress.stall(now);
        let place = table.admit(ONE, later).unwrap();
        assert!(is_cut(&mut busy[7]) && !is_cut(&mut busy[8]));
        drop(place);
        assert!(table.admit(OTHER, later).is_some());
    }

    #[test]
    fn only_answers_that_are_not_taken_are_cut_for_memory() {
        let (table, now) = (Arc::new(ConnectionTable::default()), Instant::now());
        let mut places: Vec<_> = (0..3).map(|_| table.admit(ONE, now).unwrap()).collect();
        places[0].progress.stall(now);
        places[1].progress.stall(now);
        places[1].progress.go_on();
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

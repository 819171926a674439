//! Who waits for a slice, and whose turn it is.
//!
//! Every client has a queue of its own, and they are served in turn: one of this, one of the next. So
//! whoever asks for much waits for itself. A request that has a number makes those of the same client
//! and view with lower numbers stale, as long as they wait.
//!
//! Invariants: a client is known only as long as it waits; `turns` has each of them once; no more than
//! [`CLIENT_LIMIT`] requests of a client and [`LIMIT`] of all wait. Here is no time and no thread.

use std::collections::{HashMap, VecDeque};

/// So many requests of one client wait at most.
pub const CLIENT_LIMIT: usize = 64;

/// So many requests of all clients wait at most.
pub const LIMIT: usize = 1024;

/// Requests that wait, each with what is needed to answer it.
#[derive(Debug)]
pub struct Queue<T> {
    clients: HashMap<String, Vec<Waiting<T>>>,
    turns: VecDeque<String>,
    waiting: usize,
    next_ticket: u64,
}

/// Whose request it is, and of what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The client.
    pub client: String,
    /// Which of its views.
    pub view: String,
    /// The how manieth request of the view; a request without a number is never stale.
    pub sequence: Option<u64>,
}

/// A request that was taken in.
#[derive(Debug, PartialEq, Eq)]
pub struct Entered<T> {
    /// With it the request can be withdrawn.
    pub ticket: u64,
    /// Requests that wait no more, because this one is newer.
    pub stale: Vec<T>,
}

/// Why a request was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// A newer one of the same view waits already.
    Stale,
    /// The client has enough of them.
    Client,
    /// All together have enough of them.
    All,
}

#[derive(Debug)]
struct Waiting<T> {
    ticket: u64,
    view: String,
    sequence: Option<u64>,
    job: T,
}

impl<T> Queue<T> {
    /// Nobody waits.
    pub fn new() -> Self {
        Self { clients: HashMap::new(), turns: VecDeque::new(), waiting: 0, next_ticket: 0 }
    }

    /// Takes a request in.
    pub fn enter(&mut self, asker: Asker, job: T) -> Result<Entered<T>, Full> {
        let Asker { client, view, sequence } = asker;
        let mut stale = Vec::new();
        if let Some(queue) = self.clients.get_mut(&client) {
            if queue.iter().any(|other| other.view == view && is_older(sequence, other.sequence)) {
                return Err(Full::Stale);
            }
            let is_stale =
                |other: &mut Waiting<T>| other.view == view && is_older(other.sequence, sequence);
            stale = queue.extract_if(.., is_stale).map(|other| other.job).collect();
            self.waiting -= stale.len();
            if queue.len() >= CLIENT_LIMIT {
                return Err(Full::Client);
            }
        }
        if self.waiting >= LIMIT {
            return Err(Full::All);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let queue = self.clients.entry(client.clone()).or_insert_with(|| {
            self.turns.push_back(client);
            Vec::new()
        });
        queue.push(Waiting { ticket, view, sequence, job });
        self.waiting += 1;
        Ok(Entered { ticket, stale })
    }

    /// The request whose turn it is.
    pub fn next(&mut self) -> Option<T> {
        let client = self.turns.pop_front()?;
        let queue = self.clients.get_mut(&client).expect("who has a turn waits");
        // Short enough to be moved up.
        let next = queue.remove(0);
        self.waiting -= 1;
        if queue.is_empty() {
            self.clients.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        Some(next.job)
    }

    /// Forgets a request that nobody waits for any more. It may have had its turn.
    pub fn withdraw(&mut self, client: &str, ticket: u64) {
        let Some(queue) = self.clients.get_mut(client) else { return };
        let before = queue.len();
        queue.retain(|waiting| waiting.ticket != ticket);
        self.waiting -= before - queue.len();
        if queue.is_empty() {
            self.clients.remove(client);
            self.turns.retain(|turn| turn != client);
        }
    }

    /// Everybody who waits goes.
    pub fn clear(&mut self) {
        *self = Self { next_ticket: self.next_ticket, ..Self::new() };
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many clients wait.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }
}

/// Whether one request is older than another of the same view.
fn is_older(one: Option<u64>, other: Option<u64>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one < other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(client: &str, view: &str, sequence: u64) -> Asker {
        let sequence = (sequence > 0).then_some(sequence);
        Asker { client: client.to_owned(), view: view.to_owned(), sequence }
    }

    fn all(queue: &mut Queue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.next()).collect()
    }

    #[test]
    fn clients_are_served_in_turn() {
        let mut queue = Queue::new();
        for job in 0..CLIENT_LIMIT {
            queue.enter(asker("storm", "", 0), u32::try_from(job).unwrap()).unwrap();
        }
        assert_eq!(queue.next(), Some(0));
        queue.enter(asker("calm", "", 0), 1000).unwrap();
        queue.enter(asker("calm", "", 0), 1001).unwrap();
        queue.enter(asker("other", "", 0), 2000).unwrap();
        let order = all(&mut queue);
        assert_eq!(order[..7], [1, 1000, 2000, 2, 1001, 3, 4]);
        assert_eq!((order.len(), queue.waiting(), queue.clients()), (66, 0, 0));
    }

    #[test]
    fn newer_requests_of_a_view_make_older_ones_stale() {
        let mut queue = Queue::new();
        queue.enter(asker("a", "axial", 1), 1).unwrap();
        queue.enter(asker("a", "axial", 0), 2).unwrap();
        queue.enter(asker("a", "coronal", 2), 3).unwrap();
        queue.enter(asker("b", "axial", 1), 4).unwrap();
        let entered = queue.enter(asker("a", "axial", 7), 5).unwrap();
        assert_eq!(entered.stale, [1]);
        assert_eq!(queue.enter(asker("a", "axial", 6), 6), Err(Full::Stale));
        assert_eq!(queue.waiting(), 4);
        assert_eq!(all(&mut queue), [2, 4, 3, 5]);
    }

    #[test]
    fn who_stales_all_of_its_own_keeps_its_turn() {
        let mut queue = Queue::new();
        for sequence in 1..1000 {
            let job = u32::try_from(sequence).unwrap();
            let entered = queue.enter(asker("a", "axial", sequence), job).unwrap();
            assert_eq!(entered.stale.len(), usize::from(sequence > 1));
        }
        queue.enter(asker("b", "axial", 1), 5000).unwrap();
        assert_eq!(all(&mut queue), [999, 5000]);
    }

    #[test]
    fn there_are_limits() {
        let mut queue = Queue::new();
        for client in 0..LIMIT / CLIENT_LIMIT {
            for _ in 0..CLIENT_LIMIT {
                queue.enter(asker(&client.to_string(), "", 0), 0).unwrap();
            }
            assert_eq!(queue.enter(asker(&client.to_string(), "", 0), 0), Err(Full::Client));
        }
        assert_eq!(queue.enter(asker("one more", "", 0), 0), Err(Full::All));
        assert_eq!((queue.waiting(), queue.clients()), (LIMIT, LIMIT / CLIENT_LIMIT));
        queue.clear();
        assert_eq!((queue.waiting(), queue.next()), (0, None));
    }

    #[test]
    fn who_goes_is_forgotten() {
        let mut queue = Queue::new();
        let first = queue.enter(asker("a", "", 0), 1).unwrap().ticket;
        let second = queue.enter(asker("a", "", 0), 2).unwrap().ticket;
        queue.enter(asker("b", "", 0), 3).unwrap();
        queue.withdraw("a", first);
        queue.withdraw("a", first);
        queue.withdraw("nobody", second);
        assert_eq!((queue.waiting(), queue.clients()), (2, 2));
        queue.withdraw("a", second);
        assert_eq!((queue.waiting(), queue.clients()), (1, 1));
        assert_eq!(all(&mut queue), [3]);
    }
}

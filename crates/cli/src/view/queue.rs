//! A fair queue for requests.
//!
//! Every client has its own queue, and the queues are served round robin, so that a client with
//! many requests delays only itself. A request with a sequence number makes waiting requests of the
//! same client and view with lower numbers stale.
//!
//! Invariants: a client is in the table only while it has waiting requests; `turns` has each client
//! once; at most [`CLIENT_LIMIT`] requests of a client and [`LIMIT`] of all wait. No time and no
//! threads here.

use std::collections::{HashMap, VecDeque};

/// Limit for the waiting requests of one client.
pub const CLIENT_LIMIT: usize = 64;

/// Limit for the waiting requests of all clients.
pub const LIMIT: usize = 1024;

/// Waiting requests, each with the data for answering it.
#[derive(Debug)]
pub struct RequestQueue<T> {
    clients: HashMap<String, Vec<WaitingRequest<T>>>,
    turns: VecDeque<String>,
    waiting: usize,
    next_ticket: u64,
}

/// The sender of a request, and the view that it is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The client.
    pub client: String,
    /// The view of the client.
    pub view: String,
    /// Sequence number in the view; a request without one never becomes stale.
    pub sequence: Option<u64>,
}

/// The place of a request in the queue.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueEntry<T> {
    /// Withdraws the request, see [`RequestQueue::withdraw`].
    pub ticket: u64,
    /// Requests that this one has replaced.
    pub stale: Vec<T>,
}

/// The reason for not queueing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueError {
    /// A newer request of the same view already waits.
    Stale,
    /// The client has reached its limit.
    Client,
    /// All clients together have reached the limit.
    All,
}

#[derive(Debug)]
struct WaitingRequest<T> {
    ticket: u64,
    view: String,
    sequence: Option<u64>,
    job: T,
}

impl<T> RequestQueue<T> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self { clients: HashMap::new(), turns: VecDeque::new(), waiting: 0, next_ticket: 0 }
    }

    /// Queues a request.
    pub fn enter(&mut self, requester: Requester, job: T) -> Result<QueueEntry<T>, QueueError> {
        let Requester { client, view, sequence } = requester;
        let mut stale = Vec::new();
        if let Some(queue) = self.clients.get_mut(&client) {
            if queue.iter().any(|other| other.view == view && is_older(sequence, other.sequence)) {
                return Err(QueueError::Stale);
            }
            let is_stale = |other: &mut WaitingRequest<T>| {
                other.view == view && is_older(other.sequence, sequence)
            };
            stale = queue.extract_if(.., is_stale).map(|other| other.job).collect();
            self.waiting -= stale.len();
            if queue.len() >= CLIENT_LIMIT {
                return Err(QueueError::Client);
            }
        }
        if self.waiting >= LIMIT {
            return Err(QueueError::All);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let queue = self.clients.entry(client.clone()).or_insert_with(|| {
            self.turns.push_back(client);
            Vec::new()
        });
        queue.push(WaitingRequest { ticket, view, sequence, job });
        self.waiting += 1;
        Ok(QueueEntry { ticket, stale })
    }

    /// Removes the next request.
    pub fn next(&mut self) -> Option<T> {
        let client = self.turns.pop_front()?;
        let queue =
            self.clients.get_mut(&client).expect("a client in `turns` has waiting requests");
        // The queue is short, so moving its entries is cheap.
        let next = queue.remove(0);
        self.waiting -= 1;
        if queue.is_empty() {
            self.clients.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        Some(next.job)
    }

    /// Removes a request, if it still waits.
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

    /// Removes all requests.
    pub fn clear(&mut self) {
        *self = Self { next_ticket: self.next_ticket, ..Self::new() };
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of clients with waiting requests.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }
}

/// Returns whether one request is older than another of the same view.
fn is_older(one: Option<u64>, other: Option<u64>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one < other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requester(client: &str, view: &str, sequence: u64) -> Requester {
        let sequence = (sequence > 0).then_some(sequence);
        Requester { client: client.to_owned(), view: view.to_owned(), sequence }
    }

    fn all(queue: &mut RequestQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.next()).collect()
    }

    #[test]
    fn clients_are_served_in_turn() {
        let mut queue = RequestQueue::new();
        for job in 0..CLIENT_LIMIT {
            queue.enter(requester("storm", "", 0), u32::try_from(job).unwrap()).unwrap();
        }
        assert_eq!(queue.next(), Some(0));
        queue.enter(requester("calm", "", 0), 1000).unwrap();
        queue.enter(requester("calm", "", 0), 1001).unwrap();
        queue.enter(requester("other", "", 0), 2000).unwrap();
        let order = all(&mut queue);
        assert_eq!(order[..7], [1, 1000, 2000, 2, 1001, 3, 4]);
        assert_eq!((order.len(), queue.waiting(), queue.clients()), (66, 0, 0));
    }

    #[test]
    fn newer_requests_of_a_view_make_older_ones_stale() {
        let mut queue = RequestQueue::new();
        queue.enter(requester("a", "axial", 1), 1).unwrap();
        queue.enter(requester("a", "axial", 0), 2).unwrap();
        queue.enter(requester("a", "coronal", 2), 3).unwrap();
        queue.enter(requester("b", "axial", 1), 4).unwrap();
        let entered = queue.enter(requester("a", "axial", 7), 5).unwrap();
        assert_eq!(entered.stale, [1]);
        assert_eq!(queue.enter(requester("a", "axial", 6), 6), Err(QueueError::Stale));
        assert_eq!(queue.waiting(), 4);
        assert_eq!(all(&mut queue), [2, 4, 3, 5]);
    }

    #[test]
    fn who_stales_all_of_its_own_keeps_its_turn() {
        let mut queue = RequestQueue::new();
        for sequence in 1..1000 {
            let job = u32::try_from(sequence).unwrap();
            let entered = queue.enter(requester("a", "axial", sequence), job).unwrap();
            assert_eq!(entered.stale.len(), usize::from(sequence > 1));
        }
        queue.enter(requester("b", "axial", 1), 5000).unwrap();
        assert_eq!(all(&mut queue), [999, 5000]);
    }

    #[test]
    fn there_are_limits() {
        let mut queue = RequestQueue::new();
        for client in 0..LIMIT / CLIENT_LIMIT {
            for _ in 0..CLIENT_LIMIT {
                queue.enter(requester(&client.to_string(), "", 0), 0).unwrap();
            }
            assert_eq!(
                queue.enter(requester(&client.to_string(), "", 0), 0),
                Err(QueueError::Client)
            );
        }
        assert_eq!(queue.enter(requester("one more", "", 0), 0), Err(QueueError::All));
        assert_eq!((queue.waiting(), queue.clients()), (LIMIT, LIMIT / CLIENT_LIMIT));
        queue.clear();
        assert_eq!((queue.waiting(), queue.next()), (0, None));
    }

    #[test]
    fn a_client_that_leaves_is_forgotten() {
        let mut queue = RequestQueue::new();
        let first = queue.enter(requester("a", "", 0), 1).unwrap().ticket;
        let second = queue.enter(requester("a", "", 0), 2).unwrap().ticket;
        queue.enter(requester("b", "", 0), 3).unwrap();
        queue.withdraw("a", first);
        queue.withdraw("a", first);
        queue.withdraw("nobody", second);
        assert_eq!((queue.waiting(), queue.clients()), (2, 2));
        queue.withdraw("a", second);
        assert_eq!((queue.waiting(), queue.clients()), (1, 1));
        assert_eq!(all(&mut queue), [3]);
    }
}

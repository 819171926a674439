//! What a reconnecting client knows of its server: the address, the open connection, the last
//! failure. Decides whether a request uses the connection, fails, or opens a new one. Does no I/O;
//! the caller passes the time in.

use std::time::{Duration, Instant};

use crate::address::Address;

/// The state of a reconnecting client with connections `C` and failures `E`.
pub(super) struct ConnectionState<C, E> {
    address: Option<Address>,
    current: Option<C>,
    /// When the last attempt failed, and why. None after an attempt that succeeded.
    failure: Option<(Instant, E)>,
    /// Counts the connections that were opened.
    epoch: u64,
}

impl<C: Clone, E: Clone> ConnectionState<C, E> {
    pub fn new(address: Option<Address>) -> Self {
        Self { address, current: None, failure: None, epoch: 0 }
    }

    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    pub fn current(&self) -> Option<&C> {
        self.current.as_ref()
    }

    pub fn failure(&self) -> Option<&E> {
        self.failure.as_ref().map(|(_, error)| error)
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Sets the address. A failure at another address counts no more.
    pub fn set_address(&mut self, address: Address) {
        if self.address.as_ref() != Some(&address) {
            self.address = Some(address);
            self.failure = None;
        }
    }

    /// Takes the connection out if it is lost. The caller drops it without the lock.
    pub fn take_lost(&mut self, is_lost: impl FnOnce(&C) -> bool) -> Option<C> {
        self.current.take_if(|current| is_lost(current))
    }

    /// The outcome of a request for the connection that came at `asked`; none if a connection has
    /// to be opened. A failure since then is shared: threads that waited for the same attempt do not
    /// repeat it in turn. During the `pause` after a failure all requests fail.
    pub fn outcome(&self, asked: Instant, now: Instant, pause: Duration) -> Option<Result<C, E>> {
        match (&self.current, &self.failure) {
            (Some(current), _) => Some(Ok(current.clone())),
            (None, Some((at, error))) if *at >= asked || now < *at + pause => {
                Some(Err(error.clone()))
            }
            _ => None,
        }
    }

    /// Records a new connection, made with its number.
    pub fn record_open(&mut self, connection: impl FnOnce(u64) -> C) -> C {
        self.epoch += 1;
        let connection = connection(self.epoch);
        self.failure = None;
        self.current = Some(connection.clone());
        connection
    }

    /// Records that no connection could be opened to this address.
    pub fn record_failure(&mut self, now: Instant, address: Option<&Address>, error: E) {
        if self.address.as_ref() == address {
            self.failure = Some((now, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(300);

    type State = ConnectionState<&'static str, &'static str>;

    fn address(port: u16) -> Address {
        Address::tcp(([127, 0, 0, 1], port).into())
    }

    #[test]
    fn after_a_failure_there_is_a_pause() {
        let mut state = State::new(Some(address(1)));
        let start = Instant::now();
        assert_eq!(state.outcome(start, start, PAUSE), None);
        state.record_failure(start, Some(&address(1)), "refused");
        let later = start + PAUSE - Duration::from_nanos(1);
        assert_eq!(state.outcome(later, later, PAUSE), Some(Err("refused")));
        assert_eq!(state.outcome(start + PAUSE, start + PAUSE, PAUSE), None);
        assert_eq!(state.failure(), Some(&"refused"), "the reason stays until a success");
        state.record_open(|_| "link");
        assert_eq!(state.failure(), None);
    }

    #[test]
    fn requests_that_waited_for_an_attempt_share_its_failure() {
        let mut state = State::new(Some(address(1)));
        let asked = Instant::now();
        let failed = asked + Duration::from_secs(5);
        state.record_failure(failed, Some(&address(1)), "silent");
        let later = failed + Duration::from_secs(1);
        let none = Duration::ZERO;
        assert_eq!(state.outcome(asked, later, none), Some(Err("silent")));
        assert_eq!(state.outcome(later, later, none), None);
    }

    #[test]
    fn a_failure_belongs_to_its_address() {
        let mut state = State::new(None);
        let now = Instant::now();
        assert_eq!(state.outcome(now, now, PAUSE), None);
        state.record_failure(now, None, "no address");
        state.set_address(address(1));
        assert_eq!(state.outcome(now, now, PAUSE), None);
        assert_eq!(state.address(), Some(&address(1)));
        state.record_failure(now, Some(&address(1)), "refused");
        state.set_address(address(1));
        assert_eq!(state.failure(), Some(&"refused"), "the address is the same");
        state.set_address(address(2));
        // An attempt at the old address ends after the change.
        state.record_failure(now, Some(&address(1)), "refused");
        assert_eq!(state.failure(), None);
    }

    #[test]
    fn each_connection_has_a_number() {
        let mut state = State::new(Some(address(1)));
        let now = Instant::now();
        assert_eq!(state.epoch(), 0);
        let first = state.record_open(|epoch| if epoch == 1 { "first" } else { "" });
        assert_eq!(first, "first");
        assert_eq!(state.outcome(now, now, PAUSE), Some(Ok("first")));
        assert_eq!(state.take_lost(|_| false), None);
        assert_eq!(state.take_lost(|_| true), Some("first"));
        assert_eq!((state.current(), state.epoch()), (None, 1));
        assert_eq!(state.record_open(|_| "second"), "second");
        assert_eq!((state.current(), state.epoch()), (Some(&"second"), 2));
    }
}

//! When one client keeps the receiving thread busy with nothing but cheap requests while others ask
//! too, the thread pauses now and then: the client and the node would otherwise keep two processors
//! from all other clients. A client that asks alone is never slowed down.
//!
//! Without I/O: times are passed in.

use std::time::{Duration, Instant};

use pario_net::SpaceId;

/// Requests that are looked at together.
const WINDOW: u32 = 128;

/// Of these, as many of one client make a flood.
const OF_ONE: u32 = 96;

/// A window that takes longer holds requests that are not cheap, or pauses.
const WINDOW_TIME: Duration = Duration::from_millis(2);

/// Another client has asked within this time: a flood keeps it waiting.
const CONTENDED_TIME: Duration = Duration::from_millis(100);

/// How long the thread pauses after a window of a flood.
pub const PAUSE: Duration = Duration::from_micros(200);

/// What the receiving thread has received since the window began.
#[derive(Debug)]
pub struct FloodWatch {
    began: Instant,
    client: Option<SpaceId>,
    all: u32,
    of_client: u32,
    /// Whether the window holds requests of several clients.
    is_mixed: bool,
    /// Until then, other clients count as present.
    contended_until: Option<Instant>,
}

impl FloodWatch {
    /// The first window begins.
    pub fn new(now: Instant) -> Self {
        let (client, contended_until) = (None, None);
        Self { began: now, client, all: 0, of_client: 0, is_mixed: false, contended_until }
    }

    /// Notes a request; whether a window of a flood has ended with it that keeps others waiting. The
    /// clock is asked at the ends of windows only.
    pub fn note(&mut self, client: SpaceId, now: impl FnOnce() -> Instant) -> bool {
        self.all += 1;
        self.is_mixed |= self.client.is_some_and(|known| known != client);
        // The client of most requests of a window is the one that is left after others cancel out.
        match self.client {
            Some(known) if known == client => self.of_client += 1,
            Some(_) if self.of_client > 0 => self.of_client -= 1,
            _ => (self.client, self.of_client) = (Some(client), 1),
        }
        if self.all < WINDOW {
            return false;
        }
        let now = now();
        let is_cheap = now.saturating_duration_since(self.began) <= WINDOW_TIME;
        // Each request of others has cancelled one: at least `OF_ONE` were of the client.
        let is_flood = is_cheap && self.of_client >= 2 * OF_ONE - WINDOW;
        let contended_until =
            if self.is_mixed { Some(now + CONTENDED_TIME) } else { self.contended_until };
        *self = Self { contended_until, ..Self::new(now) };
        is_flood && contended_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(number: u8) -> SpaceId {
        SpaceId::from_bytes([number; 16])
    }

    /// The windows of a flood among requests of these clients that come in steps of a time.
    fn floods(step: Duration, client: impl Fn(u32) -> u8) -> usize {
        let start = Instant::now();
        let mut watch = FloodWatch::new(start);
        let is_flood = |number: u32| watch.note(space(client(number)), || start + step * number);
        (0..10 * WINDOW).map(is_flood).filter(|is_flood| *is_flood).count()
    }

    #[test]
    fn only_cheap_requests_of_one_client_are_a_flood() {
        let cheap = Duration::from_micros(3);
        assert_eq!(floods(cheap, |number| u8::from(number.is_multiple_of(10))), 10);
        assert_eq!(
            floods(cheap, |number| u8::from(number.is_multiple_of(2))),
            0,
            "two clients share"
        );
        assert_eq!(floods(cheap, |number| (number / 16).to_le_bytes()[0] % 8), 0, "many clients");
        let slow = Duration::from_micros(100);
        let with_another = |number: u32| u8::from(number.is_multiple_of(10));
        assert_eq!(floods(slow, with_another), 0, "requests that take long");
    }

    #[test]
    fn a_client_that_asks_alone_is_not_slowed_down() {
        let cheap = Duration::from_micros(3);
        assert_eq!(floods(cheap, |_| 1), 0);
        // One request of another client counts from the end of its window on.
        assert_eq!(floods(cheap, |number| u8::from(number == 5 * WINDOW + 1)), 5);
        // After a while it is forgotten: a window of cheap requests takes 1.3 ms here.
        let start = Instant::now();
        let mut watch = FloodWatch::new(start);
        let step = Duration::from_micros(10);
        let mut floods = 0;
        for number in 0..1000 * WINDOW {
            let client = space(u8::from(number == 1));
            floods += u32::from(watch.note(client, || start + step * number));
        }
        let (window, contended) = (step * WINDOW, CONTENDED_TIME);
        assert!((contended / 2..contended + window).contains(&(window * floods)), "{floods}");
    }
}

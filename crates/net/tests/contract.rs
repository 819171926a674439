//! One suite for every kind of link: two spaces, and what can be relied on between them.

#![allow(clippy::cast_possible_truncation, reason = "patterns are meant to wrap")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::{
    Bulk, BulkBuffer, Credit, InputPort, Key, LinkChoice, LinkCounters, OpenError, Options,
    OutputPort, PortOptions, RecvError, SendError, Simulation, Space,
};
use serde::{Deserialize, Serialize};

const SOON: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    Unix,
    Tcp,
    Simulated,
}

/// Two spaces with a way between them.
struct Pair {
    kind: Kind,
    a: Space,
    b: Space,
    simulation: Option<Simulation>,
}

impl Pair {
    fn new(kind: Kind) -> Self {
        Self::with(kind, Options::default())
    }

    fn with(kind: Kind, options: Options) -> Self {
        if kind == Kind::Simulated {
            let simulation = Simulation::new(7);
            let a = simulation.space_with("a", options.clone()).unwrap();
            let b = simulation.space_with("b", options).unwrap();
            return Self { kind, a, b, simulation: Some(simulation) };
        }
        let links = match kind {
            Kind::Memory => LinkChoice::Nearest,
            Kind::Unix => LinkChoice::Unix,
            _ => LinkChoice::Tcp,
        };
        let builder = |name| {
            Space::builder(name)
                .listen_tcp("127.0.0.1:0".parse().unwrap())
                .links(links)
                .options(options.clone())
        };
        let a = builder("a").host().build().unwrap();
        let b = builder("b").join(&a.address()).build().unwrap();
        Self { kind, a, b, simulation: None }
    }

    /// A port in `a`, opened from `b`.
    fn port<T: pario_net::Token>(&self, name: &str) -> (InputPort<T>, OutputPort<T>) {
        let input = self.a.input(name).unwrap();
        (input, self.b.output(name, SOON).unwrap())
    }

    /// What `b` knows about its link to `a`.
    fn counters(&self) -> LinkCounters {
        self.b.counters().links.into_iter().find(|link| link.is_alive).unwrap()
    }
}

fn order_is_kept(kind: Kind) {
    let pair = Pair::new(kind);
    let (input, output) = pair.port::<u64>("numbers");
    assert!(!output.is_local() && output.peer() == "a" && output.name() == "numbers");
    for number in 0..100_000 {
        output.send(number).unwrap();
        if number % 10_000 == 7 {
            output.flush();
        }
        if number % 1_000 == 999 {
            for expected in number - 999..=number {
                assert_eq!(input.recv_timeout(SOON).unwrap(), expected);
            }
        }
    }
    assert!(matches!(input.try_recv(), Err(RecvError::Empty { .. })));
}

/// One test of the suite for each kind of link.
macro_rules! contract {
    ($($test:ident),* $(,)?) => {
        mod memory { $(#[test] fn $test() { super::$test(super::Kind::Memory); })* }
        mod unix { $(#[test] fn $test() { super::$test(super::Kind::Unix); })* }
        mod tcp { $(#[test] fn $test() { super::$test(super::Kind::Tcp); })* }
        mod simulated { $(#[test] fn $test() { super::$test(super::Kind::Simulated); })* }
    };
}

contract!(order_is_kept);

//! What all handles of a space share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use crate::error::{InputError, OpenError};
use crate::key::SpaceId;
use crate::port::{PortLabel, Sink};
use crate::space::Options;
use crate::waiter::{Waiter, Waiters};

pub(crate) struct Core {
    name: String,
    id: SpaceId,
    pub options: Options,
    pub started: Instant,
    names: Mutex<Names>,
    next_port: AtomicU32,
    closed: AtomicBool,
}

/// The input ports of this space.
struct Names {
    ports: HashMap<String, Weak<dyn Sink>>,
    /// Threads that wait for a name.
    waiters: Waiters,
}

impl Core {
    pub fn new(name: &str, id: SpaceId, options: Options) -> Self {
        let names = Names { ports: HashMap::new(), waiters: Waiters::new() };
        Self {
            name: name.to_owned(),
            id,
            options,
            started: Instant::now(),
            names: Mutex::new(names),
            next_port: AtomicU32::new(1),
            closed: AtomicBool::new(false),
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

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Wakes threads that wait in this space.
    pub fn wake(&self, waiters: Waiters) {
        for waiter in waiters.into_vec() {
            waiter.wake(|| {});
        }
    }

    /// Waits until `look` finds something, or the deadline. `look` must leave the waiter with
    /// whatever it did not find ready.
    pub fn wait<R>(
        &self,
        deadline: Option<Instant>,
        mut look: impl FnMut(&Arc<Waiter>) -> Option<R>,
    ) -> Option<R> {
        let waiter = Waiter::current();
        loop {
            waiter.prepare();
            if let Some(found) = look(&waiter) {
                return Some(found);
            }
            if !waiter.sleep(deadline) {
                return None;
            }
        }
    }

    /// Makes a port known.
    pub fn announce(&self, sink: &Arc<dyn Sink>) -> Result<(), InputError> {
        let port = sink.label().name.clone();
        let mut names = self.names.lock();
        if self.is_closed() {
            return Err(InputError::Closed { port, space: self.name.clone() });
        }
        if names.ports.contains_key(&port) {
            return Err(InputError::NameTaken { port, owner: self.name.clone() });
        }
        names.ports.insert(port, Arc::downgrade(sink));
        let waiters = names.waiters.take();
        drop(names);
        self.wake(waiters);
        Ok(())
    }

    /// Takes a port's name back.
    pub fn withdraw(&self, label: &PortLabel) {
        self.names.lock().ports.remove(&label.name);
    }

    /// The port of this space that has this name.
    pub fn local_port(&self, name: &str) -> Option<Arc<dyn Sink>> {
        self.names.lock().ports.get(name).and_then(Weak::upgrade)
    }

    /// Waits for a port of this space.
    pub fn wait_for_local(
        &self,
        port: &str,
        timeout: std::time::Duration,
    ) -> Result<Arc<dyn Sink>, OpenError> {
        let deadline = Instant::now() + timeout;
        let found = self.wait(Some(deadline), |waiter| {
            let mut names = self.names.lock();
            if self.is_closed() {
                let space = self.name.clone();
                return Some(Err(OpenError::Closed { port: port.to_owned(), space }));
            }
            if let Some(sink) = names.ports.get(port).and_then(Weak::upgrade) {
                return Some(Ok(sink));
            }
            names.waiters.add(waiter);
            None
        });
        found.unwrap_or_else(|| Err(OpenError::Timeout { port: port.to_owned(), waited: timeout }))
    }

    /// Closes all ports; nothing can be made any more.
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        let (sinks, waiters) = {
            let mut names = self.names.lock();
            let sinks: Vec<_> = names.ports.values().filter_map(Weak::upgrade).collect();
            (sinks, names.waiters.take())
        };
        for sink in sinks {
            sink.close();
        }
        self.wake(waiters);
    }
}

impl Core {
    pub fn address(&self) -> crate::Address {
        crate::Address { space: Some(self.id), ..crate::Address::default() }
    }
    pub fn counters(&self) -> crate::Counters {
        crate::Counters::default()
    }
    pub fn sample_every(&self, _interval: std::time::Duration) {}
    pub fn history(&self) -> Vec<crate::Sample> {
        Vec::new()
    }
    pub fn refusals(&self) -> Vec<crate::Refusal> {
        Vec::new()
    }
}

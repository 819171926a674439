//! The history of a space: counters of lost links, and refusals.

use std::collections::VecDeque;
use std::sync::Weak;

use parking_lot::Mutex;

use crate::core::Core;
use crate::counters::{Counters, LinkCounters, PortCounters, Refusal};

/// The limit of refusals and lost links that are kept.
const KEPT: usize = 1024;

#[derive(Default)]
pub(crate) struct History {
    state: Mutex<HistoryState>,
}

#[derive(Default)]
struct HistoryState {
    lost_links: VecDeque<LinkCounters>,
    refusals: VecDeque<Refusal>,
}

impl History {
    pub fn keep_lost(&self, mut counters: LinkCounters) {
        counters.is_alive = false;
        keep(&mut self.state.lock().lost_links, counters);
    }
}

/// Keeps the last ones.
fn keep<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == KEPT {
        list.pop_front();
    }
    list.push_back(item);
}

impl Core {
    pub fn counters(&self) -> Counters {
        let mut links: Vec<_> = self.history.state.lock().lost_links.iter().cloned().collect();
        links.extend(self.links().iter().map(|link| link.counters()));
        let sinks: Vec<_> = {
            let names = self.names.lock();
            let all = names.ports.values().chain(names.private.values());
            all.filter_map(Weak::upgrade).collect()
        };
        let port = |sink: std::sync::Arc<dyn crate::port::Sink>| {
            let (put, taken) = sink.flow();
            PortCounters {
                name: sink.label().name.clone(),
                received_tokens: taken,
                depth: put.saturating_sub(taken),
            }
        };
        let mut ports: Vec<_> = sinks.into_iter().map(port).collect();
        ports.sort_by(|a, b| a.name.cmp(&b.name));
        Counters { links, ports }
    }

    pub fn refusals(&self) -> Vec<Refusal> {
        self.history.state.lock().refusals.iter().cloned().collect()
    }

    /// Records a peer that was refused or cut off.
    pub fn refuse(&self, peer: &str, reason: &str) {
        tracing::debug!(space = self.name(), peer, reason, "refused");
        let (peer, reason) = (peer.to_owned(), reason.to_owned());
        let at = self.started.elapsed();
        keep(&mut self.history.state.lock().refusals, Refusal { at, peer, reason });
    }
}

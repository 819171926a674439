//! The history of a space: counters of lost links, samples, refusals.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::core::Core;
use crate::counters::{CounterSample, Counters, LinkCounters, PortCounters, Refusal};

/// The limit of samples, refusals and lost links that are kept.
const KEPT: usize = 1024;

#[derive(Default)]
pub(crate) struct History {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lost_links: VecDeque<LinkCounters>,
    samples: VecDeque<CounterSample>,
    refusals: VecDeque<Refusal>,
    interval: Option<Duration>,
    next_sample: Option<Instant>,
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

    pub fn sample_every(&self, interval: Duration) {
        {
            let mut state = self.history.state.lock();
            state.interval = (!interval.is_zero()).then_some(interval);
            state.next_sample = (!interval.is_zero()).then(Instant::now);
        }
        self.request_maintenance();
    }

    pub fn history(&self) -> Vec<CounterSample> {
        if self.poller.is_none() {
            // There is no I/O thread that takes samples in time.
            self.sample(Instant::now());
        }
        self.history.state.lock().samples.iter().cloned().collect()
    }

    /// Takes a sample if it is due. Returns the time to the next one.
    pub fn sample(&self, now: Instant) -> Option<Duration> {
        let (interval, next) = {
            let state = self.history.state.lock();
            (state.interval?, state.next_sample?)
        };
        if now < next {
            return Some(next - now);
        }
        let sample = CounterSample { at: now - self.started, counters: self.counters() };
        let mut state = self.history.state.lock();
        keep(&mut state.samples, sample);
        state.next_sample = Some(now + interval);
        Some(interval)
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

//! The caretaker: keeps this node joined, and gives up on answers that do not come. Beside it
//! somebody measures disks, who may have to wait for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::Space;

use super::{informing, joining};
use crate::config::NodeConfig;
use crate::event_log::PeerWatch;
use crate::processing::MOMENT;
use crate::shared::Shared;

/// How often it looks around.
const ROUND: Duration = Duration::from_millis(100);
/// How long it waits for the interface node to say who has joined.
const NEWS_WAIT: Duration = Duration::from_secs(1);
/// How often the room on the disks is measured, and how often what is known of the other nodes is
/// renewed.
const MEASURE: Duration = Duration::from_secs(1);

/// The caretaker's thread; ends when the node is asked to stop.
pub fn work(shared: &Arc<Shared>) {
    let mut renewed = Instant::now();
    let mut heard = renewed;
    let mut watches = peer_watches(shared, renewed);
    while !shared.stopping.is_asked() {
        let now = Instant::now();
        shared.peers.expire(now);
        if shared.names.is_some() {
            for node in (0..shared.config.nodes.len()).filter(|node| *node != shared.me) {
                // New files are only laid out over nodes that are known to be there.
                if !shared.peers.is_linked(node) {
                    let _ = shared.peers.try_reach(node);
                }
            }
            informing::begin_due_epoch(shared, now);
        } else {
            joining::stay_joined(shared);
        }
        for (node, watch) in &mut watches {
            let why = shared.peers.trouble_text(*node);
            let event = watch.observe(is_reached(shared, *node), why.as_deref(), now);
            event.into_iter().for_each(|event| shared.events.note(event));
        }
        let waiting = shared.strangers.take();
        if !waiting.is_empty() || now.duration_since(renewed) >= MEASURE {
            renewed = now;
            joining::renew_map(shared, NEWS_WAIT);
        }
        waiting.into_iter().for_each(|go_on| go_on());
        if now.duration_since(heard) >= MEASURE {
            heard = now;
            informing::hear_news(shared, NEWS_WAIT);
        }
        shared.stopping.pause(ROUND);
    }
    shared.strangers.take().into_iter().for_each(|go_on| go_on());
}

/// The nodes to which this one keeps a link, and of which it tells: the interface node all others,
/// and they the interface node.
fn peer_watches(shared: &Shared, now: Instant) -> Vec<(usize, PeerWatch)> {
    let nodes = shared.config.nodes.iter().enumerate();
    let watched = nodes.filter(|(number, _)| {
        *number != shared.me && (shared.names.is_some() || *number == shared.config.interface)
    });
    let watch = |(number, node): (usize, &NodeConfig)| {
        let address = node.listen.map(|address| address.to_string()).unwrap_or_default();
        (number, PeerWatch::new(&node.name, &address, now))
    };
    watched.map(watch).collect()
}

/// Whether a node is part of the cluster, as far as this one sees.
fn is_reached(shared: &Shared, node: usize) -> bool {
    shared.peers.is_linked(node) && (shared.names.is_some() || shared.peers.has_joined())
}

/// The thread that tells callers how far their calls have come; ends when the node is asked to stop.
pub fn answer(shared: &Arc<Shared>) {
    while !shared.stopping.is_asked() {
        shared.calls.tick(Instant::now());
        shared.stopping.pause(MOMENT);
    }
}

/// The thread that measures disks, tells the log of them, and notes which connections were refused;
/// ends when the node is asked to stop.
pub fn measure(shared: &Arc<Shared>, space: &Space) {
    let mut noted = Duration::ZERO;
    let mut watches = shared.disks.watches();
    loop {
        let is_last = shared.stopping.is_asked();
        for refusal in space.refusals().iter().filter(|refusal| refusal.at > noted) {
            shared.audit.note_connection(refusal);
            shared.events.note_connection(refusal);
        }
        noted = space.refusals().last().map_or(noted, |last| last.at);
        if is_last {
            return;
        }
        shared.disks.measure_space();
        // Tables of clients that have ended are let go.
        let now = Instant::now();
        shared.short_cut_traffic.collect(now);
        for (watch, look) in watches.iter_mut().zip(shared.disks.looks()) {
            watch.observe(&look, now).into_iter().for_each(|event| shared.events.note(event));
        }
        shared.events.flush_due();
        shared.stopping.pause(MEASURE);
    }
}

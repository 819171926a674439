//! The membership task: keeps a node joined to its cluster, and ends requests to peers that do not
//! answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{grant_news, joining};
use crate::config::NodeConfig;
use crate::event_log::PeerWatch;
use crate::node_state::NodeState;

/// The period of the task.
const TASK_PERIOD: Duration = Duration::from_millis(100);
/// How long the task waits for news of the interface node.
const NEWS_TIMEOUT: Duration = Duration::from_secs(1);
/// The period at which the task asks for news of the other nodes.
const NEWS_PERIOD: Duration = Duration::from_secs(1);

/// The thread of the task; returns when the node stops.
pub fn run_thread(shared: &Arc<NodeState>) {
    let mut map_refreshed = Instant::now();
    let mut news_polled = map_refreshed;
    let mut watches = peer_watches(shared, map_refreshed);
    while !shared.shutdown.is_requested() {
        let now = Instant::now();
        shared.peers.expire(now);
        if shared.interface.is_some() {
            for node in (0..shared.config.nodes.len()).filter(|node| *node != shared.me) {
                // New files are laid out only over nodes with a link.
                if !shared.peers.is_linked(node) {
                    let _ = shared.peers.try_reach(node);
                }
            }
            grant_news::begin_due_epoch(shared, now);
        } else {
            joining::ensure_joined(shared);
        }
        for (node, watch) in &mut watches {
            let why = shared.peers.trouble_text(*node);
            let event = watch.observe(is_member(shared, *node), why.as_deref(), now);
            event.into_iter().for_each(|event| shared.events.note(event));
        }
        let waiting = shared.map_waiters.take();
        if !waiting.is_empty() || now.duration_since(map_refreshed) >= NEWS_PERIOD {
            map_refreshed = now;
            joining::refresh_map(shared, NEWS_TIMEOUT);
        }
        waiting.into_iter().for_each(|resume| resume());
        if now.duration_since(news_polled) >= NEWS_PERIOD {
            news_polled = now;
            grant_news::poll_grant_news(shared, NEWS_TIMEOUT);
        }
        shared.shutdown.pause(TASK_PERIOD);
    }
    shared.map_waiters.take().into_iter().for_each(|resume| resume());
}

/// Returns a watch for each peer to which this node keeps a link: the interface node for all
/// others, every other node for the interface node.
fn peer_watches(shared: &NodeState, now: Instant) -> Vec<(usize, PeerWatch)> {
    let nodes = shared.config.nodes.iter().enumerate();
    let watched = nodes.filter(|(number, _)| {
        *number != shared.me && (shared.interface.is_some() || *number == shared.config.interface)
    });
    let watch = |(number, node): (usize, &NodeConfig)| {
        let address = node.listen.map(|address| address.to_string()).unwrap_or_default();
        (number, PeerWatch::new(&node.name, &address, now))
    };
    watched.map(watch).collect()
}

/// Returns whether a node is part of the cluster, as seen from this one.
fn is_member(shared: &NodeState, node: usize) -> bool {
    shared.peers.is_linked(node) && (shared.interface.is_some() || shared.peers.has_joined())
}

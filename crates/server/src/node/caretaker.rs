//! The caretaker: keeps this node joined, gives up on answers that do not come, measures disks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::joining;
use crate::shared::Shared;

/// How often it looks around.
const ROUND: Duration = Duration::from_millis(100);
/// How often the room on the disks is measured, and what is known of the other nodes renewed.
const MEASURE: Duration = Duration::from_secs(1);

/// The caretaker's thread; ends when the node is asked to stop.
pub fn work(shared: &Arc<Shared>) {
    let mut measured = Instant::now();
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
        } else {
            joining::stay_joined(shared);
        }
        if now.duration_since(measured) >= MEASURE {
            measured = now;
            shared.disks.measure_space();
            if shared.names.is_none() {
                joining::ask_map(shared);
            }
        }
        shared.stopping.pause(ROUND);
    }
}

//! Threads of a node that repeat a task: progress updates of processing calls, the end of leases and
//! warnings of long waits, and the watch over the disks. The second one may block on a disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pario_net::Space;

use super::collective_service::WaitWarnings;
use super::dispatcher::Dispatcher;
use crate::node_state::NodeState;
use crate::processing::UPDATE_PERIOD;

/// The period of the watch over the disks.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// The thread that sends progress updates to the callers of processing calls, ends the leases of
/// delegations that processes wait for, and warns of processes that wait too long; returns when the
/// node stops.
pub fn send_updates(shared: &Arc<NodeState>, dispatcher: &Dispatcher) {
    let mut warnings = dispatcher.wait_warnings();
    let warning_period = warnings.as_ref().map(WaitWarnings::period);
    let period = warning_period.map_or(UPDATE_PERIOD, |period| period.min(UPDATE_PERIOD));
    while !shared.shutdown.is_requested() {
        let now = Instant::now();
        shared.calls.send_due_updates(now);
        shared.atomic_files.expire(shared.name(), shared.now_ms());
        if let Some(warnings) = &mut warnings {
            dispatcher.warn_of_long_waits(warnings, now);
        }
        shared.shutdown.pause(period);
    }
}

/// The thread that measures the disks, logs their events and the connections that the node has
/// refused, and collects the traffic of the short cut; returns when the node stops.
pub fn watch_disks(shared: &Arc<NodeState>, space: &Space) {
    let mut noted = Duration::ZERO;
    let mut watches = shared.disks.watches();
    loop {
        let is_last = shared.shutdown.is_requested();
        for refusal in space.refusals().iter().filter(|refusal| refusal.at > noted) {
            shared.audit.note_connection(refusal);
            shared.events.note_connection(refusal);
        }
        noted = space.refusals().last().map_or(noted, |last| last.at);
        if is_last {
            return;
        }
        shared.disks.measure_space();
        // Drops the tables of clients that have ended.
        let now = Instant::now();
        shared.short_cut_traffic.collect(now);
        for (watch, look) in watches.iter_mut().zip(shared.disks.looks()) {
            watch.observe(&look, now).into_iter().for_each(|event| shared.events.note(event));
        }
        shared.events.flush_due();
        shared.shutdown.pause(WATCH_PERIOD);
    }
}

//! The I/O thread of a space with links: leads when no other thread does, flushes old batches,
//! pings, expires handshakes.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::core::Core;

/// The time between checks whether a thread still leads.
const PARK_TIMEOUT: Duration = Duration::from_millis(5);
/// The time without a leader after which the I/O thread leads: a thread that is only held up
/// briefly will be back, and two that alternate at a busy link hinder each other.
const LEAD_AFTER: Duration = Duration::from_millis(20);
/// The time without a change of leader after which the I/O thread sleeps until it is woken.
const QUIET_AFTER: Duration = Duration::from_millis(50);
/// The number of checks without a batch after which it stops checking.
const EMPTY_CHECKS_LIMIT: u32 = 40;

pub(crate) fn run(core: &Arc<Core>) {
    // Otherwise the system adds 50 µs to each short sleep.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let Some(poller) = &core.poller else { return };
    let mut seen = poller.resignations.load(Ordering::Relaxed);
    let mut changed = Instant::now();
    let mut empty_checks = 0;
    let mut events = Vec::new();
    let mut next_maintenance = Instant::now();
    while !core.is_stopped() {
        let now = Instant::now();
        if now >= next_maintenance || core.is_maintenance_due() {
            core.begin_maintenance();
            next_maintenance = now + core.run_maintenance(now);
        }
        let half_delay = (core.options.delay / 2).max(Duration::from_micros(10));
        let has_gathered = core.has_gathered();
        if has_gathered {
            if core.flush_older(half_delay) {
                empty_checks = 0;
            } else {
                empty_checks += 1;
                if empty_checks > EMPTY_CHECKS_LIMIT {
                    empty_checks = 0;
                    core.clear_gathered();
                    // A thread may have gathered a token just before.
                    core.flush_older(Duration::ZERO);
                }
            }
        }
        let resignations = poller.resignations.load(Ordering::Relaxed);
        if resignations != seen {
            (seen, changed) = (resignations, now);
        }
        if now.duration_since(changed) >= LEAD_AFTER && poller.try_lead_as_io_thread() {
            if lead(core, next_maintenance, &mut events) {
                // A thread that wants to lead now will want to again.
                changed = Instant::now();
            }
            seen = poller.resignations.load(Ordering::Relaxed);
            continue;
        }
        if has_gathered {
            std::thread::park_timeout(half_delay);
        } else if now.duration_since(changed) < QUIET_AFTER {
            std::thread::park_timeout(PARK_TIMEOUT);
        } else {
            poller.io_thread_sleeps.store(true, Ordering::SeqCst);
            // A thread that resigned before the line above did not wake this one.
            if poller.resignations.load(Ordering::SeqCst) == seen {
                std::thread::park_timeout(next_maintenance.saturating_duration_since(now));
            }
            poller.io_thread_sleeps.store(false, Ordering::SeqCst);
        }
    }
}

/// Leads until a thread wants to, or other work is due. Returns whether a thread wants to.
fn lead(
    core: &Arc<Core>,
    next_maintenance: Instant,
    events: &mut Vec<crate::poller::PollEvent>,
) -> bool {
    let Some(poller) = &core.poller else { return false };
    while !core.is_stopped() && !poller.is_wanted() {
        let now = Instant::now();
        let has_gathered = core.has_gathered();
        let until = if has_gathered {
            next_maintenance.min(now + core.options.delay / 2)
        } else {
            next_maintenance
        };
        poller.poll(Some(until), events);
        core.handle(events);
        let is_due = core.is_maintenance_due() || Instant::now() >= next_maintenance;
        if has_gathered || core.has_gathered() || is_due {
            break;
        }
    }
    let is_wanted = poller.is_wanted();
    poller.resign();
    is_wanted
}

//! The thread of a space that has links: leads when no other thread does, sends what was gathered
//! too long ago, pings, takes samples, lets nobody wait for ever at the door.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::core::Core;

/// While threads lead now and then, the courier looks so often whether one still does.
const NAP: Duration = Duration::from_millis(5);
/// If nobody has led for so long, the courier does: a thread that is only held up for a moment will
/// be back, and two that take turns at a busy link hinder each other.
const PATIENCE: Duration = Duration::from_millis(20);
/// Without any change of the leader for so long, it sleeps until it is called.
const QUIET: Duration = Duration::from_millis(50);
/// After so many looks at links with nothing gathered, it looks no more.
const VAIN_LOOKS: u32 = 40;

pub(crate) fn run(core: &Arc<Core>) {
    // Otherwise the system adds 50 µs to each short sleep.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let Some(hub) = &core.hub else { return };
    let mut seen = hub.resignations.load(Ordering::Relaxed);
    let mut changed = Instant::now();
    let mut vain_looks = 0;
    let mut events = Vec::new();
    let mut next_chore = Instant::now();
    while !core.is_stopped() {
        let now = Instant::now();
        if now >= next_chore || core.are_chores_due() {
            core.begin_chores();
            next_chore = now + core.do_chores(now);
        }
        let half_delay = (core.options.delay / 2).max(Duration::from_micros(10));
        let is_watching = core.is_watching();
        if is_watching {
            if core.flush_older(half_delay) {
                vain_looks = 0;
            } else {
                vain_looks += 1;
                if vain_looks > VAIN_LOOKS {
                    vain_looks = 0;
                    core.end_watch();
                    // Somebody may have gathered just before.
                    core.flush_older(Duration::ZERO);
                }
            }
        }
        let resignations = hub.resignations.load(Ordering::Relaxed);
        if resignations != seen {
            (seen, changed) = (resignations, now);
        }
        if now.duration_since(changed) >= PATIENCE && hub.try_lead_as_courier() {
            if lead(core, next_chore, &mut events) {
                // Who wants to lead now will want to again.
                changed = Instant::now();
            }
            seen = hub.resignations.load(Ordering::Relaxed);
            continue;
        }
        if is_watching {
            std::thread::park_timeout(half_delay);
        } else if now.duration_since(changed) < QUIET {
            std::thread::park_timeout(NAP);
        } else {
            hub.courier_sleeps.store(true, Ordering::SeqCst);
            // Who resigned before the line above did not call.
            if hub.resignations.load(Ordering::SeqCst) == seen {
                std::thread::park_timeout(next_chore.saturating_duration_since(now));
            }
            hub.courier_sleeps.store(false, Ordering::SeqCst);
        }
    }
}

/// Leads until a thread wants to, or there is something else to do; whether a thread wants to.
fn lead(core: &Arc<Core>, next_chore: Instant, events: &mut Vec<crate::hub::Event>) -> bool {
    let Some(hub) = &core.hub else { return false };
    while !core.is_stopped() && !hub.is_wanted() {
        let now = Instant::now();
        let is_watching = core.is_watching();
        let until =
            if is_watching { next_chore.min(now + core.options.delay / 2) } else { next_chore };
        hub.poll(Some(until), events);
        core.handle(events);
        let is_due = core.are_chores_due() || Instant::now() >= next_chore;
        if is_watching || core.is_watching() || is_due {
            break;
        }
    }
    let is_wanted = hub.is_wanted();
    hub.resign();
    is_wanted
}

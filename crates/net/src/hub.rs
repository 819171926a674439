//! Who polls: leader and followers.
//!
//! A space has one epoll. A thread that must wait leads if nobody does: it polls, reads and
//! delivers itself, so that a token for it costs no change of thread. When it has what it waited
//! for, it resigns, and wakes a follower to lead. Without followers the courier, the space's own
//! thread, leads after a while.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

use crate::spin::Spin;
use crate::waiter::Waiter;

/// Events of this number mean: look around.
const KICK: u64 = 0;
/// While it looks again, every so many times it looks for everything.
const LOOK_AROUND: u32 = 8;
/// Events taken by one poll.
const EVENTS: usize = 64;

pub(crate) struct Hub {
    epoll: OwnedFd,
    kick: Kick,
    lead: Mutex<Lead>,
    spin: Spin,
    /// Reads of the busiest link that found something, one after the other.
    busy_reads: AtomicU32,
    /// How often somebody resigned.
    pub resignations: AtomicU64,
    /// The courier sleeps until it is called.
    pub courier_sleeps: AtomicBool,
    courier: Mutex<Option<Thread>>,
}

#[derive(Default)]
struct Lead {
    leader: Leader,
    followers: VecDeque<Arc<Waiter>>,
    /// Somebody wants to lead in place of the courier.
    is_wanted: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Leader {
    #[default]
    Nobody,
    Thread,
    Courier,
}

/// Something happened to a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub id: u64,
    pub is_readable: bool,
    pub is_writable: bool,
}

/// What gets the leader of a hub out of its poll.
#[derive(Clone)]
pub(crate) struct Kick(Arc<OwnedFd>);

impl Kick {
    fn new() -> Result<Self, Errno> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub fn give(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Hub {
    pub fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let kick = Kick::new()?;
        let data = epoll::EventData::new_u64(KICK);
        epoll::add(&epoll, &kick.0, data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            kick,
            lead: Mutex::new(Lead::default()),
            spin: Spin::default(),
            busy_reads: AtomicU32::new(0),
            resignations: AtomicU64::new(0),
            courier_sleeps: AtomicBool::new(false),
            courier: Mutex::new(None),
        })
    }

    pub fn add(&self, fd: impl AsFd, id: u64) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(id), flags)
    }

    /// Also tells when the descriptor can be written to, or no longer.
    pub fn expect_room(&self, fd: impl AsFd, id: u64, expect: bool) {
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        if expect {
            flags |= epoll::EventFlags::OUT;
        }
        let _ = epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(id), flags);
    }

    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Gets the leader out of its poll.
    pub fn kick(&self) {
        self.kick.give();
    }

    /// What gets a leader out of its poll.
    pub fn kick_to_give(&self) -> Kick {
        self.kick.clone()
    }

    pub fn set_courier(&self, thread: Thread) {
        *self.courier.lock() = Some(thread);
    }

    /// Wakes the courier from any sleep, but not from leading.
    pub fn call_courier(&self) {
        if let Some(courier) = &*self.courier.lock() {
            courier.unpark();
        }
    }

    /// Gets the courier to look around, whatever it does.
    pub fn disturb_courier(&self) {
        if self.lead.lock().leader == Leader::Courier {
            self.kick();
        } else {
            self.call_courier();
        }
    }

    /// Leads if nobody does. Otherwise the thread is among the followers, and is to sleep.
    pub fn try_lead(&self, waiter: &Arc<Waiter>) -> bool {
        let mut lead = self.lead.lock();
        match lead.leader {
            Leader::Nobody => {
                lead.leader = Leader::Thread;
                return true;
            }
            Leader::Thread => {}
            Leader::Courier => {
                if !lead.is_wanted {
                    lead.is_wanted = true;
                    self.kick();
                }
            }
        }
        lead.followers.push_back(waiter.clone());
        false
    }

    /// Takes the events that there are without waiting, if no thread leads; whether this one did.
    pub fn glance(&self, events: &mut Vec<Event>) -> bool {
        {
            let mut lead = self.lead.lock();
            match lead.leader {
                Leader::Nobody => lead.leader = Leader::Thread,
                Leader::Thread => return false,
                Leader::Courier => {
                    // The next glance will find that no thread leads.
                    if !lead.is_wanted {
                        lead.is_wanted = true;
                        self.kick();
                    }
                    return false;
                }
            }
        }
        self.take(Some(Timespec::default()), events);
        true
    }

    /// The thread does not follow any more. If it was to lead, the next one is.
    pub fn unfollow(&self, waiter: &Arc<Waiter>) {
        self.lead.lock().followers.retain(|known| !Arc::ptr_eq(known, waiter));
    }

    /// Leads in place of nobody.
    pub fn try_lead_as_courier(&self) -> bool {
        let mut lead = self.lead.lock();
        if lead.leader != Leader::Nobody || !lead.followers.is_empty() {
            return false;
        }
        lead.leader = Leader::Courier;
        lead.is_wanted = false;
        true
    }

    /// Whether a thread wants to lead in place of the courier.
    pub fn is_wanted(&self) -> bool {
        self.lead.lock().is_wanted
    }

    /// Leads no more.
    pub fn resign(&self) {
        let mut lead = self.lead.lock();
        lead.leader = Leader::Nobody;
        lead.is_wanted = false;
        self.resignations.fetch_add(1, Ordering::Relaxed);
        self.call_next(lead);
    }

    /// Sees to it that somebody leads, if nobody does.
    pub fn ensure_leader(&self) {
        let lead = self.lead.lock();
        if lead.leader == Leader::Nobody {
            self.call_next(lead);
        }
    }

    fn call_next(&self, mut lead: parking_lot::MutexGuard<'_, Lead>) {
        let next = lead.followers.pop_front();
        drop(lead);
        match next {
            Some(next) => next.wake(),
            None => {
                if self.courier_sleeps.swap(false, Ordering::SeqCst) {
                    self.call_courier();
                }
            }
        }
    }

    /// Waits for events. Before it sleeps it looks again for a moment: with `read`, which says
    /// whether it found something itself, and now and then for everything else.
    pub fn poll_eagerly(
        &self,
        deadline: Option<Instant>,
        events: &mut Vec<Event>,
        read: impl Fn() -> bool,
    ) {
        let look = |round: u32| {
            let is_busy = read();
            // A link that always has something must not keep the others from being looked at.
            let count =
                if is_busy { self.busy_reads.fetch_add(1, Ordering::Relaxed) } else { round };
            let is_turn = count.is_multiple_of(LOOK_AROUND);
            let is_any = is_turn && self.take(Some(Timespec::default()), events);
            is_busy || is_any
        };
        if !self.spin.look(look) {
            self.poll(deadline, events);
        }
    }

    /// Waits for events. A kick is not among them, but ends the wait.
    pub fn poll(&self, deadline: Option<Instant>, events: &mut Vec<Event>) {
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            timespec(left)
        });
        self.take(timeout, events);
    }

    /// Takes what comes within a time; whether anything did, be it a kick.
    fn take(&self, timeout: Option<Timespec>, events: &mut Vec<Event>) -> bool {
        let mut found: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        if epoll::wait(&self.epoll, spare_capacity(&mut found), timeout.as_ref()).is_err() {
            return false;
        }
        let is_any = !found.is_empty();
        for event in found {
            let (flags, id) = (event.flags, event.data.u64());
            if id == KICK {
                let _ = rustix::io::read(&self.kick.0, &mut [0; 8]);
                continue;
            }
            let is_writable = flags.contains(epoll::EventFlags::OUT);
            let is_readable = flags != epoll::EventFlags::OUT;
            events.push(Event { id, is_readable, is_writable });
        }
        is_any
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

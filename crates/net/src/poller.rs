//! Who polls: leader and followers.
//!
//! A space has one epoll. A thread that must wait leads if nobody does: it polls, reads and
//! delivers itself, so that a token for it costs no change of thread. When it has what it waited
//! for, it resigns, and wakes a follower to lead. Without followers the io_thread, the space's own
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

use crate::spin::AdaptiveSpin;
use crate::waiter::Waiter;

/// Events of this number mean: look around.
const INTERRUPT_ID: u64 = 0;
/// While it looks again, every so many times it looks for everything.
const FULL_POLL_EVERY: u32 = 8;
/// Events taken by one poll.
const EVENTS_PER_POLL: usize = 64;

pub(crate) struct Poller {
    epoll: OwnedFd,
    interrupt: PollInterrupt,
    lead: Mutex<Leadership>,
    spin: AdaptiveSpin,
    /// Reads of the busiest link that found something, one after the other.
    busy_reads: AtomicU32,
    /// How often somebody resigned.
    pub resignations: AtomicU64,
    /// The io_thread sleeps until it is called.
    pub io_thread_sleeps: AtomicBool,
    io_thread: Mutex<Option<Thread>>,
}

#[derive(Default)]
struct Leadership {
    leader: Leader,
    followers: VecDeque<Arc<Waiter>>,
    /// Somebody wants to lead in place of the io_thread.
    is_wanted: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Leader {
    #[default]
    Absent,
    Thread,
    IoThread,
}

/// Something happened to a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollEvent {
    pub id: u64,
    pub is_readable: bool,
    pub is_writable: bool,
}

/// What gets the leader of a poller out of its poll.
#[derive(Clone)]
pub(crate) struct PollInterrupt(Arc<OwnedFd>);

impl PollInterrupt {
    fn new() -> Result<Self, Errno> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub fn trigger(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl Poller {
    pub fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let interrupt = PollInterrupt::new()?;
        let data = epoll::EventData::new_u64(INTERRUPT_ID);
        epoll::add(&epoll, &interrupt.0, data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            interrupt,
            lead: Mutex::new(Leadership::default()),
            spin: AdaptiveSpin::default(),
            busy_reads: AtomicU32::new(0),
            resignations: AtomicU64::new(0),
            io_thread_sleeps: AtomicBool::new(false),
            io_thread: Mutex::new(None),
        })
    }

    pub fn add(&self, fd: impl AsFd, id: u64) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(id), flags)
    }

    /// Also tells when the descriptor can be written to, or no longer.
    pub fn watch_writable(&self, fd: impl AsFd, id: u64, expect: bool) {
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
    pub fn interrupt(&self) {
        self.interrupt.trigger();
    }

    /// What gets a leader out of its poll.
    pub fn interrupter(&self) -> PollInterrupt {
        self.interrupt.clone()
    }

    pub fn set_io_thread(&self, thread: Thread) {
        *self.io_thread.lock() = Some(thread);
    }

    /// Wakes the io_thread from any sleep, but not from leading.
    pub fn wake_io_thread(&self) {
        if let Some(io_thread) = &*self.io_thread.lock() {
            io_thread.unpark();
        }
    }

    /// Gets the io_thread to look around, whatever it does.
    pub fn interrupt_io_thread(&self) {
        if self.lead.lock().leader == Leader::IoThread {
            self.interrupt();
        } else {
            self.wake_io_thread();
        }
    }

    /// Leads if nobody does. Otherwise the thread is among the followers, and is to sleep.
    pub fn try_lead(&self, waiter: &Arc<Waiter>) -> bool {
        let mut lead = self.lead.lock();
        match lead.leader {
            Leader::Absent => {
                lead.leader = Leader::Thread;
                return true;
            }
            Leader::Thread => {}
            Leader::IoThread => {
                if !lead.is_wanted {
                    lead.is_wanted = true;
                    self.interrupt();
                }
            }
        }
        lead.followers.push_back(waiter.clone());
        false
    }

    /// Takes the events that there are without waiting, if no thread leads; whether this one did.
    pub fn try_poll(&self, events: &mut Vec<PollEvent>) -> bool {
        {
            let mut lead = self.lead.lock();
            match lead.leader {
                Leader::Absent => lead.leader = Leader::Thread,
                Leader::Thread => return false,
                Leader::IoThread => {
                    // The next try_poll will find that no thread leads.
                    if !lead.is_wanted {
                        lead.is_wanted = true;
                        self.interrupt();
                    }
                    return false;
                }
            }
        }
        self.take(Some(Timespec::default()), events);
        true
    }

    /// The thread does not follow any more. If it was to lead, the next one is.
    pub fn remove_follower(&self, waiter: &Arc<Waiter>) {
        self.lead.lock().followers.retain(|known| !Arc::ptr_eq(known, waiter));
    }

    /// Leads in place of nobody.
    pub fn try_lead_as_io_thread(&self) -> bool {
        let mut lead = self.lead.lock();
        if lead.leader != Leader::Absent || !lead.followers.is_empty() {
            return false;
        }
        lead.leader = Leader::IoThread;
        lead.is_wanted = false;
        true
    }

    /// Whether a thread wants to lead in place of the io_thread.
    pub fn is_wanted(&self) -> bool {
        self.lead.lock().is_wanted
    }

    /// Leads no more.
    pub fn resign(&self) {
        let mut lead = self.lead.lock();
        lead.leader = Leader::Absent;
        lead.is_wanted = false;
        self.resignations.fetch_add(1, Ordering::Relaxed);
        self.wake_next(lead);
    }

    /// Sees to it that somebody leads, if nobody does.
    pub fn ensure_leader(&self) {
        let lead = self.lead.lock();
        if lead.leader == Leader::Absent {
            self.wake_next(lead);
        }
    }

    fn wake_next(&self, mut lead: parking_lot::MutexGuard<'_, Leadership>) {
        let next = lead.followers.pop_front();
        drop(lead);
        match next {
            Some(next) => next.wake(),
            None => {
                if self.io_thread_sleeps.swap(false, Ordering::SeqCst) {
                    self.wake_io_thread();
                }
            }
        }
    }

    /// Waits for events. Before it sleeps it looks again for a moment: with `read`, which says
    /// whether it found something itself, and now and then for everything else.
    pub fn spin_then_poll(
        &self,
        deadline: Option<Instant>,
        events: &mut Vec<PollEvent>,
        read: impl Fn() -> bool,
    ) {
        let look = |round: u32| {
            let is_busy = read();
            // A link that always has something must not keep the others from being looked at.
            let count =
                if is_busy { self.busy_reads.fetch_add(1, Ordering::Relaxed) } else { round };
            let is_turn = count.is_multiple_of(FULL_POLL_EVERY);
            let is_any = is_turn && self.take(Some(Timespec::default()), events);
            is_busy || is_any
        };
        if !self.spin.spin(look) {
            self.poll(deadline, events);
        }
    }

    /// Waits for events. A kick is not among them, but ends the wait.
    pub fn poll(&self, deadline: Option<Instant>, events: &mut Vec<PollEvent>) {
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            timespec(left)
        });
        self.take(timeout, events);
    }

    /// Takes what comes within a time; whether anything did, be it a kick.
    fn take(&self, timeout: Option<Timespec>, events: &mut Vec<PollEvent>) -> bool {
        let mut found: Vec<epoll::Event> = Vec::with_capacity(EVENTS_PER_POLL);
        if epoll::wait(&self.epoll, spare_capacity(&mut found), timeout.as_ref()).is_err() {
            return false;
        }
        let is_any = !found.is_empty();
        for event in found {
            let (flags, id) = (event.flags, event.data.u64());
            if id == INTERRUPT_ID {
                let _ = rustix::io::read(&self.interrupt.0, &mut [0; 8]);
                continue;
            }
            let is_writable = flags.contains(epoll::EventFlags::OUT);
            let is_readable = flags != epoll::EventFlags::OUT;
            events.push(PollEvent { id, is_readable, is_writable });
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

//! Polling: a leader and followers.
//!
//! A space has one epoll. A thread that must wait becomes the leader if there is none: it polls,
//! reads and delivers itself, so that a token for it costs no thread switch. When it has what it
//! waited for, it resigns and wakes a follower to lead. Without followers the I/O thread of the
//! space leads after a while.

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

/// The id of the event that interrupts a poll.
const INTERRUPT_ID: u64 = 0;
/// The interval, in reads, at which a spinning leader polls all descriptors.
const FULL_POLL_EVERY: u32 = 8;
/// The most events of one poll.
const EVENTS_PER_POLL: usize = 64;

pub(crate) struct Poller {
    epoll: OwnedFd,
    interrupt: PollInterrupt,
    lead: Mutex<PollLeadership>,
    spin: AdaptiveSpin,
    /// Consecutive reads of the busiest link that found something.
    busy_reads: AtomicU32,
    /// The number of resignations.
    pub resignations: AtomicU64,
    /// The I/O thread sleeps until it is woken.
    pub io_thread_sleeps: AtomicBool,
    io_thread: Mutex<Option<Thread>>,
}

#[derive(Default)]
struct PollLeadership {
    leader: PollLeader,
    followers: VecDeque<Arc<Waiter>>,
    /// A thread wants to lead in place of the I/O thread.
    is_wanted: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum PollLeader {
    #[default]
    Absent,
    Thread,
    IoThread,
}

/// A descriptor became readable or writable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollEvent {
    pub id: u64,
    pub is_readable: bool,
    pub is_writable: bool,
}

/// Interrupts the poll of a leader.
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
            lead: Mutex::new(PollLeadership::default()),
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

    /// Starts or stops reporting when the descriptor is writable.
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

    /// Interrupts the leader's poll.
    pub fn interrupt(&self) {
        self.interrupt.trigger();
    }

    /// Returns the handle that interrupts a poll.
    pub fn interrupter(&self) -> PollInterrupt {
        self.interrupt.clone()
    }

    pub fn set_io_thread(&self, thread: Thread) {
        *self.io_thread.lock() = Some(thread);
    }

    /// Wakes the I/O thread from sleep, but not from leading.
    pub fn wake_io_thread(&self) {
        if let Some(io_thread) = &*self.io_thread.lock() {
            io_thread.unpark();
        }
    }

    /// Makes the I/O thread check its work, whatever it does.
    pub fn interrupt_io_thread(&self) {
        if self.lead.lock().leader == PollLeader::IoThread {
            self.interrupt();
        } else {
            self.wake_io_thread();
        }
    }

    /// Makes the thread the leader if there is none. Otherwise adds it to the followers; it must
    /// then sleep.
    pub fn try_lead(&self, waiter: &Arc<Waiter>) -> bool {
        let mut lead = self.lead.lock();
        match lead.leader {
            PollLeader::Absent => {
                lead.leader = PollLeader::Thread;
                return true;
            }
            PollLeader::Thread => {}
            PollLeader::IoThread => {
                if !lead.is_wanted {
                    lead.is_wanted = true;
                    self.interrupt();
                }
            }
        }
        lead.followers.push_back(waiter.clone());
        false
    }

    /// Takes pending events without waiting if no thread leads. Returns whether this thread did.
    pub fn try_poll(&self, events: &mut Vec<PollEvent>) -> bool {
        {
            let mut lead = self.lead.lock();
            match lead.leader {
                PollLeader::Absent => lead.leader = PollLeader::Thread,
                PollLeader::Thread => return false,
                PollLeader::IoThread => {
                    // The next call finds that no thread leads.
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

    /// Removes a follower.
    pub fn remove_follower(&self, waiter: &Arc<Waiter>) {
        self.lead.lock().followers.retain(|known| !Arc::ptr_eq(known, waiter));
    }

    /// Makes the I/O thread the leader if no thread leads or follows.
    pub fn try_lead_as_io_thread(&self) -> bool {
        let mut lead = self.lead.lock();
        if lead.leader != PollLeader::Absent || !lead.followers.is_empty() {
            return false;
        }
        lead.leader = PollLeader::IoThread;
        lead.is_wanted = false;
        true
    }

    /// Whether a thread wants to lead in place of the I/O thread.
    pub fn is_wanted(&self) -> bool {
        self.lead.lock().is_wanted
    }

    /// Resigns and wakes the next leader.
    pub fn resign(&self) {
        let mut lead = self.lead.lock();
        lead.leader = PollLeader::Absent;
        lead.is_wanted = false;
        self.resignations.fetch_add(1, Ordering::Relaxed);
        self.wake_next(lead);
    }

    /// Wakes the next leader if there is none.
    pub fn ensure_leader(&self) {
        let lead = self.lead.lock();
        if lead.leader == PollLeader::Absent {
            self.wake_next(lead);
        }
    }

    fn wake_next(&self, mut lead: parking_lot::MutexGuard<'_, PollLeadership>) {
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

    /// Waits for events. Spins before it sleeps: calls `read`, which says whether it found
    /// something itself, and now and then polls everything.
    pub fn spin_then_poll(
        &self,
        deadline: Option<Instant>,
        events: &mut Vec<PollEvent>,
        read: impl Fn() -> bool,
    ) {
        let look = |round: u32| {
            let is_busy = read();
            // A link that always has something must not keep the others from being polled.
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

    /// Waits for events. An interrupt is not among them, but ends the wait.
    pub fn poll(&self, deadline: Option<Instant>, events: &mut Vec<PollEvent>) {
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            timespec(left)
        });
        self.take(timeout, events);
    }

    /// Takes the events that come within a time. Returns whether there was any, an interrupt
    /// included.
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

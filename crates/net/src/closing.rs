//! Maintenance and the end of a space.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::carrier::{Carrier, Socket};
use crate::control::Control;
use crate::core::{Core, SPACES};
use crate::link::Link;

/// The interval at which idle TCP links are pinged.
const PING_INTERVAL: Duration = Duration::from_millis(200);
/// The longest interval of maintenance.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);
/// The time a peer has to notice that a link ends.
const END_TIMEOUT: Duration = Duration::from_secs(1);

impl Core {
    /// Runs maintenance. Returns the time to the next.
    pub fn run_maintenance(self: &Arc<Self>, now: Instant) -> Duration {
        let mut next = MAINTENANCE_INTERVAL;
        self.expire_handshakes(now);
        self.resume_listening();
        if self.listener.lock().needs_maintenance() {
            next = next.min(PING_INTERVAL);
        }
        for link in self.links() {
            link.release_idle_memory();
            if matches!(&link.carrier, Carrier::Socket(socket) if socket.is_tcp) {
                next = next.min(PING_INTERVAL);
                let idle = now.saturating_duration_since(link.out.lock().last_write);
                if idle >= PING_INTERVAL / 2 {
                    link.send_control(Control::Ping);
                }
            }
        }
        next
    }

    /// Closes the space: writes sent tokens first, within limits.
    pub fn close(self: &Arc<Self>) {
        if !self.begin_close() {
            return;
        }
        SPACES.lock().remove(&self.id());
        self.stop_listening();
        self.close_ports();
        let links = self.links();
        let deadline = Instant::now() + self.options.close_wait;
        for link in &links {
            link.flush();
            if let Carrier::Socket(socket) = &link.carrier {
                drain(link, socket, deadline);
                socket.end_writing();
            }
        }
        let deadline = Instant::now() + END_TIMEOUT;
        for link in &links {
            if let Carrier::Socket(socket) = &link.carrier {
                await_end(link, socket, deadline);
            }
        }
        self.end_links();
    }

    /// Ends at once, like a killed process.
    pub fn crash(self: &Arc<Self>) {
        if self.begin_close() {
            SPACES.lock().remove(&self.id());
            self.stop_listening();
            self.close_ports();
            self.end_links();
        }
    }

    fn close_ports(&self) {
        let (sinks, waiters) = {
            let mut names = self.names.lock();
            let all = names.ports.values().chain(names.private.values());
            let sinks: Vec<_> = all.filter_map(Weak::upgrade).collect();
            (sinks, names.waiters.take())
        };
        for sink in sinks {
            sink.close();
        }
        self.wake(waiters);
    }

    fn end_links(self: &Arc<Self>) {
        self.stop();
        for link in self.links() {
            link.mark_lost("the space was closed");
        }
        self.abandon_requests();
        *self.role.lock() = crate::exchange::DirectoryRole::Lost(self.name().to_owned());
    }
}

/// Waits until everything is written.
fn drain(link: &Arc<Link>, socket: &Socket, deadline: Instant) {
    while link.is_alive() && link.out.lock().waiting_bytes() > 0 {
        if !wait_for(socket, PollFlags::OUT, deadline) {
            return;
        }
        let out = link.out.lock();
        link.write_queued(out);
    }
}

/// Waits until the peer has ended the link too: then it has read everything.
fn await_end(link: &Arc<Link>, socket: &Socket, deadline: Instant) {
    while link.is_alive() && wait_for(socket, PollFlags::IN, deadline) {
        link.on_readable();
    }
}

fn wait_for(socket: &Socket, what: PollFlags, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(50));
    let timeout = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
    let _ = poll(&mut [PollFd::new(socket, what)], Some(&timeout));
    Instant::now() < deadline
}

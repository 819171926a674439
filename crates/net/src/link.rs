//! A link: the connection between two spaces, used in both directions.
//!
//! *Sending.* Tokens are appended to the outbox under its lock. One thread at a time writes,
//! outside of the lock; tokens added during a write leave together afterwards.
//!
//! *Receiving.* The leader reads, and puts runs of frames into the queues of the ports.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;

use crate::assembler::{Assembler, Packet, SLAB_BYTES};
use crate::carrier::Carrier;
use crate::channel::Channel;
use crate::control::Control;
use crate::core::Core;
use crate::counters::LinkCounters;
use crate::file_part::OutgoingSegment;
use crate::frame_run::FrameRun;
use crate::key::SpaceId;
use crate::outbox::LinkOutbox;
use crate::port::Sink;
use crate::recv_buffer::RecvBuffers;
use crate::route::FrameRoute;
use crate::routes::Routes;
use crate::sender::Sender;
use crate::token::decode_value;
use crate::unflushed_links;
use crate::user_quota::LinkOwner;
use crate::waiter::Waiter;
use crate::wire::{CONTROL_CHANNEL, Frame};

/// How often a writing thread checks for tokens of other threads.
const ROUNDS: usize = 8;
/// A sender tries a full socket again when this many more bytes wait; otherwise the leader writes.
const RETRY_BYTES: usize = 512 << 10;
/// Bytes read from one link before others get their turn.
const READ_BYTES: usize = 256 << 10;

pub(crate) struct Link {
    pub id: u64,
    pub peer: Arc<str>,
    /// The id that the peer announces; others may announce it too.
    pub peer_id: SpaceId,
    /// The owner; none if this space made the link.
    pub owner: Option<LinkOwner>,
    /// The peer as receivers see it.
    pub sender: Arc<Sender>,
    pub core: Arc<Core>,
    pub carrier: Carrier,
    pub out: Mutex<LinkOutbox>,
    /// The reading thread holds this lock while it handles the bytes.
    inbox: Mutex<Option<Assembler>>,
    /// Receive buffers of replies; none if the link does not read.
    recv_buffers: Option<Arc<RecvBuffers>>,
    received: Received,
    routes: Mutex<Routes>,
    channels: Mutex<HashMap<u32, Weak<Channel>>>,
    is_alive: AtomicBool,
}

/// Receive counters. They are read when the link is lost, perhaps during a read, so they need no
/// lock of the inbox.
#[derive(Default)]
struct Received {
    frames: AtomicU64,
    bytes: AtomicU64,
    packets: AtomicU64,
    reads: AtomicU64,
    copied: AtomicU64,
    /// Bytes received and sent at the last maintenance.
    seen: AtomicU64,
}

impl Link {
    /// Creates a link to a peer. Receivers know it by an id that is drawn here.
    pub fn new(
        core: Arc<Core>,
        id: u64,
        peer: Sender,
        carrier: Carrier,
        owner: Option<LinkOwner>,
    ) -> Arc<Self> {
        let peer_id = peer.space;
        let sender = Arc::new(Sender { space: SpaceId::random(), ..peer });
        let peer = sender.name.clone();
        let recv_buffers = matches!(carrier, Carrier::Socket(_)).then(Arc::<RecvBuffers>::default);
        let assembler = recv_buffers
            .clone()
            .map(|recv_buffers| Assembler::with_recv_buffers(core.options.limits, recv_buffers));
        Arc::new(Self {
            id,
            peer,
            peer_id,
            owner,
            sender,
            core,
            carrier,
            out: Mutex::new(LinkOutbox::new()),
            inbox: Mutex::new(assembler),
            recv_buffers,
            received: Received::default(),
            routes: Mutex::new(Routes::default()),
            channels: Mutex::new(HashMap::new()),
            is_alive: AtomicBool::new(true),
        })
    }

    pub fn is_alive(&self) -> bool {
        self.is_alive.load(Ordering::SeqCst)
    }

    /// Whether the peer is of another user, not root, and has not proved that it knows the key.
    pub fn is_foreign(&self) -> bool {
        let user = self.sender.user.as_ref();
        !self.sender.knows_key && user.is_some_and(|user| !user.is_own_or_root())
    }

    /// Whether the link is a socket.
    pub fn is_socket(&self) -> bool {
        matches!(self.carrier, Carrier::Socket(_))
    }

    /// The receive buffers of replies.
    pub fn recv_buffers(&self) -> Option<&Arc<RecvBuffers>> {
        self.recv_buffers.as_ref()
    }

    /// Decides when the token just added leaves.
    #[inline]
    pub fn schedule_send<'a>(
        self: &'a Arc<Self>,
        mut out: MutexGuard<'a, LinkOutbox>,
        at_once: bool,
    ) {
        let options = &self.core.options;
        if out.batch_bytes() >= options.batch_bytes.min(options.limits.inline_bytes / 2) {
            out.seal();
            if !out.is_blocked || out.queued_bytes >= out.retry_bytes {
                self.write_queued(out);
            }
            return;
        }
        if out.is_writing || out.is_blocked {
            return;
        }
        // In virtual time there is nothing to wait for.
        if at_once || matches!(self.carrier, Carrier::Simulated(_)) {
            self.write_queued(out);
            return;
        }
        if out.frame_count() == 1 {
            let now = Instant::now();
            let was_waiting = unflushed_links::add(self);
            if was_waiting || now.duration_since(out.last_write) >= options.delay {
                self.write_queued(out);
            } else {
                out.since = Some(now);
                drop(out);
                self.core.note_gathered();
            }
        }
    }

    /// Sends a control message to the peer.
    pub fn send_control(self: &Arc<Self>, message: Control) {
        let mut out = self.out.lock();
        if out.is_lost {
            return;
        }
        let limits = &self.core.options.limits;
        let put = out.put(message, CONTROL_CHANNEL, limits);
        debug_assert!(put.is_ok(), "messages are small and always encodable");
        self.schedule_send(out, true);
    }

    /// Flushes the batch.
    pub fn flush(self: &Arc<Self>) {
        let out = self.out.lock();
        if out.frame_count() > 0 && !out.is_writing && !out.is_blocked {
            self.write_queued(out);
        }
    }

    /// Flushes the batch if it is older than `age`. Returns false if there is none.
    pub fn flush_older(self: &Arc<Self>, age: std::time::Duration) -> bool {
        let out = self.out.lock();
        let Some(since) = out.since else { return false };
        if since.elapsed() >= age && !out.is_writing && !out.is_blocked {
            self.write_queued(out);
        }
        true
    }

    /// Writes until nothing is left or the carrier is full.
    pub fn write_queued<'a>(self: &'a Arc<Self>, mut out: MutexGuard<'a, LinkOutbox>) {
        if out.is_writing || out.is_lost {
            return;
        }
        out.is_writing = true;
        let mut failure = None;
        for _ in 0..ROUNDS {
            out.seal();
            if out.queue.is_empty() {
                break;
            }
            let sending = std::mem::take(&mut out.queue);
            let written = out.written;
            drop(out);
            match &self.carrier {
                Carrier::Socket(socket) => {
                    let result = socket.write(&sending, written);
                    out = self.out.lock();
                    out.writes += 1;
                    let (count, is_full) = match result {
                        Ok(count) => {
                            let wanted: usize = sending.iter().map(|p| p.len()).sum();
                            (count, written + count < wanted)
                        }
                        Err(Errno::AGAIN) => (0, true),
                        Err(error) => {
                            failure = Some(error.to_string());
                            break;
                        }
                    };
                    out.wrote(sending, count);
                    out.last_write = Instant::now();
                    if is_full {
                        out.retry_bytes = out.queued_bytes + RETRY_BYTES;
                        if !out.is_blocked {
                            out.is_blocked = true;
                            self.core.watch_writable(self, true);
                        }
                        break;
                    } else if out.is_blocked {
                        out.is_blocked = false;
                        self.core.watch_writable(self, false);
                    }
                }
                Carrier::Memory(twin) => {
                    let twin = twin.get().and_then(Weak::upgrade);
                    let count = sending.iter().map(|packet| packet.len()).sum();
                    for packet in sending {
                        if let Some(twin) = &twin {
                            twin.receive_sealed(packet);
                        }
                    }
                    out = self.out.lock();
                    out.writes += 1;
                    out.last_write = Instant::now();
                    out.wrote(Default::default(), count);
                    out.written = 0;
                }
                Carrier::Simulated(wire) => {
                    let count = sending.iter().map(|packet| packet.len()).sum();
                    for packet in sending {
                        wire.send(packet);
                    }
                    out = self.out.lock();
                    out.writes += 1;
                    out.wrote(Default::default(), count);
                    out.written = 0;
                }
            }
        }
        out.is_writing = false;
        let is_left = out.frame_count() > 0 && !out.is_blocked;
        if is_left {
            out.since.get_or_insert_with(Instant::now);
        }
        let drained = if out.waiting_bytes() == 0 { Some(out.drained.take()) } else { None };
        drop(out);
        if let Some(drained) = drained {
            self.core.wake(drained);
        }
        if is_left {
            self.core.note_gathered();
        }
        if let Some(reason) = failure {
            self.mark_lost(&reason);
        }
    }

    /// Checks whether the carrier takes bytes again. Otherwise registers the waiter, which is woken
    /// when everything queued is written.
    pub fn check_unblocked(&self, waiter: &Arc<Waiter>) -> Option<()> {
        let mut out = self.out.lock();
        if out.is_lost || !out.is_blocked {
            return Some(());
        }
        out.drained.add(waiter);
        None
    }

    /// Handles a socket that has become writable.
    pub fn on_writable(self: &Arc<Self>) {
        let out = self.out.lock();
        if out.is_blocked {
            self.write_queued(out);
        }
    }

    /// Reads available bytes. Returns whether there were any.
    pub fn on_readable(self: &Arc<Self>) -> bool {
        let Carrier::Socket(socket) = &self.carrier else { return false };
        let mut inbox = self.inbox.lock();
        let Some(assembler) = &mut *inbox else { return false };
        let received = &self.received;
        let (mut failure, mut breach) = (None, None);
        let mut total = 0;
        while breach.is_none() && total < READ_BYTES {
            let result = socket.read(assembler);
            add(&received.reads, 1);
            let (count, is_all) = match result {
                Ok((0, _)) => {
                    failure = Some("it closed the connection".to_owned());
                    break;
                }
                Ok(read) => read,
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    failure = Some(error.to_string());
                    break;
                }
            };
            add(&received.bytes, count as u64);
            total += count;
            breach = assembler.advance(count).err().map(|error| format!("it sent {error}"));
            while let Some(packet) = assembler.next_packet() {
                add(&received.packets, 1);
                add(&received.frames, packet.frame_count.into());
                if let Err(reason) = self.receive(packet) {
                    breach = Some(reason);
                    break;
                }
            }
            if let Some(groups) = assembler.announced().filter(|_| breach.is_none()) {
                breach = self.routes.lock().admit(groups).err();
            }
            received.copied.store(assembler.copied_bytes(), Ordering::Relaxed);
            // A short read: there is no more.
            if !is_all {
                break;
            }
        }
        drop(inbox);
        let is_any = total > 0 || failure.is_some();
        if let Some(reason) = breach {
            self.cut_off(&reason);
        } else if let Some(reason) = failure {
            self.mark_lost(&reason);
        }
        is_any
    }

    /// Handles a packet of a memory or simulated link.
    pub fn receive_sealed(self: &Arc<Self>, packet: crate::outbox::SealedPacket) {
        if !self.is_alive() {
            return;
        }
        let bytes = packet.len() as u64;
        let limits = &self.core.options.limits;
        let bulk = packet.bulk.into_iter().map(OutgoingSegment::into_bulk).collect();
        let result = Packet::from_parts(packet.inline.into(), bulk, limits)
            .map_err(|error| format!("it sent {error}"))
            .and_then(|packet| {
                add(&self.received.packets, 1);
                add(&self.received.reads, 1);
                add(&self.received.bytes, bytes);
                add(&self.received.frames, packet.frame_count.into());
                self.receive(packet)
            });
        if let Err(reason) = result {
            self.cut_off(&reason);
        }
    }

    /// Delivers a packet to its ports. The error says what the peer did wrong.
    fn receive(self: &Arc<Self>, packet: Packet) -> Result<(), String> {
        if !packet.is_admitted {
            self.routes.lock().admit(&packet.groups)?;
        }
        let mut bulk = packet.bulk.into_iter();
        for group in packet.groups {
            if group.channel == CONTROL_CHANNEL {
                self.receive_control(&packet.inline, group.start, group.end)?;
                continue;
            }
            let bulk = bulk.by_ref().take(group.bulk_count).collect();
            // The port was dropped, and the peer does not know yet.
            let Some(route) = self.routes.lock().find(group.channel)? else { continue };
            let place = (group.start, group.end);
            let run =
                FrameRun::new(packet.inline.clone(), place, group.frame_count, bulk, route.clone());
            route.sink().deliver(run);
        }
        Ok(())
    }

    fn receive_control(
        self: &Arc<Self>,
        inline: &[u8],
        mut at: usize,
        end: usize,
    ) -> Result<(), String> {
        while at < end {
            let frame = Frame::read(inline, at, &self.core.options.limits)
                .map_err(|error| error.to_string())?;
            at = frame.end;
            let head = &inline[frame.head_start..frame.head_end];
            let message: Control = decode_value(head, Vec::new())
                .map_err(|error| format!("it sent an unknown message: {error}"))?;
            self.core.receive_control(self, message)?;
        }
        Ok(())
    }

    /// The number of channels on which the peer may send.
    pub fn route_count(&self) -> usize {
        self.routes.lock().len()
    }

    /// Opens a channel on which the peer sends to a port; none if the link is lost.
    pub fn open_route(self: &Arc<Self>, sink: Arc<dyn Sink>) -> Option<u32> {
        let mut routes = self.routes.lock();
        if !self.is_alive() {
            return None;
        }
        let (link, sender) = (Arc::downgrade(self), self.sender.clone());
        Some(routes.open(|channel| FrameRoute::new(link, sender, channel, sink)))
    }

    /// Closes a channel that the peer has left.
    pub fn leave_route(&self, channel: u32) {
        let _route = self.routes.lock().leave(channel);
    }

    /// Closes the channels to a port that is gone and tells the peer.
    pub fn close_routes(self: &Arc<Self>, port: u32) {
        let gone = self.routes.lock().close(port);
        for (channel, _route) in gone {
            self.send_control(Control::Gone { channel });
        }
    }

    /// Registers a channel on which this side sends.
    pub fn add_channel(&self, channel: &Arc<Channel>) {
        self.channels.lock().insert(channel.number, Arc::downgrade(channel));
    }

    pub fn remove_channel(&self, number: u32) {
        self.channels.lock().remove(&number);
    }

    pub fn channel(&self, number: u32) -> Option<Arc<Channel>> {
        self.channels.lock().get(&number).and_then(Weak::upgrade)
    }

    /// Ends the link because of what the peer did, and records the reason first.
    pub fn cut_off(self: &Arc<Self>, reason: &str) {
        if self.is_alive() {
            self.core.refuse(&self.peer, reason);
        }
        self.mark_lost(reason);
    }

    /// Ends the link, once, and notifies all ports and channels.
    pub fn mark_lost(self: &Arc<Self>, reason: &str) {
        let (routes, ports) = {
            let mut routes = self.routes.lock();
            if !self.is_alive.swap(false, Ordering::SeqCst) {
                return;
            }
            routes.take_all()
        };
        tracing::debug!(space = self.core.name(), peer = &*self.peer, reason, "link lost");
        let drained = {
            let mut out = self.out.lock();
            out.is_lost = true;
            out.clear();
            out.drained.take()
        };
        self.core.wake(drained);
        self.core.unregister_link(self);
        match &self.carrier {
            Carrier::Socket(socket) => socket.end(),
            Carrier::Memory(twin) => {
                if let Some(twin) = twin.get().and_then(Weak::upgrade) {
                    twin.mark_lost("its space was closed");
                }
            }
            Carrier::Simulated(wire) => wire.end(),
        }
        // Free the names before ports learn of the loss.
        self.core.on_link_lost(self);
        for port in ports {
            port.report_lost(&self.sender);
        }
        drop(routes);
        let channels: Vec<_> = self.channels.lock().values().filter_map(Weak::upgrade).collect();
        for channel in channels {
            channel.wake();
        }
    }

    /// Releases memory if little came and went since the last time.
    pub fn release_idle_memory(&self) {
        let mut out = self.out.lock();
        let moved = self.received.bytes.load(Ordering::Relaxed).wrapping_add(out.sent_bytes);
        let before = self.received.seen.swap(moved, Ordering::Relaxed);
        if moved.wrapping_sub(before) >= SLAB_BYTES as u64 {
            return;
        }
        out.release_idle_memory();
        drop(out);
        // If the lock is held, a thread is reading: the link is not idle.
        if let Some(mut inbox) = self.inbox.try_lock()
            && let Some(assembler) = &mut *inbox
        {
            assembler.release_idle_memory();
        }
    }

    pub fn counters(&self) -> LinkCounters {
        let mut counters = LinkCounters {
            peer: self.peer.to_string(),
            carrier: self.carrier.name(),
            is_alive: self.is_alive(),
            ..LinkCounters::default()
        };
        {
            let out = self.out.lock();
            counters.sent_frames = out.sent_frames + u64::from(out.frame_count());
            counters.sent_bytes = out.sent_bytes;
            counters.sent_packets = out.sent_packets;
            counters.writes = out.writes;
            counters.queued_bytes = out.waiting_bytes() as u64;
        }
        let received = &self.received;
        counters.received_frames = received.frames.load(Ordering::Relaxed);
        counters.received_bytes = received.bytes.load(Ordering::Relaxed);
        counters.received_packets = received.packets.load(Ordering::Relaxed);
        counters.reads = received.reads.load(Ordering::Relaxed);
        counters.bytes_copied = received.copied.load(Ordering::Relaxed);
        counters
    }
}

#[inline]
fn add(figure: &AtomicU64, more: u64) {
    figure.fetch_add(more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::carrier::Socket;
    use crate::space::Space;

    /// The reply cannot be written, which the link notices while it reads the request.
    #[test]
    fn a_peer_that_asks_and_leaves_is_lost() {
        let space = Space::alone("host");
        let (own, mut theirs) = UnixStream::pair().unwrap();
        let carrier = Carrier::Socket(Socket::unix(own).unwrap());
        let peer = Sender {
            space: SpaceId::random(),
            name: "caller".into(),
            user: None,
            knows_key: false,
            is_local: false,
        };
        let link = space.core().add_link(99, peer, carrier, None);
        let mut out = LinkOutbox::new();
        let question = Control::Open { request: 1, number: 1, fingerprint: 1 };
        let limits = space.core().options.limits;
        assert!(out.put(question, CONTROL_CHANNEL, &limits).is_ok());
        out.seal();
        theirs.write_all(&out.queue[0].inline).unwrap();
        drop(theirs);
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send((link.on_readable(), link.is_alive())));
        let soon = std::time::Duration::from_secs(10);
        assert_eq!(is_done.recv_timeout(soon), Ok((true, false)));
    }
}

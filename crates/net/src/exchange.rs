//! Control messages between spaces: names, channels, credit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::channel::Channel;
use crate::control::{Control, ControlReply, PortInfo, PortLocation};
use crate::core::Core;
use crate::directory::{self, NameWaiter, PortDirectory};
use crate::error::{InputError, OpenError};
use crate::link::Link;
use crate::port::{PortLabel, PortRole, Sink};
use crate::waiter::Waiters;
use crate::wire::CONTROL_CHANNEL;

/// The longest name of a port, a space or a type that a peer may send.
const NAME_LIMIT_BYTES: usize = 4096;

/// The role of a space in the directory.
pub(crate) enum DirectoryRole {
    /// The space has no links.
    Alone,
    Host(PortDirectory),
    Member(Arc<Link>),
    /// The directory in the space of this name is lost.
    Lost(String),
}

/// Requests without a reply yet.
#[derive(Default)]
pub(crate) struct ControlRequests {
    pending: Mutex<HashMap<u64, PendingRequest>>,
    last: AtomicU64,
}

struct PendingRequest {
    /// The link it was sent over; 0 for the space itself.
    link: u64,
    answer: Option<ControlReply>,
    /// The port to which the request opens a channel.
    port: Option<String>,
    channel: Option<Arc<Channel>>,
    waiters: Waiters,
}

/// The result of opening a channel.
pub(crate) enum OpenResult {
    Channel(Arc<Channel>),
    Instead(Option<ControlReply>),
}

impl Core {
    fn begin_request(&self, link: u64, port: Option<String>) -> u64 {
        let request = self.requests.last.fetch_add(1, Ordering::Relaxed) + 1;
        let pending =
            PendingRequest { link, answer: None, port, channel: None, waiters: Waiters::new() };
        self.requests.pending.lock().insert(request, pending);
        request
    }

    /// Waits for the reply; none if it does not come in time.
    fn await_reply(
        self: &Arc<Self>,
        request: u64,
        deadline: Instant,
    ) -> (Option<ControlReply>, Option<Arc<Channel>>) {
        let answer = self.wait(Some(deadline), |waiter| {
            let mut pending = self.requests.pending.lock();
            let pending = pending.get_mut(&request)?;
            pending.waiters.add(waiter);
            pending.answer.take()
        });
        let pending = self.requests.pending.lock().remove(&request);
        (answer, pending.and_then(|pending| pending.channel))
    }

    fn send_request(
        self: &Arc<Self>,
        link: &Arc<Link>,
        deadline: Instant,
        make: impl FnOnce(u64) -> Control,
    ) -> Option<ControlReply> {
        let request = self.begin_request(link.id, None);
        link.send_control(make(request));
        if !link.is_alive() {
            self.finish_request(request, ControlReply::Lost);
        }
        self.await_reply(request, deadline).0
    }

    /// Handles a reply from a link. It counts only if the request left over the same link; fails
    /// otherwise. Creates an opened channel here, so that no message about it comes first.
    fn on_reply(&self, link: &Arc<Link>, request: u64, answer: ControlReply) -> Result<(), String> {
        if request > self.requests.last.load(Ordering::Relaxed)
            || matches!(answer, ControlReply::Lost)
        {
            return Err(format!("it answered request {request}, which was never sent"));
        }
        let mut all = self.requests.pending.lock();
        let opened = match answer {
            ControlReply::Opened { channel, credit } => Some((channel, credit)),
            _ => None,
        };
        let Some(pending) = all.get_mut(&request) else {
            drop(all);
            // The caller has given up the request.
            if let Some((channel, _)) = opened {
                link.send_control(Control::Leave { channel });
            }
            return Ok(());
        };
        if pending.link != link.id {
            return Err(format!("it answered request {request}, which another peer was asked"));
        }
        if let (Some((channel, credit)), Some(port)) = (opened, pending.port.take()) {
            if channel == CONTROL_CHANNEL || link.channel(channel).is_some() {
                return Err(format!("it opened channel {channel}, which is in use"));
            }
            pending.channel = Some(Channel::new(link.clone(), channel, &port, credit));
        }
        pending.answer = Some(answer);
        let waiters = pending.waiters.take();
        drop(all);
        self.wake(waiters);
        Ok(())
    }

    /// Finishes a request with a reply of this space itself.
    fn finish_request(&self, request: u64, answer: ControlReply) {
        let waiters = {
            let mut all = self.requests.pending.lock();
            let Some(pending) = all.get_mut(&request) else { return };
            pending.answer = Some(answer);
            pending.waiters.take()
        };
        self.wake(waiters);
    }

    /// Handles a control message. Fails if the peer may not send it; the link is then cut off.
    pub fn receive_control(
        self: &Arc<Self>,
        link: &Arc<Link>,
        message: Control,
    ) -> Result<(), String> {
        let answer = |request, answer| link.send_control(Control::Reply { request, reply: answer });
        match message {
            Control::Join { request, name, address } => {
                check_name(&name)?;
                let result = match &mut *self.role.lock() {
                    DirectoryRole::Host(directory) => {
                        directory.join(link.id, link.peer_id, &name, address)
                    }
                    _ => Err("a space that hosts no directory".to_owned()),
                };
                answer(
                    request,
                    result.map_or_else(
                        |owner| ControlReply::Taken { owner },
                        |()| ControlReply::Done,
                    ),
                );
            }
            Control::Announce { request, port } => {
                check_name(&port.name)?;
                check_name(&port.kind)?;
                if link.is_foreign() {
                    return Err("it announced a port, which other users may not".to_owned());
                }
                let name = port.name.clone();
                let result = match &mut *self.role.lock() {
                    DirectoryRole::Host(directory) => {
                        if directory.port_count(link.id) >= self.options.names_per_link {
                            let limit = self.options.names_per_link;
                            return Err(format!("it announced more than {limit} ports"));
                        }
                        directory.announce(link.id, port)
                    }
                    _ => Err("no directory".to_owned()),
                };
                match result {
                    Ok(waiters) => {
                        answer(request, ControlReply::Done);
                        self.notify_waiters(&name, waiters);
                    }
                    Err(owner) => answer(request, ControlReply::Taken { owner }),
                }
            }
            Control::Withdraw { port } => {
                if let DirectoryRole::Host(directory) = &mut *self.role.lock() {
                    directory.withdraw(link.id, &port);
                }
            }
            Control::Find { request, port } => {
                check_name(&port)?;
                let found = match &mut *self.role.lock() {
                    DirectoryRole::Host(directory) => {
                        let found = directory.find(&port);
                        if found.is_none() {
                            let limit = self.options.names_per_link;
                            if directory.wait_count(link.id) >= limit {
                                return Err(format!("it waits for more than {limit} ports"));
                            }
                            directory.wait_for(&port, NameWaiter { member: link.id, request });
                        }
                        found
                    }
                    _ => None,
                };
                if let Some(found) = found {
                    answer(request, ControlReply::Found(Box::new(found)));
                }
            }
            Control::Forget { request } => {
                if let DirectoryRole::Host(directory) = &mut *self.role.lock() {
                    directory.forget(NameWaiter { member: link.id, request });
                }
            }
            Control::Open { request, number, fingerprint } => {
                let sink = self.names.lock().by_number.get(&number).and_then(Weak::upgrade);
                let Some(sink) = sink else {
                    answer(request, ControlReply::NoPort);
                    return Ok(());
                };
                let kind = &sink.label().kind;
                if kind.fingerprint() != fingerprint {
                    let kind = kind.name().to_owned();
                    answer(request, ControlReply::OtherKind { kind });
                    return Ok(());
                }
                let limit = self.options.routes_per_link;
                if link.route_count() >= limit {
                    return Err(format!("it opened more than {limit} channels"));
                }
                let credit = sink.label().credit;
                if let Some(channel) = link.open_route(sink) {
                    answer(request, ControlReply::Opened { channel, credit });
                }
            }
            Control::Leave { channel } => link.leave_route(channel),
            Control::Gone { channel } => {
                if let Some(channel) = link.channel(channel) {
                    channel.mark_gone();
                }
            }
            Control::Credit { channel, bytes } => {
                if let Some(channel) = link.channel(channel) {
                    channel.add_credit(bytes)?;
                }
            }
            Control::Reply { request, reply: answer } => self.on_reply(link, request, answer)?,
            Control::Ping => {}
        }
        Ok(())
    }

    /// Sends the location of a port to the members that waited for it.
    fn notify_waiters(&self, name: &str, waiters: Vec<NameWaiter>) {
        let found = match &*self.role.lock() {
            DirectoryRole::Host(directory) => directory.find(name),
            _ => None,
        };
        let Some(found) = found else { return };
        for NameWaiter { member, request } in waiters {
            let answer = ControlReply::Found(Box::new(found.clone()));
            if member == directory::OWN {
                self.finish_request(request, answer);
            } else if let Some(link) = self.link(member) {
                link.send_control(Control::Reply { request, reply: answer });
            }
        }
    }

    /// Finishes the requests of a lost link and removes its member from the directory.
    pub fn on_link_lost(&self, link: &Arc<Link>) {
        let lost: Vec<u64> = {
            let pending = self.requests.pending.lock();
            pending.iter().filter(|(_, p)| p.link == link.id).map(|(request, _)| *request).collect()
        };
        for request in lost {
            self.finish_request(request, ControlReply::Lost);
        }
        let mut role = self.role.lock();
        match &mut *role {
            DirectoryRole::Member(host) if host.id == link.id => {
                let was = std::mem::replace(&mut *role, DirectoryRole::Lost(link.peer.to_string()));
                drop(role);
                drop(was);
            }
            DirectoryRole::Host(directory) => directory.remove_member(link.id),
            _ => {}
        }
    }

    /// Joins the directory behind a link. The error is the address of another space with the same
    /// name.
    pub fn join(self: &Arc<Self>, link: &Arc<Link>) -> Result<(), Option<String>> {
        *self.role.lock() = DirectoryRole::Member(link.clone());
        let deadline = Instant::now() + self.options.answer_wait;
        let (name, address) = (self.name().to_owned(), self.address.lock().clone());
        match self.send_request(link, deadline, |request| Control::Join { request, name, address })
        {
            Some(ControlReply::Done) => Ok(()),
            Some(ControlReply::Taken { owner }) => Err(Some(owner)),
            _ => Err(None),
        }
    }

    /// Announces a port.
    pub fn announce(self: &Arc<Self>, sink: &Arc<dyn Sink>) -> Result<(), InputError> {
        let label = sink.label();
        let port = label.name.clone();
        let waiters = {
            let mut names = self.names.lock();
            if self.is_closed() {
                return Err(InputError::Closed { port, space: self.name().to_owned() });
            }
            if names.ports.contains_key(&port) {
                return Err(InputError::NameTaken { port, owner: self.name().to_owned() });
            }
            if label.role == PortRole::Replies {
                names.private.insert(label.number, Arc::downgrade(sink));
                return Ok(());
            }
            names.ports.insert(port.clone(), Arc::downgrade(sink));
            names.by_number.insert(label.number, Arc::downgrade(sink));
            names.waiters.take()
        };
        let result = self.announce_to_directory(label);
        if result.is_err() {
            self.forget_name(label);
        }
        self.wake(waiters);
        result
    }

    fn announce_to_directory(self: &Arc<Self>, label: &PortLabel) -> Result<(), InputError> {
        let port = label.name.clone();
        let info = PortInfo {
            name: port.clone(),
            number: label.number,
            kind: label.kind.name().to_owned(),
            fingerprint: label.kind.fingerprint(),
        };
        let link = match &mut *self.role.lock() {
            DirectoryRole::Alone => return Ok(()),
            DirectoryRole::Lost(directory) => {
                return Err(InputError::DirectoryLost { port, directory: directory.clone() });
            }
            DirectoryRole::Member(link) => Ok(link.clone()),
            DirectoryRole::Host(directory) => Err(directory.announce(directory::OWN, info.clone())),
        };
        let link = match link {
            Ok(link) => link,
            Err(Ok(waiters)) => {
                self.notify_waiters(&port, waiters);
                return Ok(());
            }
            Err(Err(owner)) => return Err(InputError::NameTaken { port, owner }),
        };
        let waited = self.options.answer_wait;
        let ask = |request| Control::Announce { request, port: info };
        match self.send_request(&link, Instant::now() + waited, ask) {
            Some(ControlReply::Done) => Ok(()),
            Some(ControlReply::Taken { owner }) => Err(InputError::NameTaken { port, owner }),
            None => Err(InputError::NoAnswer { port, waited }),
            _ => Err(InputError::DirectoryLost { port, directory: link.peer.to_string() }),
        }
    }

    fn forget_name(&self, label: &PortLabel) {
        let mut names = self.names.lock();
        if label.role == PortRole::Replies {
            names.private.remove(&label.number);
        } else {
            names.by_number.remove(&label.number);
            names.ports.remove(&label.name);
        }
    }

    /// Withdraws the name of a port and tells its senders that it is gone.
    pub fn withdraw(&self, label: &PortLabel) {
        self.forget_name(label);
        let link = match &mut *self.role.lock() {
            _ if label.role == PortRole::Replies => None,
            DirectoryRole::Member(link) => Some(link.clone()),
            DirectoryRole::Host(directory) => {
                directory.withdraw(directory::OWN, &label.name);
                None
            }
            DirectoryRole::Alone | DirectoryRole::Lost(_) => None,
        };
        if let Some(link) = link {
            link.send_control(Control::Withdraw { port: label.name.clone() });
        }
        for link in self.links() {
            link.close_routes(label.number);
        }
    }

    /// Waits for a port of this space when it has no links.
    fn wait_for_local(
        self: &Arc<Self>,
        port: &str,
        deadline: Instant,
    ) -> Option<Result<(), OpenError>> {
        self.wait(Some(deadline), |waiter| {
            let mut names = self.names.lock();
            if self.is_closed() {
                let space = self.name().to_owned();
                return Some(Err(OpenError::Closed { port: port.to_owned(), space }));
            }
            if names.ports.get(port).is_some_and(|sink| sink.strong_count() > 0) {
                return Some(Ok(()));
            }
            names.waiters.add(waiter);
            None
        })
    }

    /// Waits until the directory knows a port. `None` means that it is in this space.
    pub fn find(
        self: &Arc<Self>,
        port: &str,
        timeout: Duration,
        deadline: Instant,
    ) -> Result<Option<PortLocation>, OpenError> {
        let late = || OpenError::Timeout { port: port.to_owned(), waited: timeout };
        if self.is_closed() {
            let space = self.name().to_owned();
            return Err(OpenError::Closed { port: port.to_owned(), space });
        }
        let mut role = self.role.lock();
        let (request, link) = match &mut *role {
            DirectoryRole::Alone => {
                drop(role);
                let found = self.wait_for_local(port, deadline);
                return found.unwrap_or_else(|| Err(late())).map(|()| None);
            }
            DirectoryRole::Lost(directory) => {
                let directory = directory.clone();
                return Err(OpenError::DirectoryLost { port: port.to_owned(), directory });
            }
            DirectoryRole::Host(directory) => {
                if let Some(found) = directory.find(port) {
                    return Ok(Some(found));
                }
                let request = self.begin_request(0, None);
                directory.wait_for(port, NameWaiter { member: directory::OWN, request });
                (request, None)
            }
            DirectoryRole::Member(link) => (self.begin_request(link.id, None), Some(link.clone())),
        };
        drop(role);
        if let Some(link) = &link {
            link.send_control(Control::Find { request, port: port.to_owned() });
            if !link.is_alive() {
                self.finish_request(request, ControlReply::Lost);
            }
        }
        let lost = |link: Option<&Arc<Link>>| match link {
            Some(link) if !self.is_closed() => {
                OpenError::DirectoryLost { port: port.to_owned(), directory: link.peer.to_string() }
            }
            _ => OpenError::Closed { port: port.to_owned(), space: self.name().to_owned() },
        };
        match self.await_reply(request, deadline).0 {
            Some(ControlReply::Found(found)) => Ok(Some(*found)),
            Some(_) => Err(lost(link.as_ref())),
            None => {
                match link {
                    Some(link) => link.send_control(Control::Forget { request }),
                    None => {
                        if let DirectoryRole::Host(directory) = &mut *self.role.lock() {
                            directory.forget(NameWaiter { member: directory::OWN, request });
                        }
                    }
                }
                Err(late())
            }
        }
    }

    /// Opens a channel to a port of a peer.
    pub fn open_channel(
        self: &Arc<Self>,
        link: &Arc<Link>,
        port: &PortInfo,
        fingerprint: u64,
    ) -> OpenResult {
        let request = self.begin_request(link.id, Some(port.name.clone()));
        link.send_control(Control::Open { request, number: port.number, fingerprint });
        if !link.is_alive() {
            self.finish_request(request, ControlReply::Lost);
        }
        let deadline = Instant::now() + self.options.answer_wait;
        match self.await_reply(request, deadline) {
            (Some(_), Some(channel)) => OpenResult::Channel(channel),
            (answer, _) => OpenResult::Instead(answer),
        }
    }

    /// Finishes all requests with a loss, because the space is closed.
    pub fn abandon_requests(&self) {
        let all: Vec<u64> = self.requests.pending.lock().keys().copied().collect();
        for request in all {
            self.finish_request(request, ControlReply::Lost);
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.len() <= NAME_LIMIT_BYTES {
        return Ok(());
    }
    Err(format!("it sent a name of {} bytes, more than {NAME_LIMIT_BYTES}", name.len()))
}

//! What spaces ask each other: names, channels, credit.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::channel::Channel;
use crate::control::{Answer, Control, Found, PortInfo};
use crate::core::Core;
use crate::directory::{self, Asker, Directory};
use crate::error::{InputError, OpenError};
use crate::link::Link;
use crate::port::{PortLabel, Sink};
use crate::waiter::Waiters;
use crate::wire::CONTROL_CHANNEL;

/// Bytes that a peer may give the name of a port, of a space or of a type.
const NAME_LIMIT_BYTES: usize = 4096;

/// What a space has to do with the directory.
pub(crate) enum Role {
    /// Nothing: it has no links.
    Alone,
    Host(Directory),
    Member(Arc<Link>),
    /// The directory was in the space of this name.
    Lost(String),
}

/// Questions that were asked and not answered yet.
#[derive(Default)]
pub(crate) struct Requests {
    pending: Mutex<HashMap<u64, Pending>>,
    last: AtomicU64,
}

struct Pending {
    /// The link it was asked over, 0 if within the space.
    link: u64,
    answer: Option<Answer>,
    /// For which port a channel is wanted.
    port: Option<String>,
    channel: Option<Arc<Channel>>,
    waiters: Waiters,
}

/// What came of opening a channel.
pub(crate) enum Opened {
    Channel(Arc<Channel>),
    Instead(Option<Answer>),
}

impl Core {
    fn begin_request(&self, link: u64, port: Option<String>) -> u64 {
        let request = self.requests.last.fetch_add(1, Ordering::Relaxed) + 1;
        let pending = Pending { link, answer: None, port, channel: None, waiters: Waiters::new() };
        self.requests.pending.lock().insert(request, pending);
        request
    }

    /// Waits for the answer; none if it does not come in time.
    fn await_answer(
        self: &Arc<Self>,
        request: u64,
        deadline: Instant,
    ) -> (Option<Answer>, Option<Arc<Channel>>) {
        let answer = self.wait(Some(deadline), |waiter| {
            let mut pending = self.requests.pending.lock();
            let pending = pending.get_mut(&request)?;
            pending.waiters.add(waiter);
            pending.answer.take()
        });
        let pending = self.requests.pending.lock().remove(&request);
        (answer, pending.and_then(|pending| pending.channel))
    }

    fn ask(
        self: &Arc<Self>,
        link: &Arc<Link>,
        deadline: Instant,
        make: impl FnOnce(u64) -> Control,
    ) -> Option<Answer> {
        let request = self.begin_request(link.id, None);
        link.tell(make(request));
        if !link.is_alive() {
            self.answered_here(request, Answer::Lost);
        }
        self.await_answer(request, deadline).0
    }

    /// An answer came over a link. It counts only if the request left over the same link; fails
    /// otherwise. A channel is made here, so that nothing that concerns it comes before it.
    fn answered_over(&self, link: &Arc<Link>, request: u64, answer: Answer) -> Result<(), String> {
        if request > self.requests.last.load(Ordering::Relaxed) || matches!(answer, Answer::Lost) {
            return Err(format!("it answered request {request}, which was never sent"));
        }
        let mut all = self.requests.pending.lock();
        let opened = match answer {
            Answer::Opened { channel, credit } => Some((channel, credit)),
            _ => None,
        };
        let Some(pending) = all.get_mut(&request) else {
            drop(all);
            // The request was given up.
            if let Some((channel, _)) = opened {
                link.tell(Control::Leave { channel });
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

    /// An answer of this space itself.
    fn answered_here(&self, request: u64, answer: Answer) {
        let waiters = {
            let mut all = self.requests.pending.lock();
            let Some(pending) = all.get_mut(&request) else { return };
            pending.answer = Some(answer);
            pending.waiters.take()
        };
        self.wake(waiters);
    }

    /// A message came from another space. Fails if the peer may not send it; the peer is then cut
    /// off.
    pub fn receive_control(
        self: &Arc<Self>,
        link: &Arc<Link>,
        message: Control,
    ) -> Result<(), String> {
        let answer = |request, answer| link.tell(Control::Answer { request, answer });
        match message {
            Control::Join { request, name, address } => {
                check_name(&name)?;
                let result = match &mut *self.role.lock() {
                    Role::Host(directory) => directory.join(link.id, link.peer_id, &name, address),
                    _ => Err("a space that hosts no directory".to_owned()),
                };
                answer(
                    request,
                    result.map_or_else(|owner| Answer::Taken { owner }, |()| Answer::Done),
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
                    Role::Host(directory) => {
                        if directory.port_count(link.id) >= self.options.names_per_link {
                            let limit = self.options.names_per_link;
                            return Err(format!("it announced more than {limit} ports"));
                        }
                        directory.announce(link.id, port)
                    }
                    _ => Err("nobody".to_owned()),
                };
                match result {
                    Ok(askers) => {
                        answer(request, Answer::Done);
                        self.answer_askers(&name, askers);
                    }
                    Err(owner) => answer(request, Answer::Taken { owner }),
                }
            }
            Control::Withdraw { port } => {
                if let Role::Host(directory) = &mut *self.role.lock() {
                    directory.withdraw(link.id, &port);
                }
            }
            Control::Find { request, port } => {
                check_name(&port)?;
                let found = match &mut *self.role.lock() {
                    Role::Host(directory) => {
                        let found = directory.find(&port);
                        if found.is_none() {
                            let limit = self.options.names_per_link;
                            if directory.wait_count(link.id) >= limit {
                                return Err(format!("it waits for more than {limit} ports"));
                            }
                            directory.wait_for(&port, Asker { member: link.id, request });
                        }
                        found
                    }
                    _ => None,
                };
                if let Some(found) = found {
                    answer(request, Answer::Found(Box::new(found)));
                }
            }
            Control::Forget { request } => {
                if let Role::Host(directory) = &mut *self.role.lock() {
                    directory.forget(Asker { member: link.id, request });
                }
            }
            Control::Open { request, number, fingerprint } => {
                let sink = self.names.lock().by_number.get(&number).and_then(Weak::upgrade);
                let Some(sink) = sink else {
                    answer(request, Answer::NoPort);
                    return Ok(());
                };
                let kind = &sink.label().kind;
                if kind.fingerprint() != fingerprint {
                    let kind = kind.name().to_owned();
                    answer(request, Answer::OtherKind { kind });
                    return Ok(());
                }
                let limit = self.options.routes_per_link;
                if link.route_count() >= limit {
                    return Err(format!("it opened more than {limit} channels"));
                }
                let credit = sink.label().credit;
                if let Some(channel) = link.open_route(sink) {
                    answer(request, Answer::Opened { channel, credit });
                }
            }
            Control::Leave { channel } => link.leave_route(channel),
            Control::Gone { channel } => {
                if let Some(channel) = link.channel(channel) {
                    channel.gone();
                }
            }
            Control::Credit { channel, bytes, urgent } => {
                if let Some(channel) = link.channel(channel) {
                    channel.credit(bytes, urgent)?;
                }
            }
            Control::Answer { request, answer } => self.answered_over(link, request, answer)?,
            Control::Ping => {}
        }
        Ok(())
    }

    /// Tells those who waited for a name where it is.
    fn answer_askers(&self, name: &str, askers: Vec<Asker>) {
        let found = match &*self.role.lock() {
            Role::Host(directory) => directory.find(name),
            _ => None,
        };
        let Some(found) = found else { return };
        for Asker { member, request } in askers {
            let answer = Answer::Found(Box::new(found.clone()));
            if member == directory::OWN {
                self.answered_here(request, answer);
            } else if let Some(link) = self.link(member) {
                link.tell(Control::Answer { request, answer });
            }
        }
    }

    /// A link is lost: what was asked over it is answered, and what the peer had is gone.
    pub fn link_lost(&self, link: &Arc<Link>) {
        let lost: Vec<u64> = {
            let pending = self.requests.pending.lock();
            pending.iter().filter(|(_, p)| p.link == link.id).map(|(request, _)| *request).collect()
        };
        for request in lost {
            self.answered_here(request, Answer::Lost);
        }
        let mut role = self.role.lock();
        match &mut *role {
            Role::Member(host) if host.id == link.id => {
                let was = std::mem::replace(&mut *role, Role::Lost(link.peer.to_string()));
                drop(role);
                drop(was);
            }
            Role::Host(directory) => directory.lost(link.id),
            _ => {}
        }
    }

    /// Becomes a member of the directory behind a link; otherwise says where the space of the same
    /// name is.
    pub fn join(self: &Arc<Self>, link: &Arc<Link>) -> Result<(), Option<String>> {
        *self.role.lock() = Role::Member(link.clone());
        let deadline = Instant::now() + self.options.answer_wait;
        let (name, address) = (self.name().to_owned(), self.address.lock().clone());
        match self.ask(link, deadline, |request| Control::Join { request, name, address }) {
            Some(Answer::Done) => Ok(()),
            Some(Answer::Taken { owner }) => Err(Some(owner)),
            _ => Err(None),
        }
    }

    /// Makes a port known.
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
            if label.is_private {
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
            Role::Alone => return Ok(()),
            Role::Lost(directory) => {
                return Err(InputError::DirectoryLost { port, directory: directory.clone() });
            }
            Role::Member(link) => Ok(link.clone()),
            Role::Host(directory) => Err(directory.announce(directory::OWN, info.clone())),
        };
        let link = match link {
            Ok(link) => link,
            Err(Ok(askers)) => {
                self.answer_askers(&port, askers);
                return Ok(());
            }
            Err(Err(owner)) => return Err(InputError::NameTaken { port, owner }),
        };
        let waited = self.options.answer_wait;
        let ask = |request| Control::Announce { request, port: info };
        match self.ask(&link, Instant::now() + waited, ask) {
            Some(Answer::Done) => Ok(()),
            Some(Answer::Taken { owner }) => Err(InputError::NameTaken { port, owner }),
            None => Err(InputError::NoAnswer { port, waited }),
            _ => Err(InputError::DirectoryLost { port, directory: link.peer.to_string() }),
        }
    }

    fn forget_name(&self, label: &PortLabel) {
        let mut names = self.names.lock();
        if label.is_private {
            names.private.remove(&label.number);
        } else {
            names.by_number.remove(&label.number);
            names.ports.remove(&label.name);
        }
    }

    /// Takes a port's name back; whoever sends to it is told.
    pub fn withdraw(&self, label: &PortLabel) {
        self.forget_name(label);
        let link = match &mut *self.role.lock() {
            _ if label.is_private => None,
            Role::Member(link) => Some(link.clone()),
            Role::Host(directory) => {
                directory.withdraw(directory::OWN, &label.name);
                None
            }
            Role::Alone | Role::Lost(_) => None,
        };
        if let Some(link) = link {
            link.tell(Control::Withdraw { port: label.name.clone() });
        }
        for link in self.links() {
            link.close_routes(label.number);
        }
    }

    /// Waits for a port of this space, which has no links.
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
    ) -> Result<Option<Found>, OpenError> {
        let late = || OpenError::Timeout { port: port.to_owned(), waited: timeout };
        if self.is_closed() {
            let space = self.name().to_owned();
            return Err(OpenError::Closed { port: port.to_owned(), space });
        }
        let mut role = self.role.lock();
        let (request, link) = match &mut *role {
            Role::Alone => {
                drop(role);
                let found = self.wait_for_local(port, deadline);
                return found.unwrap_or_else(|| Err(late())).map(|()| None);
            }
            Role::Lost(directory) => {
                let directory = directory.clone();
                return Err(OpenError::DirectoryLost { port: port.to_owned(), directory });
            }
            Role::Host(directory) => {
                if let Some(found) = directory.find(port) {
                    return Ok(Some(found));
                }
                let request = self.begin_request(0, None);
                directory.wait_for(port, Asker { member: directory::OWN, request });
                (request, None)
            }
            Role::Member(link) => (self.begin_request(link.id, None), Some(link.clone())),
        };
        drop(role);
        if let Some(link) = &link {
            link.tell(Control::Find { request, port: port.to_owned() });
            if !link.is_alive() {
                self.answered_here(request, Answer::Lost);
            }
        }
        let lost = |link: Option<&Arc<Link>>| match link {
            Some(link) if !self.is_closed() => {
                OpenError::DirectoryLost { port: port.to_owned(), directory: link.peer.to_string() }
            }
            _ => OpenError::Closed { port: port.to_owned(), space: self.name().to_owned() },
        };
        match self.await_answer(request, deadline).0 {
            Some(Answer::Found(found)) => Ok(Some(*found)),
            Some(_) => Err(lost(link.as_ref())),
            None => {
                match link {
                    Some(link) => link.tell(Control::Forget { request }),
                    None => {
                        if let Role::Host(directory) = &mut *self.role.lock() {
                            directory.forget(Asker { member: directory::OWN, request });
                        }
                    }
                }
                Err(late())
            }
        }
    }

    /// Asks the owner of a port for a channel to it.
    pub fn open_channel(
        self: &Arc<Self>,
        link: &Arc<Link>,
        port: &PortInfo,
        fingerprint: u64,
    ) -> Opened {
        let request = self.begin_request(link.id, Some(port.name.clone()));
        link.tell(Control::Open { request, number: port.number, fingerprint });
        if !link.is_alive() {
            self.answered_here(request, Answer::Lost);
        }
        let deadline = Instant::now() + self.options.answer_wait;
        match self.await_answer(request, deadline) {
            (Some(_), Some(channel)) => Opened::Channel(channel),
            (answer, _) => Opened::Instead(answer),
        }
    }

    /// Answers everything with a loss, because the space is closed.
    pub fn abandon_requests(&self) {
        let all: Vec<u64> = self.requests.pending.lock().keys().copied().collect();
        for request in all {
            self.answered_here(request, Answer::Lost);
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.len() <= NAME_LIMIT_BYTES {
        return Ok(());
    }
    Err(format!("it sent a name of {} bytes, more than {NAME_LIMIT_BYTES}", name.len()))
}

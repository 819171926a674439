//! An address space: the handle to everything else.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::builder::SpaceBuilder;
use crate::control::{ControlReply, PortLocation};
use crate::core::Core;
use crate::counters::{Counters, Refusal};
use crate::error::{InputError, OpenError};
use crate::exchange::OpenResult;
use crate::key::SpaceId;
use crate::link::Link;
use crate::listener::HANDSHAKE_TIME;
use crate::port::{
    Credit, InputPort, OutputPort, PortLabel, PortOptions, PortQueue, PortRole, Sink,
};
use crate::token::Token;
use crate::wire::WireLimits;

/// An address space: usually a process. Clones are the same space; when the last is dropped, the
/// space is closed.
#[derive(Clone)]
pub struct Space {
    handle: Arc<SpaceHandle>,
}

struct SpaceHandle {
    core: Arc<Core>,
}

impl Drop for SpaceHandle {
    fn drop(&mut self) {
        self.core.close();
    }
}

/// The options of a space.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest time that a gathered token waits before it leaves.
    pub delay: Duration,
    /// The batch size at which gathered tokens leave at once.
    pub batch_bytes: usize,
    /// The longest wait of a send for a full port; `None` waits until the port has room or its
    /// space is lost.
    pub send_wait: Option<Duration>,
    /// The longest time that [`close`](Space::close) waits for sent tokens to be written.
    pub close_wait: Duration,
    /// The time limit for replies of the directory and of peers.
    pub answer_wait: Duration,
    /// The time limit of a connection with its handshake; never longer than `answer_wait`.
    pub connect_wait: Duration,
    /// The time without an acknowledgement after which a TCP link is lost.
    pub silence: Duration,
    /// The limits of what is accepted from peers and sent to them.
    pub limits: WireLimits,
    /// Limit of links that one user may make to this space, handshakes under way included. A user
    /// other than the process's own and root also gets at most half of the process's descriptors.
    pub links_per_user: usize,
    /// Descriptors of the process that only the own user, root and peers with the key may take.
    /// At most a quarter of all.
    pub reserved_descriptors: usize,
    /// Channels that one peer may have open to ports of this space at the same time.
    pub routes_per_link: usize,
    /// Ports that one peer may have announced here, and names that it may wait for.
    pub names_per_link: usize,
}

impl Options {
    pub(crate) fn handshake_wait(&self) -> Duration {
        self.connect_wait.min(self.answer_wait)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            delay: Duration::from_micros(100),
            batch_bytes: 64 << 10,
            send_wait: None,
            close_wait: Duration::from_secs(5),
            answer_wait: Duration::from_secs(10),
            connect_wait: HANDSHAKE_TIME,
            silence: Duration::from_millis(700),
            limits: WireLimits::default(),
            links_per_user: 4096,
            reserved_descriptors: 128,
            routes_per_link: 4096,
            names_per_link: 4096,
        }
    }
}

impl Space {
    /// Creates a space without links: only its own threads reach its ports, and tokens move by
    /// pointer. It starts no threads.
    pub fn alone(name: &str) -> Self {
        Self::from_core(Arc::new(Core::new(name, Options::default())))
    }

    /// Builds a space with links to others.
    pub fn builder(name: &str) -> SpaceBuilder {
        SpaceBuilder::new(name)
    }

    pub(crate) fn from_core(core: Arc<Core>) -> Self {
        Self { handle: Arc::new(SpaceHandle { core }) }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    /// The space's name.
    pub fn name(&self) -> &str {
        self.core().name()
    }

    /// The space's id.
    pub fn id(&self) -> SpaceId {
        self.core().id()
    }

    /// The address at which others reach it.
    pub fn address(&self) -> Address {
        self.core().address.lock().clone()
    }

    /// Makes an input port.
    pub fn input<T: Token>(&self, name: &str) -> Result<InputPort<T>, InputError> {
        self.input_with(name, PortOptions::default())
    }

    /// Makes an input port with options.
    pub fn input_with<T: Token>(
        &self,
        name: &str,
        options: PortOptions,
    ) -> Result<InputPort<T>, InputError> {
        self.input_for(PortRole::Tokens, name, options)
    }

    /// Creates an input port for tokens or for requests.
    pub(crate) fn input_for<T: Token>(
        &self,
        role: PortRole,
        name: &str,
        options: PortOptions,
    ) -> Result<InputPort<T>, InputError> {
        let core = self.core();
        let label = PortLabel {
            name: name.to_owned(),
            number: core.next_port(),
            kind: T::kind(),
            credit: options.credit_bytes.limit(),
            role,
        };
        Ok(self.announce(label)?.0)
    }

    /// Creates an input port for replies from the port of this name. Neither the directory nor
    /// peers know it: a peer reaches it only over the channel that the RPC client opens.
    pub(crate) fn reply_input<T: Token>(
        &self,
        answerer: &str,
    ) -> Result<(InputPort<T>, Arc<dyn Sink>), InputError> {
        let number = self.core().next_port();
        self.announce(PortLabel {
            name: format!("answers {number} of {answerer}"),
            number,
            kind: T::kind(),
            credit: Credit::Unlimited.limit(),
            role: PortRole::Replies,
        })
    }

    fn announce<T: Token>(
        &self,
        label: PortLabel,
    ) -> Result<(InputPort<T>, Arc<dyn Sink>), InputError> {
        let core = self.core();
        let queue = Arc::new(PortQueue::<T>::new(core.clone(), label));
        let sink: Arc<dyn Sink> = queue.clone();
        core.announce(&sink)?;
        Ok((InputPort::new(queue), sink))
    }

    /// Opens an output port to the input port of this name, in any space. Waits for the port if it
    /// does not exist yet.
    pub fn output<T: Token>(
        &self,
        name: &str,
        timeout: Duration,
    ) -> Result<OutputPort<T>, OpenError> {
        let core = self.core();
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(sink) = core.local_port(name) {
                return local_output(sink);
            }
            let found = core.find(name, timeout, deadline)?;
            let Some(found) = found.filter(|found| found.space != core.id()) else {
                continue;
            };
            let kind = T::kind();
            let mismatch = |found: &str| OpenError::KindMismatch {
                port: name.to_owned(),
                wanted: kind.name().to_owned(),
                found: found.to_owned(),
            };
            if found.port.fingerprint != kind.fingerprint() {
                return Err(mismatch(&found.port.kind));
            }
            let link = self.link_to(&found)?;
            match core.open_channel(&link, &found.port, kind.fingerprint()) {
                OpenResult::Channel(channel) => return Ok(OutputPort::remote(channel)),
                OpenResult::Instead(Some(ControlReply::OtherKind { kind })) => {
                    return Err(mismatch(&kind));
                }
                // The port was dropped after the directory replied.
                OpenResult::Instead(Some(ControlReply::NoPort)) if Instant::now() < deadline => {}
                OpenResult::Instead(Some(ControlReply::NoPort)) => {
                    return Err(OpenError::Timeout { port: name.to_owned(), waited: timeout });
                }
                OpenResult::Instead(_) => {
                    let (port, peer) = (name.to_owned(), found.space_name);
                    return Err(OpenError::Lost { port, peer });
                }
            }
        }
    }

    /// Returns the link to the space of a port; opens it if there is none.
    fn link_to(&self, found: &PortLocation) -> Result<Arc<Link>, OpenError> {
        let core = self.core();
        if let Some(link) = core.link_to(found.space) {
            return Ok(link);
        }
        let _one_at_a_time = core.connecting.lock();
        if let Some(link) = core.link_to(found.space) {
            return Ok(link);
        }
        core.connect(&found.address).map_err(|error| OpenError::Unreachable {
            port: found.port.name.clone(),
            space: found.space_name.clone(),
            error,
        })
    }

    /// The counters of the space.
    pub fn counters(&self) -> Counters {
        self.core().counters()
    }

    /// The last peers that were refused or cut off, oldest first.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.core().refusals()
    }

    /// Closes the space: writes sent tokens, then ends the links. Receivers and senders of its
    /// ports get an error from then on.
    pub fn close(&self) {
        self.core().close();
    }
}

/// Opens an output port to a port of the same space.
fn local_output<T: Token>(sink: Arc<dyn Sink>) -> Result<OutputPort<T>, OpenError> {
    let (port, found) = (sink.label().name.clone(), sink.label().kind.name().to_owned());
    match sink.as_any().downcast::<PortQueue<T>>() {
        Ok(queue) => Ok(OutputPort::local(queue)),
        Err(_) => {
            let wanted = T::kind().name().to_owned();
            Err(OpenError::KindMismatch { port, wanted, found })
        }
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Space({:?}, {})", self.name(), self.id())
    }
}

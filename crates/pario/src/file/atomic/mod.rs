//! Atomic access: overlapping accesses of all processes that have opened a file for it never mix.
//!
//! A process is one *opener* at the home node of the file, however many of its [`File`]s and
//! threads use it. Each access first adds a claim of its bytes to the opener ([`OpenerClaims`]). An
//! opener with a delegation begins the access at once; otherwise it claims the bytes at the home
//! node. The opener always has one call at the home node that waits for the recall of its
//! delegation; the callback thread of the connection takes the reply.
//!
//! Lock order: `opening`, then `state`. No thread holds `state` while it waits for a reply.

mod append;
pub(crate) mod claims;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use pario_net::{Bulk, RpcError};
use pario_proto::{
    AtomicCall, AtomicOutcome, AtomicRequest, BytesUse, Failure, FileId, FilePath, Reply,
    ReplyMessage, Request, SharedFileId, home_node,
};
use parking_lot::{Condvar, Mutex, RwLock};
use rustix::time::{ClockId, clock_gettime};

use super::File;
use crate::cluster::ClusterState;
use crate::connection::{Connection, Waiting, Watch, strange};
use crate::error::Error;
use claims::{ClaimStep, OpenerClaims};

/// How often a claim is repeated at a home node that was restarted.
const CLAIM_ATTEMPTS: usize = 3;

/// The openers of this process: one for each file that it has opened alone, and one for each shared
/// file.
#[derive(Default)]
pub(crate) struct Openers {
    known: Mutex<HashMap<OpenerKey, Weak<AtomicOpener>>>,
    next: AtomicU64,
}

type OpenerKey = (FileId, Option<SharedFileId>);

/// An opener of a file.
pub(crate) struct AtomicOpener {
    home: Arc<Connection>,
    file: FileId,
    /// The number of the opener in this process.
    number: u64,
    path: FilePath,
    shared_file: Option<SharedFileId>,
    state: Mutex<OpenerState>,
    /// An access is over.
    changed: Condvar,
    /// Held while the opener is registered at the home node.
    opening: Mutex<()>,
    /// One past the last byte that this opener has appended: the next append begins to look there.
    appended: AtomicU64,
}

#[derive(Default)]
struct OpenerState {
    claims: OpenerClaims,
    /// Counts the registrations at the home node.
    registrations: u64,
    /// The connection over which the home node knows the opener.
    watch: Option<Watch>,
    /// The delegation whose recall a call waits for.
    awaited: Option<u64>,
    /// Whether a user has reset the opener: it cannot be used any more.
    is_reset: bool,
}

/// An access that may begin. Dropping it ends the access.
struct AtomicClaim<'o> {
    opener: &'o AtomicOpener,
    number: u64,
}

/// Whether a file is open for atomic access.
#[derive(Default)]
pub(super) struct AtomicAccess {
    is_on: AtomicBool,
    opener: RwLock<Option<Arc<AtomicOpener>>>,
}

impl File {
    /// Makes all accesses through a file that was just opened atomic.
    pub(crate) fn open_atomically(&self, is_append: bool) -> Result<(), Error> {
        // A file of extents has no bytes whose accesses could mix.
        self.striped("read")?;
        self.state.is_append.store(is_append, Ordering::Relaxed);
        self.begin_atomic(None)
    }

    /// Makes all accesses through this file atomic from now on. `shared_file` is the shared file of
    /// a job whose ranks coordinate among themselves. Returns when no other process accesses the
    /// file without asking its home node.
    pub(crate) fn begin_atomic(&self, shared_file: Option<SharedFileId>) -> Result<(), Error> {
        let opener = self.find_opener(shared_file)?;
        *self.state.atomic.opener.write() = Some(opener);
        self.state.atomic.is_on.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends atomic access through this file.
    pub(crate) fn end_atomic(&self) {
        self.state.atomic.is_on.store(false, Ordering::Release);
        drop(self.state.atomic.opener.write().take());
    }

    /// Whether accesses through this file are atomic.
    pub(super) fn is_atomic(&self) -> bool {
        self.state.atomic.is_on.load(Ordering::Acquire)
    }

    /// Runs an access while no other one that conflicts is under way, if the file is open for atomic
    /// access.
    #[inline]
    pub(super) fn atomically<R>(
        &self,
        bytes: impl FnOnce() -> BytesUse,
        access: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let Some(opener) = self.opener() else { return access() };
        let bytes = bytes();
        if bytes.is_empty() {
            return access();
        }
        let _claim = opener.claim(self, bytes)?;
        access()
    }

    fn opener(&self) -> Option<Arc<AtomicOpener>> {
        if !self.is_atomic() {
            return None;
        }
        self.state.atomic.opener.read().clone()
    }

    fn find_opener(&self, shared_file: Option<SharedFileId>) -> Result<Arc<AtomicOpener>, Error> {
        let shared = &self.state.cluster.shared;
        let opener = shared.openers.find(shared, self, shared_file);
        opener.ensure_registered(self)?;
        Ok(opener)
    }
}

impl Openers {
    fn find(
        &self,
        shared: &ClusterState,
        file: &File,
        shared_file: Option<SharedFileId>,
    ) -> Arc<AtomicOpener> {
        let id = file.state.record.id;
        let mut known = self.known.lock();
        let usable = |opener: &Arc<AtomicOpener>| !opener.state.lock().is_reset;
        let opener = known.get(&(id, shared_file)).and_then(Weak::upgrade);
        if let Some(opener) = opener.filter(usable) {
            return opener;
        }
        // Before the map grows: most openers in it may be gone.
        if known.len() == known.capacity() {
            known.retain(|_, opener| opener.strong_count() > 0);
        }
        let opener = Arc::new(AtomicOpener {
            home: shared.node(home_node(id, shared.node_count())),
            file: id,
            number: self.next.fetch_add(1, Ordering::Relaxed),
            path: file.state.path.clone(),
            shared_file,
            state: Mutex::default(),
            changed: Condvar::new(),
            opening: Mutex::default(),
            appended: AtomicU64::new(0),
        });
        known.insert((id, shared_file), Arc::downgrade(&opener));
        opener
    }
}

impl AtomicOpener {
    /// Waits until an access may begin.
    fn claim(self: &Arc<Self>, file: &File, bytes: BytesUse) -> Result<AtomicClaim<'_>, Error> {
        let mut state = self.state.lock();
        let claim = AtomicClaim { opener: self, number: state.claims.add(bytes) };
        loop {
            if state.is_reset {
                // The claim takes the lock when it is dropped.
                drop(state);
                return Err(Error::from(Failure::AccessReset).of_file(self.path.as_str()));
            }
            state.forget_lost_home();
            match state.claims.step(claim.number, now_ms()) {
                ClaimStep::Go => break,
                ClaimStep::Wait => self.changed.wait(&mut state),
                ClaimStep::Ask => {
                    drop(state);
                    let asked_ms = now_ms();
                    let outcome = self.ask(file, claim.number, bytes)?;
                    state = self.state.lock();
                    let delegation = state.claims.answered(claim.number, outcome, asked_ms);
                    drop(state);
                    self.await_recall(delegation);
                    state = self.state.lock();
                }
            }
        }
        drop(state);
        Ok(claim)
    }

    /// Claims bytes at the home node. Registers the opener again if the home node was restarted.
    fn ask(
        self: &Arc<Self>,
        file: &File,
        number: u64,
        bytes: BytesUse,
    ) -> Result<AtomicOutcome, Error> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let registrations = self.state.lock().registrations;
            let sent = self.home.start(self.request(AtomicCall::Claim { number, bytes }), vec![]);
            // Another process may use the bytes for long.
            let reply = sent.and_then(|waiting| waiting.without_limit().wait());
            let error = match outcome_of(reply.map(|(reply, _)| reply)) {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            let is_last = attempts == CLAIM_ATTEMPTS;
            match error {
                Error::Failure(Failure::StaleHandle { .. }) if !is_last => {
                    self.register(file, registrations)?;
                }
                error if is_reset(&error) => {
                    self.reset(registrations);
                    return Err(error.of_file(self.path.as_str()));
                }
                // The node may have been restarted since the last request.
                Error::NodeDown { .. } if attempts == 1 => {}
                error => return Err(error.of_file(self.path.as_str())),
            }
        }
    }

    fn ensure_registered(self: &Arc<Self>, file: &File) -> Result<(), Error> {
        let registrations = {
            let mut state = self.state.lock();
            state.forget_lost_home();
            if state.watch.is_some() {
                return Ok(());
            }
            state.registrations
        };
        self.register(file, registrations)
    }

    /// Registers the opener at the home node, unless another thread has done so since.
    fn register(self: &Arc<Self>, file: &File, registrations: u64) -> Result<(), Error> {
        let _opening = self.opening.lock();
        if self.state.lock().registrations != registrations {
            return Ok(());
        }
        self.state.lock().lose_home(registrations);
        let (watch, asked_ms) = (self.home.watch()?, now_ms());
        let opened = file.with_retry(file.grant(), |grant| {
            let (path, shared_file) = (self.path.clone(), self.shared_file);
            let call = AtomicCall::Open { grant, path, shared_file };
            outcome_of(self.home.call(self.request(call)))
        });
        let opened = opened.inspect_err(|error| {
            if is_reset(error) {
                self.reset(registrations);
            }
        })?;
        let mut state = self.state.lock();
        state.registrations += 1;
        state.watch = Some(watch);
        let delegation = state.claims.opened(opened, asked_ms);
        if opened == AtomicOutcome::AtHome {
            self.give_back(&mut state, 0);
        }
        drop(state);
        self.await_recall(delegation);
        Ok(())
    }

    /// Starts to wait for the recall of a delegation, unless a call waits for it already.
    fn await_recall(self: &Arc<Self>, delegation: Option<u64>) {
        let Some(delegation) = delegation else { return };
        let registrations = {
            let mut state = self.state.lock();
            if state.awaited == Some(delegation) {
                return;
            }
            state.awaited = Some(delegation);
            state.registrations
        };
        let call = self.request(AtomicCall::AwaitRecall { delegation });
        let opener = Arc::downgrade(self);
        match self.home.start(call, Vec::new()) {
            Ok(Waiting { pending, .. }) => pending.then(move |reply| {
                if let Some(opener) = opener.upgrade() {
                    opener.recalled(delegation, registrations, reply);
                }
            }),
            Err(_) => self.state.lock().lose_home(registrations),
        }
    }

    /// Takes the reply to the call that waits for a recall.
    fn recalled(
        &self,
        delegation: u64,
        registrations: u64,
        reply: Result<ReplyMessage<Bulk>, RpcError>,
    ) {
        let mut state = self.state.lock();
        if state.registrations != registrations {
            return;
        }
        state.awaited = state.awaited.filter(|awaited| *awaited != delegation);
        match reply.map(|reply| reply.result) {
            Ok(Ok(Reply::Atomic(AtomicOutcome::Recalled))) => {
                let claims = state.claims.recalled(delegation);
                // The lock orders this before the release of any of these claims.
                let call = AtomicCall::GiveBack { delegation, claims };
                self.home.tell(self.request(call));
            }
            // A later call waits for the same.
            Ok(Ok(_)) => {}
            Ok(Err(Failure::AccessReset)) => {
                drop(state);
                self.reset(registrations);
            }
            Ok(Err(_)) | Err(_) => state.lose_home(registrations),
        }
    }

    /// Ends the use of this opener, which a user has reset: the threads that wait fail.
    fn reset(&self, registrations: u64) {
        let mut state = self.state.lock();
        if state.registrations != registrations {
            return;
        }
        state.is_reset = true;
        state.lose_home(registrations);
        drop(state);
        self.changed.notify_all();
        // Others need not wait for the end of a delegation.
        self.home.tell(self.request(AtomicCall::Close));
    }

    /// Reports accesses that are under way, if there are any.
    fn give_back(&self, state: &mut OpenerState, delegation: u64) {
        let claims = state.claims.report_under_way();
        if !claims.is_empty() {
            self.home.tell(self.request(AtomicCall::GiveBack { delegation, claims }));
        }
    }

    fn request(&self, call: AtomicCall) -> Request {
        Request::Atomic(AtomicRequest { file: self.file, opener: self.number, call })
    }
}

impl OpenerState {
    /// Forgets what the home node has granted over a connection that is lost.
    fn forget_lost_home(&mut self) {
        if self.watch.as_ref().is_some_and(|watch| !watch.is_open()) {
            self.lose_home(self.registrations);
        }
    }

    fn lose_home(&mut self, registrations: u64) {
        if self.registrations == registrations {
            self.claims.lose_home();
            self.watch = None;
            self.awaited = None;
        }
    }
}

impl Drop for AtomicClaim<'_> {
    fn drop(&mut self) {
        let Self { opener, number } = *self;
        let mut state = opener.state.lock();
        let is_at_home = state.claims.remove(number);
        let is_idle = state.claims.is_idle();
        drop(state);
        if !is_idle {
            opener.changed.notify_all();
        }
        if is_at_home {
            opener.home.tell(opener.request(AtomicCall::Release { number }));
        }
    }
}

impl Drop for AtomicOpener {
    fn drop(&mut self) {
        if self.state.get_mut().watch.is_some() {
            self.home.tell(self.request(AtomicCall::Close));
        }
    }
}

fn outcome_of(reply: Result<Reply, Error>) -> Result<AtomicOutcome, Error> {
    match reply? {
        Reply::Atomic(outcome) => Ok(outcome),
        _ => Err(strange("home")),
    }
}

/// Whether the home node has refused a call because a user has reset the opener.
fn is_reset(error: &Error) -> bool {
    matches!(
        error,
        Error::Failure(Failure::AccessReset) | Error::File { failure: Failure::AccessReset, .. }
    )
}

/// The time since the machine was started. A machine that sleeps counts it too: its leases end.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, ns) = (now.tv_sec.cast_unsigned(), now.tv_nsec.cast_unsigned());
    seconds.saturating_mul(1000).saturating_add(ns / 1_000_000)
}

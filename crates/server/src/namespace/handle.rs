//! The namespace as its users hold it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use pario_proto::{Failure, FileId, FileKind, FileRecord, Identity};
use parking_lot::Mutex;

use super::change::Change;
use super::clock::Clock;
use super::grant_epochs::begin_grant_epoch;
use super::key;
use super::tree::{Node, Stop, counter, node};
use crate::metadata::{MetadataError, MetadataStore, Snapshot, Transaction, Verdict};

/// The format of keys and values.
const FORMAT: u64 = 2;
/// The first number within an epoch.
const FIRST_NUMBER: u64 = 2;

/// The tree of names of a cluster. All clones are the same one.
///
/// Calls that change something return at once; their `done` is run once, when the change is
/// durable or has failed, mostly in a thread of the store: it must not wait there for another
/// change, but may begin one.
#[derive(Clone)]
pub struct Namespace {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn MetadataStore>,
    node: Arc<str>,
    clock: Clock,
    /// That of new ids.
    epoch: AtomicU64,
    number: AtomicU64,
}

impl Namespace {
    /// The time by the clock of the namespace, in nanoseconds since 1970.
    pub fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }

    /// Opens the namespace in a store, or makes it: a root directory that belongs to the given
    /// user, with mode 0755. Failures name the node.
    pub fn open(
        store: Arc<dyn MetadataStore>,
        node: &str,
        owner: &Identity,
        clock: Clock,
    ) -> Result<Namespace, MetadataError> {
        let (uid, gid) = (owner.uid, owner.gids.first().copied().unwrap_or(owner.uid));
        let shared = Shared {
            store,
            node: node.into(),
            clock,
            epoch: AtomicU64::new(0),
            number: AtomicU64::new(FIRST_NUMBER),
        };
        let namespace = Namespace { shared: Arc::new(shared) };
        let (send, receive) = mpsc::channel();
        namespace.submit(
            move |change| begin(change, uid, gid),
            move |outcome| {
                // Nobody waits any more only if the thread below is gone.
                let _ = send.send(outcome);
            },
        );
        let outcome = receive.recv().map_err(|_| MetadataError::Inconsistent {
            why: "the store has not said what became of a change".to_owned(),
        })?;
        match outcome {
            Ok(epoch) => namespace.enter_epoch(epoch),
            Err(Stop::Store(error)) => return Err(error),
            Err(Stop::Failure(failure)) => {
                return Err(MetadataError::Inconsistent { why: failure.to_string() });
            }
        }
        Ok(namespace)
    }

    /// An id that no file or directory has ever had.
    pub fn new_file_id(&self) -> FileId {
        self.new_file_id_of(self.epoch())
    }

    /// A new id of a given epoch, which must be durable before the id is used.
    pub(super) fn new_file_id_of(&self, epoch: u64) -> FileId {
        let number = self.shared.number.fetch_add(1, Ordering::Relaxed);
        FileId(u128::from(epoch) << 64 | u128::from(number))
    }

    /// The epoch of new ids.
    pub(super) fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::SeqCst)
    }

    /// From now on new ids are of this epoch, which is durable. Numbers go on, so that an id that
    /// is made meanwhile with the old epoch is unique as well.
    pub(super) fn enter_epoch(&self, epoch: u64) {
        self.shared.epoch.fetch_max(epoch, Ordering::SeqCst);
    }

    /// Changes the tree in one transaction.
    pub(super) fn change<T: Send + 'static>(
        &self,
        body: impl Fn(&mut Change<'_>) -> Result<T, Stop> + Send + 'static,
        done: impl FnOnce(Result<T, Failure>) + Send + 'static,
    ) {
        let node = Arc::clone(&self.shared.node);
        self.submit(body, move |outcome| done(outcome.map_err(|stop| failure(&node, stop))));
    }

    fn submit<T: Send + 'static>(
        &self,
        body: impl Fn(&mut Change<'_>) -> Result<T, Stop> + Send + 'static,
        done: impl FnOnce(Result<T, Stop>) + Send + 'static,
    ) {
        // What the last run has given: the runs before it do not count.
        let last = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&last);
        let clock = self.shared.clock.clone();
        let work = move |transaction: &mut dyn Transaction| {
            let outcome = body(&mut Change::new(transaction, clock.now_ns()));
            let verdict = if outcome.is_ok() { Verdict::Commit } else { Verdict::Abort };
            *slot.lock() = Some(outcome);
            verdict
        };
        let done = move |stored: Result<_, MetadataError>| {
            let outcome = last.lock().take();
            done(stored.map_err(Stop::Store).and_then(|_| outcome.expect("work runs before done")));
        };
        self.shared.store.submit(Box::new(work), Box::new(done));
    }

    /// Looks at one state of the tree.
    pub(super) fn look<T>(
        &self,
        body: impl FnOnce(&dyn Snapshot) -> Result<T, Stop>,
    ) -> Result<T, Failure> {
        let (mut body, mut outcome) = (Some(body), None);
        let read = self.shared.store.read(&mut |state| {
            if let Some(body) = body.take() {
                outcome = Some(body(state));
            }
        });
        let outcome = read
            .map_err(Stop::Store)
            .and_then(|()| outcome.expect("a read runs its work before it succeeds"));
        outcome.map_err(|stop| failure(&self.shared.node, stop))
    }
}

/// What the namespace begins with, and the next epoch.
///
/// An epoch is at least the time in nanoseconds: so ids differ from those of a namespace that was
/// lost, whose files may still be on the disks.
fn begin(change: &mut Change<'_>, uid: u32, gid: u32) -> Result<u64, Stop> {
    let found = counter(change.state(), key::FORMAT)?;
    match found {
        0 | FORMAT => {}
        // The disks do not know yet what the namespace knows of the files.
        1 => {
            change.put(key::DESCRIBE_AFTER, vec![0; 16]);
            change.put_counter(key::FORMAT, FORMAT);
        }
        _ => return Err(MetadataError::Format { found, known: FORMAT }.into()),
    }
    if node(change.state(), FileId::ROOT)?.is_none() {
        let record = FileRecord {
            id: FileId::ROOT,
            kind: FileKind::Directory,
            layout: None,
            uid,
            gid,
            mode: 0o755,
            created_ns: change.now_ns,
            changed_ns: change.now_ns,
            rights_version: 0,
            first_synced: Vec::new(),
        };
        change.put_node(&Node { record, parent: FileId::ROOT, name: String::new(), entries: 0 });
        change.put_counter(key::FORMAT, FORMAT);
    }
    let last = counter(change.state(), key::EPOCH)?;
    let epoch = (last + 1).max(change.now_ns);
    change.put_counter(key::EPOCH, epoch);
    begin_grant_epoch(change)?;
    Ok(epoch)
}

/// The epoch in which an id was given out.
pub fn epoch_of(id: FileId) -> u64 {
    (id.0 >> 64) as u64
}

fn failure(node: &str, stop: Stop) -> Failure {
    match stop {
        Stop::Failure(failure) => failure,
        Stop::Store(error) => Failure::Metadata { node: node.to_owned(), why: error.to_string() },
    }
}

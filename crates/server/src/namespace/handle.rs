//! The handle of the namespace: opening, transactions, ids.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use pario_proto::{Failure, FileId, FileKind, FileRecord, Identity};
use parking_lot::Mutex;

use super::grant_epochs::begin_grant_epoch;
use super::key;
use super::transaction::TreeTransaction;
use super::tree::{NamespaceError, TreeNode, counter, node};
use super::wall_clock::WallClock;
use crate::metadata::{MetadataError, MetadataStore, Snapshot, Transaction, Verdict};

/// The format version of keys and values.
const FORMAT: u64 = 2;
/// The first file number of an epoch.
const FIRST_NUMBER: u64 = 2;

/// The namespace of a cluster. Clones share it.
///
/// Methods that change the tree return at once and call `done` once, when the change is durable or
/// has failed, usually on a thread of the store. There `done` must not wait for another change, but
/// may begin one.
#[derive(Clone)]
pub struct Namespace {
    inner: Arc<NamespaceState>,
}

struct NamespaceState {
    store: Arc<dyn MetadataStore>,
    node: Arc<str>,
    clock: WallClock,
    /// The epoch of new ids.
    id_epoch: AtomicU64,
    number: AtomicU64,
}

impl Namespace {
    /// Returns the time by the clock of the namespace, in nanoseconds since 1970.
    pub fn now_ns(&self) -> u64 {
        self.inner.clock.now_ns()
    }

    /// Opens the namespace in a store. A new one has a root directory that belongs to the given
    /// user, with mode 0755. Failures name the node.
    pub fn open(
        store: Arc<dyn MetadataStore>,
        node: &str,
        owner: &Identity,
        clock: WallClock,
    ) -> Result<Namespace, MetadataError> {
        let (uid, gid) = (owner.uid, owner.gids.first().copied().unwrap_or(owner.uid));
        let inner = NamespaceState {
            store,
            node: node.into(),
            clock,
            id_epoch: AtomicU64::new(0),
            number: AtomicU64::new(FIRST_NUMBER),
        };
        let namespace = Namespace { inner: Arc::new(inner) };
        let (send, receive) = mpsc::channel();
        namespace.submit(
            move |transaction| begin(transaction, uid, gid),
            move |outcome| {
                // The receiver below waits until this send.
                let _ = send.send(outcome);
            },
        );
        let outcome = receive.recv().map_err(|_| MetadataError::Inconsistent {
            why: "the store has not reported the outcome of a transaction".to_owned(),
        })?;
        match outcome {
            Ok(epoch) => namespace.enter_id_epoch(epoch),
            Err(NamespaceError::Store(error)) => return Err(error),
            Err(NamespaceError::Failure(failure)) => {
                return Err(MetadataError::Inconsistent { why: failure.to_string() });
            }
        }
        Ok(namespace)
    }

    /// Returns an id that no file or directory has ever had.
    pub fn new_file_id(&self) -> FileId {
        self.new_file_id_of(self.id_epoch())
    }

    /// Returns a new id of a given epoch, which must be durable before the id is used.
    pub(super) fn new_file_id_of(&self, epoch: u64) -> FileId {
        let number = self.inner.number.fetch_add(1, Ordering::Relaxed);
        FileId(u128::from(epoch) << 64 | u128::from(number))
    }

    /// Returns the epoch of new ids.
    pub(super) fn id_epoch(&self) -> u64 {
        self.inner.id_epoch.load(Ordering::SeqCst)
    }

    /// Begins a durable epoch for new ids. Numbers continue, so an id that another thread creates
    /// with the old epoch at the same time is unique too.
    pub(super) fn enter_id_epoch(&self, epoch: u64) {
        self.inner.id_epoch.fetch_max(epoch, Ordering::SeqCst);
    }

    /// Changes the tree in one transaction.
    pub(super) fn transact<T: Send + 'static>(
        &self,
        body: impl Fn(&mut TreeTransaction<'_>) -> Result<T, NamespaceError> + Send + 'static,
        done: impl FnOnce(Result<T, Failure>) + Send + 'static,
    ) {
        let node = Arc::clone(&self.inner.node);
        self.submit(body, move |outcome| done(outcome.map_err(|error| failure(&node, error))));
    }

    fn submit<T: Send + 'static>(
        &self,
        body: impl Fn(&mut TreeTransaction<'_>) -> Result<T, NamespaceError> + Send + 'static,
        done: impl FnOnce(Result<T, NamespaceError>) + Send + 'static,
    ) {
        // The result of the last run; earlier runs do not count.
        let last = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&last);
        let clock = self.inner.clock.clone();
        let work = move |transaction: &mut dyn Transaction| {
            let outcome = body(&mut TreeTransaction::new(transaction, clock.now_ns()));
            let verdict = if outcome.is_ok() { Verdict::Commit } else { Verdict::Abort };
            *slot.lock() = Some(outcome);
            verdict
        };
        let done = move |stored: Result<_, MetadataError>| {
            let outcome = last.lock().take();
            done(
                stored
                    .map_err(NamespaceError::Store)
                    .and_then(|_| outcome.expect("work runs before done")),
            );
        };
        self.inner.store.submit(Box::new(work), Box::new(done));
    }

    /// Reads one state of the tree.
    pub(super) fn read<T>(
        &self,
        body: impl FnOnce(&dyn Snapshot) -> Result<T, NamespaceError>,
    ) -> Result<T, Failure> {
        let (mut body, mut outcome) = (Some(body), None);
        let read = self.inner.store.read(&mut |snapshot| {
            if let Some(body) = body.take() {
                outcome = Some(body(snapshot));
            }
        });
        let outcome = read
            .map_err(NamespaceError::Store)
            .and_then(|()| outcome.expect("a read runs its work before it succeeds"));
        outcome.map_err(|error| failure(&self.inner.node, error))
    }
}

/// Creates the root if it is missing, and begins the next epoch of ids and of grants.
///
/// An epoch is at least the time in nanoseconds, so ids differ from those of a lost namespace,
/// whose files may still be on the disks.
fn begin(transaction: &mut TreeTransaction<'_>, uid: u32, gid: u32) -> Result<u64, NamespaceError> {
    let found = counter(transaction.snapshot(), key::FORMAT)?;
    match found {
        0 | FORMAT => {}
        // In format 1 the descriptions on the disks lack what the namespace knows of the files.
        1 => {
            transaction.put(key::DESCRIPTION_CURSOR, vec![0; 16]);
            transaction.put_counter(key::FORMAT, FORMAT);
        }
        _ => return Err(MetadataError::Format { found, known: FORMAT }.into()),
    }
    if node(transaction.snapshot(), FileId::ROOT)?.is_none() {
        let record = FileRecord {
            id: FileId::ROOT,
            kind: FileKind::Directory,
            layout: None,
            uid,
            gid,
            mode: 0o755,
            created_ns: transaction.now_ns,
            changed_ns: transaction.now_ns,
            rights_version: 0,
            first_synced: Vec::new(),
        };
        transaction.put_node(&TreeNode {
            record,
            parent: FileId::ROOT,
            name: String::new(),
            entries: 0,
        });
        transaction.put_counter(key::FORMAT, FORMAT);
    }
    let last = counter(transaction.snapshot(), key::ID_EPOCH)?;
    let epoch = (last + 1).max(transaction.now_ns);
    transaction.put_counter(key::ID_EPOCH, epoch);
    begin_grant_epoch(transaction)?;
    Ok(epoch)
}

/// Returns the epoch in which an id was assigned.
pub fn id_epoch_of(id: FileId) -> u64 {
    (id.0 >> 64) as u64
}

fn failure(node: &str, error: NamespaceError) -> Failure {
    match error {
        NamespaceError::Failure(failure) => failure,
        NamespaceError::Store(error) => {
            Failure::Metadata { node: node.to_owned(), why: error.to_string() }
        }
    }
}

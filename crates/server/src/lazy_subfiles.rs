//! Lazy subfiles: a subfile comes into being with its first byte. The namespace tells whether a
//! missing subfile is lazy or lost.
//!
//! A node creates a missing subfile, or reads it as a hole, only after the namespace has confirmed
//! that the file exists and that the subfile was never synced. The interface node looks this up;
//! other nodes ask it. Only this node can create the subfile, so the confirmation stays true until
//! it does. The node keeps it in a table until the subfile is created or its file removed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pario_proto::{
    Failure, FileId, Grant, KnownFile, PeerRequest, Reply, Request, SubfileLocation,
};
use pario_store::{ExtentFile, FlatFile, StoreError, SubfileId};
use parking_lot::Mutex;

use crate::disks::NodeDisk;
use crate::node_state::{InterfaceState, NodeState};

/// The limit of lazy subfiles in the table of a disk.
const KNOWN_LIMIT: usize = 1 << 14;

/// How long a node waits for an interface node that restarts.
const RESTART_WAIT: Duration = Duration::from_secs(2);
/// The pause between two attempts to reach it.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The result of looking up a subfile.
pub enum SubfileLookup<T> {
    /// The subfile exists.
    Present(T),
    /// No client has written to it, or a power loss has removed it before it was synced.
    Lazy,
}

/// The lazy subfiles of a disk, confirmed by the namespace.
#[derive(Debug, Default)]
pub struct LazySubfiles {
    files: HashMap<SubfileId, Arc<KnownFile>>,
    oldest_first: VecDeque<SubfileId>,
    /// The creation tickets of queries under way. A change or removal of the file withdraws them,
    /// because the reply may be older.
    tickets: HashMap<SubfileId, Vec<u64>>,
    next: u64,
}

impl LazySubfiles {
    /// Returns what the namespace says of the file of a lazy subfile.
    pub fn get(&self, id: SubfileId) -> Option<Arc<KnownFile>> {
        self.files.get(&id).cloned()
    }

    /// Removes a subfile that was created, or whose file was removed.
    pub fn forget(&mut self, id: SubfileId) {
        self.files.remove(&id);
        self.tickets.remove(&id);
    }

    /// Takes a change of a file over, and withdraws the creation tickets of its subfile.
    pub fn update(&mut self, id: SubfileId, file: &KnownFile) {
        self.tickets.remove(&id);
        let Some(known) = self.files.get_mut(&id).map(Arc::make_mut) else { return };
        if known.record.rights_version <= file.record.rights_version {
            known.record = file.record.clone();
        }
        if known.path_version <= file.path_version {
            (known.path, known.path_version) = (file.path.clone(), file.path_version);
        }
    }

    /// Begins a query to the namespace. Returns its creation ticket.
    fn begin_query(&mut self, id: SubfileId) -> u64 {
        self.next += 1;
        self.tickets.entry(id).or_default().push(self.next);
        self.next
    }

    /// Ends a query with the confirmation of the namespace, if it gave one. Returns whether the
    /// ticket is still valid.
    fn end_query(&mut self, id: SubfileId, ticket: u64, known: Option<KnownFile>) -> bool {
        let Some(tickets) = self.tickets.get_mut(&id) else { return false };
        let Some(at) = tickets.iter().position(|number| *number == ticket) else { return false };
        tickets.swap_remove(at);
        if tickets.is_empty() {
            self.tickets.remove(&id);
        }
        let Some(known) = known else { return true };
        if self.files.insert(id, Arc::new(known)).is_none() {
            self.oldest_first.push_back(id);
        }
        if self.oldest_first.len() > KNOWN_LIMIT
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.files.remove(&oldest);
        }
        true
    }
}

impl<T> SubfileLookup<T> {
    /// Returns the subfile if it exists.
    pub fn present(self) -> Option<T> {
        match self {
            SubfileLookup::Present(subfile) => Some(subfile),
            SubfileLookup::Lazy => None,
        }
    }
}

impl InterfaceState {
    /// Returns what the namespace says of a file that exists, or that is deleted and still open.
    pub fn known_file(&self, file: FileId) -> Result<Option<KnownFile>, Failure> {
        match self.namespace.known_file(file)? {
            None if self.open_files.is_in_use(file) => self.namespace.tombstone(file),
            known => Ok(known),
        }
    }
}

impl NodeState {
    /// Looks up a flat subfile.
    pub fn flat(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<SubfileLookup<FlatFile>, Failure> {
        let (file, index) = (grant.file, part.subfile.0);
        match disk.open_flat(file, index) {
            Some(flat) => Ok(SubfileLookup::Present(flat)),
            None => self.lookup(disk, grant, part, || disk.flat(file, index)),
        }
    }

    /// Looks up an extent subfile.
    pub fn extents(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<SubfileLookup<ExtentFile>, Failure> {
        let (file, index) = (grant.file, part.subfile.0);
        match disk.open_extents(file, index) {
            Some(extents) => Ok(SubfileLookup::Present(extents)),
            None => self.lookup(disk, grant, part, || disk.extents(file, index)),
        }
    }

    /// Returns a flat subfile, and creates it if it is lazy.
    pub fn flat_or_create(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<FlatFile, Failure> {
        match self.flat(disk, grant, part)? {
            SubfileLookup::Present(flat) => Ok(flat),
            SubfileLookup::Lazy => {
                disk.create_lazy(grant.file, part.subfile.0)?;
                self.open_result(disk, grant, part, disk.flat(grant.file, part.subfile.0))
            }
        }
    }

    /// Returns an extent subfile, and creates it if it is lazy.
    pub fn extents_or_create(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<ExtentFile, Failure> {
        match self.extents(disk, grant, part)? {
            SubfileLookup::Present(extents) => Ok(extents),
            SubfileLookup::Lazy => {
                disk.create_lazy(grant.file, part.subfile.0)?;
                self.open_result(disk, grant, part, disk.extents(grant.file, part.subfile.0))
            }
        }
    }

    /// Opens a subfile, and decides whether a missing one is lazy or lost. May ask the interface
    /// node and wait for it.
    pub fn lookup<T>(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
        open: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<SubfileLookup<T>, Failure> {
        let id = NodeDisk::subfile_id(grant.file, part);
        if disk.lazy_subfiles.lock().get(id).is_some() {
            return Ok(SubfileLookup::Lazy);
        }
        match open() {
            Err(StoreError::NotFound { .. } | StoreError::NotASubfile { .. }) => {
                self.confirm_lazy(disk, grant.file, part).map(|()| SubfileLookup::Lazy)
            }
            opened => self.open_result(disk, grant, part, opened).map(SubfileLookup::Present),
        }
    }

    /// Asks the namespace to confirm that a subfile was never synced. Fails if the subfile is lost,
    /// or if the namespace cannot be asked.
    fn confirm_lazy(
        &self,
        disk: &NodeDisk,
        file: FileId,
        part: SubfileLocation,
    ) -> Result<(), Failure> {
        let id = NodeDisk::subfile_id(file, part);
        loop {
            let ticket = disk.lazy_subfiles.lock().begin_query(id);
            let known = self.ask_namespace(file);
            let confirmation =
                known.as_ref().ok().cloned().flatten().filter(|known| known.may_make(part));
            let (is_lazy, is_ticket_valid) = (
                confirmation.is_some(),
                disk.lazy_subfiles.lock().end_query(id, ticket, confirmation),
            );
            known?;
            match (is_lazy, is_ticket_valid) {
                (true, true) => return Ok(()),
                // A change or removal of the file has withdrawn the ticket: ask again.
                (true, false) => {}
                (false, _) => {
                    let (disk, subfile) = (disk.name.clone(), part.subfile.0);
                    return Err(Failure::SubfileMissing { disk, file, subfile });
                }
            }
        }
    }

    /// Returns what the namespace says of a file. Waits for an interface node that restarts.
    fn ask_namespace(&self, file: FileId) -> Result<Option<KnownFile>, Failure> {
        if let Some(interface) = &self.interface {
            return interface.known_file(file);
        }
        let deadline = Instant::now() + RESTART_WAIT;
        loop {
            match self.ask_interface_node(file) {
                Err(Failure::NodeDown { .. } | Failure::Stopping { .. })
                    if Instant::now() < deadline && !self.shutdown.is_requested() =>
                {
                    self.shutdown.pause(RETRY_PAUSE);
                }
                answer => return answer,
            }
        }
    }

    fn ask_interface_node(&self, file: FileId) -> Result<Option<KnownFile>, Failure> {
        let (send, receive) = mpsc::channel();
        let send = Mutex::new(send);
        let request = Request::Peer(PeerRequest::FindFile { file });
        self.peers.ask_then(self.config.interface, request, move |answer| {
            // The receiver below waits for this one message.
            let _ = send.lock().send(answer);
        });
        let interface = &self.config.nodes[self.config.interface].name;
        match receive.recv() {
            Ok(answer) => match answer?.result? {
                Reply::File(known) => Ok(known),
                _ => Err(crate::peers::down(
                    interface,
                    "it has sent a reply that does not fit the request",
                )),
            },
            Err(_) => Err(crate::peers::down(interface, "the request ended without a reply")),
        }
    }

    fn open_result<T>(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
        opened: Result<T, StoreError>,
    ) -> Result<T, Failure> {
        let id = NodeDisk::subfile_id(grant.file, part);
        opened.map_err(|error| disk.failure(error, id, "open it"))
    }
}

#[cfg(test)]
mod tests {
    use pario_proto::{FileKind, FilePath, FileRecord};

    use super::*;

    fn known(rights_version: u32) -> KnownFile {
        renamed(rights_version, 0)
    }

    fn renamed(rights_version: u32, path_version: u32) -> KnownFile {
        let record = FileRecord {
            id: FileId(7),
            kind: FileKind::Flat,
            layout: None,
            uid: 0,
            gid: 0,
            mode: 0o640,
            created_ns: 0,
            changed_ns: 0,
            rights_version,
            first_synced: Vec::new(),
        };
        let path = FilePath::new(&format!("/{path_version}")).ok();
        KnownFile { path, path_version, record }
    }

    #[test]
    fn a_removal_withdraws_creation_tickets() {
        let (mut lazy_subfiles, id) = (LazySubfiles::default(), SubfileId::data(7, 0));
        let (first, second) = (lazy_subfiles.begin_query(id), lazy_subfiles.begin_query(id));
        assert!(
            lazy_subfiles.end_query(id, first, Some(known(0))) && lazy_subfiles.get(id).is_some()
        );
        lazy_subfiles.forget(id);
        let third = lazy_subfiles.begin_query(id);
        assert!(
            !lazy_subfiles.end_query(id, second, Some(known(0))) && lazy_subfiles.get(id).is_none()
        );
        assert!(lazy_subfiles.end_query(id, third, None) && lazy_subfiles.get(id).is_none());
        assert!(lazy_subfiles.tickets.is_empty());
    }

    #[test]
    fn newer_rights_and_paths_replace_older_ones() {
        let (mut lazy_subfiles, id) = (LazySubfiles::default(), SubfileId::data(7, 0));
        let ticket = lazy_subfiles.begin_query(id);
        lazy_subfiles.end_query(id, ticket, Some(renamed(3, 1)));
        for (change, expected) in [((4, 0), (4, 1)), ((2, 2), (4, 2)), ((3, 1), (4, 2))] {
            lazy_subfiles.update(id, &renamed(change.0, change.1));
            assert_eq!(*lazy_subfiles.get(id).unwrap(), renamed(expected.0, expected.1));
        }
    }

    #[test]
    fn a_change_withdraws_creation_tickets() {
        let (mut lazy_subfiles, id) = (LazySubfiles::default(), SubfileId::data(7, 0));
        let ticket = lazy_subfiles.begin_query(id);
        lazy_subfiles.update(id, &renamed(0, 1));
        assert!(
            !lazy_subfiles.end_query(id, ticket, Some(renamed(0, 0)))
                && lazy_subfiles.get(id).is_none()
        );
        let ticket = lazy_subfiles.begin_query(id);
        assert!(lazy_subfiles.end_query(id, ticket, Some(renamed(0, 1))));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut lazy_subfiles = LazySubfiles::default();
        for file in 0..KNOWN_LIMIT as u128 + 10 {
            let id = SubfileId::data(file, 0);
            let ticket = lazy_subfiles.begin_query(id);
            assert!(lazy_subfiles.end_query(id, ticket, Some(known(0))));
            if file % 2 == 0 {
                lazy_subfiles.forget(id);
                let ticket = lazy_subfiles.begin_query(id);
                assert!(lazy_subfiles.end_query(id, ticket, Some(known(0))));
            }
        }
        assert!(lazy_subfiles.files.len() <= KNOWN_LIMIT);
        assert!(lazy_subfiles.oldest_first.len() <= KNOWN_LIMIT);
        assert!(lazy_subfiles.get(SubfileId::data(KNOWN_LIMIT as u128 + 9, 0)).is_some());
    }
}

//! Subfiles come into being with their first byte. One that is not there has not been made yet, or
//! is lost: the namespace tells which.
//!
//! A node makes a missing subfile, or reads it as a hole, only after the namespace has said that the
//! file exists and that the subfile was never synced. The interface node looks it up; other nodes
//! ask it. The answer stays true until this very node makes the subfile, because no other node can:
//! so it is kept in a table, and dropped when the subfile is made or the file removed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use pario_proto::{
    Failure, FileId, Grant, KnownFile, PeerRequest, Reply, Request, SubfileLocation,
};
use pario_store::{ExtentFile, FlatFile, StoreError, SubfileId};
use parking_lot::Mutex;

use crate::disks::NodeDisk;
use crate::shared::{Names, Shared};

/// Unmade subfiles that are known per disk.
const KNOWN_LIMIT: usize = 1 << 14;

/// How long a node waits for an interface node that cannot be reached: its restart takes less.
const RESTART_WAIT: Duration = Duration::from_secs(2);
/// The pause between two attempts to reach it.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A subfile, as a request finds it.
pub enum Found<T> {
    /// It is there.
    Made(T),
    /// No client has written to it, or a power loss has taken it before it was synced.
    Unmade,
}

/// Subfiles of a disk of which the namespace has said that they were never synced, and that are not
/// there.
#[derive(Debug, Default)]
pub struct Unmade {
    files: HashMap<SubfileId, Arc<KnownFile>>,
    oldest_first: VecDeque<SubfileId>,
    /// Questions under way, by number. A change or removal of the file ends them: their answers come
    /// too late.
    asking: HashMap<SubfileId, Vec<u64>>,
    next: u64,
}

impl Unmade {
    /// What is known of a subfile.
    pub fn get(&self, id: SubfileId) -> Option<Arc<KnownFile>> {
        self.files.get(&id).cloned()
    }

    /// A subfile was made, or its file removed.
    pub fn forget(&mut self, id: SubfileId) {
        self.files.remove(&id);
        self.asking.remove(&id);
    }

    /// A file has changed. An answer under way may be older: the namespace is asked again.
    pub fn update(&mut self, id: SubfileId, file: &KnownFile) {
        self.asking.remove(&id);
        let Some(known) = self.files.get_mut(&id).map(Arc::make_mut) else { return };
        if known.record.rights_version <= file.record.rights_version {
            known.record = file.record.clone();
        }
        if known.path_version <= file.path_version {
            (known.path, known.path_version) = (file.path.clone(), file.path_version);
        }
    }

    /// The namespace is going to be asked.
    fn begin(&mut self, id: SubfileId) -> u64 {
        self.next += 1;
        self.asking.entry(id).or_default().push(self.next);
        self.next
    }

    /// The namespace has answered; whether the answer came in time.
    fn end(&mut self, id: SubfileId, question: u64, known: Option<KnownFile>) -> bool {
        let Some(asking) = self.asking.get_mut(&id) else { return false };
        let Some(at) = asking.iter().position(|number| *number == question) else { return false };
        asking.swap_remove(at);
        if asking.is_empty() {
            self.asking.remove(&id);
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

impl<T> Found<T> {
    /// What is there.
    pub fn made(self) -> Option<T> {
        match self {
            Found::Made(subfile) => Some(subfile),
            Found::Unmade => None,
        }
    }
}

impl Names {
    /// What the namespace says of a file that exists, or that was deleted and is still open.
    pub fn known_file(&self, file: FileId) -> Result<Option<KnownFile>, Failure> {
        match self.namespace.known_file(file)? {
            None if self.open_files.is_in_use(file) => self.namespace.tombstone(file),
            known => Ok(known),
        }
    }
}

impl Shared {
    /// A flat subfile.
    pub fn flat(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<Found<FlatFile>, Failure> {
        let (file, index) = (grant.file, part.subfile.0);
        match disk.open_flat(file, index) {
            Some(flat) => Ok(Found::Made(flat)),
            None => self.found(disk, grant, part, || disk.flat(file, index)),
        }
    }

    /// A subfile of extents.
    pub fn extents(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<Found<ExtentFile>, Failure> {
        let (file, index) = (grant.file, part.subfile.0);
        match disk.open_extents(file, index) {
            Some(extents) => Ok(Found::Made(extents)),
            None => self.found(disk, grant, part, || disk.extents(file, index)),
        }
    }

    /// A flat subfile; it is made if it is not there.
    pub fn flat_made(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<FlatFile, Failure> {
        match self.flat(disk, grant, part)? {
            Found::Made(flat) => Ok(flat),
            Found::Unmade => {
                disk.make(grant.file, part.subfile.0)?;
                self.certain(disk, grant, part, disk.flat(grant.file, part.subfile.0))
            }
        }
    }

    /// A subfile of extents; it is made if it is not there.
    pub fn extents_made(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
    ) -> Result<ExtentFile, Failure> {
        match self.extents(disk, grant, part)? {
            Found::Made(extents) => Ok(extents),
            Found::Unmade => {
                disk.make(grant.file, part.subfile.0)?;
                self.certain(disk, grant, part, disk.extents(grant.file, part.subfile.0))
            }
        }
    }

    /// What opening a subfile means: it is there, was never made, or is lost. May ask the interface
    /// node and wait for it.
    pub fn found<T>(
        &self,
        disk: &NodeDisk,
        grant: &Grant,
        part: SubfileLocation,
        open: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<Found<T>, Failure> {
        let id = NodeDisk::subfile_id(grant.file, part);
        if disk.unmade.lock().get(id).is_some() {
            return Ok(Found::Unmade);
        }
        match open() {
            Err(StoreError::NotFound { .. } | StoreError::NotASubfile { .. }) => {
                self.confirm(disk, grant.file, part).map(|()| Found::Unmade)
            }
            opened => self.certain(disk, grant, part, opened).map(Found::Made),
        }
    }

    /// Has the namespace confirm that a subfile was never synced; fails if it is lost, or if the
    /// namespace cannot be asked.
    fn confirm(&self, disk: &NodeDisk, file: FileId, part: SubfileLocation) -> Result<(), Failure> {
        let id = NodeDisk::subfile_id(file, part);
        loop {
            let question = disk.unmade.lock().begin(id);
            let known = self.ask_namespace(file);
            let answer =
                known.as_ref().ok().cloned().flatten().filter(|known| known.may_make(part));
            let (is_made, is_in_time) =
                (answer.is_some(), disk.unmade.lock().end(id, question, answer));
            known?;
            match (is_made, is_in_time) {
                (true, true) => return Ok(()),
                // Its file was changed or removed here while the question was under way: ask again.
                (true, false) => {}
                (false, _) => {
                    let (disk, subfile) = (disk.name.clone(), part.subfile.0);
                    return Err(Failure::SubfileMissing { disk, file, subfile });
                }
            }
        }
    }

    /// What the namespace says of a file. Other nodes than the interface node wait for its answer,
    /// and for a node that is just being started again.
    fn ask_namespace(&self, file: FileId) -> Result<Option<KnownFile>, Failure> {
        if let Some(names) = &self.names {
            return names.known_file(file);
        }
        let deadline = Instant::now() + RESTART_WAIT;
        loop {
            match self.ask_interface_node(file) {
                Err(Failure::NodeDown { .. } | Failure::Stopping { .. })
                    if Instant::now() < deadline && !self.stopping.is_asked() =>
                {
                    self.stopping.pause(RETRY_PAUSE);
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
                _ => Err(crate::peers::down(interface, "it gave no sensible answer")),
            },
            Err(_) => Err(crate::peers::down(interface, "its answer was dropped")),
        }
    }

    fn certain<T>(
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
    fn an_answer_that_a_removal_has_overtaken_does_not_count() {
        let (mut unmade, id) = (Unmade::default(), SubfileId::data(7, 0));
        let (first, second) = (unmade.begin(id), unmade.begin(id));
        assert!(unmade.end(id, first, Some(known(0))) && unmade.get(id).is_some());
        unmade.forget(id);
        let third = unmade.begin(id);
        assert!(!unmade.end(id, second, Some(known(0))) && unmade.get(id).is_none());
        assert!(unmade.end(id, third, None) && unmade.get(id).is_none());
        assert!(unmade.asking.is_empty());
    }

    #[test]
    fn newer_rights_and_paths_are_taken_over() {
        let (mut unmade, id) = (Unmade::default(), SubfileId::data(7, 0));
        let question = unmade.begin(id);
        unmade.end(id, question, Some(renamed(3, 1)));
        for (change, expected) in [((4, 0), (4, 1)), ((2, 2), (4, 2)), ((3, 1), (4, 2))] {
            unmade.update(id, &renamed(change.0, change.1));
            assert_eq!(*unmade.get(id).unwrap(), renamed(expected.0, expected.1));
        }
    }

    #[test]
    fn an_answer_that_a_change_has_overtaken_does_not_count() {
        let (mut unmade, id) = (Unmade::default(), SubfileId::data(7, 0));
        let question = unmade.begin(id);
        unmade.update(id, &renamed(0, 1));
        assert!(!unmade.end(id, question, Some(renamed(0, 0))) && unmade.get(id).is_none());
        let question = unmade.begin(id);
        assert!(unmade.end(id, question, Some(renamed(0, 1))));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut unmade = Unmade::default();
        for file in 0..KNOWN_LIMIT as u128 + 10 {
            let id = SubfileId::data(file, 0);
            let question = unmade.begin(id);
            assert!(unmade.end(id, question, Some(known(0))));
            if file % 2 == 0 {
                unmade.forget(id);
                let question = unmade.begin(id);
                assert!(unmade.end(id, question, Some(known(0))));
            }
        }
        assert!(unmade.files.len() <= KNOWN_LIMIT);
        assert!(unmade.oldest_first.len() <= KNOWN_LIMIT);
        assert!(unmade.get(SubfileId::data(KNOWN_LIMIT as u128 + 9, 0)).is_some());
    }
}

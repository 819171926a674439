//! Creation of files by the interface thread. A file exists after one transaction, because each
//! subfile is created later, with its first byte.

use std::sync::atomic::Ordering;

use pario_flow::Continuation;
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    Access, DEFAULT_UNIT_BYTES, DiskChoice, DiskId, Disks, Extents, Failure, FileKind, FilePath,
    FileRecord, Identity, Layout, LayoutChoice, Opened, Reply, ReplyMessage, Striped,
};

use super::interface::{Interface, close_failed_open};
use super::plain_reply;
use crate::namespace::CreateOutcome;
use crate::node_state::InterfaceState;

/// A file to create.
pub struct FileCreation {
    /// The address space of the client.
    pub space: SpaceId,
    /// The identity of the client.
    pub who: Identity,
    /// The path.
    pub path: FilePath,
    /// The access with which the client opens it.
    pub access: Access,
    /// Whether an existing file is an error.
    pub is_new: bool,
    /// The permissions.
    pub mode: u32,
    /// The requested layout.
    pub layout: LayoutChoice,
}

impl Interface {
    /// Creates a file and opens it, or opens the existing file.
    pub(super) fn create(&self, creation: FileCreation, next: Continuation<ReplyMessage<Bulk>>) {
        let (opened, interface) = match (self.begin(&creation), self.shared.interface()) {
            (Ok(StartedCreation::New(opened)), Ok(interface)) => (opened, interface),
            (Ok(StartedCreation::Open(opened)), _) => {
                return next.call(plain_reply(Ok(Reply::Opened(opened))));
            }
            (Err(failure), _) | (_, Err(failure)) => return next.call(plain_reply(Err(failure))),
        };
        let this = self.clone();
        let (who, path) = (creation.who.clone(), creation.path.clone());
        interface.namespace.create(who, path, opened.record.clone(), move |created| {
            let failure = match created {
                Ok(CreateOutcome::New(_)) => {
                    let opened = Opened { is_created: true, ..opened };
                    return next.call(plain_reply(Ok(Reply::Opened(opened))));
                }
                Ok(CreateOutcome::Existed(_)) => None,
                Err(failure) => Some(failure),
            };
            close_failed_open(&this.shared, opened.handle, creation.space);
            match failure {
                Some(failure) => next.call(plain_reply(Err(failure))),
                // Another client was first: the caller gets that file, or a failure.
                None => this.create(creation, next),
            }
        });
    }

    /// Opens an existing file, or a file whose name is not durable yet.
    fn begin(&self, creation: &FileCreation) -> Result<StartedCreation, Failure> {
        let record = match self.plan(creation)? {
            CreationPlan::Create(record) => record,
            CreationPlan::Open(opened) => return Ok(StartedCreation::Open(opened)),
        };
        let interface = self.shared.interface()?;
        let FileCreation { space, who, path, access, .. } = creation;
        let epoch = interface.grant_epochs.lock().issue();
        // The file is open before it has a name, so that its creator can use it even if another
        // client deletes it at once. The creator may use the file, whatever its mode says.
        self.opened(interface, *space, who, path, record, (*access, epoch))
            .map(StartedCreation::New)
    }

    /// Creates files and opens them, or opens the existing ones. One transaction makes all new
    /// names durable.
    pub(super) fn create_many(
        &self,
        creations: Vec<FileCreation>,
        next: Continuation<ReplyMessage<Bulk>>,
    ) {
        let results = creations.iter().map(|_| None).collect();
        let waiting = creations.into_iter().enumerate().collect();
        self.create_rest(waiting, results, next);
    }

    /// Creates the files of a request that have no result yet, each with its number in the request.
    fn create_rest(
        &self,
        waiting: Vec<(usize, FileCreation)>,
        mut results: Vec<Option<Result<Opened, Failure>>>,
        next: Continuation<ReplyMessage<Bulk>>,
    ) {
        let mut planned = Vec::new();
        for (number, creation) in waiting {
            match self.begin(&creation) {
                Ok(StartedCreation::New(opened)) => planned.push((number, creation, opened)),
                Ok(StartedCreation::Open(opened)) => results[number] = Some(Ok(opened)),
                Err(failure) => results[number] = Some(Err(failure)),
            }
        }
        let (Some((_, first, _)), Ok(interface)) = (planned.first(), self.shared.interface())
        else {
            let why = || "a file was neither created nor refused".to_owned();
            let lost = || Failure::Internal { node: self.shared.name().to_owned(), why: why() };
            let results = results.into_iter().map(|result| result.unwrap_or_else(|| Err(lost())));
            return next.call(plain_reply(Ok(Reply::OpenedMany(results.collect()))));
        };
        let who = first.who.clone();
        let file = |(_, creation, opened): &(usize, FileCreation, Opened)| {
            (creation.path.clone(), opened.record.clone())
        };
        let files = planned.iter().map(file).collect();
        let this = self.clone();
        interface.namespace.create_many(who, files, move |created| {
            let created = match created {
                Ok(created) => created,
                Err(failure) => planned.iter().map(|_| Err(failure.clone())).collect(),
            };
            let mut rest = Vec::new();
            for ((number, creation, opened), created) in planned.into_iter().zip(created) {
                if let Ok(CreateOutcome::New(_)) = created {
                    results[number] = Some(Ok(Opened { is_created: true, ..opened }));
                    continue;
                }
                close_failed_open(&this.shared, opened.handle, creation.space);
                match created {
                    Err(failure) => results[number] = Some(Err(failure)),
                    // Another call, or another file of this one, was first with this path.
                    Ok(_) => rest.push((number, creation)),
                }
            }
            this.create_rest(rest, results, next);
        });
    }

    /// Decides whether to create a file or to open the existing one.
    fn plan(&self, creation: &FileCreation) -> Result<CreationPlan, Failure> {
        let interface = self.shared.interface()?;
        let FileCreation { space, who, path, access, is_new, mode, layout } = creation;
        while let Some(existing) = interface.namespace.check_create(who, path)? {
            if *is_new {
                return Err(Failure::Exists { path: path.clone() });
            }
            if existing.kind == FileKind::Directory {
                return Err(Failure::IsADirectory { path: path.clone() });
            }
            if existing.kind != layout.kind() {
                let why = match existing.kind {
                    FileKind::Extents => "it exists, as a file of extents, not of bytes",
                    _ => "it exists, as a file of bytes, not of extents",
                };
                let (path, why) = (path.to_string(), why.to_owned());
                return Err(Failure::WrongKind { path, why });
            }
            match self.open(interface, *space, who, path, *access) {
                // Another client has deleted the file since the lookup, so this call creates it.
                Err(Failure::NotFound { .. }) => {}
                opened => return opened.map(CreationPlan::Open),
            }
        }
        let layout = self.choose_layout(interface, path, layout)?;
        let now_ns = interface.namespace.now_ns();
        Ok(CreationPlan::Create(FileRecord {
            id: interface.namespace.new_file_id(),
            kind: creation.layout.kind(),
            layout: Some(layout),
            uid: who.uid,
            gid: who.gids.first().copied().unwrap_or(0),
            mode: mode & 0o777,
            created_ns: now_ns,
            changed_ns: now_ns,
            rights_version: 0,
            first_synced: Vec::new(),
        }))
    }

    /// Returns the layout of a new file.
    pub(super) fn choose_layout(
        &self,
        interface: &InterfaceState,
        path: &FilePath,
        choice: &LayoutChoice,
    ) -> Result<Layout, Failure> {
        let bad = |why: String| Failure::Layout { path: path.clone(), why };
        let choose = |choice: &DiskChoice| {
            let disks = self.choose_disks(interface, choice).map_err(bad)?;
            Disks::new(disks).map_err(|error| bad(error.to_string()))
        };
        let layout = match choice {
            LayoutChoice::Striped { unit_bytes, disks } => {
                let striped =
                    Striped::new(unit_bytes.unwrap_or(DEFAULT_UNIT_BYTES), choose(disks)?);
                Layout::from(striped.map_err(|error| bad(error.to_string()))?)
            }
            LayoutChoice::Extents { disks } => Layout::from(Extents::new(choose(disks)?)),
            LayoutChoice::Exactly(layout) => layout.clone(),
        };
        let map = self.shared.map.read();
        for &id in layout.disks().as_slice() {
            let Some((node, disk)) = map.disk(id) else {
                return Err(bad(format!(
                    "{id} is not a disk of this cluster; `pario df` lists them"
                )));
            };
            if disk.is_read_only {
                let name = map.disk_name(id);
                return Err(bad(format!("disk {name} is read-only: choose others")));
            }
            // A node that does not answer fails the creation, not the first write.
            if let Some(failure) = self.shared.peers.trouble(node as usize) {
                return Err(failure);
            }
        }
        Ok(layout)
    }

    /// Returns the disks for a new file. Each file begins on another disk.
    fn choose_disks(
        &self,
        interface: &InterfaceState,
        choice: &DiskChoice,
    ) -> Result<Vec<DiskId>, String> {
        if let DiskChoice::These(disks) = choice {
            return Ok(disks.clone());
        }
        let map = self.shared.map.read();
        let mut usable = Vec::new();
        let mut silent = Vec::new();
        for (number, node) in map.nodes.iter().enumerate() {
            if number != self.shared.me && !self.shared.peers.is_there(number) {
                silent.push(node.name.as_str());
                continue;
            }
            usable.extend(node.disks.iter().filter(|disk| !disk.is_read_only).map(|disk| disk.id));
        }
        let without = match silent.as_slice() {
            [] => String::new(),
            silent => format!(" (without node {}, which does not answer)", silent.join(", ")),
        };
        if usable.is_empty() {
            return Err(format!("there is no disk that can be written to{without}"));
        }
        let count = match choice {
            DiskChoice::Count(0) => return Err("zero disks cannot hold a file".to_owned()),
            DiskChoice::Count(count) if *count as usize > usable.len() => {
                return Err(format!(
                    "the layout asks for {count} disks, and {} can be written to{without}",
                    usable.len()
                ));
            }
            DiskChoice::Count(count) => *count as usize,
            _ => usable.len().min(Disks::MAX as usize),
        };
        let first = interface.next_first_disk.fetch_add(1, Ordering::Relaxed);
        let first = usize::try_from(first % usable.len() as u64).unwrap_or(0);
        usable.rotate_left(first);
        usable.truncate(count);
        Ok(usable)
    }
}

enum StartedCreation {
    /// A file without a name.
    New(Opened),
    /// An existing file.
    Open(Opened),
}

enum CreationPlan {
    Create(FileRecord),
    Open(Opened),
}

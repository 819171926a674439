//! The interface thread gives new files their names. Subfiles come into being later, each with its
//! first byte: so a file is there with one transaction, or it is not.

use std::sync::atomic::Ordering;

use pario_flow::Continuation;
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    Access, DEFAULT_UNIT_BYTES, DiskChoice, DiskId, Disks, Extents, Failure, FileKind, FilePath,
    FileRecord, Identity, Layout, LayoutChoice, Opened, Reply, ReplyMessage, Striped,
};

use super::answer;
use super::interface::{Interface, forget};
use crate::namespace::CreateOutcome;
use crate::shared::Names;

/// A file that is to be created.
pub struct Creation {
    /// The client's address space.
    pub space: SpaceId,
    /// As whom it is known.
    pub who: Identity,
    /// The path.
    pub path: FilePath,
    /// What it is opened for.
    pub access: Access,
    /// An existing file is an error.
    pub is_new: bool,
    /// Permissions.
    pub mode: u32,
    /// The layout wished for.
    pub layout: LayoutChoice,
}

impl Interface {
    /// Creates a file and opens it, or opens the one that is there.
    pub(super) fn create(&self, creation: Creation, next: Continuation<ReplyMessage<Bulk>>) {
        let (opened, names) = match (self.begin(&creation), self.shared.names()) {
            (Ok(Begun::New(opened)), Ok(names)) => (opened, names),
            (Ok(Begun::Open(opened)), _) => return next.call(answer(Ok(Reply::Opened(opened)))),
            (Err(failure), _) | (_, Err(failure)) => return next.call(answer(Err(failure))),
        };
        let this = self.clone();
        let (who, path) = (creation.who.clone(), creation.path.clone());
        names.namespace.create(who, path, opened.record.clone(), move |created| {
            let failure = match created {
                Ok(CreateOutcome::New(_)) => {
                    let opened = Opened { is_created: true, ..opened };
                    return next.call(answer(Ok(Reply::Opened(opened))));
                }
                Ok(CreateOutcome::Existed(_)) => None,
                Err(failure) => Some(failure),
            };
            forget(&this.shared, opened.handle, creation.space);
            match failure {
                Some(failure) => next.call(answer(Err(failure))),
                // Somebody else was first: the caller gets that file, or is told so.
                None => this.create(creation, next),
            }
        });
    }

    /// Opens a file that is there, or one that is going to get its name.
    fn begin(&self, creation: &Creation) -> Result<Begun, Failure> {
        let record = match self.plan(creation)? {
            Plan::Make(record) => record,
            Plan::Open(opened) => return Ok(Begun::Open(opened)),
        };
        let names = self.shared.names()?;
        let Creation { space, who, path, access, .. } = creation;
        let epoch = names.grant_epochs.lock().issue();
        // It is open before it has a name: who deletes it at once leaves it to its creator. Who
        // creates a file may use it, whatever its mode says.
        self.opened(names, *space, who, path, record, (*access, epoch)).map(Begun::New)
    }

    /// Creates files and opens them, or opens those that are there. All new names become durable with
    /// one transaction.
    pub(super) fn create_many(
        &self,
        creations: Vec<Creation>,
        next: Continuation<ReplyMessage<Bulk>>,
    ) {
        let results = creations.iter().map(|_| None).collect();
        let waiting = creations.into_iter().enumerate().collect();
        self.create_rest(waiting, results, next);
    }

    /// Creates those files of a request that have no result yet, with their numbers in the request.
    fn create_rest(
        &self,
        waiting: Vec<(usize, Creation)>,
        mut results: Vec<Option<Result<Opened, Failure>>>,
        next: Continuation<ReplyMessage<Bulk>>,
    ) {
        let mut planned = Vec::new();
        for (number, creation) in waiting {
            match self.begin(&creation) {
                Ok(Begun::New(opened)) => planned.push((number, creation, opened)),
                Ok(Begun::Open(opened)) => results[number] = Some(Ok(opened)),
                Err(failure) => results[number] = Some(Err(failure)),
            }
        }
        let (Some((_, first, _)), Ok(names)) = (planned.first(), self.shared.names()) else {
            let why = || "a file was neither created nor refused".to_owned();
            let lost = || Failure::Internal { node: self.shared.name().to_owned(), why: why() };
            let results = results.into_iter().map(|result| result.unwrap_or_else(|| Err(lost())));
            return next.call(answer(Ok(Reply::OpenedMany(results.collect()))));
        };
        let who = first.who.clone();
        let file = |(_, creation, opened): &(usize, Creation, Opened)| {
            (creation.path.clone(), opened.record.clone())
        };
        let files = planned.iter().map(file).collect();
        let this = self.clone();
        names.namespace.create_many(who, files, move |created| {
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
                forget(&this.shared, opened.handle, creation.space);
                match created {
                    Err(failure) => results[number] = Some(Err(failure)),
                    // Another call, or a file of this one, was first with this path.
                    Ok(_) => rest.push((number, creation)),
                }
            }
            this.create_rest(rest, results, next);
        });
    }

    /// What has to be done for a file to be there.
    fn plan(&self, creation: &Creation) -> Result<Plan, Failure> {
        let names = self.shared.names()?;
        let Creation { space, who, path, access, is_new, mode, layout } = creation;
        while let Some(existing) = names.namespace.check_create(who, path)? {
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
            match self.open(names, *space, who, path, *access) {
                // It was deleted since it was seen: it has to be made after all.
                Err(Failure::NotFound { .. }) => {}
                opened => return opened.map(Plan::Open),
            }
        }
        let layout = self.lay_out(names, path, layout)?;
        let now_ns = names.namespace.now_ns();
        Ok(Plan::Make(FileRecord {
            id: names.namespace.new_file_id(),
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

    /// The layout of a new file.
    fn lay_out(
        &self,
        names: &Names,
        path: &FilePath,
        wish: &LayoutChoice,
    ) -> Result<Layout, Failure> {
        let bad = |why: String| Failure::Layout { path: path.clone(), why };
        let choose = |wish: &DiskChoice| {
            let disks = self.choose(names, wish).map_err(bad)?;
            Disks::new(disks).map_err(|error| bad(error.to_string()))
        };
        let layout = match wish {
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
            // Better told now than with the first byte.
            if let Some(failure) = self.shared.peers.trouble(node as usize) {
                return Err(failure);
            }
        }
        Ok(layout)
    }

    /// The disks for a new file: beginning at a different one each time.
    fn choose(&self, names: &Names, wish: &DiskChoice) -> Result<Vec<DiskId>, String> {
        if let DiskChoice::These(disks) = wish {
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
        let count = match wish {
            DiskChoice::Count(0) => return Err("zero disks cannot hold a file".to_owned()),
            DiskChoice::Count(count) if *count as usize > usable.len() => {
                return Err(format!(
                    "{count} disks are wished for, and {} can be written to{without}",
                    usable.len()
                ));
            }
            DiskChoice::Count(count) => *count as usize,
            _ => usable.len().min(Disks::MAX as usize),
        };
        let first = names.next_first_disk.fetch_add(1, Ordering::Relaxed);
        let first = usize::try_from(first % usable.len() as u64).unwrap_or(0);
        usable.rotate_left(first);
        usable.truncate(count);
        Ok(usable)
    }
}

enum Begun {
    /// A file without a name.
    New(Opened),
    /// One that was there.
    Open(Opened),
}

enum Plan {
    Make(FileRecord),
    Open(Opened),
}

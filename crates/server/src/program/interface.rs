//! The interface thread: it keeps the names, and knows which files are open.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use pario_flow::Successor;
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    Access, Answer, DiskId, Disks, DisksWish, Extents, Failure, FileKind, FilePath, FileRecord,
    Identity, Layout, LayoutWish, NamespaceRequest, Opened, Reply, Striped,
};

use super::{Creation, NamesCall, RightsChange, answer};
use crate::namespace::Created;
use crate::open_files::OpenFile;
use crate::shared::{Names, Shared};

/// The striping unit of files whose creator does not choose one.
const UNIT_BYTES: u64 = 64 << 10;
/// The most names of one answer.
const LIST_LIMIT: usize = 4096;

/// The interface thread.
pub struct Interface {
    shared: Arc<Shared>,
}

impl Interface {
    /// The thread of a node.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Answers a request for names; those that change something are answered when the change is
    /// durable.
    pub fn serve(&mut self, call: NamesCall, next: Successor<Answer<Bulk>>) {
        let NamesCall { space, who, request } = call;
        let shared = self.shared.clone();
        let names = match shared.names() {
            Ok(names) => names,
            Err(failure) => return next.call(answer(Err(failure))),
        };
        let done = |next: Successor<Answer<Bulk>>| {
            move |result: Result<(), Failure>| next.call(answer(result.map(|()| Reply::Done)))
        };
        let namespace = &names.namespace;
        match request {
            NamespaceRequest::Open { path, access } => {
                let opened = self.open(names, space, &who, &path, access);
                next.call(answer(opened.map(Reply::Opened)));
            }
            NamespaceRequest::Close { handle } => {
                if let Some(record) = names.open_files.close(handle, space) {
                    names.janitor.remove(record);
                }
                next.call(answer(Ok(Reply::Done)));
            }
            NamespaceRequest::Renew { handle } => {
                let renewed = self.renew(names, space, handle);
                next.call(answer(renewed.map(Reply::Opened)));
            }
            NamespaceRequest::Settle { grant, subfiles } => {
                let checked = if grant.uid == who.uid {
                    self.shared.check_grant(&grant, false, true)
                } else {
                    let why = "it was given to another user".to_owned();
                    Err(Failure::BadGrant { file: grant.file, why })
                };
                match checked {
                    Ok(()) => namespace.settle(grant.file, subfiles, done(next)),
                    Err(failure) => next.call(answer(Err(failure))),
                }
            }
            NamespaceRequest::Stat { path } => {
                let found = namespace.lookup(&who, &path, Access::LOOK);
                next.call(answer(found.map(|record| {
                    let grant = self.look_grant(&who, &record);
                    Reply::Stat { record, grant }
                })));
            }
            NamespaceRequest::List { path, after, limit } => {
                let limit = (limit as usize).min(LIST_LIMIT);
                let listed = namespace.list(&who, &path, after.as_deref(), limit);
                next.call(answer(listed.map(|(entries, is_more)| {
                    let grant = |entry: &pario_proto::Entry| self.look_grant(&who, &entry.record);
                    let grants = entries.iter().map(grant).collect();
                    Reply::Entries { entries, grants, is_more }
                })));
            }
            NamespaceRequest::MakeDirectory { path, mode } => {
                namespace.make_directory(who, path, mode, move |made| {
                    done(next)(made.map(|_| ()));
                });
            }
            NamespaceRequest::RemoveDirectory { path } => {
                namespace.remove_directory(who, path, done(next));
            }
            NamespaceRequest::Remove { path } => {
                let shared = shared.clone();
                namespace.remove(who, path, move |removed| {
                    done(next)(removed.map(|record| let_go(&shared, record)));
                });
            }
            NamespaceRequest::Rename { from, to } => {
                let shared = shared.clone();
                namespace.rename(who, from, to, move |renamed| {
                    done(next)(renamed.map(|renamed| {
                        if let Some(record) = renamed.replaced {
                            let_go(&shared, record);
                        }
                    }));
                });
            }
            NamespaceRequest::Create { .. } | NamespaceRequest::SetRights { .. } => {
                let why = "a request came to the wrong operation".to_owned();
                let node = shared.name().to_owned();
                next.call(answer(Err(Failure::Internal { node, why })));
            }
        }
    }

    /// Changes rights; the operation goes on to tell all nodes.
    pub fn set_rights(&mut self, call: NamesCall, next: Successor<RightsChange>) {
        let nodes = self.shared.config.nodes.len() as u64;
        let names = match self.shared.names() {
            Ok(names) => names,
            Err(failure) => return next.call(RightsChange { result: Err(failure), nodes }),
        };
        let NamespaceRequest::SetRights { path, mode, uid, gid } = call.request else {
            return next.fail("a request came to the wrong operation");
        };
        names.namespace.set_rights(call.who, path, mode, uid, gid, move |result| {
            next.call(RightsChange { result, nodes });
        });
    }

    /// Decides what has to be made for a file to be there.
    pub fn plan(&mut self, mut creation: Creation) -> Creation {
        if let Err(failure) = self.try_plan(&mut creation) {
            creation.failure = Some(failure);
        }
        creation
    }

    fn try_plan(&self, creation: &mut Creation) -> Result<(), Failure> {
        let names = self.shared.names()?;
        let Creation { space, who, path, access, .. } = &*creation;
        if let Some(existing) = names.namespace.check_create(who, path)? {
            if creation.is_new {
                return Err(Failure::Exists { path: path.clone() });
            }
            if existing.kind == FileKind::Directory {
                return Err(Failure::IsADirectory { path: path.clone() });
            }
            if existing.kind != creation.layout.kind() {
                let why = match existing.kind {
                    FileKind::Extents => "it exists, as a file of extents, not of bytes",
                    _ => "it exists, as a file of bytes, not of extents",
                };
                let (path, why) = (path.to_string(), why.to_owned());
                return Err(Failure::WrongKind { path, why });
            }
            creation.opened = Some(self.open(names, *space, who, path, *access)?);
            return Ok(());
        }
        let (layout, targets) = self.lay_out(names, path, &creation.layout)?;
        let now_ns = now_ns();
        creation.record = Some(FileRecord {
            id: names.namespace.new_file_id(),
            kind: creation.layout.kind(),
            layout: Some(layout),
            uid: who.uid,
            gid: who.gids.first().copied().unwrap_or(0),
            mode: creation.mode & 0o777,
            created_ns: now_ns,
            changed_ns: now_ns,
            rights_version: 0,
            settled: Vec::new(),
        });
        creation.targets = targets;
        Ok(())
    }

    /// The layout of a new file, and the nodes that have its disks.
    fn lay_out(
        &self,
        names: &Names,
        path: &FilePath,
        wish: &LayoutWish,
    ) -> Result<(Layout, Vec<usize>), Failure> {
        let bad = |why: String| Failure::Layout { path: path.clone(), why };
        let choose = |wish: &DisksWish| {
            let disks = self.choose(names, wish).map_err(bad)?;
            Disks::new(disks).map_err(|error| bad(error.to_string()))
        };
        let layout = match wish {
            LayoutWish::Striped { unit_bytes, disks } => {
                let striped = Striped::new(unit_bytes.unwrap_or(UNIT_BYTES), choose(disks)?);
                Layout::from(striped.map_err(|error| bad(error.to_string()))?)
            }
            LayoutWish::Extents { disks } => Layout::from(Extents::new(choose(disks)?)),
            LayoutWish::Exactly(layout) => layout.clone(),
        };
        let map = self.shared.map.read();
        let mut targets = BTreeSet::new();
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
            targets.insert(node as usize);
        }
        Ok((layout, targets.into_iter().collect()))
    }

    /// The disks for a new file: beginning at a different one each time.
    fn choose(&self, names: &Names, wish: &DisksWish) -> Result<Vec<DiskId>, String> {
        if let DisksWish::These(disks) = wish {
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
            DisksWish::Count(0) => return Err("zero disks cannot hold a file".to_owned()),
            DisksWish::Count(count) if *count as usize > usable.len() => {
                return Err(format!(
                    "{count} disks are wished for, and {} can be written to{without}",
                    usable.len()
                ));
            }
            DisksWish::Count(count) => *count as usize,
            _ => usable.len().min(Disks::MAX as usize),
        };
        let first = names.next_first_disk.fetch_add(1, Ordering::Relaxed);
        let first = usize::try_from(first % usable.len() as u64).unwrap_or(0);
        usable.rotate_left(first);
        usable.truncate(count);
        Ok(usable)
    }

    /// All subfiles are there: the file gets its name.
    pub fn enter(&mut self, mut creation: Creation, next: Successor<Creation>) {
        let (Ok(names), Some(record)) = (self.shared.names(), creation.record.clone()) else {
            return next.fail("a file was created by a node that keeps no names");
        };
        let shared = self.shared.clone();
        let (who, path) = (creation.who.clone(), creation.path.clone());
        // It is open before it has a name: who deletes it at once leaves it to its creator. Who
        // creates a file may use it, whatever its mode says.
        let opened = self.opened(names, creation.space, &who, record.clone(), creation.access);
        names.namespace.create(who, path, record.clone(), move |created| {
            match created {
                Ok(Created::New(_)) => creation.opened = Some(opened),
                Ok(Created::Existed(_)) => {
                    // Somebody else was first: the caller gets that file, or is told so.
                    forget(&shared, opened.handle, creation.space);
                    creation.record = None;
                    return doom(&shared, record, move || next.call(creation));
                }
                Err(failure) => {
                    forget(&shared, opened.handle, creation.space);
                    creation.failure = Some(failure);
                    return doom(&shared, record, move || next.call(creation));
                }
            }
            next.call(creation);
        });
    }

    /// Some subfiles could not be made: the others go.
    pub fn roll_back(&mut self, creation: Creation, next: Successor<Creation>) {
        match creation.record.clone() {
            Some(record) => doom(&self.shared, record, move || next.call(creation)),
            None => next.call(creation),
        }
    }

    /// Opens what was created.
    pub fn finish(&mut self, creation: Creation) -> Answer<Bulk> {
        let is_created = creation.record.is_some();
        let opened = match (creation.failure, creation.opened) {
            (Some(failure), _) => Err(failure),
            (None, Some(opened)) => Ok(opened),
            (None, None) if creation.is_new => Err(Failure::Exists { path: creation.path }),
            (None, None) => self.shared.names().and_then(|names| {
                let (who, path) = (&creation.who, &creation.path);
                self.open(names, creation.space, who, path, creation.access)
            }),
        };
        answer(opened.map(|opened| Reply::Opened(Opened { is_created, ..opened })))
    }

    fn open(
        &self,
        names: &Names,
        space: SpaceId,
        who: &Identity,
        path: &FilePath,
        access: Access,
    ) -> Result<Opened, Failure> {
        let record = names.namespace.lookup(who, path, access)?;
        if record.kind == FileKind::Directory {
            return Err(Failure::IsADirectory { path: path.clone() });
        }
        let opened = self.opened(names, space, who, record, access);
        // It may have been deleted since it was looked up, before it was known to be open.
        let file = opened.record.id;
        if names.namespace.record(file)?.is_none() && !names.open_files.is_kept(file) {
            forget(&self.shared, opened.handle, space);
            return Err(Failure::NotFound { path: path.clone() });
        }
        Ok(opened)
    }

    fn opened(
        &self,
        names: &Names,
        space: SpaceId,
        who: &Identity,
        record: FileRecord,
        access: Access,
    ) -> Opened {
        let grant = self.shared.grants.grant(record.id, who.uid, access, record.rights_version);
        let identity = who.clone();
        let file = OpenFile { space, identity, record: record.clone(), access };
        let handle = names.open_files.open(file);
        Opened { record, grant, handle, is_created: false }
    }

    /// Another grant for an open file, if the rights are still enough.
    fn renew(&self, names: &Names, space: SpaceId, handle: u64) -> Result<Opened, Failure> {
        let node = self.shared.name().to_owned();
        let Some(open) = names.open_files.get(handle, space) else {
            return Err(Failure::StaleHandle { node });
        };
        let file = open.record.id;
        let Some(path) = names.namespace.path_of(file)? else {
            // Deleted, but still open: rights cannot change any more.
            let grant = self.shared.grants.grant(file, open.identity.uid, open.access, u32::MAX);
            return Ok(Opened { record: open.record, grant, handle, is_created: false });
        };
        let record = names.namespace.lookup(&open.identity, &path, open.access)?;
        if record.id != file {
            return Err(Failure::StaleHandle { node });
        }
        let uid = open.identity.uid;
        let grant = self.shared.grants.grant(file, uid, open.access, record.rights_version);
        Ok(Opened { record, grant, handle, is_created: false })
    }

    fn look_grant(&self, who: &Identity, record: &FileRecord) -> Option<pario_proto::Grant> {
        record.layout.as_ref()?;
        let grants = &self.shared.grants;
        Some(grants.grant(record.id, who.uid, Access::LOOK, record.rights_version))
    }
}

/// A file was deleted: its subfiles go when nobody has it open.
fn let_go(shared: &Shared, record: FileRecord) {
    if let Some(names) = &shared.names
        && let Some(record) = names.open_files.delete(record)
    {
        names.janitor.remove(record);
    }
}

/// A file is not open after all.
fn forget(shared: &Shared, handle: u64, space: SpaceId) {
    if let Some(names) = &shared.names
        && let Some(record) = names.open_files.close(handle, space)
    {
        names.janitor.remove(record);
    }
}

/// A file that never got its name: its subfiles go, also if this node is killed meanwhile. Goes on
/// when that is certain.
fn doom(shared: &Arc<Shared>, record: FileRecord, go_on: impl FnOnce() + Send + 'static) {
    let Some(names) = &shared.names else { return go_on() };
    let then = shared.clone();
    names.namespace.doom(record.clone(), move |doomed| {
        if let Err(failure) = doomed {
            tracing::warn!(%failure, "a file that could not be created leaves subfiles behind");
        }
        if let Some(names) = &then.names {
            names.janitor.remove(record);
        }
        go_on();
    });
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

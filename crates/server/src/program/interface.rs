//! The interface thread: it keeps the names, and knows which files are open.

use std::sync::Arc;

use pario_flow::Successor;
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    Access, Answer, Entry, Failure, FileKind, FilePath, FileRecord, Grant, Identity, NAMES_LISTED,
    NamespaceRequest, Opened, Reply, SealedDeed,
};

use super::creating::Creation;
use super::{NamesCall, RightsChange, answer};
use crate::limits::Resource;
use crate::open_files::OpenFile;
use crate::shared::{Names, Shared};

/// The interface thread.
#[derive(Clone)]
pub struct Interface {
    pub(super) shared: Arc<Shared>,
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
                names.close(handle, space);
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
                    Ok(()) => {
                        let this = self.clone();
                        namespace.settle(grant.file, subfiles, move |settled| {
                            let deed = settled.and_then(|()| this.new_deed(grant));
                            next.call(answer(deed.map(|deed| Reply::Settled { deed })));
                        });
                    }
                    Err(failure) => next.call(answer(Err(failure))),
                }
            }
            NamespaceRequest::Stat { path } => {
                let found = namespace.lookup(&who, &path, Access::LOOK);
                next.call(answer(found.map(|record| {
                    let grant = self.look_grant(&who, &path, &record);
                    Reply::Stat { record, grant }
                })));
            }
            NamespaceRequest::List { path, after, limit } => {
                let limit = (limit as usize).min(NAMES_LISTED);
                let listed = namespace.list(&who, &path, after.as_deref(), limit);
                next.call(answer(listed.map(|(entries, is_more)| {
                    let grant = |entry: &Entry| {
                        self.look_grant(&who, &path.join(&entry.name).ok()?, &entry.record)
                    };
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
            NamespaceRequest::Create { path, access, is_new, mode, layout } => {
                let creation = Creation { space, who, path, access, is_new, mode, layout };
                self.create(creation, next);
            }
            NamespaceRequest::SetRights { .. } => {
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

    pub(super) fn open(
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
        let opened = self.opened(names, space, who, path, record, access)?;
        // It may have been deleted since it was looked up, before it was known to be open.
        let file = opened.record.id;
        if names.namespace.record(file)?.is_none() && !names.open_files.is_kept(file) {
            forget(&self.shared, opened.handle, space);
            return Err(Failure::NotFound { path: path.clone() });
        }
        Ok(opened)
    }

    pub(super) fn opened(
        &self,
        names: &Names,
        space: SpaceId,
        who: &Identity,
        path: &FilePath,
        record: FileRecord,
        access: Access,
    ) -> Result<Opened, Failure> {
        let share = self.shared.quotas.account(who.uid).take(Resource::Handles, 1)?;
        let mut grant = self.shared.grants.grant(record.id, who.uid, access, record.rights_version);
        grant.deed = self.shared.grants.deed(path, &record);
        let (identity, path) = (who.clone(), path.clone());
        let file = OpenFile { space, identity, path, record: record.clone(), access };
        let handle = names.open_files.open(file, share);
        Ok(Opened { record, grant, handle, is_created: false })
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
            let grants = &self.shared.grants;
            let mut grant = grants.grant(file, open.identity.uid, open.access, u32::MAX);
            grant.deed = grants.deed(&open.path, &open.record);
            return Ok(Opened { record: open.record, grant, handle, is_created: false });
        };
        let record = names.namespace.lookup(&open.identity, &path, open.access)?;
        if record.id != file {
            return Err(Failure::StaleHandle { node });
        }
        let uid = open.identity.uid;
        let mut grant = self.shared.grants.grant(file, uid, open.access, record.rights_version);
        grant.deed = self.shared.grants.deed(&path, &record);
        Ok(Opened { record, grant, handle, is_created: false })
    }

    /// The deed of a file as it is now; that of the grant if the file was deleted.
    fn new_deed(&self, grant: Grant) -> Result<Option<SealedDeed>, Failure> {
        let namespace = &self.shared.names()?.namespace;
        let (record, path) = (namespace.record(grant.file)?, namespace.path_of(grant.file)?);
        Ok(match record.zip(path) {
            Some((record, path)) => self.shared.grants.deed(&path, &record),
            None => grant.deed,
        })
    }

    fn look_grant(&self, who: &Identity, path: &FilePath, record: &FileRecord) -> Option<Grant> {
        record.layout.as_ref()?;
        let grants = &self.shared.grants;
        let mut grant = grants.grant(record.id, who.uid, Access::LOOK, record.rights_version);
        grant.deed = grants.deed(path, record);
        Some(grant)
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
pub(super) fn forget(shared: &Shared, handle: u64, space: SpaceId) {
    if let Some(names) = &shared.names {
        names.close(handle, space);
    }
}

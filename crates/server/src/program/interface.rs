//! The interface thread: it keeps the names, and knows which files are open.

use std::sync::Arc;
use std::time::Duration;

use pario_flow::Continuation;
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    Access, DirectoryEntry, FILES_LIMIT, Failure, FileId, FileKind, FilePath, FileRecord, Grant,
    Identity, NAMES_LISTED, NamespaceRequest, NewFile, NodeInfo, Opened, Reply, ReplyMessage,
    SubfileIndex,
};

use super::creating::Creation;
use super::{NamesCall, RightsChange, answer};
use crate::limits::Resource;
use crate::namespace::{RightsUpdate, SyncMark};
use crate::open_files::OpenFile;
use crate::shared::{Names, Shared};

/// A change of rights waits for the descriptions of slow disks no longer than this.
const DESCRIBE_WAIT: Duration = Duration::from_secs(2);

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
    pub fn serve(&mut self, call: NamesCall, next: Continuation<ReplyMessage<Bulk>>) {
        let NamesCall { space, who, request } = call;
        let shared = self.shared.clone();
        let names = match shared.names() {
            Ok(names) => names,
            Err(failure) => return next.call(answer(Err(failure))),
        };
        let done = |next: Continuation<ReplyMessage<Bulk>>| {
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
            NamespaceRequest::Renew { handle, grant } => {
                let renewed = self.renew(names, space, &who, handle, &grant);
                next.call(answer(renewed.map(Reply::Opened)));
            }
            NamespaceRequest::MarkSynced { grant, subfiles } => match self.check_mark(&who, &grant)
            {
                Ok(()) => mark_synced(&shared, grant.file, subfiles, done(next)),
                Err(failure) => next.call(answer(Err(failure))),
            },
            NamespaceRequest::Stat { path } => {
                let epoch = names.grant_epochs.lock().issue();
                let found = namespace.lookup(&who, &path, Access::LOOK);
                next.call(answer(found.map(|record| {
                    let grant = self.look_grant(&who, &record, epoch);
                    Reply::Stat { record, grant }
                })));
            }
            NamespaceRequest::List { path, after, limit } => {
                let limit = (limit as usize).min(NAMES_LISTED);
                let epoch = names.grant_epochs.lock().issue();
                let listed = namespace.list(&who, &path, after.as_deref(), limit);
                next.call(answer(listed.map(|(entries, is_more)| {
                    let grant =
                        |entry: &DirectoryEntry| self.look_grant(&who, &entry.record, epoch);
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
                        if let (Some(file), Some(names)) = (renamed.file, &shared.names) {
                            names.describer.renamed(file);
                        }
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
            NamespaceRequest::SetDirectoryTime { path, changed_ns } => {
                namespace.set_directory_time(who, path, changed_ns, done(next));
            }
            NamespaceRequest::OpenMany { paths, access } => {
                next.call(answer(self.check_count(paths.len()).map(|()| {
                    let open = |path| self.open(names, space, &who, path, access);
                    Reply::OpenedMany(paths.iter().map(open).collect())
                })));
            }
            NamespaceRequest::CreateMany { files, access, is_new, layout } => {
                if let Err(failure) = self.check_count(files.len()) {
                    return next.call(answer(Err(failure)));
                }
                let creation = |NewFile { path, mode }| {
                    let (who, layout) = (who.clone(), layout.clone());
                    Creation { space, who, path, access, is_new, mode, layout }
                };
                self.create_many(files.into_iter().map(creation).collect(), next);
            }
            NamespaceRequest::CloseMany { handles } => {
                let closed = self.check_count(handles.len()).map(|()| {
                    handles.into_iter().for_each(|handle| names.close(handle, space));
                    Reply::Done
                });
                next.call(answer(closed));
            }
            NamespaceRequest::MarkSyncedMany { files } => {
                if let Err(failure) = self.check_count(files.len()) {
                    return next.call(answer(Err(failure)));
                }
                let check = |(grant, subfiles): (Grant, _)| {
                    self.check_mark(&who, &grant).map(|()| (grant.file, subfiles))
                };
                let files = files.into_iter().map(check).collect();
                mark_many_synced(&shared, files, move |marked| {
                    next.call(answer(marked.map(Reply::Each)));
                });
            }
            NamespaceRequest::RemoveMany { entries } => {
                if let Err(failure) = self.check_count(entries.len()) {
                    return next.call(answer(Err(failure)));
                }
                let shared = shared.clone();
                namespace.remove_many(who, entries, move |removed| {
                    let let_go = |removed: Result<Option<FileRecord>, Failure>| {
                        removed.map(|record| {
                            if let Some(record) = record {
                                let_go(&shared, record);
                            }
                        })
                    };
                    let each = removed.map(|removed| removed.into_iter().map(let_go).collect());
                    next.call(answer(each.map(Reply::Each)));
                });
            }
            NamespaceRequest::SetRights { .. } => {
                let why = "a request came to the wrong operation".to_owned();
                let node = shared.name().to_owned();
                next.call(answer(Err(Failure::Internal { node, why })));
            }
        }
    }

    /// That a request names no more files than one may.
    fn check_count(&self, files: usize) -> Result<(), Failure> {
        if files <= FILES_LIMIT {
            return Ok(());
        }
        let why = format!("a request takes at most {FILES_LIMIT} files, and this one has {files}");
        Err(Failure::Refused { node: self.shared.name().to_owned(), why })
    }

    /// That a user may mark subfiles of a file as synced.
    fn check_mark(&self, who: &Identity, grant: &Grant) -> Result<(), Failure> {
        if grant.uid == who.uid {
            return self.shared.check_grant(grant, false, true);
        }
        let why = "it was given to another user".to_owned();
        Err(Failure::BadGrant { file: grant.file, why })
    }

    /// Changes rights; the operation goes on to tell all nodes.
    pub fn set_rights(&mut self, call: NamesCall, next: Continuation<RightsChange>) {
        let change = |shared: &Shared, result: Result<FileRecord, Failure>| {
            let (nodes, epoch) =
                (nodes_of(shared, result.as_ref().ok()), shared.known_grant_epoch());
            RightsChange { result, epoch, nodes, untold: Vec::new() }
        };
        let shared = self.shared.clone();
        let names = match shared.names() {
            Ok(names) => names,
            Err(failure) => return next.call(change(&shared, Err(failure))),
        };
        let NamespaceRequest::SetRights { path, mode, uid, gid } = call.request else {
            return next.fail("a request came to the wrong operation");
        };
        let (after, who, of) = (shared.clone(), call.who, path.clone());
        let (update, by) = (RightsUpdate { mode, uid, gid }, who.uid);
        names.namespace.set_rights(who, path, update, move |result| {
            if let (Ok(changed), Some(names)) = (&result, &after.names) {
                names.grant_epochs.lock().note_revocation();
                let client = after.sessions.name_of(call.space).unwrap_or_default();
                after.audit.note_rights((by, &client), &of, &changed.before, &changed.after);
            }
            next.call(change(&after, result.map(|changed| changed.after)));
        });
    }

    /// Has new rights written into the descriptions on the disks, as far as their nodes are there and
    /// answer soon; the others get them later.
    pub fn describe_rights(&mut self, change: RightsChange, next: Continuation<RightsChange>) {
        let Some(names) = &self.shared.names else { return next.call(change) };
        let known = change.result.as_ref().ok().map(|record| names.namespace.known_file(record.id));
        match known {
            Some(Ok(Some(file))) => {
                let (files, wait) = (vec![file], Some(DESCRIBE_WAIT));
                names.describer.deliver(&self.shared, files, wait, move |_| next.call(change));
            }
            _ => next.call(change),
        }
    }

    pub(super) fn open(
        &self,
        names: &Names,
        space: SpaceId,
        who: &Identity,
        path: &FilePath,
        access: Access,
    ) -> Result<Opened, Failure> {
        let epoch = names.grant_epochs.lock().issue();
        let record = names.namespace.lookup(who, path, access)?;
        if record.kind == FileKind::Directory {
            return Err(Failure::IsADirectory { path: path.clone() });
        }
        let opened = self.opened(names, space, who, path, record, (access, epoch))?;
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
        (access, epoch): (Access, u64),
    ) -> Result<Opened, Failure> {
        let share = self.shared.quotas.account(who.uid).take(Resource::Handles, 1)?;
        let (grants, version) = (&self.shared.grants, record.rights_version);
        let grant = grants.grant(record.id, who.uid, access, version, epoch);
        let (identity, path) = (who.clone(), path.clone());
        let file = OpenFile { space, identity, path, record: record.clone(), access };
        let handle = names.open_files.open(file, share);
        let renew_after_ms = names.grant_epochs.lock().renew_after_ms();
        Ok(Opened { record, grant, handle, is_created: false, renew_after_ms })
    }

    fn look_grant(&self, who: &Identity, record: &FileRecord, epoch: u64) -> Option<Grant> {
        record.layout.as_ref()?;
        let (grants, version) = (&self.shared.grants, record.rights_version);
        Some(grants.grant(record.id, who.uid, Access::LOOK, version, epoch))
    }
}

/// Notes which subfiles of a file have been synced.
///
/// The descriptions on the disks say so before the namespace does, and before the sync is
/// acknowledged: so what was synced and is lost is known to be lost after a rebuild too. A file with
/// a single synced subfile needs no description to say so: it is there, or the file is unknown.
fn mark_synced(
    shared: &Arc<Shared>,
    file: FileId,
    subfiles: Vec<SubfileIndex>,
    done: impl FnOnce(Result<(), Failure>) + Send + 'static,
) {
    let names = match shared.names() {
        Ok(names) => names,
        Err(failure) => return done(Err(failure)),
    };
    match names.namespace.if_newly_synced(file, &subfiles) {
        Ok(Some(known)) if known.record.first_synced_count() > 1 => {
            let of = shared.clone();
            names.describer.deliver(shared, vec![known], None, move |is_done| match of.names() {
                Ok(names) => {
                    let is_description_pending = !is_done;
                    let mark = SyncMark { file, subfiles, is_description_pending };
                    names.namespace.mark_synced(mark, done);
                }
                Err(failure) => done(Err(failure)),
            });
        }
        Ok(_) => {
            let mark = SyncMark { file, subfiles, is_description_pending: false };
            names.namespace.mark_synced(mark, done);
        }
        Err(failure) => done(Err(failure)),
    }
}

/// The same for several files, with one transaction for all. Files that cannot be marked come with
/// their failure, and get it back.
fn mark_many_synced(
    shared: &Arc<Shared>,
    files: Vec<Result<(FileId, Vec<SubfileIndex>), Failure>>,
    done: impl FnOnce(Result<Vec<Result<(), Failure>>, Failure>) + Send + 'static,
) {
    let names = match shared.names() {
        Ok(names) => names,
        Err(failure) => return done(Err(failure)),
    };
    let mut results: Vec<Result<(), Failure>> = Vec::with_capacity(files.len());
    let (mut numbers, mut marks, mut described) = (Vec::new(), Vec::new(), Vec::new());
    for (number, file) in files.into_iter().enumerate() {
        let news = file.and_then(|(file, subfiles)| {
            let news = names.namespace.if_newly_synced(file, &subfiles)?;
            Ok(news
                .map(|known| (known, SyncMark { file, subfiles, is_description_pending: false })))
        });
        match news {
            Ok(Some((known, mut mark))) => {
                if known.record.first_synced_count() > 1 {
                    // Until the descriptions say so.
                    mark.is_description_pending = true;
                    described.push(known);
                }
                numbers.push(number);
                marks.push(mark);
                results.push(Ok(()));
            }
            Ok(None) => results.push(Ok(())),
            Err(failure) => results.push(Err(failure)),
        }
    }
    if marks.is_empty() {
        return done(Ok(results));
    }
    let of = shared.clone();
    let mark = move |is_described: bool| {
        let names = match of.names() {
            Ok(names) => names,
            Err(failure) => return done(Err(failure)),
        };
        for mark in &mut marks {
            mark.is_description_pending &= !is_described;
        }
        names.namespace.mark_synced_many(marks, move |marked| {
            done(marked.map(|marked| {
                for (number, marked) in numbers.into_iter().zip(marked) {
                    results[number] = marked;
                }
                results
            }));
        });
    };
    match described.is_empty() {
        true => mark(true),
        false => names.describer.deliver(shared, described, None, mark),
    }
}

/// The names of all nodes, and whether each holds a part of a file.
fn nodes_of(shared: &Shared, record: Option<&FileRecord>) -> Vec<(String, bool)> {
    let layout = record.and_then(|record| record.layout.as_ref());
    let disks = layout.map(|layout| layout.disks().as_slice()).unwrap_or_default();
    let map = shared.map.read();
    let has_part = |node: &NodeInfo| node.disks.iter().any(|disk| disks.contains(&disk.id));
    map.nodes.iter().map(|node| (node.name.clone(), has_part(node))).collect()
}

/// A file was deleted: its subfiles go when nobody has it open.
fn let_go(shared: &Shared, record: FileRecord) {
    let Some(names) = &shared.names else { return };
    names.grant_epochs.lock().note_revocation();
    if let Some(record) = names.open_files.delete(record) {
        names.janitor.remove(record);
    }
}

/// A file is not open after all.
pub(super) fn forget(shared: &Shared, handle: u64, space: SpaceId) {
    if let Some(names) = &shared.names {
        names.close(handle, space);
    }
}

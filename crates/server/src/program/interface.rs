//! The interface thread: serves the namespace, and tracks open files.

use std::sync::Arc;
use std::time::Duration;

use pario_flow::Continuation;
use pario_net::{Bulk, SpaceId};
use pario_proto::{
    Access, DirectoryEntry, FILES_LIMIT, Failure, FileId, FileKind, FilePath, FileRecord, Grant,
    Identity, NAMES_LISTED, NamespaceRequest, NewFile, NodeInfo, Opened, Reply, ReplyMessage,
    SubfileIndex,
};

use super::file_creation::FileCreation;
use super::{NamespaceCall, RightsChange, plain_reply};
use crate::limits::Resource;
use crate::namespace::{RightsUpdate, SyncMark};
use crate::node_state::{InterfaceState, NodeState};
use crate::open_files::OpenFile;

/// How long a change of rights waits for the descriptions of slow disks.
const DESCRIBE_WAIT: Duration = Duration::from_secs(2);

/// The interface thread.
#[derive(Clone)]
pub struct Interface {
    pub(super) shared: Arc<NodeState>,
}

impl Interface {
    /// Creates the thread of a node.
    pub fn new(shared: Arc<NodeState>) -> Self {
        Self { shared }
    }

    /// Serves a namespace request. Replies to a change when it is durable.
    pub fn serve(&mut self, call: NamespaceCall, next: Continuation<ReplyMessage<Bulk>>) {
        let NamespaceCall { space, who, request } = call;
        let shared = self.shared.clone();
        let interface = match shared.interface() {
            Ok(interface) => interface,
            Err(failure) => return next.call(plain_reply(Err(failure))),
        };
        let done = |next: Continuation<ReplyMessage<Bulk>>| {
            move |result: Result<(), Failure>| next.call(plain_reply(result.map(|()| Reply::Done)))
        };
        let namespace = &interface.namespace;
        match request {
            NamespaceRequest::Open { path, access } => {
                let opened = self.open(interface, space, &who, &path, access);
                next.call(plain_reply(opened.map(Reply::Opened)));
            }
            NamespaceRequest::Close { handle } => {
                interface.close(handle, space);
                next.call(plain_reply(Ok(Reply::Done)));
            }
            NamespaceRequest::Renew { handle, grant } => {
                let renewed = self.renew(interface, space, &who, handle, &grant);
                next.call(plain_reply(renewed.map(Reply::Opened)));
            }
            NamespaceRequest::MarkSynced { grant, subfiles } => match self.check_mark(&who, &grant)
            {
                Ok(()) => mark_synced(&shared, grant.file, subfiles, done(next)),
                Err(failure) => next.call(plain_reply(Err(failure))),
            },
            NamespaceRequest::Stat { path } => {
                let epoch = interface.grant_epochs.lock().issue();
                let found = namespace.lookup(&who, &path, Access::LOOK);
                next.call(plain_reply(found.map(|record| {
                    let grant = self.look_grant(&who, &record, epoch);
                    Reply::Stat { record, grant }
                })));
            }
            NamespaceRequest::List { path, after, limit } => {
                let limit = (limit as usize).min(NAMES_LISTED);
                let epoch = interface.grant_epochs.lock().issue();
                let listed = namespace.list(&who, &path, after.as_deref(), limit);
                next.call(plain_reply(listed.map(|(entries, is_more)| {
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
                    done(next)(removed.map(|record| release(&shared, record)));
                });
            }
            NamespaceRequest::Rename { from, to } => {
                let shared = shared.clone();
                namespace.rename(who, from, to, move |renamed| {
                    done(next)(renamed.map(|renamed| {
                        if let (Some(file), Some(interface)) = (renamed.file, &shared.interface) {
                            interface.description_writer.note_rename(file);
                        }
                        if let Some(record) = renamed.replaced {
                            release(&shared, record);
                        }
                    }));
                });
            }
            NamespaceRequest::Create { path, access, is_new, mode, layout } => {
                let creation = FileCreation { space, who, path, access, is_new, mode, layout };
                self.create(creation, next);
            }
            NamespaceRequest::SetDirectoryTime { path, changed_ns } => {
                namespace.set_directory_time(who, path, changed_ns, done(next));
            }
            NamespaceRequest::OpenMany { paths, access } => {
                next.call(plain_reply(self.check_count(paths.len()).map(|()| {
                    let open = |path| self.open(interface, space, &who, path, access);
                    Reply::OpenedMany(paths.iter().map(open).collect())
                })));
            }
            NamespaceRequest::CreateMany { files, access, is_new, layout } => {
                if let Err(failure) = self.check_count(files.len()) {
                    return next.call(plain_reply(Err(failure)));
                }
                let creation = |NewFile { path, mode }| {
                    let (who, layout) = (who.clone(), layout.clone());
                    FileCreation { space, who, path, access, is_new, mode, layout }
                };
                self.create_many(files.into_iter().map(creation).collect(), next);
            }
            NamespaceRequest::CloseMany { handles } => {
                let closed = self.check_count(handles.len()).map(|()| {
                    handles.into_iter().for_each(|handle| interface.close(handle, space));
                    Reply::Done
                });
                next.call(plain_reply(closed));
            }
            NamespaceRequest::MarkSyncedMany { files } => {
                if let Err(failure) = self.check_count(files.len()) {
                    return next.call(plain_reply(Err(failure)));
                }
                let check = |(grant, subfiles): (Grant, _)| {
                    self.check_mark(&who, &grant).map(|()| (grant.file, subfiles))
                };
                let files = files.into_iter().map(check).collect();
                mark_many_synced(&shared, files, move |marked| {
                    next.call(plain_reply(marked.map(Reply::Each)));
                });
            }
            NamespaceRequest::RemoveMany { entries } => {
                if let Err(failure) = self.check_count(entries.len()) {
                    return next.call(plain_reply(Err(failure)));
                }
                let shared = shared.clone();
                namespace.remove_many(who, entries, move |removed| {
                    let release = |removed: Result<Option<FileRecord>, Failure>| {
                        removed.map(|record| {
                            if let Some(record) = record {
                                release(&shared, record);
                            }
                        })
                    };
                    let each = removed.map(|removed| removed.into_iter().map(release).collect());
                    next.call(plain_reply(each.map(Reply::Each)));
                });
            }
            NamespaceRequest::SetLayout { handle, layout } => {
                self.set_layout(space, handle, layout, next);
            }
            NamespaceRequest::SetRights { .. } => {
                let why = "a request came to the wrong operation".to_owned();
                let node = shared.name().to_owned();
                next.call(plain_reply(Err(Failure::Internal { node, why })));
            }
        }
    }

    /// Checks that a request does not name too many files.
    fn check_count(&self, files: usize) -> Result<(), Failure> {
        if files <= FILES_LIMIT {
            return Ok(());
        }
        let why = format!("a request takes at most {FILES_LIMIT} files, and this one has {files}");
        Err(Failure::Refused { node: self.shared.name().to_owned(), why })
    }

    /// Checks that a user may mark subfiles of a file as synced.
    fn check_mark(&self, who: &Identity, grant: &Grant) -> Result<(), Failure> {
        if grant.uid == who.uid {
            return self.shared.check_grant(grant, false, true);
        }
        let why = "it was given to another user".to_owned();
        Err(Failure::BadGrant { file: grant.file, why })
    }

    /// Changes rights; the next steps of the operation revoke older grants on all nodes.
    pub fn set_rights(&mut self, call: NamespaceCall, next: Continuation<RightsChange>) {
        let change = |shared: &NodeState, result: Result<FileRecord, Failure>| {
            let (nodes, epoch) =
                (nodes_of(shared, result.as_ref().ok()), shared.known_grant_epoch());
            RightsChange { result, epoch, nodes, untold: Vec::new() }
        };
        let shared = self.shared.clone();
        let interface = match shared.interface() {
            Ok(interface) => interface,
            Err(failure) => return next.call(change(&shared, Err(failure))),
        };
        let NamespaceRequest::SetRights { path, mode, uid, gid } = call.request else {
            return next.fail("a request came to the wrong operation");
        };
        let (after, who, of) = (shared.clone(), call.who, path.clone());
        let (update, by) = (RightsUpdate { mode, uid, gid }, who.uid);
        interface.namespace.set_rights(who, path, update, move |result| {
            if let (Ok(changed), Some(interface)) = (&result, &after.interface) {
                interface.grant_epochs.lock().note_revocation();
                let client = after.sessions.name_of(call.space).unwrap_or_default();
                after.audit.note_rights((by, &client), &of, &changed.before, &changed.after);
            }
            next.call(change(&after, result.map(|changed| changed.after)));
        });
    }

    /// Writes new rights into the descriptions of the file. Disks that do not answer in time get
    /// them later.
    pub fn describe_rights(&mut self, change: RightsChange, next: Continuation<RightsChange>) {
        let Some(interface) = &self.shared.interface else { return next.call(change) };
        let known =
            change.result.as_ref().ok().map(|record| interface.namespace.known_file(record.id));
        match known {
            Some(Ok(Some(file))) => {
                let (files, wait) = (vec![file], Some(DESCRIBE_WAIT));
                interface
                    .description_writer
                    .write(&self.shared, files, wait, move |_| next.call(change));
            }
            _ => next.call(change),
        }
    }

    pub(super) fn open(
        &self,
        interface: &InterfaceState,
        space: SpaceId,
        who: &Identity,
        path: &FilePath,
        access: Access,
    ) -> Result<Opened, Failure> {
        let epoch = interface.grant_epochs.lock().issue();
        let record = interface.namespace.lookup(who, path, access)?;
        if record.kind == FileKind::Directory {
            return Err(Failure::IsADirectory { path: path.clone() });
        }
        let opened = self.opened(interface, space, who, path, record, (access, epoch))?;
        // Another client may have deleted the file between the lookup and the registration of the
        // handle.
        let file = opened.record.id;
        if interface.namespace.record(file)?.is_none()
            && !interface.open_files.is_deleted_but_open(file)
        {
            close_failed_open(&self.shared, opened.handle, space);
            return Err(Failure::NotFound { path: path.clone() });
        }
        if interface.open_files.is_being_replaced(file) {
            close_failed_open(&self.shared, opened.handle, space);
            let node = self.shared.name().to_owned();
            let why = format!("{path}: a client is changing its layout: open it again");
            return Err(Failure::Refused { node, why });
        }
        Ok(opened)
    }

    pub(super) fn opened(
        &self,
        interface: &InterfaceState,
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
        let handle = interface.open_files.open(file, share);
        let renew_after_ms = interface.grant_epochs.lock().renew_after_ms();
        Ok(Opened { record, grant, handle, is_created: false, renew_after_ms })
    }

    fn look_grant(&self, who: &Identity, record: &FileRecord, epoch: u64) -> Option<Grant> {
        record.layout.as_ref()?;
        let (grants, version) = (&self.shared.grants, record.rights_version);
        Some(grants.grant(record.id, who.uid, Access::LOOK, version, epoch))
    }
}

/// Marks subfiles of a file as synced.
///
/// The descriptions on the disks say so before the namespace does, and before the sync is
/// acknowledged. So a rebuild still knows that a synced subfile is lost. A file with a single
/// synced subfile needs no description for that: without this subfile the file is unknown.
fn mark_synced(
    shared: &Arc<NodeState>,
    file: FileId,
    subfiles: Vec<SubfileIndex>,
    done: impl FnOnce(Result<(), Failure>) + Send + 'static,
) {
    let interface = match shared.interface() {
        Ok(interface) => interface,
        Err(failure) => return done(Err(failure)),
    };
    match interface.namespace.if_newly_synced(file, &subfiles) {
        Ok(Some(known)) if known.record.first_synced_count() > 1 => {
            let of = shared.clone();
            interface.description_writer.write(shared, vec![known], None, move |is_done| match of
                .interface()
            {
                Ok(interface) => {
                    let is_description_pending = !is_done;
                    let mark = SyncMark { file, subfiles, is_description_pending };
                    interface.namespace.mark_synced(mark, done);
                }
                Err(failure) => done(Err(failure)),
            });
        }
        Ok(_) => {
            let mark = SyncMark { file, subfiles, is_description_pending: false };
            interface.namespace.mark_synced(mark, done);
        }
        Err(failure) => done(Err(failure)),
    }
}

/// Marks subfiles of several files as synced, in one transaction. A file that comes with a failure
/// gets it back.
fn mark_many_synced(
    shared: &Arc<NodeState>,
    files: Vec<Result<(FileId, Vec<SubfileIndex>), Failure>>,
    done: impl FnOnce(Result<Vec<Result<(), Failure>>, Failure>) + Send + 'static,
) {
    let interface = match shared.interface() {
        Ok(interface) => interface,
        Err(failure) => return done(Err(failure)),
    };
    let mut results: Vec<Result<(), Failure>> = Vec::with_capacity(files.len());
    let (mut numbers, mut marks, mut described) = (Vec::new(), Vec::new(), Vec::new());
    for (number, file) in files.into_iter().enumerate() {
        let news = file.and_then(|(file, subfiles)| {
            let news = interface.namespace.if_newly_synced(file, &subfiles)?;
            Ok(news
                .map(|known| (known, SyncMark { file, subfiles, is_description_pending: false })))
        });
        match news {
            Ok(Some((known, mut mark))) => {
                if known.record.first_synced_count() > 1 {
                    // Until the descriptions are written.
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
        let interface = match of.interface() {
            Ok(interface) => interface,
            Err(failure) => return done(Err(failure)),
        };
        for mark in &mut marks {
            mark.is_description_pending &= !is_described;
        }
        interface.namespace.mark_synced_many(marks, move |marked| {
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
        false => interface.description_writer.write(shared, described, None, mark),
    }
}

/// Returns the names of all nodes, and whether each holds a part of a file.
fn nodes_of(shared: &NodeState, record: Option<&FileRecord>) -> Vec<(String, bool)> {
    let layout = record.and_then(|record| record.layout.as_ref());
    let disks = layout.map(|layout| layout.disks().as_slice()).unwrap_or_default();
    let map = shared.map.read();
    let has_part = |node: &NodeInfo| node.disks.iter().any(|disk| disks.contains(&disk.id));
    map.nodes.iter().map(|node| (node.name.clone(), has_part(node))).collect()
}

/// Removes the subfiles of a deleted file when no client has it open.
pub(super) fn release(shared: &NodeState, record: FileRecord) {
    let Some(interface) = &shared.interface else { return };
    interface.grant_epochs.lock().note_revocation();
    if let Some(record) = interface.open_files.delete(record) {
        interface.subfile_reaper.remove(record);
    }
}

/// Closes a file whose opening has failed.
pub(super) fn close_failed_open(shared: &NodeState, handle: u64, space: SpaceId) {
    if let Some(interface) = &shared.interface {
        interface.close(handle, space);
    }
}

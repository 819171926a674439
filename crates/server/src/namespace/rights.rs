//! Owners, groups and modes change.

use pario_proto::{Failure, FilePath, FileRecord, Identity, ORPHAN_RIGHTS_VERSION};

use super::change::Change;
use super::handle::Namespace;
use super::permission::denied;
use super::tree::{Stop, find};

/// What is to be different.
struct Wish {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
}

/// A record before and after a change of its rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRights {
    /// As it was.
    pub before: FileRecord,
    /// As it is; equal if there was nothing to change.
    pub after: FileRecord,
}

impl Namespace {
    /// Changes owner, group or mode; what is not given stays. The mode is for the owner to change,
    /// the owner for root, the group for root or for the owner if he is in the new one. Of the
    /// mode, only the bits in 0o7777 count. If anything changes, so does the `rights_version`.
    pub fn set_rights(
        &self,
        who: Identity,
        path: FilePath,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        done: impl FnOnce(Result<FileRecord, Failure>) + Send + 'static,
    ) {
        let after = |changed: ChangedRights| changed.after;
        self.change_rights(who, path, (mode, uid, gid), move |changed| done(changed.map(after)));
    }

    /// The same, and tells what was before.
    pub fn change_rights(
        &self,
        who: Identity,
        path: FilePath,
        (mode, uid, gid): (Option<u32>, Option<u32>, Option<u32>),
        done: impl FnOnce(Result<ChangedRights, Failure>) + Send + 'static,
    ) {
        let wish = Wish { mode: mode.map(|mode| mode & 0o7777), uid, gid };
        self.change(move |change| set_rights(change, &who, &path, &wish), done);
    }
}

fn set_rights(
    change: &mut Change<'_>,
    who: &Identity,
    path: &FilePath,
    wish: &Wish,
) -> Result<ChangedRights, Stop> {
    let mut node = find(change.state(), who, path)?;
    require_rights(who, &node.record, path, wish)?;
    let before = node.record.clone();
    let mut record = node.record.clone();
    record.mode = wish.mode.unwrap_or(record.mode);
    record.uid = wish.uid.unwrap_or(record.uid);
    record.gid = wish.gid.unwrap_or(record.gid);
    if record != node.record {
        record.rights_version = next_version(&record, path)?;
        record.changed_ns = change.now_ns;
        node.record = record.clone();
        change.put_node(&node);
        if record.layout.is_some() {
            change.owe(record.id);
        }
        if !node.is_directory() {
            change.revoke(record.id, record.rights_version)?;
        }
    }
    Ok(ChangedRights { before, after: record })
}

fn next_version(record: &FileRecord, path: &FilePath) -> Result<u32, Failure> {
    let next = record.rights_version.checked_add(1).filter(|next| *next < ORPHAN_RIGHTS_VERSION);
    next.ok_or_else(|| {
        Failure::Invalid(format!("{path}: its rights have changed too often; copy the file"))
    })
}

fn require_rights(
    who: &Identity,
    record: &FileRecord,
    path: &FilePath,
    wish: &Wish,
) -> Result<(), Failure> {
    let is_owner = who.uid == record.uid;
    let refuse = |action| Err(denied(who, record, path, action));
    if who.is_root() {
        return Ok(());
    }
    if wish.mode.is_some() && !is_owner {
        return refuse("change its mode");
    }
    if wish.uid.is_some_and(|uid| !is_owner || uid != record.uid) {
        return refuse("give it to another user");
    }
    if wish.gid.is_some_and(|gid| !is_owner || gid != record.gid && !who.gids.contains(&gid)) {
        return refuse("give it to this group");
    }
    Ok(())
}

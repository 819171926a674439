//! Changing owners, groups and modes, and the times of directories.

use pario_proto::{Failure, FilePath, FileRecord, Identity, ORPHAN_RIGHTS_VERSION};

use super::handle::Namespace;
use super::permission::denied;
use super::transaction::TreeTransaction;
use super::tree::{NamespaceError, find};

/// New rights of a file or directory; `None` keeps the old value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RightsUpdate {
    /// The mode; only the bits in 0o7777 count.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
}

/// A record before and after a change of its rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightsOutcome {
    /// The old record.
    pub before: FileRecord,
    /// The new record; equal to the old one if nothing changed.
    pub after: FileRecord,
}

impl Namespace {
    /// Changes owner, group or mode. The owner changes the mode, and sets the group to one of its
    /// own; root changes everything. Each change raises the `rights_version`.
    pub fn set_rights(
        &self,
        who: Identity,
        path: FilePath,
        update: RightsUpdate,
        done: impl FnOnce(Result<RightsOutcome, Failure>) + Send + 'static,
    ) {
        self.transact(move |transaction| set_rights(transaction, &who, &path, update), done);
    }

    /// Sets when the names of a directory last changed; only its owner and root may. The time of a
    /// file is that of its subfiles.
    pub fn set_directory_time(
        &self,
        who: Identity,
        path: FilePath,
        changed_ns: u64,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        let body = move |transaction: &mut TreeTransaction<'_>| {
            set_directory_time(transaction, &who, &path, changed_ns)
        };
        self.transact(body, done);
    }
}

fn set_rights(
    transaction: &mut TreeTransaction<'_>,
    who: &Identity,
    path: &FilePath,
    update: RightsUpdate,
) -> Result<RightsOutcome, NamespaceError> {
    let mut node = find(transaction.snapshot(), who, path)?;
    require_rights(who, &node.record, path, update)?;
    let before = node.record.clone();
    let mut record = node.record.clone();
    record.mode = update.mode.map_or(record.mode, |mode| mode & 0o7777);
    record.uid = update.uid.unwrap_or(record.uid);
    record.gid = update.gid.unwrap_or(record.gid);
    if record != node.record {
        record.rights_version = next_version(&record, path)?;
        record.changed_ns = transaction.now_ns;
        node.record = record.clone();
        transaction.put_node(&node);
        if record.layout.is_some() {
            transaction.add_pending_description(record.id);
        }
        if !node.is_directory() {
            transaction.revoke(record.id, record.rights_version)?;
        }
    }
    Ok(RightsOutcome { before, after: record })
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
    update: RightsUpdate,
) -> Result<(), Failure> {
    let is_owner = who.uid == record.uid;
    let refuse = |action| Err(denied(who, record, path, action));
    if who.is_root() {
        return Ok(());
    }
    if update.mode.is_some() && !is_owner {
        return refuse("change its mode");
    }
    if update.uid.is_some_and(|uid| !is_owner || uid != record.uid) {
        return refuse("give it to another user");
    }
    if update.gid.is_some_and(|gid| !is_owner || gid != record.gid && !who.gids.contains(&gid)) {
        return refuse("give it to this group");
    }
    Ok(())
}

fn set_directory_time(
    transaction: &mut TreeTransaction<'_>,
    who: &Identity,
    path: &FilePath,
    changed_ns: u64,
) -> Result<(), NamespaceError> {
    let mut node = find(transaction.snapshot(), who, path)?;
    if !node.is_directory() {
        return Err(Failure::NotADirectory { path: path.clone() }.into());
    }
    if !who.is_root() && who.uid != node.record.uid {
        return Err(denied(who, &node.record, path, "set its time").into());
    }
    if node.record.changed_ns != changed_ns {
        node.record.changed_ns = changed_ns;
        transaction.put_node(&node);
    }
    Ok(())
}

//! Who may do what: owner, group and others, as everywhere; root may everything.

use pario_proto::{Access, Failure, FilePath, FileRecord, Identity};

/// One of the three permissions.
#[derive(Clone, Copy)]
pub enum Permission {
    Read = 4,
    Write = 2,
    /// For directories: to reach what is in it.
    Search = 1,
}

/// Whether the mode allows it. The owner is judged as owner only, even where others may more.
pub fn is_allowed(who: &Identity, record: &FileRecord, permission: Permission) -> bool {
    let shift = if who.uid == record.uid {
        6
    } else if who.gids.contains(&record.gid) {
        3
    } else {
        0
    };
    who.is_root() || record.mode >> shift & permission as u32 != 0
}

/// That a user may do something with what is at a path.
pub fn require(
    who: &Identity,
    record: &FileRecord,
    path: &FilePath,
    permission: Permission,
    action: &str,
) -> Result<(), Failure> {
    if is_allowed(who, record, permission) {
        Ok(())
    } else {
        Err(denied(who, record, path, action))
    }
}

/// That a user may do with what is at a path what an open asks for.
pub fn require_access(
    who: &Identity,
    record: &FileRecord,
    path: &FilePath,
    want: Access,
) -> Result<(), Failure> {
    if want.read {
        require(who, record, path, Permission::Read, "read it")?;
    }
    if want.write {
        require(who, record, path, Permission::Write, "write to it")?;
    }
    Ok(())
}

/// That a user may add and remove names in a directory.
pub fn require_change_of_entries(
    who: &Identity,
    directory: &FileRecord,
    path: &FilePath,
) -> Result<(), Failure> {
    let action = "add or remove names in this directory";
    require(who, directory, path, Permission::Write, action)
}

pub fn denied(who: &Identity, record: &FileRecord, path: &FilePath, action: &str) -> Failure {
    Failure::Denied {
        path: path.clone(),
        uid: who.uid,
        action: action.to_owned(),
        owner: record.uid,
        mode: record.mode,
    }
}

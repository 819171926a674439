//! Permissions of owner, group and others, as in POSIX. Root may do everything.

use pario_proto::{Access, Failure, FilePath, FileRecord, Identity};

/// The bit of a directory's mode that protects its entries from users that do not own them.
const STICKY: u32 = 0o1000;

/// One of the three permissions.
#[derive(Clone, Copy)]
pub enum Permission {
    Read = 4,
    Write = 2,
    /// Of a directory: to reach its entries.
    Search = 1,
}

/// Whether the mode grants a permission. Only the owner's bits count for the owner, even where
/// others have more.
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

/// Fails if a user lacks a permission for the file or directory at a path.
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

/// Fails if a user may not open the file at a path for this access.
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

/// Fails if a user may not add and remove names in a directory.
pub fn require_change_of_entries(
    who: &Identity,
    directory: &FileRecord,
    path: &FilePath,
) -> Result<(), Failure> {
    let action = "add or remove names in this directory";
    require(who, directory, path, Permission::Write, action)
}

/// Fails if a user may not delete, rename or replace an entry of a directory. In a directory with
/// the sticky bit only the owner of the entry, the owner of the directory and root may.
pub fn require_removal_of_entry(
    who: &Identity,
    directory: &FileRecord,
    path: &FilePath,
    entry: &FileRecord,
) -> Result<(), Failure> {
    require_change_of_entries(who, directory, path)?;
    let is_owner = who.is_root() || who.uid == directory.uid || who.uid == entry.uid;
    if directory.mode & STICKY == 0 || is_owner {
        return Ok(());
    }
    let action = "delete, rename or replace what belongs to another user in this directory, which \
                  has the sticky bit";
    Err(denied(who, directory, path, action))
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

//! Files and directories move.

use pario_proto::{Failure, FileId, FilePath, FileRecord, Identity};

use super::change::Change;
use super::entries::require_empty;
use super::handle::Namespace;
use super::key;
use super::permission::{require_change_of_entries, require_removal_of_entry};
use super::tree::{Node, Stop, path_version, place};

/// What came of a rename.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The file that has another path, which its descriptions have yet to say; nothing if it is a
    /// directory, or if both paths are the same.
    pub file: Option<FileId>,
    /// The file that was at the new path before, and is doomed now.
    pub replaced: Option<FileRecord>,
}

impl Namespace {
    /// Gives a file or directory another path. A file may replace a file, a directory an empty
    /// directory. Nothing moves if both paths are the same. The new path of a file is owed to its
    /// descriptions; those of files in a directory that moves keep the path that they have.
    pub fn rename(
        &self,
        who: Identity,
        from: FilePath,
        to: FilePath,
        done: impl FnOnce(Result<Renamed, Failure>) + Send + 'static,
    ) {
        self.change(move |change| rename(change, &who, &from, &to), done);
    }
}

fn rename(
    change: &mut Change<'_>,
    who: &Identity,
    from: &FilePath,
    to: &FilePath,
) -> Result<Renamed, Stop> {
    let source = place(change.state(), who, from)?;
    let target = place(change.state(), who, to)?;
    let moved = source.child.ok_or_else(|| Failure::NotFound { path: from.clone() })?;
    if from == to {
        return Ok(Renamed { file: None, replaced: None });
    }
    // There are no links: a directory is inside of another exactly if its path is.
    if moved.is_directory() && to.is_within(from) {
        return Err(Failure::IntoItself { from: from.clone(), to: to.clone() }.into());
    }
    let (source_record, target_record) = (&source.directory.record, &target.directory.record);
    require_removal_of_entry(who, source_record, &source.directory_path, &moved.record)?;
    require_change_of_entries(who, target_record, &target.directory_path)?;
    if let Some(there) = &target.child {
        require_removal_of_entry(who, target_record, &target.directory_path, &there.record)?;
        match (moved.is_directory(), there.is_directory()) {
            (true, true) => require_empty(there, to)?,
            (true, false) => return Err(Failure::NotADirectory { path: to.clone() }.into()),
            (false, true) => return Err(Failure::IsADirectory { path: to.clone() }.into()),
            (false, false) => {}
        }
        change.take_out(there)?;
    }
    let file = moved.record.layout.is_some().then_some(moved.id());
    if let Some(file) = file {
        let version = path_version(change.state(), file)?.saturating_add(1);
        change.put_counter(&key::path_version(file), version.into());
        change.owe(file);
    }
    change.unlink(&moved)?;
    change.link(&Node { parent: target.directory.id(), name: target.name, ..moved })?;
    let replaced = target.child.filter(|there| !there.is_directory());
    Ok(Renamed { file, replaced: replaced.map(|there| there.record) })
}

//! Looking up paths and listing directories.

use pario_proto::{Access, DirectoryEntry, Failure, FileId, FilePath, FileRecord, Identity};

use super::handle::Namespace;
use super::key;
use super::permission::{Permission, require, require_access};
use super::tree::{NamespaceError, counter, existing_node, find, id_of_entry, inconsistent, node};
use crate::metadata::Snapshot;

impl Namespace {
    /// Returns the record at a path. Fails if the user may not reach it, or may not access it so.
    pub fn lookup(
        &self,
        who: &Identity,
        path: &FilePath,
        want: Access,
    ) -> Result<FileRecord, Failure> {
        self.read(|snapshot| {
            let record = find(snapshot, who, path)?.record;
            require_access(who, &record, path, want)?;
            Ok(record)
        })
    }

    /// Returns names in a directory, in order, after a given one, at most `limit`; and whether there
    /// are more.
    pub fn list(
        &self,
        who: &Identity,
        path: &FilePath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<DirectoryEntry>, bool), Failure> {
        self.read(|snapshot| {
            let directory = find(snapshot, who, path)?;
            if !directory.is_directory() {
                return Err(Failure::NotADirectory { path: path.clone() }.into());
            }
            require(who, &directory.record, path, Permission::Read, "list this directory")?;
            entries(snapshot, directory.id(), after, limit)
        })
    }

    /// Returns the record with an id.
    pub fn record(&self, id: FileId) -> Result<Option<FileRecord>, Failure> {
        self.read(|snapshot| Ok(node(snapshot, id)?.map(|node| node.record)))
    }

    /// Returns the number of files and directories, without the root.
    pub fn count(&self) -> Result<u64, Failure> {
        self.read(count)
    }
}

fn entries(
    snapshot: &dyn Snapshot,
    directory: FileId,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<DirectoryEntry>, bool), NamespaceError> {
    let from = match after {
        Some(name) => key::after(key::entry(directory, name)),
        None => key::entry(directory, ""),
    };
    let until = key::end_of_entries(directory);
    let mut pairs = snapshot.range(&from, &until, limit.saturating_add(1))?;
    let has_more = pairs.len() > limit;
    pairs.truncate(limit);
    let entry = |(key, value): (Vec<u8>, Vec<u8>)| {
        let name = key::entry_in(&key).map(|(_, name)| name.to_owned());
        let name = name.ok_or_else(|| inconsistent("a name is not UTF-8".to_owned()))?;
        let record = existing_node(snapshot, id_of_entry(&value, &name)?)?.record;
        Ok(DirectoryEntry { name, record })
    };
    Ok((pairs.into_iter().map(entry).collect::<Result<_, NamespaceError>>()?, has_more))
}

/// Returns the sum of the sharded counters of entries.
pub fn count(snapshot: &dyn Snapshot) -> Result<u64, NamespaceError> {
    (0..key::COUNT_SHARDS).map(|shard| counter(snapshot, &key::count_of_shard(shard))).sum()
}

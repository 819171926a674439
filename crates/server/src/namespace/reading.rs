//! What is where.

use pario_proto::{Access, DirectoryEntry, Failure, FileId, FilePath, FileRecord, Identity};

use super::handle::Namespace;
use super::key;
use super::permission::{Permission, require, require_access};
use super::tree::{Stop, counter, find, id_of_entry, inconsistent, node, node_that_must_be};
use crate::metadata::Snapshot;

impl Namespace {
    /// The record of what is at a path, if the user may reach it and use it in the way wanted.
    pub fn lookup(
        &self,
        who: &Identity,
        path: &FilePath,
        want: Access,
    ) -> Result<FileRecord, Failure> {
        self.look(|state| {
            let record = find(state, who, path)?.record;
            require_access(who, &record, path, want)?;
            Ok(record)
        })
    }

    /// Names in a directory, in order, after a given one and at most so many; and whether there
    /// are more.
    pub fn list(
        &self,
        who: &Identity,
        path: &FilePath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<DirectoryEntry>, bool), Failure> {
        self.look(|state| {
            let directory = find(state, who, path)?;
            if !directory.is_directory() {
                return Err(Failure::NotADirectory { path: path.clone() }.into());
            }
            require(who, &directory.record, path, Permission::Read, "list this directory")?;
            entries(state, directory.id(), after, limit)
        })
    }

    /// The record with an id, wherever it is in the tree.
    pub fn record(&self, id: FileId) -> Result<Option<FileRecord>, Failure> {
        self.look(|state| Ok(node(state, id)?.map(|node| node.record)))
    }

    /// How many files and directories there are, without the root.
    pub fn count(&self) -> Result<u64, Failure> {
        self.look(count)
    }
}

fn entries(
    state: &dyn Snapshot,
    directory: FileId,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<DirectoryEntry>, bool), Stop> {
    let from = match after {
        Some(name) => key::after(key::entry(directory, name)),
        None => key::entry(directory, ""),
    };
    let until = key::end_of_entries(directory);
    let mut pairs = state.range(&from, &until, limit.saturating_add(1))?;
    let is_more = pairs.len() > limit;
    pairs.truncate(limit);
    let entry = |(key, value): (Vec<u8>, Vec<u8>)| {
        let name = key::entry_in(&key).map(|(_, name)| name.to_owned());
        let name = name.ok_or_else(|| inconsistent("a name is not UTF-8".to_owned()))?;
        let record = node_that_must_be(state, id_of_entry(&value, &name)?)?.record;
        Ok(DirectoryEntry { name, record })
    };
    Ok((pairs.into_iter().map(entry).collect::<Result<_, Stop>>()?, is_more))
}

/// The sum of the counters that all directories share.
pub fn count(state: &dyn Snapshot) -> Result<u64, Stop> {
    (0..key::COUNT_SHARDS).map(|shard| counter(state, &key::count_of_shard(shard))).sum()
}

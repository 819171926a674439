//! Changes of the tree that keep its invariants, as steps of a transaction.

use pario_proto::{Failure, FileId, FileRecord, REMOVED_RIGHTS_VERSION};

use super::key;
use super::tree::{NamespaceError, TreeNode, counter, encode, existing_node, inconsistent};
use crate::metadata::{Snapshot, Transaction};

/// A transaction of the metadata store that changes the tree.
pub struct TreeTransaction<'a> {
    transaction: &'a mut dyn Transaction,
    /// When this run of the transaction began.
    pub now_ns: u64,
}

impl<'a> TreeTransaction<'a> {
    pub fn new(transaction: &'a mut dyn Transaction, now_ns: u64) -> TreeTransaction<'a> {
        TreeTransaction { transaction, now_ns }
    }

    /// Returns the tree with the changes so far.
    pub fn snapshot(&self) -> &dyn Snapshot {
        self.transaction
    }

    pub fn put(&mut self, key: &[u8], value: Vec<u8>) {
        self.transaction.put(key, value);
    }

    pub fn delete(&mut self, key: &[u8]) {
        self.transaction.delete(key);
    }

    pub fn put_node(&mut self, node: &TreeNode) {
        self.put(&key::node(node.id()), encode(node));
    }

    pub fn put_counter(&mut self, key: &[u8], value: u64) {
        self.put(key, value.to_be_bytes().to_vec());
    }

    /// Adds a node and its entry to the tree; the name must be free.
    pub fn link(&mut self, node: &TreeNode) -> Result<(), NamespaceError> {
        self.put_node(node);
        self.put(&key::entry(node.parent, &node.name), node.id().0.to_be_bytes().to_vec());
        self.count_entry(node.parent, |entries| entries.checked_add(1))
    }

    /// Removes the entry of a node. The caller moves or deletes the record.
    pub fn unlink(&mut self, node: &TreeNode) -> Result<(), NamespaceError> {
        self.delete(&key::entry(node.parent, &node.name));
        self.count_entry(node.parent, |entries| entries.checked_sub(1))
    }

    /// Removes a node from the tree. A file leaves a tombstone, and its grants are revoked; a
    /// directory leaves nothing.
    pub fn remove_node(&mut self, node: &TreeNode) -> Result<(), NamespaceError> {
        self.unlink(node)?;
        self.delete(&key::node(node.id()));
        if !node.is_directory() {
            self.add_tombstone(&node.record);
            self.revoke(node.id(), REMOVED_RIGHTS_VERSION)?;
            // The disks need no description of a removed file.
            for key in [key::pending_description(node.id()), key::path_version(node.id())] {
                self.delete_present(&key)?;
            }
        }
        Ok(())
    }

    /// Revokes the grants of a file with a lower rights version. Reading the epoch here conflicts
    /// with the transaction that begins the next one, so every revoked grant is of this epoch or of
    /// an earlier one.
    pub fn revoke(&mut self, file: FileId, first_valid: u32) -> Result<(), NamespaceError> {
        let epoch = counter(self.snapshot(), key::GRANT_EPOCH)?;
        self.put(&key::revocation(epoch, file), first_valid.to_be_bytes().to_vec());
        Ok(())
    }

    /// Records that the subfiles of a file must be removed.
    pub fn add_tombstone(&mut self, record: &FileRecord) {
        self.put(&key::tombstone(record.id), encode(record));
    }

    /// Records that some disk has not acknowledged the description of a file.
    pub fn add_pending_description(&mut self, file: FileId) {
        self.put(&key::pending_description(file), Vec::new());
    }

    /// Deletes a key if it exists: deleting a missing key would be a change, and cost a commit.
    pub fn delete_present(&mut self, key: &[u8]) -> Result<(), NamespaceError> {
        if self.snapshot().get(key)?.is_some() {
            self.delete(key);
        }
        Ok(())
    }

    /// Counts an entry that was added or removed. This reads and writes the record of the directory,
    /// so concurrent changes in one directory conflict.
    fn count_entry(
        &mut self,
        directory: FileId,
        count: impl Fn(u64) -> Option<u64>,
    ) -> Result<(), NamespaceError> {
        let counted = |entries: u64| {
            let wrong = || inconsistent(format!("directory {directory} counts {entries} entries"));
            count(entries).ok_or_else(wrong)
        };
        let mut node = existing_node(self.snapshot(), directory)?;
        node.entries = counted(node.entries)?;
        node.record.changed_ns = self.now_ns;
        self.put_node(&node);
        let shard = key::count(directory);
        let entries = counted(counter(self.snapshot(), &shard)?)?;
        self.put_counter(&shard, entries);
        Ok(())
    }
}

/// Applies changes one after the other, each of which checks everything before it writes anything.
/// A refused change leaves the others alone; an error of the store ends all of them.
pub fn apply_each<I, T>(
    items: &[I],
    mut apply: impl FnMut(&I) -> Result<T, NamespaceError>,
) -> Result<Vec<Result<T, Failure>>, NamespaceError> {
    let mut results = Vec::with_capacity(items.len());
    for item in items {
        results.push(match apply(item) {
            Ok(done) => Ok(done),
            Err(NamespaceError::Failure(failure)) => Err(failure),
            Err(error) => return Err(error),
        });
    }
    Ok(results)
}

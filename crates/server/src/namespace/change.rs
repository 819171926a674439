//! Changes of the tree that keep its invariants, as parts of a transaction.

use pario_proto::{FileId, FileRecord, REMOVED_RIGHTS_VERSION};

use super::key;
use super::tree::{Node, Stop, counter, encode, inconsistent, node_that_must_be};
use crate::metadata::{Snapshot, Transaction};

/// A transaction under way.
pub struct Change<'a> {
    transaction: &'a mut dyn Transaction,
    /// When this run of it began.
    pub now_ns: u64,
}

impl<'a> Change<'a> {
    pub fn new(transaction: &'a mut dyn Transaction, now_ns: u64) -> Change<'a> {
        Change { transaction, now_ns }
    }

    /// The tree with the changes so far.
    pub fn state(&self) -> &dyn Snapshot {
        self.transaction
    }

    pub fn put(&mut self, key: &[u8], value: Vec<u8>) {
        self.transaction.put(key, value);
    }

    pub fn delete(&mut self, key: &[u8]) {
        self.transaction.delete(key);
    }

    pub fn put_node(&mut self, node: &Node) {
        self.put(&key::node(node.id()), encode(node));
    }

    pub fn put_counter(&mut self, key: &[u8], value: u64) {
        self.put(key, value.to_be_bytes().to_vec());
    }

    /// Gives a node a place in the tree; the place must be free.
    pub fn link(&mut self, node: &Node) -> Result<(), Stop> {
        self.put_node(node);
        self.put(&key::entry(node.parent, &node.name), node.id().0.to_be_bytes().to_vec());
        self.count_entry(node.parent, |entries| entries.checked_add(1))
    }

    /// Takes the place of a node from it. What becomes of its record is for the caller to say.
    pub fn unlink(&mut self, node: &Node) -> Result<(), Stop> {
        self.delete(&key::entry(node.parent, &node.name));
        self.count_entry(node.parent, |entries| entries.checked_sub(1))
    }

    /// Takes a node out of the tree: a file is doomed and its grants are revoked, of a directory
    /// nothing is left.
    pub fn take_out(&mut self, node: &Node) -> Result<(), Stop> {
        self.unlink(node)?;
        self.delete(&key::node(node.id()));
        if !node.is_directory() {
            self.doom(&node.record);
            self.revoke(node.id(), REMOVED_RIGHTS_VERSION)?;
            // Nothing needs a description of it any more.
            for key in [key::owed(node.id()), key::path_version(node.id())] {
                if self.state().get(&key)?.is_some() {
                    self.delete(&key);
                }
            }
        }
        Ok(())
    }

    /// Records that grants of a file with a lower rights version are not valid any more. Who reads
    /// the epoch here conflicts with the change that begins the next one: so a grant with such a
    /// version is of this epoch or of one before.
    pub fn revoke(&mut self, file: FileId, first_valid: u32) -> Result<(), Stop> {
        let epoch = counter(self.state(), key::GRANT_EPOCH)?;
        self.put(&key::revocation(epoch, file), first_valid.to_be_bytes().to_vec());
        Ok(())
    }

    /// Remembers that the subfiles of a file must go.
    pub fn doom(&mut self, record: &FileRecord) {
        self.put(&key::doomed(record.id), encode(record));
    }

    /// Remembers that the description of a file is owed to some disk.
    pub fn owe(&mut self, file: FileId) {
        self.put(&key::owed(file), Vec::new());
    }

    /// The record of the directory is read and written here, whatever the entry: that is how
    /// changes in one directory find out about each other.
    fn count_entry(
        &mut self,
        directory: FileId,
        count: impl Fn(u64) -> Option<u64>,
    ) -> Result<(), Stop> {
        let counted = |entries: u64| {
            let wrong = || inconsistent(format!("directory {directory} counts {entries} entries"));
            count(entries).ok_or_else(wrong)
        };
        let mut node = node_that_must_be(self.state(), directory)?;
        node.entries = counted(node.entries)?;
        node.record.changed_ns = self.now_ns;
        self.put_node(&node);
        let shard = key::count(directory);
        let entries = counted(counter(self.state(), &shard)?)?;
        self.put_counter(&shard, entries);
        Ok(())
    }
}

//! Checks the invariants of the tree.

use std::collections::{HashMap, HashSet};

use pario_proto::{Failure, FileId};

use super::handle::Namespace;
use super::key;
use super::lookup::count;
use super::tree::{NamespaceError, TreeNode, decode, id_of_entry, node};
use crate::metadata::{KeyValue, Snapshot};

/// Pairs that one range read returns.
const PAGE: usize = 1000;

impl Namespace {
    /// Returns the violated invariants, in sentences; empty for a sound tree.
    pub fn problems(&self) -> Result<Vec<String>, Failure> {
        self.read(|snapshot| {
            let mut check = TreeCheck {
                snapshot,
                problems: Vec::new(),
                directories: HashMap::new(),
                reached: HashSet::from([FileId::ROOT]),
            };
            each(snapshot, b'e', |pair| check.entry(&pair))?;
            each(snapshot, b'n', |pair| check.node(&pair))?;
            each(snapshot, b'x', |pair| check.tombstone(&pair))?;
            check.counts()?;
            Ok(check.problems)
        })
    }
}

struct TreeCheck<'a> {
    snapshot: &'a dyn Snapshot,
    problems: Vec<String>,
    /// The number of entries of each directory.
    directories: HashMap<FileId, u64>,
    /// Directories that are reachable from the root.
    reached: HashSet<FileId>,
}

impl TreeCheck<'_> {
    fn entry(&mut self, (key, value): &KeyValue) -> Result<(), NamespaceError> {
        let Some((directory, name)) = key::entry_in(key) else {
            self.problems.push(format!("the entry {} has no name", key.escape_ascii()));
            return Ok(());
        };
        *self.directories.entry(directory).or_default() += 1;
        let id = id_of_entry(value, name)?;
        match node(self.snapshot, id)? {
            None => {
                self.problems.push(format!("the entry {name:?} names {id}, which does not exist"))
            }
            Some(node) if node.parent != directory || node.name != name => self
                .problems
                .push(format!("the entry {name:?} of {directory} names {id}, which is elsewhere")),
            Some(_) => {}
        }
        Ok(())
    }

    fn node(&mut self, (key, value): &KeyValue) -> Result<(), NamespaceError> {
        let stored: TreeNode = decode(value, || format!("{}", key.escape_ascii()))?;
        let id = stored.id();
        if key::id_in(key) != Some(id.0) {
            self.problems.push(format!("the record of {id} is stored under another id"));
        }
        let counted = self.directories.get(&id).copied().unwrap_or(0);
        if stored.entries != counted {
            self.problems.push(format!(
                "{id} has {counted} entries, but its record counts {}",
                stored.entries
            ));
        }
        if counted > 0 && !stored.is_directory() {
            self.problems.push(format!("{id} is a file and has entries"));
        }
        if id == FileId::ROOT {
            return Ok(());
        }
        let entry = self.snapshot.get(&key::entry(stored.parent, &stored.name))?;
        if entry.is_none_or(|value| value != id.0.to_be_bytes()) {
            self.problems.push(format!("{id} has no entry {:?}", stored.name));
        }
        self.check_reachable(&stored)
    }

    /// Checks that a node is reachable from the root: the parents of directories may form a cycle.
    fn check_reachable(&mut self, below: &TreeNode) -> Result<(), NamespaceError> {
        let mut passed = HashSet::new();
        let mut above = below.parent;
        while !self.reached.contains(&above) {
            let directory = node(self.snapshot, above)?.filter(TreeNode::is_directory);
            let Some(directory) = directory.filter(|_| passed.insert(above)) else {
                let id = below.id();
                self.problems.push(format!("{id} is not reachable from the root"));
                return Ok(());
            };
            above = directory.parent;
        }
        self.reached.extend(passed);
        Ok(())
    }

    fn tombstone(&mut self, (key, _): &KeyValue) -> Result<(), NamespaceError> {
        let id = FileId(key::id_in(key).unwrap_or_default());
        if node(self.snapshot, id)?.is_some() {
            self.problems.push(format!("{id} has a tombstone and is in the tree"));
        }
        Ok(())
    }

    fn counts(&mut self) -> Result<(), NamespaceError> {
        if node(self.snapshot, FileId::ROOT)?.is_none() {
            self.problems.push("there is no root".to_owned());
        }
        let (entries, counted) = (self.directories.values().sum::<u64>(), count(self.snapshot)?);
        if entries != counted {
            self.problems
                .push(format!("there are {entries} entries, but the counters say {counted}"));
        }
        Ok(())
    }
}

/// Visits every pair whose key begins with a letter.
fn each(
    snapshot: &dyn Snapshot,
    letter: u8,
    mut visit: impl FnMut(KeyValue) -> Result<(), NamespaceError>,
) -> Result<(), NamespaceError> {
    let mut from = vec![letter];
    loop {
        let page = snapshot.range(&from, &[letter + 1], PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        from = key::after(last.clone());
        page.into_iter().try_for_each(&mut visit)?;
    }
}

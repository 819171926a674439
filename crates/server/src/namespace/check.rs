//! Whether the tree keeps its invariants.

use std::collections::{HashMap, HashSet};

use pario_proto::{Failure, FileId};

use super::handle::Namespace;
use super::key;
use super::reading::count;
use super::tree::{Node, Stop, decode, id_of_entry, node};
use crate::metadata::{KeyValue, Snapshot};

/// So many pairs are read at once.
const PAGE: usize = 1000;

impl Namespace {
    /// What in the tree contradicts itself, in sentences; mostly nothing.
    pub fn problems(&self) -> Result<Vec<String>, Failure> {
        self.look(|state| {
            let mut check = Check {
                state,
                problems: Vec::new(),
                directories: HashMap::new(),
                reached: HashSet::from([FileId::ROOT]),
            };
            each(state, b'e', |pair| check.entry(&pair))?;
            each(state, b'n', |pair| check.node(&pair))?;
            each(state, b'x', |pair| check.doomed(&pair))?;
            check.counts()?;
            Ok(check.problems)
        })
    }
}

struct Check<'a> {
    state: &'a dyn Snapshot,
    problems: Vec<String>,
    /// How many entries of each directory there are.
    directories: HashMap<FileId, u64>,
    /// Directories that can be reached from the root.
    reached: HashSet<FileId>,
}

impl Check<'_> {
    fn entry(&mut self, (key, value): &KeyValue) -> Result<(), Stop> {
        let Some((directory, name)) = key::entry_in(key) else {
            self.problems.push(format!("the entry {} has no name", key.escape_ascii()));
            return Ok(());
        };
        *self.directories.entry(directory).or_default() += 1;
        let id = id_of_entry(value, name)?;
        match node(self.state, id)? {
            None => self.problems.push(format!("the entry {name:?} means {id}, which is not")),
            Some(node) if node.parent != directory || node.name != name => self
                .problems
                .push(format!("the entry {name:?} of {directory} means {id}, which is elsewhere")),
            Some(_) => {}
        }
        Ok(())
    }

    fn node(&mut self, (key, value): &KeyValue) -> Result<(), Stop> {
        let kept: Node = decode(value, || format!("{}", key.escape_ascii()))?;
        let id = kept.id();
        if key::id_in(key) != Some(id.0) {
            self.problems.push(format!("the record of {id} is kept under another id"));
        }
        let counted = self.directories.get(&id).copied().unwrap_or(0);
        if kept.entries != counted {
            self.problems.push(format!("{id} has {counted} entries, not {}", kept.entries));
        }
        if counted > 0 && !kept.is_directory() {
            self.problems.push(format!("{id} is a file and has entries"));
        }
        if id == FileId::ROOT {
            return Ok(());
        }
        let entry = self.state.get(&key::entry(kept.parent, &kept.name))?;
        if entry.is_none_or(|value| value != id.0.to_be_bytes()) {
            self.problems.push(format!("{id} has no entry {:?}", kept.name));
        }
        self.way_up(&kept)
    }

    /// That a node can be reached from the root: directories could be above each other in a
    /// circle.
    fn way_up(&mut self, below: &Node) -> Result<(), Stop> {
        let mut way = HashSet::new();
        let mut above = below.parent;
        while !self.reached.contains(&above) {
            let directory = node(self.state, above)?.filter(Node::is_directory);
            let Some(directory) = directory.filter(|_| way.insert(above)) else {
                let id = below.id();
                self.problems.push(format!("{id} cannot be reached from the root"));
                return Ok(());
            };
            above = directory.parent;
        }
        self.reached.extend(way);
        Ok(())
    }

    fn doomed(&mut self, (key, _): &KeyValue) -> Result<(), Stop> {
        let id = FileId(key::id_in(key).unwrap_or_default());
        if node(self.state, id)?.is_some() {
            self.problems.push(format!("{id} is doomed and in the tree"));
        }
        Ok(())
    }

    fn counts(&mut self) -> Result<(), Stop> {
        if node(self.state, FileId::ROOT)?.is_none() {
            self.problems.push("there is no root".to_owned());
        }
        let (entries, counted) = (self.directories.values().sum::<u64>(), count(self.state)?);
        if entries != counted {
            self.problems.push(format!("there are {entries} entries, not {counted}"));
        }
        Ok(())
    }
}

/// Every pair whose key begins with a letter.
fn each(
    state: &dyn Snapshot,
    letter: u8,
    mut visit: impl FnMut(KeyValue) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut from = vec![letter];
    loop {
        let page = state.range(&from, &[letter + 1], PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        from = key::after(last.clone());
        page.into_iter().try_for_each(&mut visit)?;
    }
}

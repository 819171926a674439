//! The model: a plain map of paths that applies calls one by one.

use std::collections::BTreeMap;

use pario_proto::{Access, Failure, FileId, FileKind, Identity};

use super::call::{Call, NodeFacts, Outcome};

/// The nodes by path; the root is `/`.
pub struct Model {
    pub nodes: BTreeMap<String, NodeFacts>,
    pub tombstones: Vec<FileId>,
}

type CallResult = Result<Outcome, String>;

impl Model {
    /// Applies a call. `created` is the id of a new directory.
    pub fn apply(&mut self, who: &Identity, call: &Call, created: Option<FileId>) -> CallResult {
        match call {
            Call::Create { path, id, mode } => {
                self.require_reachable(who, path)?;
                if let Some(there) = self.nodes.get(path) {
                    return Ok(Outcome::Existed(there.clone()));
                }
                self.may(who, &parent(path), 2)?;
                let new = NodeFacts::new(*id, FileKind::Flat, who, *mode);
                self.nodes.insert(path.clone(), new.clone());
                Ok(Outcome::Node(new))
            }
            Call::MakeDirectory { path, mode } => {
                self.require_reachable(who, path)?;
                if self.nodes.contains_key(path) {
                    return Err(format!("exists {path}"));
                }
                self.may(who, &parent(path), 2)?;
                let id = created.unwrap_or(FileId(0));
                let new = NodeFacts::new(id, FileKind::Directory, who, *mode);
                self.nodes.insert(path.clone(), new.clone());
                Ok(Outcome::Node(new))
            }
            Call::Remove { path } => {
                let node = self.removable(who, path)?;
                if node.is_directory() {
                    return Err(format!("is a directory {path}"));
                }
                self.nodes.remove(path);
                self.tombstones.push(node.id);
                Ok(Outcome::Node(node))
            }
            Call::RemoveDirectory { path } => {
                if !self.removable(who, path)?.is_directory() {
                    return Err(format!("not a directory {path}"));
                }
                self.empty(path)?;
                self.nodes.remove(path);
                Ok(Outcome::Nothing)
            }
            Call::Rename { from, to } => self.rename(who, from, to),
            Call::List { path } => {
                let node = self.find(who, path)?;
                if !node.is_directory() {
                    return Err(format!("not a directory {path}"));
                }
                self.may(who, path, 4)?;
                let children =
                    self.nodes.iter().filter(|(at, _)| *at != "/" && parent(at) == *path);
                let name = |at: &String| at.rsplit('/').next().unwrap().to_owned();
                Ok(Outcome::List(children.map(|(at, node)| (name(at), node.clone())).collect()))
            }
            Call::Lookup { path, want } => {
                let node = self.find(who, path)?;
                for (wanted, bit) in [(want.read, 4), (want.write, 2)] {
                    if wanted {
                        self.may(who, path, bit)?;
                    }
                }
                Ok(Outcome::Node(node))
            }
            Call::SetMode { path, mode } => {
                let node = self.find(who, path)?;
                if who.uid != 0 && who.uid != node.uid {
                    return Err(format!("denied {path}"));
                }
                let node = self.nodes.get_mut(path).unwrap();
                if node.mode != *mode {
                    node.mode = *mode;
                    node.rights_version += 1;
                }
                Ok(Outcome::Node(node.clone()))
            }
        }
    }

    fn rename(&mut self, who: &Identity, from: &str, to: &str) -> CallResult {
        self.require_reachable(who, from)?;
        self.require_reachable(who, to)?;
        let Some(moved) = self.nodes.get(from).cloned() else {
            return Err(format!("not found {from}"));
        };
        if from == to {
            return Ok(Outcome::Replaced(None));
        }
        if moved.is_directory() && to.starts_with(&format!("{from}/")) {
            return Err(format!("into itself {from} {to}"));
        }
        self.may_take(who, from, &moved)?;
        self.may(who, &parent(to), 2)?;
        let there = self.nodes.get(to).cloned();
        if let Some(there) = &there {
            self.may_take(who, to, there)?;
            match (moved.is_directory(), there.is_directory()) {
                (true, false) => return Err(format!("not a directory {to}")),
                (false, true) => return Err(format!("is a directory {to}")),
                (true, true) => self.empty(to)?,
                (false, false) => self.tombstones.push(there.id),
            }
        }
        let inside = format!("{from}/");
        let all: Vec<String> = self
            .nodes
            .keys()
            .filter(|at| *at == from || at.starts_with(&inside))
            .cloned()
            .collect();
        for at in all {
            let node = self.nodes.remove(&at).unwrap();
            self.nodes.insert(format!("{to}{}", &at[from.len()..]), node);
        }
        Ok(Outcome::Replaced(there.filter(|there| !there.is_directory())))
    }

    /// Everything above a path is a directory that may be searched.
    fn require_reachable(&self, who: &Identity, path: &str) -> Result<(), String> {
        let ends = path.char_indices().filter(|&(at, c)| c == '/' && at > 0).map(|(at, _)| at);
        for above in std::iter::once("/").chain(ends.map(|end| &path[..end])) {
            let Some(node) = self.nodes.get(above) else {
                return Err(format!("not found {above}"));
            };
            if !node.is_directory() {
                return Err(format!("not a directory {above}"));
            }
            self.may(who, above, 1)?;
        }
        Ok(())
    }

    fn find(&self, who: &Identity, path: &str) -> Result<NodeFacts, String> {
        if path != "/" {
            self.require_reachable(who, path)?;
        }
        self.nodes.get(path).cloned().ok_or_else(|| format!("not found {path}"))
    }

    fn removable(&self, who: &Identity, path: &str) -> Result<NodeFacts, String> {
        let node = self.find(who, path)?;
        self.may_take(who, path, &node)?;
        Ok(node)
    }

    /// An entry may be taken out of its directory, which may have the sticky bit.
    fn may_take(&self, who: &Identity, path: &str, entry: &NodeFacts) -> Result<(), String> {
        let above = parent(path);
        self.may(who, &above, 2)?;
        let directory = &self.nodes[&above];
        let is_free = directory.mode < 0o1000;
        let owners = [0, directory.uid, entry.uid];
        if is_free || owners.contains(&who.uid) { Ok(()) } else { Err(format!("denied {above}")) }
    }

    fn empty(&self, path: &str) -> Result<(), String> {
        let inside = format!("{path}/");
        if self.nodes.keys().any(|at| at.starts_with(&inside)) {
            return Err(format!("not empty {path}"));
        }
        Ok(())
    }

    fn may(&self, who: &Identity, path: &str, bit: u32) -> Result<(), String> {
        let node = &self.nodes[path];
        let digit = match () {
            () if who.uid == node.uid => node.mode / 0o100,
            () if who.gids.contains(&node.gid) => node.mode / 0o10,
            () => node.mode,
        };
        if who.uid == 0 || digit & bit != 0 { Ok(()) } else { Err(format!("denied {path}")) }
    }
}

fn parent(path: &str) -> String {
    let end = path.rfind('/').unwrap();
    path[..end.max(1)].to_owned()
}

/// Formats a failure as the model does.
pub fn failure_text(failure: &Failure) -> String {
    match failure {
        Failure::NotFound { path } => format!("not found {path}"),
        Failure::Exists { path } => format!("exists {path}"),
        Failure::NotADirectory { path } => format!("not a directory {path}"),
        Failure::IsADirectory { path } => format!("is a directory {path}"),
        Failure::NotEmpty { path } => format!("not empty {path}"),
        Failure::IntoItself { from, to } => format!("into itself {from} {to}"),
        Failure::Denied { path, .. } => format!("denied {path}"),
        other => format!("unexpected: {other}"),
    }
}

/// The accesses of random lookups.
pub const ACCESSES: [Access; 3] = [Access::LOOK, Access::READ, Access::WRITE];

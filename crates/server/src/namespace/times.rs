//! Times of directories are set.

use pario_proto::{Failure, FilePath, Identity};

use super::change::Change;
use super::handle::Namespace;
use super::permission::denied;
use super::tree::{Stop, find};

impl Namespace {
    /// Sets when the names of a directory last changed. For its owner and for root; the time of a
    /// file is that of its subfiles.
    pub fn set_directory_time(
        &self,
        who: Identity,
        path: FilePath,
        changed_ns: u64,
        done: impl FnOnce(Result<(), Failure>) + Send + 'static,
    ) {
        self.change(move |change| set_directory_time(change, &who, &path, changed_ns), done);
    }
}

fn set_directory_time(
    change: &mut Change<'_>,
    who: &Identity,
    path: &FilePath,
    changed_ns: u64,
) -> Result<(), Stop> {
    let mut node = find(change.state(), who, path)?;
    if !node.is_directory() {
        return Err(Failure::NotADirectory { path: path.clone() }.into());
    }
    if !who.is_root() && who.uid != node.record.uid {
        return Err(denied(who, &node.record, path, "set its time").into());
    }
    if node.record.changed_ns != changed_ns {
        node.record.changed_ns = changed_ns;
        change.put_node(&node);
    }
    Ok(())
}

//! What is known of a file: rights from the namespace, sizes and times from its disks.

use std::collections::BTreeMap;

use pario_proto::{
    FileKind, FilePath, FileRecord, Grant, Layout, NamespaceRequest, Part, Reply, Request,
    SubfileIndex, SubfileMeasure,
};

use crate::cluster::{Cluster, Shared};
use crate::connection::strange;
use crate::error::Error;

/// Size, times, rights, and where the bytes lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What the namespace says.
    pub record: FileRecord,
    /// Length in bytes; for extents, the bytes of all headers and bodies.
    pub len: u64,
    /// When bytes last changed, in nanoseconds since 1970; for directories, when names did.
    pub modified_ns: u64,
    /// One for each disk.
    pub subfiles: Vec<SubfileMeasure>,
}

impl Metadata {
    pub(crate) fn of_path(cluster: &Cluster, path: FilePath) -> Result<Self, Error> {
        match cluster.names(NamespaceRequest::Stat { path })? {
            Reply::Stat { record, grant } => {
                let grants = vec![(record, grant)];
                let mut all = measure(&cluster.shared, grants)?;
                all.pop().ok_or_else(|| strange("interface"))
            }
            _ => Err(strange("interface")),
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.record.kind == FileKind::Directory
    }

    /// Bytes that it takes on disks.
    pub fn disk_bytes(&self) -> u64 {
        self.subfiles.iter().map(|subfile| subfile.disk_bytes).sum()
    }
}

/// The parts of a file, in order.
pub(crate) fn parts_of(record: &FileRecord) -> Vec<Part> {
    let disks = record.layout.as_ref().map(|layout| layout.disks().as_slice()).unwrap_or_default();
    (0..).zip(disks).map(|(index, &disk)| Part { disk, subfile: SubfileIndex(index) }).collect()
}

/// Asks all nodes concerned at once, each once, for the sizes of files.
pub(crate) fn measure(
    shared: &Shared,
    files: Vec<(FileRecord, Option<Grant>)>,
) -> Result<Vec<Metadata>, Error> {
    let mut by_node: BTreeMap<usize, Vec<(usize, Grant, Vec<Part>)>> = BTreeMap::new();
    for (number, (record, grant)) in files.iter().enumerate() {
        let Some(grant) = grant else { continue };
        for part in parts_of(record) {
            let asked = by_node.entry(shared.node_of(part.disk)?).or_default();
            match asked.last_mut() {
                Some((last, _, parts)) if *last == number => parts.push(part),
                _ => asked.push((number, grant.clone(), vec![part])),
            }
        }
    }
    let mut measures: Vec<Vec<SubfileMeasure>> = vec![Vec::new(); files.len()];
    let mut waiting = Vec::new();
    for (node, asked) in by_node {
        let numbers: Vec<usize> = asked.iter().map(|(number, ..)| *number).collect();
        let files = asked.into_iter().map(|(_, grant, parts)| (grant, parts)).collect();
        let started = shared.node(node).start(Request::Measure { files }, Vec::new())?;
        waiting.push((numbers, started));
    }
    for (numbers, started) in waiting {
        let node = started.node().to_owned();
        let (Reply::Measured(lists), _) = started.wait()? else { return Err(strange(&node)) };
        for (number, list) in numbers.into_iter().zip(lists) {
            measures[number].extend(list);
        }
    }
    let put_together = |((record, _), mut subfiles): ((FileRecord, _), Vec<SubfileMeasure>)| {
        subfiles.sort_by_key(|subfile| subfile.subfile);
        let len = len_of(&record, &subfiles)?;
        let modified = subfiles.iter().map(|subfile| subfile.modified_ns).max();
        let modified_ns = modified.unwrap_or(record.changed_ns).max(record.created_ns);
        Ok(Metadata { record, len, modified_ns, subfiles })
    };
    files.into_iter().zip(measures).map(put_together).collect()
}

/// The length of a file whose subfiles have these lengths.
pub(crate) fn len_of(record: &FileRecord, subfiles: &[SubfileMeasure]) -> Result<u64, Error> {
    match &record.layout {
        Some(Layout::Striped(striped)) => {
            let lens: Vec<u64> = subfiles.iter().map(|subfile| subfile.len).collect();
            striped.file_size_bytes(&lens).map_err(|error| Error::other(error.to_string()))
        }
        _ => Ok(subfiles.iter().map(|subfile| subfile.len).sum()),
    }
}

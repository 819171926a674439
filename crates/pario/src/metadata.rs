//! The metadata of a file: rights from the namespace, sizes and times from its disks.

use std::collections::BTreeMap;

use pario_proto::{
    FileKind, FilePath, FileRecord, Grant, Layout, NamespaceRequest, RANGES_LIMIT, Reply, Request,
    SubfileIndex, SubfileLocation, SubfileMeasure,
};

use crate::cluster::{Cluster, ClusterState};
use crate::connection::{Waiting, strange};
use crate::error::Error;

/// The size, times, rights and subfiles of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The record in the namespace.
    pub record: FileRecord,
    /// Length in bytes; for extents, the bytes of all headers and bodies.
    pub len: u64,
    /// The time of the last change of bytes, in nanoseconds since 1970; for directories, of names.
    pub modified_ns: u64,
    /// The subfiles, one for each disk.
    pub subfiles: Vec<SubfileMeasure>,
}

impl Metadata {
    pub(crate) fn of_path(cluster: &Cluster, path: FilePath) -> Result<Self, Error> {
        match cluster.names(NamespaceRequest::Stat { path })? {
            Reply::Stat { record, grant } => {
                let grants = vec![(record, grant)];
                let mut all = measure(&cluster.shared, grants);
                all.pop().ok_or_else(|| strange("interface"))?
            }
            _ => Err(strange("interface")),
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.record.kind == FileKind::Directory
    }

    /// The bytes that the file occupies on disks.
    pub fn disk_bytes(&self) -> u64 {
        self.subfiles.iter().map(|subfile| subfile.disk_bytes).sum()
    }
}

/// The parts of a file, in order.
pub(crate) fn parts_of(record: &FileRecord) -> Vec<SubfileLocation> {
    let disks = record.layout.as_ref().map(|layout| layout.disks().as_slice()).unwrap_or_default();
    (0..)
        .zip(disks)
        .map(|(index, &disk)| SubfileLocation { disk, subfile: SubfileIndex(index) })
        .collect()
}

/// Subfiles of a file that one node holds.
#[derive(Clone)]
struct MeasureItem {
    /// The index of the file among those that are measured.
    file: usize,
    grant: Grant,
    parts: Vec<SubfileLocation>,
}

/// The subfiles of each file, or the error that prevents measuring them.
type Measures = Vec<Result<Vec<SubfileMeasure>, Error>>;

/// Measures files, with as few requests as possible, to all nodes concerned at once. A file that
/// cannot be measured is an error for itself only.
pub(crate) fn measure(
    shared: &ClusterState,
    files: Vec<(FileRecord, Option<Grant>)>,
) -> Vec<Result<Metadata, Error>> {
    let mut measures: Measures = files.iter().map(|_| Ok(Vec::new())).collect();
    let mut waiting = Vec::new();
    for (node, requests) in requests_by_node(shared, &files, &mut measures) {
        let mut trouble = None;
        for asked in requests {
            // A node that cannot be reached is tried once.
            let started = trouble.clone().map_or_else(|| start(shared, node, &asked), Err);
            match started {
                Ok(started) => waiting.push((node, asked, started)),
                Err(error) => {
                    leave_out(&asked, &error, &mut measures);
                    trouble = Some(error);
                }
            }
        }
    }
    for (node, asked, started) in waiting {
        take(shared, node, asked, started, &mut measures);
    }
    let combine = |((record, _), measured): ((FileRecord, _), Result<_, Error>)| {
        let mut subfiles: Vec<SubfileMeasure> = measured?;
        subfiles.sort_by_key(|subfile| subfile.subfile);
        let len = len_of(&record, &subfiles)?;
        let modified_ns = modified_ns(&record, &subfiles);
        Ok(Metadata { record, len, modified_ns, subfiles })
    };
    files.into_iter().zip(measures).map(combine).collect()
}

/// When a file or directory last changed. An empty subfile comes into being when a process opens
/// the file, which is no change: only the first one counts, if all are empty.
fn modified_ns(record: &FileRecord, subfiles: &[SubfileMeasure]) -> u64 {
    if record.kind == FileKind::Directory {
        return record.changed_ns;
    }
    let filled = subfiles.iter().filter(|subfile| subfile.len > 0);
    let latest = filled.map(|subfile| subfile.modified_ns).max();
    let latest = latest.or(subfiles.first().map(|first| first.modified_ns));
    // A subfile that has not come into being has no time.
    latest.filter(|time| *time > 0).unwrap_or(record.created_ns)
}

/// The requests to each node; none has more parts than a node accepts.
fn requests_by_node(
    shared: &ClusterState,
    files: &[(FileRecord, Option<Grant>)],
    measures: &mut Measures,
) -> BTreeMap<usize, Vec<Vec<MeasureItem>>> {
    let mut by_node: BTreeMap<usize, Vec<Vec<MeasureItem>>> = BTreeMap::new();
    let mut room: BTreeMap<usize, usize> = BTreeMap::new();
    for (file, (record, grant)) in files.iter().enumerate() {
        let Some(grant) = grant else { continue };
        for part in parts_of(record) {
            let node = match shared.node_of(part.disk) {
                Ok(node) => node,
                Err(error) => {
                    measures[file] = Err(error);
                    break;
                }
            };
            let (requests, room) =
                (by_node.entry(node).or_default(), room.entry(node).or_default());
            if *room == 0 {
                requests.push(Vec::new());
                *room = RANGES_LIMIT;
            }
            *room -= 1;
            let Some(request) = requests.last_mut() else { continue };
            match request.last_mut() {
                Some(asked) if asked.file == file => asked.parts.push(part),
                _ => request.push(MeasureItem { file, grant: grant.clone(), parts: vec![part] }),
            }
        }
    }
    by_node
}

fn start(shared: &ClusterState, node: usize, asked: &[MeasureItem]) -> Result<Waiting, Error> {
    let files = asked.iter().map(|asked| (asked.grant.clone(), asked.parts.clone())).collect();
    shared.node(node).start(Request::Measure { files }, Vec::new())
}

/// Waits for the sizes. If they are refused because of some of the files, the others are asked for
/// without these: half of them at a time, until it is clear which they are.
fn take(
    shared: &ClusterState,
    node: usize,
    asked: Vec<MeasureItem>,
    started: Waiting,
    measures: &mut Measures,
) {
    let name = started.node().to_owned();
    let error = match started.wait() {
        Ok((Reply::Measured(lists), _)) if lists.len() == asked.len() => {
            for (asked, list) in asked.iter().zip(lists) {
                if let Ok(known) = &mut measures[asked.file] {
                    known.extend(list);
                }
            }
            return;
        }
        Ok(_) => strange(&name),
        Err(error) => error,
    };
    if asked.len() == 1 || !matches!(error, Error::Failure(_)) {
        return leave_out(&asked, &error, measures);
    }
    for half in asked.chunks(asked.len().div_ceil(2)) {
        match start(shared, node, half) {
            Ok(started) => take(shared, node, half.to_vec(), started, measures),
            Err(error) => leave_out(half, &error, measures),
        }
    }
}

fn leave_out(asked: &[MeasureItem], error: &Error, measures: &mut Measures) {
    for asked in asked {
        measures[asked.file] = Err(error.clone());
    }
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

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;

    /// What is needed to measure a file.
    fn asked(cluster: &Cluster, path: &str) -> (FileRecord, Option<Grant>) {
        let path = FilePath::new(path).unwrap();
        match cluster.names(NamespaceRequest::Stat { path }).unwrap() {
            Reply::Stat { record, grant } => (record, grant),
            reply => panic!("{reply:?}"),
        }
    }

    #[test]
    fn files_that_cannot_be_measured_hide_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::embedded(dir.path()).unwrap();
        let mut files = Vec::new();
        for number in 0..20 {
            let path = format!("/{number}");
            cluster.create(&path).unwrap().write_at(&vec![1; number], 0).unwrap();
            files.push(asked(&cluster, &path));
        }
        // Grants from before the change of rights are not valid any more.
        for revoked in ["/3", "/4", "/17"] {
            cluster.set_mode(revoked, 0o600).unwrap();
        }
        for (number, measured) in measure(&cluster.shared, files).into_iter().enumerate() {
            match measured {
                Ok(measured) => assert_eq!(measured.len, number as u64),
                Err(error) => assert!([3, 4, 17].contains(&number), "{number}: {error}"),
            }
        }
    }

    #[test]
    fn more_is_measured_than_one_request_takes() {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::embedded(dir.path()).unwrap();
        cluster.create("/a").unwrap().write_at(&[1; 300_000], 0).unwrap();
        let one = asked(&cluster, "/a");
        let count = RANGES_LIMIT / parts_of(&one.0).len() + 7;
        let measured = measure(&cluster.shared, vec![one; count]);
        assert_eq!(measured.len(), count);
        assert!(measured.iter().all(|one| one.as_ref().is_ok_and(|one| one.len == 300_000)));
    }
}

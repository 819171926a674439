//! Calls on many files with few requests: open, write, sync, read and remove. A call sends one
//! request to each node and round; the names, syncs and marks of a round become durable together.
//! Each file has its own result.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use pario_proto::{
    FILES_LIMIT, FilePath, Grant, NamespaceRequest, NewFile, Opened, Removal, Reply, Request,
    SubfileIndex, SubfileLocation,
};

use super::File;
use super::transfer::PendingBatch;
use crate::cluster::Cluster;
use crate::connection::{Waiting, strange};
use crate::error::Error;
use crate::metadata::measure;
use crate::open::OpenOptions;

/// Bytes that one round writes, or that are read at the same time.
const ROUND_BYTES: usize = 8 << 20;

/// A file and its complete content, for [`OpenOptions::write_files`].
#[derive(Clone, Copy, Debug)]
pub struct FileContent<'b> {
    /// Its path.
    pub path: &'b str,
    /// Permissions of a new file; by default those of the options.
    pub mode: Option<u32>,
    /// All its bytes.
    pub bytes: &'b [u8],
    /// The time of the last change, in nanoseconds since 1970; by default now.
    pub modified_ns: Option<u64>,
}

/// A file of a round, once it is open.
struct FileInRound {
    file: File,
    is_created: bool,
    /// The subfiles to be synced.
    parts: Vec<SubfileLocation>,
    written: Result<(), Error>,
}

impl OpenOptions<'_> {
    /// Opens many files like [`open`](OpenOptions::open), with one request for a thousand of them.
    /// The results are in the order of the paths; the failure of one does not concern the others.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.create("/a")?;
    /// let opened = cluster.options().read(true).open_many(&["/a", "/missing"]);
    /// assert!(opened[0].is_ok() && opened[1].is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_many<P: AsRef<str>>(&self, paths: &[P]) -> Vec<Result<File, Error>> {
        let files: Vec<_> = paths.iter().map(|path| (path.as_ref(), None)).collect();
        let opened = files.chunks(FILES_LIMIT).flat_map(|files| self.open_each(files));
        opened.map(|opened| opened.map(|(file, _)| file)).collect()
    }

    /// Writes whole files: creates each, or replaces its content, and makes it durable. A thousand
    /// small files take a few requests, and each disk is synced once for all of them. The results
    /// are in the order of the files; a file whose result is `Ok` survives a power loss. The call
    /// removes a file that it has created and could not write.
    ///
    /// Meant for files that fit into memory many times. The options apply as for
    /// [`open`](OpenOptions::open): with `create_new`, a file that exists is an error.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::FileContent;
    ///
    /// let files = [
    ///     FileContent { path: "/a", mode: None, bytes: b"alpha", modified_ns: None },
    ///     FileContent { path: "/no/b", mode: Some(0o600), bytes: b"beta", modified_ns: None },
    /// ];
    /// let written = cluster.options().write_files(&files);
    /// assert!(written[0].is_ok() && written[1].is_err());
    /// assert_eq!(cluster.read_files(&["/a"])[0].as_ref().unwrap(), b"alpha");
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_files(&self, files: &[FileContent<'_>]) -> Vec<Result<(), Error>> {
        let options = self.clone().write(true).create(true).truncate(true);
        let mut results = Vec::with_capacity(files.len());
        let mut rest = files;
        while !rest.is_empty() {
            let mut bytes = 0;
            let is_over = |file: &FileContent<'_>| {
                bytes += file.bytes.len();
                bytes > ROUND_BYTES
            };
            let count = rest.iter().position(is_over).unwrap_or(rest.len());
            let (round, later) = rest.split_at(count.clamp(1, FILES_LIMIT.min(rest.len())));
            results.extend(options.write_round(round));
            rest = later;
        }
        results
    }

    fn write_round(&self, files: &[FileContent<'_>]) -> Vec<Result<(), Error>> {
        let wanted: Vec<_> = files.iter().map(|file| (file.path, file.mode)).collect();
        let opened = self.open_each(&wanted);
        let start = |(opened, content): (Result<(File, bool), Error>, &FileContent<'_>)| {
            let (file, is_created) = opened?;
            let writes = file.start_writing(content.bytes);
            Ok((file, is_created, writes))
        };
        // Starts all writes before it waits for the first; likewise all changes of times.
        let started: Vec<Result<_, Error>> = opened.into_iter().zip(files).map(start).collect();
        let finish = |(started, content): (Result<_, Error>, &FileContent<'_>)| {
            let (file, is_created, writes): (File, bool, _) = started?;
            let (mut parts, written) = match file.finish_writing(writes, content.bytes) {
                Ok(parts) => (parts, Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            };
            // The old content of an existing file is truncated on all disks.
            if !is_created {
                parts.clone_from(&file.state.parts);
            }
            // The first subfile carries the time of an empty file.
            let first = file.state.parts.first().filter(|first| !parts.contains(first));
            parts.extend(first.copied().filter(|_| content.modified_ns.is_some()));
            Ok(FileInRound { file, is_created, parts, written })
        };
        let mut begun: Vec<Result<FileInRound, Error>> =
            started.into_iter().zip(files).map(finish).collect();
        let start = |(begun, content): (&Result<FileInRound, Error>, &FileContent<'_>)| {
            let begun = begun.as_ref().ok().filter(|begun| begun.written.is_ok())?;
            Some(begun.file.start_setting_time(&begun.parts, content.modified_ns?))
        };
        let times: Vec<_> = begun.iter().zip(files).map(start).collect();
        for ((begun, times), content) in begun.iter_mut().zip(times).zip(files) {
            if let (Ok(begun), Some(times), Some(time)) = (begun, times, content.modified_ns) {
                begun.written = begun.file.finish_setting_time(times, time);
            }
        }
        let is_written = |begun: &&FileInRound| begun.written.is_ok();
        let work: Vec<_> = begun.iter().flatten().filter(is_written).collect();
        let work: Vec<_> = work.iter().map(|begun| (&begun.file, &begun.parts[..])).collect();
        let mut synced = sync_parts(self.cluster(), &work).into_iter();
        let result = |begun: &Result<FileInRound, Error>| {
            let begun = begun.as_ref().map_err(Clone::clone)?;
            let done = match &begun.written {
                Ok(()) => synced.next().unwrap_or_else(|| Err(strange("interface"))),
                Err(error) => Err(error.clone()),
            };
            if done.is_err() && begun.is_created {
                // The failed write is reported, not the removal.
                let _ = self.cluster().remove(begun.file.state.path.as_str());
            }
            done
        };
        let results = begun.iter().map(result).collect();
        close(self.cluster(), begun.into_iter().flatten().map(|begun| begun.file));
        results
    }

    /// Opens the files of one request. Returns whether it has created each.
    fn open_each(&self, files: &[(&str, Option<u32>)]) -> Vec<Result<(File, bool), Error>> {
        let parse = |(path, _): &(&str, _)| Ok(FilePath::new(path)?);
        let paths: Vec<Result<FilePath, Error>> = files.iter().map(parse).collect();
        let Some(first) = paths.iter().flatten().next() else {
            return paths
                .into_iter()
                .map(|path| Err(path.err().unwrap_or_else(no_result)))
                .collect();
        };
        let reply = self.checked_access(first).and_then(|access| {
            let known = paths.iter().flatten().cloned();
            let request = match self.creation(first)? {
                Some((is_new, usual, layout)) => {
                    let modes = files.iter().zip(&paths).filter(|(_, path)| path.is_ok());
                    let modes = modes.map(|((_, mode), _)| mode.unwrap_or(usual));
                    let files = known.zip(modes).map(|(path, mode)| NewFile { path, mode });
                    NamespaceRequest::CreateMany { files: files.collect(), access, is_new, layout }
                }
                None => NamespaceRequest::OpenMany { paths: known.collect(), access },
            };
            match self.cluster().names(request)? {
                Reply::OpenedMany(opened) => Ok((access, opened)),
                _ => Err(strange("interface")),
            }
        });
        let (access, mut opened) = match reply {
            Ok((access, opened)) => (access, opened.into_iter()),
            Err(error) => {
                let fail =
                    |path: Result<_, Error>| Err(path.err().unwrap_or_else(|| error.clone()));
                return paths.into_iter().map(fail).collect();
            }
        };
        let open = |path: Result<FilePath, Error>| {
            let path = path?;
            let opened: Opened = opened.next().ok_or_else(|| strange("interface"))??;
            let is_created = opened.is_created;
            let file = File::new(self.cluster(), path, access, opened);
            self.prepare(&file, is_created)?;
            Ok((file, is_created))
        };
        paths.into_iter().map(open).collect()
    }
}

impl Cluster {
    /// Reads whole files. A thousand small files take a few requests. The results are in the order
    /// of the paths; the failure of one does not concern the others.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// cluster.create("/a")?.write_at(b"alpha", 0)?;
    /// let read = cluster.read_files(&["/a", "/missing"]);
    /// assert_eq!(read[0].as_ref().unwrap(), b"alpha");
    /// assert!(read[1].is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_files<P: AsRef<str>>(&self, paths: &[P]) -> Vec<Result<Vec<u8>, Error>> {
        paths.chunks(FILES_LIMIT).flat_map(|paths| self.read_round(paths)).collect()
    }

    fn read_round<P: AsRef<str>>(&self, paths: &[P]) -> Vec<Result<Vec<u8>, Error>> {
        let opened = self.options().read(true).open_many(paths);
        let asked = |file: &File| (file.state.record.clone(), Some(file.grant()));
        let asked = opened.iter().flatten().map(asked).collect();
        let mut lens = measure(&self.shared, asked).into_iter();
        let mut results: Vec<Result<Vec<u8>, Error>> = Vec::with_capacity(paths.len());
        let mut under_way: VecDeque<(usize, usize, Result<Vec<PendingBatch>, Error>)> =
            VecDeque::new();
        let mut bytes = 0;
        for (number, found) in opened.iter().enumerate() {
            results.push(Ok(Vec::new()));
            let file = match found {
                Ok(file) => file,
                Err(error) => {
                    results[number] = Err(error.clone());
                    continue;
                }
            };
            let len = match lens.next() {
                Some(Ok(found)) => usize::try_from(found.len).unwrap_or(usize::MAX),
                // Asks for this file alone, which can renew the grant.
                _ => match file.len() {
                    Ok(len) => usize::try_from(len).unwrap_or(usize::MAX),
                    Err(error) => {
                        results[number] = Err(error);
                        continue;
                    }
                },
            };
            bytes += len;
            under_way.push_back((number, len, file.start_reading_whole(len)));
            while bytes > ROUND_BYTES
                && let Some((number, len, reading)) = under_way.pop_front()
            {
                bytes -= len;
                results[number] = finish(&opened[number], reading, len);
            }
        }
        for (number, len, reading) in under_way {
            results[number] = finish(&opened[number], reading, len);
        }
        close(self, opened.into_iter().flatten());
        results
    }

    /// Makes many open files durable, like [`File::sync`]: each disk is synced once for all of
    /// them. The results are in the order of the files.
    ///
    /// ```
    /// # fn main() -> Result<(), pario::Error> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// let (a, b) = (cluster.create("/a")?, cluster.create("/b")?);
    /// a.write_at(b"alpha", 0)?;
    /// b.write_at(b"beta", 0)?;
    /// for synced in cluster.sync_many(&[&a, &b]) {
    ///     synced?; // from here on it survives a power loss
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn sync_many(&self, files: &[&File]) -> Vec<Result<(), Error>> {
        let check = |file: &&File| file.check_opened_for_writing();
        let checked: Vec<Result<(), Error>> = files.iter().map(check).collect();
        let work: Vec<(&File, &[SubfileLocation])> = files
            .iter()
            .zip(&checked)
            .filter(|(_, checked)| checked.is_ok())
            .map(|(file, _)| (*file, &file.state.parts[..]))
            .collect();
        for (file, _) in &work {
            file.state.is_dirty.store(false, Ordering::SeqCst);
        }
        let synced = sync_parts(self, &work);
        for ((file, _), synced) in work.iter().zip(&synced) {
            if synced.is_err() {
                file.state.is_dirty.store(true, Ordering::SeqCst);
            }
        }
        let mut synced = synced.into_iter();
        let result = |checked: Result<(), Error>| {
            checked.and_then(|()| synced.next().unwrap_or_else(|| Err(strange("interface"))))
        };
        checked.into_iter().map(result).collect()
    }

    /// Removes many files and empty directories, in the given order, with one request for a
    /// thousand of them. The results are in the same order; the failure of one does not concern the
    /// others.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let cluster = pario::Cluster::embedded(dir.path())?;
    /// use pario::{FilePath, Removal};
    ///
    /// cluster.make_directory("/old")?;
    /// cluster.create("/old/a")?;
    /// let removed = cluster.remove_many(&[
    ///     Removal { path: FilePath::new("/old/a")?, is_directory: false },
    ///     Removal { path: FilePath::new("/old/missing")?, is_directory: false },
    ///     Removal { path: FilePath::new("/old")?, is_directory: true },
    /// ]);
    /// assert!(removed[0].is_ok() && removed[1].is_err() && removed[2].is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_many(&self, removals: &[Removal]) -> Vec<Result<(), Error>> {
        let round = |removals: &[Removal]| {
            let request = NamespaceRequest::RemoveMany { entries: removals.to_vec() };
            let wanted = removals.len();
            match self.names(request) {
                Ok(Reply::Each(each)) if each.len() == wanted => {
                    each.into_iter().map(|removed| removed.map_err(Error::from)).collect()
                }
                Ok(_) => vec![Err(strange("interface")); wanted],
                Err(error) => vec![Err(error); wanted],
            }
        };
        removals.chunks(FILES_LIMIT).flat_map(round).collect()
    }
}

/// The error for a path without a result; every path has one.
fn no_result() -> Error {
    strange("interface")
}

/// Waits for the batches of a file. Reads a file again that has changed since it was measured, or
/// whose read a node has refused.
fn finish(
    file: &Result<File, Error>,
    reading: Result<Vec<PendingBatch>, Error>,
    len: usize,
) -> Result<Vec<u8>, Error> {
    let file = file.as_ref().map_err(Clone::clone)?;
    let mut buffer = vec![0; len];
    let read = reading.and_then(|reading| file.finish_reading_whole(reading, &mut buffer));
    if !matches!(read, Ok(true)) {
        let count = file.read_at(&mut buffer, 0)?;
        buffer.truncate(count);
    }
    Ok(buffer)
}

/// Closes files at the interface node without waiting for replies.
fn close(cluster: &Cluster, files: impl Iterator<Item = File>) {
    let handles: Vec<u64> = files.map(File::into_handle).collect();
    for handles in handles.chunks(FILES_LIMIT) {
        cluster.tell_names(NamespaceRequest::CloseMany { handles: handles.to_vec() });
    }
}

/// A subfile to be synced: the number of its file, the grant, and its location.
type Synced = (usize, Grant, SubfileLocation);

/// Syncs subfiles, and marks those that were synced for the first time.
fn sync_parts(cluster: &Cluster, work: &[(&File, &[SubfileLocation])]) -> Vec<Result<(), Error>> {
    let mut outcomes: Vec<Result<Vec<SubfileIndex>, Error>> =
        work.iter().map(|_| Ok(Vec::new())).collect();
    let mut by_node: BTreeMap<usize, Vec<Synced>> = BTreeMap::new();
    for (number, (file, parts)) in work.iter().enumerate() {
        let grant = file.grant();
        for part in *parts {
            match cluster.shared.node_of(part.disk) {
                Ok(node) => by_node.entry(node).or_default().push((number, grant.clone(), *part)),
                Err(error) => outcomes[number] = Err(error),
            }
        }
    }
    let start = |node: usize, subfiles: &[Synced]| {
        let subfiles = subfiles.iter().map(|(_, grant, part)| (grant.clone(), *part)).collect();
        cluster.shared.node(node).start(Request::SyncMany { subfiles }, Vec::new())
    };
    let mut waiting: Vec<(&[Synced], Result<Waiting, Error>)> = Vec::new();
    for (node, subfiles) in &by_node {
        for subfiles in subfiles.chunks(FILES_LIMIT) {
            waiting.push((subfiles, start(*node, subfiles)));
        }
    }
    for (subfiles, started) in waiting {
        let synced = started.and_then(|started| {
            let node = started.node().to_owned();
            match started.wait()?.0 {
                Reply::SyncedMany(synced) if synced.len() == subfiles.len() => Ok(synced),
                _ => Err(strange(&node)),
            }
        });
        match synced {
            Ok(synced) => {
                for ((number, _, part), synced) in subfiles.iter().zip(synced) {
                    match (synced, &mut outcomes[*number]) {
                        (Ok(true), Ok(there)) => there.push(part.subfile),
                        (Err(failure), outcome) => *outcome = Err(failure.into()),
                        _ => {}
                    }
                }
            }
            Err(error) => {
                subfiles.iter().for_each(|(number, ..)| outcomes[*number] = Err(error.clone()));
            }
        }
    }
    mark(cluster, work, &mut outcomes);
    let result = |((file, _), outcome): (&(&File, _), Result<_, Error>)| match outcome {
        Ok(_) => Ok(()),
        // Syncs this file alone, which renews the grant.
        Err(error) if error.needs_renewal() => file.sync(),
        Err(error) => Err(error.of_file(file.state.path.as_str())),
    };
    work.iter().zip(outcomes).map(result).collect()
}

/// Marks the subfiles that were synced for the first time in the namespace.
fn mark(
    cluster: &Cluster,
    work: &[(&File, &[SubfileLocation])],
    outcomes: &mut [Result<Vec<SubfileIndex>, Error>],
) {
    let mut marks: Vec<(usize, Vec<SubfileIndex>)> = Vec::new();
    for (number, ((file, _), outcome)) in work.iter().zip(outcomes.iter()).enumerate() {
        let Ok(there) = outcome else { continue };
        let first_synced = file.state.first_synced.lock();
        let is_fresh = |subfile: &SubfileIndex| !first_synced[subfile.0 as usize];
        let fresh: Vec<_> = there.iter().copied().filter(is_fresh).collect();
        if !fresh.is_empty() {
            marks.push((number, fresh));
        }
    }
    for marks in marks.chunks(FILES_LIMIT) {
        let file = |(number, fresh): &(usize, Vec<_>)| (work[*number].0.grant(), fresh.clone());
        let files = marks.iter().map(file).collect();
        let each = match cluster.names(NamespaceRequest::MarkSyncedMany { files }) {
            Ok(Reply::Each(each)) if each.len() == marks.len() => {
                each.into_iter().map(|marked| marked.map_err(Error::from)).collect()
            }
            Ok(_) => vec![Err(strange("interface")); marks.len()],
            Err(error) => vec![Err(error); marks.len()],
        };
        for ((number, fresh), marked) in marks.iter().zip(each) {
            match marked {
                Ok(()) => {
                    let mut first_synced = work[*number].0.state.first_synced.lock();
                    fresh.iter().for_each(|subfile| first_synced[subfile.0 as usize] = true);
                }
                Err(error) => outcomes[*number] = Err(error),
            }
        }
    }
}

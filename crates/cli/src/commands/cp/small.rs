//! Copies small files in batches.

use std::fs;
use std::io::{self, Cursor, Read};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Context;
use pario::{DEFAULT_UNIT_BYTES, FileContent};
use pario_image::archive::is_archive;

use super::copy::{CopiedFile, Copier};
use super::direction::Location;
use super::plan::CopyItem;
use super::target::CopyTarget;
use super::{DiskArgument, SMALL_BYTES};

/// Concurrent writers of files that cannot be written in one batch request.
const CONCURRENT_WRITES: usize = 8;

/// Most bytes in memory at a time.
const ROUND_BYTES: u64 = 16 << 20;

impl Copier<'_> {
    /// Copies files of at most [`SMALL_BYTES`] in batches. The results are in the order of the
    /// items.
    pub fn copy_small(&self, items: &[CopyItem]) -> Vec<anyhow::Result<CopiedFile>> {
        let mut results = Vec::with_capacity(items.len());
        let mut rest = items;
        while !rest.is_empty() {
            let mut bytes = 0;
            let is_over = |item: &CopyItem| {
                bytes += item.len.unwrap_or(SMALL_BYTES);
                bytes > ROUND_BYTES
            };
            let count = rest.iter().position(is_over).unwrap_or(rest.len()).max(1);
            let (round, later) = rest.split_at(count);
            results.extend(self.copy_round(round));
            rest = later;
        }
        results
    }

    /// Copies files that fit into memory together: one batch request reads those in the cluster,
    /// one creates those that are new in the cluster; the others are written one by one.
    fn copy_round(&self, items: &[CopyItem]) -> Vec<anyhow::Result<CopiedFile>> {
        let began = Instant::now();
        let contents = self.read_round(items);
        let may_share = |(item, content): &(&CopyItem, &anyhow::Result<Vec<u8>>)| {
            let is_local = matches!(item.from, Location::Local(_));
            content.as_ref().is_ok_and(|bytes| {
                bytes.len() as u64 <= self.flags.unit.unwrap_or(DEFAULT_UNIT_BYTES)
                    && (self.flags.plain || !is_local || !is_archive(bytes))
            })
        };
        let shared: Vec<usize> = (0..items.len())
            .filter(|&at| matches!(items[at].to, Location::Cluster(_)))
            .filter(|&at| may_share(&(&items[at], &contents[at])))
            .collect();
        let written = self.write_round(items, &contents, &shared);
        let mut results: Vec<Option<anyhow::Result<CopiedFile>>> = Vec::new();
        results.resize_with(items.len(), || None);
        let took = began.elapsed() / u32::try_from(items.len()).unwrap_or(1).max(1);
        for (&at, written) in shared.iter().zip(written) {
            let Ok(bytes) = &contents[at] else { continue };
            results[at] = match written {
                // An existing file is replaced individually.
                Err(error) if error.kind() == pario::ErrorKind::AlreadyExists => None,
                Err(error) => Some(Err(error.into())),
                Ok(()) => {
                    let copied = CopiedFile { bytes: bytes.len() as u64, continued_at: 0, took };
                    Some(self.check_small(&items[at], bytes).map(|()| copied))
                }
            };
        }
        let left: Vec<(usize, anyhow::Result<Vec<u8>>)> =
            contents.into_iter().enumerate().filter(|(at, _)| results[*at].is_none()).collect();
        for (at, result) in self.copy_each(items, left) {
            results[at] = Some(result);
        }
        results.into_iter().flatten().collect()
    }

    /// Reads all sources.
    fn read_round(&self, items: &[CopyItem]) -> Vec<anyhow::Result<Vec<u8>>> {
        let path = |item: &CopyItem| match &item.from {
            Location::Cluster(path) => Some(path.as_str().to_owned()),
            _ => None,
        };
        let paths: Vec<String> = items.iter().filter_map(path).collect();
        let mut found = self.cluster.read_files(&paths).into_iter();
        let read = |item: &CopyItem| {
            self.interrupt.check()?;
            let mut bytes = Vec::new();
            match &item.from {
                Location::Cluster(_) => bytes = found.next().unwrap_or_else(|| Ok(Vec::new()))?,
                Location::Local(path) => {
                    bytes = fs::read(path).with_context(|| path.display().to_string())?;
                }
                Location::Stream => {
                    io::stdin().read_to_end(&mut bytes)?;
                }
            }
            Ok(bytes)
        };
        items.iter().map(read).collect()
    }

    /// Creates files that are new in the cluster; returns the result of each.
    fn write_round(
        &self,
        items: &[CopyItem],
        contents: &[anyhow::Result<Vec<u8>>],
        which: &[usize],
    ) -> Vec<Result<(), pario::Error>> {
        let content = |&at: &usize| match (&items[at].to, &contents[at]) {
            (Location::Cluster(path), Ok(bytes)) => Some(FileContent {
                path: path.as_str(),
                mode: items[at].mode,
                bytes,
                modified_ns: items[at].modified_ns.filter(|_| self.flags.keeps_times()),
            }),
            _ => None,
        };
        let files: Vec<FileContent<'_>> = which.iter().filter_map(content).collect();
        if files.is_empty() {
            return Vec::new();
        }
        let mut options = self.cluster.options().create_new(true);
        if let Some(unit) = self.flags.unit {
            options = options.unit(unit);
        }
        options = match &self.flags.disks {
            None => options,
            Some(DiskArgument::Count(count)) => options.disk_count(*count),
            Some(DiskArgument::These(names)) => options.disks(names.iter().cloned()),
        };
        options.write_files(&files)
    }

    /// Copies contents that were read, several at the same time.
    fn copy_each(
        &self,
        items: &[CopyItem],
        contents: Vec<(usize, anyhow::Result<Vec<u8>>)>,
    ) -> Vec<(usize, anyhow::Result<CopiedFile>)> {
        let count = CONCURRENT_WRITES.min(contents.len());
        let contents = Mutex::new(contents.into_iter());
        let (done, results) = channel();
        thread::scope(|scope| {
            for _ in 0..count {
                let (done, contents) = (done.clone(), &contents);
                scope.spawn(move || {
                    loop {
                        // A thread that panics while it holds the lock has already taken its item.
                        let next = contents.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some((at, content)) = next else { return };
                        let copied = content.and_then(|bytes| self.copy_one(&items[at], bytes));
                        // The receiver outlives all senders.
                        let _ = done.send((at, copied));
                    }
                });
            }
        });
        drop(done);
        results.into_iter().collect()
    }

    fn copy_one(&self, item: &CopyItem, bytes: Vec<u8>) -> anyhow::Result<CopiedFile> {
        self.interrupt.check()?;
        let began = Instant::now();
        let may_be_archive = matches!(item.to, Location::Cluster(_)) && !self.flags.plain;
        if may_be_archive && matches!(item.from, Location::Local(_)) && is_archive(&bytes) {
            let bytes = self.import_archive(item, &mut Cursor::new(bytes))?;
            return Ok(CopiedFile { bytes, continued_at: 0, took: began.elapsed() });
        }
        let mut target = CopyTarget::begin(self.cluster, self.flags, item)?;
        match target.write(&bytes, 0) {
            Ok(()) => target.finish(item)?,
            Err(error) => {
                target.abandon();
                return Err(error);
            }
        }
        self.check_small(item, &bytes)?;
        Ok(CopiedFile { bytes: bytes.len() as u64, continued_at: 0, took: began.elapsed() })
    }

    /// Verifies a written file and advances the progress bar.
    fn check_small(&self, item: &CopyItem, bytes: &[u8]) -> anyhow::Result<()> {
        if self.flags.verify {
            self.verify(item, blake3::hash(bytes))?;
        }
        self.progress.advance(bytes.len() as u64);
        Ok(())
    }
}

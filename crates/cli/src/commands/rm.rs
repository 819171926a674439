//! `pario rm`: removes files and directory trees.

use std::ffi::OsString;

use clap::Args;
use pario::{Cluster, FilePath, Listing, Removal};
use serde_json::json;

use crate::arguments::GlobalOptions;
use crate::exit::{HintedFailure, UsageError};
use crate::interrupt::Interrupt;
use crate::{paths, reach, terminal};

/// Names removed with one request.
const BATCH: usize = 1000;

/// Examples for `--help`.
pub const EXAMPLES: &str =
    "pario rm /runs/7/result\n  pario rm -r /runs/7\n  pario rm -f /maybe/there";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// Remove directories with their contents
    #[arg(short, long)]
    recursive: bool,

    /// Ignore files that do not exist
    #[arg(short, long)]
    force: bool,

    /// The files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    if options.recursive && paths.iter().any(FilePath::is_root) {
        let text = "/: the root directory cannot be removed; name its entries instead".to_owned();
        return Err(UsageError(text).into());
    }
    let cluster = reach::cluster(global)?;
    let mut remover = Remover {
        cluster: &cluster,
        is_forced: options.force,
        files: 0,
        directories: 0,
        interrupt: Interrupt::watch()?,
    };
    for path in &paths {
        remover.remove(path, options.recursive)?;
    }
    if global.json {
        let (files, directories) = (remover.files, remover.directories);
        terminal::print_json(&json!({ "files": files, "directories": directories }))?;
    }
    Ok(())
}

struct Remover<'c> {
    cluster: &'c Cluster,
    is_forced: bool,
    files: u64,
    directories: u64,
    interrupt: Interrupt,
}

impl Remover<'_> {
    fn remove(&mut self, path: &FilePath, recursive: bool) -> anyhow::Result<()> {
        if recursive && self.is_directory(path)? {
            return self.remove_tree(path);
        }
        let removed = match self.cluster.remove(path.as_str()) {
            Err(failure) if failure.kind() == pario::ErrorKind::IsADirectory => {
                let hint = "`pario rm -r` removes a directory with its contents";
                return Err(HintedFailure { failure, hint }.into());
            }
            removed => removed,
        };
        self.files += u64::from(self.done(removed)?);
        Ok(())
    }

    /// Removes a directory tree, deepest first. A name created during the walk keeps its directory:
    /// then the tree is walked again, as long as a walk removes anything.
    fn remove_tree(&mut self, path: &FilePath) -> anyhow::Result<()> {
        loop {
            let before = self.files + self.directories;
            match self.remove_once(path)? {
                Some(kept) if self.files + self.directories == before => return Err(kept.into()),
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    /// Walks a tree once; returns the error of the first directory that was not empty.
    fn remove_once(&mut self, path: &FilePath) -> anyhow::Result<Option<pario::Error>> {
        let (mut batch, mut kept) = (Vec::with_capacity(BATCH), None);
        let mut above = Vec::new();
        above.extend(self.list(path)?);
        while let Some((directory, entries)) = above.last_mut() {
            self.interrupt.check()?;
            let removal = match entries.next().transpose()? {
                Some(entry) => {
                    let below = directory.join(&entry.name)?;
                    if entry.record.kind == pario::FileKind::Directory {
                        above.extend(self.list(&below)?);
                        continue;
                    }
                    Removal { path: below, is_directory: false }
                }
                None => {
                    let removal = Removal { path: directory.clone(), is_directory: true };
                    above.pop();
                    removal
                }
            };
            batch.push(removal);
            if batch.len() == BATCH {
                self.remove_batch(&mut batch, &mut kept)?;
            }
        }
        self.remove_batch(&mut batch, &mut kept)?;
        Ok(kept)
    }

    fn list(&self, path: &FilePath) -> anyhow::Result<Option<(FilePath, Listing)>> {
        match self.cluster.list_names(path.as_str()) {
            Ok(listing) => Ok(Some((path.clone(), listing))),
            Err(error) if self.is_forced && error.kind() == pario::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the collected names with one request. Reports the first of several failures, after
    /// the rest of the batch is removed.
    fn remove_batch(
        &mut self,
        batch: &mut Vec<Removal>,
        kept: &mut Option<pario::Error>,
    ) -> anyhow::Result<()> {
        let mut first = Ok(());
        for (removal, removed) in batch.iter().zip(self.cluster.remove_many(batch)) {
            match removed {
                Err(error)
                    if removal.is_directory
                        && error.kind() == pario::ErrorKind::DirectoryNotEmpty =>
                {
                    kept.get_or_insert(error);
                }
                removed => match self.done(removed) {
                    Ok(done) if removal.is_directory => self.directories += u64::from(done),
                    Ok(done) => self.files += u64::from(done),
                    Err(error) => first = first.and(Err(error)),
                },
            }
        }
        batch.clear();
        first
    }

    fn is_directory(&self, path: &FilePath) -> anyhow::Result<bool> {
        match self.cluster.metadata(path.as_str()) {
            Ok(known) => Ok(known.is_directory()),
            Err(error) if self.is_forced && error.kind() == pario::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether something was removed; with `--force`, a missing file is not an error.
    fn done(&self, removed: Result<(), pario::Error>) -> anyhow::Result<bool> {
        match removed {
            Ok(()) => Ok(true),
            Err(error) if self.is_forced && error.kind() == pario::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

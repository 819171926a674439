//! `pario rm`

use std::ffi::OsString;
use std::io;

use clap::Args;
use pario::{Cluster, FilePath};
use serde_json::json;

use crate::arguments::Global;
use crate::exit::Usage;
use crate::interrupt::Interrupt;
use crate::{paths, reach, terminal};

/// Lines for the help.
pub const EXAMPLES: &str =
    "pario rm /runs/7/result\n  pario rm -r /runs/7\n  pario rm -f /maybe/there";

/// What it takes.
#[derive(Args, Debug)]
pub struct Options {
    /// Remove directories with all that is in them
    #[arg(short, long)]
    recursive: bool,

    /// What is not there is fine
    #[arg(short, long)]
    force: bool,

    /// The files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Does it.
pub fn run(global: &Global, options: &Options) -> anyhow::Result<()> {
    let paths = paths::all_in_cluster(&options.paths)?;
    if options.recursive && paths.iter().any(FilePath::is_root) {
        let text = "/: the root directory cannot be removed; name what is in it".to_owned();
        return Err(Usage(text).into());
    }
    let cluster = reach::cluster(global)?;
    let mut removal = Removal {
        cluster: &cluster,
        is_forced: options.force,
        files: 0,
        directories: 0,
        interrupt: Interrupt::watch()?,
    };
    for path in &paths {
        removal.remove(path, options.recursive)?;
    }
    if global.json {
        let (files, directories) = (removal.files, removal.directories);
        terminal::print_json(&json!({ "files": files, "directories": directories }))?;
    }
    Ok(())
}

struct Removal<'c> {
    cluster: &'c Cluster,
    is_forced: bool,
    files: u64,
    directories: u64,
    interrupt: Interrupt,
}

impl Removal<'_> {
    fn remove(&mut self, path: &FilePath, recursive: bool) -> anyhow::Result<()> {
        if recursive && self.is_directory(path)? {
            return self.remove_tree(path);
        }
        let removed = self.cluster.remove(path.as_str());
        self.files += u64::from(self.done(removed)?);
        Ok(())
    }

    /// Removes what is below, deepest first. Each directory is listed anew until it is empty, so
    /// that names which come in the meantime are seen, and no list is longer than a batch.
    fn remove_tree(&mut self, path: &FilePath) -> anyhow::Result<()> {
        const BATCH: usize = 1000;
        let mut above = vec![path.clone()];
        while let Some(directory) = above.last().cloned() {
            let listed = self.cluster.list_names(directory.as_str());
            let entries = match listed {
                Ok(listing) => listing.take(BATCH).collect::<Result<Vec<_>, _>>()?,
                Err(error) if self.is_forced && error.kind() == io::ErrorKind::NotFound => {
                    above.pop();
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if entries.is_empty() {
                let removed = self.cluster.remove_directory(directory.as_str());
                self.directories += u64::from(self.done(removed)?);
                above.pop();
                continue;
            }
            for entry in entries {
                self.interrupt.check()?;
                let below = directory.join(&entry.name)?;
                if entry.record.kind == pario::FileKind::Directory {
                    above.push(below);
                } else {
                    let removed = self.cluster.remove(below.as_str());
                    self.files += u64::from(self.done(removed)?);
                }
            }
        }
        Ok(())
    }

    fn is_directory(&self, path: &FilePath) -> anyhow::Result<bool> {
        match self.cluster.metadata(path.as_str()) {
            Ok(known) => Ok(known.is_directory()),
            Err(error) if self.is_forced && error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether something was removed; that it was not there may be fine.
    fn done(&self, removed: Result<(), pario::Error>) -> anyhow::Result<bool> {
        match removed {
            Ok(()) => Ok(true),
            Err(error) if self.is_forced && error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

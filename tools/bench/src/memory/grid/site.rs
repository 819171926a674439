//! The place of a side's processes and files: this machine, or namespaces in which GlusterFS is
//! mounted.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use pario::Cluster;

use super::pattern::{Grid, Points};
use crate::cluster::gluster;
use crate::namespaces::text;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole, next_word};

/// The first process in the namespaces.
pub const ROLE: PartnerRole = PartnerRole { name: "memory-gluster", run: serve };

/// The place of a side.
#[derive(Clone, Debug)]
pub enum GridSite {
    /// On this machine.
    Here,
    /// On this machine, with files of a cluster.
    Cluster(Cluster),
    /// In the namespaces of a mount.
    GlusterMount(Rc<RefCell<GlusterMount>>),
}

/// GlusterFS, mounted in its own namespaces.
#[derive(Debug)]
pub struct GlusterMount {
    partner: PartnerProcess,
    dir: PathBuf,
}

impl GlusterMount {
    /// Installs, starts and mounts GlusterFS; the inner error says why that is impossible here.
    pub fn start(dir: &Path) -> Result<Result<Self, String>> {
        let started = gluster::start(ROLE.name, &[text(dir)?])?;
        Ok(started.map(|partner| Self { partner, dir: dir.join("mount") }))
    }

    /// The path of the mount.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Lets sides start processes there.
    pub fn into_site(self) -> GridSite {
        GridSite::GlusterMount(Rc::new(RefCell::new(self)))
    }

    fn order(&mut self, line: &str) -> Result<()> {
        self.partner.send_line(line)?;
        let said = self.partner.receive_line()?;
        ensure!(said == "done", "GlusterFS: {said}");
        Ok(())
    }
}

impl GridSite {
    /// Starts a process there; returns it unless the first process of the namespaces keeps it.
    pub fn spawn(&self, command: &mut Command) -> Result<Option<PartnerProcess>> {
        match self {
            Self::Here | Self::Cluster(_) => PartnerProcess::spawn(command).map(Some),
            Self::GlusterMount(mount) => {
                let words = [command.get_program()].into_iter().chain(command.get_args());
                let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
                mount.borrow_mut().order(&format!("spawn {}", words.join(" "))).map(|()| None)
            }
        }
    }

    /// Checks the content of a file there.
    pub fn check(&self, path: &Path, points: Points) -> Result<()> {
        match self {
            Self::Here => Grid::new(points).examine_file(&fs::read(path)?),
            Self::Cluster(cluster) => {
                let file = cluster.open(&path_in_cluster(path)?)?;
                let mut bytes = vec![0; usize::try_from(file.len()?)?];
                file.read_exact_at(&mut bytes, 0)?;
                Grid::new(points).examine_file(&bytes)
            }
            Self::GlusterMount(mount) => {
                let [x, y, z] = points;
                mount.borrow_mut().order(&format!("check {x} {y} {z} {}", text(path)?))
            }
        }
    }

    /// Deletes a file there.
    pub fn remove(&self, path: &Path) -> Result<()> {
        match self {
            Self::Here => remove(path),
            Self::Cluster(cluster) => Ok(cluster.remove(&path_in_cluster(path)?)?),
            Self::GlusterMount(mount) => {
                mount.borrow_mut().order(&format!("remove {}", text(path)?))
            }
        }
    }
}

/// The path of a file in a cluster, by its name.
pub fn path_in_cluster(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str()).context("the file has a name")?;
    Ok(format!("/{name}"))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("deleting {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [dir] = words else { bail!("needs a directory") };
    if let Err(error) = gluster::start_and_mount(Path::new(dir)) {
        return parent.send_line(format!("{error:#}").replace('\n', " "));
    }
    parent.send_line("mounted")?;
    let mut keepers = Vec::new();
    loop {
        let done = obey(&parent.receive_line()?, &mut keepers);
        parent.send_line(done.map_or_else(
            |error| format!("{error:#}").replace('\n', " "),
            |()| "done".to_owned(),
        ))?;
    }
}

fn obey(line: &str, keepers: &mut Vec<PartnerProcess>) -> Result<()> {
    let mut words = line.split_whitespace();
    match next_word::<String>(&mut words)?.as_str() {
        "spawn" => {
            let mut command = Command::new(next_word::<String>(&mut words)?);
            keepers.push(PartnerProcess::spawn(command.args(words))?);
            Ok(())
        }
        "check" => {
            let mut next = || next_word::<i32>(&mut words);
            let grid = Grid::new([next()?, next()?, next()?]);
            grid.examine_file(&fs::read(next_word::<String>(&mut words)?)?)
        }
        "remove" => remove(Path::new(&next_word::<String>(&mut words)?)),
        what => bail!("cannot {what}"),
    }
}

//! Where the processes of a side are, and their files: on this machine as it is, or in namespaces in
//! which GlusterFS is mounted.

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};

use super::pattern::{Grid, Points};
use crate::apart::text;
use crate::cluster::gluster;
use crate::partner::{Partner, Role, Starter, next_word};

/// The first process in the namespaces.
pub const ROLE: Role = Role { name: "memory-gluster", run: serve };

/// Where a side is.
#[derive(Clone, Debug)]
pub enum Ground {
    /// On this machine.
    Here,
    /// Where the mount is.
    Mount(Rc<RefCell<Mount>>),
}

/// GlusterFS, mounted where nobody else sees it.
#[derive(Debug)]
pub struct Mount {
    partner: Partner,
    dir: PathBuf,
}

impl Mount {
    /// Installs, starts and mounts it, or says why it cannot be had here.
    pub fn start(dir: &Path) -> Result<Result<Self, String>> {
        let started = gluster::start(ROLE.name, &[text(dir)?])?;
        Ok(started.map(|partner| Self { partner, dir: dir.join("mount") }))
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// To start processes there.
    pub fn into_ground(self) -> Ground {
        Ground::Mount(Rc::new(RefCell::new(self)))
    }

    fn order(&mut self, line: &str) -> Result<()> {
        self.partner.tell(line)?;
        let said = self.partner.hear()?;
        ensure!(said == "done", "GlusterFS: {said}");
        Ok(())
    }
}

impl Ground {
    /// Starts a process there; who keeps it, if that is nobody there.
    pub fn spawn(&self, command: &mut Command) -> Result<Option<Partner>> {
        match self {
            Self::Here => Partner::spawn(command).map(Some),
            Self::Mount(mount) => {
                let words = [command.get_program()].into_iter().chain(command.get_args());
                let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
                mount.borrow_mut().order(&format!("spawn {}", words.join(" "))).map(|()| None)
            }
        }
    }

    /// That a file there has what it should have.
    pub fn check(&self, path: &Path, points: Points) -> Result<()> {
        match self {
            Self::Here => Grid::new(points).examine_file(&fs::read(path)?),
            Self::Mount(mount) => {
                let [x, y, z] = points;
                mount.borrow_mut().order(&format!("check {x} {y} {z} {}", text(path)?))
            }
        }
    }

    /// Deletes a file there.
    pub fn remove(&self, path: &Path) -> Result<()> {
        match self {
            Self::Here => remove(path),
            Self::Mount(mount) => mount.borrow_mut().order(&format!("remove {}", text(path)?)),
        }
    }
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
    let starter = Starter::listen();
    let [dir] = words else { bail!("needs a directory") };
    if let Err(error) = gluster::start_and_mount(Path::new(dir)) {
        return starter.say(format!("{error:#}").replace('\n', " "));
    }
    starter.say("mounted")?;
    let mut keepers = Vec::new();
    loop {
        let done = obey(&starter.hear()?, &mut keepers);
        starter.say(done.map_or_else(
            |error| format!("{error:#}").replace('\n', " "),
            |()| "done".to_owned(),
        ))?;
    }
}

fn obey(line: &str, keepers: &mut Vec<Partner>) -> Result<()> {
    let mut words = line.split_whitespace();
    match next_word::<String>(&mut words)?.as_str() {
        "spawn" => {
            let mut command = Command::new(next_word::<String>(&mut words)?);
            keepers.push(Partner::spawn(command.args(words))?);
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

//! MPI on a GlusterFS mount.
//!
//! The volume has four bricks and is the one of the cluster's figures: Debian's, with all options as
//! they come, in namespaces of its own. Its daemons, the mount and the processes of MPI meet on
//! loopback there: MPI keeps what it shares in memory, and GlusterFS passes no cable, both of which
//! make them faster than on four machines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use super::mpi::Mpi;
use super::rivals::Rivals;
use super::team::{Door, Team};
use crate::apart::text;
use crate::cluster::content::Content;
use crate::cluster::gluster;
use crate::cluster::target::Target;
use crate::partner::{Partner, Role, Starter, next_word};

/// The first process within the namespaces.
pub const ROLE: Role = Role { name: "modes-gluster", run: serve };

/// A volume that is mounted.
#[derive(Debug)]
pub struct Mounted {
    partner: Partner,
    dir: PathBuf,
}

impl Mounted {
    /// Installs, starts and mounts it, or says why it cannot be had here.
    pub fn start(dir: &Path) -> Result<Result<Self, String>> {
        fs::create_dir_all(dir)?;
        let started = gluster::start(ROLE.name, &[text(dir)?])?;
        Ok(started.map(|partner| Self { partner, dir: dir.to_owned() }))
    }

    /// Starts what can be had of MPI there.
    pub fn start_mpi(&mut self, processes: usize) -> Result<Rivals> {
        let mut rivals = Rivals::default();
        for mpi in Mpi::ALL {
            let started = match mpi.build(&self.dir)? {
                Ok(program) => self.start_one(mpi, &program, mpi.processes(processes))?,
                Err(reason) => Err(reason),
            };
            rivals.add_mpi(mpi, started);
        }
        Ok(rivals)
    }

    fn start_one(&mut self, mpi: Mpi, program: &Path, size: usize) -> Result<Result<Team, String>> {
        let (name, program) = (mpi.name(), text(program)?);
        let door = Door::open(&self.dir, name)?;
        self.order(&format!("mpi {name} {program} {size} {}", door.path()?))?;
        Ok(door.gather(size, Vec::new()).map_err(|error| format!("{name}: {error:#}")))
    }

    /// Makes a file that has so many pieces.
    pub fn fill(&mut self, name: &str, piece_bytes: usize, blocks: u64) -> Result<()> {
        self.order(&format!("fill {name} {piece_bytes} {blocks}"))
    }

    /// Copies a file to where it can be read from outside.
    pub fn copy(&mut self, name: &str, to: &Path) -> Result<()> {
        self.order(&format!("copy {name} {}", text(to)?))
    }

    /// The whole path of a file, seen from within.
    pub fn path(&self, name: &str) -> Result<String> {
        Ok(text(&self.dir.join("mount").join(name))?.to_owned())
    }

    fn order(&mut self, line: &str) -> Result<()> {
        self.partner.tell(line)?;
        let said = self.partner.hear()?;
        ensure!(said == "done", "GlusterFS said {said:?}");
        Ok(())
    }
}

fn serve(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [dir] = words else { bail!("needs a directory") };
    let mount = match gluster::start_and_mount(Path::new(dir)) {
        Ok(mount) => mount,
        Err(error) => return starter.say(format!("{error:#}").replace('\n', " ")),
    };
    starter.say("mounted")?;
    let mut jobs = Vec::new();
    loop {
        let line = starter.hear()?;
        let mut words = line.split_whitespace();
        let words = &mut words;
        let what: String = next_word(words)?;
        let name: String = next_word(words)?;
        match what.as_str() {
            "mpi" => {
                let program: PathBuf = next_word(words)?;
                let (size, door): (usize, String) = (next_word(words)?, next_word(words)?);
                jobs.push(Mpi::of_name(&name)?.start(&program, size, &door)?);
            }
            "fill" => {
                let (piece_bytes, blocks): (usize, u64) = (next_word(words)?, next_word(words)?);
                let file = Target::create_plain(&mount.join(name))?;
                file.fill(&Content::new(piece_bytes), blocks * piece_bytes as u64)?;
            }
            "copy" => {
                fs::copy(mount.join(name), next_word::<String>(words)?)?;
            }
            _ => bail!("cannot {what}"),
        }
        starter.say("done")?;
    }
}

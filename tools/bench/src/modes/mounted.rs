//! MPI across machines, on GlusterFS mounts.
//!
//! Each of four machines has a daemon of GlusterFS, bricks, mounts and a rank of each job. The
//! mpirun of the first machine starts a job and reaches the others by a remote shell, as on a
//! cluster. Volumes are distributed over four bricks, one on each machine, with Debian's packages.
//!
//! There are two volumes, because with the default options shared pointers are wrong: MPI keeps one
//! in a small file under a lock, and the mounts keep showing what they have cached of it. Each job
//! runs on both, and the fastest correct one counts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::contest::PROCESSES;
use super::mpi::Mpi;
use super::peer_machine::{PeerMachine, remote_shell};
use super::rivals::Rivals;
use super::turn_processes::{TurnListener, TurnProcesses};
use crate::cluster::gluster;
use crate::namespaces::text;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole, next_word};
use crate::virtual_network;

/// The first process of these machines.
pub const ROLE: PartnerRole = PartnerRole { name: "modes-gluster", run: serve };

/// The time limit for all daemons to know each other.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A volume that all machines have mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GlusterVolume {
    /// With the default options.
    Usual,
    /// Mounts cache nothing: neither what was read nor what is to be written.
    Uncached,
}

impl GlusterVolume {
    const ALL: [Self; 2] = [Self::Usual, Self::Uncached];

    fn name(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Uncached => "uncached",
        }
    }

    /// The features of its clients that are switched off.
    fn without(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &[],
            Self::Uncached => {
                &["write-behind", "io-cache", "quick-read", "read-ahead", "stat-prefetch"]
            }
        }
    }

    /// The options of the mount.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &[],
            Self::Uncached => &["-o", "direct-io-mode=enable"],
        }
    }
}

/// Machines with mounted volumes.
#[derive(Debug)]
pub struct MountedMachines {
    partner: PartnerProcess,
    dir: PathBuf,
}

impl MountedMachines {
    /// Installs, starts and mounts GlusterFS; the inner error says why that is impossible here.
    pub fn start(dir: &Path) -> Result<Result<Self, String>> {
        fs::create_dir_all(dir)?;
        let started = gluster::start(ROLE.name, &[text(dir)?])?;
        Ok(started.map(|partner| Self { partner, dir: dir.to_owned() }))
    }

    /// Starts all MPIs that can run there.
    pub fn start_mpi(&mut self, processes: usize) -> Result<Rivals> {
        let mut rivals = Rivals::default();
        for mpi in Mpi::ALL {
            let built = mpi.build(&self.dir, "modes")?;
            for volume in GlusterVolume::ALL {
                let name = match volume {
                    GlusterVolume::Usual => mpi.name().to_owned(),
                    GlusterVolume::Uncached => format!("{}-{}", mpi.name(), volume.name()),
                };
                let started = match &built {
                    Ok(program) => {
                        let size = mpi.processes(processes);
                        self.start_one(mpi, volume, &name, program, size)?
                    }
                    Err(reason) => Err(reason.clone()),
                };
                rivals.add_mpi(&name, &self.dir.join(volume.name()), started);
            }
        }
        Ok(rivals)
    }

    fn start_one(
        &mut self,
        mpi: Mpi,
        volume: GlusterVolume,
        name: &str,
        program: &Path,
        size: usize,
    ) -> Result<Result<TurnProcesses, String>> {
        let listener = TurnListener::open(&self.dir, name)?;
        let (mpi, volume, program) = (mpi.name(), volume.name(), text(program)?);
        self.order(&format!("mpi {volume} {mpi} {program} {size} {}", listener.path()?))?;
        Ok(listener.gather(size, Vec::new()).map_err(|error| format!("{name}: {error:#}")))
    }

    /// Creates a file of this many blocks on each volume.
    pub fn fill(&mut self, name: &str, piece_bytes: usize, blocks: u64) -> Result<()> {
        GlusterVolume::ALL.into_iter().try_for_each(|volume| {
            self.order(&format!("fill {} {name} {piece_bytes} {blocks}", volume.name()))
        })
    }

    /// Reads from the bricks the file that a mount shows at a path.
    pub fn read(&self, mount: &Path, name: &str) -> Result<Vec<u8>> {
        let volume = mount.file_name().and_then(|name| name.to_str()).context("a volume")?;
        let of_brick = |number| fs::read(brick(&self.dir, number, volume).join(name)).ok();
        // It is on one of them; others may have an empty file that points to it.
        let found = (0..PROCESSES).filter_map(of_brick).max_by_key(Vec::len);
        found.with_context(|| format!("no brick of {volume} has {name}"))
    }

    fn order(&mut self, line: &str) -> Result<()> {
        self.partner.send_line(line)?;
        let said = self.partner.receive_line()?;
        ensure!(said == "done", "GlusterFS sent the line {said:?}");
        Ok(())
    }
}

fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [dir] = words else { bail!("needs a directory") };
    let dir = Path::new(dir);
    let mut machines = match start_all(dir) {
        Ok(machines) => machines,
        Err(error) => return parent.send_line(format!("{error:#}").replace('\n', " ")),
    };
    let shell = dir.join("remote-shell");
    let script = remote_shell(machines.iter().map(PeerMachine::command_prefix));
    fs::write(&shell, format!("#!/bin/sh\n{script}"))?;
    fs::set_permissions(&shell, Permissions::from_mode(0o755))?;
    parent.send_line("mounted")?;
    let mut jobs = Vec::new();
    loop {
        let line = parent.receive_line()?;
        let mut words = line.split_whitespace();
        let words = &mut words;
        let what: String = next_word(words)?;
        let mount = dir.join(next_word::<String>(words)?);
        match what.as_str() {
            "mpi" => {
                let mpi = Mpi::of_name(&next_word::<String>(words)?)?;
                let (program, size): (String, usize) = (next_word(words)?, next_word(words)?);
                let hosts: Vec<_> = (0..size).map(virtual_network::name).collect();
                let mut command = machines[0].command(mpi.launcher());
                command.args(mpi.words_across(text(&shell)?, &hosts));
                command.arg(program).arg(next_word::<String>(words)?).arg(mount);
                jobs.push(PartnerProcess::spawn(&mut command)?);
            }
            "fill" => {
                let name: String = next_word(words)?;
                let (piece_bytes, blocks) = (next_word(words)?, next_word(words)?);
                machines[0].fill(&mount.join(name), piece_bytes, blocks)?;
            }
            _ => bail!("cannot {what}"),
        }
        parent.send_line("done")?;
    }
}

/// Creates the network, starts machines, and creates and mounts the volumes.
fn start_all(dir: &Path) -> Result<Vec<PeerMachine>> {
    virtual_network::create(dir, PROCESSES)?;
    let machines = (0..PROCESSES).map(|number| PeerMachine::start(dir, number));
    let mut machines = machines.collect::<Result<Vec<_>>>()?;
    machines.iter_mut().try_for_each(PeerMachine::wait)?;
    let gluster = |machine: &PeerMachine, words: &str| {
        let words: Vec<_> = ["--mode=script"].into_iter().chain(words.split(' ')).collect();
        machine.run("gluster", &words)
    };
    let first = &machines[0];
    for number in 1..PROCESSES {
        gluster(first, &format!("peer probe {}", virtual_network::address(number)))?;
    }
    let knows_all = |machine: &PeerMachine| -> Result<bool> {
        let said = gluster(machine, "peer status")?;
        Ok(said.matches("Peer in Cluster (Connected)").count() == PROCESSES - 1)
    };
    let start = Instant::now();
    for machine in &machines {
        while !knows_all(machine)? {
            ensure!(start.elapsed() < TIME_LIMIT, "the daemons do not find each other");
            thread::sleep(Duration::from_millis(100));
        }
    }
    for volume in GlusterVolume::ALL {
        let name = volume.name();
        let mut bricks = String::new();
        for number in 0..PROCESSES {
            let brick = brick(dir, number, name);
            fs::create_dir(&brick)?;
            bricks += &format!(" {}:{}", virtual_network::address(number), text(&brick)?);
        }
        gluster(first, &format!("volume create {name}{bricks} force"))?;
        for part in volume.without() {
            gluster(first, &format!("volume set {name} performance.{part} off"))?;
        }
        gluster(first, &format!("volume start {name}"))?;
        let mount = dir.join(name);
        fs::create_dir(&mount)?;
        for (number, machine) in machines.iter().enumerate() {
            let source = format!("{}:/{name}", virtual_network::address(number));
            let words = [&["-t", "glusterfs"], volume.options(), &[&*source, text(&mount)?]];
            machine.run("mount", &words.concat())?;
        }
    }
    Ok(machines)
}

/// The brick of a machine in a volume.
fn brick(dir: &Path, number: usize, volume: &str) -> PathBuf {
    dir.join(virtual_network::name(number)).join(format!("brick-{volume}"))
}

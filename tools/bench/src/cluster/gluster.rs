//! GlusterFS as a peer: a distributed volume with four bricks, mounted with FUSE, all on loopback.
//!
//! It runs in its own namespaces: its daemons see only their own loopback and their own processes,
//! and directories of the measurement in place of `/var/lib/glusterd` and others. So it does not
//! touch the rest of the machine, and it ends, mount included, with its first process. That process
//! is this program in a role; the processes that use the mount are its children.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::workers::{WorkerJob, WorkerProcesses};
use crate::namespaces::{self, run, text};
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole};

/// The first process within the namespaces.
pub const ROLE: PartnerRole = PartnerRole { name: "cluster-gluster", run: serve };

/// An address of the loopback in the namespaces; GlusterFS does not accept 127.0.0.1.
const HOST: &str = "10.77.0.1";
const BRICKS: usize = 4;
const VOLUME: &str = "bench";
/// The time limit for the daemon to answer.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A mounted volume, and the processes that use it.
#[derive(Debug)]
pub struct Gluster {
    partner: PartnerProcess,
}

impl Gluster {
    /// Installs, starts and mounts GlusterFS; the inner error says why that is impossible here.
    pub fn start(dir: &Path, processes: usize) -> Result<Result<Self, String>> {
        let started = start(ROLE.name, &[text(dir)?, &processes.to_string()])?;
        Ok(started.map(|partner| Self { partner }))
    }

    /// Lets processes use the mounted volume, all at once.
    pub fn work(&mut self, jobs: &[WorkerJob]) -> Result<Duration> {
        self.partner.send_line(jobs.len().to_string())?;
        for job in jobs {
            self.partner.send_line(job.to_string())?;
        }
        Ok(Duration::from_nanos(self.partner.receive_value().context("GlusterFS")?))
    }
}

/// Installs GlusterFS and starts a role in new namespaces, which reports when the volume is
/// mounted; the inner error says why that is impossible here.
pub fn start(role: &str, words: &[&str]) -> Result<Result<PartnerProcess, String>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Err("no GlusterFS: needs to be root".to_owned()));
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers.sh");
    let installed = Command::new("bash").arg(&script).arg("gluster").output();
    let installed = installed.context("calling peers.sh")?;
    if !installed.status.success() {
        let said = String::from_utf8_lossy(&installed.stderr);
        let last = said.lines().last().unwrap_or("peers.sh failed");
        return Ok(Err(format!("no GlusterFS: {last}")));
    }
    let mut partner = namespaces::start(role, words)?;
    match partner.receive_line() {
        Ok(said) if said == "mounted" => Ok(Ok(partner)),
        Ok(why) => Ok(Err(format!("no GlusterFS: {why}"))),
        Err(_) => Ok(Err("no GlusterFS: namespaces are not possible here".to_owned())),
    }
}

/// In the namespaces: starts everything, then runs jobs until its parent ends it.
fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [dir, processes] = words else {
        bail!("needs a directory and a number");
    };
    let mount = match start_and_mount(Path::new(dir)) {
        Ok(mount) => mount,
        Err(error) => return parent.send_line(format!("{error:#}").replace('\n', " ")),
    };
    let mut workers = WorkerProcesses::of_directory(&mount, processes.parse()?)?;
    parent.send_line("mounted")?;
    loop {
        let count: usize = parent.receive_line()?.parse()?;
        let jobs = (0..count).map(|_| parent.receive_line()?.parse());
        let elapsed = workers.work(&jobs.collect::<Result<Vec<WorkerJob>>>()?)?;
        parent.send_line(elapsed.as_nanos().to_string())?;
    }
}

/// In new namespaces: starts the daemon, creates a volume and mounts it.
pub fn start_and_mount(dir: &Path) -> Result<PathBuf> {
    redirect_state(dir)?;
    run("ip", &["link", "set", "lo", "up"])?;
    run("ip", &["address", "add", &format!("{HOST}/32"), "dev", "lo"])?;
    start_daemon()?;
    let mut create = vec!["--mode=script", "volume", "create", VOLUME];
    let mut bricks = Vec::new();
    for number in 0..BRICKS {
        let brick = dir.join(format!("brick{number}"));
        fs::create_dir(&brick)?;
        bricks.push(format!("{HOST}:{}", text(&brick)?));
    }
    create.extend(bricks.iter().map(String::as_str));
    create.push("force");
    run("gluster", &create)?;
    run("gluster", &["--mode=script", "volume", "start", VOLUME])?;
    let mount = dir.join("mount");
    fs::create_dir(&mount)?;
    run("mount", &["-t", "glusterfs", &format!("{HOST}:/{VOLUME}"), text(&mount)?])?;
    Ok(mount)
}

/// In new namespaces: mounts directories of the measurement over those in which the daemons keep
/// their state and logs.
pub fn redirect_state(dir: &Path) -> Result<()> {
    // `unshare` has made all mounts private: only these namespaces see the ones below.
    for (own, usual) in [("state", "/var/lib/glusterd"), ("log", "/var/log/glusterfs")] {
        let own = dir.join(own);
        fs::create_dir_all(&own)?;
        fs::create_dir_all(usual)?;
        run("mount", &["--bind", text(&own)?, usual])?;
    }
    run("mount", &["-t", "tmpfs", "tmpfs", "/run"])
}

/// Starts the daemon, which ends with its namespaces, and waits until it answers.
pub fn start_daemon() -> Result<()> {
    let daemon = Command::new("glusterd").arg("--no-daemon").stdin(Stdio::null()).spawn();
    daemon.context("starting glusterd")?;
    let start = Instant::now();
    while run("gluster", &["--mode=script", "peer", "status"]).is_err() {
        ensure!(start.elapsed() < TIME_LIMIT, "glusterd does not answer within {TIME_LIMIT:?}");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

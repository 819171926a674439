//! GlusterFS as a peer: a distributed volume with four bricks, mounted with FUSE, all on loopback.
//!
//! It runs in namespaces of its own: its daemons see no network but their own loopback, no processes
//! but their own, and directories of the measurement in place of `/var/lib/glusterd` and others. So
//! nothing else on the machine meets it, and it is gone, mount included, when its first process is.
//! That process is this program in a role; those that use the mount are its children.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::workers::{Job, Workers};
use crate::apart::{self, run, text};
use crate::partner::{Partner, Role, Starter};

/// The first process within the namespaces.
pub const ROLE: Role = Role { name: "cluster-gluster", run: serve };

/// An address of the loopback within the namespaces; GlusterFS does not take 127.0.0.1.
const HOST: &str = "10.77.0.1";
const BRICKS: usize = 4;
const VOLUME: &str = "bench";
/// How long it may take until the daemon answers.
const PATIENCE: Duration = Duration::from_secs(30);

/// A volume that is mounted, and processes that use it.
#[derive(Debug)]
pub struct Gluster {
    partner: Partner,
}

impl Gluster {
    /// Installs, starts and mounts it, or says why it cannot be had here.
    pub fn start(dir: &Path, processes: usize) -> Result<Result<Self, String>> {
        let started = start(ROLE.name, &[text(dir)?, &processes.to_string()])?;
        Ok(started.map(|partner| Self { partner }))
    }

    /// Has processes do something on the mounted volume, all at once.
    pub fn work(&mut self, jobs: &[Job]) -> Result<Duration> {
        self.partner.tell(jobs.len().to_string())?;
        for job in jobs {
            self.partner.tell(job.to_string())?;
        }
        Ok(Duration::from_nanos(self.partner.hear_value().context("GlusterFS")?))
    }
}

/// Installs GlusterFS and starts a role in new namespaces, which says when the volume is mounted; or
/// says why it cannot be had here.
pub fn start(role: &str, words: &[&str]) -> Result<Result<Partner, String>> {
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
    let mut partner = apart::start(role, words)?;
    match partner.hear() {
        Ok(said) if said == "mounted" => Ok(Ok(partner)),
        Ok(why) => Ok(Err(format!("no GlusterFS: {why}"))),
        Err(_) => Ok(Err("no GlusterFS: namespaces are not possible here".to_owned())),
    }
}

/// Within the namespaces: starts everything, then does as it is told until it is ended.
fn serve(words: &[String]) -> Result<()> {
    let starter = Starter::listen();
    let [dir, processes] = words else {
        bail!("needs a directory and a number");
    };
    let mount = match start_and_mount(Path::new(dir)) {
        Ok(mount) => mount,
        Err(error) => return starter.say(format!("{error:#}").replace('\n', " ")),
    };
    let mut workers = Workers::of_directory(&mount, processes.parse()?)?;
    starter.say("mounted")?;
    loop {
        let count: usize = starter.hear()?.parse()?;
        let jobs = (0..count).map(|_| starter.hear()?.parse());
        let elapsed = workers.work(&jobs.collect::<Result<Vec<Job>>>()?)?;
        starter.say(elapsed.as_nanos().to_string())?;
    }
}

/// Within new namespaces: starts the daemon, makes a volume, and mounts it.
pub fn start_and_mount(dir: &Path) -> Result<PathBuf> {
    take_place(dir)?;
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

/// Within new namespaces: puts directories of the measurement in the place of those that the daemons
/// keep what they know and say in.
pub fn take_place(dir: &Path) -> Result<()> {
    // What is mounted from here on is seen in here only: unshare has made all mounts private.
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
        ensure!(start.elapsed() < PATIENCE, "glusterd does not answer");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

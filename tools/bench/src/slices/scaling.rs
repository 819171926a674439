//! The same slices by a whole cluster, node and caller, on one processor and on two.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pario::{Cluster, ClusterOptions};
use pario_image::{Interpolation, Plane, Volume};
use pario_server::Node;
use pario_server::config::Config;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::body::{oblique, volume};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::partner::{ParentProcess, PartnerProcess, PartnerRole};
use crate::report::Report;
use crate::turns::alternate;

/// A process with a cluster that uses a number of processors.
pub const ROLE: PartnerRole = PartnerRole { name: "slices-cores", run: serve };

const TURNS: usize = 15;
const GOAL: f64 = 1.8;
/// Two volumes, each on its own node.
const NEEDED_BYTES: u64 = 5 << 30;
/// A cache for all boxes.
const CACHE_BYTES: u64 = 2 << 30;

/// Measures the figures and reports them.
pub fn run(setting: &RunSettings, report: &mut Report) -> Result<()> {
    if let Some(reason) = setting.lacks_space(NEEDED_BYTES)? {
        report.skipped("cores", reason);
        return Ok(());
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        report.skipped("cores", "there is one processor only");
        return Ok(());
    }
    let slices: u32 = setting.choose(32, 8);
    let sites: Result<Vec<_>> =
        [2, 1].into_iter().map(|count| start(setting, count, slices)).collect();
    let [mut two, mut one] =
        <[PartnerProcess; 2]>::try_from(sites?).ok().context("two were started")?;
    let turn = |site: &mut PartnerProcess| -> Result<Duration> {
        site.send_line("go")?;
        Ok(Duration::from_secs_f64(site.receive_value()?))
    };
    let compared = alternate(TURNS, &mut || turn(&mut two), &mut || turn(&mut one))?;
    let voxels = f64::from(slices) * 512.0 * 512.0;
    eprintln!(
        "  one processor: {:.0} million voxels per second, all included",
        voxels / compared.theirs_s / 1e6
    );
    report.measured("cores", compared, Quantity::Events(slices.into()), GOAL);
    Ok(())
}

/// Starts a process, which creates its volume.
fn start(setting: &RunSettings, processors: usize, slices: u32) -> Result<PartnerProcess> {
    let dir = setting.subdir(&format!("cores-{processors}"))?;
    let dir = dir.to_str().context("the path is text")?.to_owned();
    let size = if setting.quick { "quick" } else { "full" };
    let words = [dir, processors.to_string(), slices.to_string(), size.to_owned()];
    let mut site = PartnerProcess::start(ROLE.name, &words)?;
    ensure!(site.receive_line()? == "ready", "a cluster has not started");
    Ok(site)
}

fn serve(words: &[String]) -> Result<()> {
    let parent = ParentProcess::listen();
    let [dir, processors, slices, size] = words else { bail!("four words are expected") };
    let setting = RunSettings { quick: size == "quick", dir: dir.into() };
    let (processors, slices): (usize, u32) = (processors.parse()?, slices.parse()?);
    // Threads that start later inherit the setting.
    keep_to(processors)?;
    let (_node, cluster) = site(&setting, processors)?;
    let volume = volume(&cluster, &setting)?;
    let planes: Result<Vec<Plane>> = (0..slices).map(|number| oblique(&setting, number)).collect();
    let planes = planes?;
    take(&volume, &planes)?;
    parent.send_line("ready")?;
    loop {
        parent.receive_line()?;
        parent.send_line(take(&volume, &planes)?.as_secs_f64().to_string())?;
    }
}

fn take(volume: &Volume, planes: &[Plane]) -> Result<Duration> {
    let began = Instant::now();
    for taken in volume.series(planes.iter().copied(), Interpolation::Nearest) {
        taken?;
    }
    Ok(began.elapsed())
}

/// Limits this process to a number of its processors.
fn keep_to(processors: usize) -> Result<()> {
    let all = sched_getaffinity(None).context("asking for the processors")?;
    let mut few = CpuSet::new();
    let mine = (0..CpuSet::MAX_CPU).filter(|number| all.is_set(*number));
    mine.take(processors).for_each(|number| few.set(number));
    sched_setaffinity(None, &few).context("choosing processors")
}

/// A node with a compute thread for each processor.
fn site(setting: &RunSettings, threads: usize) -> Result<(Node, Cluster)> {
    let dir = setting.subdir("node")?;
    let mut config = Config::alone(&dir);
    let node = &mut config.nodes[0];
    node.compute_threads = threads;
    node.cache_bytes = CACHE_BYTES;
    node.socket = setting.dir.join("s");
    let address = format!("unix:{}", node.socket.display());
    let node = Node::new().operations(pario_image::operations()).start_beside(&config, "local")?;
    let cluster = Cluster::connect_with(&address, ClusterOptions::default())?;
    Ok((node, cluster))
}

//! The case of the thesis: many slow disks on one to five nodes, and slices across the diagonal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pario::status::ProcessProgress;
use pario::{Cluster, ClusterOptions};
use pario_image::{BoxGrid, Cut, Interpolation, Pixel, Plane, Volume, VolumeOptions};

use super::node::{self, Nodes};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::statistics::median;
use crate::turns::Comparison;

/// Nodes and disks, as in the thesis: up to twelve disks at a node.
pub const SITES: [(usize, usize); 6] = [(1, 3), (1, 6), (1, 12), (2, 24), (3, 36), (5, 60)];
/// The disks of the thesis: 13.8 ms until an access begins, then 3.5 MB/s.
const LATENCY_S: f64 = 0.0138;
const BYTES_PER_SECOND: f64 = 3.5e6;
/// The voxels; along z they are a third as many as along x and y.
const SIDES: [u64; 3] = [768, 768, 256];
const QUICK_SIDES: [u64; 3] = [192, 192, 64];
const SPACING: [f64; 3] = [1.0, 1.0, 3.0];
const CORE: [u64; 3] = [32, 32, 16];
const GOAL: f64 = 0.96;
/// The longest time of a turn at the disks' bound. At the end of a series one disk is the last, and
/// the others are idle. The longer the series, the less that counts, as for a user who looks at
/// many slices.
const TURN_S: f64 = 30.0;
const QUICK_TURN_S: f64 = 0.3;
/// The numbers of disks in quick runs.
const QUICK_DISKS: [usize; 2] = [24, 60];
const TURNS: usize = 3;
/// The distance of the first and last slice from the middle of the volume, and between two slices.
const REACH: f64 = 200.0;
const STEP: f64 = 7.0;
const NEEDED_BYTES: u64 = 5 << 30;
/// The cache of each node, in the figure that has one, as in the thesis.
const CACHE_BYTES: u64 = 25 << 20;

/// A slice across the diagonal, at a distance from the middle of the volume.
fn plane(setting: &RunSettings, away: f64) -> Result<Plane> {
    let unit = 1.0 / 3.0f64.sqrt();
    let (middle, reach, side) = setting.choose((384.0, 1.0, 512), (96.0, 0.25, 128));
    let place = [middle + away * reach * unit; 3];
    Ok(Plane::through(place).normal([1.0; 3]).size(side, side).in_volume(SPACING)?)
}

/// The boxes that a slice intersects.
fn boxes(volume: &Volume, plane: &Plane) -> Result<Vec<pario_proto::TilePosition>> {
    let tiles = volume.tiles();
    let grid = BoxGrid::new(tiles.image(), tiles.tile(), volume.description().overlap)?;
    Ok(Cut::new(*plane, grid, Pixel::RGB, Interpolation::Nearest)?.boxes())
}

/// The time that a disk of the thesis takes for a box.
fn service_s() -> f64 {
    let bytes = 32.0 * 32.0 * 17.0 * 3.0;
    LATENCY_S + bytes / BYTES_PER_SECOND
}

/// Measures slices per second from slow disks without a cache, against the bound of the disks.
pub fn run(
    setting: &RunSettings,
    report: &mut Report,
    (nodes, disks): (usize, usize),
) -> Result<()> {
    let figure = format!("disks-{disks}");
    if setting.quick && !QUICK_DISKS.contains(&disks) {
        report.skipped(&figure, "only in full runs: each takes some seconds more");
        return Ok(());
    }
    if let Some(reason) = setting.lacks_space(NEEDED_BYTES)? {
        report.skipped(&figure, reason);
        return Ok(());
    }
    let dir = setting.subdir(&figure)?;
    fill(setting, &dir, nodes, disks)?;
    let site = Nodes::start(&dir, &configuration(&dir, nodes, disks, Some(0))?, nodes)?;
    let cluster = connect(&dir)?;
    let volume = Volume::open(&cluster, "/body")?;
    // Opens the subfiles, and reads their indices.
    volume.slice_of(&plane(setting, 0.0)?, Interpolation::Nearest, &[])?;
    let mut away = -REACH;
    let turns: Result<Vec<DiskTurn>> =
        (0..TURNS).map(|_| turn(setting, &volume, disks, &mut away)).collect();
    let turns = turns?;
    let of_all = |part: fn(&DiskTurn) -> f64| turns.iter().map(part).collect::<Vec<f64>>();
    let compared = Comparison::new(&of_all(|turn| turn.ours_s), &of_all(|turn| turn.bound_s));
    let even = median(&of_all(|turn| turn.even));
    eprintln!("  a disk has {even:.3} of the work of the busiest one, on average");
    report.measured(&figure, compared, Quantity::Events(1.0), GOAL);
    drop((volume, cluster, site));
    fs::remove_dir_all(&dir).context("removing the disks")
}

/// The measurements of some slices.
struct DiskTurn {
    /// Seconds per slice.
    ours_s: f64,
    /// The seconds that the disks need for a slice if none of them is ever idle.
    bound_s: f64,
    /// The load of an average disk, relative to the busiest one.
    even: f64,
}

/// Takes slices one after the other, until the end of the series or the time limit of a turn; the
/// next turn goes on there.
fn turn(setting: &RunSettings, volume: &Volume, disks: usize, away: &mut f64) -> Result<DiskTurn> {
    let mut planes = Vec::new();
    let mut loads = BTreeMap::new();
    let mut bound_s = 0.0;
    if *away > REACH {
        *away = -REACH;
    }
    while bound_s < setting.choose(TURN_S, QUICK_TURN_S) && *away <= REACH {
        let next = plane(setting, *away)?;
        *away += STEP;
        let met = boxes(volume, &next)?;
        for tile in &met {
            *loads.entry(volume.tiles().locate(*tile)?.subfile.0).or_insert(0u32) += 1;
        }
        #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
        let (met, disks) = (met.len() as f64, disks as f64);
        bound_s += met * service_s() / disks;
        planes.push(next);
    }
    #[expect(clippy::cast_precision_loss, reason = "some dozens")]
    let (count, disks) = (planes.len() as f64, disks as f64);
    let (all, most) = (loads.values().sum::<u32>(), loads.values().max().copied());
    let even = f64::from(all) / disks / f64::from(most.unwrap_or(1));
    let began = Instant::now();
    for taken in volume.series(planes, Interpolation::Nearest) {
        taken?;
    }
    let ours_s = began.elapsed().as_secs_f64() / count;
    Ok(DiskTurn { ours_s, bound_s: bound_s / count, even })
}

/// Measures how many extents come from a cache of 25 MB per node, against how many could.
pub fn cached(setting: &RunSettings, report: &mut Report) -> Result<()> {
    for nodes in [1, 5] {
        let figure = format!("cache-{nodes}");
        let dir = setting.subdir(&figure)?;
        fill(setting, &dir, nodes, nodes * 3)?;
        let configuration = configuration_of(&dir, nodes, nodes * 3, Some(CACHE_BYTES), None)?;
        let site = Nodes::start(&dir, &configuration, nodes)?;
        let cluster = connect(&dir)?;
        let volume = Volume::open(&cluster, "/body")?;
        let slices = setting.choose(200, 60);
        let mut seen = BTreeSet::new();
        let (mut found, mut all) = (0u64, ProcessProgress::default());
        for number in 0..slices {
            let plane = plane(setting, f64::from(number) - 100.0)?;
            let met = boxes(&volume, &plane)?;
            found += met.len() as u64;
            seen.extend(met.iter().map(|tile| (tile.z, tile.y, tile.x)));
            all.add(&volume.slice_of(&plane, Interpolation::Nearest, &[])?.1.progress);
        }
        #[expect(clippy::cast_precision_loss, reason = "some thousands")]
        let (rate, best) = (
            all.cache_hits as f64 / all.found.max(1) as f64,
            1.0 - seen.len() as f64 / found.max(1) as f64,
        );
        let compared = Comparison { ours_s: rate, theirs_s: best, ratio: rate / best, spread: 0.0 };
        report.measured(&figure, compared, Quantity::Amount("hits"), 0.99);
        drop((volume, cluster, site));
        fs::remove_dir_all(&dir).context("removing the disks")?;
    }
    Ok(())
}

/// Creates the volume while the disks have their real speed.
fn fill(setting: &RunSettings, dir: &Path, nodes: usize, disks: usize) -> Result<()> {
    let configuration = configuration_of(dir, nodes, disks, None, None)?;
    let site = Nodes::start(dir, &configuration, nodes)?;
    let cluster = connect(dir)?;
    let options =
        VolumeOptions::new(setting.choose(SIDES, QUICK_SIDES), Pixel::RGB).spacing(SPACING);
    let volume = options.boxes(CORE, [false, false, true]).create(&cluster, "/body")?;
    volume.generate(7)?;
    volume.sync()?;
    drop((volume, cluster, site));
    Ok(())
}

fn configuration(dir: &Path, nodes: usize, disks: usize, cache: Option<u64>) -> Result<PathBuf> {
    let pace = format!(", latency_ms = {}, mb_per_s = {}", LATENCY_S * 1e3, BYTES_PER_SECOND / 1e6);
    configuration_of(dir, nodes, disks, cache, Some(&pace))
}

/// The configuration file of a cluster on this machine. The ports stay the same.
pub fn configuration_of(
    dir: &Path,
    nodes: usize,
    disks: usize,
    cache_bytes: Option<u64>,
    pace: Option<&str>,
) -> Result<PathBuf> {
    let ports = dir.join("ports");
    if !ports.exists() {
        let free: std::io::Result<Vec<TcpListener>> =
            (0..nodes).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
        let numbers: Result<Vec<String>> =
            free?.iter().map(|listener| Ok(listener.local_addr()?.port().to_string())).collect();
        fs::write(&ports, numbers?.join(" "))?;
        node::write_key(dir)?;
    }
    let ports = fs::read_to_string(&ports)?;
    let place = dir.display();
    let mut text = format!("name = \"slices\"\nkey_file = \"{place}/key\"\n");
    for (number, port) in ports.split(' ').enumerate() {
        let paths: Vec<String> = (0..disks / nodes)
            .map(|disk| {
                let path = format!("path = \"{place}/n{number}/disk{disk}\"");
                format!("{{ {path}{} }}", pace.unwrap_or(""))
            })
            .collect();
        text += &format!(
            "\n[nodes.n{number}]\nlisten = \"127.0.0.1:{port}\"\nsocket = \"{place}/n{number}.s\"\n\
             data = \"{place}/n{number}\"\ndisks = [{}]\n",
            paths.join(", ")
        );
        if let Some(bytes) = cache_bytes {
            text += &format!("cache = \"{bytes}B\"\n");
        }
    }
    let path = dir.join("cluster.toml");
    fs::write(&path, text)?;
    Ok(path)
}

/// Connects to such a cluster when all nodes have joined.
pub fn connect(dir: &Path) -> Result<Cluster> {
    let ports = fs::read_to_string(dir.join("ports"))?;
    let first = ports.split(' ').next().context("there is a node")?;
    let nodes = ports.split(' ').count();
    let options =
        || ClusterOptions { key_file: Some(dir.join("key")), ..ClusterOptions::default() };
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let cluster = Cluster::connect_with(&format!("tcp:127.0.0.1:{first}"), options())?;
        let known = cluster.map().nodes.iter().filter(|node| !node.disks.is_empty()).count();
        if known == nodes {
            return Ok(cluster);
        }
        anyhow::ensure!(Instant::now() < deadline, "not all nodes have joined");
        std::thread::sleep(Duration::from_millis(20));
    }
}

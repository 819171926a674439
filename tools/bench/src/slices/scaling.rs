//! The same slices by one compute thread and by two.

use std::time::{Duration, Instant};

use anyhow::Result;
use pario::{Cluster, ClusterOptions};
use pario_image::{Interpolation, Plane};
use pario_server::Node;
use pario_server::config::Config;

use super::body::{oblique, volume};
use crate::area::Setting;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

const TURNS: usize = 15;
const GOAL: f64 = 1.8;
/// Two volumes, each on a node of its own.
const NEEDED_BYTES: u64 = 5 << 30;

/// Measures and reports.
pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    if let Some(reason) = setting.lacks_space(NEEDED_BYTES)? {
        report.skipped("cores", reason);
        return Ok(());
    }
    let slices = setting.choose(20, 5);
    let sites: Result<Vec<_>> = [2, 1].into_iter().map(|threads| site(setting, threads)).collect();
    let sites = sites?;
    let turn = |number: usize| -> Result<Duration> {
        let volume = volume(&sites[number].1)?;
        let planes: Result<Vec<Plane>, _> =
            (0..slices).map(|number| oblique(number).in_volume([1.0; 3])).collect();
        let began = Instant::now();
        for taken in volume.series(planes?, Interpolation::Nearest) {
            taken?;
        }
        Ok(began.elapsed())
    };
    let compared = alternate(TURNS, &mut || turn(0), &mut || turn(1))?;
    let voxels = f64::from(slices) * 512.0 * 512.0;
    eprintln!(
        "one compute thread: {:.0} million voxels per second, all included",
        voxels / compared.theirs_s / 1e6
    );
    report.measured("cores", compared, Quantity::Events(slices.into()), GOAL);
    Ok(())
}

fn site(setting: &Setting, threads: usize) -> Result<(Node, Cluster)> {
    let dir = setting.subdir(&format!("cores-{threads}"))?;
    let mut config = Config::alone(&dir);
    let node = &mut config.nodes[0];
    node.compute_threads = threads;
    node.cache_bytes = 2 << 30;
    node.socket = dir.join("s");
    let address = format!("unix:{}", node.socket.display());
    let node = Node::new().operations(pario_image::operations()).start_beside(&config, "local")?;
    let cluster = Cluster::connect_with(&address, ClusterOptions::default())?;
    Ok((node, cluster))
}

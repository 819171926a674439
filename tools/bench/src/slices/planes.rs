//! Slices in all directions, from memory and from the disk.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pario::Cluster;
use pario_image::{Interpolation, Plane, Volume};

use super::body::{centre, check, oblique, request_line, sides, volume};
use super::python::{PEERS, Python, picture};
use crate::area::RunSettings;
use crate::figure::Quantity;
use crate::report::Report;
use crate::turns::alternate;

/// Turns of each figure.
const TURNS: usize = 15;
/// Our volume, two copies of theirs, and some room.
const NEEDED_BYTES: u64 = 6 << 30;

/// The ratio to reach against each peer.
const WARM_GOALS: [(&str, Option<f64>); 3] =
    [("tensorstore", Some(10.0)), ("zarr", None), ("memmap", Some(4.0))];
const COLD_GOAL: f64 = 5.0;
const ALIGNED_GOAL: f64 = 3.0;

/// Prepares both sides; `None` if that is impossible here, which it reports.
fn both(
    setting: &RunSettings,
    report: &mut Report,
    figures: &[String],
) -> Result<Option<(Cluster, Python)>> {
    let skip = |report: &mut Report, reason: &str| {
        for figure in figures {
            report.skipped(figure, reason);
        }
    };
    if let Some(reason) = setting.lacks_space(NEEDED_BYTES)? {
        skip(report, &reason);
        return Ok(None);
    }
    let dir = setting.dir.join("slices");
    std::fs::create_dir_all(&dir)?;
    match Python::start(setting, &dir)? {
        Ok(python) => Ok(Some((Cluster::embedded(dir.join("cluster"))?, python))),
        Err(reason) => {
            skip(report, &reason);
            Ok(None)
        }
    }
}

fn names(family: &str, peers: &[&str]) -> Vec<String> {
    peers.iter().map(|peer| format!("{family}-{peer}")).collect()
}

fn take(volume: &Volume, plane: &Plane) -> Result<Duration> {
    let began = Instant::now();
    let (slice, _) = volume.slice_of(plane, Interpolation::Nearest, &[])?;
    let took = began.elapsed();
    drop(slice);
    Ok(took)
}

/// Measures slices from memory: the same slices again and again.
pub fn warm(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let Some((cluster, mut python)) = both(setting, report, &names("warm", &PEERS))? else {
        return Ok(());
    };
    let volume = volume(&cluster, setting)?;
    let dir = setting.dir.join("slices");
    let slices = setting.choose(4, 2);
    for (peer, goal) in WARM_GOALS {
        if setting.quick && goal.is_none() {
            report.skipped(&format!("warm-{peer}"), "only in full runs: it is slow");
            continue;
        }
        let first = oblique(setting, 0)?;
        python.take(&format!("{peer} {} {}", request_line(&first), picture(&dir).display()))?;
        let ours = volume.slice_of(&first, Interpolation::Nearest, &[])?.0;
        check(ours.data(), &picture(&dir)).with_context(|| format!("comparing with {peer}"))?;
        let mut our_turn =
            || (0..slices).map(|n| take(&volume, &oblique(setting, n)?)).sum::<Result<_>>();
        let mut their_turn = || {
            (0..slices)
                .map(|n| python.take(&format!("{peer} {}", request_line(&oblique(setting, n)?))))
                .sum()
        };
        let compared = alternate(TURNS, &mut our_turn, &mut their_turn)?;
        report.measured(&format!("warm-{peer}"), compared, Quantity::Events(slices.into()), goal);
    }
    Ok(())
}

/// Measures slices across the axes, from memory.
pub fn aligned(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let axes = ["x", "y", "z"];
    let Some((cluster, mut python)) = both(setting, report, &names("aligned", &axes))? else {
        return Ok(());
    };
    let volume = volume(&cluster, setting)?;
    let centre = centre(setting);
    let [x, y, z] = sides(setting);
    // The part of 512 x 512 pixels that exists.
    let [across, deep] = [x, z].map(|side| side.min(512));
    let sizes = [Plane::sagittal(centre), Plane::coronal(centre), Plane::axial(centre)];
    for (axis, slice) in axes.into_iter().zip(sizes) {
        let first = (x - across) / 2;
        let (at, second, height) = match axis {
            "z" => (z / 2, first, across),
            _ => (y / 2, 0, deep),
        };
        let plane = slice.size(u32::try_from(across)?, u32::try_from(height)?);
        let plane = plane.in_volume([1.0; 3])?;
        let request = format!("tensorstore plane {axis} {at} {first} {second} {across} {height}");
        let mut ours = || take(&volume, &plane);
        let mut theirs = || python.take(&request);
        let compared = alternate(TURNS, &mut ours, &mut theirs)?;
        let name = format!("aligned-{axis}");
        report.measured(&name, compared, Quantity::Events(1.0), ALIGNED_GOAL);
    }
    Ok(())
}

/// Measures slices from the disk: another slice each time, after all caches were dropped.
pub fn cold(setting: &RunSettings, report: &mut Report) -> Result<()> {
    let figures = names("cold", &PEERS);
    if setting.quick {
        for figure in &figures {
            report.skipped(figure, "only in full runs: each turn starts Python anew");
        }
        return Ok(());
    }
    if let Err(error) = drop_caches() {
        for figure in &figures {
            report.skipped(figure, format!("the page cache cannot be dropped: {error}"));
        }
        return Ok(());
    }
    for peer in PEERS {
        let Some((cluster, mut python)) = both(setting, report, &names("cold", &[peer]))? else {
            return Ok(());
        };
        volume(&cluster, setting)?;
        let mut ours = Some(cluster);
        let place = setting.dir.join("slices/cluster");
        let (mut our_number, mut their_number) = (0, 0);
        let mut our_turn = || {
            // Its own cache ends with it.
            ours.take();
            let cluster = Cluster::embedded(&place)?;
            let volume = volume(&cluster, setting)?;
            drop_caches()?;
            our_number += 13;
            let took = take(&volume, &oblique(setting, our_number)?);
            drop(volume);
            ours = Some(cluster);
            took
        };
        let dir = setting.dir.join("slices");
        let mut their_turn = || {
            python = match Python::start(setting, &dir)? {
                Ok(python) => python,
                Err(reason) => anyhow::bail!(reason),
            };
            drop_caches()?;
            their_number += 13;
            python.take(&format!("{peer} {}", request_line(&oblique(setting, their_number)?)))
        };
        let compared = alternate(TURNS, &mut our_turn, &mut their_turn)?;
        report.measured(&format!("cold-{peer}"), compared, Quantity::Events(1.0), COLD_GOAL);
    }
    Ok(())
}

/// Makes the kernel drop its page cache; only root may.
fn drop_caches() -> std::io::Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}
